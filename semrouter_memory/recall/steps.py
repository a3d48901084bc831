"""How long each step of a recall took."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Steps:
    """Durations of the steps that ran, in milliseconds; a step that ran twice counts with its sum."""

    def __init__(self) -> None:
        self.ms: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.ms[name] = self.ms.get(name, 0.0) + (time.perf_counter() - started) * 1000
