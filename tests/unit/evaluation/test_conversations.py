"""How conversations are read, judged and counted."""

import io
import re

import pytest
from rich.console import Console

from semrouter_memory.evaluation.cases import CaseTurn, case_of
from semrouter_memory.evaluation.conversations import ConversationCase, Remembered, report, result_of

CASE = {
    "id": "c-1",
    "turns": [{"user": "I live in Oslo", "assistant": "Nice."}],
    "should_remember": [{"about": "home", "any_of": ["Oslo", "norway"]}, {"about": "pet", "any_of": ["cat"]}],
    "should_not_remember": ["Bergen"],
}


def test_a_conversation_is_read_with_everything_lowered_that_is_compared() -> None:
    conversation = case_of(ConversationCase, CASE)
    assert conversation.turns == (CaseTurn("I live in Oslo", "Nice."),)
    assert conversation.should_remember[0].any_of == ("oslo", "norway")
    assert conversation.should_not_remember == ("bergen",)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"turns": []}, "turns must hold at least one turn"),
        ({"turns": [{"user": "x"}]}, "turns[0].assistant: Field required"),
        ({"turns": "x"}, "turns: Input should be a list"),
        ({"id": 7}, "id: Input should be a valid string"),
        ({"should_remember": [{"about": "x"}]}, "should_remember[0].any_of: Field required"),
        (
            {"should_remember": [{"about": "x", "any_of": "y"}]},
            "should_remember[0].any_of: Input should be a list",
        ),
        ({"should_not_remember": None}, "should_not_remember: Input should be a list"),
    ],
)
def test_a_line_that_is_no_conversation_is_refused(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        case_of(ConversationCase, {**CASE, **change})


def test_case_does_not_count_and_any_of_the_texts_will_do() -> None:
    outcome = Remembered(case_of(ConversationCase, CASE), ("User lives in OSLO",))
    assert [wanted.about for wanted in outcome.missed] == ["pet"]
    assert outcome.violations == ()


def test_a_memory_with_an_unwanted_text_is_a_violation() -> None:
    outcome = Remembered(case_of(ConversationCase, CASE), ("User lives in bergen", "User has a cat"))
    assert [(each.unwanted, each.memory) for each in outcome.violations] == [("bergen", "User lives in bergen")]


def test_the_result_counts_what_was_wanted_found_and_unwanted() -> None:
    conversation = case_of(ConversationCase, CASE)
    outcomes = [Remembered(conversation, ("User lives in Oslo",)), Remembered(conversation, ("User was in Bergen",))]
    assert result_of("x.jsonl", outcomes) == {
        "file": "x.jsonl",
        "conversations": 2,
        "should_remember": 4,
        "remembered": 1,
        "violations": [{"id": "c-1", "text": "User was in Bergen"}],
    }


def test_the_report_names_what_was_missed_what_is_wrong_and_what_failed() -> None:
    console = Console(file=io.StringIO(), width=120)
    outcome = Remembered(case_of(ConversationCase, CASE), ("[b]User was in Bergen[/b]",), ("parse_failed",))
    report(console, "x.jsonl", [outcome])
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    for text in ("c-1", "pet (cat)", "'bergen' is in: [b]User was in Bergen[/b]", "parse_failed"):
        assert text in printed
