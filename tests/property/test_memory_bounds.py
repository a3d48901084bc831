"""However much an upstream sends, and whatever it looks like: what is held of it stays within a few times the bound."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from itertools import repeat

import brotli
import pytest

from semrouter_memory.codec import codec_for
from semrouter_memory.exchange.answer import open_answer
from semrouter_memory.exchange.events import Headers
from semrouter_memory.model import Reason
from tests.answer_bodies import CHAT, JSON, RESPONSES, SSE

MAX_BYTES = 32 * 1024
PIECE_BYTES = 16 * 1024
ALLOWED_BYTES = 16 * MAX_BYTES
"""The answer under way, the event under way, and both as Python holds them."""
FED_BYTES = 12 * ALLOWED_BYTES
"""Were a tenth of it held, or a byte of each event, it would show."""

STREAMS: dict[str, tuple[str, str, bytes]] = {
    "an endless line": (CHAT, SSE, b"x"),
    "no line but ends": (CHAT, SSE, b"\n"),
    "carriage returns": (CHAT, SSE, b"\r"),
    "an endless event": (CHAT, SSE, b"data: xx\n"),
    "an endless event of nothing": (CHAT, SSE, b"data\n"),
    "empty events": (CHAT, SSE, b"data:\n\n"),
    "comments": (CHAT, SSE, b": stay with me\n\n"),
    "names": (CHAT, SSE, b"event: x\n"),
    "text": (CHAT, SSE, b'data: {"choices":[{"delta":{"content":"aaaa"}}]}\n\n'),
    "an endless JSON body": (CHAT, JSON, b'{"choices":['),
    "deep JSON": (RESPONSES, JSON, b"["),
    "text deltas": (RESPONSES, SSE, b'data: {"type":"response.output_text.delta","delta":"a"}\n\n'),
    "final objects": (RESPONSES, SSE, b'data: {"type":"response.completed","response":{"output":[{},{}]}}\n\n'),
}


def _endless(unit: bytes) -> Iterator[bytes]:
    piece = unit * (PIECE_BYTES // len(unit))
    return repeat(piece, FED_BYTES // len(piece))


def _numbered(form: bytes) -> Iterator[bytes]:
    """Each event names a place that no other one does."""
    return (form.replace(b"%d", b"%d" % number) for number in range(20_000))


@pytest.mark.parametrize("name", STREAMS)
def test_of_anything_that_goes_on_no_more_than_the_bound_is_held(name: str) -> None:
    path, content_type, unit = STREAMS[name]
    assert _peak(path, content_type, "", _endless(unit)) < ALLOWED_BYTES


@pytest.mark.parametrize(
    ("path", "form"),
    [
        (CHAT, b'data: {"choices":[{"index":%d}]}\n\n'),
        (CHAT, b'data: {"choices":[{"index":%d,"finish_reason":"stop","delta":{"content":"a"}}]}\n\n'),
        (CHAT, b'data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"%d","function":{"name":"f"}}]}}]}\n\n'),
        (CHAT, b'data: {"choices":[{"delta":{"tool_calls":[{"index":%d}]}}]}\n\n'),
        (RESPONSES, b'data: {"type":"response.output_text.delta","output_index":%d,"delta":""}\n\n'),
        (RESPONSES, b'data: {"type":"response.output_text.done","content_index":%d,"text":"a"}\n\n'),
        (RESPONSES, b'data: {"type":"response.output_item.added","output_index":%d,"item":{"type":"shell_call"}}\n\n'),
    ],
)
def test_an_entry_for_every_number_is_not_held(path: str, form: bytes) -> None:
    assert _peak(path, SSE, "", _numbered(form)) < ALLOWED_BYTES


@pytest.mark.parametrize("index", [b"1000000000", b"-1", b"9223372036854775807", b"1e300", b'"x"', b"[]", b"null"])
def test_a_place_far_away_allocates_nothing_up_to_there(index: bytes) -> None:
    for path, form in (
        (CHAT, b'data: {"choices":[{"index":%d,"delta":{"content":"a","tool_calls":[{"index":%d,"id":"c"}]}}]}\n\n'),
        (
            RESPONSES,
            b'data: {"type":"response.output_text.delta","output_index":%d,"content_index":%d,"delta":"a"}\n\n',
        ),
    ):
        assert _peak(path, SSE, "", [form.replace(b"%d", index)]) < 64 * 1024


def _brotli(data: bytes) -> bytes:
    compressed: bytes = brotli.compress(data, quality=4)
    return compressed


@pytest.mark.parametrize("unit", [b"\0", b"\n", b"data: x\n\n"], ids=["zeros", "line ends", "events"])
@pytest.mark.parametrize("content_type", [JSON, SSE])
@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", lambda data: gzip.compress(data, 1)),
        ("deflate", lambda data: zlib.compress(data, 1)),
        ("br", _brotli),
        ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data, 9), 9)),
        ("gzip, br", lambda data: _brotli(gzip.compress(data, 9))),
        ("gzip", lambda data: gzip.compress(data[: len(data) // 64], 1) * 64),
    ],
    ids=["gzip", "deflate", "br", "gzip in gzip", "gzip in br", "gzip members"],
)
def test_a_decompression_bomb_does_not_go_off(
    coding: str, compress: Callable[[bytes], bytes], content_type: str, unit: bytes
) -> None:
    bomb = compress(unit * (16 * 1024 * 1024 // len(unit)))
    assert _peak(CHAT, content_type, coding, [bomb]) < ALLOWED_BYTES


def test_more_codings_than_a_server_applies_are_not_undone() -> None:
    """Each would have a window of its own."""
    codec = codec_for(CHAT)
    assert codec is not None
    headers = Headers([(":status", "200"), ("content-type", JSON), ("content-encoding", "gzip," * 10_000)])
    assert open_answer(codec, headers, max_bytes=MAX_BYTES) is Reason.ENCODED_ANSWER


def _peak(path: str, content_type: str, coding: str, pieces: Iterator[bytes] | list[bytes]) -> int:
    """The most that was held at a time, in bytes."""
    codec = codec_for(path)
    assert codec is not None
    headers = Headers([(":status", "200"), ("content-type", content_type), ("content-encoding", coding)])
    answer = open_answer(codec, headers, max_bytes=MAX_BYTES)
    assert not isinstance(answer, Reason)
    tracemalloc.start()
    try:
        for piece in pieces:
            answer.feed(piece)
        answer.finish()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
