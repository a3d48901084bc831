"""What was deleted of an owner or is not to be remembered, and what that forbids. Pure.

A deletion is one or two named fields, each with its time; a pause is one:

    e                        all of the owner's memories
    p:<project>              all of one project's
    m:<memory id>            one memory
    c:<hash>:<project>       one statement, however it is written (`Digests.content_hash`)
    z                        the user has paused remembering since then
    z:<microseconds>         it was paused from then until the field's time
    s:<session>              that session is not remembered
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from semrouter_memory.databases import micros, moment, pack
from semrouter_memory.model import Memory, Reach, Scope, Tombstone
from semrouter_memory.turn_log.rows import TurnRow

_EVERYTHING, _PROJECT, _MEMORY, _CONTENT = b"e", b"p:", b"m:", b"c:"
_PAUSED, _PAUSE, _SESSION = b"z", b"z:", b"s:"
_FOREVER = 2**62
_MAX_PAUSES = 64
"""Of these that are over, the two oldest become one: turns said long ago seldom arrive now."""
CACHED_OWNERS = 1024


@dataclass(frozen=True, kw_only=True)
class OwnerTombstones:
    """One owner's deletions (implements the `Tombstones` port). `fields`: field -> time, in microseconds since 1970."""

    content_hash: Callable[[str], str]
    fields: Mapping[bytes, int] = field(default_factory=dict)

    @cached_property
    def last_memory(self) -> int:
        """When a single memory was deleted last; -1 for never."""
        return max((at for name, at in self.fields.items() if name.startswith(_MEMORY)), default=-1)

    @cached_property
    def pauses(self) -> tuple[tuple[int, int], ...]:
        """From when until when remembering was paused, the oldest first."""
        over = [(int(name[len(_PAUSE) :]), at) for name, at in self.fields.items() if name.startswith(_PAUSE)]
        now = [(self.fields[_PAUSED], _FOREVER)] if _PAUSED in self.fields else []
        return tuple(sorted(over + now))

    def __bool__(self) -> bool:
        return bool(self.fields)

    def covers(self, memory: Memory) -> bool:
        if not self.fields:
            return False
        return _memory_field(memory.id) in self.fields or self.covers_scope(memory.scope, micros(memory.asserted_at))

    def forbids(self, scope: Scope, content: str, observed_at: datetime) -> bool:
        said = micros(observed_at)
        if self.covers_scope(scope, said):
            return True
        if not any(name.startswith(_CONTENT) for name in self.fields):
            return False
        deleted = self.fields.get(_content_field(self.content_hash(content), scope.project_id))
        return deleted is not None and said <= deleted

    def erases(self, observed_at: datetime) -> bool:
        return micros(observed_at) <= self.last_memory

    def covers_scope(self, scope: Scope, said: int) -> bool:
        """Whether a deletion of everything or of the project covers what was said then."""
        return self._covered_until(scope.project_id) >= said

    def hides(self, row: TurnRow) -> bool:
        """Whether the turn is deleted, though it may not be removed yet."""
        return self._covered_until(row.project_id) >= row.observed_at

    @property
    def paused_since(self) -> datetime | None:
        return moment(self.fields[_PAUSED]) if _PAUSED in self.fields else None

    def paused_between(self, began: int, ended: int) -> bool:
        """Whether remembering was paused at some time of an exchange."""
        return any(start < ended and began <= end for start, end in self.pauses)

    def silences(self, session_id: str) -> bool:
        """Whether the session is not remembered."""
        return _session_field(session_id) in self.fields

    def _covered_until(self, project_id: str) -> int:
        if not self.fields:
            return -1
        return max(self.fields.get(_EVERYTHING, -1), self.fields.get(_PROJECT + pack(project_id), -1))


TombstoneCache: TypeAlias = MutableMapping[str, tuple[int | bytes, OwnerTombstones]]
"""The deletions of owners, each with the version that they were read at."""


@dataclass(frozen=True, slots=True)
class TombstoneChange:
    """An owner's fields to set and to remove; at least one is set.

    Attributes:
        purges: turns are covered, and have to be removed.
    """

    owner: str
    put: Mapping[bytes, int]
    drop: tuple[bytes, ...] = ()
    purges: bool = False


def added(owner: str, tombstone: Tombstone, known: OwnerTombstones) -> TombstoneChange:
    """Add a tombstone to the known ones. One of everything replaces those that it covers.

    Nothing else ends a tombstone: a store that was unavailable when it was written may still hold the row. What is not to be
    remembered stays so.
    """
    at = micros(tombstone.at)
    drop: tuple[bytes, ...] = ()
    if tombstone.memory_id:
        names = [_memory_field(tombstone.memory_id)]
        if tombstone.content_hash:
            names.append(_content_field(tombstone.content_hash, tombstone.scope.project_id))
    elif tombstone.reach is Reach.EXACT:
        names = [_PROJECT + pack(tombstone.scope.project_id)]
    else:
        names = [_EVERYTHING]
        lasting = (_EVERYTHING, _PAUSED)
        drop = tuple(
            name
            for name, time in known.fields.items()
            if time <= at and name not in lasting and not name.startswith(_SESSION)
        )
    put = {name: max(at, known.fields.get(name, 0)) for name in names}
    return TombstoneChange(owner, put, drop, purges=not tombstone.memory_id)


def paused(owner: str, at: int, known: OwnerTombstones) -> TombstoneChange | None:
    """Pause remembering; None where it is paused."""
    return None if _PAUSED in known.fields else TombstoneChange(owner, {_PAUSED: at})


def resumed(owner: str, at: int, known: OwnerTombstones) -> TombstoneChange | None:
    """End the pause, which goes on forbidding what was said in it; None where there is none."""
    if _PAUSED not in known.fields:
        return None
    put = {_pause_field(known.fields[_PAUSED]): at}
    drop = [_PAUSED]
    over = known.pauses[:-1]
    if len(over) >= _MAX_PAUSES:
        (first, _), (second, until) = over[:2]
        drop.append(_pause_field(second))
        put[_pause_field(first)] = until
    return TombstoneChange(owner, put, tuple(drop))


def silenced(owner: str, at: int, session_id: str) -> TombstoneChange:
    """Let the session not be remembered."""
    return TombstoneChange(owner, {_session_field(session_id): at})


def _pause_field(start: int) -> bytes:
    return _PAUSE + str(start).encode()


def _session_field(session_id: str) -> bytes:
    return _SESSION + session_id.encode()


def _memory_field(memory_id: str) -> bytes:
    return _MEMORY + pack(memory_id)


def _content_field(content_hash: str, project_id: str) -> bytes:
    return _CONTENT + content_hash.encode() + b":" + pack(project_id)
