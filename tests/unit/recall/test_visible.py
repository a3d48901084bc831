"""Memories that the request shows anyway."""

import pytest

from semrouter_memory.recall import visible
from semrouter_memory.recall.visible import VisibleTexts

BUDGET = "User's budget for the Hawaii trip is $10,000"


@pytest.mark.parametrize(
    "text",
    [
        BUDGET,
        f"Known facts:\n- {BUDGET}.\n- other",
        "USER'S BUDGET   for the\nHawaii trip is $10,000!",
        "My budget for the Hawaii trip is $10,000, by the way",
        "…" * 5_000 + BUDGET + "…" * 5_000,
    ],
)
def test_a_statement_is_found_whatever_surrounds_it(text: str) -> None:
    assert VisibleTexts(["something else", text]).contain(BUDGET)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("User lives in Berlin", "I live in Berlin now"),
        ("User likes tea", "Do I like tea? I like tea."),
        ("User is allergic to peanuts", "remember that I'm allergic to peanuts"),
        ("User has a dog called Rex", "I have a dog called Rex"),
        ("用户住在上海闵行区", "你好，我住在上海闵行区。"),
        ("用户的预算是一万元", "我的预算是一万元"),
    ],
)
def test_what_the_user_says_in_the_first_person_is_the_same_statement(content: str, text: str) -> None:
    assert VisibleTexts([text]).contain(content)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (BUDGET, "My budget for the Hawaii trip is $15,000"),
        (BUDGET, "What's my budget for the Hawaii trip?"),
        ("User likes tea", "User likes teapots"),
        ("User likes tea", "my wife likes tea"),
        ("User likes tea", "Do I like tea?"),
        ("User lives in Berlin", "Tell me whether I live in Berlin."),
        (BUDGET, ""),
        ("User", "user"),
        ("!!!", "!!!"),
        ("", "text"),
    ],
)
def test_another_statement_is_not_taken_for_it(content: str, text: str) -> None:
    assert not VisibleTexts([text]).contain(content)


def test_only_the_latest_part_of_a_huge_request_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible, "MAX_SCANNED_CHARS", 100)

    assert not VisibleTexts([BUDGET, "x" * 100]).contain(BUDGET)
    assert not VisibleTexts([f"{BUDGET} {'x' * 100}"]).contain(BUDGET)
    assert VisibleTexts([BUDGET, "x" * 50]).contain(BUDGET)


def test_the_search_for_occurrences_is_bounded() -> None:
    """A text full of the anchor word costs no more than a few comparisons; what lies behind them is not found."""
    assert not VisibleTexts(["budget " * 10_000 + "User's budget is 5"]).contain("User's budget is 5")


def test_the_comparisons_are_bounded_however_many_texts_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long conversation about the memory, in other words: each comparison holds up all other requests."""
    compared: list[str] = []
    normalised = visible._normalised

    def counted(text: str) -> str:
        compared.append(text)
        return normalised(text)

    monkeypatch.setattr(visible, "_normalised", counted)
    texts = [f"Berlin is where we live, as I said in message {number}" for number in range(1_000)]

    assert not VisibleTexts(texts).contain("User lives in Berlin")
    assert len(compared) <= 100
    assert VisibleTexts([*texts, "I live in Berlin"]).contain("User lives in Berlin")
