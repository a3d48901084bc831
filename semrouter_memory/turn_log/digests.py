"""Keyed digests of what clients choose: ids, texts and whole statements.

Strategy: the log looks up by digest, so hostile, huge or secret values neither meet SQL nor lie in an index, and a file
without its key tells nothing about them. Parts are length-prefixed: no two lists of parts run into each other.
"""

import unicodedata
from functools import lru_cache
from hashlib import blake2b

from semrouter_memory.model import Scope
from semrouter_memory.turn_log.columns import pack

_SIZE = 16
_CACHED_OWNERS = 1024
_SESSION_PREFIX = "ses_"
_MAX_SEQUENCE_DIGITS = 18


class Digests:
    """Digests under one log's key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._turn_prefix = f"turn_{self.of('log').hex()[:12]}_"
        self._owner = lru_cache(_CACHED_OWNERS)(lambda user_id: self.of("owner", user_id).hex())

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
        return self._owner(scope.user_id)

    def session_id(self, scope: Scope, kind: str, name: str) -> str:
        """The session that a client calls by that name: the same each time, and the name cannot be read from it."""
        parts = (scope.user_id, scope.project_id, scope.agent_id, name)
        return _SESSION_PREFIX + self.of(kind, *parts).hex()

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
