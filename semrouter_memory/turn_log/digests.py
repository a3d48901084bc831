"""Keyed digests of what clients choose: ids, texts and whole statements.

Strategy: the log looks up by digest, so hostile, huge or secret values neither meet SQL nor lie in an index, and a file
without its key tells nothing about them. Parts are length-prefixed: no two lists of parts run into each other.

Lookup keys: a turn is the same again when it has the same user texts and the same request id, the same retry key, or the same
*position*: its session and what came before it there (the transcript's hash, or the response that it names). Request ids
alone do not count: where a proxy lets clients choose them, every turn of a client that always sends the same would be a
repetition. In a session whose turns do not say what came before (a session header or a conversation id is all there is),
only a repetition of the newest turn counts: people do say things twice. The first turn of a new transcript session has
no position. Response ids never count, since some servers draw them from a thousand.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b

from semrouter_memory.databases import pack
from semrouter_memory.model import Scope, Turn

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

    def answer_keys(self, turn: Turn) -> list[str]:
        """By which later turns continue this one."""
        keys = [self.transcript_key(turn.scope, each) for each in turn.transcript_hashes] if turn.complete else []
        return [*keys, self.response_key(turn.scope, turn.response_id)] if turn.response_id else keys


def new_session_id(unique: str) -> str:
    return _SESSION_PREFIX + unique


def normalised(content: str) -> str:
    """The statement without what does not change its meaning: case, width, white space, punctuation at the end."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", content).casefold())
    text = " ".join(text.split())
    end = len(text)
    while end and unicodedata.category(text[end - 1])[0] in "PZ":
        end -= 1
    # A statement of nothing but punctuation is compared as it is, or all of these would be the same.
    return text[:end] or text
