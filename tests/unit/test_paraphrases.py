"""Which turns say again what a memory says."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest

from semrouter_memory import lineage
from semrouter_memory.language.words import Stem
from semrouter_memory.lineage import Paraphrases, find_paraphrases
from semrouter_memory.model import LoggedTurn, Memory, MemoryType, Scope, TurnState
from semrouter_memory.ports import TurnLog

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
ALICE = Scope("alice")


class Records:
    """Pages as the log gives them, newest first."""

    def __init__(self, turns: Sequence[LoggedTurn]) -> None:
        self.turns = sorted(turns, key=lambda turn: -turn.sequence)

    async def list_turns(
        self, *, scope: Scope | None, states: frozenset[TurnState] | None, limit: int, before: int = 0
    ) -> list[LoggedTurn]:
        assert (scope, states) == (ALICE, None)
        return [turn for turn in self.turns if not before or turn.sequence < before][:limit]


def turn(sequence: int, user_text: str, assistant_text: str = "Noted.") -> LoggedTurn:
    return LoggedTurn(
        id=f"turn_{sequence}",
        sequence=sequence,
        scope=ALICE,
        session_id="s",
        user_text=user_text,
        assistant_text=assistant_text,
        observed_at=NOW,
    )


async def telling(content: str, *turns: LoggedTurn) -> Paraphrases:
    memory = Memory(
        id="m",
        scope=Scope("alice", "apollo"),
        type=MemoryType.SEMANTIC,
        content=content,
        source="conversation",
        observed_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    return await find_paraphrases(cast(TurnLog, Records(turns)), memory.scope, [memory])


@pytest.mark.parametrize(
    ("content", "asked", "answered"),
    [
        ("User's budget for the Hawaii trip is $10,000", "What's my budget for Hawaii?", "$10,000 for the trip."),
        ("User's budget for the Hawaii trip is $10,000", "How much for Hawaii?", "Your budget is $10,000."),
        ("User works at Acme", "Where do I work?", "You work at Acme."),
        ("User is allergic to shellfish", "What can I eat?", "No shellfish, because of your allergy."),
        ("用户住在上海浦东", "我住在哪里？", "你住在上海浦东。"),
    ],
)
async def test_a_turn_with_the_words_of_a_statement_tells_it(content: str, asked: str, answered: str) -> None:
    assert (await telling(content, turn(1, asked, answered))).turn_ids == ("turn_1",)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("What's my budget for the trip?", "I do not know that."),
        ("I live in Bergen", "A nice town."),
        ("Is Hawaii warm in May?", "Yes, and the trip is long."),
    ],
)
async def test_a_turn_about_something_else_stays(asked: str, answered: str) -> None:
    assert (await telling("User's budget for the Hawaii trip is $10,000", turn(1, asked, answered))).turn_ids == ()


@pytest.mark.parametrize(
    ("content", "said", "tells"),
    [
        ("I have a cat", "My vacation in Portugal begins on 3 June", False),
        ("I like red", "I preferred the course in Leeds, and shared a flat", False),
        ("User is 35", "My rent is 350, not 1.35", False),
        ("I have a cat", "Both of my cats are old", True),
        ("User is 35", "I turned 35, at last", True),
        ("User has a cat", "我有cat", True),
    ],
)
async def test_words_are_told_by_their_beginnings_and_numbers_whole(content: str, said: str, tells: bool) -> None:
    assert (await telling(content, turn(1, said))).turn_ids == (("turn_1",) if tells else ())


async def test_every_turn_of_a_long_log_is_looked_at() -> None:
    turns = [turn(number, "I live in Bergen" if number % 150 == 0 else "Hm") for number in range(1, 451)]
    assert (await telling("User lives in Bergen", *turns)).turn_ids == ("turn_450", "turn_300", "turn_150")


async def test_turns_are_read_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of long turns takes a tenth of a second and more."""
    read_in: list[int] = []
    repeating = lineage._repeating

    def recorded(turns: Sequence[LoggedTurn], statements: Sequence[Sequence[Stem]]) -> list[str]:
        read_in.append(threading.get_ident())
        return repeating(turns, statements)

    monkeypatch.setattr(lineage, "_repeating", recorded)
    assert (await telling("User lives in Bergen", turn(1, "I live in Bergen"))).turn_ids == ("turn_1",)
    assert len(read_in) == 1
    assert threading.get_ident() not in read_in


async def test_a_statement_without_words_is_told_by_nobody() -> None:
    assert (await telling("User is", turn(1, "Hm"))).turn_ids == ()


async def test_every_project_with_turns_is_named_whatever_they_tell() -> None:
    """State of a conversation there may hold what its turns do not say in these words."""
    turns = [turn(1, "Hm"), replace(turn(2, "Hm"), scope=Scope("alice", "apollo"))]
    assert (await telling("User is", *turns)).project_ids == {"", "apollo"}
