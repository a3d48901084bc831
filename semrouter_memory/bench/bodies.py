"""What the measured clients send: request bodies, and whole HTTP/1.1 requests as bytes. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from semrouter_memory.bench.workload import statements

CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"
_MESSAGE_CHARS = 2_000


def key_of(user: str) -> str:
    """The API key that Envoy knows a user of the benchmark by."""
    return f"bench-key-{user}"


def http_request(user: str, body: bytes, *, path: str = CHAT) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key_of(user)}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def question_body(question: str, *, stream: bool = False) -> bytes:
    """A conversation that begins with the question."""
    return chat_body([{"role": "user", "content": question}], stream=stream)


def chat_body(messages: Sequence[Mapping[str, Any]], *, stream: bool = False) -> bytes:
    return _compact({"model": "m", "stream": stream, "messages": messages})


def responses_body(instructions: str, items: Sequence[Mapping[str, Any]]) -> bytes:
    return _compact({"model": "m", "instructions": instructions, "input": items})


def long_body(question: str, size: int) -> bytes:
    """A conversation of about so many bytes that ends with the question; no two begin the same way."""
    messages: list[dict[str, str]] = [{"role": "system", "content": f"This conversation led to: {question}"}]
    left = size - len(chat_body([*messages, {"role": "user", "content": question}]))
    prose = _prose()
    while left > 0:
        role = "assistant" if len(messages) % 2 == 0 else "user"
        text = prose[: min(left, _MESSAGE_CHARS)]
        messages.append({"role": role, "content": text})
        left -= len(text) + len('{"role":"assistant","content":""},')
    if messages[-1]["role"] == "user":
        messages.append({"role": "assistant", "content": "I see."})
    return chat_body([*messages, {"role": "user", "content": question}])


def _prose() -> str:
    """Text about things in general: nothing of it is said by or about whoever asks."""
    text = ". ".join(content.replace("User", "The guest").replace("user", "guest") for _, content in statements(60))
    return text[:_MESSAGE_CHARS]


def _compact(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
