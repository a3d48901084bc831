"""The optional rewrite of a query by a model."""

import pytest

from semrouter_memory.model import Message, Role
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.rewrite import Mode, prompt, usable, wants_answer, wants_rewrite
from tests.memories import NOW

HISTORY = (Message(Role.USER, "Planning Hawaii vacation"), Message(Role.ASSISTANT, "Nice!"))


@pytest.mark.parametrize(
    ("mode", "query", "history", "wanted"),
    [
        ("vague", "How much?", HISTORY, True),
        ("vague", "How much?", (), False),
        ("vague", "What's my budget for the Hawaii trip?", HISTORY, False),
        ("always", "What's my budget for the Hawaii trip?", HISTORY, True),
        ("always", "How much?", (), False),
        ("hyde", "What's my budget for the Hawaii trip?", (), False),
        ("hyde", "How much?", HISTORY, False),
    ],
)
def test_a_better_query_is_asked_for_beside_the_search_and_a_likely_answer_is_not(
    mode: Mode, query: str, history: tuple[Message, ...], wanted: bool
) -> None:
    assert wants_rewrite(Query(text=query, history=history, now=NOW, max_chars=4_000), mode) is wanted


@pytest.mark.parametrize(
    ("mode", "query", "best", "wanted"),
    [
        ("hyde", "What's my budget?", 0.59, True),
        ("hyde", "What's my budget?", -1.0, True),
        ("hyde", "What's my budget?", 0.6, False),
        ("hyde", "My budget is $10,000.", 0.1, False),
        ("hyde", "I forgot the gate number. Do you know it? Thanks", 0.1, True),
        ("hyde", "what size are my shoes", 0.1, True),
        ("hyde", "我的护照什么时候到期", 0.1, True),
        ("hyde", "谢谢！", 0.1, False),
        ("vague", "How much?", 0.1, False),
        ("always", "What's my budget?", 0.1, False),
    ],
)
def test_a_likely_answer_is_asked_for_when_a_question_found_nothing_above_the_threshold(
    mode: Mode, query: str, best: float, wanted: bool
) -> None:
    assert wants_answer(query, mode, best=best, threshold=0.6) is wanted


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("What is my budget for the Hawaii vacation?", "What is my budget for the Hawaii vacation?"),
        ('"What is my budget for Hawaii?"\n', "What is my budget for Hawaii?"),
        ("Rewritten query: my Hawaii budget", "my Hawaii budget"),
        ("<think>vacation, hmm\nbudget</think>\n\nmy Hawaii budget", "my Hawaii budget"),
        ("夏威夷 vacation 的预算", "夏威夷 vacation 的预算"),
    ],
)
def test_one_line_about_the_conversation_is_usable(answer: str, text: str) -> None:
    assert usable(answer, "How much?", HISTORY) == text


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "  \n ",
        "<think>Hawaii Hawaii Hawaii",
        "my Hawaii budget\nThat is what they mean.",
        "I'm sorry, I cannot help with your Hawaii vacation.",
        "抱歉，Hawaii",
        "The weather in Paris is lovely",
        "Hawaii " * 100,
        "我的预算是多少",
    ],
)
def test_anything_else_is_dropped(answer: str) -> None:
    assert usable(answer, "How much?", HISTORY) == ""


def test_a_chinese_rewrite_shares_a_pair_of_characters_with_what_was_said() -> None:
    history = (Message(Role.USER, "暑假想去青岛玩"),)

    assert usable("我去青岛旅行的预算是多少", "多少钱？", history)
    assert not usable("我的狗叫什么名字", "多少钱？", history)


def test_an_answer_need_not_have_the_words_in_the_questions_form() -> None:
    assert usable("User lives in Bergen", "Where do I live?", ())
    assert usable("User parked the car on level 2", "where did I park", ())
    assert not usable("User collects stamps", "Where do I live?", ())


def test_the_prompt_holds_the_conversation_bounded_and_on_single_lines() -> None:
    history = [Message(Role.USER, f"message {at}\n" + "x" * 10_000) for at in range(20)]

    instructions, conversation = prompt("How\nmuch?", [*history, *HISTORY], "vague")

    assert instructions.role == "system"
    assert "message 15" not in conversation.content
    assert "user: message 16 " in conversation.content
    assert conversation.content.endswith("assistant: Nice!\nLast message of the user: How much?")
    assert len(conversation.content) < 4_000


def test_hyde_asks_for_the_answer_instead() -> None:
    (rewritten, asked), (answered, same) = (prompt("How much?", HISTORY, mode) for mode in ("always", "hyde"))

    assert rewritten != answered
    assert asked == same
