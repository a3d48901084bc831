"""What a line of an end-to-end file means, and how what is injected is judged."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from semrouter_memory.evaluation.cases import case_of
from semrouter_memory.evaluation.e2e import (
    EndToEndCase,
    JudgedQuestion,
    MissStage,
    content_words,
    figures_of,
    print_misses,
)

AT = "2026-03-15T10:00:00Z"


def asked(**question: Any) -> Any:
    line = {
        "id": "u",
        "sessions": [{"at": AT, "turns": [{"user": "hi", "assistant": "hello"}]}],
        "questions": [{"id": "q", "at": AT, "kind": "direct", "text": "Which city?", **question}],
    }
    (read,) = case_of(EndToEndCase, line).questions
    return read


def judged(
    question: Any,
    injected: str = "",
    *,
    shown: tuple[str, ...] = (),
    kept: tuple[str, ...] = (),
    first_ten: tuple[str, ...] = (),
) -> JudgedQuestion:
    return JudgedQuestion(
        user="u", question=question, injected=injected, shown=shown, tokens=7, stored=kept, first_ten=first_ten
    )


def test_case_does_not_count_and_one_of_the_spellings_is_enough() -> None:
    question = asked(any_of=["Lisbon", "lisboa"])
    assert judged(question, "- User lives in LISBOA").score == 1.0
    assert judged(question, "- User lives in Porto").score == 0.0


def test_a_text_that_misleads_counts_whatever_else_is_there() -> None:
    outcome = judged(asked(any_of=["lisbon"], none_of=["Porto"]), "lisbon, not porto")
    assert (outcome.score, outcome.misled) == (0.0, True)


def test_a_question_that_wants_nothing_is_quiet_when_nothing_is_injected() -> None:
    question = asked()
    assert judged(question).score == 1.0
    assert judged(question, "- User lives in Lisbon").score == 0.0


@pytest.mark.parametrize(
    ("kept", "first_ten", "injected", "lost"),
    [
        ((), (), "", MissStage.NOT_KEPT),
        (("in lisbon",), (), "", MissStage.NOT_FOUND),
        (("in lisbon",), ("in lisbon",), "", MissStage.NOT_INJECTED),
        (("in lisbon",), ("in lisbon",), "in lisbon", None),
    ],
)
def test_a_miss_says_where_it_was_lost(
    kept: tuple[str, ...], first_ten: tuple[str, ...], injected: str, lost: MissStage | None
) -> None:
    assert judged(asked(any_of=["lisbon"]), injected, kept=kept, first_ten=first_ten).lost is lost


def test_coverage_is_the_share_of_the_answers_content_words() -> None:
    assert content_words("She painted the 3 boats, and a sunset") == {"paint", "3", "boat", "sunset"}
    question = asked(answer="She painted a sunset")
    assert judged(question, "- I painted it yesterday").score == 0.5
    assert judged(question, "- I painted it yesterday").lost is None
    assert judged(question, "- nothing of it").lost is MissStage.NOT_KEPT


def test_figures_are_by_kind_and_of_those_that_want_memory_and_those_that_do_not() -> None:
    wanting, other = asked(any_of=["lisbon"]), asked(kind="general")
    result = figures_of([judged(wanting, "in lisbon"), judged(wanting), judged(other), judged(other, "in lisbon")])
    kinds: Any = result["kinds"]
    assert kinds["direct"]["answered"] == kinds["all that want memory"]["answered"] == 0.5
    assert kinds["general"]["quiet"] == kinds["all that want none"]["quiet"] == 0.5
    assert kinds["direct"]["coverage"] is None
    assert result["lost"] == {"not stored": 1}


def test_the_table_of_misses_shows_the_memories_and_not_what_surrounds_them() -> None:
    console = Console(record=True, width=200)
    print_misses(console, [judged(asked(), "## Context\n- User lives in Lisbon", shown=("- User lives in Lisbon",))])
    printed = console.export_text()
    assert "User lives in Lisbon" in printed
    assert "## Context" not in printed


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sessions": []}, "at least one session"),
        ({"sessions": [{"at": "noon", "turns": []}]}, r"sessions\[0\].at: must be a time"),
        (
            {"questions": [{"id": "q", "at": AT, "kind": "k", "text": "t", "any_of": "x"}]},
            "any_of: Input should be a list",
        ),
    ],
)
def test_a_complaint_names_the_field(change: dict[str, Any], complaint: str) -> None:
    line = {"id": "u", "sessions": [{"at": AT, "turns": []}], "questions": []}
    with pytest.raises(ValueError, match=complaint):
        case_of(EndToEndCase, line | change)


def test_a_time_without_an_offset_is_utc() -> None:
    assert asked(at="2026-03-15T10:00:00").at == datetime(2026, 3, 15, 10, tzinfo=UTC)
