"""What clients send, made safe to store and to look up: a turn within its bounds, and keyed digests. Pure.

Strategy of bounds: texts are cut before anything is derived from them, in the same way on every replica, so that a repetition is
recognised wherever it arrives. Texts lose what SQLite cannot encode (lone surrogates). A client's names may be anything
of any length: a digest replaces a long one.

Strategy of digests: the log looks up by digest, so hostile, huge or secret values neither meet SQL nor lie in an index, and a file
without its key tells nothing about them. Parts are length-prefixed: no two lists of parts run into each other.

Lookup keys: a turn is the same again when it has the same user texts and the same request id, the same retry key, or the same
*position*: its session and what came before it there (the transcript's hash, or the response that it names). Request ids
alone do not count: where a proxy lets clients choose them, every turn of a client that always sends the same would be a
repetition. In a session whose turns do not say what came before (a session header or a conversation id is all there is),
only a repetition of the newest turn counts: people do say things twice. The first turn of a new transcript session has
no position; of one that calls tools the *opening* is known, its words, by which the end of its loop finds it, and of one with
several messages the opening without the last of them. Response ids never count, since some servers draw them from a thousand.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b

import orjson

from semrouter_memory.databases import micros, pack
from semrouter_memory.language.scripts import in_form
from semrouter_memory.model import Json, Scope, SessionHints, ToolUse, Turn

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


# -- digests -----------------------------------------------------------------------------------------------------------

_SIZE = 16
_CACHED_OWNERS = 1024
_SESSION_PREFIX = "ses_"
_MAX_SEQUENCE_DIGITS = 18


class Digests:
    """Digests under one log's key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._turn_prefix = f"turn_{self.of('log').hex()[:12]}_"
        self._owner = lru_cache(_CACHED_OWNERS)(lambda owner: self.of("owner", owner).hex())

    def of(self, kind: str, *parts: str) -> bytes:
        """`kind` (at most 16 ASCII characters) keeps the same parts apart in different uses."""
        digest = blake2b(digest_size=_SIZE, key=self._key, person=kind.encode("ascii"))
        for part in parts:
            value = pack(part)
            digest.update(len(value).to_bytes(8, "big"))
            digest.update(value)
        return digest.digest()

    def owner(self, scope: Scope) -> str:
        """What an owner's rows are marked with."""
        return self._owner(scope.owner)

    def session_id(self, scope: Scope, kind: str, name: str) -> str:
        """The session that a client calls by that name: the same each time, and the name cannot be read from it."""
        parts = (scope.owner, scope.project_id, name)
        return _SESSION_PREFIX + self.of(kind, *parts).hex()

    def session_ids(self, scope: Scope, name: str) -> list[str]:
        """Those of a session that a client calls by that name, as its session or its conversation."""
        return [self.session_id(scope, kind, name) for kind in ("header", "conversation")]

    def content_hash(self, content: str) -> str:
        """What a tombstone keeps of a deleted statement: equal for the same words, however they are written."""
        return self.of("content", normalised(content)).hex()

    def turn_id(self, sequence: int) -> str:
        """The id of this log's turn with that sequence number; unlike those of other logs."""
        return f"{self._turn_prefix}{sequence}"

    def sequence(self, turn_id: str) -> int | None:
        """The sequence number in one of this log's turn ids, None for anything else."""
        digits = turn_id.removeprefix(self._turn_prefix)
        if len(digits) > _MAX_SEQUENCE_DIGITS or not (digits.isascii() and digits.isdigit()):
            return None
        return int(digits) if turn_id == self.turn_id(int(digits)) else None

    # -- lookup keys ----------------------------------------------------------------------------------------------------

    def response_key(self, scope: Scope, response_id: str) -> str:
        return self.of("response", scope.owner, response_id).hex()

    def transcript_key(self, scope: Scope, transcript_hash: str) -> str:
        parts = (scope.owner, scope.project_id, transcript_hash)
        return self.of("transcript", *parts).hex()

    def request_keys(self, turn: Turn, fingerprint: Sequence[str]) -> list[str]:
        """Of the request itself, wherever it belongs."""
        names = (("request", turn.request_id), ("retry", turn.retry_of))
        return [self.of(kind, turn.scope.owner, name, *fingerprint).hex() for kind, name in names if name]

    def position_keys(self, turn: Turn, session_id: str, fingerprint: Sequence[str], after: int) -> list[str]:
        """Of the turn at its position; empty where a position cannot be repeated.

        Args:
            session_id: where it goes; "" for a new transcript session, which gets its id when it is made.
            after: stands for what came before, where the turn does not say it: the sequence of the newest turn.
        """
        hints = turn.hints
        if hints.history_hash or hints.previous_response_id:
            before = ("known", hints.history_hash, hints.previous_response_id)
        elif hints.explicit or hints.conversation_id:
            before = ("newest", str(after), "")
        else:
            return []
        return [self.of("place", session_id, *before, *fingerprint).hex()]

    def opening_keys(self, turn: Turn, fingerprint: Sequence[str]) -> list[str]:
        """Of a turn with nothing before it, in what the client calls its session."""
        hints = turn.hints
        if hints.history_hash or hints.previous_response_id or hints.conversation_id:
            return []
        return [self.of("opening", turn.scope.owner, turn.scope.project_id, hints.explicit, *fingerprint).hex()]

    def answer_keys(self, turn: Turn) -> list[str]:
        """By which later turns continue this one."""
        keys = [self.transcript_key(turn.scope, each) for each in turn.transcript_hashes] if turn.complete else []
        return [*keys, self.response_key(turn.scope, turn.response_id)] if turn.response_id else keys


def new_session_id(unique: str) -> str:
    return _SESSION_PREFIX + unique


def normalised(content: str) -> str:
    """The statement without what does not change its meaning: case, width, white space, punctuation at the end."""
    text = in_form("NFKC", in_form("NFKC", content).casefold())
    text = " ".join(text.split())
    end = len(text)
    while end and unicodedata.category(text[end - 1])[0] in "PZ":
        end -= 1
    # A statement of nothing but punctuation is compared as it is, or all of these would be the same.
    return text[:end] or text
