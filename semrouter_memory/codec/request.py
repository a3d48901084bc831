"""What request bodies of both APIs have in common: being a JSON object, and our own two fields."""

from collections.abc import Mapping
from typing import Any

from semrouter_memory.codec.base import BodySettings, ParsedRequest
from semrouter_memory.codec.json_text import json_object
from semrouter_memory.codec.settings import OUR_FIELDS, body_values
from semrouter_memory.codec.splice import Member, document, members
from semrouter_memory.model import Json

_ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be")


def body_of(raw: bytes, parsed: ParsedRequest | None) -> Mapping[str, Json]:
    """The body as it was parsed, or parsed again."""
    return parsed.body if parsed is not None and parsed.body is not None else json_object(raw)


def top_level(raw: bytes) -> list[Member]:
    """The members of the body."""
    return list(members(raw, document(raw).start))


def has_our_fields(body: Mapping[str, Json]) -> bool:
    return any(field in body for field in OUR_FIELDS)


def names_our_fields(raw: bytes) -> bool:
    """Whether a body that cannot be parsed seems to have one of our fields."""
    return any(field.encode(encoding) in raw for field in OUR_FIELDS for encoding in _ENCODINGS)


def body_settings(body: dict[str, Any]) -> BodySettings:
    """`memory_config` and `memory_context`."""
    if not has_our_fields(body):
        return BodySettings()
    values, unreadable = body_values(body)
    return BodySettings(**values, present=True, unreadable=unreadable)
