"""What background work did: what is logged and counted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from semrouter_memory.model.memories import Memory, ReconcileAction, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionReport:
    """How one extraction of a session ended: what is logged and counted.

    Attributes:
        status: of a model that answered with an error: the HTTP status.
        cause: of a model that failed: why, in words without content.
    """

    extractor: str
    turns: int
    candidates: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""
    dead_lettered: int = 0
    status: int | None = None
    cause: str = ""

    @property
    def stored(self) -> int:
        """How many memories were written."""
        return sum(self.actions.get(action, 0) for action in ReconcileAction if action is not ReconcileAction.SKIP)


class EvictionReason(StrEnum):
    """Why maintenance deletes a memory."""

    EXPIRED = "expired"
    TOMBSTONED = "tombstoned"
    """It was deleted while the store was unavailable: hidden since, purged now."""
    HISTORY = "history"
    """Superseded for longer than history is kept."""
    ORPHANED = "orphaned"
    """History of a memory that does not exist any more."""
    PRUNED = "pruned"
    """Unused, with a low score, for long."""
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """A memory that maintenance may delete, as it was when that was decided."""

    memory: Memory
    reason: EvictionReason
    usage: Usage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepReport:
    """What a maintenance run did: what is logged and counted.

    Attributes:
        memories: how many were looked at, of how many `owners`; history included.
        deleted: reason -> type -> how many.
        would_delete: the same of memories that pruning in `dry-run` would delete.
        would_delete_ids: reason -> ids of those, a bounded number of them.
        held: seem unused, but usage has not been counted for long enough to prune them.
        summaries: memories that consolidation wrote, in place of `merged` others.
        ended: values of the state store that had ended.
        failures: short names of unavailable parts; the work that needs them was skipped.
    """

    memories: int = 0
    owners: int = 0
    deleted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    would_delete: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    would_delete_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    held: int = 0
    summaries: int = 0
    merged: int = 0
    ended: int = 0
    failures: tuple[str, ...] = ()
    seconds: float = 0.0
