"""The stored form of a state: its keys, and the turns that it covers. Pure.

Strategy: a state may stand for a conversation's beginning only when it was made of exactly those turns. In a transcript
that is proved by its hash: a turn is added to the state whose transcript it continues, and the request must have as many
turns up to that hash as were added. In a stored chain it is proved by the turns' ids, hashed in their order.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from semrouter_memory.codec.base import continued_hash
from semrouter_memory.compress.state import ConversationState
from semrouter_memory.model import LoggedTurn, Message, Role

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


_COVERED: TypeAdapter[Covered] = TypeAdapter(Covered)
_SESSION: TypeAdapter[list[Covered]] = TypeAdapter(list[Covered])


def dump(covered: Covered) -> bytes:
    return _COVERED.dump_json(covered)


def load(value: bytes | None) -> Covered | None:
    """What was written; None for nothing, or for what another version wrote."""
    try:
        return _COVERED.validate_json(value) if value is not None else None
    except ValidationError:
        return None


def dump_session(states: Sequence[Covered]) -> bytes:
    return _SESSION.dump_json(list(states))


def load_session(value: bytes | None) -> list[Covered]:
    """Same as `load`, of a session's predecessors, oldest first."""
    try:
        return _SESSION.validate_json(value) if value is not None else []
    except ValidationError:
        return []


def transcript_key(transcript_hash: str) -> str:
    return f"{_PREFIX}:transcript:{transcript_hash}"


def turn_key(turn_id: str) -> str:
    return f"{_PREFIX}:turn:{turn_id}"


def session_key(session_id: str) -> str:
    return f"{_PREFIX}:session:{session_id}"


def hold_key(session_id: str) -> str:
    """Key of the note that a session's state is being built; a deletion of the project removes it as well."""
    return f"{_PREFIX}:building:{session_id}"


def mark_key(session_id: str) -> str:
    """Key of the note that chains of a session are compressed."""
    return f"{_PREFIX}:mark:{session_id}"


def keys_of(covered: Covered) -> Iterator[str]:
    """The keys that a state is stored under."""
    if covered.hashes:
        return (transcript_key(value) for value in covered.hashes[:_MAX_HASHES])
    return iter((turn_key(covered.turn_id),))


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
