"""What is stored of a conversation: its states, with their keys and the turns that they cover; and its chain of responses. Pure.

Strategy: a state may stand for a conversation's beginning only when it was made of exactly those turns. In a transcript
that is proved by its hash: a turn is added to the state whose transcript it continues, and the request must have as many
turns up to that hash as were added. In a stored chain it is proved by the turns' ids, hashed in their order. From a stored
chain a request can be rebuilt.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import orjson
from pydantic import TypeAdapter, ValidationError

from semrouter_memory.codec.base import continued_hash
from semrouter_memory.codec.conversation import Entry, Kind, cuttable
from semrouter_memory.codec.responses import entries_of
from semrouter_memory.compress.state import ConversationState
from semrouter_memory.model import (
    Json,
    LoggedTurn,
    Message,
    Role,
    StoredChain,
    TurnState,
    joined,
)

MAX_STATES = 8
"""Predecessors stored of a session: a retry, an edited message, a quick next turn still find theirs."""
LOOK_BACK = 16
"""How many turns a state may be behind a request's history."""
_MAX_HASHES = 8
RECENT = 100
"""Turns of a conversation whose names are stored."""
_NAME_CHARS = 16
_MAX_BREAKS = 6
"""Line breaks of a turn's text that are tried as the ends of messages."""
_PREFIX = "compress"


@dataclass(frozen=True, slots=True)
class Covered:
    """A state and what it covers.

    Attributes:
        turn_id: the last turn in it, and its place in the log's order.
        hashes: of the transcript up to it; several when the client may go on from several answers.
        turns: how many turns were added, and their `trail`.
        recent: names of the last turns that were added; what is found late in others is left out.
        asked: how many turns there were when a model was asked last.
        chars: characters of the turns' texts, and their tokens.
    """

    state: ConversationState
    turn_id: str
    sequence: int
    hashes: tuple[str, ...] = ()
    turns: int = 0
    trail: str = ""
    recent: tuple[str, ...] = ()
    asked: int = 0
    chars: int = 0
    tokens: int = 0


_STATES: TypeAdapter[list[Covered]] = TypeAdapter(list[Covered])


def dump(*states: Covered) -> bytes:
    return _STATES.dump_json(list(states))


def load(value: bytes | None) -> list[Covered]:
    """What was written: one state, or a session's predecessors, oldest first. Nothing of what another version wrote."""
    try:
        return _STATES.validate_json(value) if value is not None else []
    except ValidationError:
        return []


class Key(StrEnum):
    """What is stored of a conversation."""

    TRANSCRIPT = "transcript"
    """A state, by the hash of the transcript that it covers."""
    TURN = "turn"
    """A state, by the last turn that it covers, where no transcript is known."""
    SESSION = "session"
    """A session's states."""
    BUILDING = "building"
    """The note that a session's states are being built; a deletion of the project removes it as well."""
    MARK = "mark"
    """The note that chains of a session are compressed."""

    def of(self, name: str) -> str:
        return f"{_PREFIX}:{self}:{name}"


def keys_of(covered: Covered) -> Iterator[str]:
    """The keys that a state is stored under."""
    if covered.hashes:
        return (Key.TRANSCRIPT.of(value) for value in covered.hashes[:_MAX_HASHES])
    return iter((Key.TURN.of(covered.turn_id),))


def predecessor(states: Sequence[Covered], turn: LoggedTurn) -> Covered | None:
    """What the turn goes on from; None when there are turns before it that are not covered, or when that is not proved.

    It is not where the log holds other words than were said: a secret was taken out, or a text was cut.
    """
    start = Covered(ConversationState(), "", 0)
    if not turn.transcript_hashes:
        return states[-1] if states else start
    for before in (*reversed(states), start):
        if any(_continues(value, turn) for value in before.hashes or ("",) if value or before is start):
            return before
    return None


def with_turn(recent: Sequence[str], turn_id: str) -> tuple[str, ...]:
    """The last turns of a conversation, with one more."""
    return (*recent, _name(turn_id))[-RECENT:]


def includes(covered: Covered, turn_id: str) -> bool:
    """Whether a turn is one of the last that a state was made of."""
    return _name(turn_id) in covered.recent


def _name(turn_id: str) -> str:
    return hashlib.sha256(turn_id.encode("utf-8", "replace")).hexdigest()[:_NAME_CHARS]


def trail_of(turn_ids: Iterable[str], trail: str = "") -> str:
    """Names a sequence of turns."""
    for turn_id in turn_ids:
        trail = hashlib.sha256(f"{trail}\0{turn_id}".encode()).hexdigest()
    return trail


def _continues(before: str, turn: LoggedTurn) -> bool:
    return any(
        continued_hash(before, [*(Message(Role.USER, text) for text in texts), _answer(turn)]) in turn.transcript_hashes
        for texts in _as_messages(turn.user_text)
    )


def _as_messages(text: str) -> Iterator[list[str]]:
    """A turn's text as the messages that it may have been: several are put together with line breaks."""
    lines = text.split("\n")
    breaks = len(lines) - 1
    if breaks > _MAX_BREAKS:
        yield from ([text], lines)
        return
    for ends in range(1 << breaks):
        messages = [lines[0]]
        for at, line in enumerate(lines[1:]):
            if ends >> at & 1:
                messages.append(line)
            else:
                messages[-1] += "\n" + line
        yield messages


def _answer(turn: LoggedTurn) -> Message:
    return Message(Role.ASSISTANT, turn.assistant_text)


# -- stored chains -----------------------------------------------------------------------------------------------------


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
