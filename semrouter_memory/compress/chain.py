"""A stored chain as the items that a request can be rebuilt from. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import orjson

from semrouter_memory.codec.conversation import Entry, Kind, cuttable
from semrouter_memory.codec.responses import entries_of
from semrouter_memory.compress.record import trail_of
from semrouter_memory.model import (
    Json,
    LoggedTurn,
    StoredChain,
    TurnState,
    joined,
)

MAX_CHAIN_BYTES = 8 * 1024 * 1024
"""Of the items that a request is rebuilt from."""


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """The turns of a chain that has come to its beginning, or has not.

    Attributes:
        answered: the turns that ended with an answer, oldest first.
        under_way: those after them: steps of a tool loop.
    """

    answered: tuple[LoggedTurn, ...]
    under_way: tuple[LoggedTurn, ...]
    complete: bool

    @classmethod
    def of(cls, stored: StoredChain) -> "StoredConversation":
        turns = stored.turns
        end = max((at + 1 for at, turn in enumerate(turns) if turn.state is not TurnState.INCOMPLETE), default=0)
        known = bool(turns) and all(turn.items is not None for turn in turns)
        return cls(turns[:end], turns[end:], stored.complete and known)

    @property
    def sessions(self) -> list[str]:
        """The sessions that the chain runs through, each once."""
        return list(dict.fromkeys(turn.session_id for turn in (*self.answered, *self.under_way)))

    @property
    def texts(self) -> list[str]:
        """What was said in each answered turn."""
        return [joined((turn.user_text, turn.assistant_text)) for turn in self.answered]

    def trail_of(self, cut: int) -> str:
        """Names the first `cut` answered turns."""
        return trail_of(turn.id for turn in self.answered[:cut])

    def items_from(self, cut: int) -> tuple[Json, ...]:
        """The items without the first `cut` answered turns, but for what belongs to no turn (system messages)."""
        lasting = [item for turn in self.answered[:cut] for item in _lasting(turn.items or ())]
        return (*lasting, *(item for turn in (*self.answered[cut:], *self.under_way) for item in turn.items or ()))

    def safe_cut(self, cut: int, answers_calls: Collection[str]) -> int:
        """The latest cut up to this one that no tool's call and its result stand on either side of.

        Before it is also no turn with what no text can stand for: an image, a file.

        Args:
            answers_calls: calls that the request itself answers.
        """
        turns = (*self.answered, *self.under_way)
        read = [(entry, at) for at, turn in enumerate(turns) for entry in entries_of(turn.items or ())]
        read += [(Entry(Kind.RESULT, call_id=name), len(turns)) for name in answers_calls]
        entries, turn_of = zip(*read, strict=True) if read else ((), ())
        staying = min((at for entry, at in read if entry.lasting), default=len(turns))
        whole = cuttable(entries, turn_of, len(turns))[: max(min(cut, staying), 0)]
        return max((at + 1 for at, can_be_cut in enumerate(whole) if can_be_cut), default=0)


def is_too_long(items: Sequence[Json]) -> bool:
    """Whether a request of these items would be larger than is reasonable to keep or to send."""
    size = 0
    for item in items:
        size += len(orjson.dumps(item))
        if size > MAX_CHAIN_BYTES:
            return True
    return False


def _lasting(items: Sequence[Json]) -> Iterator[Json]:
    """Those that belong to no turn: system messages, and what is of no known kind."""
    places = {entry.place for entry in entries_of(items) if entry.kind is not Kind.CONTEXT}
    return (item for place, item in enumerate(items) if place not in places)
