"""What a caller wants to have remembered or changed, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from semrouter_memory.model import Json, MemoryType


class Unchanged(Enum):
    """The value of a field that an edit does not name, where None is a value of its own."""

    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """What a caller wants to have remembered."""

    content: str
    type: MemoryType = MemoryType.SEMANTIC
    importance: float = 0.5
    expires_at: datetime | None = None
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
