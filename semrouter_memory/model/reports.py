"""What upkeep did: logged, counted and shown to the operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Leaving(StrEnum):
    """Why upkeep deletes a memory."""

    EXPIRED = "expired"
    BURIED = "buried"
    """It was deleted while the store was away: hidden since, erased now."""
    HISTORY = "history"
    """Superseded for longer than history is kept."""
    ORPHANED = "orphaned"
    """History of a memory that is gone."""
    PRUNED = "pruned"
    """Low for long."""
    QUOTA = "quota"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepReport:
    """What upkeep did, or would do: what is logged, counted and shown to the operator.

    Attributes:
        memories: how many were looked at, of how many `owners`; history included.
        deleted: reason -> type -> how many.
        would_delete: the same for what a dry run, or pruning in `dry-run`, leaves alone.
        would_delete_ids: reason -> ids of those, a bounded number of them.
        held: low for long by age, but their use has not been counted for long enough to tell.
        summaries: memories that consolidation wrote, in place of `merged` others.
        ended: values of the state store that had ended.
        failures: short names of the parts that were away; what hangs on them was left out.
    """

    dry_run: bool = False
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
