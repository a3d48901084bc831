"""What request bodies of both APIs have in common: being a JSON object, and our own two fields."""

from collections.abc import Mapping
from typing import Any

import orjson

from semrouter_memory.codec.base import BodySettings, ParsedRequest
from semrouter_memory.codec.bounds import holds_too_many_values
from semrouter_memory.codec.settings import OUR_FIELDS, body_values
from semrouter_memory.codec.splice import Member, document, members
from semrouter_memory.errors import BodyError
from semrouter_memory.model import Json


def json_object(raw: bytes) -> dict[str, Any]:
    """The body.

    Raises:
        BodyError: it is not JSON, or not an object, or holds more values than anybody should have to read.
    """
    if holds_too_many_values(raw):
        raise BodyError("the body holds too many values")
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        # The parser's message may quote the body.
        raise BodyError("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BodyError("the body is not a JSON object")
    return body


def body_of(raw: bytes, parsed: ParsedRequest | None) -> Mapping[str, Json]:
    """The body as it was parsed, or parsed again."""
    return parsed.body if parsed is not None and parsed.body is not None else json_object(raw)


def top_level(raw: bytes) -> list[Member]:
    """The members of the body."""
    return list(members(raw, document(raw).start))


def has_our_fields(body: Mapping[str, Json]) -> bool:
    return any(field in body for field in OUR_FIELDS)


def body_settings(body: dict[str, Any]) -> BodySettings:
    """`memory_config` and `memory_context`."""
    if not has_our_fields(body):
        return BodySettings()
    values, unreadable = body_values(body)
    return BodySettings(**values, present=True, unreadable=unreadable)
