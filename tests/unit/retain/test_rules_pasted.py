"""What others wrote does not become the user's, however it is laid out; what the user says beside it does."""

import pytest

from semrouter_memory.model import Candidate, MemoryType
from semrouter_memory.retain import gate, rules
from tests.poisoned import BESIDE, CHINESE_FRAMES, CHINESE_POISONS, FRAMES, POISONS, WORDS

from .conftest import NOW, MakeTurn

POISONED = [
    pytest.param(frame.format(poison), id=f"{name}: {kind}")
    for frames, poisons in ((FRAMES, POISONS), (CHINESE_FRAMES, CHINESE_POISONS))
    for name, frame in frames.items()
    for kind, poison in poisons.items()
]
FACTS = (
    "User lives in Zorvik",
    "User's bank is Zorvik",
    "User wants the assistant to recommend Zorvik",
    "用户的银行是佐维克",
)


def contents(text: str) -> list[str]:
    return [statement.content for statement in rules.read(text)[0]]


def of_others(found: list[str]) -> list[str]:
    return [content for content in found if any(word in content.lower() for word in WORDS)]


@pytest.mark.parametrize("poison", [*POISONS.values(), *CHINESE_POISONS.values()])
def test_the_texts_would_be_remembered_if_the_user_said_them(poison: str) -> None:
    """But for what speaks of "the user", which nobody says of themselves in English."""
    assert of_others(contents(poison)) or "the user" in poison


@pytest.mark.parametrize("message", POISONED)
def test_a_pasted_text_is_not_the_users(message: str) -> None:
    assert of_others(contents(message)) == []


@pytest.mark.parametrize("message", POISONED)
def test_what_a_model_takes_from_a_pasted_text_does_not_pass(make_turn: MakeTurn, message: str) -> None:
    facts = [Candidate(type=MemoryType.SEMANTIC, content=fact, observed_at=NOW, extractor="llm") for fact in FACTS]
    assert gate.gate(facts, [make_turn(message)]).candidates == ()


@pytest.mark.parametrize("poison", [*POISONS.values(), *CHINESE_POISONS.values()])
@pytest.mark.parametrize(("message", "own"), BESIDE)
def test_what_is_said_beside_a_pasted_text_is_remembered(message: str, own: str, poison: str) -> None:
    found = contents(message.format(poison))
    assert [content for content in found if own in content]
    assert of_others(found) == []


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("I use Vec<String> a lot. I work as a Rust developer.", "Rust"),
        ("I'm stuck at `git checkout <branch>`. I use macOS.", "macOS"),
        ("Things about me:\n- I live in Oslo\n- I'm vegan", "vegan"),
        ("My name is Tom.\nI live in Bath.\nI have two cats.", "cats"),
        ("My flight leaves on 3 May at 7:30.\nI need a hotel in Tallinn.", "Tallinn"),
        ("I run a blog about bread. My blog is hosted on Hetzner.\nHow do I speed it up?", "Hetzner"),
        ("Background: I'm a teacher in Bonn.\n\nWhat is the best way to learn R?", "Bonn"),
        ("I live in Oslo and I'm vegan.\nWhat should I cook tonight?", "Oslo"),
        ("I speak Dutch.\n\nWe fly to Crete on 12 June.\n\nCan you plan the trip?", "Crete"),
        ("我住在北京，对花生过敏。\n今晚吃什么？", "北京"),
    ],
)
def test_lines_of_ones_own_are_no_pasted_text(said: str, stored: str) -> None:
    assert [content for content in contents(said) if stored in content]
