"""What is counted for a question without a model."""

import pytest

from semrouter_memory.model import Memory, Scope
from semrouter_memory.reflect import counted, naming
from tests.memories import memory

TOLD = ("User is allergic to peanuts", "User's dog is called Rex", "用户对花生过敏")


def told() -> list[Memory]:
    return [memory(Scope("alice"), f"mem_{at}", content=content) for at, content in enumerate(TOLD)]


@pytest.mark.parametrize(
    ("question", "counts"),
    [
        ("What about peanuts?", {TOLD[0]}),
        ("Since when do I speak of a peanut, and of my dogs?", {TOLD[0], TOLD[1]}),
        ("我对什么过敏？", {TOLD[2]}),
        ("What do you know of me?", set(TOLD)),
    ],
)
def test_what_shares_a_word_with_the_question_counts_and_all_where_nothing_does(
    question: str, counts: set[str]
) -> None:
    found = naming(question, told())
    assert {each.content for each in found} == counts
    assert counted(found).times == len(counts)
