"""Copies all memories from one collection to another that was made for another embedding profile.

Strategy: compare, then change only what differs, and go over it again until there is nothing left to change. So a run that
was broken off goes on where it was, a second one is harmless, and the last pass is the proof that the copy is complete.
The source is only read. What is in the target already stays unless the source has a newer version, so the sidecar may
have been switched to it meanwhile.

A memory that somebody deleted is left out, and taken out of the target: the tombstones tell. What upkeep deleted leaves
none; it is taken out only when the ledger says that it was copied here from this source, because the target may have
memories of its own by now.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Protocol, TypeAlias

from semrouter_memory.errors import EmbeddingError
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.model import EmbeddedMemory, Memory, Scope
from semrouter_memory.ports import Embedder, MemoryReader, MemoryWriter, TurnLog

BATCH = 50
"""Memories that are embedded and written at once: what a run that is broken off loses."""

MAX_PASSES = 5
"""So often a source that goes on changing is run after."""

Scan = Callable[[], AsyncIterator[Sequence[Memory]]]
"""Every memory of every owner, in batches."""

Count = Callable[[], Awaitable[int]]

Key: TypeAlias = tuple[str, str]
"""User and memory id."""


class Target(MemoryReader, MemoryWriter, Protocol):
    """The collection that is filled."""


class CopyLedger(Protocol):
    """Which memories were copied from this source to this target, by whatever run."""

    def add(self, keys: Sequence[Key]) -> None: ...

    def known(self, keys: Sequence[Key]) -> set[Key]:
        """Those of the keys that were added."""
        ...


class Progress(Protocol):
    """Shows how far it is."""

    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


@dataclass(slots=True)
class ReembedReport:
    """What became of it. The first two count all passes, the others are the last pass's.

    Attributes:
        copied: memories written to the target, for the first time or in a newer version.
        removed: memories deleted from the target because they were deleted elsewhere.
        memories: in the source, without deleted ones.
        buried: deleted memories that the source still has; never copied.
        newer: memories that were changed in the target after they were copied; left as they are.
        own: memories that the target has and the source had not; left as they are.
        failed: memories that the model could not embed, and those that do not say whose they are.
        missing: memories copied before that the source has no longer, so many that they were not removed.
        complete: the last pass found nothing to change, and every memory is there.
    """

    copied: int = 0
    removed: int = 0
    memories: int = 0
    buried: int = 0
    newer: int = 0
    own: int = 0
    failed: int = 0
    missing: int = 0
    complete: bool = False


@dataclass(frozen=True, slots=True)
class _Stamp:
    """A version of a memory."""

    updated_at: datetime
    digest: int


_Held: TypeAlias = dict[str, dict[str, _Stamp]]
"""What the target has: user id -> memory id -> version. Some 300 bytes for each memory."""


@dataclass(slots=True)
class _Pass:
    """What one pass did and saw."""

    held: _Held = field(default_factory=dict)
    report: ReembedReport = field(default_factory=ReembedReport)

    @property
    def changed(self) -> int:
        return self.report.copied + self.report.removed


class Reembedder:
    """Copies one collection.

    Args:
        source: reads the collection that is copied.
        unnamed: counts the memories that the source does not give, because nobody can say whose they are.
        target: the collection that is filled; its vectors are the embedder's.
        turn_log: knows what was deleted.
    """

    def __init__(
        self,
        *,
        source: Scan,
        unnamed: Count,
        target: Target,
        embedder: Embedder,
        turn_log: TurnLog,
        ledger: CopyLedger,
        progress: Progress,
    ) -> None:
        self._source = source
        self._unnamed = unnamed
        self._target = target
        self._embedder = embedder
        self._turn_log = turn_log
        self._ledger = ledger
        self._progress = progress

    async def run(self) -> ReembedReport:
        """Make the target hold what the source holds.

        Raises:
            StoreUnavailableError: the store is away. Everything that was written stays, and another run goes on from there.
            TurnLogError: what was deleted cannot be learned.
        """
        # Asked once aloud: a shared log that is away tells of no deletions instead of failing.
        await self._turn_log.totals()
        total = sum([len(batch) async for batch in self._source()])
        copied = removed = 0
        for number in range(MAX_PASSES):
            self._progress.begin("checking" if number else "copying", total)
            done = await self._pass()
            copied += done.report.copied
            removed += done.report.removed
            if not done.changed:
                break
            total = done.report.memories + done.report.buried
        failed = done.report.failed + await self._unnamed()
        whole = not (done.changed or failed or done.report.missing)
        return replace(done.report, copied=copied, removed=removed, failed=failed, complete=whole)

    async def _pass(self) -> _Pass:
        done = _Pass()
        # The target first: what it has and the source then has not was deleted there in between, or is the target's own.
        async for batch in self._target.scan():
            for scope, memories in _by_owner(batch):
                await self._hold(done, scope, memories)
        async for batch in self._source():
            for scope, memories in _by_owner(batch):
                await self._copy(done, scope, memories)
                self._progress.advance(len(memories))
        await self._remove_missing(done)
        return done

    async def _hold(self, done: _Pass, scope: Scope, memories: Sequence[Memory]) -> None:
        """Note what the target has of one owner, and take out what was deleted."""
        deleted = await self._turn_log.tombstones(scope)
        buried = [memory.id for memory in memories if deleted.covers(memory)]
        await self._remove(done, scope, buried)
        held = done.held.setdefault(scope.user_id, {})
        held.update({memory.id: _stamp(memory) for memory in memories if not deleted.covers(memory)})

    async def _copy(self, done: _Pass, scope: Scope, memories: Sequence[Memory]) -> None:
        deleted = await self._turn_log.tombstones(scope)
        held = done.held.get(scope.user_id, {})
        wanted: list[Memory] = []
        for memory in memories:
            there = held.pop(memory.id, None)
            if deleted.covers(memory):
                done.report.buried += 1
                await self._remove(done, scope, [memory.id] if there else [])
                continue
            done.report.memories += 1
            here = _stamp(memory)
            if there is None or (there.digest != here.digest and there.updated_at <= here.updated_at):
                wanted.append(memory)
            elif there.digest != here.digest:
                done.report.newer += 1
        for start in range(0, len(wanted), BATCH):
            await self._write(done, scope, wanted[start : start + BATCH])

    async def _write(self, done: _Pass, scope: Scope, memories: Sequence[Memory]) -> None:
        rows = await self._embedded(memories)
        done.report.failed += len(memories) - len(rows)
        done.report.copied += len(rows)
        # Before they are written: a row that the ledger does not know would be taken for the target's own.
        self._ledger.add([(scope.user_id, row.memory.id) for row in rows])
        await self._target.upsert(scope, rows)

    async def _embedded(self, memories: Sequence[Memory]) -> list[EmbeddedMemory]:
        """The memories with their vectors; without those that the model cannot embed."""
        try:
            vectors = await self._embedder.embed_passages([embedded_text(memory) for memory in memories])
        except EmbeddingError:
            if len(memories) == 1:
                return []
            return [row for memory in memories for row in await self._embedded([memory])]
        return [EmbeddedMemory(memory, vector) for memory, vector in zip(memories, vectors, strict=True)]

    async def _remove_missing(self, done: _Pass) -> None:
        """Take out what was copied before and is no longer in the source."""
        missing = {user_id: self._ledger.known([(user_id, each) for each in ids]) for user_id, ids in done.held.items()}
        count = sum(map(len, missing.values()))
        done.report.own = sum(map(len, done.held.values())) - count
        if count > done.report.memories:
            # A source that lost most of it is rather the wrong one, or was made anew.
            done.report.missing = count
            return
        for user_id, keys in missing.items():
            await self._remove(done, Scope(user_id), [memory_id for _, memory_id in keys])

    async def _remove(self, done: _Pass, scope: Scope, memory_ids: Sequence[str]) -> None:
        if memory_ids:
            done.report.removed += await self._target.delete(scope, memory_ids)


def _by_owner(memories: Iterable[Memory]) -> Iterator[tuple[Scope, list[Memory]]]:
    ordered = sorted(memories, key=_user_id)
    return ((Scope(user_id), list(group)) for user_id, group in groupby(ordered, key=_user_id))


def _user_id(memory: Memory) -> str:
    return memory.scope.user_id


def _stamp(memory: Memory) -> _Stamp:
    """Two versions with the same stamp are the same in every column."""
    plain = repr(replace(memory, metadata={}))
    return _Stamp(memory.updated_at, hash((plain, json.dumps(memory.metadata, sort_keys=True))))
