"""What may be stored through the API: checks of texts and metadata that a caller sends."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields
from datetime import datetime

from semrouter_memory.config import ManagementConfig
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.portable import ImportLine
from semrouter_memory.model import (
    EPISODE,
    PROVENANCE,
    PROVENANCE_IDS,
    PROVENANCE_KINDS,
    STATEMENTS,
    Episode,
    Fact,
    Json,
    MemoryType,
)
from semrouter_memory.ports import Clock
from semrouter_memory.retain.redact import Redaction

Redact = Callable[[str], Redaction]
"""Finds the secrets in a text: keys, card numbers, passwords."""

_EPISODE = {each.name for each in fields(Episode)}
_STATEMENT = {each.name for each in fields(Fact)}

_MAX_DEPTH = 16
_INT64 = range(-(2**63), 2**63)


class AdmissionPolicy:
    """The checks with the limits of an installation. Each raises `InvalidRequestError`."""

    def __init__(self, config: ManagementConfig, *, redact: Redact, clock: Clock) -> None:
        self._config, self._redact, self._clock = config, redact, clock

    def content(self, content: str) -> str:
        """The text as it is stored; refused when blank, too long, or no text, and when it holds a secret."""
        content = content.strip()
        require_text(content, max_chars=self._config.max_content_chars, field="content")
        self._check_text(content, "content")
        return content

    def check_query(self, query: str) -> None:
        """Refuse a query that is blank or too long."""
        require_text(query, max_chars=self._config.max_content_chars, field="query")

    def check_metadata(self, metadata: Mapping[str, Json], *, stored: bool = False) -> None:
        """Refuse what is too large or too deep, a secret, a value that other JSON readers do not understand, and the service's own keys.

        Args:
            stored: it is a memory's whole metadata; what the service wrote is not checked.
        """
        own = sorted(PROVENANCE & metadata.keys())
        if own and not stored:
            raise InvalidRequestError(f"metadata.{own[0]} is set by the service", field=f"metadata.{own[0]}")
        attached = {key: value for key, value in metadata.items() if key not in own}
        size = 0
        for text in _texts(attached, _MAX_DEPTH):
            size += self._size_of(text, "metadata")
            if size > self._config.max_metadata_bytes:
                raise InvalidRequestError(
                    f"metadata is larger than {self._config.max_metadata_bytes} bytes", field="metadata"
                )

    def check_episode(self, episode: Episode, kind: MemoryType) -> None:
        """Refuse parts of a memory of another type, and parts that are too large or hold what may not be stored."""
        if episode == Episode():
            return
        if kind is not MemoryType.EPISODIC:
            raise InvalidRequestError(
                "goal, steps, outcome and lessons belong to a memory of type episodic", field="type"
            )
        size, limit = 0, self._config.max_metadata_bytes
        for name, part in asdict(episode).items():
            texts = [part] if isinstance(part, str) else list(part)
            size += sum(self._size_of(text, name) for text in texts)
            if size > limit:
                raise InvalidRequestError(f"goal, steps, outcome and lessons are larger than {limit} bytes", field=name)

    def check_expiry(self, expires_at: datetime | None) -> None:
        """Refuse a time that is past."""
        if expires_at is not None and expires_at <= self._clock.now():
            raise InvalidRequestError("must lie in the future", field="expires_at")

    async def check_line(self, line: ImportLine) -> None:
        """Check a line of an import."""
        self.content(line.content)
        self.check_metadata(line.metadata, stored=True)
        self.check_episode(line.episode, line.type)
        for key, value in line.metadata.items():
            self._check_provenance(key, value)

    def _check_provenance(self, key: str, value: Json) -> None:
        """Check what an import says that the service wrote: background work relies on it, and recall shows some of it."""
        field = f"metadata.{key}"
        if key in PROVENANCE_IDS and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            raise InvalidRequestError("must be a list of ids", field=field)
        if key not in PROVENANCE_KINDS:
            return
        # Not isinstance: true is an int, too.
        if type(value) is not PROVENANCE_KINDS[key]:
            raise InvalidRequestError(f"must be of type {PROVENANCE_KINDS[key].__name__}", field=field)
        if key == STATEMENTS and not _are_statements(value):
            raise InvalidRequestError("must be a list of attributes with value and text", field=field)
        if key == EPISODE and not _is_episode(value):
            raise InvalidRequestError("must have texts goal and outcome, and lists of texts", field=field)
        for text in _texts(value, _MAX_DEPTH):
            self._check_text(text, field)

    def _size_of(self, text: str, field: str) -> int:
        """The bytes of a text that may be stored."""
        self._check_text(text, field)
        return len(text.encode())

    def _check_text(self, text: str, field: str) -> None:
        if "\x00" in text or not _encodable(text):
            raise InvalidRequestError(
                f"{field} holds characters that are no text (NUL or lone surrogates)", field=field
            )
        if kinds := self._redact(text).kinds:
            named = " and ".join(dict.fromkeys(kind.in_words for kind in kinds))
            raise InvalidRequestError(f"{field} seems to hold {named}; secrets are not stored", field=field)


def require_text(text: str, *, max_chars: int, field: str) -> None:
    """Raises: InvalidRequestError: it is blank or too long."""
    if not text.strip():
        raise InvalidRequestError(f"{field} must not be blank", field=field)
    if len(text) > max_chars:
        raise InvalidRequestError(f"{field} is longer than {max_chars} characters", field=field)


def _are_statements(value: Json) -> bool:
    return all(isinstance(each, dict) and each.keys() == _STATEMENT for each in value)


def _is_episode(value: Json) -> bool:
    """Whether the parts are as `Episode.metadata` has them."""
    if value.keys() != _EPISODE or not isinstance(value["steps"], list) or not isinstance(value["lessons"], list):
        return False
    return all(isinstance(text, str) for text in (value["goal"], value["outcome"], *value["steps"], *value["lessons"]))


def _texts(value: Json, depth: int) -> Iterator[str]:
    """Every key and scalar in a JSON value as text, each a piece of its size."""
    if depth < 0:
        raise InvalidRequestError(f"metadata is nested deeper than {_MAX_DEPTH} levels", field="metadata")
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts(item, depth - 1)
    elif isinstance(value, list):
        for item in value:
            yield ","
            yield from _texts(item, depth - 1)
    elif isinstance(value, str):
        yield value
    else:
        yield _number_text(value)


def _number_text(value: Json) -> str:
    if isinstance(value, int) and value not in _INT64:
        raise InvalidRequestError("metadata holds an integer beyond 64 bits", field="metadata")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidRequestError("metadata holds a number that JSON does not know", field="metadata")
    return str(value)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
