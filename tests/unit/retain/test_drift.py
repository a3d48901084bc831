"""When a conversation has changed its topic."""

import numpy as np
import pytest

from semrouter_memory.model import Vector
from semrouter_memory.retain.scheduling import last_change, says_something

SIMILARITY = 0.2


def vectors(topics: str) -> list[Vector]:
    """One vector for each letter: equal letters point the same way, others are orthogonal."""
    return [np.eye(26, dtype=np.float32)[ord(letter) - ord("a")] for letter in topics]


@pytest.mark.parametrize(
    ("topics", "change"),
    [
        ("", None),
        ("aaaaaaaa", None),
        ("aaab", None),
        ("aaabb", 4),
        ("aaabc", 4),
        ("aaaba", None),
        ("aaabab", None),
        ("aaababb", 6),
        ("aabb", None),
        ("aaabbbbb", 4),
        ("aaabbbcc", 7),
        ("abcabcabc", None),
    ],
)
def test_two_turns_in_a_row_unlike_a_settled_topic_change_it(topics: str, change: int | None) -> None:
    assert last_change(vectors(topics), SIMILARITY) == change


def test_a_turn_just_like_enough_is_on_the_topic() -> None:
    near = np.zeros(26, dtype=np.float32)
    near[0], near[1] = 0.2, np.sqrt(1 - 0.2**2)
    assert last_change([*vectors("aaa"), near, near], 0.19) is None
    assert last_change([*vectors("aaa"), near, near], 0.21) == 4


@pytest.mark.parametrize(
    ("text", "telling"),
    [
        ("ok thanks", False),
        ("and the second one?", False),
        ("can you make it shorter please", False),
        ("", False),
        ("12 34 56 78", False),
        ("好的谢谢", False),
        ("My car makes a grinding noise", True),
        ("我打算五月和妻子去日本旅行", True),
    ],
)
def test_vague_turns_say_nothing_about_the_topic(text: str, *, telling: bool) -> None:
    assert says_something(text) is telling
