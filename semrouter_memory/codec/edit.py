"""What request bodies of both APIs have in common: our own two fields, taking members out, putting the injected text in."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from semrouter_memory.codec.base import BodySettings, ParsedRequest
from semrouter_memory.codec.json_text import json_object, mapping, mappings
from semrouter_memory.codec.settings import OUR_FIELDS, body_values
from semrouter_memory.codec.splice import Edit, Member, Span, document, elements, members
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
    return BodySettings(**values, unreadable=unreadable)


_OWN_TOOLS = ("function", "custom")
"""Types of tools whose calls the client sees."""


def forces_call(body: Mapping[str, Json]) -> bool:
    """Whether the request leaves the model nothing but to call the one tool that it has, which is the client's.

    Where there are several, an agent may force one of them as the first step of a loop.
    """
    choice, tools = body.get("tool_choice"), mappings(body.get("tools"))
    forced = choice in ("required", "any") or mapping(choice).get("type") in _OWN_TOOLS
    return forced and len(tools) == 1 and tools[0].get("type") in _OWN_TOOLS


_SEPARATOR = "\n\n"
"""Between what was there and the block, so that the block stands on its own."""


def last(found: Sequence[Member], key: str) -> Member | None:
    """The member that counts: of duplicate keys parsers take the last one."""
    return next((member for member in reversed(found) if member.key == key), None)


def encoded(text: str) -> bytes:
    """The text as a JSON string. A lone surrogate, which no parser lets in, becomes a question mark."""
    return orjson.dumps(text.encode("utf-8", "replace").decode())


def without(found: Sequence[Member], keys: Collection[str]) -> list[Edit]:
    """Take members out."""
    # A set: a body may repeat a key a hundred thousand times.
    leaving = frozenset(index for index, member in enumerate(found) if member.key in keys)
    return without_elements([Span(member.start, member.value.end) for member in found], leaving)


def without_elements(spans: Sequence[Span], indexes: Collection[int]) -> list[Edit]:
    """Take elements out of an array, or members out of an object, each with the comma that joined it to one that stays."""
    edits: list[Edit] = []
    stays_before = False
    for index, span in enumerate(spans):
        if index not in indexes:
            stays_before = True
        elif stays_before:
            edits.append(Edit(spans[index - 1].end, span.end))
        else:
            following = spans[index + 1].start if index + 1 < len(spans) else span.end
            edits.append(Edit(span.start, following))
    return edits


def with_member(obj: Span, found: Sequence[Member], key: str, value: bytes, *, leaving: Collection[str] = ()) -> Edit:
    """Add a member behind the last one, not counting those that are `leaving`."""
    staying = [member for member in found if member.key not in leaving]
    at = staying[-1].value.end if staying else obj.start + 1
    return Edit(at, at, (b"," if staying else b"") + encoded(key) + b":" + value)


def into_string(raw: bytes, string: Span, block: str) -> Edit:
    """Append to a string: before its closing quote, so that what was there stays a byte-identical prefix."""
    text = block if raw[string.start : string.end] == b'""' else _SEPARATOR + block
    return Edit(string.end - 1, string.end - 1, encoded(text)[1:-1])


def into_parts(raw: bytes, parts: Span, part_type: str, block: str) -> Edit:
    """Append a text part. It brings its own separation: many chat templates join parts without any."""
    there = list(elements(raw, parts.start))
    text = _SEPARATOR + block if there else block
    part = b'{"type":' + encoded(part_type) + b',"text":' + encoded(text) + b"}"
    at = there[-1].end if there else parts.start + 1
    return Edit(at, at, (b"," if there else b"") + part)


def into_message(raw: bytes, message: Span, part_type: str, block: str) -> list[Edit]:
    """Append to a message's `content`, whatever its form; nothing when it has a form that no API knows."""
    found = list(members(raw, message.start))
    content = last(found, "content")
    if content is None:
        return [with_member(message, found, "content", encoded(block))]
    return into_value(raw, content.value, block, part_type=part_type)


def takes_text(content: Json, *, parts: bool) -> bool:
    """Whether text can be put into a parsed value as `into_value` does, into a list if parts are allowed."""
    return content is None or isinstance(content, str) or (parts and isinstance(content, list))


def into_value(raw: bytes, value: Span, block: str, *, part_type: str | None = None) -> list[Edit]:
    """Append to a string, replace null, or append a part to a list if parts are allowed; else nothing."""
    match raw[value.start : value.start + 1]:
        case b'"':
            return [into_string(raw, value, block)]
        case b"n":
            return [Edit(value.start, value.end, encoded(block))]
        case b"[" if part_type is not None:
            return [into_parts(raw, value, part_type, block)]
        case _:
            return []


def with_texts(raw: bytes, array: Span, key: str, texts: Mapping[int, str]) -> list[Edit]:
    """Put texts in place of what these elements of an array have under that key."""
    spans = list(elements(raw, array.start))
    held = ((last(list(members(raw, spans[place].start)), key), text) for place, text in texts.items())
    return [Edit(*member.value, encoded(text)) for member, text in held if member is not None]


def before_elements(raw: bytes, array: Span, element: bytes) -> Edit:
    """Insert a first element into an array."""
    first = next(elements(raw, array.start), None)
    return Edit(first.start, first.start, element + b",") if first else Edit(array.start + 1, array.start + 1, element)
