"""The event stream format, by the examples and rules of the WHATWG specification."""

from collections.abc import Iterable

import pytest

from semrouter_memory.codec.answers import Event, EventReader

_CASES: dict[str, tuple[bytes, list[tuple[str, bytes]]]] = {
    "one event": (b"data: a\n\n", [("", b"a")]),
    "no space after the colon": (b"data:a\n\n", [("", b"a")]),
    "only one space is taken": (b"data:  a\n\n", [("", b" a")]),
    "several data lines": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [("", b"YHOO\n+2\n10")]),
    "named": (b"event: add\ndata: 73\n\nevent: remove\ndata: 21\n\n", [("add", b"73"), ("remove", b"21")]),
    "a name is for one event": (b"event: add\ndata: 1\n\ndata: 2\n\n", [("add", b"1"), ("", b"2")]),
    "the last name counts": (b"event: a\nevent: b\ndata: 1\n\n", [("b", b"1")]),
    "a name without data is no event": (b"event: add\n\ndata: 1\n\n", [("", b"1")]),
    "comments": (b": test stream\n\ndata: a\n: b\ndata: c\n\n:\n\n", [("", b"a\nc")]),
    "a comment that looks like data": (b":data: a\n\n", []),
    "other fields": (b"id: 1\nretry: 5\nfoo: x\ndata: a\n\n", [("", b"a")]),
    "field without a colon": (b"data\n\ndata\ndata\n\n", [("", b""), ("", b"\n")]),
    "field names are exact": (b"Data: a\n data: b\ndatas: c\n\n", []),
    "blank lines": (b"\n\n\ndata: a\n\n\n\n", [("", b"a")]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [("", b"a"), ("", b"b")]),
    "CR": (b"data: a\r\rdata: b\r\r", [("", b"a"), ("", b"b")]),
    "mixed line ends": (b"data: a\r\ndata: b\rdata: c\n\r\n", [("", b"a\nb\nc")]),
    "LF CR are two line ends": (b"data: a\n\rdata: b\r\n\r\n", [("", b"a"), ("", b"b")]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
    "only the first byte order mark": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
    "byte order mark later": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [("", b"a")]),
    "other separators are text": ("data: a\u2028b\x0bc\x85\n\n".encode(), [("", "a\u2028b\x0bc\x85".encode())]),
    "characters of several bytes": ("event: 🏔\ndata: Zürich 🏔\n\n".encode(), [("🏔", "Zürich 🏔".encode())]),
    "not UTF-8": (b"event: \xff\ndata: \xff\n\n", [("\ufffd", b"\xff")]),
    "without a closing blank line": (b"data: a\n\ndata: b\n", [("", b"a")]),
    "cut": (b"data: a\n\ndata: b", [("", b"a")]),
    "nothing": (b"", []),
}


def _read(chunks: Iterable[bytes], *, max_event_bytes: int = 1000, max_bytes: int = 1000) -> list[Event]:
    reader = EventReader(max_event_bytes=max_event_bytes, max_bytes=max_bytes)
    return [event for chunk in chunks for event in reader.feed(chunk)]


@pytest.mark.parametrize(("stream", "expected"), _CASES.values(), ids=_CASES.keys())
class TestFormat:
    def test_whole(self, stream: bytes, expected: list[tuple[str, bytes]]) -> None:
        assert _read([stream]) == expected

    def test_byte_by_byte(self, stream: bytes, expected: list[tuple[str, bytes]]) -> None:
        assert _read(bytes((byte,)) for byte in stream) == expected

    def test_in_two_pieces_at_every_place(self, stream: bytes, expected: list[tuple[str, bytes]]) -> None:
        for at in range(len(stream) + 1):
            assert _read([stream[:at], b"", stream[at:]]) == expected


def test_events_come_with_the_chunk_that_ends_them() -> None:
    reader = EventReader(max_event_bytes=100, max_bytes=100)
    assert reader.feed(b"data: a\r\n\r") == [Event("", b"a")]
    assert reader.feed(b"\ndata: b\n") == []
    assert reader.feed(b"\n") == [Event("", b"b")]


def test_event_bound_is_inclusive() -> None:
    """Field names count, line ends do not."""
    event = b"data: abc\ndata: d\n\n"
    assert _read([event * 3], max_event_bytes=len(event) - 3) == [Event("", b"abc\nd")] * 3
    assert _read([event], max_event_bytes=len(event) - 4) == []


def test_stream_bound_is_inclusive() -> None:
    event = b"data: abc\n\n"
    assert _read([event] * 2, max_bytes=len(event) * 2) == [Event("", b"abc")] * 2
    assert _read([event] * 2, max_bytes=len(event) * 2 - 1) == [Event("", b"abc")]


def test_comments_and_unknown_fields_do_not_count_for_the_event() -> None:
    assert _read([b"data: a\n", *[b": keep-alive\nid: 1\n"] * 30, b"\n"], max_event_bytes=20) == [Event("", b"a")]


@pytest.mark.parametrize("piece", [b"x", b"data: x\n", b"event: x\n", b": x", b"\r\ndata: " + b"x" * 90])
def test_over_a_bound_it_gives_up_for_good_and_holds_nothing(piece: bytes) -> None:
    reader = EventReader(max_event_bytes=50, max_bytes=100)
    for _ in range(100):
        reader.feed(piece)
    assert reader.over
    assert reader.feed(b"\n\ndata: a\n\n") == []
    assert not reader._line
    assert not reader._data
