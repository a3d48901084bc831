"""What a model is shown of memories, and what of its answers passes."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.model import CONTEXT, FORM, Memory, MemoryType, Scope
from semrouter_memory.reflect import (
    UNUSABLE,
    CheckedAnswer,
    answer_prompt,
    checked_answer,
    cited,
    counted,
    in_words,
    lines,
    within,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def memory(content: str, **more: Any) -> Memory:
    values: dict[str, Any] = {"id": "m", "scope": Scope("alice"), "type": MemoryType.SEMANTIC, "source": "conversation"}
    times = dict.fromkeys(("observed_at", "created_at", "updated_at"), NOW)
    return Memory(content=content, **{**values, **times, "metadata": {FORM: "quote"}, **more})


BUDGET = memory("My budget for the Hawaii trip is $10,000")
ANNA = memory("my sister Anna lives in Oslo, she has two dogs")
CHINESE = memory("我妹妹叫小雨，她住在奥斯陆，预算是一万美元")
SOURCES = [BUDGET, ANNA, CHINESE]


@pytest.mark.parametrize(
    "answer",
    [
        "Your budget is $10,000 [1].",
        "It is 10K dollars [1], as you said on March 1, 2026.",
        "Anna [2]",
        "According to you, Anna lives in Oslo [2]. She has 2 dogs 【2】.",
        "First, your budget is $10,000 [1]. Regarding the trip: it is to Hawaii [1].",
        "On Sunday, 1 March 2026, you said that your budget is $10,000 [1, 2].",
        "你妹妹叫小雨 [3]。",
        "2026年3月1日你说预算是一万美元 [3]。",
        "```\nYour budget is $10,000 [1].\n```",
    ],
)
def test_an_answer_that_stands_in_its_sources_passes(answer: str) -> None:
    assert checked_answer(answer, SOURCES).text


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ("Your budget is $20,000 [1].", "number_not_said"),
        ("You said so in 2025 [1].", "number_not_said"),
        ("Barbara [2]", "name_not_said"),
        ("Her name: Barbara [2]", "name_not_said"),
        ("Your sister is **Barbara** [2].", "name_not_said"),
        ("你妹妹叫李雷 [3]。", "words_not_said"),
        ("Your budget is $10,000.", UNUSABLE),
        ("Your budget is $10,000 [4].", UNUSABLE),
        ("Your budget is $10,000 [1, 4].", UNUSABLE),
        ("", UNUSABLE),
    ],
)
def test_an_answer_that_does_not_is_refused(answer: str, refused: str) -> None:
    assert checked_answer(answer, SOURCES) == CheckedAnswer(refused=refused)


def test_a_relative_day_may_be_told_as_its_date() -> None:
    source = memory("The exam is next Friday")
    assert "2026" in lines([source])[0]
    assert checked_answer("The exam is on 6 March 2026 [1].", [source]).text


@pytest.mark.parametrize(
    "answer", ["UNKNOWN", "unknown.", "<think>hm</think>UNKNOWN", "UNKNOWN: the sources say nothing"]
)
def test_an_answer_may_be_that_it_is_not_told(answer: str) -> None:
    assert checked_answer(answer, SOURCES) == CheckedAnswer()


def test_citations_are_read_in_their_order() -> None:
    assert cited("a [2], b [1][3], c [2, 3], 【4】 and [x] (5)") == (2, 1, 3, 4)


@given(st.lists(st.text(max_size=80), min_size=1, max_size=5), st.text(max_size=80))
def test_a_source_is_one_line_whatever_it_says(contents: list[str], context: str) -> None:
    sources = [memory(content, metadata={FORM: "quote", CONTEXT: context}) for content in contents]
    shown = lines(sources)
    assert [line.partition(" ")[0] for line in shown] == [f"[{number}]" for number in range(1, len(sources) + 1)]
    text = answer_prompt("Why?", sources)[1].content
    assert len(text.splitlines()) == len(sources) + 3
    assert all(line.endswith('"') and line.count('"') == 2 for line in shown)


def test_sources_are_bounded_and_never_none() -> None:
    assert within(SOURCES, 1, len) == [BUDGET]
    assert within(SOURCES, 10_000, len) == SOURCES


def test_counts_are_told_in_the_questions_language() -> None:
    count = counted([BUDGET, memory("a passage", metadata={FORM: "passage"})])
    assert in_words(count, "Why?", [1, 2]) == (
        "Mentioned once, on 1 March 2026; 1 passage of a document is about it [1][2]."
    )
    assert in_words(count, "为什么？", [1]) == "提到过1次，在2026年3月1日；有1段文档与此有关 [1]。"
    assert in_words(count, "Why?", []).endswith(" is about it.")


def test_an_answer_of_empty_lines_takes_no_time() -> None:
    """Models in JSON mode write these without end; the event loop waits for the check."""
    began = time.perf_counter()
    assert checked_answer(f"Your budget{' ' * 100_000}is $10,000 [1].", SOURCES).refused == UNUSABLE
    assert cited(f"Anna{' ' * 100_000}[2]") == (2,)
    assert time.perf_counter() - began < 2
