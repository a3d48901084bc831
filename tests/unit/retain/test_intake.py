"""What is taken out of a turn before it is written."""

from dataclasses import replace
from datetime import UTC, datetime

from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN
from semrouter_memory.model import Scope, SessionHints, ToolUse, Turn
from semrouter_memory.retain.intake import cleaned
from semrouter_memory.retain.redact import SecretKind

SECRET = "sk-abcdefghij1234567890"


def turn(user: str, assistant: str = "", outcome: str = "") -> Turn:
    return Turn(
        scope=Scope("alice"),
        hints=SessionHints(),
        user_texts=(user,),
        assistant_text=assistant,
        observed_at=datetime(2026, 3, 20, tzinfo=UTC),
        tools=(ToolUse("search", outcome),),
    )


def test_secrets_leave_every_text() -> None:
    clean = cleaned(turn(f"u {SECRET}", f"a {SECRET}", f"t {SECRET}"), max_chars=100)
    assert (clean.turn.user_texts, clean.turn.assistant_text) == (("u [redacted]",), "a [redacted]")
    assert clean.redacted == (SecretKind.API_KEY,) * 3
    assert clean.turn.tools == (ToolUse("search", "t [redacted]"),)


def test_our_own_block_is_not_remembered_again() -> None:
    assert cleaned(turn(f"hi{BLOCK_OPEN}User likes tea{BLOCK_CLOSE}"), max_chars=100).turn.user_texts == ("hi",)


def test_texts_are_cut_and_a_secret_at_the_cut_leaves_no_half() -> None:
    clean = cleaned(turn("x " * 10 + SECRET), max_chars=30)
    assert len(clean.turn.user_texts[0]) <= 30
    assert "sk-" not in clean.turn.user_texts[0]


def test_items_that_hold_a_secret_of_their_own_are_not_kept_even_where_the_texts_are_clean() -> None:
    said = turn("hello", "hi")
    repeated = ({"content": "hello"}, {"content": "hi"})
    assert cleaned(replace(said, items=repeated), max_chars=100).turn.items == repeated
    assert cleaned(replace(said, items=(*repeated, {"output": SECRET})), max_chars=100).turn.items is None
