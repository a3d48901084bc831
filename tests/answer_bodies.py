"""Answers as servers send them, and what is to be read in them: for every suite that feeds them in pieces."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from semrouter_memory.codec.base import Answer

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
JSON = "application/json"
SSE = "text/event-stream"


@dataclass(frozen=True, slots=True)
class AnswerCase:
    name: str
    path: str
    content_type: str
    body: bytes
    expected: Answer | None


def chunk(*choices: dict[str, Any], **more: Any) -> bytes:
    """One chat completion chunk with the given choices, as an event."""
    body = {
        "id": "chatcmpl-7",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m1",
        "choices": choices,
        **more,
    }
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


def delta(index: int = 0, *, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"index": index, "delta": fields, "logprobs": None, "finish_reason": finish}


def typed(name: str, **fields: Any) -> bytes:
    """One Responses event."""
    return b"event: " + name.encode() + b"\ndata: " + json.dumps({"type": name, **fields}).encode() + b"\n\n"


def response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "resp_9", "object": "response", "status": "completed", "error": None, "model": "m1"} | {
        "instructions": "Be kind.",
        "output": list(output),
        **more,
    }


def said(*texts: str) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": parts}


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
IMAGE = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": "{}"}
APPROVAL = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "book", "arguments": "{}"}
X_SEARCH = {"type": "custom_tool_call", "call_id": "xs_call_1", "name": "x_keyword_search", "input": "{}"}
SHELL = {"type": "shell_call", "id": "sh_1", "call_id": "call_2", "action": {"commands": ["ls"]}}
SHELL_OUTPUT = {"type": "shell_call_output", "id": "sho_1", "call_id": "call_2", "output": [{"stdout": "a"}]}
SEARCH = {"type": "tool_search_call", "id": "tsc_1", "call_id": "c", "execution": "client", "arguments": {}}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "secret thought"}]}
SUBAGENT = {"agent_name": "/root/reviewer"}
DONE = b"data: [DONE]\n\n"


def _message(**fields: Any) -> dict[str, Any]:
    return {"index": 0, "message": {"role": "assistant", **fields}, "logprobs": None, "finish_reason": "stop"}


def _completion(*choices: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(
        {"id": "chatcmpl-7", "object": "chat.completion", "model": "m1", "choices": choices, **more}
    ).encode()


def _answer(*texts: str, complete: bool = True, **more: Any) -> Answer:
    return Answer(texts=texts, complete=complete, response_id="chatcmpl-7", model="m1", **more)


def _response_answer(text: str, *, complete: bool = True, **more: Any) -> Answer:
    return Answer(texts=(text,), complete=complete, response_id="resp_9", model="m1", **more)


def _chat_json() -> Iterable[tuple[str, bytes, Answer | None]]:
    tool_call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}
    yield "text", _completion(_message(content="Zürich 🏔", refusal=None), usage={}), _answer("Zürich 🏔")
    yield "null error beside the answer", _completion(_message(content="Hi"), error=None), _answer("Hi")
    yield (
        "several choices out of order",
        _completion(_message(content="b") | {"index": 1}, _message(content="a")),
        _answer("a", "b"),
    )
    yield (
        "tool calls",
        _completion(_message(content=None, tool_calls=[tool_call])),
        _answer("", calls=("get_weather",), arguments="{}"),
    )
    yield (
        "older function call",
        _completion(_message(content=None, function_call={"name": "f", "arguments": ""})),
        _answer("", calls=("f",)),
    )
    yield (
        "custom tool",
        _completion(
            _message(
                content=None, tool_calls=[{"type": "custom", "id": "c", "custom": {"name": "sql", "input": "select"}}]
            )
        ),
        _answer("", calls=("sql",), arguments="select"),
    )
    cited = [
        {"type": "text", "text": "Rome"},
        {"type": "reference", "reference_ids": [1]},
        {"type": "text", "text": "!"},
    ]
    yield "a text that a citation parts", _completion(_message(content=cited)), _answer("Rome!")
    yield (
        "a call among parts",
        _completion(_message(content=[{"type": "text", "text": "Hm"}, {"type": "tool_use", "id": "t", "name": "f"}])),
        _answer("Hm", calls=("f",)),
    )
    yield "vLLM reasoning", _completion(_message(content="4", reasoning_content="2 and 2", reasoning="x")), _answer("4")
    yield "think section", _completion(_message(content="<think>\n2 and 2\n</think>\n\n4")), _answer("4")
    yield "think section opened by the template", _completion(_message(content="2 and 2\n</think>\n\n4")), _answer("4")
    yield (
        "content parts with thinking",
        _completion(
            _message(content=[{"type": "thinking", "thinking": [{"text": "x"}]}, {"type": "text", "text": "4"}])
        ),
        _answer("4"),
    )
    yield (
        "spoken",
        _completion(_message(content=None, audio={"id": "audio_1", "data": "AAAA", "transcript": "Hi"})),
        _answer("Hi"),
    )
    yield "an image", _completion(_message(content="", images=[PICTURE])), _answer("", depicts=True)
    yield "an image among parts", _completion(_message(content=[PICTURE])), _answer("", depicts=True)
    yield (
        "an image in the second choice",
        _completion(_message(content="a"), _message(images=[PICTURE])),
        _answer("a", ""),
    )
    yield "no image", _completion(_message(content="Hi", images=[])), _answer("Hi")
    yield "refusal", _completion(_message(content=None, refusal="I cannot")), _answer("")
    yield "llama.cpp, no ids", b'{"choices":[{"message":{"content":"Hi"}}]}', Answer(texts=("Hi",), complete=True)
    yield "error object", b'{"error":{"message":"overloaded","type":"server_error"}}', None
    yield "no choices", _completion(), None
    yield "choices of no known shape", b'{"choices":"none"}', None
    yield "a list", b"[]", None
    yield "cut", _completion(_message(content="Hi"))[:-3], None
    yield "a page", b"<html>502</html>", None
    yield "nothing", b"", None


def _chat_sse() -> Iterable[tuple[str, bytes, Answer | None]]:
    role = chunk(delta(role="assistant", content="", refusal=None))
    words = chunk(delta(content="Grüezi ")) + chunk(delta(content="🏔 mitenand"))
    stop = chunk(delta(finish="stop"))
    usage = chunk(usage={"total_tokens": 9})
    full = _answer("Grüezi 🏔 mitenand")
    yield "openai", role + words + stop + usage + DONE, full
    yield "no [DONE]", role + words + stop, full
    yield "[DONE] without a finish reason", role + words + DONE, full
    yield "CRLF", (role + words + stop + DONE).replace(b"\n", b"\r\n"), full
    yield "CR", (role + words + stop + DONE).replace(b"\n", b"\r"), full
    yield "byte order mark, comments, ids", b"\xef\xbb\xbf: ping\n\nid: 1\nretry: 5\n\n" + role + words + DONE, full
    yield "azure's first chunk", chunk(prompt_filter_results=[{}], id="", model="") + role + words + DONE, full
    yield "data without a space", (role + words + DONE).replace(b"data: ", b"data:"), full
    yield (
        "data over several lines",
        role + words + b'data: {"choices":\ndata: [{"delta":{"content":"!"}}]}\n\n' + DONE,
        _answer("Grüezi 🏔 mitenand!"),
    )
    yield (
        "vLLM reasoning",
        role + chunk(delta(reasoning_content="hmm")) + chunk(delta(reasoning="hm", content=None)) + words + DONE,
        full,
    )
    yield (
        "spoken",
        chunk(delta(role="assistant", audio={"id": "audio_1", "transcript": "Grüezi "}))
        + chunk(delta(audio={"data": "AAAA"}))
        + chunk(delta(audio={"transcript": "🏔 mitenand"}))
        + stop
        + DONE,
        full,
    )
    yield (
        "an image",
        role + chunk(delta(content="", images=[PICTURE])) + chunk(delta(1, content="b")) + stop + DONE,
        _answer("", "b", depicts=True),
    )
    yield "an image in the second choice", words + chunk(delta(1, images=[PICTURE])) + DONE, _answer(*full.texts, "")
    yield (
        "think sections",
        role + chunk(delta(content="<thi")) + chunk(delta(content="nk>hm</think>\n")) + words,
        (_answer("Grüezi 🏔 mitenand", complete=False)),
    )
    yield (
        "several choices",
        chunk(delta(1, content="b1")) + chunk(delta(0, content="a1"), delta(1, content="b2")) + stop + DONE,
        _answer("a1", "b1b2"),
    )
    yield (
        "tool calls in pieces",
        role
        + chunk(delta(tool_calls=[_tool(0, "call_1", "get_weather")]))
        + chunk(delta(tool_calls=[{"index": 0, "function": {"arguments": '{"a"'}}]))
        + chunk(delta(tool_calls=[_tool(1, "call_2", "get_time")]))
        + chunk(delta(tool_calls=[{"index": 0, "function": {"arguments": ':"ü"}'}}]))
        + chunk(delta(1, tool_calls=[{"index": 0, "function": {"arguments": "of another choice"}}]))
        + chunk(delta(finish="tool_calls"))
        + DONE,
        _answer("", "", calls=("get_weather", "get_time"), arguments='{"a":"ü"}'),
    )
    yield (
        "ollama, every call with index 0",
        chunk(delta(tool_calls=[_tool(0, "call_1", "a"), _tool(0, "call_2", "b")])) + DONE,
        _answer("", calls=("a", "b")),
    )
    yield (
        "name repeated in every piece",
        chunk(delta(tool_calls=[_tool(0, "call_1", "a")])) * 3 + DONE,
        _answer("", calls=("a",)),
    )
    yield "damaged event between", role + b"data: {nope\n\n" + words + stop, full
    yield "cut with text", role + words, _answer("Grüezi 🏔 mitenand", complete=False)
    yield "cut within an event", role + words + stop[:-1], _answer("Grüezi 🏔 mitenand", complete=False)
    yield (
        "cut in the first choice, the second at its end",
        chunk(delta(0, content="a"), delta(1, content="b", finish="stop")),
        _answer("a", "b", complete=False),
    )
    yield "cut before any text", role, _answer("", complete=False)
    yield "error in mid-stream", role + words + chunk(delta(finish="error"), error={"message": "boom"}) + DONE, None
    yield "error first", b'data: {"error":{"message":"no such model"}}\n\n', None
    yield "named error", role + words + b"event: error\ndata: boom\n\n", None
    yield "only [DONE]", DONE, None
    yield "only usage", usage + DONE, None
    yield "JSON under the wrong type", b'{"choices":[{"message":{"content":"Hi"}}]}', None
    yield "nothing", b"", None


def _tool(index: int, call_id: str, name: str) -> dict[str, Any]:
    return {"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}


def _responses_json() -> Iterable[tuple[str, bytes, Answer | None]]:
    cases = {
        "text": (response(said("Zürich ", "🏔")), _response_answer("Zürich 🏔")),
        "a message of a subagent's": (
            response(said("Done.") | {"agent": SUBAGENT}, said("4") | {"agent": {"agent_name": "/root"}}),
            _response_answer("4"),
        ),
        "reasoning first": (response(REASONING, said("4")), _response_answer("4")),
        "two messages": (response(said("Let me think. "), said("4")), _response_answer("Let me think. 4")),
        "tool call": (response(REASONING, CALL), _response_answer("", calls=("get_weather",), arguments="{}")),
        "text and tool call": (
            response(said("Looking."), CALL),
            _response_answer("Looking.", calls=("get_weather",), arguments="{}"),
        ),
        "the server's own tool": (
            response({"type": "web_search_call", "status": "completed"}, said("4")),
            _response_answer("4"),
        ),
        "built-in tool": (
            response({"type": "local_shell_call", "call_id": "c"}),
            _response_answer("", calls=("local_shell",)),
        ),
        "a call that the answer does not wait for": (
            response(CALL | {"async": True}, said("4")),
            _response_answer("4"),
        ),
        "nothing but such a call": (
            response(CALL | {"async": True}),
            _response_answer("", calls=("get_weather",), arguments="{}"),
        ),
        "a search that the server makes": (response(X_SEARCH, said("4")), _response_answer("4")),
        "a shell that the server hosts": (response(SHELL, SHELL_OUTPUT, said("4")), _response_answer("4")),
        "the client's shell behind it": (
            response(SHELL, SHELL_OUTPUT, said("4"), SHELL | {"call_id": "call_3"}),
            _response_answer("4", calls=("shell",)),
        ),
        "an image": (response(REASONING, IMAGE), _response_answer("", depicts=True)),
        "an image with a text": (response(IMAGE, said("Here.")), _response_answer("Here.", depicts=True)),
        "a call that waits for approval": (
            response(REASONING, APPROVAL),
            _response_answer("", calls=("book",), arguments="{}"),
        ),
        "the client's search for tools": (response(SEARCH), _response_answer("", calls=("tool_search",))),
        "the server's search for tools": (
            response({**SEARCH, "execution": "server"}, said("4")),
            _response_answer("4"),
        ),
        "refusal": (
            response({"type": "message", "content": [{"type": "refusal", "refusal": "I cannot"}]}),
            _response_answer(""),
        ),
        "incomplete": (response(said("Zür"), status="incomplete"), _response_answer("Zür")),
        "failed": (response(said("Zür"), status="failed", error={"code": "server_error"}), None),
        "at work": (response(status="queued"), None),
        "at work in the background": (
            response(status="queued", background=True),
            _response_answer("", complete=False, is_later=True),
        ),
        "failed in the background": (response(status="failed", background=True), None),
        "cancelled": (response(status="cancelled"), None),
        "error object": ({"error": {"message": "no"}}, None),
        "no output": (response(output=None), None),
    }
    for name, (body, expected) in cases.items():
        yield name, json.dumps(body).encode(), expected
    yield "cut", json.dumps(response(said("Hi"))).encode()[:-2], None


def _responses_sse() -> Iterable[tuple[str, bytes, Answer | None]]:
    created = typed("response.created", response=response(status="in_progress"), sequence_number=0)
    thought = typed("response.reasoning_summary_text.delta", output_index=0, summary_index=0, delta="secret")
    first = _delta("Zürich ") + _delta("🏔")
    done = typed("response.output_text.done", output_index=1, content_index=0, text="Zürich 🏔")
    completed = typed("response.completed", response=response(REASONING, said("Zürich 🏔")))
    full = _response_answer("Zürich 🏔")
    yield "openai", created + thought + first + done + completed, full
    yield "types only in the data", (created + first + completed).replace(b"event: ", b": "), full
    yield "names only in the events", b"".join(_untyped(event) for event in (created, first, completed)), full
    yield (
        "final object preferred",
        created + _delta("Zuerich") + typed("response.completed", response=response(said("Zürich 🏔"))),
        full,
    )
    yield "final object without output", created + first + typed("response.completed", response=response()), full
    yield (
        "final object without an output list",
        created + first + typed("response.completed", response=response(output=None)),
        full,
    )
    yield "final object alone", completed, full
    yield (
        "words of a subagent's",
        created
        + typed("response.output_text.delta", output_index=0, content_index=0, delta="Do", agent=SUBAGENT)
        + typed("response.output_text.done", output_index=0, content_index=0, text="Done.", agent=SUBAGENT)
        + first
        + typed("response.completed", response=response()),
        full,
    )
    yield (
        "parts in the order of their place",
        created + _delta("d", 2) + _delta("b", 1, 1) + _delta("a", 1, 0) + DONE,
        _response_answer("abd"),
    )
    yield (
        "tool call without a final output",
        created
        + typed("response.output_item.added", output_index=0, item=CALL)
        + typed("response.function_call_arguments.delta", output_index=0, delta="{}")
        + typed("response.output_item.done", output_index=0, item=CALL)
        + typed("response.completed", response=response()),
        _response_answer("", calls=("get_weather",), arguments="{}"),
    )
    yield (
        "a call that the answer does not wait for, without a final output",
        created
        + typed("response.output_item.added", output_index=0, item=CALL | {"arguments": "", "async": True})
        + typed("response.output_item.done", output_index=0, item=CALL | {"async": True})
        + _delta("4")
        + typed("response.completed", response=response()),
        _response_answer("4"),
    )
    yield (
        "a search that the server makes, without a final output",
        created
        + typed("response.output_item.done", output_index=0, item=X_SEARCH)
        + _delta("4")
        + typed("response.completed", response=response()),
        _response_answer("4"),
    )
    yield (
        "a shell that the server hosts, without a final output",
        created
        + typed("response.output_item.added", output_index=0, item=SHELL)
        + typed("response.output_item.done", output_index=0, item=SHELL)
        + typed("response.output_item.done", output_index=1, item=SHELL_OUTPUT)
        + _delta("4", 2)
        + typed("response.completed", response=response()),
        _response_answer("4"),
    )
    yield (
        "an image without a final output",
        created
        + typed("response.output_item.done", output_index=0, item=IMAGE)
        + typed("response.completed", response=response()),
        _response_answer("", depicts=True),
    )
    yield (
        "an image beside an empty text",
        created + _delta("", 1) + typed("response.completed", response=response(IMAGE, said(""))),
        _response_answer("", depicts=True),
    )
    yield (
        "approval without a final output",
        created
        + typed("response.output_item.done", output_index=0, item=APPROVAL)
        + typed("response.completed", response=response()),
        _response_answer("", calls=("book",), arguments="{}"),
    )
    yield (
        "incomplete",
        created + first + typed("response.incomplete", response=response(said("Zür"), status="incomplete")) + DONE,
        _response_answer("Zür"),
    )
    yield "cut", created + first, _response_answer("Zürich 🏔", complete=False)
    yield "cut before any text", created, None
    behind = typed("response.created", response=response(status="queued", background=True), sequence_number=0)
    yield "in the background", behind + first + completed, full
    yield "in the background, cut", behind + first, _response_answer("Zürich 🏔", complete=False)
    yield "in the background, left at once", behind, _response_answer("", complete=False, is_later=True)
    yield "failed in the background", behind + typed("response.failed", response=response(status="failed")), None
    yield "failed", created + first + typed("response.failed", response=response(status="failed")), None
    yield "error event", created + first + typed("error", code="server_error", message="boom"), None
    yield "nothing", b"", None


def _delta(text: str, output_index: int = 1, content_index: int = 0) -> bytes:
    return typed("response.output_text.delta", output_index=output_index, content_index=content_index, delta=text)


def _untyped(events: bytes) -> bytes:
    """The same events without `type` in their data."""
    lines = []
    for line in events.split(b"\n"):
        if line.startswith(b"data: "):
            body = json.loads(line[6:])
            del body["type"]
            lines.append(b"data: " + json.dumps(body).encode())
        else:
            lines.append(line)
    return b"\n".join(lines)


CASES = [
    AnswerCase(f"{api} {kind}: {name}", path, content_type, body, expected)
    for api, path, kind, content_type, table in (
        ("chat", CHAT, "json", JSON, _chat_json()),
        ("chat", CHAT, "sse", SSE, _chat_sse()),
        ("responses", RESPONSES, "json", JSON, _responses_json()),
        ("responses", RESPONSES, "sse", SSE, _responses_sse()),
    )
    for name, body, expected in table
]
