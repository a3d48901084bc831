"""A turn within its bounds. Pure.

Strategy: texts are cut before anything is derived from them, in the same way on every replica, so that a repetition is
recognised wherever it arrives. A client's names may be anything of any length: a digest replaces a long one.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b

from semrouter_memory.model import SessionHints, Turn
from semrouter_memory.turn_log.columns import dump_items, pack, storable, storable_texts, storable_tools

_MAX_NAME_CHARS = 512
_MAX_MODEL_CHARS = 128


@dataclass(frozen=True, slots=True)
class BoundedTurn:
    """A turn as it is accepted.

    Attributes:
        turn: without items.
        items: JSON.
        remember: the user asks to remember something.
        text_chars: length of the user's texts before they were cut: texts that differ only beyond the cut differ in it.
    """

    turn: Turn
    items: bytes | None
    remember: bool
    text_chars: int

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What a repetition of the turn has in common with it."""
        return (*self.turn.user_texts, str(self.text_chars))


def bounded(turn: Turn, *, remember: bool, max_turn_chars: int) -> BoundedTurn:
    hints = turn.hints
    cut = replace(
        turn,
        hints=SessionHints(
            explicit=bounded_name(hints.explicit),
            conversation_id=bounded_name(hints.conversation_id),
            previous_response_id=bounded_name(hints.previous_response_id),
            history_hash=bounded_name(hints.history_hash),
        ),
        user_texts=tuple(storable_texts(turn.user_texts, max_turn_chars)),
        assistant_text=storable(turn.assistant_text, max_turn_chars),
        request_id=bounded_name(turn.request_id),
        retry_of=bounded_name(turn.retry_of),
        response_id=bounded_name(turn.response_id),
        model=storable(turn.model, _MAX_MODEL_CHARS),
        transcript_hashes=tuple(bounded_name(each) for each in turn.transcript_hashes),
        tools=tuple(storable_tools(turn.tools)),
        items=None,
    )
    return BoundedTurn(cut, dump_items(turn.items, max_turn_chars), remember, sum(map(len, turn.user_texts)))


def bounded_name(name: str) -> str:
    """A client's name of something: itself, or a digest of one that is long or no text."""
    if len(name) <= _MAX_NAME_CHARS and storable(name, _MAX_NAME_CHARS) == name:
        return name
    return "long:" + blake2b(pack(name), digest_size=32).hexdigest()
