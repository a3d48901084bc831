"""Which turns say again what a memory says, though it was not learned from them.

An answer repeats what was recalled for it, and the turn log keeps answers for a while. Strategy: a turn that has nearly
all words of the statement tells it, whoever says them and in whatever order; words are compared by their beginnings.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from semrouter_memory.language.words import content_words
from semrouter_memory.model import LoggedTurn, Memory, Scope
from semrouter_memory.ports import TurnRecords

_PAGE = 200
_TOLD = 0.75
"""Share of a statement's words that tell it."""
_STEM = 5
_MIN_STEM = 3
_ENDING = 2
"""Letters in which forms of a word differ."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a user's turns tell of memories.

    Attributes:
        turn_ids: of those that tell any of them.
        project_ids: in which the user has turns at all.
    """

    turn_ids: tuple[str, ...] = ()
    project_ids: frozenset[str] = frozenset()


async def told(records: TurnRecords, scope: Scope, memories: Collection[Memory]) -> Told:
    """Look through all turns of this user, in whatever project."""
    statements = [stems for memory in memories if (stems := _stems(memory.content))]
    turn_ids: list[str] = []
    project_ids: set[str] = set()
    before = 0
    while True:
        page = await records.list_turns(scope=Scope(scope.user_id), states=None, limit=_PAGE, before=before)
        turn_ids += [turn.id for turn in page if any(_tells(turn, stems) for stems in statements)]
        project_ids.update(turn.scope.project_id for turn in page)
        if len(page) < _PAGE:
            return Told(tuple(turn_ids), frozenset(project_ids))
        before = page[-1].sequence


def _stems(content: str) -> Sequence[str]:
    return [
        word if word[0].isdigit() else word[: max(_MIN_STEM, min(_STEM, len(word) - _ENDING))]
        for word in content_words(content)
    ]


def _tells(turn: LoggedTurn, stems: Sequence[str]) -> bool:
    said = f"{turn.user_text}\n{turn.assistant_text}".lower()
    return sum(stem in said for stem in stems) >= _TOLD * len(stems)
