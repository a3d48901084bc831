"""How long a failing dependency is left alone: back-off, cool-down and circuit, to which callers pass times and jitter.

Strategy. A `Backoff` computes the delay after failures in a row, for whatever is retried. A `Cooldown` is a pause by the wall
clock, for work whose retry is planned. A `Circuit` decides for every caller of one dependency whether calls are made. What
repeats until it is cancelled asks `is_cancelled` each time.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

_MAX_DOUBLINGS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Delays that double with each failure in a row.

    Attributes:
        first: the first delay, in seconds.
        longest: the upper bound on a delay, in seconds.
        spread: the part of a delay that jitter may remove, so that replicas and sessions do not retry together.
    """

    first: float
    longest: float
    spread: float = 0.25

    def delay(self, failures: int, jitter: float) -> float:
        """Seconds to wait after a failure.

        Args:
            failures: failures in a row before this one.
            jitter: 0..1.
        """
        return min(self.first * (1 << min(failures, _MAX_DOUBLINGS)), self.longest) * (1 - self.spread * jitter)


@dataclass(frozen=True, slots=True)
class Cooldown:
    """A pause. It ends early when the clock is set back to before its start, because its real length is unknown then."""

    start: datetime
    end: datetime

    @classmethod
    def of(cls, pause: timedelta, now: datetime) -> "Cooldown":
        return cls(now, now + pause)

    def active(self, now: datetime) -> bool:
        return self.start <= now < self.end


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a call may be made.

    Attributes:
        probe: this call finds out whether the dependency is available again.
        wait_seconds: for a call that is not allowed: when to try again.
    """

    allowed: bool
    probe: bool = False
    wait_seconds: float = 0.0


class Circuit:
    """Admits calls to one dependency, by the outcome of earlier calls.

    Closed: every call is admitted. After `failures` failures in a row it opens: no call is admitted until a delay is over,
    then one, the probe. A probe that succeeds closes the circuit, one that fails opens it again, for longer. A call that
    began before the circuit opened changes nothing when it fails. A closed circuit may be suspect: calls are admitted, but
    a caller that can do without should.

    Every admitted call reports `succeeded`, `failed` or `abandoned`. Times are monotonic seconds.
    """

    def __init__(self, backoff: Backoff, *, failures: int = 1) -> None:
        self._backoff = backoff
        self._threshold = failures
        self._failures = 0
        self._openings = 0
        self._open_until: float | None = None
        self._suspect = False
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    @property
    def is_suspect(self) -> bool:
        return self._suspect

    def admit(self, now: float) -> Admission:
        if self._open_until is None:
            return Admission(allowed=True)
        if wait_seconds := self.wait_seconds(now):
            return Admission(allowed=False, wait_seconds=wait_seconds)
        self._probing = True
        return Admission(allowed=True, probe=True)

    def wait_seconds(self, now: float) -> float:
        """Seconds until a call is admitted; while a probe is in flight, the first delay."""
        if self._open_until is None:
            return 0.0
        return self._backoff.first if self._probing else max(self._open_until - now, 0.0)

    def suspect(self) -> None:
        """A call took too long: until the next report, the dependency may be unavailable."""
        self._suspect = not self.is_open

    def succeeded(self) -> None:
        """The dependency answered a call, whether it was the probe or not."""
        self._failures = self._openings = 0
        self._open_until, self._probing, self._suspect = None, False, False

    def failed(self, now: float, *, jitter: float, probe: bool = False) -> None:
        """The dependency did not serve a call."""
        if probe:
            self._probing = False
        elif self.is_open:
            return
        self._failures += 1
        if probe or self._failures >= self._threshold:
            self._open_until = now + self._backoff.delay(self._openings, jitter)
            self._openings += 1
            self._suspect = False

    def late(self, now: float, *, jitter: float) -> None:
        """The caller of a call did not wait for its outcome, whatever the call itself reports then."""
        self.failed(now, jitter=jitter, probe=self._open_until is not None and self._open_until <= now)

    def abandoned(self, *, probe: bool) -> None:
        """The call was cancelled before its outcome was known: another one may probe."""
        if probe:
            self._probing = False


def is_cancelled() -> bool:
    """Whether the current task was cancelled, even if a library has swallowed the `CancelledError`.

    pymilvus calls `asyncio.wait_for`, which until Python 3.12 returns as if nothing had happened when its caller is cancelled
    while its work ends (python/cpython#86296).
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
