"""How long each step of a recall took."""

import time
from types import TracebackType

from semrouter_memory.model import StepRun


class StepTimer:
    """Durations of the steps that ran, in milliseconds; a step that ran twice counts with its sum.

    Attributes:
        runs: each run by itself, in the order in which they ended.
    """

    __slots__ = ("ms", "runs")

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}
        self.runs: list[StepRun] = []

    def measure(self, name: str) -> "_Measure":
        """Use it with `with`."""
        return _Measure(self, name)


class _Measure:
    """A class, because a generator costs three times as much, and recall has half a dozen steps."""

    __slots__ = ("_name", "_started", "_timer")

    def __init__(self, timer: StepTimer, name: str) -> None:
        self._timer = timer
        self._name = name

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = time.perf_counter()
        timer, name = self._timer, self._name
        timer.ms[name] = timer.ms.get(name, 0.0) + (ended - self._started) * 1000
        timer.runs.append(StepRun(name, self._started, ended))
