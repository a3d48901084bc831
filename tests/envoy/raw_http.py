"""Requests written by hand, byte for byte: what no client library would send."""

import asyncio
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

import h2.config
import h2.connection
import h2.events
import h2.exceptions

Field = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """Status 0: the connection ended without an answer."""

    status: int
    text: str


async def http1(port: int, line: str, fields: Sequence[bytes] = (), body: bytes = b"", end: bytes = b"") -> Answer:
    """A request in HTTP/1.1.

    Args:
        line: method and target.
        fields: whole header lines, as they are.
        end: trailer lines; the body is then sent in chunks.
    """
    length = b"transfer-encoding: chunked" if end else b"content-length: %d" % len(body)
    head = [f"{line} HTTP/1.1".encode(), b"host: x", b"content-type: application/json", length, *fields]
    sent = b"%x\r\n%b\r\n0\r\n%b\r\n\r\n" % (len(body), body, end) if end else body
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"\r\n".join([*head, b"connection: close", b"", sent]))
        received = await asyncio.wait_for(_answer(reader), 20)
    except ConnectionError:
        received = b""
    finally:
        writer.close()
    status = received.split(b" ", 2)[1] if received.startswith(b"HTTP/") else b"0"
    return Answer(int(status), received.decode("utf-8", "replace"))


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """A whole answer. Envoy leaves the connection open for a second after one that is an error."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        if length := re.search(rb"content-length: (\d+)", head, re.IGNORECASE):
            return head + await reader.readexactly(int(length.group(1)))
        return head + (await reader.readuntil(b"0\r\n\r\n") if b"chunked" in head else await reader.read())
    except asyncio.IncompleteReadError as cut:
        return cut.partial


async def http2(port: int, fields: Sequence[Field], body: bytes = b"", trailers: Sequence[Field] = ()) -> Answer:
    """A request in HTTP/2, its fields as they are: pseudo fields too."""
    return await asyncio.to_thread(_http2, port, fields, body, trailers)


def _http2(port: int, fields: Sequence[Field], body: bytes, trailers: Sequence[Field]) -> Answer:
    config = h2.config.H2Configuration(
        client_side=True, validate_outbound_headers=False, normalize_outbound_headers=False
    )
    connection = h2.connection.H2Connection(config)
    connection.initiate_connection()
    connection.send_headers(1, list(fields), end_stream=not body and not trailers)
    if body:
        connection.send_data(1, body, end_stream=not trailers)
    if trailers:
        connection.send_headers(1, list(trailers), end_stream=True)
    status, text = 0, b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as wire:
        wire.sendall(connection.data_to_send())
        while data := wire.recv(65_536):
            try:
                events = connection.receive_data(data)
            except h2.exceptions.ProtocolError:
                break
            for event in events:
                if isinstance(event, h2.events.ResponseReceived):
                    status = int(dict(event.headers)[b":status"])
                elif isinstance(event, h2.events.DataReceived):
                    text += event.data
                elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset | h2.events.ConnectionTerminated):
                    return Answer(status, text.decode("utf-8", "replace"))
            wire.sendall(connection.data_to_send())
    return Answer(status, text.decode("utf-8", "replace"))
