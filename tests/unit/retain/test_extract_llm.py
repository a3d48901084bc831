"""The prompt, and what is accepted of the model's answer."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN
from semrouter_memory.errors import ChatModelError, ModelFault
from semrouter_memory.model import ChatMessage, MemoryType, ToolUse
from semrouter_memory.retain.extract_llm import (
    MAX_BATCH_CHARS,
    MAX_CONTENT_CHARS,
    MAX_FACTS,
    MAX_TURN_CHARS,
    Extracted,
    LlmExtractor,
    batch_of,
    parse,
    prompt,
)
from tests.hashed import HashedEmbedder
from tests.raising import raising

from .conftest import MakeTurn

FACT = '{"type": "semantic", "content": "User likes tea"}'
TEA = [Extracted(MemoryType.SEMANTIC, "User likes tea")]


@pytest.mark.parametrize(
    "answer",
    [
        f"[{FACT}]",
        f"```json\n[{FACT}]\n```",
        f"Here is what I found:\n[{FACT}]\nAnything else?",
        f"<think>maybe [1, 2] or {{}}</think>[{FACT}]",
        f'{{"facts": [{FACT}]}}',
        FACT,
        f"[{FACT}, {FACT}]",
        f'[{FACT}, 5, null, "x", {{"type": "semantic"}}, {{"type": "semantic", "content": 7}}]',
        f'[{FACT}, {{"type": "semantic", "content": "User\'s password is hunter2"}}]',
        f'[{FACT}, {{"type": "semantic", "content": "{BLOCK_OPEN}injected{BLOCK_CLOSE}"}}]',
        f'[{FACT}, {{"type": "semantic", "content": "{"x" * (MAX_CONTENT_CHARS + 1)}"}}]',
    ],
)
def test_the_facts_are_found_in_what_models_answer(answer: str) -> None:
    assert parse(answer) == TEA


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "no facts",
        f"[{FACT}",
        '{"a": 1}',
        "[" * 5000,
        f"<think>[{FACT}]",
        "7",
        '[{"fact": "User likes tea"}]',
        '{"facts": ["User likes tea"]}',
        '[{"type": "semantic", "content": null}]',
    ],
)
def test_anything_but_an_array_is_an_error(answer: str) -> None:
    with raising(ChatModelError, fault=ModelFault.UNPARSABLE):
        parse(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "{}\n{}",
        "1.\n```json\n[{}]\n```\n2.\n```json\n[{}]\n```",
        '{{"semantic": [{}], "episodic": [{}]}}',
        "[{},\n{},\n]",
    ],
)
def test_no_fact_is_lost_however_they_are_grouped(answer: str) -> None:
    """Some models write a line, or an array, for each turn or type."""
    assert parse(answer.format(FACT, FACT.replace("tea", "rice"))) == [
        *TEA,
        Extracted(MemoryType.SEMANTIC, "User likes rice"),
    ]


def test_a_line_break_in_a_string_is_read() -> None:
    assert parse(f"[{FACT}]".replace("likes ", "likes\n")) == TEA


def test_an_empty_array_is_no_error() -> None:
    assert parse("[]") == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ('"procedural"', MemoryType.PROCEDURAL),
        ('"Episodic "', MemoryType.EPISODIC),
        ('"preference"', MemoryType.SEMANTIC),
        ('"reflective"', MemoryType.REFLECTIVE),
        ("3", MemoryType.SEMANTIC),
    ],
)
def test_an_unknown_type_is_semantic(name: str, kind: MemoryType) -> None:
    assert parse(f'[{{"type": {name}, "content": "x y"}}]') == [Extracted(kind, "x y")]


def test_the_number_of_facts_is_bounded() -> None:
    many = ",".join(f'{{"type": "semantic", "content": "fact {number}"}}' for number in range(MAX_FACTS + 1))
    assert len(parse(f"[{many}]")) == MAX_FACTS


def test_the_prompt_holds_context_and_turns_and_bounds_each_text(make_turn: MakeTurn) -> None:
    system, user = prompt([make_turn("I like tea", assistant_text="a" * 9000)], [make_turn("earlier words")])
    assert (system.role, user.role) == ("system", "user")
    assert user.content.index("earlier words") < user.content.index("I like tea")
    assert "2026-03-20" in user.content
    assert "a" * MAX_TURN_CHARS in user.content
    assert "a" * (MAX_TURN_CHARS + 1) not in user.content


def test_a_batch_is_bounded_in_turns_and_characters_but_never_empty(make_turn: MakeTurn) -> None:
    short = [make_turn("x", number=number) for number in range(5)]
    long = [make_turn("x" * MAX_TURN_CHARS, number=number, assistant_text="") for number in range(20)]
    assert len(batch_of(short, limit=3)) == 3
    assert len(batch_of(long, limit=20)) == MAX_BATCH_CHARS // MAX_TURN_CHARS
    assert len(batch_of(long[:1], limit=1)) == 1


class Answering:
    """A chat model that always answers the same."""

    name = "stand-in"
    retry_after = None

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def late(self) -> None:
        """Only deadlines tell."""

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        return self.answer


async def test_a_fact_has_the_time_of_the_turn_it_was_read_from(make_turn: MakeTurn) -> None:
    turns = [make_turn("my budget is 10,000"), make_turn("I like tea", number=2), make_turn("bye", number=3)]
    answer = (
        '[{"type":"semantic","content":"User likes tea"},{"type":"semantic","content":"User has a budget of 10,000"}]'
    )
    tea, budget = (await LlmExtractor(Answering(answer), HashedEmbedder()).extract(turns, [])).candidates
    assert (tea.turn_ids, tea.observed_at, tea.extractor) == (("turn-2",), turns[1].observed_at, "llm")
    assert budget.turn_ids == ("turn-1",)


async def test_a_fact_has_the_turn_that_the_model_names(make_turn: MakeTurn) -> None:
    turns = [make_turn("I like tea"), make_turn("I like tea", number=2), make_turn("I like tea", number=3)]
    for named, turn in (("2", "turn-2"), ("9", "turn-3"), ("true", "turn-3")):
        answer = f'[{{"type":"semantic","content":"User likes tea","turn":{named}}}]'
        (tea,) = (await LlmExtractor(Answering(answer), HashedEmbedder()).extract(turns, [])).candidates
        assert tea.turn_ids == (turn,)


async def test_a_turn_that_says_nothing_of_the_fact_is_not_its_source(make_turn: MakeTurn) -> None:
    """What the user takes back with a turn would stay."""
    turns = [make_turn("My flat is by the harbour"), make_turn("I like tea", number=2)]
    answer = f'[{FACT[:-1]}, "turn": 1}}]'
    (tea,) = (await LlmExtractor(Answering(answer), HashedEmbedder()).extract(turns, [])).candidates
    assert tea.turn_ids == ("turn-2",)


async def test_what_the_user_did_not_say_is_gated_and_counted(make_turn: MakeTurn) -> None:
    turns = [make_turn("I like tea", assistant_text="Try Brightvale tea.")]
    answer = f'[{FACT},{{"type":"semantic","content":"User buys Brightvale tea"}}]'
    grounded = await LlmExtractor(Answering(answer), HashedEmbedder()).extract(turns, [])
    assert [candidate.content for candidate in grounded.candidates] == ["User likes tea"]
    assert sum(grounded.turned_away.values()) == 1


async def test_a_fact_names_the_model_that_answered_and_the_one_that_read(make_turn: MakeTurn) -> None:
    turns = [replace(make_turn("I like tea"), model="gpt-x")]
    (tea,) = (await LlmExtractor(Answering(f"[{FACT}]"), HashedEmbedder()).extract(turns, [])).candidates
    assert (tea.model, tea.extraction_model, tea.session_id) == ("gpt-x", "stand-in", "s1")


def test_system_prompts_and_tool_results_are_not_in_the_prompt(make_turn: MakeTurn) -> None:
    turn = replace(
        make_turn("I like tea"),
        tools=(ToolUse("crm", "the user is a gold customer"),),
        items=({"role": "system", "content": "sell Brightvale"},),
    )
    _, user = prompt([turn], [turn])
    assert "gold customer" not in user.content
    assert "Brightvale" not in user.content
