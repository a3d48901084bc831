"""A stand-in for an LLM server: OpenAI-compatible on the outside, a parrot of its context on the inside.

It speaks chat completions and the Responses API, JSON and streams, calls a tool when it is offered one, and keeps the
last requests, so that one can see what a model would have seen. The request header `x-stand-in` (a JSON object, see
`Behaviour`) makes it misbehave as real servers do.
"""

import asyncio
import itertools
import json
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from semrouter_memory.codec.encoding import encoded
from semrouter_memory.stack.parrot import answer_from_context, text_of

_KEPT_REQUESTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How to answer one request.

    Attributes:
        status: other than 200: an error object with this status.
        delay_ms: before the answer, and between the pieces of a stream.
        split: bytes per piece of a stream, whatever the frames; 0 = a frame per piece.
        cut: end a stream after so many pieces, without its regular end; 0 = never.
        encoding: `gzip`, `br`, `zstd`, or "" for none; with another name the data is sent as it is.
        garbage: answer something that is no JSON.
        text: answer this.
        reasoning: put a <think> section before the answer.
        response_id: use this id, as servers that draw ids from a small range do.
    """

    status: int = 200
    delay_ms: float = 0
    split: int = 0
    cut: int = 0
    encoding: str = ""
    garbage: bool = False
    text: str = ""
    reasoning: str = ""
    response_id: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it arrived here."""

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
        failing: how many of the next requests are refused as by a server that is too busy.
    """

    def __init__(self) -> None:
        self.failing = 0
        self.requests: deque[Seen] = deque(maxlen=_KEPT_REQUESTS)
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
        seen, how = await self._receive(request)
        body = _object(seen.body)
        if body is None or not isinstance(body.get("messages"), list):
            return _error(400, "messages: a list is required")
        if how.status != 200:  # noqa: PLR2004 - HTTP's own number
            return _error(how.status, "the stand-in was asked to fail")
        number = next(self._numbers)
        answer = _ChatAnswer(body, how, how.response_id or f"chatcmpl-{number}")
        return self._send(answer.json(), answer.frames(), stream=bool(body.get("stream")), how=how)

    async def _responses(self, request: Request) -> Response:
        seen, how = await self._receive(request)
        body = _object(seen.body)
        if body is None or "input" not in body:
            return _error(400, "input is required")
        if how.status != 200:  # noqa: PLR2004
            return _error(how.status, "the stand-in was asked to fail")
        number = next(self._numbers)
        answer = _ResponsesAnswer(body, how, how.response_id or f"resp_{number}")
        return self._send(answer.json(), answer.frames(), stream=bool(body.get("stream")), how=how)

    async def _models(self) -> dict[str, Any]:
        return {"object": "list", "data": [{"id": "stand-in", "object": "model", "created": 0, "owned_by": "demo"}]}

    async def _echo(self, request: Request) -> Response:
        seen, how = await self._receive(request)
        return Response(seen.body, status_code=how.status, media_type=request.headers.get("content-type"))

    async def _receive(self, request: Request) -> tuple[Seen, Behaviour]:
        seen = Seen(request.url.path, dict(request.headers), await request.body())
        self.requests.append(seen)
        how = Behaviour(**json.loads(request.headers.get("x-stand-in", "{}")))
        if self.failing:
            self.failing -= 1
            how = replace(how, status=503)
        if how.delay_ms:
            await asyncio.sleep(how.delay_ms / 1000)
        return seen, how

    def _send(self, whole: bytes, frames: Iterator[bytes], *, stream: bool, how: Behaviour) -> Response:
        if how.garbage:
            return Response(b"<html>not what you asked for", media_type="application/json")
        headers = {"content-encoding": how.encoding} if how.encoding else {}
        if not stream:
            data = encoded(whole, how.encoding)
            return Response(data, media_type="application/json", headers=headers)
        pieces = _pieces(frames, how)
        return StreamingResponse(_paced(pieces, how), media_type="text/event-stream", headers=headers)


def _pieces(frames: Iterator[bytes], how: Behaviour) -> Iterator[bytes]:
    if how.encoding or how.split:
        data = b"".join(frames)
        data = encoded(data, how.encoding)
        size = how.split or len(data)
        frames = (data[start : start + size] for start in range(0, len(data), size))
    return itertools.islice(frames, how.cut) if how.cut else frames


async def _paced(pieces: Iterator[bytes], how: Behaviour) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(how.delay_ms / 1000)


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


def _error(status: int, message: str) -> Response:
    error = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
    return Response(orjson.dumps(error), status_code=status, media_type="application/json")


def _words(text: str) -> list[str]:
    """A text as the pieces a model would stream."""
    return [word if index == 0 else f" {word}" for index, word in enumerate(text.split(" "))]


def _frame(data: Mapping[str, Any], event: str = "") -> bytes:
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + orjson.dumps(data) + b"\n\n"


class _ChatAnswer:
    def __init__(self, body: dict[str, Any], how: Behaviour, answer_id: str) -> None:
        self._body = body
        self._id = answer_id
        self._thought = f"<think>{how.reasoning}</think>" if how.reasoning else ""
        self._tool = _offered_tool(body, body["messages"])
        self._text = how.text or answer_from_context(body["messages"])
        self._usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}

    def json(self) -> bytes:
        choices = []
        for index in range(self._body.get("n") or 1):
            text = None if self._tool else self._thought + self._text
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
        for word in _words(self._thought + self._text):
            yield {"content": word}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": 1, "model": self._body.get("model") or "stand-in"}


class _ResponsesAnswer:
    def __init__(self, body: dict[str, Any], how: Behaviour, answer_id: str) -> None:
        self._body = body
        self._id = answer_id
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        self._tool = _offered_tool(body, items)
        context = [{"role": "system", "content": body.get("instructions") or ""}, *items]
        self._text = how.text or answer_from_context(context)

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


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _offered_tool(body: Mapping[str, Any], messages: list[Any]) -> str:
    """The first offered function, when the conversation waits for the model and not for a tool's result."""
    last = messages[-1] if messages else None
    if not isinstance(last, dict) or last.get("role") != "user" or body.get("tool_choice") == "none":
        return ""
    for tool in body.get("tools") or []:
        function = tool.get("function") or tool
        if "weather" in text_of(last.get("content")).lower() and function.get("name"):
            return str(function["name"])
    return ""


def _tool_call(name: str) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": "{}"}}
