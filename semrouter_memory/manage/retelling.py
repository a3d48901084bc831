"""Which turns say again what a memory says, though it was not learned from them.

An answer repeats what was recalled for it, and the turn log keeps answers for a while. Strategy: a turn that has nearly
all words of the statement tells it, whoever says them and in whatever order; words are compared by their beginnings.
"""

from collections.abc import Collection, Sequence

from semrouter_memory.model import LoggedTurn, Memory, Scope
from semrouter_memory.ports import TurnRecords
from semrouter_memory.recall.words import content_words

_PAGE = 200
_TOLD = 0.75
"""Share of a statement's words that tell it."""
_STEM = 5
_MIN_STEM = 3
_ENDING = 2
"""Letters in which forms of a word differ."""


async def retelling_turns(records: TurnRecords, scope: Scope, memories: Collection[Memory]) -> list[str]:
    """The ids of this user's turns that tell any of the memories, in whatever project."""
    statements = [stems for memory in memories if (stems := _stems(memory.content))]
    found: list[str] = []
    before = 0
    while statements:
        page = await records.list_turns(scope=Scope(scope.user_id), states=None, limit=_PAGE, before=before)
        found += [turn.id for turn in page if any(_tells(turn, stems) for stems in statements)]
        if len(page) < _PAGE:
            break
        before = page[-1].sequence
    return found


def _stems(content: str) -> Sequence[str]:
    return [
        word if word[0].isdigit() else word[: max(_MIN_STEM, min(_STEM, len(word) - _ENDING))]
        for word in content_words(content)
    ]


def _tells(turn: LoggedTurn, stems: Sequence[str]) -> bool:
    said = f"{turn.user_text}\n{turn.assistant_text}".lower()
    return sum(stem in said for stem in stems) >= _TOLD * len(stems)
