"""The Responses API (`/v1/responses`): requests, their items, and answers whole and streamed.

Reasoning items and refusals are no text of the answer. When a conversation's beginning is left out, only items of a known
kind leave: unknown items stay in any position, as system messages do.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import orjson

from semrouter_memory.codec.answers import ENTRY_BYTES, AnswerStream
from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.base import Answer, ParsedRequest, strip_reasoning
from semrouter_memory.codec.conversation import Call, Entry, Kind
from semrouter_memory.codec.json_text import holds_more, index, mapping, mappings, string, text_of
from semrouter_memory.codec.splice import Edit, Member, elements
from semrouter_memory.errors import BodyError
from semrouter_memory.model import Json, Position

CLIENT_CALLS = frozenset(
    {"function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call"}
)
"""Calls that the client carries out and answers; the server's own tools run within one response."""
_APPROVAL, _APPROVED = "mcp_approval_request", "mcp_approval_response"
"""A call of a server's tool that waits for the client's word, and that word."""
_IMAGE = "image_generation_call"
"""An image, an answer as a message is."""
_COMPACTION = "compaction"
"""What a server made of the conversation up to there."""
_SEARCH, _FOUND = "tool_search_call", "tool_search_output"
"""A search for tools, and the tools that are known from there on; the item says who carries it out."""

_ENDED = ("completed", "incomplete")
"""Statuses of a response that is at its end. An incomplete one met a limit, like a chat with the finish reason `length`."""


_AT_WORK = ("queued", "in_progress")


def _waits(item: dict[str, Any]) -> bool:
    """Whether an item calls for something from the client, so that the turn goes on."""
    kind = string(item.get("type"))
    return kind in CLIENT_CALLS or kind == _APPROVAL or (kind == _SEARCH and _is_clients(item))


def _is_subagents(item: dict[str, Any]) -> bool:
    """Whether an item or event is that of an agent which the model started; the one that answers is called `/root`."""
    return string(mapping(item.get("agent")).get("agent_name")).count("/") > 1


def _arguments(item: dict[str, Any]) -> str:
    return string(item.get("arguments")) or string(item.get("input"))


def _is_clients(item: dict[str, Any]) -> bool:
    return item.get("execution") == "client"


def call_name(item: dict[str, Any]) -> str:
    """The tool that an item calls; built-in tools are named by the item's type."""
    return string(item.get("name")) or string(item.get("type")).removesuffix("_call")


def _is_async(item: dict[str, Any]) -> bool:
    """Whether the model goes on without the result, which may come many turns later."""
    return item.get("async") is True


_HELD = ("type", "id", "call_id", "approval_request_id", "execution", "name", "arguments", "input", "async")
"""What of an item tells whether the client has to act, and how."""


def _answer(output: Sequence[dict[str, Any]], **known: Any) -> Answer:
    """An answer of that output.

    A call whose result is there, too, is the server's own, as of a hosted shell, and so is one behind which the model speaks (xAI's
    search). Beside a text an asynchronous one ends no turn.
    """
    said = [text_of(item.get("content"), joint="") if _is_answers(item) else "" for item in output]
    text = strip_reasoning("".join(said))
    spoken = max((at for at, words in enumerate(said) if words.strip()), default=-1)
    done = {_call_id(item) for item in output if string(item.get("type")) in OUTPUTS}
    waiting = [item for item in output[spoken + 1 :] if _waits(item) and _call_id(item) not in done]
    calls = [item for item in waiting if not (text and _is_async(item))]
    return Answer(
        texts=(text,),
        calls=tuple(map(call_name, calls)),
        arguments="".join(map(_arguments, calls)),
        depicts=any(item.get("type") == _IMAGE for item in output),
        **known,
    )


def _is_answers(item: dict[str, Any]) -> bool:
    return item.get("type") == "message" and not _is_subagents(item)


class ResponsesStream(AnswerStream):
    """In a stream, typed events. The final response object is preferred over the pieces."""

    __slots__ = ("_final", "_items")

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, dict[str, Any]] = {}
        self._final: Answer | None = None

    @staticmethod
    def whole(body: dict[str, Any]) -> Answer | None:
        """From a response object; None when it failed, was cancelled, or is still at work but not in the background."""
        output, status = body.get("output"), body.get("status", "completed")
        is_later = body.get("background") is True and status in _AT_WORK
        if not (is_later or status in _ENDED) or not isinstance(output, list):
            return None
        return _answer(
            mappings(output),
            complete=not is_later,
            is_later=is_later,
            response_id=string(body.get("id")),
            model=string(body.get("model")),
            # A server that leaves the output out of its final object gives an empty list.
            items=None if is_later else tuple(output) or None,
        )

    def add(self, name: str, event: dict[str, Any]) -> bool:
        response = mapping(event.get("response"))
        self._response_id = string(response.get("id")) or self._response_id
        self._model = string(response.get("model")) or self._model
        match string(event.get("type")) or name:
            case "response.output_text.delta" if not _is_subagents(event):
                self._add_text(_place(event), string(event.get("delta")))
            case "response.output_text.done" if not _is_subagents(event):
                self._replace_text(_place(event), string(event.get("text")))
            case "response.output_item.added" | "response.output_item.done":
                self._item(index(event.get("output_index")), mapping(event.get("item")))
            case "response.created":
                self._final = self.whole(response)
            case "response.completed" | "response.incomplete":
                self.ended = True
                self._final = self.whole(response)
            case "response.failed" | "response.cancelled" | "error":
                return False
        return True

    def answer(self) -> Answer | None:
        final = self._final
        if final is not None and (final.text or final.calls or final.depicts):
            return final
        said = [(place, {"type": "message", "content": text}) for place, text in self._joined()]
        if not said and not self._items:
            return self._final
        # A cut stream, or a server that leaves the output out of its final object.
        found = [*said, *(((position, 0), item) for position, item in self._items.items())]
        return _answer(
            [item for _, item in sorted(found, key=itemgetter(0))],
            complete=self.ended,
            response_id=self._response_id,
            model=self._model,
        )

    def _item(self, position: int, item: dict[str, Any]) -> None:
        if not _waits(item) and string(item.get("type")) not in (_IMAGE, *OUTPUTS):
            return
        # It is whole in the last of its two events.
        known = {key: value for key in _HELD if isinstance(value := item.get(key), str | bool) and value}
        before = self._items.get(position)
        held = self._items[position] = (before or {}) | known
        self.kept_bytes += _size(held) - (_size(before) if before is not None else -ENTRY_BYTES)


def _size(held: dict[str, Any]) -> int:
    return sum(len(value) for value in held.values() if isinstance(value, str))


def _place(event: dict[str, Any]) -> tuple[int, int]:
    return index(event.get("output_index")), index(event.get("content_index"))


OUTPUTS = frozenset({_APPROVED, *(f"{call}_output" for call in CLIENT_CALLS)})
ATTACHED = frozenset(
    {
        "reasoning",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        _SEARCH,
        _FOUND,
    }
)
"""What belongs to the turn that it stands in: the server's own tools, programs that call tools, reasoning."""
_LASTING = frozenset({_SEARCH, _FOUND})
"""What no text can stand for. Later turns call the tools that were found."""

_TEXT_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
"""Results that are a text; others have a structure that a server checks."""
_REFERENCE = "item_reference"
_ANSWER_IDS = ("msg", "ig_")
"""What the ids of answers begin with: messages, images."""
_KINDS = {"user": Kind.USER, "assistant": Kind.ASSISTANT}


class ResponsesCodec(Codec):
    """Same as `Codec`, for the Responses API.

    The system position is `instructions`, which a server does not carry over to the next response.
    """

    __slots__ = ()
    array, part_type, result_text = "input", "input_text", "output"
    # One answer may consist of several messages; `output_text` of the SDKs joins them without anything between.
    joint = ""
    stream = ResponsesStream

    def parse(self, raw: bytes) -> ParsedRequest:
        parsed = super().parse(raw)
        body = parsed.body or {}
        return replace(
            parsed,
            previous_response_id=string(body.get("previous_response_id")),
            conversation_id=_conversation_id(body.get("conversation")),
            stored_by_server=body.get("store") is not False,
        )

    def entries(self, body: dict[str, Any]) -> list[Entry]:
        return _conversation(body)

    def items(self, parsed: ParsedRequest) -> tuple[Json, ...] | None:
        given = (parsed.body or {}).get("input")
        own = [_user_item(given)] if isinstance(given, str) else given
        return tuple(own) if isinstance(own, list) else None

    def place(self, body: Mapping[str, Json], position: Position) -> int | str | None:
        given = body.get("input")
        if position is Position.SYSTEM:
            return "instructions"
        if not isinstance(given, list):
            return "input" if isinstance(given, str) else None
        roles = [_kind(item) == "message" and item.get("role") for item in map(mapping, given)]
        return max((index for index, role in enumerate(roles) if role == "user"), default=None)

    def is_replaceable(self, item: dict[str, Any]) -> bool:
        return item.get("type") in _TEXT_OUTPUTS and not holds_more(item.get("output"))

    def before(self, raw: bytes, given: Member, items: Sequence[Json]) -> list[Edit]:
        """A text becomes the item that it stands for, its bytes as they are."""
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


def _conversation_id(value: Any) -> str:
    return string(value) or string(mapping(value).get("id"))


def _conversation(body: Mapping[str, Json]) -> list[Entry]:
    instructions = Entry(Kind.CONTEXT, string(body.get("instructions")))
    given = body.get("input")
    if isinstance(given, str):
        entries = [Entry(Kind.USER, given)]
    elif isinstance(given, list):
        entries = _compacted(list(entries_of(given)), given)
    elif given is None:  # a stored prompt or a conversation may stand in for it
        entries = []
    else:
        raise BodyError("input is neither a string nor a list")
    return [instructions, *entries]


def _compacted(entries: list[Entry], items: Sequence[Any]) -> list[Entry]:
    """With an answer to what the user said before a compaction, which stands for all answers but can not be read.

    A client that compacts sends all messages of its user's, and then the compaction. Where none follows it, in mid-loop, the
    last one is not answered yet.
    """
    compacted = [at for at, entry in enumerate(entries) if items[entry.place].get("type") == _COMPACTION]
    users = [at for at, entry in enumerate(entries) if entry.kind is Kind.USER]
    if compacted and users:
        answered = min(compacted[-1], users[-1])
        if users[0] < answered:
            entries.insert(answered, Entry(Kind.ASSISTANT))
    return entries


def entries_of(items: Sequence[Any]) -> Iterator[Entry]:
    """The items as entries; those of no kind that is known are context."""
    passed = _passed(items)
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        kind = _kind(item)
        if kind == "message":
            yield _message(item, place)
        elif kind == _IMAGE:
            yield Entry(Kind.ASSISTANT, place=place, lasting=True)
        elif _waits(item):
            call = Call(_call_id(item), call_name(item), _arguments(item), _is_async(item) or place in passed)
            yield Entry(Kind.ASSISTANT, calls=(call,), place=place, lasting=kind in _LASTING)
        elif kind in OUTPUTS or (kind == _FOUND and _is_clients(item)):
            yield Entry(Kind.RESULT, _returned(item), call_id=_call_id(item), place=place, lasting=kind in _LASTING)
        elif kind in ATTACHED:
            yield Entry(Kind.ATTACHED, call_id=_call_id(item), place=place, lasting=kind in _LASTING)
        elif kind == _REFERENCE:
            yield _reference(string(item.get("id")), place)
        else:
            # A compaction, or what did not exist when this was written: its meaning is unknown.
            yield Entry(Kind.CONTEXT, place=place)


def _passed(items: Sequence[Any]) -> set[int]:
    """Places of calls without a result, behind which the assistant speaks: none was waited for, see `_answer`."""
    found = [mapping(item) for item in items]
    done = {_call_id(item) for item in found if string(item.get("type")) in OUTPUTS}
    passed: set[int] = set()
    spoken = False
    for place in reversed(range(len(found))):
        item = found[place]
        if _kind(item) == "message":
            spoken = item.get("role") == "assistant" and bool(spoken or item.get("content"))
        elif spoken and _waits(item) and _call_id(item) not in done:
            passed.add(place)
    return passed


def _kind(item: dict[str, Any]) -> str:
    """The type; messages may leave it out, and references, which have no role."""
    return string(item.get("type") or ("message" if "role" in item else _REFERENCE))


def _message(item: dict[str, Any], place: int) -> Entry:
    kind = Kind.ATTACHED if _is_subagents(item) else _KINDS.get(string(item.get("role")), Kind.CONTEXT)
    text = text_of(item.get("content"), joint="" if kind is Kind.ASSISTANT else "\n")
    return Entry(kind, text, place=place, lasting=holds_more(item.get("content")))


def _call_id(item: dict[str, Any]) -> str:
    """What a call and its result have in common. A local shell's result has its call's as `id`."""
    return string(item.get("call_id") or item.get("approval_request_id") or item.get("id"))


def _returned(item: dict[str, Any]) -> str:
    """What a tool returned: a text, what a shell printed, or else how it went."""
    output = item.get("output")
    printed = [string(part.get(stream)) for part in mappings(output) for stream in ("stdout", "stderr")]
    return text_of(output) or "\n".join(filter(None, printed)) or string(item.get("status"))


def _reference(item_id: str, place: int) -> Entry:
    """What a reference stands for, by its id: a client that leaves its answers with the server names them by it.

    Its text is with the server, so no other text can stand for it.
    """
    if item_id.startswith(_ANSWER_IDS):
        return Entry(Kind.ASSISTANT, place=place, lasting=True)
    return Entry(Kind.ATTACHED if item_id else Kind.CONTEXT, place=place, lasting=True)


def _user_item(text: str) -> dict[str, str]:
    return {"type": "message", "role": "user", "content": text}
