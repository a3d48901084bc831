"""What a caller wants to have remembered or changed, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from semrouter_memory.model import ASKED, CONTEXT, FORM, OUTDATED_BY, QUOTE, STATEMENTS, Json, Memory, MemoryType

_MAX_REPLACED = 200
"""Turn ids kept of what a memory said before; as many as one may have been learned from."""


_NOT_REWORDED = {"turn_ids", "consolidated_from", FORM, CONTEXT, ASKED, QUOTE, STATEMENTS, OUTDATED_BY}
"""Metadata that tells of the words before: an edited quote is a statement."""


class Unchanged(Enum):
    """The value of a field that a caller does not name, where None is a value of its own."""

    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """What a caller wants to have remembered.

    Attributes:
        expires_at: None: it never does; not named: when memories of its type do.
    """

    content: str
    type: MemoryType = MemoryType.SEMANTIC
    importance: float = 0.5
    expires_at: datetime | Unchanged | None = Unchanged.UNCHANGED
    metadata: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEdit:
    """Changes to a memory; None leaves a field as it is.

    Attributes:
        expires_at: None: it never does.
        project_id: "" moves the memory to the user's own space.
        metadata: merged into what is there; a key with None is removed (as in RFC 7396).
    """

    content: str | None = None
    type: MemoryType | None = None
    importance: float | None = None
    expires_at: datetime | Unchanged | None = Unchanged.UNCHANGED
    project_id: str | None = None
    metadata: Mapping[str, Json] | None = None


def reworded(memory: Memory, content: str) -> Memory:
    """A memory that says something else from now on: the turns it was learned from say what it replaces.

    What retells these is out of date, as when a newer statement replaces one; a deletion reaches them as before. Of a
    summary it is known no longer what of its originals it says.
    """
    if content == memory.content:
        return memory
    turns = dict.fromkeys((*memory.ids("replaces"), *memory.ids("turn_ids")))
    metadata = {key: value for key, value in memory.metadata.items() if key not in _NOT_REWORDED}
    if turns:
        metadata["replaces"] = list(turns)[-_MAX_REPLACED:]
    return replace(memory, content=content, metadata=metadata)


def said_again(known: Memory, memory: Memory, new: NewMemory, metadata: Mapping[str, Json]) -> Memory:
    """A memory that a caller stores once more, with what that adds to it."""
    return replace(
        known,
        importance=max(known.importance, memory.importance),
        expires_at=known.expires_at if isinstance(new.expires_at, Unchanged) else new.expires_at,
        metadata=metadata,
        updated_at=memory.updated_at,
    )
