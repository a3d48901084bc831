"""A request's texts are embedded once for all of its searches, and no more than two texts at a time."""

import asyncio

import numpy as np

from semrouter_memory.model import Vector
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.query_vectors import QueryVectors
from tests.hashed import HashedEmbedder
from tests.memories import NOW


class GatedEmbedder(HashedEmbedder):
    """Its queries wait until `open` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.asked: list[str] = []

    async def embed_query(self, text: str) -> Vector:
        self.asked.append(text)
        await self.open.wait()
        return await super().embed_query(text)


def query(text: str = "Where do I live?") -> Query:
    return Query(text=text, now=NOW, max_chars=100)


async def steps() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_searches_of_one_query_share_each_of_its_vectors() -> None:
    embedder, one = GatedEmbedder(), query()
    vectors = QueryVectors(embedder)
    searches = [asyncio.create_task(vectors.get(one, *texts)) for texts in (("a", "b"), ("a",), ("b", "a"))]
    await steps()
    embedder.open.set()
    (a, b), (again,), (other, last) = await asyncio.gather(*searches)

    assert embedder.asked == ["a", "b"]
    assert again is a
    assert (other is b, last is a) == (True, True)
    assert not np.array_equal(a, b)


async def test_the_same_words_in_another_request_are_embedded_again() -> None:
    embedder = GatedEmbedder()
    embedder.open.set()
    vectors = QueryVectors(embedder)
    for each in (query(), query()):
        await vectors.get(each, "a")

    assert embedder.asked == ["a", "a"]


async def test_a_search_that_is_cancelled_leaves_the_embedding_to_the_next() -> None:
    embedder, one = GatedEmbedder(), query()
    vectors = QueryVectors(embedder)
    first, second = (asyncio.create_task(vectors.get(one, "a")) for _ in range(2))
    await steps()
    first.cancel()
    await steps()
    embedder.open.set()

    assert len(await second) == 1
    assert embedder.asked == ["a", "a"]


async def test_two_requests_embed_at_a_time_and_a_cancelled_one_frees_its_place() -> None:
    embedder = GatedEmbedder()
    vectors = QueryVectors(embedder)
    requests = [query(name) for name in "abcd"]
    asking = [asyncio.create_task(vectors.get(each, each.text)) for each in requests]
    await steps()
    assert embedder.asked == ["a", "b"]
    asking[2].cancel()
    asking[0].cancel()
    await steps()
    assert embedder.asked == ["a", "b", "d"]
    embedder.open.set()

    assert len(await asking[1]) == len(await asking[3]) == len(await vectors.get(requests[2], "c")) == 1
