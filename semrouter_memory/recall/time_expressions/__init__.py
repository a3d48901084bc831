"""When something was, as a question says it: "last week", "in May", 上个月. Pure.

`patterns` finds expressions, `readings` makes periods of them.
"""

from semrouter_memory.recall.time_expressions.patterns import period_of
from semrouter_memory.recall.time_expressions.readings import Period

__all__ = ["Period", "period_of"]
