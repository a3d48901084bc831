"""Requests as only some clients send them: through Envoy they get what they get from the server itself."""

import asyncio
import json
import socket
from typing import Any

import h2.config
import h2.connection
import h2.events
import httpx
import pytest

from .client import CHAT
from .conftest import ALICE, Installation

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAIN = b'{"model":"m","messages":[{"role":"user","content":"zebra?"}]}'


def nested(depth: int) -> bytes:
    return PLAIN[:-1] + b',"x":' + b"[" * depth + b"]" * depth + b"}"


@pytest.mark.parametrize(
    ("method", "path", "headers", "body"),
    [
        ("POST", f"{CHAT}/", {}, PLAIN),
        ("POST", f"{CHAT}?api-version=1&x=%20", {}, PLAIN),
        ("POST", CHAT, {"content-type": "APPLICATION/JSON; Charset=UTF-8"}, PLAIN),
        ("POST", CHAT, {"content-type": "text/plain"}, PLAIN),
        ("POST", CHAT, {"content-type": ""}, PLAIN),
        ("POST", CHAT, {"content-encoding": "identity"}, PLAIN),
        ("POST", CHAT, {"expect": "100-continue"}, PLAIN),
        ("POST", "/openai/deployments/x/chat/completions", {}, PLAIN),
        ("GET", CHAT, {}, b""),
        ("HEAD", CHAT, {}, b""),
        ("OPTIONS", CHAT, {}, b""),
        ("PUT", CHAT, {}, PLAIN),
        ("POST", CHAT, {}, b" \r\n\t" + PLAIN + b" \n\n"),
        ("POST", CHAT, {}, b"\xef\xbb\xbf" + PLAIN),
        ("POST", CHAT, {}, PLAIN.decode().encode("utf-16")),
        ("POST", CHAT, {}, PLAIN + b"\0"),
        ("POST", CHAT, {}, nested(900)),
        ("POST", CHAT, {}, nested(2_000)),
        ("POST", CHAT, {}, nested(200_000)),
        ("POST", CHAT, {}, PLAIN[:-1] + b',"seed":' + b"9" * 5_000 + b"}"),
        ("POST", CHAT, {}, b'{"messages":[{"role":"user","content":"zebra \\ud83d?"}]}'),
        ("POST", CHAT, {}, b'{"m\\u0065ssages":[{"role":"user","content":"zebra?"}],"messages":[]}'),
        ("POST", CHAT, {}, b'{"messages":[1,null,"x",[],{"role":5,"content":{}},{"role":"user","content":[1,{"type":[]}]}]}'),
        ("POST", CHAT, {}, b'{"messages":null}'),
        ("POST", "/v1/responses", {}, b'{"model":"m","input":[1,null,"zebra?",{"type":7},{"role":[]}],"conversation":{"id":5}}'),
        ("POST", "/v1/responses", {}, b'{"model":"m","input":"zebra?","instructions":[{"role":"user"}],"previous_response_id":9}'),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
async def test_an_odd_request(
    two_filter: Installation, method: str, path: str, headers: dict[str, str], body: bytes
) -> None:
    """The same status, and the same bytes arrive."""
    headers = {"content-type": "application/json", **headers}
    async with two_filter.http(headers=headers) as http:
        answer = await http.request(method, path, content=body)
        seen = two_filter.llm.last
        direct = two_filter.stack._options.llm.removesuffix("/v1")
        expected = await http.request(method, direct + path, content=body)
    assert answer.status_code == expected.status_code
    assert seen.body == body
    assert (seen.path, seen.headers.get("content-type")) == (two_filter.llm.last.path, headers["content-type"])


@pytest.mark.parametrize("odd", [b"1e400", b"NaN", b'"\\ud83d"'])
async def test_a_body_that_only_lenient_servers_read(two_filter: Installation, odd: bytes) -> None:
    """Our fields do not go upstream, and all else does as it is."""
    parts = (b'\xef\xbb\xbf{"x":', odd, b',"messages":[{"role":"user","content":"zebra?"}]')
    async with two_filter.http(headers={"content-type": "application/json"}) as http:
        await http.post(CHAT, content=b"".join((*parts, b',"memory_config":{"enabled":false}}')))
    assert two_filter.llm.last.body == b"".join((*parts, b"}"))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": [{"role": "system", "content": 7}, {"role": "user", "content": "my favourite zebra?"}]}),
        ("/v1/responses", {"input": "my favourite zebra?", "instructions": [{"role": "user", "content": "x"}]}),
    ],
)
async def test_where_nothing_can_be_put_in_the_receipt_says_so(
    two_filter: Installation, path: str, body: dict[str, Any]
) -> None:
    async with two_filter.http() as http:
        (await http.post("/v1/memory", json={"content": "User's favourite zebra is called Zoe"})).raise_for_status()
        answer = await http.post(path, json=body)
    assert (answer.headers["x-memory-reason"], answer.headers["x-memory-used"]) == ("no_place", "0")
    assert json.loads(two_filter.llm.last.body) == body


async def test_a_large_upload_that_waits_for_permission(two_filter: Installation) -> None:
    """12 MB behind `Expect: 100-continue`: the upload begins when Envoy says so, and what was said in it is learned."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * (12 << 20)}}
    parts = [{"type": "text", "text": "I live in Bergen"}, image]
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": parts}]}).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {ALICE}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", two_filter.stack.port)
    writer.write(head.encode())
    assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60) == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert two_filter.llm.last.body == body
    await two_filter.remembers("Bergen")


def posted_with_trailers(port: int, body: bytes) -> int:
    """The status of an HTTP/2 request that ends with trailers."""
    pseudo = {":method": "POST", ":path": CHAT, ":scheme": "http", ":authority": "x"}
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    fields = {**pseudo, "authorization": f"Bearer {ALICE}", "content-type": "application/json"}
    connection.send_headers(1, list(fields.items()))
    connection.send_data(1, body)
    connection.send_headers(1, [("x-checksum", "1")], end_stream=True)
    status = 0
    with socket.create_connection(("127.0.0.1", port), timeout=10) as wire:
        wire.sendall(connection.data_to_send())
        while data := wire.recv(65_536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    headers: Any = dict(event.headers)
                    status = int(headers[b":status"])
                if isinstance(event, h2.events.StreamEnded):
                    return status
            wire.sendall(connection.data_to_send())
    return status


async def test_a_request_that_ends_with_trailers(two_filter: Installation) -> None:
    """It is given memories, and what it says is learned."""
    async with two_filter.http() as http:
        (await http.post("/v1/memory", json={"content": "User's favourite zebra is called Marty"})).raise_for_status()
    body = PLAIN.replace(b"zebra?", b"I live in Bergen. What's my favourite zebra called?")
    status = await asyncio.to_thread(posted_with_trailers, two_filter.stack.port, body)
    assert status == httpx.codes.OK
    assert "Marty" in two_filter.llm.last.json["messages"][0]["content"]
    await two_filter.remembers("Bergen")
