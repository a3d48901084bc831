"""A stand-in for an LLM server: OpenAI-compatible on the outside, a parrot of its context on the inside.

It speaks chat completions and the Responses API, JSON and streams, calls a tool when it is offered one, and keeps the
last requests, so that one can see what a model would have seen.
"""

import itertools
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.stack.loopback import LOOPBACK

_MAX_REQUESTS = 256
_WORD = re.compile(r"[^\W_]{3,}")
_BULLET = re.compile(r"^\s*(?:[-*]\s+|<memory[^>]*>)(?P<text>.+?)(?:</memory>)?\s*$", re.MULTILINE)
_QUESTION = re.compile(r"\?|^(?:what|how|who|where|when|which|suggest|recommend|tell|write)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Seen:
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class StandInLlm:
    """The server's state and its ASGI app.

    Attributes:
        requests: the last ones, the newest at the end.
    """

    def __init__(self) -> None:
        self.requests: deque[Seen] = deque(maxlen=_MAX_REQUESTS)
        self._numbers = itertools.count(1)
        self.app = FastAPI(openapi_url=None)
        self.app.add_api_route("/v1/chat/completions", self._chat, methods=["POST"])
        self.app.add_api_route("/v1/responses", self._responses, methods=["POST"])
        self.app.add_api_route("/v1/models", self._models, methods=["GET"])
        self.app.add_api_route("/{path:path}", self._echo, methods=["GET", "POST", "PUT", "DELETE"])

    @property
    def last(self) -> Seen:
        return self.requests[-1]

    async def _chat(self, request: Request) -> Response:
        seen = await self._receive(request)
        body = _object(seen.body)
        if body is None or not isinstance(body.get("messages"), list):
            return error(400, "messages: a list is required")
        text = self.says(seen, body["messages"])
        return await self.send(seen, ChatAnswer(body, text, self.new_id(seen, "chatcmpl-")))

    async def _responses(self, request: Request) -> Response:
        seen = await self._receive(request)
        body = _object(seen.body)
        if body is None or "input" not in body:
            return error(400, "input is required")
        context = [{"role": "system", "content": body.get("instructions") or ""}, *_items(body)]
        return await self.send(seen, ResponsesAnswer(body, self.says(seen, context), self.new_id(seen, "resp_")))

    async def _models(self) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "stand-in", "object": "model", "created": 0, "owned_by": "demo"}]}

    async def _echo(self, request: Request) -> Response:
        return await self.send(await self._receive(request), None)

    async def _receive(self, request: Request) -> Seen:
        seen = Seen(request.url.path, dict(request.headers), await request.body())
        self.requests.append(seen)
        return seen

    # -- what tests make otherwise -------------------------------------------------------------------------------------

    def says(self, seen: Seen, messages: list[Any]) -> str:  # noqa: ARG002 - for those that answer by the request
        """The text of the answer to a conversation."""
        return answer_from_context(messages)

    def new_id(self, seen: Seen, prefix: str) -> str:  # noqa: ARG002 - same
        return f"{prefix}{next(self._numbers)}"

    async def send(self, seen: Seen, answer: "ChatAnswer | ResponsesAnswer | None") -> Response:
        """The response with an answer; None: the request's own body."""
        if answer is None:
            return Response(seen.body, media_type=seen.headers.get("content-type"))
        if answer.is_streamed:
            return StreamingResponse(answer.frames(), media_type="text/event-stream")
        return Response(answer.json(), media_type="application/json")


@asynccontextmanager
async def served(llm: StandInLlm, port: int = 0) -> AsyncIterator[str]:
    """The base URL of a stand-in that is served by this process."""
    server = await serve_http(llm.app, f"{LOOPBACK}:{port}")
    try:
        yield f"http://{LOOPBACK}:{server.port}/v1"
    finally:
        await server.stop()


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def error(status: int, message: str) -> Response:
    error = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
    return Response(orjson.dumps(error), status_code=status, media_type="application/json")


def _words(text: str) -> list[str]:
    """A text as the pieces a model would stream."""
    return [word if index == 0 else f" {word}" for index, word in enumerate(text.split(" "))]


def _frame(data: Mapping[str, Any], event: str = "") -> bytes:
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + orjson.dumps(data) + b"\n\n"


class ChatAnswer:
    def __init__(self, body: dict[str, Any], text: str, answer_id: str) -> None:
        self._body = body
        self._id = answer_id
        self._tool = _offered_tool(body, body["messages"])
        self._text = text
        self.is_streamed = bool(body.get("stream"))
        self._usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}

    def json(self) -> bytes:
        choices = []
        for index in range(self._body.get("n") or 1):
            text = None if self._tool else self._text
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if self._tool:
                message["tool_calls"] = [_tool_call(self._tool)]
            reason = "tool_calls" if self._tool else "stop"
            choices.append({"index": index, "message": message, "finish_reason": reason, "logprobs": None})
        return orjson.dumps({**self._head("chat.completion"), "choices": choices, "usage": self._usage})

    def frames(self) -> Iterator[bytes]:
        head = self._head("chat.completion.chunk")
        reason = "tool_calls" if self._tool else "stop"
        for index in range(self._body.get("n") or 1):
            for delta in self._deltas():
                yield _frame({**head, "choices": [{"index": index, "delta": delta, "finish_reason": None}]})
            yield _frame({**head, "choices": [{"index": index, "delta": {}, "finish_reason": reason}]})
        if (self._body.get("stream_options") or {}).get("include_usage"):
            yield _frame({**head, "choices": [], "usage": self._usage})
        yield b"data: [DONE]\n\n"

    def _deltas(self) -> Iterator[dict[str, Any]]:
        yield {"role": "assistant", "content": ""}
        if self._tool:
            yield {"tool_calls": [{"index": 0, **_tool_call(self._tool)}]}
            return
        for word in _words(self._text):
            yield {"content": word}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": 1, "model": self._body.get("model") or "stand-in"}


class ResponsesAnswer:
    def __init__(self, body: dict[str, Any], text: str, answer_id: str) -> None:
        self._body = body
        self._id = answer_id
        self._tool = _offered_tool(body, _items(body))
        self._text = text
        self.is_streamed = bool(body.get("stream"))

    def json(self) -> bytes:
        return orjson.dumps(self._response("completed", [self._item("completed")]))

    def frames(self) -> Iterator[bytes]:
        events = itertools.count()

        def event(kind: str, **fields: Any) -> bytes:
            return _frame({"type": kind, "sequence_number": next(events), **fields}, kind)

        yield event("response.created", response=self._response("in_progress", []))
        item = self._item("in_progress")
        yield event("response.output_item.added", output_index=0, item=item)
        if not self._tool:
            place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
            yield event("response.content_part.added", **place, part=_part(""))
            for word in _words(self._text):
                yield event("response.output_text.delta", **place, delta=word, logprobs=[])
            yield event("response.output_text.done", **place, text=self._text, logprobs=[])
            yield event("response.content_part.done", **place, part=_part(self._text))
        yield event("response.output_item.done", output_index=0, item=self._item("completed"))
        yield event("response.completed", response=self._response("completed", [self._item("completed")]))

    def _item(self, status: str) -> dict[str, Any]:
        if self._tool:
            call = _tool_call(self._tool)["function"]
            return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "status": status, **call}
        content = [_part(self._text)] if status == "completed" else []
        return {"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content}

    def _response(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        details = {"cached_tokens": 0, "cache_write_tokens": 0}
        return {
            "id": self._id,
            "object": "response",
            "created_at": 1,
            "model": self._body.get("model") or "stand-in",
            "status": status,
            "output": output,
            "instructions": self._body.get("instructions"),
            "previous_response_id": self._body.get("previous_response_id"),
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": self._body.get("tools") or [],
            "usage": {
                "input_tokens": 1,
                "input_tokens_details": details,
                "output_tokens": 1,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 2,
            },
        }


def _items(body: Mapping[str, Any]) -> list[Any]:
    """The input of a request to the Responses API, as messages."""
    given = body["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else list(given)


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _offered_tool(body: Mapping[str, Any], messages: list[Any]) -> str:
    """The first offered function, when the conversation waits for the model and not for a tool's result."""
    last = messages[-1] if messages else None
    if not isinstance(last, dict) or last.get("role") != "user" or body.get("tool_choice") == "none":
        return ""
    for tool in body.get("tools") or []:
        function = tool.get("function") or tool
        if "weather" in _text_of(last.get("content")).lower() and function.get("name"):
            return str(function["name"])
    return ""


def _tool_call(name: str) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": "{}"}}


def answer_from_context(messages: list[Any]) -> str:
    """The bullet point anywhere in the messages that has most words in common with the last user message."""
    texts = [
        (message.get("role"), _text_of(message.get("content"))) for message in messages if isinstance(message, dict)
    ]
    question = next((text for role, text in reversed(texts) if role == "user"), "")
    asked = question.split("\n")[0]
    if not _QUESTION.search(asked):
        return "Noted."
    known = [match["text"] for _, text in texts for match in _BULLET.finditer(text)]
    if not known:
        return "I do not know that: nothing in my context says so."
    words = _terms(asked)
    best = max(known, key=lambda line: len(words & _terms(line)))
    return f"As far as I know: {best}."


def _text_of(content: Any) -> str:
    """The text of a message's content, string or parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return ""


def _terms(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}
