"""Whatever users store and ask: the block stays a block, the query a bounded text, the choice a subset."""

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN, strip_block
from semrouter_memory.language.third_person import to_third_person
from semrouter_memory.model import Hit, Memory, MemoryType, Message, RecallOptions, RenderStyle, Role, Scope, Signals
from semrouter_memory.recall.query import Query, decide
from semrouter_memory.recall.render import frame, line, render
from semrouter_memory.recall.selection import Budget, choose
from semrouter_memory.recall.strategy import best_first

NOW = datetime(2026, 3, 20, tzinfo=UTC)
_HOSTILE = (
    BLOCK_OPEN,
    BLOCK_CLOSE,
    "<!--",
    "-->",
    "<",
    "!--",
    "--",
    ">",
    "\n",
    "\r",
    "\u2028",
    "\x00",
    "\u200b",
    "```",
)
_MORE = ("# ", "</memories>", "</memory>", '"', "&", "我的", "I'm", "my", "User's", "\ud800", " ", "<|im_end|>", "1. ")

texts = st.lists(st.one_of(st.sampled_from(_HOSTILE + _MORE), st.text(max_size=8))).map("".join)
relevances = st.floats(-1, 1, allow_nan=False)
styles: st.SearchStrategy[RenderStyle] = st.sampled_from(["markdown", "xml"])


def hit(content: str, relevance: float = 0.8, memory_id: str = "m") -> Hit:
    memory = Memory(
        id=memory_id,
        scope=Scope("alice"),
        type=MemoryType.SEMANTIC,
        content=content,
        source="api",
        observed_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    return Hit(memory, relevance, relevance)


hits = st.lists(st.builds(hit, texts, relevances, texts), min_size=1, max_size=6)


@given(hits, styles)
def test_no_memory_leaves_its_line_or_ends_the_block(found: list[Hit], style: RenderStyle) -> None:
    block = render(found, style)

    assert block.startswith(BLOCK_OPEN)
    assert block.endswith(BLOCK_CLOSE)
    assert (block.count("<!--"), block.count("-->")) == (2, 2)
    assert len(block.splitlines()) == len(frame(style).splitlines()) + len(found)
    block.encode()


@given(hits, styles, st.sampled_from(["", "system prompt"]))
def test_the_block_can_be_stripped_whole(found: list[Hit], style: RenderStyle, before: str) -> None:
    separator = "\n\n" if before else ""

    assert strip_block(before + separator + render(found, style)) == before


_CONTROL_TOKENS = (
    "<s>",
    "</s>",
    "<bos>",
    "<pad>",
    "<|im_start|>",
    "<|end_header_id|>",
    "<|start|>",
    "<\uff5cUser\uff5c>",
    "<\uff5ctool\u2581calls\u2581begin\uff5c>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<think>",
    "</think>",
    "<tool_call>",
    '<function_call name="x">',
    "<function=run>",
    "<reserved_106>",
    "<0x0A>",
    "<<SYS>>",
    "<</SYS>>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[gMASK]",
    "[UNUSED_TOKEN_146]",
    "[|system|]",
    "<!--",
    "-->",
)


def _normalised(text: str) -> str:
    """What a tokenizer may make of it."""
    look_alikes = str.maketrans("\u2039\u203a\u3008\u3009\u2329\u232a\u27e8\u27e9\u276e\u276f\u1438\u1433", "<>" * 6)
    return unicodedata.normalize("NFKC", text.translate(look_alikes)).lower()


_LOOKS: tuple[Callable[[str], str], ...] = (
    str,
    str.lower,
    lambda token: token.translate({ord(char): ord(char) + 0xFEE0 for char in "<>[]/|!"}),
    lambda token: token.translate(str.maketrans("<>", "\u2039\u203a")),
    "\u200b".join,
)
control_tokens = st.builds(lambda token, look: look(token), st.sampled_from(_CONTROL_TOKENS), st.sampled_from(_LOOKS))


@given(
    st.lists(st.one_of(control_tokens, st.sampled_from(["a", "1", " ", "<", "[", ">", "]", "-"])), min_size=1), styles
)
def test_no_control_token_of_a_chat_template_survives(pieces: list[str], style: RenderStyle) -> None:
    content = "".join(pieces)
    given_to_model = (
        line(hit(content), style).removeprefix('<memory id="m" category="semantic">').removesuffix("</memory>")
    )

    normalised = _normalised(given_to_model)
    assert [token for token in _CONTROL_TOKENS if _normalised(token) in normalised] == []


@given(hits)
def test_an_xml_block_has_as_many_elements_as_memories(found: list[Hit]) -> None:
    block = render(found, "xml")

    assert block.count("<memory ") == block.count("</memory>") == len(found)
    assert block.count("<memories>") == block.count("</memories>") == 1


@given(texts, st.lists(st.builds(Message, st.sampled_from(Role), texts), max_size=5), st.integers(1, 50))
def test_the_query_is_bounded_and_on_one_line(query: str, history: list[Message], max_chars: int) -> None:
    searched = Query(text=query, history=history, now=NOW, max_chars=max_chars).search_words

    assert len(searched) <= max_chars
    assert len(searched.splitlines()) <= 1


@given(texts)
def test_the_memories_voice_is_reached_in_one_step(query: str) -> None:
    """Asking twice in the memory's voice changes nothing more, and any text can be decided about."""
    voiced = to_third_person(query)

    assert to_third_person(voiced) == voiced
    decide(Query(text=query, now=NOW, max_chars=100), Signals(is_fact=True))


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
@given(
    found=hits,
    visible=st.lists(texts, max_size=3),
    threshold=relevances,
    budget=st.integers(0, 100),
    pinned_budget=st.integers(0, 50),
    pinned=st.frozensets(texts, max_size=3),
)
def test_the_choice_is_an_ordered_bounded_subset(
    limit: int,
    found: list[Hit],
    visible: list[str],
    threshold: float,
    budget: int,
    pinned_budget: int,
    pinned: frozenset[str],
) -> None:
    """And what does not reach the threshold is there only when it is pinned, within a budget of its own."""
    chosen = choose(
        best_first(found),
        RecallOptions(limit=limit, threshold=threshold),
        visible=visible,
        cost=lambda one: len(one.memory.content),
        budget=Budget(tokens=budget, pinned_tokens=pinned_budget),
        pinned=pinned,
    )

    below = [one for one in chosen if one.relevance < threshold]
    assert len(chosen) <= limit
    assert all(one in found for one in chosen)
    assert all(one.memory.id in pinned for one in below)
    assert [one.relevance for one in chosen] == sorted((one.relevance for one in chosen), reverse=True)
    assert sum(len(one.memory.content) for one in chosen) <= budget
    assert sum(len(one.memory.content) for one in below) <= pinned_budget
