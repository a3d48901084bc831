"""Memories that come in as lines: checked one by one, written in batches.

Strategy. What is there stays as it is: a line whose memory is known is skipped, so that importing a file again changes
nothing. An import is a deliberate act, so a memory that was deleted comes back: under an id that follows from its old
one, because the old one stays deleted, and links between memories follow. A batch is checked against tombstones and store
and written under the owner's lock, as every change is; what cannot be written is reported with its line and field.
"""

import asyncio
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from pydantic import Field

from semrouter_memory.backends import Backends
from semrouter_memory.errors import TOO_MANY_LINES, InvalidRequestError, Service, UnavailableError
from semrouter_memory.manage import portable
from semrouter_memory.manage.admission import require_lasting
from semrouter_memory.manage.schemas import ApiAnswer
from semrouter_memory.model import IMPORTED_AT, PROVENANCE_IDS, QUOTE, Json, Memory, Scope
from semrouter_memory.ports import OwnerHold, Tombstones
from semrouter_memory.priority import MANAGEMENT
from semrouter_memory.retain.passages import embedded

_BATCH = 25
"""Few enough to be embedded and written well within the time of a lock, and to hold no exchange up while rows are made."""

MAX_ERRORS = 100
"""Refused lines that an import describes; the rest is only counted."""

_MAX_RETURNS = 64
"""How often a memory may have been deleted and imported again."""

_LINKS = PROVENANCE_IDS - {"turn_ids", "replaces"}
"""Metadata that lists ids of memories, and not of turns."""

Written = Callable[[Scope], object]
"""Called with the scope of an owner whose memories changed."""

Admit = Callable[[portable.ImportLine], object]
"""Raises `InvalidRequestError` for what may not be stored."""

ScopeOf = Callable[[str], Scope]
"""The scope of a project of the authenticated user; raises `InvalidRequestError` when none can be called like that."""


class RefusedLine(ApiAnswer):
    """Why a line was refused."""

    line: int = Field(description="Its number, from 1.")
    param: str | None = Field(description="The field that is at fault, if it is one.")
    message: str


class Imported(ApiAnswer):
    """What became of the lines: each was imported, skipped or refused."""

    object: Literal["memory.import"] = "memory.import"
    lines: int = Field(default=0, description="How many there were, blank ones left out.")
    imported: int = 0
    skipped: int = Field(default=0, description="Known already, or expired.")
    refused: int = 0
    errors: list[RefusedLine] = Field(
        default_factory=list, description=f"The first refused lines, at most {MAX_ERRORS}."
    )

    def refuse(self, number: int, error: InvalidRequestError) -> None:
        self.refused += 1
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(RefusedLine(line=number, param=error.field, message=str(error)))

    def add(self, part: "Imported") -> None:
        self.imported += part.imported
        self.skipped += part.skipped
        self.refused += part.refused
        self.errors += part.errors[: MAX_ERRORS - len(self.errors)]

    def __str__(self) -> str:
        return f"{self.imported} imported, {self.skipped} skipped, {self.refused} refused"


@dataclass(frozen=True, slots=True)
class _Numbered:
    number: int
    memory: Memory


def _read_all(lines: Sequence[tuple[int, bytes]], read: Callable[[bytes], Memory], report: Imported) -> list[_Numbered]:
    """The memories in numbered lines; the report says why others are refused."""
    memories: list[_Numbered] = []
    for number, line in lines:
        try:
            memories.append(_Numbered(number, read(line)))
        except InvalidRequestError as error:
            report.refuse(number, error)
    return memories


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """Reads and writes lines.

    Attributes:
        written: same as of `MemoryService`.
        admit: checks what a line would store.
        max_lines: bound on one import.
    """

    backends: Backends
    written: Written
    admit: Admit
    max_lines: int

    async def run(
        self, scope_of: ScopeOf, chunks: AsyncIterable[bytes], report: Imported, *, from_owner: str | None = None
    ) -> None:
        """Import what the chunks hold; `report` is up to date at every moment.

        Args:
            from_owner: another owner (`user:bob`) whose lines may be taken over; lines of all others are refused.
        """
        await self._import(chunks, report, lambda raw: self._read(raw, scope_of, from_owner), exact=False)

    async def restore(self, chunks: AsyncIterable[bytes], report: Imported) -> None:
        """Import lines of any owner exactly as another collection of this installation had them.

        Deleted memories are skipped, and so are stored ones unless the line has a newer version.
        """
        await self._import(chunks, report, self._read_exact, exact=True)

    async def _import(
        self,
        chunks: AsyncIterable[bytes],
        report: Imported,
        read: Callable[[bytes], Memory],
        *,
        exact: bool,
    ) -> None:
        waiting: list[tuple[int, bytes]] = []
        number = 0
        async for line in portable.lines_of(chunks):
            number += 1
            # Blank ones count here: they cost as much time, and a request may be nothing else.
            if number > self.max_lines:
                await self._take(waiting, report, read, exact=exact)
                raise InvalidRequestError(
                    f"more than {self.max_lines} lines in one request; up to there: {report}. Send the rest by itself",
                    code=TOO_MANY_LINES,
                )
            if not line.strip():
                continue
            report.lines += 1
            waiting.append((number, line))
            if len(waiting) >= _BATCH:
                await self._take(waiting, report, read, exact=exact)
                waiting = []
        await self._take(waiting, report, read, exact=exact)

    def _read_exact(self, raw: bytes) -> Memory:
        line = portable.parse(raw)
        if not line.owner:
            raise InvalidRequestError("is missing", field="owner")
        try:
            scope = Scope.of_owner(line.owner, line.project_id)
        except ValueError:
            raise InvalidRequestError("is no owner", field="owner") from None
        return portable.memory_from(line, scope, now=self.backends.clock.now(), exact=True)

    def _read(self, raw: bytes, scope_of: ScopeOf, from_owner: str | None) -> Memory:
        if len(raw) > portable.MAX_LINE_BYTES:
            raise InvalidRequestError(f"longer than {portable.MAX_LINE_BYTES} bytes")
        line = portable.parse(raw)
        scope = scope_of(line.project_id)
        if line.owner not in {None, scope.owner, from_owner}:
            # A mistaken file must not put one owner's memories before another's eyes.
            raise InvalidRequestError(
                "is another owner; to take over a user's memories, say so with from_user (--from-user)", field="owner"
            )
        self.admit(line)
        memory = portable.memory_from(line, scope, now=self.backends.clock.now())
        require_lasting(memory)
        return memory

    async def _take(
        self,
        lines: Sequence[tuple[int, bytes]],
        report: Imported,
        read: Callable[[bytes], Memory],
        *,
        exact: bool,
    ) -> None:
        # A line may be long and have to be looked through for secrets: requests go on meanwhile.
        owners: dict[str, list[_Numbered]] = {}
        for one in await MANAGEMENT.run(partial(_read_all, lines, read, report)):
            owners.setdefault(one.memory.scope.owner, []).append(one)
        for owner, own in owners.items():
            await self._write(Scope.of_owner(owner), own, report, exact=exact)

    async def _write(self, scope: Scope, batch: Sequence[_Numbered], report: Imported, *, exact: bool) -> None:
        """Write one owner's lines, all of them or, if a part is unavailable, none that the report does not count."""

        async def write(hold: OwnerHold) -> Imported:
            part = Imported()
            fresh = await (self._newer if exact else self._fresh)(scope, batch, part)
            rows = await embedded(self.backends.embedder, fresh)
            if rows:
                await hold.confirm()
                await self.backends.writer.upsert(scope, rows)
                self.written(scope)
            part.imported = len(rows)
            return part

        try:
            report.add(await self.backends.locked_change(scope, write))
        except UnavailableError as error:
            raise UnavailableError(
                f"a part became unavailable: {report}. Send the same lines again; stored ones will be skipped",
                service=Service.IMPORT,
            ) from error

    async def _newer(self, scope: Scope, batch: Sequence[_Numbered], report: Imported) -> list[Memory]:
        """The memories that are neither deleted nor stored in this or a newer version."""
        deleted = await self.backends.turn_log.tombstones(scope)
        stored = await asyncio.gather(*(self.backends.store.get(scope, one.memory.id) for one in batch))
        newer = [
            one.memory
            for one, known in zip(batch, stored, strict=True)
            if not deleted.covers(one.memory) and (known is None or known.updated_at < one.memory.updated_at)
        ]
        report.skipped += len(batch) - len(newer)
        return newer

    async def _fresh(self, scope: Scope, batch: Sequence[_Numbered], report: Imported) -> list[Memory]:
        """The memories that are not there yet, under the ids that they get."""
        deleted = await self.backends.turn_log.tombstones(scope)
        imported_at, now = (await self.backends.turn_log.timestamp()).isoformat(), self.backends.clock.now()
        memories: dict[str, Memory] = {}
        for one in batch:
            try:
                asserted = replace(one.memory, metadata={**one.memory.metadata, IMPORTED_AT: imported_at})
                memory = _placed(asserted, deleted)
            except InvalidRequestError as error:
                report.refuse(one.number, error)
                continue
            if memory.id in memories or (memory.expires_at is not None and memory.expires_at <= now):
                report.skipped += 1
            else:
                memories[memory.id] = memory
        known = await asyncio.gather(*(self.backends.store.get(scope, memory_id) for memory_id in memories))
        report.skipped += sum(memory is not None for memory in known)
        return [memory for memory, there in zip(memories.values(), known, strict=True) if there is None]


def _placed(memory: Memory, deleted: Tombstones) -> Memory:
    """The memory under an id that is not deleted, with its links to where the memories that it names are placed."""

    def place(memory_id: str) -> str:
        return _free(replace(memory, id=memory_id), deleted) if memory_id else ""

    links: dict[str, Json] = {name: list(map(place, ids)) for name in _LINKS if (ids := memory.ids(name))}
    if memory.quote:
        links[QUOTE] = place(memory.quote)
    metadata = {**memory.metadata, **links}
    return replace(memory, id=place(memory.id), superseded_by=place(memory.superseded_by), metadata=metadata)


def _free(memory: Memory, deleted: Tombstones) -> str:
    """The first id in the memory's row of ids that no deletion covers."""
    for _ in range(_MAX_RETURNS):
        if not deleted.covers(memory):
            return memory.id
        memory = replace(memory, id=portable.next_id(memory.id))
    raise InvalidRequestError("was deleted at a time that this machine's clock has not reached; try again later")
