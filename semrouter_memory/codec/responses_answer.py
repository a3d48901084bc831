"""Answers of the Responses API, whole and streamed. Reasoning items and refusals are no text of the answer."""

from typing import Any

from semrouter_memory.codec.answers import ENTRY_BYTES, Texts
from semrouter_memory.codec.base import Answer, strip_reasoning
from semrouter_memory.codec.shape import index, mapping, mappings, string, text_of

CLIENT_CALLS = frozenset(
    {"function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call"}
)
"""Calls that the client carries out and answers; the server's own tools run within one response."""

_ENDED = {"completed": True, "incomplete": False}
"""Statuses of a response that holds an answer, and whether it is complete; without a status it is."""


def responses_answer(response: dict[str, Any]) -> Answer | None:
    """The answer in a response object; None when it failed, was cancelled or is still at work."""
    output = response.get("output")
    complete = _ENDED.get(string(response.get("status", "completed")))
    if complete is None or not isinstance(output, list):
        return None
    items = mappings(output)
    texts = (text_of(item.get("content"), joint="") for item in items if item.get("type") == "message")
    return Answer(
        texts=(strip_reasoning("".join(texts)),),
        complete=complete,
        response_id=string(response.get("id")),
        model=string(response.get("model")),
        calls=tuple(call_name(item) for item in items if string(item.get("type")) in CLIENT_CALLS),
        # A server that leaves the output out of its final object gives an empty list.
        items=tuple(output) or None,
    )


def call_name(item: dict[str, Any]) -> str:
    """The tool that an item calls; built-in tools are named by the item's type."""
    return string(item.get("name")) or string(item.get("type")).removesuffix("_call")


class ResponsesStream:
    """Same as `AnswerStream`, for typed events. The final response object is preferred over the pieces."""

    __slots__ = ("_call_bytes", "_calls", "_ended", "_final", "_model", "_response_id", "_texts")

    def __init__(self) -> None:
        self._texts = Texts()
        self._calls: dict[int, str] = {}
        self._call_bytes = 0
        self._final: Answer | None = None
        self._ended: bool | None = None
        self._response_id = ""
        self._model = ""

    @property
    def kept_bytes(self) -> int:
        return self._texts.kept_bytes + self._call_bytes

    def add(self, name: str, event: dict[str, Any]) -> bool:
        response = mapping(event.get("response"))
        self._response_id = string(response.get("id")) or self._response_id
        self._model = string(response.get("model")) or self._model
        match kind := string(event.get("type")) or name:
            case "response.output_text.delta":
                self._texts.add(_place(event), string(event.get("delta")))
            case "response.output_text.done":
                self._texts.replace(_place(event), string(event.get("text")))
            case "response.output_item.added" | "response.output_item.done":
                self._item(index(event.get("output_index")), mapping(event.get("item")))
            case "response.completed" | "response.incomplete":
                self._ended = kind == "response.completed"
                self._final = responses_answer(response)
            case "response.failed" | "response.cancelled" | "error":
                return False
        return True

    def done(self) -> None:
        """Some servers end this API's streams too with `[DONE]`; what the events said goes first."""
        if self._ended is None:
            self._ended = True

    def answer(self) -> Answer | None:
        if self._final is not None and (self._final.text or self._final.calls):
            return self._final
        texts = self._texts.joined()
        if not texts and not self._calls:
            return self._final
        # A cut stream, or a server that leaves the output out of its final object.
        return Answer(
            texts=(strip_reasoning("".join(text for _, text in texts)),),
            complete=self._ended is True,
            response_id=self._response_id,
            model=self._model,
            calls=tuple(name for _, name in sorted(self._calls.items())),
        )

    def _item(self, position: int, item: dict[str, Any]) -> None:
        if position not in self._calls and string(item.get("type")) in CLIENT_CALLS:
            self._calls[position] = call_name(item)
            self._call_bytes += ENTRY_BYTES + len(self._calls[position])


def _place(event: dict[str, Any]) -> tuple[int, int]:
    return index(event.get("output_index")), index(event.get("content_index"))
