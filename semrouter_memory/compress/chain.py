"""A stored chain as the items that a request can be rebuilt from. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import orjson

from semrouter_memory.codec.responses import holds_more_than_text, is_context
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
        lasting = [item for turn in self.answered[:cut] for item in turn.items or () if is_context(item)]
        return (*lasting, *(item for turn in (*self.answered[cut:], *self.under_way) for item in turn.items or ()))

    def safe_cut(self, cut: int, answers_calls: Collection[str]) -> int:
        """The latest cut up to this one that no tool's call and its result stand on either side of.

        Before it is also no turn with what no text can stand for: an image, a file.

        Args:
            answers_calls: calls that the request itself answers.
        """
        turns = (*self.answered, *self.under_way)
        called: dict[str, int] = {}
        reach = [0] * len(turns)
        for at, turn in enumerate(turns):
            for item in turn.items or ():
                for name in _answered(item):
                    if name in called:
                        reach[called[name]] = max(reach[called[name]], at)
                called.update((name, at) for name in _called(item))
        for name in answers_calls:
            if name in called:
                reach[called[name]] = len(turns)
        safe = 0
        for at, (turn, furthest) in enumerate(zip(turns[: max(cut, 0)], accumulate(reach, max), strict=False)):
            if any(holds_more_than_text(item) for item in turn.items or ()):
                break
            if furthest <= at:
                safe = at + 1
        return safe


def is_too_long(items: Sequence[Json]) -> bool:
    """Whether a request of these items would be larger than is reasonable to keep or to send."""
    size = 0
    for item in items:
        size += len(orjson.dumps(item))
        if size > MAX_CHAIN_BYTES:
            return True
    return False


def _called(item: Json) -> Iterator[str]:
    """Ids of calls, and of what a user is asked to approve."""
    if isinstance(item, dict) and not _is_answer(item):
        for name in (item.get("call_id"), item.get("id") if item.get("type") == "mcp_approval_request" else None):
            if isinstance(name, str):
                yield name


def _answered(item: Json) -> Iterator[str]:
    if isinstance(item, dict) and _is_answer(item):
        for name in (item.get("call_id"), item.get("approval_request_id")):
            if isinstance(name, str):
                yield name


def _is_answer(item: dict[str, Json]) -> bool:
    return str(item.get("type")).endswith("_output") or item.get("type") == "mcp_approval_response"
