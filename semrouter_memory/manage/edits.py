"""New memories, edits and the report of an import, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.model import ASKED, CONTEXT, FORM, OUTDATED_BY, QUOTE, STATEMENTS, Json, Memory, MemoryType

_MAX_REPLACED = 200
"""Turn ids stored of a memory's earlier content; a memory is learned from no more."""
_OF_THE_CONTENT = {"turn_ids", "consolidated_from", FORM, CONTEXT, ASKED, QUOTE, STATEMENTS, OUTDATED_BY}
"""Metadata that describes the content and is dropped with it: an edited quote is a statement."""

MAX_ERRORS = 100
"""Refused lines that a report describes; the rest is only counted."""


class Unchanged(Enum):
    """Default of a field for which None is a value."""

    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMemory:
    """A memory to store.

    Attributes:
        expires_at: None: never; unchanged: the lifetime of its type.
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
        expires_at: None: never.
        project_id: "" moves the memory to the user's own space.
        metadata: merged into the stored metadata; a key with None is removed (as in RFC 7396).
    """

    content: str | None = None
    type: MemoryType | None = None
    importance: float | None = None
    expires_at: datetime | Unchanged | None = Unchanged.UNCHANGED
    project_id: str | None = None
    metadata: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class LineError:
    """Why a line was refused; never its content."""

    line: int
    message: str
    field: str | None = None


@dataclass(slots=True)
class ImportReport:
    """What became of the lines so far.

    Attributes:
        lines: how many were read, blank ones left out.
        skipped: known already, or expired.
        errors: the first refused lines.
    """

    lines: int = 0
    imported: int = 0
    skipped: int = 0
    refused: int = 0
    errors: list[LineError] = field(default_factory=list)

    def refuse(self, number: int, error: InvalidRequestError) -> None:
        self.refused += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(LineError(number, str(error), error.field))

    def __str__(self) -> str:
        return f"{self.imported} imported, {self.skipped} skipped, {self.refused} refused"


def with_content(memory: Memory, content: str) -> Memory:
    """The memory with other content; its source turns become the source turns of the content that was replaced.

    A deletion still reaches these turns. An edited summary is no summary of its originals any more.
    """
    if content == memory.content:
        return memory
    turns = dict.fromkeys((*memory.ids("replaces"), *memory.ids("turn_ids")))
    metadata = {key: value for key, value in memory.metadata.items() if key not in _OF_THE_CONTENT}
    if turns:
        metadata["replaces"] = list(turns)[-_MAX_REPLACED:]
    return replace(memory, content=content, metadata=metadata)


def confirmed(known: Memory, memory: Memory, new: NewMemory, metadata: Mapping[str, Json]) -> Memory:
    """A known memory that a caller stores again, with the values of the new one."""
    return replace(
        known,
        importance=max(known.importance, memory.importance),
        expires_at=known.expires_at if isinstance(new.expires_at, Unchanged) else new.expires_at,
        metadata=metadata,
        updated_at=memory.updated_at,
    )
