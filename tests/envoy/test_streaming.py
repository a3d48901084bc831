"""No token waits: a streamed answer passes piece by piece, as the server sends it, through either chain."""

import asyncio
import gzip
import statistics
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from backports import zstd

from .client import (
    APIS,
    CHAT,
    RESPONSES,
    answers_held_back,
    asking,
    behaving,
    gaps,
    sent_by_llm,
    streamed,
    streamed_without_envoy,
    streaming,
)
from .conftest import ALICE, Installation, eventually, installed

pytestmark = pytest.mark.asyncio(loop_scope="session")

DELAY_MS = 40
WORDS = "What a model says comes word by word, and each of them is on its way."
STREAMS = 200


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def single(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    directory = tmp_path_factory.mktemp("single-filter")
    async with installed(directory, model_directory, chain="single-filter.yaml") as installation:
        yield installation


@pytest.fixture(params=["two-filter", "single-filter"])
def chain(request: pytest.FixtureRequest, shared: Installation, single: Installation) -> Installation:
    return shared if request.param == "two-filter" else single


_TRIES = 10
"""A client that is kept from reading finds two pieces at once; pieces that are held back are so each time."""


@pytest.mark.parametrize("path", APIS)
async def test_each_piece_passes_by_itself_and_at_once(chain: Installation, path: str) -> None:
    """The same pieces as without Envoy, each when it was sent: none waits for another."""
    how: dict[str, Any] = {"text": WORDS, "delay_ms": DELAY_MS}
    for _ in range(_TRIES):
        pieces = await streamed(chain, path, "Tell me a joke", **how)
        expected = await streamed_without_envoy(chain, path, "Tell me a joke", **how)
        pace = statistics.median(gaps(pieces)) * 1000 / DELAY_MS
        if (found := [piece.data for piece in pieces]) == expected and 0.5 < pace < 1.5:
            break
    assert found == expected
    assert len(pieces) > len(WORDS.split())
    assert 0.5 < pace < 1.5


@pytest.mark.parametrize("path", APIS)
async def test_the_first_token_arrives_before_the_last_is_sent(chain: Installation, path: str) -> None:
    async with answers_held_back(chain), streaming(chain, path, "Tell me a joke", text="one two") as pieces:
        assert await anext(pieces)
        chain.llm.going_on.set()
        assert b"two" in b"".join([piece.data async for piece in pieces])


@pytest.mark.parametrize("path", APIS)
async def test_frames_split_anywhere_arrive_as_they_were_sent(chain: Installation, path: str) -> None:
    how: dict[str, Any] = {"text": "née, 日本", "split": 37, "delay_ms": 5}
    pieces = await streamed(chain, path, "Tell me a joke", **how)
    assert b"".join(piece.data for piece in pieces) == await sent_by_llm(chain, path, "Tell me a joke", **how)


@pytest.mark.parametrize(
    ("path", "encoding", "unpacked"),
    [(CHAT, "gzip", gzip.decompress), (RESPONSES, "gzip", gzip.decompress), (CHAT, "zstd", zstd.decompress)],
)
async def test_a_packed_stream_stays_one(
    chain: Installation, path: str, encoding: str, unpacked: Callable[[bytes], bytes]
) -> None:
    """Nothing is unpacked on its way, and what is inside is remembered all the same."""
    before = await chain.turns()
    how: dict[str, Any] = {"text": WORDS, "split": 50, "encoding": encoding, "delay_ms": 5}
    packed = b"".join([piece.data for piece in await streamed(chain, path, "Tell me a joke", **how)])
    assert packed == await sent_by_llm(chain, path, "Tell me a joke", **how)
    assert WORDS.rsplit(maxsplit=1)[-1].encode() in unpacked(packed)

    async def one_more() -> bool:
        return await chain.turns() == before + 1

    await eventually(one_more, "the packed stream was not a turn")


async def test_an_answer_in_an_unknown_encoding_is_counted_as_dropped(chain: Installation) -> None:
    metric = 'semrouter_memory_turns_dropped_total{reason="encoded_answer"}'
    before = await chain.metric(metric)
    await streamed(chain, CHAT, "Tell me a joke", text=WORDS, encoding="compress")

    async def counted() -> bool:
        return await chain.metric(metric) == before + 1

    await eventually(counted, "the answer was not counted")


async def test_a_stream_that_the_server_cuts_is_cut_for_the_client(chain: Installation) -> None:
    how: dict[str, Any] = {"text": WORDS, "cut": 4, "delay_ms": DELAY_MS}
    pieces = await streamed(chain, CHAT, "Tell me a joke", **how)
    assert b"".join(piece.data for piece in pieces) == await sent_by_llm(chain, CHAT, "Tell me a joke", **how)
    assert WORDS.rsplit(maxsplit=1)[-1].encode() not in pieces[-1].data


@pytest.mark.parametrize("path", APIS)
async def test_a_client_that_leaves_behind_the_last_event_is_remembered_at_once(chain: Installation, path: str) -> None:
    """Some clients close the connection at `[DONE]` and do not wait for the end of the body."""
    end = {CHAT: b"[DONE]", RESPONSES: b"response.completed"}[path]
    before = await chain.turns()
    async with streaming(chain, path, "My parrot is called Kiki", text=WORDS, delay_ms=DELAY_MS) as pieces:
        async for piece in pieces:
            if end in piece.data:
                break

    async def accepted() -> bool:
        return await chain.metric("semrouter_memory_turns_total") == before + 1

    await eventually(accepted, "the turn waits for the end of a stream that nobody reads", seconds=40)


@pytest.mark.parametrize("path", APIS)
async def test_what_a_user_says_counts_where_they_stop_the_answer(single: Installation, path: str) -> None:
    """At once here; the shipped chain's observer learns a minute late that the client is gone."""
    said = f"My canary is called {'Pip' if path == CHAT else 'Lola'}"
    async with streaming(single, path, said, text=WORDS, delay_ms=DELAY_MS) as pieces:
        async for piece in pieces:
            if b"comes" in piece.data:
                break
    await single.remembers(said)


async def test_many_streams_at_a_time(single: Installation) -> None:
    """Each of them gets its own answer, whole. Of the default chain tests/faults knows more."""
    unlimited = httpx.Limits(max_connections=None)
    async with single.http(limits=unlimited) as http:

        async def one(number: int) -> bytes:
            path = APIS[number % 2]
            how = {"text": f"answer {number} of many, in some words", "delay_ms": 20, "response_id": f"id-{number}"}
            body = asking(path, f"Question {number}", stream=True)
            async with http.stream("POST", path, content=body, headers=behaving(how)) as answer:
                return await answer.aread()

        answers = await asyncio.gather(*map(one, range(STREAMS)))
    for number, answer in enumerate(answers):
        frames = answer.decode().rstrip().split("\n\n")
        assert f"id-{number}" in frames[0]
        assert ("[DONE]" if number % 2 == 0 else "response.completed") in frames[-1]
        assert f'"{number}"' in answer.decode() or f'" {number}"' in answer.decode()
        assert " words" in answer.decode()


async def test_a_client_that_reads_slowly_gets_everything(chain: Installation) -> None:
    """More than all buffers on the way hold, so that it pushes back up to the server."""
    choices = 1_000
    body = asking(CHAT, "Tell me a joke", stream=True, n=choices)
    async with (
        chain.http(headers=behaving({"text": WORDS})) as http,
        http.stream("POST", CHAT, content=body) as answer,
    ):
        await asyncio.sleep(1)
        whole = await answer.aread()
    assert whole.count(b'"finish_reason":"stop"') == choices
    assert whole.count(b"\n\n") == choices * (len(WORDS.split()) + 2) + 1
    assert whole.endswith(b"data: [DONE]\n\n")


async def test_the_key_decides_whose_stream_it_is(chain: Installation) -> None:
    """No state leaks between streams that run side by side."""
    await chain.forget_everything()
    async with chain.http(ALICE) as http:
        created = await http.post("/v1/memory", json={"content": "User's favourite number is 41"})
        created.raise_for_status()

    async def asked(key: str) -> bytes:
        async with chain.http(key, headers=behaving({"delay_ms": 5})) as http:
            body = asking(CHAT, "What is my favourite number?", stream=True)
            return (await http.post(CHAT, content=body)).content

    answers = await asyncio.gather(*(asked(key) for key in (ALICE, "demo-key-bob") * 10))
    assert [b"41" in answer for answer in answers] == [True, False] * 10
