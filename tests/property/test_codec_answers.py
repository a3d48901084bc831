"""Chunks are not events: however an answer is split, and compressed, the same is read in it."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.codec import codec_for
from semrouter_memory.codec.answers import EventReader
from semrouter_memory.codec.encoding import decoder_for
from semrouter_memory.errors import BodyError
from tests.answer_bodies import CASES, CHAT, JSON, RESPONSES, SSE, AnswerCase

_ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "gzip, br": lambda data: brotli.compress(gzip.compress(data)),
}


def _pieces(data: bytes, cuts: list[float]) -> Iterator[bytes]:
    places = [0, *sorted(int(cut * len(data)) for cut in cuts), len(data)]
    return (data[start:end] for start, end in pairwise(places))


_cuts = st.lists(st.floats(0, 1), max_size=12)


@given(case=st.sampled_from(CASES), coding=st.sampled_from(list(_ENCODINGS)), cuts=_cuts)
def test_any_split_and_encoding_reads_the_same(case: AnswerCase, coding: str, cuts: list[float]) -> None:
    codec, decoder = codec_for(case.path), decoder_for(coding, max_bytes=1_000_000)
    assert codec is not None
    assert decoder is not None
    reader = codec.answer_reader(case.content_type, max_bytes=1_000_000)
    assert reader is not None
    for piece in _pieces(_ENCODINGS[coding](case.body), cuts):
        reader.feed(decoder.decode(piece))
    assert reader.finish() == case.expected


_line = st.one_of(
    st.sampled_from([b"", b"data", b"data:", b"data: a", b"event: e", b": c", b"id: 1", b"\xef\xbb\xbfdata: b"]),
    st.binary(max_size=6),
)


@given(
    lines=st.lists(st.tuples(_line, st.sampled_from([b"\n", b"\r", b"\r\n"])), max_size=12),
    cuts=_cuts,
)
def test_any_split_of_a_stream_gives_the_same_events(lines: list[tuple[bytes, bytes]], cuts: list[float]) -> None:
    stream = b"".join(line + end for line, end in lines)
    whole, split = (EventReader(max_event_bytes=1000, max_bytes=1000) for _ in range(2))
    assert [event for piece in _pieces(stream, cuts) for event in split.feed(piece)] == whole.feed(stream)


@given(data=st.binary(max_size=200), cuts=_cuts, bound=st.integers(1, 100))
@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("content_type", [JSON, SSE])
def test_readers_raise_nothing_on_garbage(
    path: str, content_type: str, data: bytes, cuts: list[float], bound: int
) -> None:
    codec = codec_for(path)
    assert codec is not None
    for body in (data, b"data: " + data + b"\n\n"):
        reader = codec.answer_reader(content_type, max_bytes=bound)
        assert reader is not None
        for piece in _pieces(body, cuts):
            reader.feed(piece)
        reader.finish()


@given(data=st.binary(max_size=300), cuts=_cuts, coding=st.sampled_from(["gzip", "deflate", "br", "br, gzip"]))
def test_decoders_raise_nothing_but_body_errors(data: bytes, cuts: list[float], coding: str) -> None:
    for body in (data, _ENCODINGS.get(coding, gzip.compress)(data)[:-3] + data):
        decoder = decoder_for(coding, max_bytes=1000)
        assert decoder is not None
        try:
            output = [decoder.decode(piece) for piece in _pieces(body, cuts)]
        except BodyError:
            continue
        assert sum(map(len, output)) <= 1000
