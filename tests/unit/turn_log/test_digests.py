"""Digests keep apart what differs, and join what only is written differently."""

import pytest

from semrouter_memory.model import Scope
from semrouter_memory.turn_log.digests import Digests, normalised

DIGESTS = Digests(b"k" * 32)


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
