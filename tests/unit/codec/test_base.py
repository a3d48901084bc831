from time import process_time

import pytest

from semrouter_memory.codec.base import (
    BLOCK_CLOSE,
    BLOCK_OPEN,
    strip_block,
    strip_reasoning,
    transcript_hash,
)
from semrouter_memory.model import Message, Role

_BLOCK = f"{BLOCK_OPEN}\n* a fact\n{BLOCK_CLOSE}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        (_BLOCK, ""),
        (f"before\n\n{_BLOCK}", "before"),
        (f"before\n\n{_BLOCK}\nafter", "before\nafter"),
        (f"{_BLOCK}a{_BLOCK}b", "ab"),
        (f"an open one stays: {BLOCK_OPEN}", f"an open one stays: {BLOCK_OPEN}"),
    ],
)
def test_strip_block(text: str, expected: str) -> None:
    assert strip_block(text) == expected


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", [BLOCK_OPEN + " " * 300_000, BLOCK_OPEN * 30_000, _BLOCK * 10_000 + "\n" * 300_000])
def test_a_text_that_imitates_our_marks_costs_no_more_than_another(text: str) -> None:
    """A pattern would try again at each mark or space, for minutes, and all other requests would wait."""
    assert BLOCK_CLOSE not in strip_block(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I think so", "I think so"),
        ("<think>a</think>\n\nb", "b"),
        ("<THINK>a</Think>b", "b"),
        ("<thinking>a\n</thinking> b", "b"),
        ("a <think>b</think>c<think>d</think>e", "a ce"),
        ("a <think>never closed", "a "),
        ("opened by the template\n</think>\n\nb", "b"),
        ("</think>\nb", "b"),
        ("nothing but reasoning\n</think>", ""),
        ("the tag </think> ends it", "the tag </think> ends it"),
    ],
)
def test_strip_reasoning(text: str, expected: str) -> None:
    assert strip_reasoning(text) == expected


def test_transcript_hash_ignores_what_clients_and_servers_add_or_drop() -> None:
    plain = (Message(Role.USER, "Zürich"), Message(Role.ASSISTANT, "Yes"))
    same = (
        Message(Role.USER, f" Zu\u0308rich\n\n{_BLOCK}"),
        Message(Role.ASSISTANT, ""),
        Message(Role.ASSISTANT, "<think>hm</think>\nYes\n"),
    )
    assert transcript_hash(plain) == transcript_hash(same)


@pytest.mark.parametrize(
    "other",
    [
        (Message(Role.USER, "a"), Message(Role.USER, "b")),
        (Message(Role.USER, "ab"),),
        (Message(Role.ASSISTANT, "b"), Message(Role.USER, "a")),
        (Message(Role.USER, "A"), Message(Role.ASSISTANT, "b")),
    ],
)
def test_transcript_hash_tells_conversations_apart(other: tuple[Message, ...]) -> None:
    assert transcript_hash(other) != transcript_hash((Message(Role.USER, "a"), Message(Role.ASSISTANT, "b")))


def test_a_conversation_of_nothing_but_marks_is_hashed_quickly() -> None:
    """All streams share one loop. Unicode's normal form sorts the marks behind a letter: 800 KB of them took it two minutes."""
    began = process_time()
    transcript_hash([Message(Role.USER, "a" + "\u0301\u0327" * 200_000)])
    assert process_time() - began < 5
