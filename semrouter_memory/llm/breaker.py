"""When a model's endpoint is left alone. Pure: times are monotonic seconds that the caller reads.

Strategy. Closed: every call passes, and failures in a row are counted. After so many the circuit opens: no call passes
until a pause is over. Then one call, the probe, passes to see whether the endpoint is back: success closes the circuit,
failure opens it again for twice as long. A call that began before the circuit opened tells nothing new when it fails.
"""

from dataclasses import dataclass

_MAX_DOUBLINGS = 30
_SPREAD = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The settings of a circuit.

    Attributes:
        failures: failures in a row that open it.
        first_seconds: the first pause; doubled at each failed probe.
        longest_seconds: the longest pause.
    """

    failures: int
    first_seconds: float
    longest_seconds: float


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a call may be made.

    Attributes:
        probe: it is the one call that finds out whether the endpoint is back.
        wait_seconds: for a call that may not: when to ask again.
    """

    allowed: bool
    probe: bool = False
    wait_seconds: float = 0.0


class Breaker:
    """The state of one circuit. Whoever is admitted reports back: `succeeded`, `failed` or `abandoned`."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._failures = 0
        self._pauses = 0
        self._open_until: float | None = None
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._open_until is not None

    @property
    def longest_seconds(self) -> float:
        return self._limits.longest_seconds

    def admit(self, now: float) -> Admission:
        if self._open_until is None:
            return Admission(allowed=True)
        if wait_seconds := self.wait_seconds(now):
            return Admission(allowed=False, wait_seconds=wait_seconds)
        self._probing = True
        return Admission(allowed=True, probe=True)

    def wait_seconds(self, now: float) -> float:
        """How long no call passes; 0 when one may. While a probe is out nobody knows: the first pause."""
        if self._open_until is None:
            return 0.0
        return self._limits.first_seconds if self._probing else max(self._open_until - now, 0.0)

    def succeeded(self) -> None:
        """The endpoint answered; whichever call it was, it is back."""
        self._failures = self._pauses = 0
        self._open_until, self._probing = None, False

    def failed(self, now: float, *, probe: bool, jitter: float) -> None:
        """The endpoint did not answer.

        Args:
            jitter: 0..1; takes away up to a quarter of the pause, so that replicas do not return together.
        """
        if probe:
            self._probing = False
        elif self.is_open:
            return
        self._failures += 1
        if probe or self._failures >= self._limits.failures:
            self._open(now, jitter)

    def abandoned(self, *, probe: bool) -> None:
        """The call was cancelled before anything was known: another one may probe."""
        if probe:
            self._probing = False

    def _open(self, now: float, jitter: float) -> None:
        pause = self._limits.first_seconds * (1 << min(self._pauses, _MAX_DOUBLINGS))
        self._open_until = now + min(pause, self._limits.longest_seconds) * (1 - _SPREAD * jitter)
        self._pauses += 1
