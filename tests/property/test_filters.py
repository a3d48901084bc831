"""A filter finds what it wants and nothing else, in Milvus Lite, in the owner's index and in memory alike."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from semrouter_memory.config import MilvusConfig
from semrouter_memory.model import Criteria, Memory, MemoryFilter, Reach, Scope, attached_to, parse_filter
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.store.owner_index import build_index
from tests.examples import examples
from tests.memories import DIMENSION, NOW, embedded, memory, recallable, vector
from tests.store_observer import StoreObserver

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALICE = Scope("alice")
KEYS = st.sampled_from(["team", "category", "a.b", "x-1", "工作"])
FRAGMENTS = st.sampled_from(["'", '"', "\\", " or ", "==", "%", "工", "é", "[", "]", "1", "true", "{", "😀", ",", "="])
VALUES = st.one_of(
    st.sampled_from(["work", "Work", "3", "3.0", "true", "-1", 3, 3.0, 2.5, -1, True, False, None, ["work"]]),
    st.lists(FRAGMENTS | st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=5).map("".join),
)
LIKE_NUMBERS = [("team", "3.0"), ("team", "2.50"), ("team", "-1")]
IMPORTANCES = st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0])
METADATA = st.dictionaries(KEYS, VALUES, max_size=3)
MEMORIES = st.lists(st.tuples(METADATA, IMPORTANCES), min_size=1, max_size=6)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MilvusStore]:
    opened = MilvusStore(
        MilvusConfig(dimension=DIMENSION),
        data_dir=tmp_path_factory.mktemp("lite"),
        fingerprint="test",
        observer=StoreObserver(),
    )
    await opened.start()
    yield opened
    await opened.close()


def written(memory_filter: MemoryFilter) -> str:
    """As a client writes it."""
    conditions = [f"metadata.{quote(key)}={quote(value)}" for key, value in memory_filter.conditions]
    return ",".join((*conditions, f"min_importance={memory_filter.min_importance}"))


@settings(max_examples=examples(60))
@given(made=MEMORIES, drawn=st.data())
async def test_every_search_finds_what_is_wanted_and_nothing_else(
    store: MilvusStore, made: Sequence[tuple[dict[str, Any], float]], drawn: st.DataObject
) -> None:
    memories = [
        replace(memory(ALICE, f"mem_{number}", metadata=metadata), importance=importance)
        for number, (metadata, importance) in enumerate(made)
    ]
    rows = [embedded(each) for each in memories]
    known = sorted(frozenset().union(*(attached_to(each.metadata) for each in memories)))
    conditions = drawn.draw(st.frozensets(st.sampled_from([*known, *LIKE_NUMBERS]), max_size=2))
    memory_filter = MemoryFilter(conditions, drawn.draw(IMPORTANCES))
    assert parse_filter(written(memory_filter)) == memory_filter
    wanted = {each.id for each in memories if each in memory_filter}

    index = build_index(ALICE.owner, rows[:2]).with_written(rows[2:], label=lambda _: 0)
    assert (
        ids(index.memory(int(at)) for at in index.positions(recallable(ALICE, memory_filter=memory_filter))) == wanted
    )
    for one in (store, InMemoryStore(dimension=DIMENSION)):
        await one.upsert(ALICE, rows)
        hits = await one.search(recallable(ALICE, memory_filter=memory_filter), vector(0), limit=10, fresh=True)
        assert ids(hit.memory for hit in hits) == wanted
        assert (
            ids((await one.page(Criteria(ALICE, active_at=NOW, memory_filter=memory_filter), limit=10)).memories)
            == wanted
        )
        assert await one.delete_all(ALICE, Reach.ALL) == len(memories)


def ids(memories: Any) -> set[str]:
    found: list[Memory] = list(memories)
    assert len({each.id for each in found}) == len(found)
    return {each.id for each in found}
