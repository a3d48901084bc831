"""What was deleted, and what that forbids."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from semrouter_memory.model import Memory, Reach, Scope
from semrouter_memory.sessions.columns import micros, pack, unpack
from semrouter_memory.sessions.hybrid_clock import HybridClock

_MAX_CACHED_OWNERS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerTombstones:
    """One owner's deletions (implements the `Tombstones` port). Times are microseconds since 1970.

    Attributes:
        everything: when all of the owner's memories were deleted last; None for never.
        projects: project -> when all of it was deleted last.
        contents: (project, content hash) -> when that statement was deleted last.
        last_memory: when a single memory was deleted last; None for never.
    """

    content_hash: Callable[[str], str]
    everything: int | None = None
    projects: Mapping[str, int] = field(default_factory=dict)
    memory_ids: frozenset[str] = frozenset()
    contents: Mapping[tuple[str, str], int] = field(default_factory=dict)
    last_memory: int | None = None

    def covers(self, memory: Memory) -> bool:
        return memory.id in self.memory_ids or self._scope_deleted_since(memory.scope, micros(memory.asserted_at))

    def forbids(self, scope: Scope, content: str, observed_at: datetime) -> bool:
        said = micros(observed_at)
        if self._scope_deleted_since(scope, said):
            return True
        if not self.contents:
            return False
        deleted = self.contents.get((scope.project_id, self.content_hash(content)))
        return deleted is not None and said <= deleted

    def erases(self, observed_at: datetime) -> bool:
        return self.last_memory is not None and micros(observed_at) <= self.last_memory

    def _scope_deleted_since(self, scope: Scope, said: int) -> bool:
        moments = (self.everything, self.projects.get(scope.project_id))
        return any(moment is not None and said <= moment for moment in moments)


class TombstoneReader:
    """Reads deletions through one connection, and keeps those of recent owners.

    A kept value is right as long as the owner's highest tombstone key is what it was, which one index lookup tells, also
    of a deletion by another process. A swept tombstone may still be kept here: it forbids no longer than before.
    """

    def __init__(self, connection: sqlite3.Connection, content_hash: Callable[[str], str], times: HybridClock) -> None:
        self._connection = connection
        self._times = times
        self._content_hash = content_hash
        self._none = OwnerTombstones(content_hash=content_hash)
        self._kept: dict[str, tuple[int, OwnerTombstones]] = {}

    def of(self, scope: Scope) -> OwnerTombstones:
        (highest,) = self._connection.execute(
            "SELECT max(key) FROM tombstones WHERE user_id = ?", (pack(scope.user_id),)
        ).fetchone()
        if highest is None:
            return self._none
        kept = self._kept.pop(scope.user_id, None)
        if kept is None or kept[0] != highest:
            kept = (highest, self._read(scope))
        self._kept[scope.user_id] = kept
        if len(self._kept) > _MAX_CACHED_OWNERS:
            del self._kept[next(iter(self._kept))]
        return kept[1]

    def _read(self, scope: Scope) -> OwnerTombstones:
        everything: int | None = None
        projects: dict[str, int] = {}
        memory_ids: set[str] = set()
        contents: dict[tuple[str, str], int] = {}
        last_memory: int | None = None
        rows = self._connection.execute(
            # In the order of time, so that the last one of a kind stays.
            "SELECT project_id, memory_id, content_hash, reach, at FROM tombstones WHERE user_id = ? ORDER BY at",
            (pack(scope.user_id),),
        )
        for packed_project, memory_id, content_hash, reach, at in rows.fetchall():
            self._times.pass_deletion(at)
            project = unpack(packed_project)
            if memory_id is not None:
                memory_ids.add(unpack(memory_id))
                last_memory = at
                if content_hash:
                    contents[project, content_hash] = at
            elif reach == Reach.EXACT:
                projects[project] = at
            else:
                everything = at
        return OwnerTombstones(
            content_hash=self._content_hash,
            everything=everything,
            projects=projects,
            memory_ids=frozenset(memory_ids),
            contents=contents,
            last_memory=last_memory,
        )
