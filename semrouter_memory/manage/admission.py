"""What may be stored through the API: pure checks of texts and metadata that a caller sends, and what an edit leaves of them."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.model import (
    ASKED,
    ASSERTED_AT,
    CONTEXT,
    FORM,
    IMPORTED_AT,
    OUTDATED_BY,
    QUOTE,
    STATEMENTS,
    Fact,
    Json,
    Memory,
)
from semrouter_memory.retain.redact import Redaction

Redact = Callable[[str], Redaction]
"""Finds the secrets in a text: keys, card numbers, passwords."""

_IDS = frozenset({"turn_ids", "replaces", "contradicts", "consolidated_from", OUTDATED_BY})
_KINDS: Mapping[str, type] = {
    "extractor": str,
    "model": str,
    FORM: str,
    CONTEXT: str,
    ASKED: str,
    QUOTE: str,
    STATEMENTS: list,
    "confirmations": int,
    "flagged": bool,
    IMPORTED_AT: str,
    ASSERTED_AT: str,
}

_STATEMENT = {each.name for each in fields(Fact)}

PROVENANCE = _IDS | _KINDS.keys()
"""Metadata that the service writes itself. A deletion follows `turn_ids` to the turns that a memory came from."""

_MAX_REPLACED = 200
"""Turn ids stored of a memory's earlier content; a memory is learned from no more."""
_OF_THE_CONTENT = {"turn_ids", "consolidated_from", FORM, CONTEXT, ASKED, QUOTE, STATEMENTS, OUTDATED_BY}
"""Metadata that describes the content and is dropped with it: an edited quote is a statement."""
_MAX_DEPTH = 16
_INT64 = range(-(2**63), 2**63)


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


def admissible_provenance(metadata: Mapping[str, Json], *, redact: Redact) -> None:
    """Check what an import says that the service wrote: background work relies on it, and recall shows some of it.

    Raises:
        InvalidRequestError: a value is not of the kind that the service writes, or holds what may not be stored.
    """
    for key, value in metadata.items():
        if key in _IDS and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            raise InvalidRequestError("must be a list of ids", field=f"metadata.{key}")
        # Not isinstance: true is an int, too.
        if key in _KINDS and type(value) is not _KINDS[key]:
            raise InvalidRequestError(f"must be of type {_KINDS[key].__name__}", field=f"metadata.{key}")
        if key == STATEMENTS and not all(isinstance(each, dict) and each.keys() == _STATEMENT for each in value):
            raise InvalidRequestError("must be a list of attributes with value and text", field=f"metadata.{key}")
        if key in _KINDS:
            for text in _texts(value, _MAX_DEPTH):
                _refuse_text(text, redact, f"metadata.{key}")


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


def with_content(memory: Memory, content: str) -> Memory:
    """The memory with other content; its source turns become the source turns of the content that was replaced.

    A deletion still reaches these turns. An edited summary is no summary of its originals any more.
    """
    if content == memory.content:
        return memory
    turns = dict.fromkeys((*memory.ids("replaces"), *memory.ids("turn_ids")))
    metadata = {key: value for key, value in memory.metadata.items() if key not in _OF_THE_CONTENT}
    if turns:
        metadata["replaces"] = list(turns)[-_MAX_REPLACED:]
    return replace(memory, content=content, metadata=metadata)
