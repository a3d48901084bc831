"""Which exchanges the turns of a session came from, as far as this process accepted them itself. Bounded."""

from collections import OrderedDict
from dataclasses import dataclass, field

from opentelemetry.trace import SpanContext

MAX_SESSIONS = 4096
MAX_SPANS = 16
"""Of one session; the last ones."""


@dataclass(slots=True)
class _Origin:
    span: SpanContext
    read_by: set[str] = field(default_factory=set)


class Origins:
    """Spans by session; the session that was added to longest ago is forgotten first."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, list[_Origin]] = OrderedDict()

    def add(self, session_id: str, span: SpanContext) -> None:
        if not span.is_valid:
            return
        origins = self._sessions.setdefault(session_id, [])
        origins.append(_Origin(span))
        del origins[:-MAX_SPANS]
        self._sessions.move_to_end(session_id)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)

    def unread(self, session_id: str, extractor: str) -> list[SpanContext]:
        """Those of the session that this extractor was not given yet: quotes and model read a turn at different times."""
        found = [origin for origin in self._sessions.get(session_id, ()) if extractor not in origin.read_by]
        for origin in found:
            origin.read_by.add(extractor)
        return [origin.span for origin in found]
