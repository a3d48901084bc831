"""Answers of chat completions, whole and streamed.

Reasoning (`reasoning_content`, `reasoning`, `<think>`) and refusals are no text of the answer.
"""

from collections.abc import Iterator
from typing import Any

from semrouter_memory.codec.answers import ENTRY_BYTES, Texts
from semrouter_memory.codec.base import Answer, strip_reasoning
from semrouter_memory.codec.shape import index, mapping, mappings, string, text_of


def chat_answer(body: dict[str, Any]) -> Answer | None:
    """The answer in a whole body: `choices` with a `message` each."""
    choices = sorted(mappings(body.get("choices")), key=lambda choice: index(choice.get("index")))
    messages = [mapping(choice.get("message")) for choice in choices]
    if not messages:
        return None
    return Answer(
        texts=tuple(strip_reasoning(text_of(message.get("content"))) for message in messages),
        complete=True,
        response_id=string(body.get("id")),
        model=string(body.get("model")),
        calls=tuple(name for call in tool_calls(messages[0]) if (name := tool_name(call))),
    )


def tool_calls(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tool calls of a message or delta; the older `function_call` in the same form, without an id."""
    yield from mappings(message.get("tool_calls"))
    if isinstance(older := message.get("function_call"), dict):
        yield {"function": older}


def tool_name(call: dict[str, Any]) -> str:
    """The name in a tool call, of a function or a custom tool."""
    return string((mapping(call.get("function")) or mapping(call.get("custom"))).get("name"))


class ChatStream:
    """Same as `AnswerStream`, for chunks with `choices` that have a `delta` each."""

    __slots__ = ("_call_bytes", "_call_ids", "_calls", "_done", "_finished", "_model", "_response_id", "_texts")

    def __init__(self) -> None:
        self._texts = Texts()
        self._calls: dict[tuple[int, int, str], str] = {}
        self._call_ids: dict[tuple[int, int], str] = {}
        self._call_bytes = 0
        self._finished: set[int] = set()
        self._done = False
        self._response_id = ""
        self._model = ""

    @property
    def kept_bytes(self) -> int:
        return self._texts.kept_bytes + self._call_bytes

    def add(self, name: str, event: dict[str, Any]) -> bool:  # noqa: ARG002 - chunks carry no event name
        self._response_id = self._response_id or string(event.get("id"))
        self._model = self._model or string(event.get("model"))
        for choice in mappings(event.get("choices")):
            number = index(choice.get("index"))
            delta = mapping(choice.get("delta"))
            self._texts.add((number,), text_of(delta.get("content"), joint=""))
            for call in tool_calls(delta):
                self._call(number, call)
            if choice.get("finish_reason"):
                self._finished.add(number)
        return True

    def done(self) -> None:
        self._done = True

    def answer(self) -> Answer | None:
        choices = self._texts.joined()
        if not choices:
            return None
        ((first,), _), *_ = choices
        return Answer(
            texts=tuple(strip_reasoning(text) for _, text in choices),
            complete=self._done or first in self._finished,
            response_id=self._response_id,
            model=self._model,
            calls=tuple(name for (choice, *_), name in self._calls.items() if choice == first and name),
        )

    def _call(self, choice: int, call: dict[str, Any]) -> None:
        """Pieces of a call share its index, but some servers give every call the index 0: then the ids differ."""
        position = (choice, index(call.get("index")))
        call_id = string(call.get("id")) or self._call_ids.get(position, "")
        self._call_ids[position] = call_id
        key = (*position, call_id)
        if key not in self._calls:
            self._calls[key] = ""
            self._call_bytes += ENTRY_BYTES + len(call_id)
        if not self._calls[key]:
            self._calls[key] = tool_name(call)
            self._call_bytes += len(self._calls[key])
