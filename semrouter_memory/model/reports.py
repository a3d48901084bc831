"""What maintenance did: logged, counted and shown to the operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from semrouter_memory.model.memories import Memory, Usage


class EvictionReason(StrEnum):
    """Why maintenance deletes a memory."""

    EXPIRED = "expired"
    TOMBSTONED = "tombstoned"
    """It was deleted while the store was unavailable: hidden since, purged now."""
    HISTORY = "history"
    """Superseded for longer than history is stored."""
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
class MaintenanceReport:
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
