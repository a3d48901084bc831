"""Where recall looks: at hand, else in the store; and what it measures against is embedded once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, cast

import pytest

from semrouter_memory.config import RecallConfig
from semrouter_memory.errors import Service, StoreUnavailableError, UnavailableError
from semrouter_memory.model import (
    Criteria,
    EmbeddedMemory,
    Hit,
    Memory,
    MemoryType,
    Page,
    RecallOptions,
    RecallRequest,
    Scope,
    Vector,
)
from semrouter_memory.ports import ChatModel
from semrouter_memory.recall.categories import categories_of
from semrouter_memory.recall.deadline import Deadline, StepTimer
from semrouter_memory.recall.keywords import KeywordSearch
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.recall.strategy import MemorySource, SearchResult, Strategy
from semrouter_memory.recall.vector_search import HybridSearch, SemanticSearch
from semrouter_memory.store import index_cache
from semrouter_memory.store.in_memory import InMemoryRows
from semrouter_memory.store.index_record import RecordFormat
from semrouter_memory.store.owner_index import OwnerIndex
from semrouter_memory.store.schema import Row
from tests.gated_store import GatedStore, ToldVersions
from tests.hashed import HashedEmbedder
from tests.indexed_store import IndexedStore
from tests.memories import DIMENSION, NOW, memory
from tests.raising import raising

ALICE, BOB = Scope("alice"), Scope("bob")
OPTIONS = RecallOptions(limit=5, threshold=0.6)
REQUEST = RecallRequest(scope=ALICE, query="What's my budget for the Hawaii trip?", options=OPTIONS)
BUDGET = "User's budget for the Hawaii trip is $10,000"
CAR = "User drives an old blue Volvo"


class Clock:
    def now(self) -> datetime:
        return NOW


class OutwardStore(GatedStore):
    """A store that may be away, and counts its searches."""

    def __init__(self) -> None:
        super().__init__(RecordFormat(categories_of, "1"))
        self.away = False
        self.searches = 0

    @property
    def available(self) -> bool:
        return not self.away

    async def search_index(self, criteria: Criteria, vector: Vector, **arguments: Any) -> OwnerIndex:
        self.searches += 1
        if self.away:
            raise StoreUnavailableError("away")
        return await super().search_index(criteria, vector, **arguments)

    async def load_records(self, scope: Scope, *, limit: int) -> Sequence[str | EmbeddedMemory] | None:
        if self.away:
            raise StoreUnavailableError("away")
        return await super().load_records(scope, limit=limit)

    async def page(self, criteria: Criteria, **arguments: Any) -> Page:
        if self.away:
            raise StoreUnavailableError("away")
        return await super().page(criteria, **arguments)


class SlowEmbedder(HashedEmbedder):
    """Its passages wait for `open` and may fail, its queries for `answering`; it counts what it is asked."""

    def __init__(self) -> None:
        super().__init__(DIMENSION)
        self.open = asyncio.Event()
        self.open.set()
        self.answering = asyncio.Event()
        self.answering.set()
        self.failures = 0
        self.batches = 0
        self.queries: list[str] = []

    async def embed_query(self, text: str) -> Vector:
        self.queries.append(text)
        await self.answering.wait()
        return await super().embed_query(text)

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        self.batches += 1
        await self.open.wait()
        if self.failures:
            self.failures -= 1
            raise UnavailableError("no", service=Service.EMBEDDING)
        return await super().embed_passages(texts)


@dataclass
class Kit:
    """One store, and searchers that have its memories at hand or ask it."""

    store: OutwardStore = field(default_factory=OutwardStore)
    embedder: SlowEmbedder = field(default_factory=SlowEmbedder)
    errors: list[BaseException] = field(default_factory=list)
    replica: IndexedStore = field(init=False)

    def __post_init__(self) -> None:
        self.replica = IndexedStore(
            self.store,
            ToldVersions(),
            on_error=self.errors.append,
            label=categories_of,
        )

    def source(self, *, at_hand: bool = True) -> MemorySource:
        return MemorySource(reader=self.store, indexes=self.replica.indexes if at_hand else None, clock=Clock())

    def searcher(self, *, at_hand: bool = True, **config: Any) -> HybridSearch | SemanticSearch:
        # The limit of time is another test's; a busy machine must not decide this one.
        settings = RecallConfig(**{"deadline_ms": 10_000, **config})
        search = SemanticSearch if settings.strategy == "semantic" else HybridSearch
        return search(source=self.source(at_hand=at_hand), vectors=QueryVectors(self.embedder), config=settings)

    async def remember(self, *contents: str, **more: Any) -> None:
        """Each a minute after the one before."""
        for at, content in enumerate(contents):
            await self.write(
                memory(ALICE, f"mem_{content}", content=content, created_at=ago(len(contents) - at), **more)
            )

    async def write(self, one: Memory) -> None:
        (vector,) = await HashedEmbedder(DIMENSION).embed_passages([one.content])
        await self.replica.upsert(one.scope, [EmbeddedMemory(one, vector)])


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


@pytest.fixture
async def kit() -> AsyncIterator[Kit]:
    made = Kit()
    yield made
    made.embedder.open.set()
    made.store.gated = False
    await made.replica.close()
    assert not made.errors


@pytest.fixture(params=[True, False], ids=["at hand", "in the store"])
def at_hand(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def search(searcher: Strategy, request: RecallRequest = REQUEST, *, deadline_ms: int = 10_000) -> SearchResult:
    query = Query(text=request.query, history=request.history, now=NOW, max_chars=4_000)
    async with Deadline(RecallConfig(deadline_ms=deadline_ms)) as deadline:
        return await searcher.search(query, request, deadline, StepTimer())


def contents(found: SearchResult) -> list[str]:
    return [hit.memory.content for hit in found.hits]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


# -- at hand, else in the store ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
async def test_what_is_found_and_its_relevance_are_the_same_at_hand_and_in_the_store(kit: Kit, strategy: str) -> None:
    await kit.remember(BUDGET, CAR, "User's hotel in Hawaii is the Moana", "User lives in Berlin", "User has a cat")
    near = await search(kit.searcher(strategy=strategy))
    assert kit.store.searches == 0
    far = await search(kit.searcher(strategy=strategy, at_hand=False))

    assert kit.store.searches == 1
    assert contents(near) == contents(far)
    assert contents(near)[0] == BUDGET
    # At hand vectors are numbers of eight bits.
    for one, other in zip(near.hits, far.hits, strict=True):
        assert one.similarity == pytest.approx(other.similarity, abs=0.005)
        assert one.relevance == pytest.approx(other.relevance, abs=0.03)


@pytest.mark.parametrize("strategy", ["hybrid", "semantic"])
async def test_passages_that_resemble_one_another_take_no_places_of_other_memories(kit: Kit, strategy: str) -> None:
    await kit.remember(CAR, "User lives in Berlin")
    whole = memory(ALICE, "long", content=f"{BUDGET}. " * 60)
    (vector,) = await HashedEmbedder(DIMENSION).embed_passages([BUDGET])
    passages = [EmbeddedMemory(replace(whole, content=BUDGET, passage=number), vector) for number in range(1, 61)]
    await kit.replica.upsert(ALICE, passages)
    found = contents(await search(kit.searcher(strategy=strategy)))
    assert (found[0], set(found), len(found)) == (BUDGET, {BUDGET, CAR, "User lives in Berlin"}, 3)


async def test_a_store_that_is_away_is_not_missed_while_the_memories_are_at_hand(kit: Kit) -> None:
    await kit.remember(BUDGET)
    searcher = kit.searcher()
    before = await search(searcher)
    kit.store.away = True

    assert contents(await search(searcher)) == contents(before) == [BUDGET]


async def test_a_store_that_is_away_is_said_before_anything_is_embedded(kit: Kit, at_hand: bool) -> None:
    """Of an owner whose memories are not at hand, or where none are kept there."""
    await kit.remember(BUDGET)
    kit.store.away = True

    with pytest.raises(StoreUnavailableError):
        await search(kit.searcher(at_hand=at_hand))
    assert (kit.embedder.queries, kit.store.searches) == ([], 0)


async def test_a_store_that_goes_away_in_the_middle_is_said_too(kit: Kit) -> None:
    class Leaving(SlowEmbedder):
        async def embed_query(self, text: str) -> Vector:
            kit.store.away = True
            return await super().embed_query(text)

    await kit.remember(BUDGET)
    kit.embedder = Leaving()

    with pytest.raises(StoreUnavailableError):
        await search(kit.searcher(at_hand=False))


@pytest.mark.usefixtures("stepped_time")
async def test_memories_that_are_late_at_hand_are_looked_for_in_the_store(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was late is at hand for the next request."""
    monkeypatch.setattr(index_cache, "_LOAD_DELAY_SECONDS", 0)
    await kit.remember(BUDGET)
    kit.store.gated = True
    searcher = kit.searcher()

    assert contents(await search(searcher, deadline_ms=10)) == [BUDGET]
    assert (kit.store.loads, kit.store.searches) == (1, 1)
    kit.store.gated = False
    for gate in list(kit.store.waiting):
        gate.set_result(None)
    await turns()
    assert contents(await search(searcher)) == [BUDGET]
    assert (kit.store.loads, kit.store.searches) == (1, 1)


async def test_nobody_has_anothers_memories(kit: Kit, at_hand: bool) -> None:
    await kit.remember(BUDGET)

    assert contents(await search(kit.searcher(at_hand=at_hand), replace(REQUEST, scope=BOB))) == []


async def test_a_project_has_its_own_memories_and_those_of_no_project(kit: Kit, at_hand: bool) -> None:
    searcher = kit.searcher(at_hand=at_hand)
    for project in ("", "work", "home"):
        await kit.write(memory(Scope("alice", project), f"mem_{project}", content=f"Hawaii trip of {project or 'all'}"))

    async def found(project: str) -> set[str]:
        return set(contents(await search(searcher, replace(REQUEST, scope=Scope("alice", project)))))

    assert await found("") == {"Hawaii trip of all"}
    assert await found("work") == {"Hawaii trip of all", "Hawaii trip of work"}
    assert await found("other") == {"Hawaii trip of all"}


async def test_what_has_expired_is_not_found(kit: Kit, at_hand: bool) -> None:
    """Neither is what expired while it was at hand."""
    await kit.write(memory(ALICE, "mem_1", content=BUDGET, expires_at=NOW + timedelta(microseconds=1)))
    await kit.write(memory(ALICE, "mem_2", content=CAR, expires_at=NOW))

    assert contents(await search(kit.searcher(at_hand=at_hand))) == [BUDGET]


async def test_only_types_that_are_asked_for_are_found(kit: Kit, at_hand: bool) -> None:
    await kit.write(memory(ALICE, "mem_1", content=BUDGET))
    await kit.write(memory(ALICE, "mem_2", content="To plan the Hawaii trip: ask Anna", kind=MemoryType.PROCEDURAL))
    procedural = replace(REQUEST, options=replace(OPTIONS, types=frozenset({MemoryType.PROCEDURAL})))

    assert contents(await search(kit.searcher(at_hand=at_hand), procedural)) == ["To plan the Hawaii trip: ask Anna"]


async def test_a_deleted_memory_is_not_found_even_when_it_was_at_hand(kit: Kit, at_hand: bool) -> None:
    await kit.remember(BUDGET, CAR)
    searcher = kit.searcher(at_hand=at_hand)
    assert BUDGET in contents(await search(searcher))
    await kit.replica.delete(ALICE, [f"mem_{BUDGET}"])

    assert contents(await search(searcher)) == [CAR]


async def test_what_two_searches_found_counts_once_with_its_better_relevance() -> None:
    one, other = memory(ALICE, "mem_1"), memory(ALICE, "mem_2")
    first = SearchResult([Hit(one, 0.5, 0.5), Hit(other, 0.4, 0.4)], frozenset({"mem_1"}))
    joined = first.joined(SearchResult([Hit(other, 0.9, 0.9)], frozenset({"mem_2"})))

    assert [(hit.memory.id, hit.relevance) for hit in joined.hits] == [("mem_2", 0.9), ("mem_1", 0.5)]
    assert joined.pinned == {"mem_1", "mem_2"}
    assert (joined.best, SearchResult().best) == (0.9, 0.0)


# -- a burst -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("stepped_time")
async def test_who_waits_for_others_queries_to_be_embedded_is_not_late(kit: Kit) -> None:
    await kit.remember(BUDGET)
    searcher = kit.searcher()
    await searcher.prepare()
    await search(searcher)
    kit.embedder.answering.clear()
    others = [asyncio.create_task(search(searcher)) for _ in range(2)]
    await turns()
    waiting = asyncio.create_task(search(searcher, deadline_ms=50))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    kit.embedder.answering.set()
    assert contents(await waiting) == [BUDGET]
    await asyncio.gather(*others)


@pytest.mark.usefixtures("stepped_time")
async def test_who_waits_for_the_own_query_is_late(kit: Kit) -> None:
    await kit.remember(BUDGET)
    searcher = kit.searcher()
    await searcher.prepare()
    kit.embedder.answering.clear()
    with pytest.raises(TimeoutError):
        await search(searcher, deadline_ms=50)


# -- a store that is searched -------------------------------------------------------------------------------------------


async def test_a_store_that_fails_while_it_is_searched_is_an_outage(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    await kit.remember(BUDGET)
    searcher = kit.searcher(at_hand=False)
    await searcher.prepare()

    async def fails(*_: Any) -> list[Row]:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(InMemoryRows, "search", fails)
    with pytest.raises(StoreUnavailableError):
        await search(searcher)


# -- what relevance is measured against --------------------------------------------------------------------------------


async def test_requests_at_once_wait_for_one_embedding_of_what_is_measured_against(kit: Kit) -> None:
    await kit.remember(BUDGET)
    kit.embedder.open.clear()
    searcher = kit.searcher()
    requests = [asyncio.create_task(search(searcher)) for _ in range(3)]
    await turns(200)
    assert not any(request.done() for request in requests)
    kit.embedder.open.set()

    assert [contents(each) for each in await asyncio.gather(*requests)] == [[BUDGET]] * 3
    await search(searcher)
    assert kit.embedder.batches == 1


async def test_a_request_that_is_given_up_leaves_the_embedding_to_the_others(kit: Kit) -> None:
    await kit.remember(BUDGET)
    kit.embedder.open.clear()
    searcher = kit.searcher()
    first, second = [asyncio.create_task(search(searcher)) for _ in range(2)]
    await turns(200)
    first.cancel()
    await asyncio.wait({first})
    assert first.cancelled()
    kit.embedder.open.set()

    assert contents(await second) == [BUDGET]
    assert kit.embedder.batches == 1


@pytest.mark.usefixtures("stepped_time")
async def test_when_all_who_wait_are_given_up_the_next_request_finds_the_embedding_done(kit: Kit) -> None:
    await kit.remember(BUDGET)
    kit.embedder.open.clear()
    searcher = kit.searcher()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(search(searcher), 0.01)
    kit.embedder.open.set()

    assert contents(await search(searcher)) == [BUDGET]
    assert kit.embedder.batches == 1


async def test_an_embedding_that_failed_is_tried_again(kit: Kit) -> None:
    await kit.remember(BUDGET)
    kit.embedder.failures = 1
    searcher = kit.searcher()

    with raising(UnavailableError, service=Service.EMBEDDING):
        await search(searcher)
    assert contents(await search(searcher)) == [BUDGET]
    assert kit.embedder.batches == 2


async def test_after_the_preparation_a_request_embeds_its_question_alone(kit: Kit) -> None:
    await kit.remember(BUDGET)
    searcher = kit.searcher()
    await searcher.prepare()
    kit.embedder.queries.clear()
    await search(searcher)

    assert (kit.embedder.queries, kit.embedder.batches) == ([REQUEST.query], 1)


async def test_a_preparation_that_fails_says_so(kit: Kit) -> None:
    kit.embedder.failures = 1

    with raising(UnavailableError, service=Service.EMBEDDING):
        await kit.searcher().prepare()


async def test_where_the_cosine_alone_counts_nothing_needs_to_be_prepared(kit: Kit) -> None:
    await kit.remember(BUDGET)
    searcher = kit.searcher(strategy="semantic")
    await searcher.prepare()
    await search(searcher)

    assert (kit.embedder.batches, kit.embedder.queries) == (0, ["What's user's budget for the Hawaii trip?"])


# -- by keywords -------------------------------------------------------------------------------------------------------


TRIPS = [f"User's trip number {number} to Hawaii" for number in range(6)]
"""Oldest first."""


async def by_keywords(
    kit: Kit, query: str, *, at_hand: bool, order: Literal["newest", "insertion"] = "newest", **request: Any
) -> list[str]:
    config = RecallConfig(strategy="keywords", max_keyword_memories=4, keyword_order=order)
    keywords = KeywordSearch(kit.source(at_hand=at_hand), None, config)
    return contents(await search(keywords, replace(REQUEST, query=query, **request)))


async def test_keywords_find_the_newest_memories_that_have_them_all(kit: Kit, at_hand: bool) -> None:
    await kit.remember(*TRIPS, CAR)

    assert await by_keywords(kit, "my trips to Hawaii", at_hand=at_hand) == []
    assert await by_keywords(kit, "the Hawaii trip?", at_hand=at_hand) == TRIPS[::-1]
    assert await by_keywords(kit, "Hawaii Volvo", at_hand=at_hand) == []
    assert (kit.embedder.queries, kit.store.searches) == ([], 0)


async def test_without_a_keyword_the_newest_memories_are_found(kit: Kit, at_hand: bool) -> None:
    await kit.remember(*TRIPS, CAR)

    for query in ("hello", "", " \n"):
        assert await by_keywords(kit, query, at_hand=at_hand) == [CAR, *TRIPS[::-1]]


async def test_no_model_is_asked_for_the_keywords_of_nothing(kit: Kit, at_hand: bool) -> None:
    await kit.remember(CAR)
    keywords = KeywordSearch(kit.source(at_hand=at_hand), cast("ChatModel", object()), RecallConfig())

    for query in ("", " \n"):
        assert contents(await search(keywords, replace(REQUEST, query=query))) == [CAR]


async def test_the_order_of_insertion_can_be_asked_for(kit: Kit, at_hand: bool) -> None:
    await kit.remember(*TRIPS, CAR)

    assert await by_keywords(kit, "", at_hand=at_hand, order="insertion") == [*TRIPS, CAR]
    assert await by_keywords(kit, "the Hawaii trip?", at_hand=at_hand, order="insertion") == TRIPS


async def test_more_is_found_than_the_cap_since_some_may_be_visible_but_not_everything(kit: Kit, at_hand: bool) -> None:
    await kit.remember(*(f"User's trip number {number} to Hawaii" for number in range(30)))

    assert len(await by_keywords(kit, "Hawaii trip", at_hand=at_hand)) == 20


async def test_keywords_look_only_where_recall_may(kit: Kit, at_hand: bool) -> None:
    await kit.write(memory(ALICE, "mem_1", content="Hawaii in May"))
    await kit.write(memory(ALICE, "mem_2", content="Hawaii in June", expires_at=NOW))
    await kit.write(memory(Scope("alice", "work"), "mem_3", content="Hawaii in July"))
    await kit.write(memory(ALICE, "mem_4", content="Hawaii: ask Anna", kind=MemoryType.PROCEDURAL))
    semantic = replace(OPTIONS, types=frozenset({MemoryType.SEMANTIC}))

    assert await by_keywords(kit, "Hawaii", at_hand=at_hand, options=semantic) == ["Hawaii in May"]


async def test_keywords_need_the_memories_at_hand_or_the_store(kit: Kit, at_hand: bool) -> None:
    await kit.remember(BUDGET)
    kit.store.away = True

    with pytest.raises(StoreUnavailableError):
        await by_keywords(kit, "Hawaii", at_hand=at_hand)
