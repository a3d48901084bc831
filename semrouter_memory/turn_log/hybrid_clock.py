"""The time of what is said and deleted: the system's, and never before what came before.

Strategy. A deletion covers what was said before it, so the order of the two must not depend on a clock that can be set.
Hence a hybrid logical clock: where the system's clock stands before the latest time that the log knows of, times go on
from that one, a microsecond each. The log stores the latest time with every turn and every deletion, and a deletion is
moved up to it. So it covers all that was accepted before it, and what is said after it is later than it, also when the
clock was set back in between, was wrong by years, or is another replica's.

What only measures (leases, back-offs, ages) takes the system's time: these times may stand still for as long as the
clock was wrong. A process learns of another one's times when it looks for work, about once a second.
"""

import threading
from datetime import datetime

from semrouter_memory.databases import micros, moment
from semrouter_memory.ports import Clock


class HybridClock:
    """One process's; threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._latest = 0
        self._lock = threading.Lock()

    @property
    def latest(self) -> int:
        """The latest time that is known, in microseconds since 1970."""
        return self._latest

    def now(self) -> datetime:
        with self._lock:
            system = micros(self._clock.now())
            self._latest = system if system >= self._latest else self._latest + 1
            return moment(self._latest)

    def observe(self, time: int) -> None:
        """From now on, times are not before that one, which another process or the log knows of."""
        with self._lock:
            self._latest = max(self._latest, time)

    def pass_deletion(self, time: int) -> None:
        """From now on, times are later than that of a deletion."""
        self.observe(time + 1)
