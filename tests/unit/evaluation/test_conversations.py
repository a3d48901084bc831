"""How conversations are read, judged and counted."""

import io

import pytest
from rich.console import Console

from semrouter_memory.evaluation.conversations import conversation_of, judge, result_of
from semrouter_memory.evaluation.conversations_run import print_remembered

CASE = {
    "id": "c-1",
    "turns": [{"user": "I live in Oslo", "assistant": "Nice."}],
    "should_remember": [{"about": "home", "any_of": ["Oslo", "norway"]}, {"about": "pet", "any_of": ["cat"]}],
    "should_not_remember": ["Bergen"],
}


def test_a_conversation_is_read_with_everything_lowered_that_is_compared() -> None:
    conversation = conversation_of(CASE)
    assert conversation.turns == (("I live in Oslo", "Nice."),)
    assert conversation.wanted[0].any_of == ("oslo", "norway")
    assert conversation.unwanted == ("bergen",)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"turns": []}, ValueError),
        ({"turns": [{"user": "x"}]}, KeyError),
        ({"turns": "x"}, TypeError),
        ({"id": 7}, TypeError),
        ({"should_remember": [{"about": "x"}]}, KeyError),
        ({"should_remember": [{"about": "x", "any_of": "y"}]}, TypeError),
        ({"should_not_remember": None}, TypeError),
    ],
)
def test_a_line_that_is_no_conversation_is_refused(change: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        conversation_of({**CASE, **change})


def test_case_does_not_count_and_any_of_the_texts_will_do() -> None:
    outcome = judge(conversation_of(CASE), ["User lives in OSLO"])
    assert [wanted.about for wanted in outcome.missed] == ["pet"]
    assert outcome.violations == ()


def test_a_memory_with_an_unwanted_text_is_a_violation() -> None:
    outcome = judge(conversation_of(CASE), ["User lives in bergen", "User has a cat"])
    assert [(each.unwanted, each.memory) for each in outcome.violations] == [("bergen", "User lives in bergen")]


def test_the_result_counts_what_was_wanted_found_and_unwanted() -> None:
    conversation = conversation_of(CASE)
    outcomes = [judge(conversation, ["User lives in Oslo"]), judge(conversation, ["User was in Bergen"])]
    assert result_of("x.jsonl", outcomes) == {
        "file": "x.jsonl",
        "conversations": 2,
        "should_remember": 4,
        "remembered": 1,
        "violations": [{"id": "c-1", "text": "User was in Bergen"}],
    }


def test_the_report_names_what_was_missed_what_is_wrong_and_what_failed() -> None:
    console = Console(file=io.StringIO(), width=120)
    outcome = judge(conversation_of(CASE), ["[b]User was in Bergen[/b]"], ["parse_failed"])
    print_remembered(console, "x.jsonl", [outcome])
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    for text in ("c-1", "pet (cat)", "'bergen' is in: [b]User was in Bergen[/b]", "parse_failed"):
        assert text in printed
