"""Chat completions (`/v1/chat/completions`): requests, and answers whole and streamed.

Reasoning (`reasoning_content`, `reasoning`, `<think>`) and refusals are no text of the answer; that of a spoken one is its
transcript.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from semrouter_memory.codec.answers import ENTRY_BYTES, AnswerStream
from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.base import Answer, strip_reasoning
from semrouter_memory.codec.conversation import Call, Entry, Kind
from semrouter_memory.codec.json_text import holds_more, index, mapping, mappings, string, text_of
from semrouter_memory.errors import BodyError
from semrouter_memory.model import Json, Position


def _said(message: dict[str, Any]) -> str:
    """The text of an answer or a delta; of a spoken one, its transcript. A citation may part it in mid-sentence."""
    return text_of(message.get("content"), joint="") or string(mapping(message.get("audio")).get("transcript"))


def _depicts(message: dict[str, Any]) -> bool:
    """Whether a message or delta has an image: next to its text, as most servers send them, or among its parts."""
    return bool(mappings(message.get("images")) or _parts(message, "image_url"))


def tool_calls(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tool calls of a message or delta; the older `function_call` in the same form, without an id.

    Some clients (Cursor) have them in the content, as Anthropic's API does, and the results in a user's message.
    """
    yield from mappings(message.get("tool_calls"))
    if isinstance(older := message.get("function_call"), dict):
        yield {"function": older}
    for part in _parts(message, "tool_use"):
        yield {"id": part.get("id"), "function": part}


def _parts(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [part for part in mappings(message.get("content")) if part.get("type") == kind]


def tool_name(call: dict[str, Any]) -> str:
    """The name in a tool call, of a function or a custom tool."""
    return string(_called(call).get("name"))


def _arguments(call: dict[str, Any]) -> str:
    called = _called(call)
    return string(called.get("arguments")) or string(called.get("input"))


def _called(call: dict[str, Any]) -> dict[str, Any]:
    return mapping(call.get("function")) or mapping(call.get("custom"))


class ChatStream(AnswerStream):
    """In a stream, chunks with `choices` that have a `delta` each."""

    __slots__ = ("_arguments", "_call_ids", "_calls", "_depicting", "_finished")

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[tuple[int, int, str], str] = {}
        self._arguments: dict[tuple[int, int, str], bytearray] = {}
        self._call_ids: dict[tuple[int, int], str] = {}
        self._depicting: set[int] = set()
        self._finished: set[int] = set()

    @staticmethod
    def whole(body: dict[str, Any]) -> Answer | None:
        """From `choices` with a `message` each."""
        choices = sorted(mappings(body.get("choices")), key=lambda choice: index(choice.get("index")))
        messages = [mapping(choice.get("message")) for choice in choices]
        if not messages:
            return None
        return Answer(
            texts=tuple(strip_reasoning(_said(message)) for message in messages),
            complete=True,
            response_id=string(body.get("id")),
            model=string(body.get("model")),
            calls=tuple(name for call in tool_calls(messages[0]) if (name := tool_name(call))),
            arguments="".join(_arguments(call) for call in tool_calls(messages[0])),
            depicts=_depicts(messages[0]),
        )

    def add(self, name: str, event: dict[str, Any]) -> bool:  # noqa: ARG002 - chunks carry no event name
        self._response_id = self._response_id or string(event.get("id"))
        self._model = self._model or string(event.get("model"))
        for choice in mappings(event.get("choices")):
            number = index(choice.get("index"))
            delta = mapping(choice.get("delta"))
            self._add_text((number,), _said(delta))
            for call in tool_calls(delta):
                self._call(number, call)
            if _depicts(delta):
                self._depicting.add(number)
            if choice.get("finish_reason"):
                self._finished.add(number)
        return True

    def answer(self) -> Answer | None:
        choices = self._joined()
        if not choices:
            return None
        ((first,), _), *_ = choices
        return Answer(
            texts=tuple(strip_reasoning(text) for _, text in choices),
            complete=self.ended or first in self._finished,
            response_id=self._response_id,
            model=self._model,
            calls=tuple(name for (choice, *_), name in self._calls.items() if choice == first and name),
            arguments=b"".join(held for (choice, *_), held in self._arguments.items() if choice == first).decode(),
            depicts=first in self._depicting,
        )

    def _call(self, choice: int, call: dict[str, Any]) -> None:
        """Pieces of a call share its index, but some servers give every call the index 0: then the ids differ."""
        position = (choice, index(call.get("index")))
        call_id = string(call.get("id")) or self._call_ids.get(position, "")
        self._call_ids[position] = call_id
        key = (*position, call_id)
        if key not in self._calls:
            self._calls[key] = ""
            self._arguments[key] = bytearray()
            self.kept_bytes += ENTRY_BYTES + len(call_id)
        if not self._calls[key]:
            self._calls[key] = tool_name(call)
            self.kept_bytes += len(self._calls[key])
        piece = _arguments(call).encode("utf-8", "replace")
        self._arguments[key] += piece
        self.kept_bytes += len(piece)


_KINDS = {"user": Kind.USER, "assistant": Kind.ASSISTANT, "tool": Kind.RESULT, "function": Kind.RESULT}
_SYSTEM_ROLES = ("system", "developer")
_RESULT = "tool_result"


class ChatCodec(Codec):
    """Same as `Codec`, for chat completions."""

    __slots__ = ()
    array, part_type, result_text, joint = "messages", "text", "content", "\n"
    stream = ChatStream

    def entries(self, body: dict[str, Any]) -> list[Entry]:
        messages = body.get("messages", [])
        if not isinstance(messages, list):
            raise BodyError("messages is not a list")
        return list(_entries(messages))

    def place(self, body: Mapping[str, Json], position: Position) -> int | None:
        """The last user message, or the first system message: many chat templates reject a second or later one."""
        messages = body.get("messages")
        if not isinstance(messages, list):
            return None
        found = [mapping(message) for message in messages]
        roles = [string(message.get("role")) for message in found]
        if position is Position.USER_TAIL:
            users = (index for index, role in enumerate(roles) if role == "user" and not _only_returns(found[index]))
            return max(users, default=None)
        return next((index for index, role in enumerate(roles) if role in _SYSTEM_ROLES), -1)

    def is_replaceable(self, item: dict[str, Any]) -> bool:
        return not holds_more(item.get("content"))


def _entries(messages: list[Any]) -> Iterator[Entry]:
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            continue
        kind = _KINDS.get(string(message.get("role")), Kind.CONTEXT)
        text = text_of(message.get("content"), joint="" if kind is Kind.ASSISTANT else "\n")
        for result in _parts(message, _RESULT) or ([message] if kind is Kind.RESULT else []):
            # The older form, role `function`, refers to its call by name.
            call_id = string(result.get("tool_use_id") or result.get("tool_call_id") or result.get("name"))
            yield Entry(Kind.RESULT, text_of(result.get("content")), call_id=call_id, place=place)
        # Of what was spoken the text stands elsewhere, and a later request names it by its id.
        lasting = holds_more(message.get("content")) or message.get("audio") is not None or _depicts(message)
        if kind is Kind.ASSISTANT:
            calls = tuple(_call(call) for call in tool_calls(message))
            yield Entry(kind, text, calls=calls, place=place, lasting=lasting)
        elif kind is not Kind.RESULT and not _only_returns(message):
            yield Entry(kind, text, place=place, lasting=lasting, speaker=string(message.get("name")))


def _only_returns(message: dict[str, Any]) -> bool:
    """Whether a message is nothing but results in the content, in which its author says nothing."""
    return bool(_parts(message, _RESULT)) and not text_of(message.get("content"))


def _call(call: dict[str, Any]) -> Call:
    name = tool_name(call)
    return Call(string(call.get("id")) or name, name, _arguments(call))
