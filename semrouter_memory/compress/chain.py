"""A stored chain as the items that a request can be rebuilt from. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from semrouter_memory.model import (
    Compression,
    CompressionReason,
    Json,
    LoggedTurn,
    StoredChain,
    TurnState,
    joined,
)


@dataclass(frozen=True, slots=True)
class Chain:
    """The turns of a chain that has come to its beginning, or has not.

    Attributes:
        answered: the turns that ended with an answer, oldest first.
        under_way: those after them: steps of a tool loop.
    """

    answered: tuple[LoggedTurn, ...]
    under_way: tuple[LoggedTurn, ...]
    complete: bool

    @classmethod
    def of(cls, stored: StoredChain) -> "Chain":
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

    def items_from(self, cut: int) -> tuple[Json, ...]:
        """The items without the first `cut` answered turns, but for the system and developer messages in them."""
        lasting = [item for turn in self.answered[:cut] for item in turn.items or () if _is_lasting(item)]
        return (*lasting, *(item for turn in (*self.answered[cut:], *self.under_way) for item in turn.items or ()))

    def safe_cut(self, cut: int, answers_calls: Collection[str]) -> int:
        """The latest cut up to this one that no tool's call and its result stand on either side of.

        Args:
            answers_calls: calls that the request itself answers.
        """
        later = {*answers_calls, *(name for item in self.items_from(cut) for name in _answered(item))}
        while cut > 0:
            turn = self.answered[cut - 1]
            if not any(name in later for earlier in self.answered[:cut] for name in _called(earlier.items or ())):
                return cut
            later.update(name for item in turn.items or () for name in _answered(item))
            cut -= 1
        return 0


def rebuilt(chain: Chain) -> Compression:
    """The whole history, from the log."""
    return Compression(reason=CompressionReason.REBUILT, items=chain.items_from(0), statements=tuple(chain.texts))


def _is_lasting(item: Json) -> bool:
    return isinstance(item, dict) and item.get("role") in ("system", "developer")


def _called(items: Sequence[Json]) -> Iterator[str]:
    """Ids of calls, and of what a user is asked to approve, whose results stand in none of these items."""
    answered = {name for item in items for name in _answered(item)}
    for item in items:
        if isinstance(item, dict) and not _is_answer(item):
            for name in (item.get("call_id"), item.get("id") if item.get("type") == "mcp_approval_request" else None):
                if isinstance(name, str) and name not in answered:
                    yield name


def _answered(item: Json) -> Iterator[str]:
    if isinstance(item, dict) and _is_answer(item):
        for name in (item.get("call_id"), item.get("approval_request_id")):
            if isinstance(name, str):
                yield name


def _is_answer(item: dict[str, Json]) -> bool:
    return str(item.get("type")).endswith("_output") or item.get("type") == "mcp_approval_response"
