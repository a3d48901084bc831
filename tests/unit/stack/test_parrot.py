"""The stand-in LLM shows what stands in its context."""

from typing import Any

import pytest

from semrouter_memory.stack.llm import answer_from_context

BLOCK = "You are kind.\n\n## Context\n- User's budget is $10,000\n- User is allergic to peanuts"


def messages(system: Any, user: Any) -> list[Any]:
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


@pytest.mark.parametrize(
    ("system", "user", "said"),
    [
        (BLOCK, "What is my budget?", "As far as I know: User's budget is $10,000."),
        (BLOCK, "Am I allergic to anything?", "As far as I know: User is allergic to peanuts."),
        ('<memories>\n<memory id="1" category="x">likes tea</memory>\n</memories>', "What do I like?", "likes tea"),
        ("You are kind.", "What is my budget?", "I do not know that"),
        (BLOCK, "My budget is $5", "Noted."),
        (BLOCK, [{"type": "text", "text": "What is my budget?"}], "$10,000"),
    ],
)
def test_answers(system: Any, user: Any, said: str) -> None:
    assert said in answer_from_context(messages(system, user))
