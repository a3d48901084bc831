"""No two ids, whatever they are made of, open each other's memories in Milvus Lite."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import given, settings
from hypothesis import strategies as st

from semrouter_memory.config import MilvusConfig
from semrouter_memory.model import OwnerKind, Reach, Scope
from semrouter_memory.store.milvus import MilvusStore
from tests.examples import examples
from tests.memories import DIMENSION, embedded, memory, recallable, vector
from tests.store_observer import StoreObserver

pytestmark = pytest.mark.asyncio(loop_scope="module")

fragments = st.sampled_from(
    ['"', "'", "\\", '" or "" == "', " and ", "owner", "user:", "%", "%22", "\n", "\x00", "{", "}", "\ud800", "]", "*"]
)
hostile = st.lists(fragments | st.characters(), max_size=8).map("".join)


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


@settings(max_examples=examples(25))
@given(
    scopes=st.lists(
        st.builds(Scope, hostile, hostile, st.sampled_from(OwnerKind)),
        min_size=2,
        max_size=4,
        unique_by=lambda one: one.owner,
    )
)
async def test_everybody_finds_their_own_and_nothing_else(store: MilvusStore, scopes: list[Scope]) -> None:
    """By vector and by words, which are the same for everybody but for one number."""
    everybodys = "0 1 2 3"
    for number, scope in enumerate(scopes):
        near, named = memory(scope, "mem_near", content=""), memory(scope, scope.owner_id, content=str(number))
        await store.upsert(scope, [embedded(near, 0), embedded(named, 1)])
    for number, scope in enumerate(scopes):
        for text in ("", everybodys, scope.owner_id):
            hits = await store.search(recallable(scope), vector(0), limit=1, text=text)
            assert all(hit.memory.scope == scope for hit in hits)
            found = [hit.memory.content for hit in hits]
            assert found == ["", str(number)] or (found == [""] and text != everybodys)
    for scope in scopes:
        assert await store.delete_all(scope, Reach.ALL) == 2
