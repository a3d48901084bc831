"""A copy of a collection ends up the same as its source, whatever happened to either before and meanwhile."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from semrouter_memory.embedding.hashed import HashedEmbedder
from semrouter_memory.errors import EmbeddingError, StoreUnavailableError
from semrouter_memory.maintenance.reembed import BATCH, MAX_PASSES, Reembedder, ReembedReport
from semrouter_memory.model import EmbeddedMemory, Memory, Reach, Scope, Tombstone, Vector
from semrouter_memory.store import schema
from semrouter_memory.store.copies import CopiesFile
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.turn_log.sqlite.log import SqliteTurnLog
from tests.memories import NOW, memory

ALICE, BOB = Scope("alice"), Scope("bob\nand a 用户")
LATER = NOW + timedelta(hours=1)


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class Embedder(HashedEmbedder):
    """Counts what it embeds, and fails at texts that say so."""

    def __init__(self) -> None:
        super().__init__(dimension=12)
        self.embedded = 0

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        if any("unembeddable" in text for text in texts):
            raise EmbeddingError("a text could not be embedded (ValueError)")
        self.embedded += len(texts)
        return await super().embed_passages(texts)


class Silent:
    """Implements `Progress`."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.advanced = 0

    def begin(self, what: str, total: int) -> None:
        self.begun.append((what, total))

    def advance(self, count: int) -> None:
        self.advanced += count


class Copying:
    """Source, target and what stands between them; `run` is one run of the command."""

    def __init__(self, directory: Path, turn_log: SqliteTurnLog) -> None:
        self._directory = directory
        self.turn_log = turn_log
        self.source = InMemoryStore(dimension=8)
        self.embedder = Embedder()
        self.target = InMemoryStore(dimension=self.embedder.dimension)
        self.progress = Silent()

    async def remember(self, *memories: Memory, store: InMemoryStore | None = None) -> None:
        store = store or self.source
        embedder = HashedEmbedder(dimension=8 if store is self.source else 12)
        for each in memories:
            (vector,) = await embedder.embed_passages([each.content])
            await store.upsert(Scope(each.scope.user_id), [EmbeddedMemory(each, vector)])

    async def run(self) -> ReembedReport:
        with CopiesFile.opened(self._directory / "reembed.db", place="here", source="old", target="new") as ledger:
            return await Reembedder(
                source=self.scan_source,
                unnamed=self.count_unnamed,
                target=self.target,
                embedder=self.embedder,
                turn_log=self.turn_log,
                ledger=ledger,
                progress=self.progress,
            ).run()

    async def count_unnamed(self) -> int:
        return sum(map(schema.is_unnamed, self.source._rows.values()))

    def scan_source(self) -> AsyncIterator[Sequence[Memory]]:
        return self.source.scan()


@pytest.fixture
def copying(tmp_path: Path) -> Iterator[Copying]:
    turn_log = SqliteTurnLog(tmp_path / "turns.db", clock=SystemClock())
    yield Copying(tmp_path, turn_log)
    turn_log.close()


async def everything(store: InMemoryStore) -> dict[tuple[str, str], Memory]:
    return {(each.scope.user_id, each.id): each async for batch in store.scan() for each in batch}


async def test_every_column_of_every_memory_is_copied_and_the_content_embedded_anew(copying: Copying) -> None:
    """History, what has expired, other projects and other users included, also where two users have the same ids."""
    old = replace(memory(ALICE, "mem_old", superseded_at=LATER), superseded_by="mem_1", session_id="s1", importance=0.9)
    await copying.remember(
        old,
        memory(ALICE, "mem_1", metadata={"turn_ids": ["t1"], "extractor": "quotes", "nested": {"b": 1.5, "a": None}}),
        memory(Scope("alice", "apollo", "agent"), "mem_2", expires_at=NOW - timedelta(days=400)),
        memory(BOB, "mem_1", content="User likes 茶"),
    )
    report = await copying.run()
    assert await everything(copying.target) == await everything(copying.source)
    assert (report.copied, report.memories, report.complete) == (4, 4, True)
    assert copying.embedder.embedded == 4
    query = await copying.embedder.embed_query("User likes 茶")
    hits = await copying.target.search(BOB, query, limit=1, now=NOW)
    assert hits[0].similarity == pytest.approx(1, abs=1e-5)


async def test_a_second_run_embeds_and_changes_nothing(copying: Copying) -> None:
    await copying.remember(*(memory(ALICE, f"mem_{n}") for n in range(BATCH + 1)))
    await copying.run()
    before = await everything(copying.target)
    report = await copying.run()
    assert (report.copied, report.removed, report.complete) == (0, 0, True)
    assert copying.embedder.embedded == BATCH + 1
    assert await everything(copying.target) == before


async def test_a_run_that_broke_off_goes_on_where_it_was(copying: Copying, monkeypatch: pytest.MonkeyPatch) -> None:
    await copying.remember(*(memory(ALICE, f"mem_{n:03d}") for n in range(3 * BATCH)))
    upsert, writes = copying.target.upsert, iter(range(10))

    async def failing(scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        if next(writes) == 2:
            raise StoreUnavailableError("upsert: nobody answers")
        await upsert(scope, rows)

    monkeypatch.setattr(copying.target, "upsert", failing)
    with pytest.raises(StoreUnavailableError):
        await copying.run()
    assert len(await everything(copying.target)) == 2 * BATCH
    report = await copying.run()
    assert (report.copied, report.complete) == (BATCH, True)
    assert await everything(copying.target) == await everything(copying.source)


async def test_a_deleted_memory_is_never_copied_though_the_source_still_has_its_row(copying: Copying) -> None:
    """By id, by project, and all of a user's; what was said again afterwards is copied."""
    apollo = Scope("alice", "apollo")
    for tombstone in (
        Tombstone(scope=ALICE, at=NOW, memory_id="mem_1"),
        Tombstone(scope=apollo, at=NOW, reach=Reach.EXACT),
        Tombstone(scope=BOB, at=NOW, reach=Reach.ALL),
    ):
        await copying.turn_log.tombstone(tombstone)
    again = memory(BOB, "mem_5", created_at=LATER)
    await copying.remember(
        memory(ALICE, "mem_1"), memory(ALICE, "mem_2"), memory(apollo, "mem_3"), memory(BOB, "mem_4"), again
    )
    report = await copying.run()
    assert set(await everything(copying.target)) == {("alice", "mem_2"), (BOB.user_id, "mem_5")}
    assert (report.copied, report.buried, report.memories, report.complete) == (2, 3, 2, True)


async def test_a_memory_deleted_after_it_was_copied_is_taken_out_again(copying: Copying) -> None:
    """Whether or not its row is still in the source, and by a run that has nothing to copy."""
    await copying.remember(*(memory(ALICE, f"mem_{n}") for n in range(4)))
    await copying.run()
    for memory_id in ("mem_1", "mem_2"):
        await copying.turn_log.tombstone(Tombstone(scope=ALICE, at=LATER, memory_id=memory_id))
    await copying.source.delete(ALICE, ["mem_2"])
    report = await copying.run()
    assert {memory_id for _, memory_id in await everything(copying.target)} == {"mem_0", "mem_3"}
    assert (report.copied, report.removed, report.complete) == (0, 2, True)


async def test_a_memory_deleted_while_the_copy_runs_is_not_there_in_the_end(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read before it was deleted, and is written after."""
    await copying.remember(memory(ALICE, "mem_1"), memory(ALICE, "mem_2"))
    upsert = copying.target.upsert

    async def deleted_just_before(scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        await copying.turn_log.tombstone(Tombstone(scope=ALICE, at=LATER, memory_id="mem_1"))
        await copying.source.delete(ALICE, ["mem_1"])
        await upsert(scope, rows)

    monkeypatch.setattr(copying.target, "upsert", deleted_just_before)
    report = await copying.run()
    assert set(await everything(copying.target)) == {("alice", "mem_2")}
    assert (report.copied, report.removed, report.complete) == (2, 1, True)


async def test_a_later_run_carries_over_what_happened_in_the_source(copying: Copying) -> None:
    """New ones, a new version, one that became history, and one that upkeep deleted, which leaves no tombstone."""
    first = memory(ALICE, "mem_1")
    await copying.remember(first, *(memory(ALICE, f"mem_{n}") for n in (2, 3, 4)))
    await copying.run()
    await copying.source.delete(ALICE, ["mem_4"])
    await copying.remember(
        replace(first, content="User's budget is $15,000", updated_at=LATER),
        replace(memory(ALICE, "mem_2"), superseded_at=LATER, superseded_by="mem_5", updated_at=LATER),
        memory(ALICE, "mem_5", created_at=LATER),
    )
    report = await copying.run()
    assert await everything(copying.target) == await everything(copying.source)
    assert (report.copied, report.removed, report.memories, report.complete) == (3, 1, 4, True)


async def test_what_the_target_learned_since_stays(copying: Copying) -> None:
    """The sidecar was switched to it before the last run: new memories, and newer versions of copied ones."""
    first = memory(ALICE, "mem_1")
    await copying.remember(first, memory(ALICE, "mem_2"))
    await copying.run()
    newer = replace(first, content="User's budget is $20,000", updated_at=LATER)
    own = memory(BOB, "mem_9", created_at=LATER)
    await copying.remember(newer, own, store=copying.target)
    report = await copying.run()
    found = await everything(copying.target)
    assert found["alice", "mem_1"] == newer
    assert found[BOB.user_id, "mem_9"] == own
    assert (report.newer, report.own, report.removed, report.complete) == (1, 1, 0, True)


async def test_a_source_that_lost_most_memories_takes_none_along(copying: Copying) -> None:
    """It was dropped, and a forgotten replica made it anew."""
    await copying.remember(*(memory(ALICE, f"mem_{n}") for n in range(5)))
    await copying.run()
    copying.source = InMemoryStore(dimension=8)
    await copying.remember(memory(ALICE, "mem_9", created_at=LATER))
    report = await copying.run()
    assert len(await everything(copying.target)) == 6
    assert (report.missing, report.removed, report.complete) == (5, 0, False)


async def test_a_memory_that_cannot_be_embedded_is_counted_and_keeps_no_other_one_back(copying: Copying) -> None:
    await copying.remember(
        memory(ALICE, "mem_1"), memory(ALICE, "mem_2", content="unembeddable"), memory(ALICE, "mem_3")
    )
    report = await copying.run()
    assert {memory_id for _, memory_id in await everything(copying.target)} == {"mem_1", "mem_3"}
    assert (report.copied, report.failed, report.complete) == (2, 1, False)


async def test_a_memory_that_does_not_say_whose_it_is_keeps_the_copy_from_being_complete(copying: Copying) -> None:
    """The source may be dropped when it is. Only a digest is stored of so long an id."""
    await copying.remember(memory(ALICE, "mem_1"), memory(Scope("x" * 70_000), "mem_2"))
    report = await copying.run()
    assert set(await everything(copying.target)) == {("alice", "mem_1")}
    assert (report.copied, report.failed, report.complete) == (1, 1, False)


async def test_a_source_that_goes_on_changing_is_given_up_after_some_passes(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    await copying.remember(memory(ALICE, "mem_0"))
    upsert = copying.target.upsert

    async def another_meanwhile(scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        await upsert(scope, rows)
        await copying.remember(memory(ALICE, f"mem_{len(await everything(copying.source))}"))

    monkeypatch.setattr(copying.target, "upsert", another_meanwhile)
    report = await copying.run()
    assert (report.copied, report.complete) == (MAX_PASSES, False)


async def test_progress_counts_the_memories_of_each_pass(copying: Copying) -> None:
    await copying.remember(*(memory(ALICE, f"mem_{n}") for n in range(7)))
    await copying.run()
    assert copying.progress.begun == [("copying", 7), ("checking", 7)]
    assert copying.progress.advanced == 14


def test_copies_from_another_source_are_not_known(tmp_path: Path) -> None:
    """Two collections may be copied into one; what one of them lost must not take the other's along."""
    path, key = tmp_path / "reembed.db", ("alice", "mem_1")
    with CopiesFile.opened(path, place="here", source="old", target="new") as ledger:
        ledger.add([key])
        ledger.add([key])
    for source, expected in (("old", {key}), ("older", set())):
        with CopiesFile.opened(path, place="here", source=source, target="new") as ledger:
            assert ledger.known([key, ("alicem", "em_1")]) == expected
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"alice" not in path.read_bytes()
