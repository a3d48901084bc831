"""The writer over a real turn log and real locks: order, history, flags, expiry, and a model's say."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.config import OwnerIndexConfig
from semrouter_memory.errors import LockLostError, ModelUnavailableError
from semrouter_memory.model import (
    Candidate,
    ChatMessage,
    Claim,
    Criteria,
    Hit,
    Memory,
    MemoryType,
    Scope,
    SessionHints,
    Tombstone,
    Turn,
)
from semrouter_memory.ports import MemoryReader
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter, Written
from semrouter_memory.state.local import InProcessOwnerLocks, InProcessOwnerVersions, SureHold
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.index_cache import AnnouncingWriter, IndexCache
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.hashed import HashedEmbedder
from tests.memory_service import backends_of

ALICE = Scope("alice")
START = datetime(2026, 3, 20, 12, tzinfo=UTC)
CITIES = ["User lives in Berlin", "User lives in Munich", "User lives in Rome", "User lives in Oslo"]


class SettableClock:
    def __init__(self) -> None:
        self.time = START + timedelta(days=100)

    def now(self) -> datetime:
        return self.time


class WatchedLocks(InProcessOwnerLocks):
    """The real locks, which tell whether one is held."""

    def __init__(self) -> None:
        super().__init__()
        self.held = False
        self.confirmed = 0
        self.lost = False

    @asynccontextmanager
    async def hold(self, scope: Scope) -> AsyncIterator[SureHold]:
        async with super().hold(scope):
            self.held = True
            try:
                yield _Hold(self)
            finally:
                self.held = False


class _Hold(SureHold):
    def __init__(self, locks: WatchedLocks) -> None:
        self._locks = locks

    async def confirm(self) -> None:
        self._locks.confirmed += 1
        if self._locks.lost:
            raise LockLostError("lost")


class ScriptedModel:
    name = "stand-in"
    retry_after = None

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.error: Exception | None = None
        self.asked = 0
        self.meanwhile: Callable[[], Awaitable[object]] | None = None

    def late(self) -> None:
        """Only deadlines tell."""

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        self.asked += 1
        if self.meanwhile:
            await self.meanwhile()
        if self.error:
            raise self.error
        return self.answer


class Writing:
    """A writer with its parts."""

    def __init__(
        self,
        path: Path,
        *,
        model: ScriptedModel | None = None,
        ttl_days: dict[MemoryType, float] | None = None,
        indexed: bool = True,
    ) -> None:
        self.clock = SettableClock()
        self.log = SqliteTurnLog(path / "turns.db", clock=self.clock)
        self.store = InMemoryStore(dimension=384)
        self.indexes = IndexCache(self.store, InProcessOwnerVersions(), config=OwnerIndexConfig(), on_error=_raise)
        self.announcing = AnnouncingWriter(self.store, self.indexes)
        self.indexed = indexed
        self.locks = WatchedLocks()
        self.told: list[Scope] = []
        self.ttl_days = ttl_days or {}
        self.turns = itertools.count()
        self.writer = self.made(model)

    def made(self, model: ScriptedModel | None, *, reader: MemoryReader | None = None) -> ReconcilingWriter:
        return ReconcilingWriter(
            backends_of(
                store=reader or self.store,
                writer=self.announcing,
                owner_indexes=self.indexes if self.indexed and reader is None else None,
                embedder=HashedEmbedder(dimension=384),
                turn_log=self.log,
                locks=self.locks,
                clock=self.clock,
            ),
            ttl_days=self.ttl_days,
            adjudicator=model,
            written=self.told.append,
        )

    async def turn(self, content: str, day: float, scope: Scope = ALICE) -> tuple[Claim, Candidate]:
        number = next(self.turns)
        at = START + timedelta(days=day)
        appended = self.log.append(
            Turn(
                scope=scope,
                hints=SessionHints(explicit=f"s{number}"),
                user_texts=(content,),
                assistant_text="Noted.",
                observed_at=at,
                request_id=f"r{number}",
            ),
            remember=False,
        )
        claim = await self.log.claim(scope, appended.session_id, lease=timedelta(days=1), context=0)
        assert claim is not None
        candidate = Candidate(
            type=MemoryType.SEMANTIC,
            content=content,
            observed_at=at,
            extractor="quotes",
            session_id=appended.session_id,
            turn_ids=(appended.turn_id,),
        )
        return claim, candidate

    async def say(self, content: str, day: float, scope: Scope = ALICE) -> Written:
        claim, candidate = await self.turn(content, day, scope)
        written = await self.writer.write(claim, [candidate])
        assert written is not None
        return written

    async def memories(self) -> list[Memory]:
        page = await self.store.page(Criteria(ALICE), limit=100)
        return sorted(page.memories, key=lambda memory: memory.observed_at)

    async def active(self) -> dict[str, Memory]:
        page = await self.store.page(Criteria(ALICE, active_at=self.clock.now()), limit=100)
        return {memory.content: memory for memory in page.memories}


def _raise(error: BaseException) -> None:
    raise AssertionError from error


@pytest.fixture(params=[True, False], ids=["index", "store"])
def writing(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Writing]:
    """Where neighbours come from the owner's index, and where the store is searched for them."""
    made = Writing(tmp_path, indexed=request.param)
    yield made
    made.log.close()


@pytest.fixture
def model() -> ScriptedModel:
    return ScriptedModel('{"action": "skip", "target": 1}')


@pytest.fixture
def judged(tmp_path: Path, model: ScriptedModel) -> Iterator[Writing]:
    made = Writing(tmp_path, model=model)
    yield made
    made.log.close()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
async def test_in_whatever_order_values_arrive_the_chain_is_the_same(order: tuple[int, ...], writing: Writing) -> None:
    for number in order:
        await writing.say(CITIES[number], number)
    chain = await writing.memories()
    assert [memory.content for memory in chain] == CITIES
    assert list(await writing.active()) == [CITIES[-1]]
    for memory, newer in itertools.pairwise(chain):
        assert (memory.superseded_by, memory.superseded_at) == (newer.id, newer.observed_at)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
async def test_in_one_claim_each_candidate_meets_those_before_it(order: tuple[int, ...], writing: Writing) -> None:
    claim, candidate = await writing.turn(CITIES[0], 0)
    said = [START + timedelta(days=number) for number in range(4)]
    candidates = [replace(candidate, content=CITIES[number], observed_at=said[number]) for number in order]
    await writing.writer.write(claim, [*candidates, candidates[0]])
    chain = await writing.memories()
    assert [memory.content for memory in chain] == CITIES
    assert [memory.superseded_by for memory in chain] == [newer.id for newer in chain[1:]] + [""]


async def test_what_holds_in_another_project_is_no_neighbour(writing: Writing) -> None:
    await writing.say(CITIES[0], 0)
    await writing.say(CITIES[1], 1, ALICE.in_project("moving"))
    assert sorted(await writing.active()) == sorted(CITIES[:2])
    await writing.say(CITIES[2], 2, ALICE.in_project("moving"))
    assert sorted(await writing.active()) == sorted((CITIES[0], CITIES[2]))


class SlowReader(InMemoryStore):
    """Answers a search when no further one begins, as a server does at its next time tick."""

    searches = 0
    ticks = 0

    async def search(self, *args: Any, **kwargs: Any) -> list[Hit]:
        self.searches += 1
        before = self.searches
        await asyncio.sleep(0)
        self.ticks += before == self.searches
        return await super().search(*args, **kwargs)


async def test_the_neighbours_of_many_candidates_cost_few_time_ticks(writing: Writing) -> None:
    claim, candidate = await writing.turn(CITIES[0], 0)
    reader = SlowReader(dimension=384)
    candidates = [replace(candidate, content=f"User has visited city number {number}") for number in range(20)]
    await writing.made(None, reader=reader).write(claim, candidates)
    assert reader.searches == 20
    assert reader.ticks <= 8


async def test_reading_a_superseded_statement_again_writes_nothing(writing: Writing) -> None:
    claim, berlin = await writing.turn(CITIES[0], 0)
    await writing.writer.write(claim, [berlin])
    await writing.say(CITIES[1], 1)
    before = await writing.memories()
    await writing.writer.write(claim, [berlin])
    assert await writing.memories() == before


async def test_when_it_was_said_and_when_it_was_learned_are_kept_apart(writing: Writing) -> None:
    await writing.say(CITIES[0], 0)
    writing.clock.time += timedelta(hours=1)
    await writing.say(CITIES[1], 1)
    old, new = await writing.memories()
    assert old.superseded_at == new.observed_at == START + timedelta(days=1)
    assert old.updated_at == writing.clock.time


async def test_a_change_is_newer_than_what_it_changes_with_the_clock_set_back_too(writing: Writing) -> None:
    """Otherwise a write that is completed later would leave the older row as it is."""
    await writing.say(CITIES[0], 0)
    (before,) = await writing.memories()
    writing.clock.time -= timedelta(hours=1)
    await writing.say(CITIES[1], 1)
    old, _ = await writing.memories()
    assert old.superseded_at is not None
    assert old.updated_at > before.updated_at


async def test_an_open_contradiction_marks_both_and_is_settled_by_what_is_said_later(writing: Writing) -> None:
    await writing.say(CITIES[0], 0)
    await writing.say(CITIES[1], 0)
    active = await writing.active()
    berlin, munich = active[CITIES[0]], active[CITIES[1]]
    assert berlin.metadata["flagged"]
    assert munich.metadata["flagged"]
    assert (berlin.metadata["contradicts"], munich.metadata["contradicts"]) == ([munich.id], [berlin.id])
    await writing.say(CITIES[1], 2)
    settled = await writing.active()
    assert list(settled) == [CITIES[1]]
    assert "flagged" not in settled[CITIES[1]].metadata


async def test_the_end_of_one_side_takes_the_mark_from_the_other(writing: Writing) -> None:
    await writing.say("User likes cats and dogs", 0)
    await writing.say("User doesn't like dogs", 1)
    assert (await writing.active())["User likes cats and dogs"].metadata["flagged"]
    await writing.say("User likes dogs after all", 2)
    active = await writing.active()
    assert "User doesn't like dogs" not in active
    assert "flagged" not in active["User likes cats and dogs"].metadata


async def test_saying_it_again_counts_and_lets_it_live_longer(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    writing = Writing(tmp_path, ttl_days={MemoryType.SEMANTIC: 200})
    request.addfinalizer(writing.log.close)
    await writing.say(CITIES[0], 0)
    first = (await writing.active())[CITIES[0]]
    assert first.expires_at == START + timedelta(days=200)
    claim, again = await writing.turn("The user lives in Berlin.", 50)
    for _ in range(2):
        await writing.writer.write(claim, [again])
    memory = (await writing.active())[CITIES[0]]
    assert (memory.id, memory.metadata["confirmations"]) == (first.id, 1)
    assert memory.observed_at == START + timedelta(days=50)
    assert memory.expires_at == START + timedelta(days=250)
    assert list(again.turn_ids) == memory.metadata["turn_ids"][1:]


async def test_saying_it_earlier_only_adds_where_it_comes_from(writing: Writing) -> None:
    await writing.say(CITIES[0], 5)
    await writing.say(CITIES[0], 1)
    (memory,) = await writing.memories()
    assert memory.observed_at == START + timedelta(days=5)
    assert len(memory.metadata["turn_ids"]) == 2


async def test_every_write_is_confirmed_and_told(writing: Writing) -> None:
    await writing.say(CITIES[0], 0)
    assert (writing.locks.confirmed, writing.told) == (1, [ALICE])
    writing.locks.lost = True
    claim, candidate = await writing.turn(CITIES[1], 1)
    with pytest.raises(LockLostError):
        await writing.writer.write(claim, [candidate])
    assert list(await writing.active()) == [CITIES[0]]


async def test_a_memory_is_replaced_by_its_id_and_keeps_when_it_was_made(writing: Writing) -> None:
    claim, first = await writing.turn("On 2026-03-20 the user planned a trip", 0)
    assert await writing.writer.replace(claim, first, memory_id="episode")
    made = writing.clock.time
    writing.clock.time += timedelta(hours=1)
    longer = replace(first, content="On 2026-03-20 the user planned a trip and booked a hotel")
    assert await writing.writer.replace(claim, longer, memory_id="episode")
    memory = await writing.store.get(ALICE, "episode")
    assert memory is not None
    assert (memory.content, memory.source, memory.created_at) == (longer.content, "session", made)
    assert len(await writing.active()) == 1


async def test_a_deleted_users_session_is_not_summed_up(writing: Writing) -> None:
    claim, candidate = await writing.turn("On 2026-03-20 the user planned a trip", 0)
    await writing.log.tombstone(Tombstone(scope=ALICE, at=START + timedelta(days=1)))
    assert not await writing.writer.replace(claim, candidate, memory_id="episode")


# -- a model's say -----------------------------------------------------------------------------------------------------

KNOWN = "User grows tomatoes on the balcony of the old house"
NEW = "User grows peppers on the balcony of the old house"


async def test_a_model_decides_what_the_rules_are_not_sure_of(judged: Writing, model: ScriptedModel) -> None:
    model.answer = '{"action": "update", "target": 1}'
    await judged.say(KNOWN, 0)
    written = await judged.say(NEW, 1)
    assert (model.asked, dict(written.actions)) == (1, {"update": 1})
    assert list(await judged.active()) == [NEW]


@pytest.mark.parametrize("error", [ModelUnavailableError("away", circuit_open=True), None])
async def test_a_model_that_fails_leaves_it_to_the_rules(
    judged: Writing, model: ScriptedModel, error: Exception | None
) -> None:
    model.answer, model.error = "no idea", error
    await judged.say(KNOWN, 0)
    written = await judged.say(NEW, 1)
    assert (model.asked, dict(written.actions)) == (1, {"add": 1})


async def test_what_the_rules_are_sure_of_is_not_asked(judged: Writing, model: ScriptedModel) -> None:
    for day, city in enumerate(CITIES):
        await judged.say(city, day)
    assert model.asked == 0
    assert list(await judged.active()) == [CITIES[-1]]


async def test_what_changed_while_the_model_thought_is_left_to_the_rules(judged: Writing, model: ScriptedModel) -> None:
    await judged.say(KNOWN, 0)
    known = (await judged.active())[KNOWN]
    held = []

    async def delete() -> None:
        held.append(judged.locks.held)
        await judged.announcing.delete(ALICE, [known.id])

    model.meanwhile = delete
    await judged.say(NEW, 1)
    assert held == [False]
    assert list(await judged.active()) == [NEW]


async def test_two_sessions_at_once_write_a_statement_once(writing: Writing) -> None:
    turns = [await writing.turn(CITIES[0], 0) for _ in range(5)]
    await asyncio.gather(*(writing.writer.write(claim, [candidate]) for claim, candidate in turns))
    assert len(await writing.memories()) == 1


async def test_a_write_that_is_repeated_before_it_is_seen_is_the_same_row(writing: Writing) -> None:
    """A replica ends between its write and the mark in the log, and a server shows the write late."""
    claim, candidate = await writing.turn(CITIES[0], 0)
    other = writing.made(None, reader=InMemoryStore(dimension=384))
    for writer in (writing.writer, other):
        assert await writer.write(claim, [candidate]) is not None
    assert len(await writing.memories()) == 1
