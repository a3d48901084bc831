"""What asks the servers of this machine needs no proxy and no certificate authority."""

import ssl

import pytest
from fastapi import FastAPI

from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.stack.loopback import local_client
from semrouter_memory.stack.stack import _answers


async def test_a_part_that_serves_is_found_whatever_proxy_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = FastAPI()
    app.add_api_route("/readyz", lambda: "ready")
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server = await serve_http(app, "127.0.0.1:0")
    try:
        assert await _answers(f"http://127.0.0.1:{server.port}/readyz")
    finally:
        await server.stop()


async def test_no_client_reads_the_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as long as a start may take between two looks at what starts."""

    def read(*_: object, **__: object) -> ssl.SSLContext:
        raise AssertionError("the authorities were read")

    monkeypatch.setattr(ssl, "create_default_context", read)
    async with local_client():
        pass
