"""Counts what one maintenance run does, for its report."""

import time
from collections import Counter
from collections.abc import Iterable

from semrouter_memory.errors import UnavailableError
from semrouter_memory.model import EvictionCandidate, MaintenanceReport

_MAX_IDS = 1_000
"""Ids listed in a report, of each reason."""


class MaintenanceRun:
    """The counts of one run.

    Attributes:
        bugs: errors because of which single owners were not maintained while all parts were available.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._deleted: dict[str, Counter[str]] = {}
        self._would_delete: dict[str, Counter[str]] = {}
        self._ids: dict[str, list[str]] = {}
        self._failures: dict[str, None] = {}
        self.bugs: list[BaseException] = []
        self.memories = 0
        self.owners = 0
        self.held = 0
        self.summaries = 0
        self.merged = 0
        self.ended = 0

    def deleted(self, candidates: Iterable[EvictionCandidate]) -> None:
        _count(self._deleted, candidates)

    def would_delete(self, candidates: Iterable[EvictionCandidate]) -> None:
        candidates = list(candidates)
        _count(self._would_delete, candidates)
        for each in candidates:
            ids = self._ids.setdefault(each.reason.value, [])
            if len(ids) < _MAX_IDS:
                ids.append(each.memory.id)

    def failed(self, error: UnavailableError) -> None:
        """A part is unavailable."""
        self._failures[error.service.value] = None

    def report(self) -> MaintenanceReport:
        return MaintenanceReport(
            memories=self.memories,
            owners=self.owners,
            deleted={reason: dict(types) for reason, types in self._deleted.items()},
            would_delete={reason: dict(types) for reason, types in self._would_delete.items()},
            would_delete_ids={reason: tuple(ids) for reason, ids in self._ids.items()},
            held=self.held,
            summaries=self.summaries,
            merged=self.merged,
            ended=self.ended,
            failures=tuple(self._failures),
            seconds=time.perf_counter() - self._started,
        )


def _count(counts: dict[str, Counter[str]], candidates: Iterable[EvictionCandidate]) -> None:
    for each in candidates:
        counts.setdefault(each.reason.value, Counter())[each.memory.type.value] += 1
