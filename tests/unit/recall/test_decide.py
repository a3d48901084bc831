"""When a search of the memory is worth it."""

import pytest

from semrouter_memory.model import Reason, Signals
from semrouter_memory.recall import query as queries
from semrouter_memory.recall.query import Query
from tests.memories import NOW

FACT = Signals(is_fact=True)
TOOL = Signals(requires_tool=True)
BOTH = Signals(is_fact=True, requires_tool=True)
NONE = Signals()


def decide(query: str, signals: Signals, *, any_message: bool = False) -> Reason | None:
    return queries.decide(Query(text=query, now=NOW, max_chars=4_000), signals, any_message=any_message)


@pytest.mark.parametrize(
    ("query", "signals", "reason"),
    [
        ("What is the capital of France?", FACT, Reason.FACT),
        ("What is the capital of France?", NONE, None),
        ("What's my budget?", FACT, None),
        ("我的预算是多少？", FACT, None),
        ("我国的首都是哪里？", FACT, Reason.FACT),
        ("Who won World War I?", FACT, Reason.FACT),
        ("Which is the largest of the US states?", FACT, Reason.FACT),
        ("What's the weather in Berlin?", TOOL, Reason.TOOL),
        ("What's the weather where I live?", TOOL, Reason.TOOL),
        ("What's the weather where I live?", BOTH, Reason.TOOL),
        ("What's the weather in Berlin?", BOTH, Reason.FACT),
        ("Hello!", NONE, Reason.GREETING),
        ("", NONE, Reason.NO_QUERY),
        (" \n\t", NONE, Reason.NO_QUERY),
        ("", FACT, Reason.FACT),
    ],
)
def test_the_first_reason_that_applies_is_given(query: str, signals: Signals, reason: Reason | None) -> None:
    assert decide(query, signals) is reason


@pytest.mark.parametrize(
    "query",
    [
        *(
            "hi",
            "Hi!",
            "HELLO...",
            "hey there",
            "Hi, hello",
            "good morning",
            "Good evening!",
            "ok",
            "Okay.",
            "yes",
            "no",
        ),
        *(
            "thanks",
            "Thank you!",
            "thanks a lot",
            "thank you so much!!",
            "bye bye",
            "see you later",
            "thx :)",
            "bye 👋",
            "no worries!",
            "How are you?",
        ),
        *(
            "你好",
            "您好！",
            "嗨～",
            "你好呀",
            "早上好。",
            "晚上好！",
            "谢谢",
            "谢谢您！",
            "謝謝",
            "好的",
            "好的，谢谢！",
            "再见",
        ),
        *("ｈｅｌｌｏ！", "　你好　", "👍", "..."),
    ],
)
def test_a_pure_greeting_is_not_searched_for(query: str) -> None:
    assert decide(query, NONE) is Reason.GREETING


@pytest.mark.parametrize(
    "query",
    [
        *(
            "Hi, what's my budget?",
            "hi my budget?",
            "how much?",
            "hippo",
            "okra",
            "thanksgiving plans",
            "no, the hotel",
        ),
        *("你好，我的预算？", "好吃吗", "对，生产", "谢谢，多少钱", "早餐吃什么", "我饿了", "那呢"),
        "hello hello hello hello",
    ],
)
def test_a_greeting_with_anything_else_or_a_long_one_is_searched_for(query: str) -> None:
    assert decide(query, NONE) is None


@pytest.mark.parametrize("query", ["", " \n", "Hi!", "my budget"])
def test_a_strategy_that_needs_no_query_searches_for_an_empty_one(query: str) -> None:
    assert decide(query, NONE, any_message=True) is None
    assert decide(query, TOOL, any_message=True) is Reason.TOOL
