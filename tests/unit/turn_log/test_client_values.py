"""What reaches the file is bounded and can be stored; digests keep apart what differs, and join what only is written differently."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from semrouter_memory.databases import micros, moment, pack, unpack
from semrouter_memory.model import Scope, ToolUse
from semrouter_memory.turn_log.client_values import Digests, normalised, storable, storable_texts, storable_tools

DIGESTS = Digests(b"k" * 32)


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("ab", "c"), ("a", "bc")),
        (("a",), ("a", "")),
        (("\ud800",), ("?",)),
        (("a\x00",), ("a",)),
    ],
)
def test_parts_do_not_run_into_each_other(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert DIGESTS.of("kind", *one) != DIGESTS.of("kind", *other)


def test_kind_and_key_keep_apart() -> None:
    assert len({DIGESTS.of("a", "x"), DIGESTS.of("b", "x"), Digests(b"l" * 32).of("a", "x")}) == 3


def test_a_session_id_is_stable_and_opaque() -> None:
    session_id = DIGESTS.session_id(Scope("alice"), "header", "my secret")
    assert session_id == DIGESTS.session_id(Scope("alice"), "header", "my secret")
    assert session_id.startswith("ses_")
    assert session_id.removeprefix("ses_").isalnum()
    assert "secret" not in session_id


def test_a_turn_id_names_its_log_and_sequence() -> None:
    turn_id = DIGESTS.turn_id(42)
    assert DIGESTS.sequence(turn_id) == 42
    assert Digests(b"l" * 32).sequence(turn_id) is None


@pytest.mark.parametrize("suffix", ["", "x", "-1", "042", "１", "9" * 19, "9" * 5000, "4 2", "\ud800"])
def test_what_is_no_turn_id_has_no_sequence(suffix: str) -> None:
    assert DIGESTS.sequence(DIGESTS.turn_id(7)[:-1] + suffix) is None
    assert DIGESTS.sequence(suffix) is None


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ("User lives in Berlin.", "user lives in berlin"),
        ("  User\tlives \n in Berlin ", "user lives in berlin"),
        ("Ｕｓｅｒ lives in Berlin!?", "user lives in berlin"),
        ("用户住在柏林。", "用户住在柏林"),
        ("STRASSE", "straße"),
        ("Budget is $10,000.", "budget is $10,000"),
    ],
)
def test_writing_makes_no_difference(written: str, same: str) -> None:
    assert normalised(written) == normalised(same)


@pytest.mark.parametrize(
    ("one", "other"), [("User likes tea", "User likes coffee"), ("$10", "$100"), ("...", "!!!"), ("C", "C++")]
)
def test_meaning_makes_one(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)
