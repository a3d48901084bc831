"""Memories as lines of JSON: what an export writes and an import reads.

Strategy: an export's line is the API's own JSON of a memory, so an import takes everything that the API shows. A line made
by hand needs a `content` only, or the parts of an episode; without an id it gets one from what it says, so that importing it again changes nothing.
"""

import re
from codecs import BOM_UTF8
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Self

import orjson
from pydantic import Field, ValidationError, model_validator

from semrouter_memory.errors import InvalidRequestError, complaint
from semrouter_memory.manage.parameters import Category, UtcTime
from semrouter_memory.manage.schemas import EpisodeParts, MemoryJson
from semrouter_memory.model import (
    ASSERTED_AT,
    CATEGORY,
    IMPORTED_AT,
    PASSAGE_COUNT,
    PINNED,
    PROVENANCE,
    Memory,
    MemoryType,
    Scope,
    derived_id,
)
from semrouter_memory.priority import MANAGEMENT
from semrouter_memory.retain.episodes import rendered

MAX_LINE_BYTES = 512 * 1024
"""A memory of the greatest length, written with six bytes a character, and its metadata."""

_TIMES = frozenset({IMPORTED_AT, ASSERTED_AT})
"""Metadata that means nothing in another installation."""

SOURCE = "import"
"""`Memory.source` of a line that does not name one."""

_MAX_PROVENANCE_BYTES = 16_384
_CLOCK_TOLERANCE = timedelta(hours=1)
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}")
_TAKEN_IDS = frozenset(
    [
        "console",
        "entities",
        "export",
        "import",
        "mcp",
        "openapi.json",
        "receipts",
        "reflect",
        "search",
        "sessions",
        "settings",
    ]
)
"""They would stand where a route stands."""

_USAGE = {"access_count", "last_accessed_at"}
_DERIVED = _USAGE | {
    "form",
    "context",
    "statements",
    "quote",
    "flagged",
    "contradicts",
    "within_session",
    "promote",
    "pinned",
}
"""What the API shows in addition to the metadata, and one installation's usage: an import ignores both."""

Name = Annotated[str, Field(max_length=512)]


class ImportLine(EpisodeParts):
    """One memory, as an export writes it."""

    content: str = ""
    id: str | None = None
    type: MemoryType = MemoryType.SEMANTIC
    owner: str | None = None
    project_id: Name = ""
    session_id: Name = ""
    source: Annotated[str, Field(max_length=64)] = SOURCE
    observed_at: UtcTime | None = None
    created_at: UtcTime | None = None
    updated_at: UtcTime | None = None
    superseded_at: UtcTime | None = None
    superseded_by: str | None = None
    expires_at: UtcTime | None = None
    importance: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.5
    category: Category = ""
    metadata: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _without_derived(cls, line: Any) -> Any:
        return {name: value for name, value in line.items() if name not in _DERIVED} if isinstance(line, dict) else line

    @model_validator(mode="after")
    def _with_parts(self) -> Self:
        """What the parts of an episode say, where the line does not say it otherwise."""
        self.content = self.content or rendered(self.episode)
        self.metadata = {**self.episode.metadata, **self.metadata}
        if self.category:
            self.metadata[CATEGORY] = self.category
        return self


def export_line(memory: Memory, *, exact: bool = False) -> bytes:
    """The memory as a line, without its usage.

    Args:
        exact: for another collection of this installation: with the times of its last assertion and import, too.
    """
    metadata = {name: value for name, value in memory.metadata.items() if exact or name not in _TIMES}
    shown = MemoryJson.of(replace(memory, metadata=metadata))
    return shown.model_dump_json(exclude=_USAGE).encode() + b"\n"


async def exported(pages: AsyncIterable[Sequence[Memory]], *, exact: bool = False) -> AsyncIterator[bytes]:
    """The lines of each page. They are made while they are joined. Args: exact: see `export_line`."""
    async for memories in pages:
        lines = map(partial(export_line, exact=exact), memories)
        yield await MANAGEMENT.run(partial(b"".join, lines))


def parse(line: bytes) -> ImportLine:
    """Raises: InvalidRequestError: it is no memory; names the field, never the value."""
    try:
        # Editors and shells on Windows begin a file with a byte order mark.
        parsed = ImportLine.model_validate_json(line.removeprefix(BOM_UTF8))
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if not problem["loc"]:
            raise InvalidRequestError("a line must be a JSON object") from None
        raise InvalidRequestError(complaint(problem), field=".".join(str(part) for part in problem["loc"])) from None
    _check_ids(parsed)
    return parsed


def memory_from(line: ImportLine, scope: Scope, *, now: datetime, exact: bool = False) -> Memory:
    """The memory that a line describes, still without the time of its import.

    Args:
        exact: see `export_line`.

    Raises:
        InvalidRequestError: a time is in the future, or the provenance is too large.
    """
    for field in ("observed_at", "created_at", "updated_at", "superseded_at"):
        time = getattr(line, field)
        if not exact and time is not None and time > now + _CLOCK_TOLERANCE:
            raise InvalidRequestError("lies in the future", field=field)
    if not exact:
        _check_provenance(line)
    observed_at = line.observed_at or line.created_at or now
    created_at = line.created_at or observed_at
    return Memory(
        id=line.id or _id_from(line),
        scope=scope,
        type=line.type,
        content=line.content,
        source=line.source,
        observed_at=observed_at,
        created_at=created_at,
        updated_at=line.updated_at or created_at,
        session_id=line.session_id,
        superseded_at=line.superseded_at,
        superseded_by=line.superseded_by or "",
        expires_at=None if line.metadata.get(PINNED) is True else line.expires_at,
        importance=line.importance,
        metadata={
            name: value
            for name, value in line.metadata.items()
            if name != PASSAGE_COUNT and (exact or name not in _TIMES)
        },
    )


def next_id(memory_id: str) -> str:
    """The id under which a memory comes back whose own was deleted: always the same one."""
    return derived_id("again", memory_id)


async def lines_of(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Chunks cut into lines; of one that is too long, its beginning: longer than `MAX_LINE_BYTES`, too."""
    rest = bytearray()
    async for chunk in chunks:
        *complete, last = chunk.split(b"\n")
        for line in complete:
            yield bytes(rest + line)
            rest.clear()
        if len(rest) <= MAX_LINE_BYTES:
            rest += last[: MAX_LINE_BYTES + 1]
    if rest:
        yield bytes(rest)


def _check_ids(line: ImportLine) -> None:
    for field, memory_id in (("id", line.id), ("superseded_by", line.superseded_by or None)):
        if memory_id is not None and (not _ID.fullmatch(memory_id) or memory_id in _TAKEN_IDS):
            raise InvalidRequestError(
                "must be 1 to 128 letters, digits, dots, colons, dashes, underscores", field=field
            )
    if line.superseded_by and (line.superseded_at is None or line.superseded_by == line.id):
        raise InvalidRequestError("needs superseded_at, and cannot be the memory itself", field="superseded_by")


def _check_provenance(line: ImportLine) -> None:
    provenance = {name: value for name, value in line.metadata.items() if name in PROVENANCE}
    try:
        size = len(orjson.dumps(provenance))
    except TypeError:
        raise InvalidRequestError("holds a number or text that no store keeps", field="metadata") from None
    if size > _MAX_PROVENANCE_BYTES:
        raise InvalidRequestError(f"its provenance is larger than {_MAX_PROVENANCE_BYTES} bytes", field="metadata")


def _id_from(line: ImportLine) -> str:
    said = line.observed_at.isoformat() if line.observed_at else ""
    return derived_id(line.project_id, line.type.value, line.content, said)
