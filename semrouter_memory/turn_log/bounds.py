"""A turn within its bounds. Pure.

Strategy: texts are cut before anything is derived from them, in the same way on every replica, so that a repetition is
recognised wherever it arrives. Texts lose what SQLite cannot encode (lone surrogates). A client's names may be anything
of any length: a digest replaces a long one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import orjson

from semrouter_memory.databases import micros, pack
from semrouter_memory.model import Json, SessionHints, ToolUse, Turn

MAX_SESSION_ID_CHARS = 128
_MAX_TOOLS = 64
_MAX_TOOL_NAME_CHARS = 128
_MAX_OUTCOME_CHARS = 512
_MAX_TRANSCRIPTS = 32
_MAX_TRANSCRIPT_CHARS = 128
_ITEMS_PER_TEXT = 4
"""Items hold both sides of a turn and what its tools returned; a text is bounded to one of these parts."""
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
        ended_at: when its exchange had ended, in microseconds since 1970.
    """

    turn: Turn
    items: bytes | None
    remember: bool
    text_chars: int
    ended_at: int = 0

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What a repetition of the turn has in common with it."""
        return (*self.turn.user_texts, str(self.text_chars))


def bounded(turn: Turn, *, remember: bool, max_turn_chars: int, ended_at: int = 0) -> BoundedTurn:
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
        agent=bounded_name(turn.agent),
        items=None,
    )
    chars = sum(map(len, turn.user_texts))
    ended_at = max(ended_at, micros(turn.observed_at))
    return BoundedTurn(cut, dump_items(turn.items, max_turn_chars), remember, chars, ended_at)


def bounded_name(name: str) -> str:
    """A client's name of something: itself, or a digest of one that is long or no text."""
    if len(name) <= _MAX_NAME_CHARS and storable(name, _MAX_NAME_CHARS) == name:
        return name
    return "long:" + blake2b(pack(name), digest_size=32).hexdigest()


# -- the parts of a turn -----------------------------------------------------------------------------------------------


def storable(text: str, max_chars: int) -> str:
    """The beginning of the text, with a question mark for what is no character."""
    text = text[:max_chars]
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def storable_texts(texts: Sequence[str], max_chars: int) -> list[str]:
    """One turn's messages, together at most `max_chars`: the first ones are dropped, since the last ones are what is asked."""
    last: list[str] = []
    for text in reversed(texts):
        if not max_chars:
            break
        if text:
            last.append(storable(text, max_chars))
            max_chars -= len(last[-1])
    return last[::-1]


def storable_tools(tools: Sequence[ToolUse]) -> list[ToolUse]:
    return [
        ToolUse(storable(tool.name, _MAX_TOOL_NAME_CHARS), storable(tool.outcome, _MAX_OUTCOME_CHARS))
        for tool in tools[-_MAX_TOOLS:]
    ]


def bounded_transcripts(hashes: Sequence[str]) -> tuple[str, ...]:
    """The last ones; what is no hash of this program is left out."""
    found = [each for each in dict.fromkeys(hashes) if each.isascii() and 0 < len(each) <= _MAX_TRANSCRIPT_CHARS]
    return tuple(found[-_MAX_TRANSCRIPTS:])


def dump_items(items: Sequence[Json] | None, max_text_chars: int) -> bytes | None:
    """None where they are not known, too long together, or no JSON that can be stored.

    Args:
        max_text_chars: the bound on one of a turn's texts.
    """
    if items is None:
        return None
    try:
        value = orjson.dumps(items)
    except TypeError:
        return None
    return value if len(value) <= _ITEMS_PER_TEXT * max_text_chars else None


def load_items(value: bytes | None) -> tuple[Json, ...] | None:
    return None if value is None else tuple(orjson.loads(value))
