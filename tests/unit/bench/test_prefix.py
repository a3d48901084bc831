"""How much of a prompt a cache would have had follows from the prompts alone."""

import pytest

from semrouter_memory.bench.prefix import compared, rendered
from semrouter_memory.codec.base import BLOCK_OPEN


def test_a_conversation_that_only_grows_keeps_all_of_each_prompt() -> None:
    figures = compared(["aaaa", "aaaabbbb", "aaaabbbbcccc"])

    assert figures.kept == pytest.approx(1.0)
    assert figures.cached == pytest.approx((4 + 8) / (8 + 12))


def test_what_changes_at_the_start_leaves_nothing_to_a_cache() -> None:
    figures = compared(["xaaaa", "yaaaabbbb"])

    assert (figures.kept, figures.cached) == (0.0, 0.0)


def test_turns_with_memories_are_counted() -> None:
    assert compared(["a", f"a{BLOCK_OPEN}", "a"]).with_memory == 1


def test_instructions_come_first_and_both_apis_render_alike() -> None:
    said = [{"role": "user", "content": "Hello"}]
    chat = {"messages": [{"role": "system", "content": "Be brief."}, *said]}
    parts = [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}]

    assert rendered(chat) == rendered({"instructions": "Be brief.", "input": parts})
    assert rendered(chat).startswith("<system>\nBe brief.\n")
