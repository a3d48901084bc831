"""What every memory store does: in memory, in Milvus Lite's file, on a Milvus server."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from semrouter_memory.config import MilvusConfig
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.model import (
    ALWAYS,
    PASSAGE_COUNT,
    Criteria,
    EmbeddedMemory,
    Memory,
    MemoryType,
    Period,
    Reach,
    Scope,
    parse_filter,
)
from semrouter_memory.ports import MemoryIndex
from semrouter_memory.store import memory_collection
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.index_record import RecordFormat
from semrouter_memory.store.memory_collection import RECORD_BATCH, SCAN_BATCH
from semrouter_memory.store.memory_collection import MemoryCollection as Store
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.store.owner_index import build_index, unlabelled
from semrouter_memory.store.schema import Row, Selection
from tests.memories import DIMENSION, NOW, embedded, memory, recallable, vector
from tests.milvus_server import MilvusServer
from tests.store_observer import StoreObserver

pytestmark = pytest.mark.asyncio(loop_scope="module")


_USERS = itertools.count()
_RECORD_FORMAT = RecordFormat(unlabelled, "test")

HOSTILE = (
    "",
    'a"b',
    "a'b",
    "a\\",
    'a\\"',
    '" or 1 == 1 or owner == "',
    "' or owner != '",
    '"] or owner like "%',
    "user:victim",
    "victim ",
    "Victim",
    "vіctim",  # a Cyrillic i
    "vi\u0301ctim",
    "v\u00edctim",
    "victim\x00",
    "victim\n",
    "victim\t\r\x0b",
    "\x1b[0m\x7f\x85",
    "%",
    "%76ictim",
    "%sha256%",
    "{victim}",
    "{{owner}}",
    "$meta",
    "\\u0076ictim",
    "\\x76ictim",
    "/*",
    "--",
    "\u202evictim",
    "\u200bvictim",
    "\ud800",
    "\U0010ffff",
    "😀",
    "x" * 10_000,
    '"' * 10_000,
    "é" * 10_000,
    "é" * 10_000 + "!",
)
"""Ids that are not what they seem; beside them lives the user `victim`."""


@contextlib.asynccontextmanager
async def _milvus(config: MilvusConfig, directory: Path) -> AsyncIterator[Store]:
    store = MilvusStore(
        config, data_dir=directory, fingerprint="test", observer=StoreObserver(), record_format=_RECORD_FORMAT
    )
    await store.start()
    yield store
    await store.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["server", "lite", "in_memory"])
async def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Store]:
    if request.param == "in_memory":
        yield InMemoryStore(dimension=DIMENSION, record_format=_RECORD_FORMAT)
        return
    uri = None
    if request.param == "server":
        server: MilvusServer = request.getfixturevalue("milvus_server")
        uri = server.uri
    config = MilvusConfig(uri=uri, collection="contract", dimension=DIMENSION, timeout_ms=30_000)
    async with _milvus(config, tmp_path_factory.mktemp("store")) as opened:
        yield opened


@pytest.fixture
def user() -> Scope:
    """One whom no other test knows."""
    return Scope(f"user-{next(_USERS)}")


@pytest.fixture
def searches_words(request: pytest.FixtureRequest) -> bool:
    """The server that the tests have is too old for it."""
    return bool(request.node.callspec.params["store"] != "server")


async def found(store: Store, scope: Scope, *, reach: Reach = Reach.RECALL, text: str = "") -> set[str]:
    criteria = Criteria(scope, active_at=NOW, reach=reach)
    hits = await store.search(criteria, vector(0), limit=100, fresh=True, text=text)
    index = await store.search_index(criteria, vector(0), limit=100, fresh=True, text=text)
    assert indexed(index, criteria) == sorted((hit.memory for hit in hits), key=place)
    return {hit.memory.content for hit in hits}


def indexed(index: MemoryIndex, criteria: Criteria) -> list[Memory]:
    return [index.memory(position) for position in map(int, index.positions(criteria))]


def place(memory: Memory) -> tuple[datetime, str, int]:
    """By which an index orders."""
    return memory.created_at, memory.id, memory.passage


async def named(
    store: Store,
    scope: Scope,
    text: str,
    *,
    limit: int = 10,
    reach: Reach = Reach.RECALL,
    types: frozenset[MemoryType] | None = None,
) -> set[str]:
    """What the text's words find, at most the `limit` best, where nothing is found by its vector."""
    kinds = [MemoryType.SEMANTIC] if types is None else types
    near = [memory(scope, f"mem_near_{kind}_{n}", content=".", kind=kind) for kind in kinds for n in range(limit)]
    await store.upsert(scope, [EmbeddedMemory(one, -vector(0)) for one in near])
    hits = await store.search(
        Criteria(scope, active_at=NOW, reach=reach, types=types), -vector(0), limit=limit, fresh=True, text=text
    )
    await store.delete(scope, [one.id for one in near])
    return {hit.memory.id for hit in hits} - {one.id for one in near}


async def listed(store: Store, scope: Scope, *, reach: Reach = Reach.ALL) -> set[str]:
    page = await store.page(Criteria(scope, active_at=NOW, reach=reach), limit=100)
    return {one.content for one in page.memories}


async def write(store: Store, *memories: Memory) -> None:
    for one in memories:
        await store.upsert(one.scope, [embedded(one)])


# -- what is written comes back ----------------------------------------------------------------------------------------


async def test_a_memory_comes_back_as_it_was_written(store: Store, user: Scope) -> None:
    """Every field, times to the microsecond, numbers to the bit, metadata as JSON."""
    scope = replace(user, project_id="hawaii/2026")
    written = Memory(
        id="mem_whole",
        scope=scope,
        type=MemoryType.PROCEDURAL,
        content='Deploy:\n\t"make release" \\ then \x00 push; 部署 😀 {x} %s',
        source="conversation",
        observed_at=NOW - timedelta(days=20_000, microseconds=1),
        created_at=NOW,
        updated_at=NOW + timedelta(microseconds=1),
        session_id="session 1",
        superseded_at=NOW + timedelta(seconds=5),
        superseded_by="mem_other",
        expires_at=NOW + timedelta(days=900_000),
        importance=0.7,
        metadata={"turn_ids": ["a", "b"], "n": 2**53 + 1, "x": 0.1, "deep": {"null": None, "yes": True, "é\x00": ""}},
    )
    await write(store, written)
    assert await store.get(user, "mem_whole") == written


async def test_what_is_not_set_comes_back_unset(store: Store, user: Scope) -> None:
    await write(store, memory(user))
    assert await store.get(user, "mem_1") == memory(user)


async def test_content_that_is_no_unicode_text_is_kept_as_far_as_it_is(store: Store, user: Scope) -> None:
    await write(store, memory(user, content="half \ud83d of it"))
    one = await store.get(user, "mem_1")
    assert one is not None
    assert one.content == "half ? of it"


async def test_the_largest_content_is_kept(store: Store, user: Scope) -> None:
    longest = memory(user, content="é" * 32_767 + "!")
    await write(store, longest)
    assert await store.get(user, "mem_1") == longest


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"content": "é" * 32_768}, "content"),
        ({"metadata": {"x": "y" * 65_536}}, "metadata"),
        ({"metadata": {"x": object()}}, "metadata"),
        ({"importance": float("nan")}, "importance"),
        ({"session_id": "x" * 65_536}, "session_id"),
        ({"id": "x" * 65_536}, "id"),
    ],
)
async def test_what_cannot_be_held_is_refused_whole(
    store: Store, user: Scope, change: dict[str, object], field: str
) -> None:
    """No row of the call is written, and the message does not repeat the value."""
    good, bad = memory(user, "mem_good"), replace(memory(user, "mem_bad"), **change)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError) as caught:
        await store.upsert(user, [embedded(good), embedded(bad)])
    assert caught.value.field == field
    assert len(str(caught.value)) < 100
    assert await store.get(user, "mem_good") is None


@pytest.mark.parametrize("bad", [np.zeros(DIMENSION + 1, np.float32), np.full(DIMENSION, np.nan, np.float32)])
async def test_a_vector_that_is_none_of_the_collection_is_refused(store: Store, user: Scope, bad: np.ndarray) -> None:
    with pytest.raises(InvalidRequestError):
        await store.upsert(user, [EmbeddedMemory(memory(user), bad)])


async def test_writing_again_replaces(store: Store, user: Scope) -> None:
    """Also within one call, where the last one counts; the old text is not found any more."""
    await store.upsert(user, [embedded(memory(user, content="old")), embedded(memory(user, content="newer"))])
    assert await found(store, user) == {"newer"}
    await store.upsert(user, [embedded(memory(user, content="newest"))])
    assert await found(store, user) == {"newest"}
    assert await listed(store, user) == {"newest"}


async def test_many_rows_are_written_in_one_call(store: Store, user: Scope) -> None:
    await store.upsert(user, [embedded(memory(user, f"mem_{n}", content=str(n)), n) for n in range(450)])
    assert await store.delete_all(user, Reach.ALL) == 450


async def test_the_best_come_first_with_their_cosine(store: Store, user: Scope) -> None:
    await store.upsert(user, [embedded(memory(user, f"mem_{n}"), n) for n in range(30)])
    hits = await store.search(recallable(user), vector(7), limit=5, fresh=True)
    expected = sorted((float(vector(7) @ vector(n)) for n in range(30)), reverse=True)[:5]
    assert hits[0].memory.id == "mem_7"
    assert [hit.similarity for hit in hits] == pytest.approx(expected, abs=1e-5)
    assert all(hit.relevance == hit.similarity for hit in hits)


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_of_nothing_finds_nothing(store: Store, user: Scope, limit: int) -> None:
    await write(store, memory(user))
    assert await store.search(recallable(user), vector(0), limit=limit, fresh=True) == []
    assert (await store.page(Criteria(user, active_at=NOW), limit=limit)).memories == ()


async def test_every_acknowledged_write_is_seen_by_a_fresh_read(store: Store, user: Scope) -> None:
    for n in range(5):
        await store.upsert(user, [embedded(memory(user, f"mem_{n}", content=str(n)))])
        assert await found(store, user) == {str(m) for m in range(n + 1)}
        assert await store.get(user, f"mem_{n}") is not None


async def test_a_stale_search_comes_to_see_a_write(store: Store, user: Scope) -> None:
    await write(store, memory(user))
    for _ in range(100):
        if hits := await store.search(recallable(user), vector(0), limit=5):
            break
        await asyncio.sleep(0.1)
    assert [hit.memory.id for hit in hits] == ["mem_1"]


async def test_it_says_that_it_is_available(store: Store) -> None:
    assert store.available


# -- nothing crosses users ---------------------------------------------------------------------------------------------


async def test_no_id_opens_another_users_memories(store: Store) -> None:
    """Every hostile user, and the victim beside them, sees, lists, gets and deletes only what is their own."""
    users = [Scope(text) for text in (*HOSTILE, "victim")]
    everybodys = " ".join(str(number) for number in range(len(users)))

    async def write_one(number: int, scope: Scope) -> None:
        await store.upsert(scope, [embedded(memory(scope, "mem_shared", content=str(number)))])

    async def sees_only_their_own(number: int, scope: Scope) -> None:
        own = await store.get(scope, "mem_shared")
        assert own is not None
        assert (own.content, own.scope) == (str(number), scope)
        assert await found(store, scope) == {str(number)}
        assert await found(store, scope, text=everybodys) == {str(number)}
        assert await listed(store, scope) == {str(number)}

    async def deletes_only_their_own(scope: Scope) -> None:
        assert await store.delete(scope, ["mem_shared"]) == 1
        assert await store.delete_all(scope, Reach.ALL) == 0

    await asyncio.gather(*(write_one(number, scope) for number, scope in enumerate(users)))
    await asyncio.gather(*(sees_only_their_own(number, scope) for number, scope in enumerate(users)))
    await asyncio.gather(*(deletes_only_their_own(scope) for scope in users[:-1]))
    await sees_only_their_own(len(users) - 1, users[-1])


async def test_no_project_opens_another_project(store: Store, user: Scope) -> None:
    projects = [replace(user, project_id=text) for text in HOSTILE]
    for number, scope in enumerate(projects):
        await store.upsert(user, [embedded(memory(scope, f"mem_{number}", content=str(number)))])
    seen = await asyncio.gather(*(listed(store, scope, reach=Reach.EXACT) for scope in projects))
    assert seen == [{str(number)} for number in range(len(projects))]
    text = " ".join(str(number) for number in range(len(projects)))
    seen = await asyncio.gather(*(found(store, scope, reach=Reach.EXACT, text=text) for scope in projects))
    assert seen == [{str(number)} for number in range(len(projects))]
    assert len(await listed(store, user)) == len(HOSTILE)


async def test_hostile_memory_ids_name_one_memory_each(store: Store, user: Scope) -> None:
    await store.upsert(user, [embedded(memory(user, text, content=str(n))) for n, text in enumerate(HOSTILE)])
    got = await asyncio.gather(*(store.get(user, text) for text in HOSTILE))
    assert [(one.id, one.content) for one in got if one] == [(text, str(n)) for n, text in enumerate(HOSTILE)]
    assert await store.delete(user, HOSTILE[1:]) == len(HOSTILE) - 1
    assert await listed(store, user) == {"0"}


async def test_users_beyond_any_column_are_still_told_apart(store: Store) -> None:
    """An owner that does not fit is known by its digest."""
    one, other = Scope("x" * 70_000), Scope("x" * 70_000 + "!")
    await write(store, memory(one, content="one"), memory(other, content="other"))
    assert await found(store, one) == {"one"}
    assert await found(store, other) == {"other"}


async def test_a_memory_of_another_owner_is_not_written(store: Store, user: Scope) -> None:
    with pytest.raises(InvalidRequestError):
        await store.upsert(user, [embedded(memory(Scope("victim of a mistake")))])


async def test_the_same_id_is_another_memory_for_another_user(store: Store, user: Scope) -> None:
    """Nobody overwrites or deletes a row by knowing its id."""
    other = Scope(f"{user.owner_id}-other")
    await write(store, memory(user, content="mine"))
    await write(store, memory(other, content="theirs"))
    assert await store.delete(other, ["mem_1"]) == 1
    assert await listed(store, user) == {"mine"}


# -- which of the owner's memories -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("project", "reach", "expected"),
    [
        ("", Reach.RECALL, {"own"}),
        ("a", Reach.RECALL, {"own", "a"}),
        ("c", Reach.RECALL, {"own"}),
        ("", Reach.EXACT, {"own"}),
        ("a", Reach.EXACT, {"a"}),
        ("", Reach.ALL, {"own", "a", "b"}),
        ("a", Reach.ALL, {"own", "a", "b"}),
    ],
)
async def test_the_reach_selects_projects(
    store: Store, user: Scope, project: str, reach: Reach, expected: set[str]
) -> None:
    for name in ("", "a", "b"):
        await write(store, memory(replace(user, project_id=name), f"mem_{name}", content=name or "own"))
    scope = replace(user, project_id=project)
    assert await found(store, scope, reach=reach) == expected
    assert await listed(store, scope, reach=reach) == expected


async def test_a_memory_is_got_in_whatever_project_it_is(store: Store, user: Scope) -> None:
    await write(store, memory(replace(user, project_id="a")))
    one = await store.get(replace(user, project_id="b"), "mem_1")
    assert one is not None
    assert one.scope.project_id == "a"


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (None, {"semantic", "procedural", "episodic", "reflective"}),
        (frozenset({MemoryType.EPISODIC}), {"episodic"}),
        (frozenset({MemoryType.EPISODIC, MemoryType.SEMANTIC}), {"episodic", "semantic"}),
        (frozenset[MemoryType](), set[str]()),
    ],
)
async def test_types_select(store: Store, user: Scope, types: frozenset[MemoryType] | None, expected: set[str]) -> None:
    for kind in MemoryType:
        await write(store, memory(user, f"mem_{kind}", kind=kind, content=kind.value))
    hits = await store.search(recallable(user, types=types), vector(0), limit=10, fresh=True)
    page = await store.page(Criteria(user, active_at=NOW, types=types), limit=10)
    assert {hit.memory.content for hit in hits} == expected
    assert {one.content for one in page.memories} == expected


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        (Period(start=NOW), {"second", "third"}),
        (Period(end=NOW), {"first"}),
        (Period(NOW, NOW + timedelta(microseconds=1)), {"second"}),
        (Period(NOW + timedelta(days=2)), set[str]()),
        (ALWAYS, {"first", "second", "third"}),
    ],
)
async def test_a_period_selects_by_when_it_was_said(
    store: Store, user: Scope, period: Period, expected: set[str]
) -> None:
    """Whenever it was written; each time to the microsecond."""
    for day, content in enumerate(("first", "second", "third"), start=-1):
        one = memory(user, f"mem_{content}", content=content)
        await write(store, replace(one, observed_at=NOW + timedelta(days=day)))
    hits = await store.search(recallable(user, observed=period), vector(0), limit=10, fresh=True, text="first")
    page = await store.page(Criteria(user, active_at=NOW, observed=period), limit=10)
    assert {hit.memory.content for hit in hits} == expected
    assert {one.content for one in page.memories} == expected


ATTACHED: dict[str, Any] = {
    "text": "3",
    "number": 3,
    "fraction": 3.5,
    "pointed": "3.0",
    "true": True,
    "said": "true",
    "chinese": "工作",
    "quoted": "it's",
    "list": ["3"],
    "null": None,
}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("metadata.k=3", {"text", "number"}),
        ("metadata.k=3.0", {"pointed"}),
        ("metadata.k=3.5", {"fraction"}),
        ("metadata.k=true", {"true", "said"}),
        ("metadata.k=工作", {"chinese"}),
        ("metadata.k=it's", {"quoted"}),
        ("metadata.k=3,min_importance=0.5", {"number"}),
        ("min_importance=0.5", {"number", "pointed", "said", "quoted", "null"}),
        ("metadata.k=1", set[str]()),
        ("metadata.other=3", set[str]()),
        ("metadata.k=3,metadata.other=3", set[str]()),
    ],
)
async def test_a_filter_selects_by_metadata_and_importance(
    store: Store, user: Scope, condition: str, expected: set[str]
) -> None:
    for number, (content, value) in enumerate(ATTACHED.items()):
        one = memory(user, f"mem_{content}", content=content, metadata={"k": value, "page": number})
        await write(store, replace(one, importance=0.7 if number % 2 else 0.3))
    wanted = parse_filter(condition)
    hits = await store.search(recallable(user, memory_filter=wanted), vector(0), limit=20, fresh=True)
    page = await store.page(Criteria(user, active_at=NOW, memory_filter=wanted), limit=20)
    assert {hit.memory.content for hit in hits} == expected
    assert {one.content for one in page.memories} == expected


async def test_a_filter_may_have_as_many_conditions_as_its_length_allows(store: Store, user: Scope) -> None:
    attached = {f"k{number}": number for number in range(130)}
    await write(
        store,
        memory(user, "mem_all", content="all", metadata={**attached}),
        memory(user, "mem_less", content="less", metadata={**attached, "k129": 0}),
    )
    wanted = parse_filter(",".join(f"metadata.{key}={value}" for key, value in [*attached.items()][:120]))
    wanted &= parse_filter("metadata.k129=129")
    hits = await store.search(recallable(user, memory_filter=wanted), vector(0), limit=20, fresh=True)
    page = await store.page(Criteria(user, active_at=NOW, memory_filter=wanted), limit=20)
    assert [hit.memory.content for hit in hits] == [one.content for one in page.memories] == ["all"]


async def test_history_and_what_expired_are_only_got_by_id(store: Store, user: Scope) -> None:
    await write(
        store,
        memory(user, "mem_active", content="active", expires_at=NOW + timedelta(microseconds=1)),
        memory(user, "mem_superseded", content="superseded", superseded_at=NOW + timedelta(days=1)),
        memory(user, "mem_expired", content="expired", expires_at=NOW),
    )
    assert await found(store, user) == {"active"}
    assert await listed(store, user) == {"active"}
    assert await store.get(user, "mem_superseded") is not None
    assert await store.get(user, "mem_expired") is not None


# -- by words ----------------------------------------------------------------------------------------------------------

HAYSTACK = [memory(Scope("nobody"), f"mem_{n}", content=f"User likes the colour number {n}") for n in range(40)]


async def write_haystack(store: Store, user: Scope, needle: str) -> None:
    """Forty memories near `vector(0)`, and one that no vector search for it with a small limit finds."""
    rows = [EmbeddedMemory(replace(one, scope=user), vector(0)) for one in HAYSTACK]
    await store.upsert(user, [*rows, EmbeddedMemory(memory(user, "mem_needle", content=needle), -vector(0))])


async def test_words_find_what_the_vector_does_not(store: Store, user: Scope, *, searches_words: bool) -> None:
    """With its true cosine, behind the nearest; without the text, or where words are not searched, it is not found."""
    await write_haystack(store, user, "User's cardiologist is Dr. Okonkwo")
    asked = "Who was that Okonkwo again?"
    near = await store.search(recallable(user), vector(0), limit=5, fresh=True)
    hits = await store.search(recallable(user), vector(0), limit=5, fresh=True, text=asked)
    assert len(near) == 5
    assert [hit.similarity for hit in hits[:5]] == pytest.approx([1] * 5, abs=1e-5)
    assert len(hits) == (6 if searches_words else 5)
    if searches_words:
        assert hits[-1].memory == memory(user, "mem_needle", content="User's cardiologist is Dr. Okonkwo")
        assert hits[-1].similarity == hits[-1].relevance == pytest.approx(-1, abs=1e-5)


async def test_each_search_adds_at_most_the_limit(store: Store, user: Scope, *, searches_words: bool) -> None:
    for n in range(40):
        await store.upsert(user, [embedded(memory(user, f"mem_{n}", content="User owns a red bicycle " * (n % 4)), n)])
    hits = await store.search(recallable(user), vector(0), limit=8, fresh=True, text="bicycles")
    nearest = await store.search(recallable(user), vector(0), limit=8, fresh=True)
    assert [hit.similarity for hit in hits] == sorted((hit.similarity for hit in hits), reverse=True)
    assert [hit.memory.id for hit in nearest] == [hit.memory.id for hit in hits if hit in nearest]
    everything = await store.search(recallable(user), vector(0), limit=100, fresh=True)
    true = {hit.memory.id: hit.similarity for hit in everything}
    for hit in hits:
        assert hit.similarity == pytest.approx(true[hit.memory.id], abs=1e-5)
    assert (8 < len(hits) <= 16) if searches_words else len(hits) == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BICYCLES", {"mem_bike"}),
        ("what did it cost, $1,250?", {"mem_bike"}),
        ("1.25k", {"mem_bike"}),
        ("我的预算是多少", {"mem_budget"}),
        ("bicycle 预算", {"mem_bike", "mem_budget"}),
        ("o'neill", {"mem_name"}),
        ("neil", set[str]()),
        ("who is the user and what does he have", set[str]()),
    ],
)
async def test_words_are_compared_as_everywhere_in_the_product(
    store: Store, user: Scope, text: str, expected: set[str], *, searches_words: bool
) -> None:
    """Stems, numbers, Chinese pairs; what carries no content finds nothing."""
    await write(
        store,
        memory(user, "mem_bike", content="User's bicycle cost 1250 dollars"),
        memory(user, "mem_budget", content="用户的夏威夷旅行预算是一万美元"),
        memory(user, "mem_name", content="User's doctor is O\u2019Neill"),
    )
    assert await named(store, user, text) == (expected if searches_words else set())


async def test_the_rarer_word_counts_more_and_the_shorter_text(
    store: Store, user: Scope, *, searches_words: bool
) -> None:
    await write(
        store,
        *(memory(user, f"mem_{n}", content=f"flight to Oslo on day {n}") for n in range(10)),
        memory(user, "mem_rare", content="helicopter to Oslo on day 10"),
        memory(user, "mem_long", content="helicopter " + "with several other items beside it " * 10),
    )
    for text in ("flight helicopter", "helicopters"):
        assert await named(store, user, text, limit=1) == ({"mem_rare"} if searches_words else set())
    assert await named(store, user, "helicopters") == ({"mem_rare", "mem_long"} if searches_words else set())


async def test_words_find_only_what_the_question_is_about(store: Store, user: Scope, *, searches_words: bool) -> None:
    """The reach, types, history, what expired: the same as for vectors."""
    other = replace(user, project_id="other")
    await write(
        store,
        memory(user, "mem_own", content="zebra one"),
        memory(other, "mem_other", content="zebra two"),
        memory(user, "mem_episode", content="zebra three", kind=MemoryType.EPISODIC),
        memory(user, "mem_superseded", content="zebra four", superseded_at=NOW),
        memory(user, "mem_expired", content="zebra five", expires_at=NOW),
        memory(Scope(f"{user.owner_id}-other"), "mem_theirs", content="zebra six"),
    )

    async def ids(scope: Scope, reach: Reach, types: frozenset[MemoryType] | None = None) -> set[str]:
        return await named(store, scope, "zebras", reach=reach, types=types)

    def here(*ids: str) -> set[str]:
        return set(ids) if searches_words else set()

    assert await ids(user, Reach.RECALL) == here("mem_own", "mem_episode")
    assert await ids(other, Reach.RECALL) == here("mem_own", "mem_episode", "mem_other")
    assert await ids(other, Reach.EXACT) == here("mem_other")
    assert await ids(user, Reach.ALL) == here("mem_own", "mem_episode", "mem_other")
    assert await ids(user, Reach.ALL, frozenset({MemoryType.EPISODIC})) == here("mem_episode")


async def test_what_is_pinned_is_found_however_far_it_is(store: Store, user: Scope) -> None:
    """Of the owner's active memories within reach, of the types asked for; with the cosine, and once."""
    pinned: dict[str, Any] = {"metadata": {"pinned": True}}
    rows = [memory(user, f"mem_{n}") for n in range(1, 9)]
    await store.upsert(user, [embedded(row, 0) for row in rows])
    far = [
        memory(user, "far", **pinned),
        memory(user, "other type", kind=MemoryType.PROCEDURAL, **pinned),
        memory(user, "over", expires_at=NOW, **pinned),
        memory(user, "history", superseded_at=NOW, **pinned),
        memory(user, "not any more", metadata={"pinned": False}),
        memory(user, "a word", metadata={"pinned": "true"}),
        memory(user.in_project("other"), "other project", **pinned),
    ]
    await store.upsert(user, [embedded(each, 5) for each in far])
    await write(store, memory(Scope("another owner"), "another's", **pinned))

    async def ids(types: frozenset[MemoryType] | None = None, **options: Any) -> list[str]:
        criteria = recallable(user, types=types)
        index = await store.search_index(criteria, vector(0), limit=2, fresh=True, **options)
        return [each.id for each in indexed(index, criteria) if not each.id.startswith("mem_")]

    assert await ids() == []
    assert sorted(await ids(pinned=True)) == ["far", "other type"]
    assert await ids(pinned=True, types=frozenset({MemoryType.SEMANTIC})) == ["far"]
    assert (await ids(pinned=True, text="the budget for the trip")).count("far") == 1


async def test_another_owners_better_memories_do_not_crowd_out_ones_own(
    store: Store, user: Scope, *, searches_words: bool
) -> None:
    """The filter comes before the limit."""
    other = Scope(f"{user.owner_id}-other")
    await store.upsert(other, [embedded(memory(other, f"mem_{n}", content="walrus walrus")) for n in range(300)])
    await write_haystack(store, user, "User once met a walrus in the harbour of a small town far up in the north")
    hits = await store.search(recallable(user), vector(0), limit=3, fresh=True, text="walrus")
    assert all(hit.memory.scope == user for hit in hits)
    assert ("mem_needle" in {hit.memory.id for hit in hits}) == searches_words


async def test_words_follow_writes_and_deletions(store: Store, user: Scope, *, searches_words: bool) -> None:
    def here(*ids: str) -> set[str]:
        return set(ids) if searches_words else set()

    await write(store, memory(user, content="User has a parrot"))
    assert await named(store, user, "parrots") == here("mem_1")
    await write(store, memory(user, content="User has a tortoise"))
    assert await named(store, user, "parrots") == set()
    assert await named(store, user, "tortoises") == here("mem_1")
    await store.delete(user, ["mem_1"])
    assert await named(store, user, "tortoises") == set()
    await write(store, memory(user, content="User has a parrot"))
    assert await named(store, user, "parrots") == here("mem_1")
    await store.delete_all(user, Reach.ALL)
    assert await named(store, user, "parrots") == set()


HOSTILE_TEXTS = (
    *(text for text in HOSTILE if len(text) < 1_000),
    "is it the of and",
    "budget" + "\x00" * 100,
    "budget " * 600,
    " ".join(f"budget{n}" for n in range(600)),
    "x" * 4_000,
    "预算" * 2_000,
    "\ufdfa" * 4_000,
    "9" * 4_000 + "k",
    "é" * 100_000,
    "budget " + " ".join(map(str, range(50_000))),
    '{"match": "budget"}',
    "budget' OR '1'='1",
    "😀 budget \u202e\u200b\ud83d",
)


async def test_no_text_makes_a_search_fail_or_lose_the_nearest(store: Store, user: Scope) -> None:
    """Nor a content, for those that look for it."""
    await write(store, memory(user))
    for text in HOSTILE_TEXTS:
        hits = await store.search(recallable(user), vector(0), limit=3, text=text, fresh=True)
        assert [hit.memory.id for hit in hits] == ["mem_1"]
    contents = [text for text in HOSTILE_TEXTS if len(text.encode("utf-8", "replace")) <= 65_535]
    await store.upsert(user, [embedded(memory(user, f"mem_{n}", content=text)) for n, text in enumerate(contents)])
    for text in HOSTILE_TEXTS[-3:]:
        assert await store.search(recallable(user), vector(0), limit=3, text=text, fresh=True)


async def test_a_content_whose_words_do_not_fit_is_found_by_its_first(
    store: Store, user: Scope, *, searches_words: bool
) -> None:
    """Chinese pairs take more than twice what the text takes."""
    await write(store, memory(user, content="zeppelin " + "预算" * 10_900))
    assert await named(store, user, "zeppelins") == ({"mem_1"} if searches_words else set())


# -- deletion ----------------------------------------------------------------------------------------------------------


async def test_deleting_counts_what_there_was(store: Store, user: Scope) -> None:
    await write(store, *(memory(user, f"mem_{n}", content=str(n)) for n in range(3)))
    assert await store.delete(user, ["mem_0", "mem_0", "mem_none"]) == 1
    assert await store.delete(user, ["mem_0"]) == 0
    assert await store.delete(user, []) == 0
    assert await store.get(user, "mem_0") is None
    assert await found(store, user) == {"1", "2"}
    assert await listed(store, user) == {"1", "2"}


@pytest.mark.parametrize(
    ("project", "reach", "count", "left"),
    [("a", Reach.ALL, 4, set[str]()), ("a", Reach.EXACT, 2, {"own"}), ("", Reach.EXACT, 1, {"a"})],
)
async def test_delete_all_deletes_history_too(
    store: Store, user: Scope, project: str, reach: Reach, count: int, left: set[str]
) -> None:
    project_a = replace(user, project_id="a")
    await write(
        store,
        memory(user, "mem_own", content="own"),
        memory(project_a, "mem_a", content="a"),
        memory(project_a, "mem_old", content="old", superseded_at=NOW),
        memory(replace(user, project_id="b"), "mem_b", content="b", superseded_at=NOW),
    )
    assert await store.delete_all(replace(user, project_id=project), reach) == count
    assert await listed(store, user) == left
    assert (await store.get(user, "mem_old") is None) == (project == "a")


async def test_what_was_deleted_can_be_written_anew(store: Store, user: Scope) -> None:
    await write(store, memory(user, content="first"))
    await store.delete(user, ["mem_1"])
    await write(store, memory(user, content="second"))
    assert await found(store, user) == {"second"}


# -- listings ----------------------------------------------------------------------------------------------------------


async def test_pages_hold_each_memory_once_newest_first(store: Store, user: Scope) -> None:
    """Ties are in the order of their ids, descending; the last page has no cursor."""
    ids = ["a", "b", "B", "é", "z", '"', "mem"]
    await store.upsert(
        user,
        [embedded(memory(user, name, created_at=NOW - timedelta(microseconds=n // 3))) for n, name in enumerate(ids)],
    )
    seen, cursor, sizes = list[str](), "", list[int]()
    while not sizes or cursor:
        page = await store.page(Criteria(user, active_at=NOW), limit=2, cursor=cursor)
        seen += [one.id for one in page.memories]
        sizes.append(len(page.memories))
        cursor = page.cursor
    assert seen == ["b", "a", "B", "é", "z", '"', "mem"]
    assert sizes == [2, 2, 2, 1]
    oldest = await store.page(Criteria(user, active_at=NOW), limit=3, oldest_first=True)
    assert ([one.id for one in oldest.memories], oldest.cursor) == (["mem", '"', "z"], "")


async def test_a_page_of_those_that_expire_by_a_time(store: Store, user: Scope) -> None:
    for name, hours in (("soon", 1), ("later", 3)):
        await write(store, memory(user, name, expires_at=NOW + timedelta(hours=hours)))
    await write(store, memory(user, "lasting"))

    async def expiring(hours: float) -> list[str]:
        page = await store.page(Criteria(user, expires_by=NOW + timedelta(hours=hours)), limit=9)
        return [one.id for one in page.memories]

    assert [await expiring(hours) for hours in (0.9, 1, 5)] == [[], ["soon"], ["soon", "later"]]


async def test_a_full_last_page_has_no_cursor(store: Store, user: Scope) -> None:
    await write(store, memory(user, "a"), memory(user, "b"))
    assert (await store.page(Criteria(user, active_at=NOW), limit=2)).cursor == ""


async def test_a_cursor_holds_its_place_when_memories_come_and_go(store: Store, user: Scope) -> None:
    """Also when the very memory it names is deleted."""
    for n in range(4):
        await write(store, memory(user, f"mem_{n}", created_at=NOW - timedelta(seconds=n)))
    first = await store.page(Criteria(user, active_at=NOW), limit=2)
    await store.delete(user, ["mem_1"])
    await write(store, memory(user, "mem_new", created_at=NOW + timedelta(seconds=1)))
    second = await store.page(Criteria(user, active_at=NOW), limit=2, cursor=first.cursor)
    assert [one.id for one in second.memories] == ["mem_2", "mem_3"]


@pytest.mark.parametrize("cursor", ["x", "é", "MTIz", "e30=", "MTphOmI", "=", "OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTphYmM="])
async def test_a_made_up_cursor_is_refused(store: Store, user: Scope, cursor: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        await store.page(Criteria(user, active_at=NOW), limit=2, cursor=cursor)
    assert caught.value.field == "cursor"


async def test_pages_reach_beyond_what_milvus_gives_in_one_answer(store: Store, user: Scope) -> None:
    count = 16_500
    rows = [embedded(memory(user, f"{n:05}", content="", created_at=NOW + timedelta(seconds=n))) for n in range(count)]
    await store.upsert(user, rows)
    first = await store.page(Criteria(user, active_at=NOW), limit=count - 10)
    second = await store.page(Criteria(user, active_at=NOW), limit=count, cursor=first.cursor)
    assert [one.id for one in first.memories] == [f"{n:05}" for n in reversed(range(10, count))]
    assert [one.id for one in second.memories] == [f"{n:05}" for n in reversed(range(10))]
    assert second.cursor == ""
    # The tests that follow read all owners' rows.
    assert await store.delete_all(user, Reach.EXACT) == count


# -- an owner's rows ---------------------------------------------------------------------------------------------------


@pytest.fixture
def unrecorded(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store, which makes and reads no records: its rows are read whole."""
    monkeypatch.setattr(store, "_record_format", None)
    return store


async def _whole(store: Store, user: Scope, *, limit: int) -> list[EmbeddedMemory] | None:
    rows = await store.load_records(user, limit=limit)
    return None if rows is None else [row for row in rows if isinstance(row, EmbeddedMemory)]


async def test_an_owner_is_read_with_every_active_memory_and_its_vector(unrecorded: Store, user: Scope) -> None:
    """Of every project, as it was written; no history, nothing of others; from within any project, whatever the time is."""
    active = [
        memory(user, "mem_own", metadata={"deep": [1, "é"]}),
        memory(replace(user, project_id="a"), "mem_a", kind=MemoryType.EPISODIC),
        memory(replace(user, project_id='b"\\'), 'mem"b', expires_at=NOW + timedelta(microseconds=1)),
        memory(user, "mem_expired", expires_at=NOW),
    ]
    await write(
        unrecorded,
        memory(user, "mem_superseded", superseded_at=NOW + timedelta(days=1)),
        memory(Scope(f"{user.owner_id}-other"), "mem_theirs"),
    )
    await unrecorded.upsert(user, [embedded(one, number) for number, one in enumerate(active)])
    loaded = await _whole(unrecorded, replace(user, project_id="c"), limit=4)
    assert loaded is not None
    assert {one.memory.id: one.memory for one in loaded} == {one.id: one for one in active}
    vectors = {one.memory.id: one.vector for one in loaded}
    for number, one in enumerate(active):
        assert vectors[one.id].dtype == np.float32
        assert np.array_equal(vectors[one.id], vector(number))


async def test_reading_an_owner_sees_every_acknowledged_write_and_deletion(unrecorded: Store, user: Scope) -> None:
    assert await _whole(unrecorded, user, limit=5) == []
    for n in range(3):
        await write(unrecorded, memory(user, f"mem_{n}"))
        found = await _whole(unrecorded, user, limit=5)
        assert {one.memory.id for one in found or ()} == {"mem_0", f"mem_{n}"}
        await unrecorded.delete(user, [f"mem_{n}"] if n else [])


@pytest.mark.parametrize("count", [1, 3, 8, 10, 25])
async def test_an_owner_is_read_whole_or_not_at_all(
    unrecorded: Store, user: Scope, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it takes several answers, or exactly one."""
    for name, value in (("OWNER_BATCH", 8), ("SCAN_BATCH", 10)):
        monkeypatch.setattr(memory_collection, name, value)
    await unrecorded.upsert(user, [embedded(memory(user, f"mem_{n}"), n) for n in range(count)])
    for limit in (count, count + 1, 100_000):
        loaded = await _whole(unrecorded, user, limit=limit)
        assert {one.memory.id for one in loaded or ()} == {f"mem_{n}" for n in range(count)}
    for limit in (count - 1, count // 2, 0):
        assert await _whole(unrecorded, user, limit=limit) is None


@pytest.mark.parametrize(("limit", "exceeds"), [(49, True), (50, False), (51, False)])
async def test_vectors_of_too_many_memories_are_not_read(
    unrecorded: Store, user: Scope, limit: int, exceeds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where even their keys take several answers."""
    for name, value in (("WINDOW", 20), ("OWNER_BATCH", 10), ("SCAN_BATCH", 10), ("RECORD_BATCH", 10)):
        monkeypatch.setattr(memory_collection, name, value)
    await unrecorded.upsert(user, [embedded(memory(user, f"mem_{n:02}"), n) for n in range(50)])
    read, query = 0, MilvusStore._query

    async def counting(self: MilvusStore, selection: Selection, columns: Sequence[str], **more: Any) -> list[Row]:
        nonlocal read
        rows = await query(self, selection, columns, **more)
        read += len(rows) if "embedding" in columns else 0
        return rows

    monkeypatch.setattr(MilvusStore, "_query", counting)
    loaded = await _whole(unrecorded, user, limit=limit)
    assert (loaded is None) is exceeds
    if isinstance(unrecorded, MilvusStore):
        assert read == (0 if exceeds else 50)


@pytest.mark.parametrize("count", [0, 3, RECORD_BATCH, RECORD_BATCH + 1])
async def test_an_owners_index_is_read_whole_or_not_at_all(
    store: Store, user: Scope, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as the rows make, of what is active and can be found; also where it takes several answers, or exactly one."""
    memories = [memory(replace(user, project_id=f"p{n % 3}"), f"mem_{n}", content=f"number {n}") for n in range(count)]
    await store.upsert(user, [embedded(each, n % 50) for n, each in enumerate(memories)])
    await write(
        store,
        memory(user, "mem_superseded", superseded_at=NOW),
        memory(Scope(f"{user.owner_id}-other"), "mem_theirs"),
    )
    for limit in (count, 100_000):
        records = await store.load_records(user, limit=limit)
        with monkeypatch.context() as without_records:
            without_records.setattr(store, "_record_format", None)
            rows = await _whole(store, user, limit=limit)
        assert rows is not None
        assert records is not None
        assert all(isinstance(record, str) for record in records)
        index, built = build_index(user.owner, records), build_index(user.owner, rows)
        assert index.rows == built.rows
        assert len(index) == count
        assert np.array_equal(index.vectors, built.vectors)
    assert count == 0 or await store.load_records(user, limit=count - 1) is None
    await store.delete(user, [each.id for each in memories[1:]])
    assert len(await store.load_records(user, limit=5) or ()) == min(count, 1)


# -- history -----------------------------------------------------------------------------------------------------------


def superseded(one: Memory, by: str) -> Memory:
    return replace(one, superseded_at=NOW, superseded_by=by)


async def test_predecessors_are_what_a_memory_superseded_directly(store: Store, user: Scope) -> None:
    """In whatever project, expired ones too, of this owner alone, and one step back only."""
    elsewhere = replace(user, project_id="hawaii")
    stranger = Scope(f"not-{user.owner_id}")
    first = superseded(memory(user, "mem_1"), "mem_2")
    second = superseded(memory(elsewhere, "mem_2", expires_at=NOW - timedelta(days=1)), 'mem"3')
    twin = superseded(memory(user, "mem_2b"), 'mem"3')
    await write(store, first, second, twin, memory(user, 'mem"3'), superseded(memory(stranger, "mem_x"), "mem_2"))

    async def ids(*newer: str) -> set[str]:
        found = await store.predecessors(user, newer)
        assert all(one in (first, second, twin) for one in found)
        return {one.id for one in found}

    assert await ids('mem"3') == {"mem_2", "mem_2b"}
    assert await ids("mem_2") == {"mem_1"}
    assert await ids("mem_2", 'mem"3', 'mem"3') == {"mem_1", "mem_2", "mem_2b"}
    assert await ids("mem_1", "unknown", "") == set()
    assert await ids() == set()


async def test_all_of_an_owners_memories_are_counted(store: Store, user: Scope) -> None:
    stranger = Scope(f"not-{user.owner_id}")
    await write(
        store,
        *(memory(user, f"mem_{number}") for number in range(3)),
        superseded(memory(user, "mem_old"), "mem_1"),
        memory(replace(user, project_id="hawaii"), "mem_expired", expires_at=NOW - timedelta(days=1)),
        memory(stranger, "mem_x"),
    )
    assert await store.count(user) == 5
    await store.delete(user, ["mem_2"])
    assert await store.count(user) == 4
    assert await store.count(Scope(f"nobody-{user.owner_id}")) == 0


async def test_many_predecessors_are_all_found(store: Store, user: Scope) -> None:
    rows = [embedded(superseded(memory(user, f"mem_{number}"), "mem_new")) for number in range(250)]
    await store.upsert(user, rows)
    assert len(await store.predecessors(user, ["mem_new", *(f"none_{number}" for number in range(2_500))])) == 250


async def test_a_page_may_hold_history_and_what_has_expired(store: Store, user: Scope) -> None:
    old = superseded(memory(user, "mem_old", created_at=NOW - timedelta(days=2)), "mem_new")
    expired = memory(user, "mem_expired", created_at=NOW - timedelta(days=1), expires_at=NOW - timedelta(hours=1))
    await write(store, old, expired, memory(user, "mem_new"))
    page = await store.page(Criteria(user), limit=2)
    assert [one.id for one in page.memories] == ["mem_new", "mem_expired"]
    rest = await store.page(Criteria(user), limit=2, cursor=page.cursor)
    assert (rest.memories, rest.cursor) == ((old,), "")
    assert [one.id for one in (await store.page(Criteria(user, active_at=NOW), limit=5)).memories] == ["mem_new"]


async def test_a_scan_gives_every_memory_of_every_owner_once(store: Store, user: Scope) -> None:
    """More than come in one answer, history and expired ones included, each as it was written."""
    users = [user, Scope(f'{user.owner_id}"\\ é', "proj/ect"), Scope(f"{user.owner_id}-third")]
    written = [
        memory(one, f"mem_{number:04d}", content=f"fact {number}") for one in users for number in range(SCAN_BATCH // 2)
    ]
    written[0] = superseded(written[0], "mem_0001")
    written[1] = replace(written[1], expires_at=NOW - timedelta(days=1))
    for one in users:
        await store.upsert(one, [embedded(each) for each in written if each.scope == one])
    names = {one.owner for one in users}
    seen = [one async for batch in store.scan() for one in batch if one.scope.owner in names]
    assert len(seen) == len(written)
    assert {(one.scope.owner, one.id): one for one in seen} == {(one.scope.owner, one.id): one for one in written}


async def test_owners_are_told_by_when_their_memories_were_last_changed(store: Store, user: Scope) -> None:
    """More rows than come in one answer, in whatever project; each owner once."""
    first, last = Scope(f'{user.owner_id}" first', "proj/ect"), Scope.of_owner(f"org:{user.owner_id}")
    rows = [embedded(memory(first, f"mem_{number:04d}")) for number in range(RECORD_BATCH + 1)]
    await store.upsert(first, rows)
    for minutes, owner in enumerate((user, last), 1):
        await write(store, memory(owner, f"mem_{minutes}", created_at=NOW + timedelta(minutes=minutes)))
    names = [one.owner for one in await store.owners()]
    assert [name for name in names if name in {user.owner, first.owner, last.owner}] == [
        last.owner, user.owner, first.owner
    ]  # fmt: skip


async def test_compacting_changes_nothing_that_is_there(store: Store, user: Scope) -> None:
    await write(store, memory(user, "mem_1", content="stays"), memory(user, "mem_2", content="goes"))
    await store.delete(user, ["mem_2"])
    await store.compact()
    assert await found(store, user) == await listed(store, user) == {"stays"}
    await write(store, memory(user, "mem_3", content="comes"))
    assert await found(store, user) == await listed(store, user) == {"stays", "comes"}


async def test_a_long_memory_is_searched_by_its_passages_and_read_whole(unrecorded: Store, user: Scope) -> None:
    whole = replace(memory(user, "long", content="all of it"), metadata={PASSAGE_COUNT: 2})
    passages = [replace(whole, content=text, passage=number) for number, text in enumerate(("begins", "ends"), 1)]
    other = memory(user, "other", content="something else")
    rows = [embedded(each, at) for at, each in enumerate((*passages, whole, other))]
    await unrecorded.upsert(user, rows)

    def shown(memories: Sequence[Memory]) -> set[tuple[str, int, str]]:
        return {(each.id, each.passage, each.content) for each in memories}

    found = {("long", 1, "begins"), ("long", 2, "ends"), ("other", 0, "something else")}
    for types in (None, frozenset({whole.type})):
        hits = await unrecorded.search(recallable(user, types=types), vector(0), limit=10, fresh=True)
        assert shown([hit.memory for hit in hits]) == found
    assert shown([row.memory for row in await _whole(unrecorded, user, limit=10) or ()]) == found
    listed = {("long", 0, "all of it"), ("other", 0, "something else")}
    assert shown((await unrecorded.page(Criteria(user, active_at=NOW), limit=10)).memories) == listed
    assert (
        shown([each async for batch in unrecorded.scan() for each in batch if each.scope.owner == user.owner]) == listed
    )
    assert (await unrecorded.get(user, "long"), await unrecorded.count(user)) == (whole, 2)

    later = replace(whole, superseded_at=NOW, superseded_by="other")
    await unrecorded.upsert(
        user, [embedded(replace(later, content=each.content, passage=each.passage)) for each in passages]
    )
    await unrecorded.upsert(user, [embedded(later)])
    assert await unrecorded.predecessors(user, ["other"]) == [later]
    assert await unrecorded.delete(user, ["long"]) == 1
    assert shown([row.memory for row in await _whole(unrecorded, user, limit=10) or ()]) == {
        ("other", 0, "something else")
    }
    await unrecorded.upsert(user, rows)
    assert await unrecorded.delete_all(user, Reach.ALL) == 2
    assert await _whole(unrecorded, user, limit=10) == []
