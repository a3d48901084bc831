"""What the API makes of a memory: of a new one its provenance and expiry, of a changed one content and parts. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from semrouter_memory.errors import InvalidRequestError
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
    QUOTE,
    STATEMENTS,
    WITHIN,
    Episode,
    Json,
    Memory,
    MemoryType,
    OwnerKind,
    Scope,
)

SOURCE = "api"
"""`Memory.source` of what was stored here."""

_MAX_REPLACED = 200
"""Turn ids stored of a memory's earlier content; a memory is learned from no more."""
_OF_THE_CONTENT = {"turn_ids", "consolidated_from", DERIVED_FROM, FORM, CONTEXT, ASKED, QUOTE, STATEMENTS, OUTDATED_BY}
"""Metadata that describes the content and is dropped with it: an edited quote is a statement."""


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
    """Raises: InvalidRequestError: it is pinned, and expires or holds within one session."""
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
    """A memory that is stored again.

    Args:
        memory: what would be stored.
        metadata: the caller's, with what was there.

    Raises:
        InvalidRequestError: same.
    """
    lasts_anew = "expires_at" in new.model_fields_set or memory.within_session
    again = replace(
        known,
        importance=max(known.importance, memory.importance),
        expires_at=memory.expires_at if lasts_anew else known.expires_at,
        metadata={**metadata, **owned(new)},
        updated_at=memory.updated_at,
    )
    again = with_pin(again, pinned=True) if new.pinned else again
    require_lasting(again)
    return again


def require_own_session(new: StoreRequest, scope: Scope) -> None:
    """Raises: InvalidRequestError: what holds within a session belongs to no user, or is to be promoted from none."""
    if new.promote and not new.within_session:
        raise InvalidRequestError("needs within_session", field="promote")
    if new.within_session and scope.kind is not OwnerKind.USER:
        raise InvalidRequestError("only users have sessions", field="within_session")


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
