"""What may be stored through the API, and as what: checks of what a caller sends, and the memories made of it. Pure."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import datetime, timedelta
from typing import Any

from semrouter_memory.config import ManagementConfig
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.portable import ImportLine
from semrouter_memory.manage.schemas import StoreRequest, UpdateRequest
from semrouter_memory.model import (
    ASKED,
    CATEGORY,
    CONTEXT,
    DERIVED_FROM,
    EPISODE,
    FORM,
    OUTDATED_BY,
    PINNED,
    PROVENANCE,
    PROVENANCE_IDS,
    PROVENANCE_KINDS,
    QUOTE,
    STATEMENTS,
    WITHIN,
    Episode,
    Fact,
    Json,
    Memory,
    MemoryType,
    OwnerKind,
    Scope,
)
from semrouter_memory.retain.facts import covers
from semrouter_memory.retain.reconciling.rows import superseded
from semrouter_memory.retain.redact import Redaction
from semrouter_memory.retain.superseding import marked

Redact = Callable[[str], Redaction]
"""Finds the secrets in a text: keys, card numbers, passwords."""

SOURCE = "api"
"""`Memory.source` of what was stored here."""

_MAX_REPLACED = 200
"""Turn ids stored of a memory's earlier content; a memory is learned from no more."""
_OF_THE_CONTENT = {"turn_ids", "consolidated_from", DERIVED_FROM, FORM, CONTEXT, ASKED, QUOTE, STATEMENTS, OUTDATED_BY}
"""Metadata that describes the content and is dropped with it: an edited quote is a statement."""

_EPISODE = {each.name for each in fields(Episode)}
_STATEMENT = {each.name for each in fields(Fact)}

_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")
_MAX_DEPTH = 16
_INT64 = range(-(2**63), 2**63)


class AdmissionPolicy:
    """The checks with the limits of an installation. Each raises `InvalidRequestError`."""

    def __init__(self, config: ManagementConfig, *, redact: Redact) -> None:
        self._config, self._redact = config, redact

    def content(self, content: str) -> str:
        """The text as it is stored; refused when blank, too long, or no text, and when it holds a secret."""
        content = content.strip()
        require_text(content, max_chars=self._config.max_content_chars, field="content")
        self.check_text(content, "content")
        return content

    def check_text(self, text: str, field: str) -> None:
        """Refuse characters that are no text, and a secret."""
        if _NO_TEXT.search(text):
            raise InvalidRequestError(
                f"{field} holds characters that are no text (NUL or lone surrogates)", field=field
            )
        if kinds := self._redact(text).kinds:
            named = " and ".join(dict.fromkeys(kind.in_words for kind in kinds))
            raise InvalidRequestError(f"{field} seems to hold {named}; secrets are not stored", field=field)

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

    def check_line(self, line: ImportLine) -> None:
        """Check a line of an import."""
        self.content(line.content)
        self.check_text(line.source, "source")
        self.check_text(line.session_id, "session_id")
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
            self.check_text(text, field)

    def _size_of(self, text: str, field: str) -> int:
        """The bytes of a text that may be stored."""
        self.check_text(text, field)
        return len(text.encode())


def require_text(text: str, *, max_chars: int, field: str) -> None:
    """Raises: InvalidRequestError: it is blank or too long."""
    if not text.strip():
        raise InvalidRequestError(f"{field} must not be blank", field=field)
    if len(text) > max_chars:
        raise InvalidRequestError(f"{field} is longer than {max_chars} characters", field=field)


def require_future(expires_at: datetime | None, now: datetime) -> None:
    """Raises: InvalidRequestError: the time is past."""
    if expires_at is not None and expires_at <= now:
        raise InvalidRequestError("must lie in the future", field="expires_at")


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


# -- the memories made of it -----------------------------------------------------------------------------------------------


def merged_json(old: Mapping[str, Json], changes: Mapping[str, Json]) -> dict[str, Json]:
    """The object with the changes, as RFC 7396 merges them: null removes a key, and objects are merged at every depth."""
    merged = dict(old)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            known = merged.get(key)
            merged[key] = merged_json(known if isinstance(known, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def edited_episode(memory: Memory, changes: Mapping[str, Any], edit: UpdateRequest) -> Episode:
    """The parts after a change: they describe the content, so another content or another type replaces them."""
    stays = "content" not in changes and changes.get("type", memory.type) is memory.type
    return edit.applied(memory.episode if stays else Episode())


def with_content(memory: Memory, content: str, episode: Episode) -> Memory:
    """The memory with other content; its source turns become the source turns of the content that was replaced.

    A deletion still reaches these turns. An edited summary or insight does not follow from its originals any more.

    Args:
        episode: the parts that describe it.
    """
    metadata = {key: value for key, value in memory.metadata.items() if key != EPISODE} | episode.metadata
    if content == memory.content:
        return replace(memory, metadata=metadata)
    turns = dict.fromkeys((*memory.ids("replaces"), *memory.ids("turn_ids")))
    metadata = {key: value for key, value in metadata.items() if key not in _OF_THE_CONTENT}
    if turns:
        metadata["replaces"] = list(turns)[-_MAX_REPLACED:]
    return replace(memory, content=content, metadata=metadata)


def corrected(former: Memory, edited: Memory, linked: Sequence[Memory]) -> list[Memory]:
    """What an edit makes of the statements of the quote, or of the quote of the statement: they say what was corrected.

    A quote that says more stays, marked.
    """
    return [
        marked(each, edited).changed(edited.updated_at)
        if each.form == "quote" and not covers(former.content, each.content)
        else superseded(each, edited, now=edited.updated_at)
        for each in linked
    ]


def owned(new: StoreRequest) -> dict[str, Json]:
    """What the fields of the request say that the metadata of a new memory holds."""
    category = {CATEGORY: new.category} if new.category else {}
    within = {"session": new.within_session, "promote": new.promote}
    pinned = {PINNED: True} if new.pinned else {}
    return {**new.episode.metadata, **category, **({WITHIN: within} if new.within_session else {}), **pinned}


def with_pin(memory: Memory, *, pinned: bool) -> Memory:
    """The memory pinned, and then without an expiry, or not pinned."""
    plain = {key: value for key, value in memory.metadata.items() if key != PINNED}
    if not pinned:
        return replace(memory, metadata=plain)
    return replace(memory, expires_at=None, metadata={**plain, PINNED: True})


def require_lasting(memory: Memory) -> None:
    """Raises: InvalidRequestError: it is pinned, and expires or holds within one session; or holds within one and is no user's."""
    if memory.within_session and memory.scope.kind is not OwnerKind.USER:
        raise InvalidRequestError("only users have sessions", field="within_session")
    if memory.pinned and memory.within_session:
        raise InvalidRequestError("a memory of one session is not in every request", field="pinned")
    if memory.pinned and memory.expires_at:
        raise InvalidRequestError("a pinned memory does not expire", field="expires_at")


def new_memory(
    new: StoreRequest, scope: Scope, content: str, *, memory_id: str, now: datetime, expires_at: datetime | None
) -> Memory:
    """Raises: InvalidRequestError: it is to be pinned, and expires or holds within a session."""
    memory = Memory(
        id=memory_id,
        scope=scope,
        type=new.type,
        content=content,
        source=SOURCE,
        observed_at=now,
        created_at=now,
        updated_at=now,
        expires_at=expires_at,
        importance=new.importance,
        metadata={**new.metadata, **owned(new)},
    )
    require_lasting(memory)
    return memory


def confirmed(known: Memory, memory: Memory, new: StoreRequest, metadata: Mapping[str, Json]) -> Memory:
    """A memory that is stored again; a type that was sent is its type from now on.

    Args:
        memory: what would be stored.
        metadata: the caller's, with what was there.

    Raises:
        InvalidRequestError: same.
    """
    lasts_anew = "expires_at" in new.model_fields_set or memory.within_session
    kind = memory.type if "type" in new.model_fields_set else known.type
    parts = (
        metadata if kind is MemoryType.EPISODIC else {key: value for key, value in metadata.items() if key != EPISODE}
    )
    again = replace(
        known,
        type=kind,
        importance=max(known.importance, memory.importance),
        expires_at=memory.expires_at if lasts_anew else known.expires_at,
        metadata={**parts, **owned(new)},
        updated_at=memory.updated_at,
    )
    again = with_pin(again, pinned=True) if new.pinned else again
    require_lasting(again)
    return again


def require_own_session(new: StoreRequest) -> None:
    """Raises: InvalidRequestError: it is to be promoted from no session."""
    if new.promote and not new.within_session:
        raise InvalidRequestError("needs within_session", field="promote")


def expiry(
    new: StoreRequest, now: datetime, lifetimes: Mapping[MemoryType, timedelta], session_lifetime: timedelta
) -> datetime | None:
    """From when on a new memory is not recalled; None: never."""
    lifetime = lifetimes.get(new.type)
    by_type = now + lifetime if lifetime else None
    expires_at = new.expires_at if "expires_at" in new.model_fields_set or new.pinned else by_type
    return earliest(expires_at, now + session_lifetime) if new.within_session else expires_at


def earliest(one: datetime | None, other: datetime) -> datetime:
    """The earlier of two ends, where the first may be never."""
    return min(one, other) if one else other
