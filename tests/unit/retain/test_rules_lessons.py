"""Lessons on how to be answered become reflective memories; wishes for one task do not."""

import pytest

from semrouter_memory.model import MemoryType
from semrouter_memory.retain import rules
from semrouter_memory.retain.rules import Scene

from .conftest import MakeTurn

ANSWERED = Scene(answered=True)


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("too long, bullet points please", ["User finds the assistant's answers too long", "User prefers answers as bullet points"]),
        ("that was way too technical", ["User finds the assistant's answers too technical"]),
        ("shorter", ["User wants the assistant's answers to be shorter"]),
        ("shorter please", ["User wants the assistant's answers to be shorter"]),
        ("use metric units", ["User prefers answers in metric units"]),
        ("stop apologising", ["User wants the assistant to stop apologising"]),
        ("you keep repeating my question", ["User does not like that the assistant keeps repeating the user's question"]),
        ("you don't need to apologise every time", ["User wants the assistant not to apologise every time"]),
        ("太长了，用要点回答", ["用户觉得助手的回答太长", "用户希望助手用要点回答"]),
        ("别再道歉了", ["用户希望助手不要道歉了"]),
    ],
)  # fmt: skip
def test_criticism_of_an_answer_is_a_lesson(said: str, stored: list[str]) -> None:
    found = rules.read(said, ANSWERED)[0]
    assert [statement.content for statement in found] == stored
    assert {statement.type for statement in found} == {MemoryType.REFLECTIVE}


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("answer in German from now on", "User wants the assistant to answer in German"),
        ("always add type hints", "User wants the assistant to always add type hints"),
        ("use metric units please, always", "User wants the assistant to always use metric units"),
        ("don't give me code without tests ever again", "User wants the assistant never to give the user code without tests"),
        ("no emojis please", "User prefers answers without emojis"),
        ("I prefer short answers", "User prefers short answers"),
        ("以后请用英文回答", "用户希望助手以后用英文回答"),
    ],
)  # fmt: skip
def test_a_standing_wish_is_a_lesson_at_any_time(said: str, stored: str) -> None:
    (found,) = rules.read(said)[0]
    assert (found.content, found.type) == (stored, MemoryType.REFLECTIVE)


@pytest.mark.parametrize(
    "said",
    [
        "make this paragraph shorter",
        "summarise it in 3 bullets",
        "shorter",
        "too long, bullet points please",
        "use metric units",
        "too expensive",
        "use multi stage",
        "太长了，用要点回答",
    ],
)
def test_a_wish_for_the_task_at_hand_is_none(said: str) -> None:
    assert rules.read(said)[0] == ()


def test_while_a_text_is_drafted_criticism_is_about_the_text(make_turn: MakeTurn) -> None:
    turns = [make_turn("draft a mail to the club"), make_turn("too long, make it shorter", number=2)]
    assert rules.candidates(turns) == ()
