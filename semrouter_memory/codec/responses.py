"""The Responses API (`/v1/responses`)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import orjson

from semrouter_memory.codec.answers import reader_for
from semrouter_memory.codec.base import AnswerReader, Outline, ParsedRequest
from semrouter_memory.codec.conversation import Call, Entry, Kind, converse, outline
from semrouter_memory.codec.edit import (
    encoded,
    into_message,
    into_value,
    last,
    takes_text,
    with_member,
    without,
    without_elements,
)
from semrouter_memory.codec.items import ATTACHED, CALLS, OUTPUTS, holds_more_than_text
from semrouter_memory.codec.json_text import json_object
from semrouter_memory.codec.request import body_of, body_settings, has_our_fields, top_level
from semrouter_memory.codec.responses_answer import ResponsesStream, call_name, responses_answer
from semrouter_memory.codec.settings import OUR_FIELDS
from semrouter_memory.codec.shape import mapping, string, text_of
from semrouter_memory.codec.splice import Edit, Member, apply, document, element, elements
from semrouter_memory.errors import BodyError
from semrouter_memory.model import Json, Position

_KINDS = {"user": Kind.USER, "assistant": Kind.ASSISTANT}
_REBUILT = (*OUR_FIELDS, "previous_response_id")
"""What leaves a request whose chain is rebuilt."""


class ResponsesCodec:
    """Same as `Codec`, for the Responses API.

    The system position is `instructions`, which a server does not carry over to the next response.
    """

    __slots__ = ()

    def parse(self, raw: bytes) -> ParsedRequest:
        body = json_object(raw)
        entries = _conversation(body)
        return ParsedRequest(
            settings=body_settings(body),
            model=string(body.get("model")),
            previous_response_id=string(body.get("previous_response_id")),
            conversation_id=_conversation_id(body.get("conversation")),
            stored_by_server=body.get("store") is not False,
            body=body,
            entries=entries,
            # One answer may consist of several messages; `output_text` of the SDKs joins them without anything between.
            **converse(entries, joint=""),
        )

    def outline(self, parsed: ParsedRequest) -> Outline:
        return outline(parsed.entries, joint="")

    def items(self, parsed: ParsedRequest) -> tuple[Json, ...] | None:
        given = (parsed.body or {}).get("input")
        own = [_user_item(given)] if isinstance(given, str) else given
        return tuple(own) if isinstance(own, list) else None

    def has_place(self, parsed: ParsedRequest, position: Position) -> bool:
        body = parsed.body or {}
        if position is Position.SYSTEM:
            return takes_text(body.get("instructions"), parts=False)
        given = body.get("input")
        if not isinstance(given, list):
            return isinstance(given, str)
        index = _last_user_message(given)
        return index is not None and takes_text(given[index].get("content"), parts=True)

    def rewrite(
        self,
        raw: bytes,
        *,
        block: str,
        position: Position,
        parsed: ParsedRequest | None = None,
        dropped: Collection[int] = (),
        items: Sequence[Json] | None = None,
    ) -> bytes:
        body = body_of(raw, parsed)
        rebuilt = items is not None and isinstance(body.get("input"), str | list)
        if not block and not dropped and not rebuilt and not has_our_fields(body):
            return raw
        found = top_level(raw)
        # A rebuilt loop's step brings no user message, so a rebuilt chain always has the block in the instructions.
        tail = position is Position.USER_TAIL and not rebuilt
        placed = _placed(raw, found, body.get("input"), block, tail=tail, rebuilt=rebuilt) if block else []
        if block and not placed:
            # Without a place for what stands in for them, the earlier turns stay.
            return apply(raw, without(found, OUR_FIELDS))
        given = last(found, "input")
        if dropped and given is not None:
            placed += without_elements(list(elements(raw, given.value.start)), dropped)
        if rebuilt and given is not None:
            placed += _before_input(raw, given, items or ())
        return apply(raw, without(found, _REBUILT if rebuilt else OUR_FIELDS) + placed)

    def answer_reader(self, content_type: str, *, max_bytes: int) -> AnswerReader | None:
        return reader_for(content_type, responses_answer, ResponsesStream, max_bytes=max_bytes)


def _conversation_id(value: Any) -> str:
    return string(value) or string(mapping(value).get("id"))


def _conversation(body: Mapping[str, Json]) -> list[Entry]:
    instructions = Entry(Kind.CONTEXT, string(body.get("instructions")))
    given = body.get("input")
    if isinstance(given, str):
        entries = [Entry(Kind.USER, given)]
    elif isinstance(given, list):
        entries = list(_entries(given))
    elif given is None:  # a stored prompt or a conversation may stand in for it
        entries = []
    else:
        raise BodyError("input is neither a string nor a list")
    return [instructions, *entries]


def _entries(items: list[Any]) -> Iterator[Entry]:
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        kind = string(item.get("type", "message"))
        call_id = string(item.get("call_id"))
        if kind == "message":
            yield _message(item, place)
        elif kind in CALLS:
            yield Entry(Kind.ASSISTANT, calls=(Call(call_id, call_name(item)),), place=place)
        elif kind in OUTPUTS:
            yield Entry(Kind.RESULT, text_of(item.get("output")), call_id=call_id, place=place)
        elif kind in ATTACHED:
            yield _attached(item, kind, place)
        else:
            # A compaction, a reference, or what did not exist when this was written: its meaning is unknown.
            yield Entry(Kind.CONTEXT, place=place)


def _message(item: dict[str, Any], place: int) -> Entry:
    kind = _KINDS.get(string(item.get("role")), Kind.CONTEXT)
    text = text_of(item.get("content"), joint="" if kind is Kind.ASSISTANT else "\n")
    return Entry(kind, text, place=place, lasting=holds_more_than_text(item))


def _attached(item: dict[str, Any], kind: str, place: int) -> Entry:
    """What a user is asked to approve and the approval are held together like a call and its result."""
    if kind == "mcp_approval_request":
        return Entry(Kind.ATTACHED, calls=(Call(string(item.get("id")), ""),), place=place)
    return Entry(
        Kind.ATTACHED,
        call_id=string(item.get("approval_request_id")),
        place=place,
        lasting=holds_more_than_text(item),
    )


def _user_item(text: str) -> dict[str, str]:
    return {"type": "message", "role": "user", "content": text}


def _before_input(raw: bytes, given: Member, items: Sequence[Json]) -> list[Edit]:
    """Items before the request's own; a text becomes the item that it stands for, its bytes as they are."""
    start, end = given.value
    earlier = b",".join(orjson.dumps(item) for item in items)
    match raw[start : start + 1]:
        case b"[":
            more = earlier and next(elements(raw, start), None) is not None
            return [Edit(start + 1, start + 1, earlier + (b"," if more else b""))]
        case b'"':
            opening = b"[" + earlier + (b"," if earlier else b"") + b'{"type":"message","role":"user","content":'
            # Behind the text may be the place of another member, hence not an insertion there.
            return [Edit(start, start, opening), Edit(end - 1, end, b'"}]')]
        case _:
            return []


def _placed(raw: bytes, found: list[Member], given: Json, block: str, *, tail: bool, rebuilt: bool) -> list[Edit]:
    if tail:
        return _in_user_tail(raw, found, given, block)
    return _in_instructions(raw, found, block, _REBUILT if rebuilt else OUR_FIELDS)


def _in_instructions(raw: bytes, found: list[Member], block: str, leaving: Collection[str]) -> list[Edit]:
    instructions = last(found, "instructions")
    if instructions is None:
        return [with_member(document(raw), found, "instructions", encoded(block), leaving=leaving)]
    return into_value(raw, instructions.value, block)


def _in_user_tail(raw: bytes, found: list[Member], given: Any, block: str) -> list[Edit]:
    member = last(found, "input")
    if member is None:
        return []
    if isinstance(given, str):
        return into_value(raw, member.value, block)
    items = given if isinstance(given, list) else []
    index = _last_user_message(items)
    return into_message(raw, element(raw, member.value, index), "input_text", block) if index is not None else []


def _last_user_message(items: Sequence[Any]) -> int | None:
    found = (
        index
        for index, item in enumerate(items)
        if isinstance(item, dict) and item.get("type", "message") == "message" and item.get("role") == "user"
    )
    return max(found, default=None)
