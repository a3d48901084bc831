"""What is kept of a state, under which keys, and which turns it covers. Pure.

Strategy: a state may stand for a conversation's beginning only when it was made of exactly those turns. In a transcript
that is proved by its hash: a turn is added to the state whose transcript it continues, and the request must have as many
turns up to that hash as were added. In a stored chain it is proved by the turns' ids, hashed in their order.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from semrouter_memory.codec.base import continued_hash
from semrouter_memory.compress.state import State
from semrouter_memory.model import LoggedTurn, Message, Role

KEPT = 8
"""Predecessors that are kept of a session: a retry, an edited message, a quick next turn still find theirs."""
LOOK_BACK = 16
"""How many turns a state may be behind a request's history."""
_MAX_HASHES = 8
_REDACTED = "[redacted]"
"""What the turn log has in place of a secret."""
_PREFIX = "compress"


@dataclass(frozen=True, slots=True)
class Covered:
    """A state and what it covers.

    Attributes:
        turn_id: the last turn in it, and its place in the log's order.
        hashes: of the transcript up to it; several when the client may go on from several answers.
        turns: how many turns were added, and their `trail`.
        asked: how many turns there were when a model was asked last.
        chars: characters of the turns' texts, and their tokens.
    """

    state: State
    turn_id: str
    sequence: int
    hashes: tuple[str, ...] = ()
    turns: int = 0
    trail: str = ""
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


def dump_session(kept: Sequence[Covered]) -> bytes:
    return _SESSION.dump_json(list(kept))


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


def mark_key(session_id: str) -> str:
    """Of the note that chains of a session are compressed."""
    return f"{_PREFIX}:mark:{session_id}"


def keys_of(covered: Covered) -> Iterator[str]:
    """Where a state is looked for."""
    if covered.hashes:
        return (transcript_key(value) for value in covered.hashes[:_MAX_HASHES])
    return iter((turn_key(covered.turn_id),))


def predecessor(kept: Sequence[Covered], turn: LoggedTurn) -> Covered | None:
    """What the turn goes on from; None when there are turns before it that are not covered."""
    start = Covered(State(), "", 0)
    if not turn.transcript_hashes:
        return kept[-1] if kept else start
    for before in (*reversed(kept), start):
        if any(_continues(value, turn) for value in before.hashes or ("",) if value or before is start):
            return before
    if not _may_differ(turn):
        return None
    # Its words are not in the log as they were said. That it follows the turn before it is likely; when it does not,
    # the number of turns will be another than the request's.
    return kept[-1] if kept else start


def trail_of(turn_ids: Iterable[str], trail: str = "") -> str:
    """Names a sequence of turns."""
    for turn_id in turn_ids:
        trail = hashlib.sha256(f"{trail}\0{turn_id}".encode()).hexdigest()
    return trail


def _continues(before: str, turn: LoggedTurn) -> bool:
    asked = ([turn.user_text], turn.user_text.split("\n")) if "\n" in turn.user_text else ([turn.user_text],)
    return any(
        continued_hash(before, [*(Message(Role.USER, text) for text in texts), _answer(turn)]) in turn.transcript_hashes
        for texts in asked
    )


def _answer(turn: LoggedTurn) -> Message:
    return Message(Role.ASSISTANT, turn.assistant_text)


def _may_differ(turn: LoggedTurn) -> bool:
    """Whether the log may hold other words than were said: a secret taken out, several messages put together, a cut."""
    text = turn.user_text + turn.assistant_text
    return _REDACTED in text or "\n" in turn.user_text or len(text) > _LONG_CHARS


_LONG_CHARS = 16_000
"""Texts of this length may have been cut."""
