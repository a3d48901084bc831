"""Chat completions (`/v1/chat/completions`)."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from semrouter_memory.codec.answers import reader_for
from semrouter_memory.codec.base import AnswerReader, Outline, ParsedRequest
from semrouter_memory.codec.chat_answer import ChatStream, chat_answer, tool_calls, tool_name
from semrouter_memory.codec.conversation import Call, Entry, Kind, converse, outline
from semrouter_memory.codec.edit import (
    before_elements,
    encoded,
    into_message,
    last,
    takes_text,
    without,
    without_elements,
)
from semrouter_memory.codec.json_text import json_object
from semrouter_memory.codec.request import body_of, body_settings, has_our_fields, top_level
from semrouter_memory.codec.settings import OUR_FIELDS
from semrouter_memory.codec.shape import holds_more, mapping, string, text_of
from semrouter_memory.codec.splice import Edit, Span, apply, element, elements
from semrouter_memory.errors import BodyError
from semrouter_memory.model import Json, Position

_KINDS = {"user": Kind.USER, "assistant": Kind.ASSISTANT, "tool": Kind.RESULT, "function": Kind.RESULT}
_SYSTEM_ROLES = ("system", "developer")


class ChatCodec:
    """Same as `Codec`, for chat completions."""

    __slots__ = ()

    def parse(self, raw: bytes) -> ParsedRequest:
        body = json_object(raw)
        messages = body.get("messages", [])
        if not isinstance(messages, list):
            raise BodyError("messages is not a list")
        entries = list(_entries(messages))
        return ParsedRequest(
            settings=body_settings(body),
            model=string(body.get("model")),
            body=body,
            entries=entries,
            **converse(entries, joint="\n"),
        )

    def outline(self, parsed: ParsedRequest) -> Outline:
        return outline(parsed.entries, joint="\n")

    def items(self, parsed: ParsedRequest) -> tuple[Json, ...] | None:  # noqa: ARG002 - this API has none
        return None

    def has_place(self, parsed: ParsedRequest, position: Position) -> bool:
        messages = (parsed.body or {}).get("messages")
        if not isinstance(messages, list):
            return False
        index = _place(messages, position)
        if index is None:
            return position is Position.SYSTEM
        return takes_text(messages[index].get("content"), parts=True)

    def rewrite(
        self,
        raw: bytes,
        *,
        block: str,
        position: Position,
        parsed: ParsedRequest | None = None,
        dropped: Collection[int] = (),
        items: Sequence[Json] | None = None,  # noqa: ARG002 - a chat completion continues nothing that a server keeps
    ) -> bytes:
        body = body_of(raw, parsed)
        if not block and not dropped and not has_our_fields(body):
            return raw
        found = top_level(raw)
        edits = without(found, OUR_FIELDS)
        messages = last(found, "messages")
        if messages is None:
            return apply(raw, edits)
        placed = _placed(raw, messages.value, body["messages"], block, position) if block else []
        # Without a place for what stands in for them, the earlier turns stay.
        if dropped and (placed or not block):
            placed += without_elements(list(elements(raw, messages.value.start)), dropped)
        return apply(raw, edits + placed)

    def answer_reader(self, content_type: str, *, max_bytes: int) -> AnswerReader | None:
        return reader_for(content_type, chat_answer, ChatStream, max_bytes=max_bytes)


def _entries(messages: list[Any]) -> Iterator[Entry]:
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        kind = _KINDS.get(string(message.get("role")), Kind.CONTEXT)
        text = text_of(message.get("content"))
        # Of what was spoken the text stands elsewhere, and a later request names it by its id.
        lasting = holds_more(message.get("content")) or message.get("audio") is not None
        if kind is Kind.ASSISTANT:
            calls = tuple(_call(call) for call in tool_calls(message))
            yield Entry(kind, text, calls=calls, place=place, lasting=lasting)
        elif kind is Kind.RESULT:
            # The older form, role `function`, refers to its call by name.
            yield Entry(kind, text, call_id=string(message.get("tool_call_id") or message.get("name")), place=place)
        else:
            yield Entry(kind, text, place=place, lasting=lasting)


def _call(call: dict[str, Any]) -> Call:
    name = tool_name(call)
    return Call(string(call.get("id")) or name, name)


def _placed(raw: bytes, array: Span, messages: Any, block: str, position: Position) -> list[Edit]:
    index = _place(messages, position)
    if index is not None:
        return into_message(raw, element(raw, array, index), "text", block)
    if position is Position.SYSTEM:
        return [before_elements(raw, array, b'{"role":"system","content":' + encoded(block) + b"}")]
    return []


def _place(messages: list[Any], position: Position) -> int | None:
    """The last user message, or the first system message: many chat templates reject a second or later one."""
    if position is Position.USER_TAIL:
        return max((index for index, message in enumerate(messages) if _role(message) == "user"), default=None)
    return next((index for index, message in enumerate(messages) if _role(message) in _SYSTEM_ROLES), None)


def _role(message: Any) -> str:
    return string(mapping(message).get("role"))
