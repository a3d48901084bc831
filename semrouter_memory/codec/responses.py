"""The Responses API (`/v1/responses`)."""

from collections.abc import Iterator
from typing import Any

from semrouter_memory.codec.answers import reader_for
from semrouter_memory.codec.base import AnswerReader, ParsedRequest
from semrouter_memory.codec.conversation import Call, Conversation, Entry, Kind, converse
from semrouter_memory.codec.edit import encoded, into_message, into_value, last, with_member, without
from semrouter_memory.codec.request import OUR_FIELDS, body_settings, has_our_fields, json_object, top_level
from semrouter_memory.codec.responses_answer import CLIENT_CALLS, ResponsesStream, call_name, responses_answer
from semrouter_memory.codec.shape import mapping, mappings, string, text_of
from semrouter_memory.codec.splice import Edit, Member, apply, document, element
from semrouter_memory.errors import BodyError
from semrouter_memory.model import Position

_KINDS = {"user": Kind.USER, "assistant": Kind.ASSISTANT}
_OUTPUTS = frozenset(f"{call}_output" for call in CLIENT_CALLS)


class ResponsesCodec:
    """Same as `Codec`, for the Responses API.

    The system position is `instructions`, which a server does not carry over to the next response.
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        return "responses"

    def parse(self, raw: bytes) -> ParsedRequest:
        body = json_object(raw)
        return ParsedRequest(
            settings=body_settings(body),
            model=string(body.get("model")),
            stream=body.get("stream") is True,
            previous_response_id=string(body.get("previous_response_id")),
            conversation_id=_conversation_id(body.get("conversation")),
            stored_by_server=body.get("store") is not False,
            **_conversation(body),
        )

    def rewrite(self, raw: bytes, *, block: str, position: Position) -> bytes:
        body = json_object(raw)
        if not block and not has_our_fields(body):
            return raw
        found = top_level(raw)
        edits = without(found, OUR_FIELDS)
        if block and position is Position.USER_TAIL:
            edits += _in_user_tail(raw, found, body.get("input"), block)
        elif block:
            edits += _in_instructions(raw, found, block)
        return apply(raw, edits)

    def answer_reader(self, content_type: str, *, max_bytes: int) -> AnswerReader | None:
        return reader_for(content_type, responses_answer, ResponsesStream, max_bytes=max_bytes)


def _conversation_id(value: Any) -> str:
    return string(value) or string(mapping(value).get("id"))


def _conversation(body: dict[str, Any]) -> Conversation:
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
    # One answer may consist of several messages; `output_text` of the SDKs joins them without anything between.
    return converse([instructions, *entries], joint="")


def _entries(items: list[Any]) -> Iterator[Entry]:
    for item in mappings(items):
        kind = string(item.get("type", "message"))
        if kind == "message":
            yield _message(item)
        elif kind in CLIENT_CALLS:
            yield Entry(Kind.ASSISTANT, calls=(Call(string(item.get("call_id")), call_name(item)),))
        elif kind in _OUTPUTS:
            yield Entry(Kind.RESULT, text_of(item.get("output")), call_id=string(item.get("call_id")))


def _message(item: dict[str, Any]) -> Entry:
    kind = _KINDS.get(string(item.get("role")), Kind.CONTEXT)
    return Entry(kind, text_of(item.get("content"), joint="" if kind is Kind.ASSISTANT else "\n"))


def _in_instructions(raw: bytes, found: list[Member], block: str) -> list[Edit]:
    instructions = last(found, "instructions")
    if instructions is None:
        return [with_member(document(raw), found, "instructions", encoded(block), leaving=OUR_FIELDS)]
    return into_value(raw, instructions.value, block)


def _in_user_tail(raw: bytes, found: list[Member], given: Any, block: str) -> list[Edit]:
    member = last(found, "input")
    if member is None:
        return []
    if isinstance(given, str):
        return into_value(raw, member.value, block)
    items = given if isinstance(given, list) else []
    index = max((index for index, item in enumerate(items) if _is_user_message(item)), default=None)
    return into_message(raw, element(raw, member.value, index), "input_text", block) if index is not None else []


def _is_user_message(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type", "message") == "message" and item.get("role") == "user"
