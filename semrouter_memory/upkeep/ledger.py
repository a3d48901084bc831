"""Adds up what upkeep does, for its report."""

import time
from collections import Counter
from collections.abc import Iterable

from semrouter_memory.errors import LockLostError, StateStoreError, StoreUnavailableError, TurnLogError
from semrouter_memory.model import UpkeepReport
from semrouter_memory.upkeep.leaving import Judged

_MAX_IDS = 1_000
"""Ids listed in a report, of each reason."""

AWAY = (StoreUnavailableError, StateStoreError, TurnLogError, LockLostError)
"""Parts that upkeep does without for a while."""

_PARTS = (
    (StoreUnavailableError, "store"),
    (StateStoreError, "state"),
    (TurnLogError, "turn_log"),
    (LockLostError, "lock"),
)


class Ledger:
    """One run's counts.

    Attributes:
        bugs: what kept single owners from being looked after, though no part was away; the others were.
    """

    def __init__(self, *, dry_run: bool = False) -> None:
        self._dry_run = dry_run
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

    def deleted(self, judged: Iterable[Judged]) -> None:
        _count(self._deleted, judged)

    def would_delete(self, judged: Iterable[Judged]) -> None:
        judged = list(judged)
        _count(self._would_delete, judged)
        for each in judged:
            ids = self._ids.setdefault(each.reason.value, [])
            if len(ids) < _MAX_IDS:
                ids.append(each.memory.id)

    def failed(self, error: BaseException) -> None:
        """A part was away."""
        name = next((name for family, name in _PARTS if isinstance(error, family)), type(error).__name__)
        self._failures[name] = None

    def report(self) -> UpkeepReport:
        return UpkeepReport(
            dry_run=self._dry_run,
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


def _count(counts: dict[str, Counter[str]], judged: Iterable[Judged]) -> None:
    for each in judged:
        counts.setdefault(each.reason.value, Counter())[each.memory.type.value] += 1
