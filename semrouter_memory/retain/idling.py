"""For how long sessions have been idle, whatever happens to the system's clock.

Strategy. When a session's last turn is seen first, its age is read from the clock: a process that starts has nothing else.
From then on the monotonic clock counts. So a session neither ends nor stays open because the clock was set. A turn from
the future, which a clock has given that was set back since, is as old as the time for which it has been known.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from semrouter_memory.model import SessionKey

_MAX_SESSIONS = 16_384


@dataclass(frozen=True, slots=True)
class _Seen:
    """A session's last turn, its age when it was seen first, and when that was."""

    last_observed_at: datetime
    age: timedelta
    seen: float


class Idling:
    """Remembers the sessions that were looked at last.

    Args:
        monotonic: seconds on a monotonic clock.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._seen: OrderedDict[SessionKey, _Seen] = OrderedDict()

    def since(self, key: SessionKey, last_observed_at: datetime, now: datetime) -> datetime:
        """When the session fell idle, by the clock as it stands now.

        Args:
            last_observed_at: when its last turn was said, by the clock as it stood then.
        """
        known = self._seen.pop(key, None)
        if known is None or known.last_observed_at < last_observed_at:
            known = _Seen(last_observed_at, max(now - last_observed_at, timedelta()), self._monotonic())
        self._seen[key] = known
        if len(self._seen) > _MAX_SESSIONS:
            self._seen.popitem(last=False)
        return now - known.age - timedelta(seconds=self._monotonic() - known.seen)
