"""When something was, as a question or a memory says it: "last week", "in May", 上个月. Pure.

`patterns` finds expressions, `readings` makes periods of them.
"""

from semrouter_memory.recall.time_expressions.patterns import period_of, with_dates

__all__ = ["period_of", "with_dates"]
