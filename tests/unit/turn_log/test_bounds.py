"""What reaches the file is bounded and can be stored."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from semrouter_memory.databases import micros, moment, pack, unpack
from semrouter_memory.model import ToolUse
from semrouter_memory.turn_log.bounds import storable, storable_texts, storable_tools


@pytest.mark.parametrize(
    ("text", "stored"),
    [("plain", "plain"), ("ünï", "ünï"), ("x" * 11, "x" * 10), ("a\ud800b", "a?b"), ("a\x00b", "a\x00b"), ("", "")],
)
def test_a_text_is_cut_and_loses_what_is_no_character(text: str, stored: str) -> None:
    assert storable(text, 10) == stored


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (("aaa", "bbb"), ["aaa", "bbb"]),
        (("aaa", "bbb", "ccc", "ddd"), ["a", "bbb", "ccc", "ddd"]),
        (("aaa", "b" * 10), ["b" * 10]),
        (("aaa", "b" * 12), ["b" * 10]),
        (("", "a", ""), ["a"]),
        ((), []),
    ],
)
def test_the_last_messages_share_the_bound(texts: tuple[str, ...], kept: list[str]) -> None:
    assert storable_texts(texts, 10) == kept


def test_the_last_tools_are_kept_and_cut() -> None:
    tools = [ToolUse(f"{number}-{'n' * 500}", "o" * 5000) for number in range(100)]
    kept = storable_tools(tools)
    assert len(kept) == 64
    assert kept[-1].name.startswith("99-")
    assert (len(kept[-1].name), len(kept[-1].outcome)) == (128, 512)


def test_times_keep_their_microseconds_and_come_back_in_utc() -> None:
    said = datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=timezone(timedelta(hours=5)))
    assert moment(micros(said)) == said
    assert moment(micros(said)).tzinfo is UTC


@pytest.mark.parametrize("identifier", ["alice", "\ud800", "a\x00b", "", "ü"])
def test_identifiers_come_back_as_they_were(identifier: str) -> None:
    assert unpack(pack(identifier)) == identifier
