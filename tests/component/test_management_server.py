"""Where the HTTP ports listen."""

import asyncio
import signal
import socket
import stat
import time
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.stack.loopback import local_client


def greeting(arrived: asyncio.Event | None = None) -> FastAPI:
    """Args: arrived: is set when a request has, which is answered a while later."""
    app = FastAPI()

    @app.get("/")
    async def hello() -> str:
        if arrived is not None:
            arrived.set()
            await asyncio.sleep(0.3)
        return "hello"

    return app


async def test_port_0_is_a_free_port_and_told() -> None:
    server = await serve_http(greeting(), "127.0.0.1:0")
    async with local_client() as client:
        assert (await client.get(f"http://127.0.0.1:{server.port}/")).json() == "hello"
    await server.stop()
    await server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port or 0))


async def test_an_answer_does_not_wait_for_an_acknowledgement() -> None:
    """Which TCP waits for, 40 ms, before it sends the second part of one. A busy machine is quick once in a while."""
    server = await serve_http(greeting(), "127.0.0.1:0")
    took = [1.0]
    async with local_client() as client:
        for number in range(500):
            began = time.monotonic()
            await client.get(f"http://127.0.0.1:{server.port}/")
            if number > 20:  # TCP acknowledges the first ones at once
                took.append(time.monotonic() - began)
            if min(took) < 0.035:
                break
    await server.stop()
    assert min(took) < 0.035


async def test_a_running_request_ends_before_the_server_does() -> None:
    arrived = asyncio.Event()
    server = await serve_http(greeting(arrived), "127.0.0.1:0")
    async with local_client() as client:
        request = asyncio.create_task(client.get(f"http://127.0.0.1:{server.port}/"))
        await arrived.wait()
        await server.stop()
        assert (await request).json() == "hello"


async def test_a_unix_socket_is_for_owner_and_group_and_is_removed_at_the_end(tmp_path: Path) -> None:
    """Its directory is made, as that of `server.listen` is."""
    path = tmp_path / "made" / "api.sock"
    server = await serve_http(greeting(), f"unix:{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path))) as client:
        assert (await client.get("http://localhost/")).json() == "hello"
    await server.stop()
    assert not path.exists()


async def test_a_socket_that_a_dead_process_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    server = await serve_http(greeting(), f"unix:{path}")
    await server.stop()


async def test_a_taken_place_is_a_clear_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    server = await serve_http(greeting(), f"unix:{tmp_path}/api.sock")
    other = await serve_http(greeting(), "127.0.0.1:0")
    places = {
        f"127.0.0.1:{other.port}": "address already in use",
        f"unix:{tmp_path}/api.sock": "another process answers there",
        f"unix:{tmp_path}/file": "a file that is no socket",
        f"unix:{tmp_path}/file/made/api.sock": "not a directory",
        f"unix:{tmp_path}/{'x' * 200}": "too long",
        "127.0.0.1": "host:port or unix:path",
        ":8081": "host:port or unix:path",
        "127.0.0.1:99999": "cannot listen at",
        "no-such-host.invalid:0": "cannot listen at",
    }
    for listen, complaint in places.items():
        with pytest.raises(ConfigurationError, match=complaint):
            await serve_http(greeting(), listen)
    await server.stop()
    await other.stop()
    assert (tmp_path / "file").read_text() == "mine"


async def test_signals_stay_with_the_process() -> None:
    before = signal.getsignal(signal.SIGTERM)
    server = await serve_http(greeting(), "127.0.0.1:0")
    await asyncio.sleep(0.05)
    assert signal.getsignal(signal.SIGTERM) == before
    await server.stop()
