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
        """The text as it is stored."""
        return admissible_content(content, max_chars=self._config.max_content_chars, redact=self._redact)

    def check_query(self, query: str) -> None:
        require_query(query, max_chars=self._config.max_content_chars)

    def check_metadata(self, metadata: Mapping[str, Json], *, stored: bool = False) -> None:
        """Args: stored: it is a memory's whole metadata; what the service wrote is not checked."""
        attached = {key: value for key, value in metadata.items() if not stored or key not in PROVENANCE}
        admissible_metadata(attached, max_bytes=self._config.max_metadata_bytes, redact=self._redact)

    def check_episode(self, episode: Episode, kind: MemoryType) -> None:
        admissible_episode(episode, kind, max_bytes=self._config.max_metadata_bytes, redact=self._redact)

    def check_expiry(self, expires_at: datetime | None) -> None:
        if expires_at is not None and expires_at <= self._clock.now():
            raise InvalidRequestError("must lie in the future", field="expires_at")

    async def check_line(self, line: ImportLine) -> None:
        """Check a line of an import."""
        self.content(line.content)
        self.check_metadata(line.metadata, stored=True)
        self.check_episode(line.episode, line.type)
        admissible_provenance(line.metadata, redact=self._redact)


def require_query(query: str, *, max_chars: int, field: str = "query") -> None:
    """Raises: InvalidRequestError: it is blank or too long."""
    if not query.strip():
        raise InvalidRequestError(f"{field} must not be blank", field=field)
    if len(query) > max_chars:
        raise InvalidRequestError(f"{field} is longer than {max_chars} characters", field=field)


def admissible_content(content: str, *, max_chars: int, redact: Redact) -> str:
    """The text as it is stored.

    Raises:
        InvalidRequestError: it is blank, too long, holds control characters that no store keeps, or a secret.
    """
    content = content.strip()
    if not content:
        raise InvalidRequestError("content must not be blank", field="content")
    if len(content) > max_chars:
        raise InvalidRequestError(f"content is longer than {max_chars} characters", field="content")
    _refuse_text(content, redact, "content")
    return content


def admissible_metadata(metadata: Mapping[str, Json], *, max_bytes: int, redact: Redact) -> None:
    """Check what a caller wants to attach to a memory.

    Raises:
        InvalidRequestError: it is too large or too deep, uses a key that belongs to the service, holds a value that
            other JSON readers do not understand (NaN, integers beyond 64 bits), or a secret.
    """
    for key in sorted(PROVENANCE & metadata.keys()):
        raise InvalidRequestError(f"metadata.{key} is set by the service", field=f"metadata.{key}")
    size = 0
    for text in _texts(metadata, _MAX_DEPTH):
        _refuse_text(text, redact, "metadata")
        size += len(text.encode())
        if size > max_bytes:
            raise InvalidRequestError(f"metadata is larger than {max_bytes} bytes", field="metadata")


def admissible_episode(episode: Episode, kind: MemoryType, *, max_bytes: int, redact: Redact) -> None:
    """Check the parts of an episode.

    Raises:
        InvalidRequestError: the memory is of another type, or the parts are too large or hold what may not be stored.
    """
    if episode == Episode():
        return
    if kind is not MemoryType.EPISODIC:
        raise InvalidRequestError("goal, steps, outcome and lessons belong to a memory of type episodic", field="type")
    size = 0
    for name, part in asdict(episode).items():
        for text in [part] if isinstance(part, str) else part:
            _refuse_text(text, redact, name)
            size += len(text.encode())
        if size > max_bytes:
            raise InvalidRequestError(f"goal, steps, outcome and lessons are larger than {max_bytes} bytes", field=name)


def admissible_provenance(metadata: Mapping[str, Json], *, redact: Redact) -> None:
    """Check what an import says that the service wrote: background work relies on it, and recall shows some of it.

    Raises:
        InvalidRequestError: a value is not of the kind that the service writes, or holds what may not be stored.
    """
    for key, value in metadata.items():
        if key in PROVENANCE_IDS and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            raise InvalidRequestError("must be a list of ids", field=f"metadata.{key}")
        # Not isinstance: true is an int, too.
        if key in PROVENANCE_KINDS and type(value) is not PROVENANCE_KINDS[key]:
            raise InvalidRequestError(f"must be of type {PROVENANCE_KINDS[key].__name__}", field=f"metadata.{key}")
        if key == STATEMENTS and not all(isinstance(each, dict) and each.keys() == _STATEMENT for each in value):
            raise InvalidRequestError("must be a list of attributes with value and text", field=f"metadata.{key}")
        if key == EPISODE and not _is_episode(value):
            raise InvalidRequestError("must have texts goal and outcome, and lists of texts", field=f"metadata.{key}")
        if key in PROVENANCE_KINDS:
            for text in _texts(value, _MAX_DEPTH):
                _refuse_text(text, redact, f"metadata.{key}")


def _is_episode(value: Json) -> bool:
    """Whether the parts are as `Episode.metadata` has them."""
    if value.keys() != _EPISODE or not isinstance(value["steps"], list) or not isinstance(value["lessons"], list):
        return False
    return all(isinstance(text, str) for text in (value["goal"], value["outcome"], *value["steps"], *value["lessons"]))


def _refuse_text(text: str, redact: Redact, field: str) -> None:
    if "\x00" in text or not _encodable(text):
        raise InvalidRequestError(f"{field} holds characters that are no text (NUL or lone surrogates)", field=field)
    if kinds := redact(text).kinds:
        named = " and ".join(dict.fromkeys(kind.in_words for kind in kinds))
        raise InvalidRequestError(f"{field} seems to hold {named}; secrets are not stored", field=field)


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
