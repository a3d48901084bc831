"""Every way in which a request can fail ends in the same JSON."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request
from structlog.testing import capture_logs

from semrouter_memory.errors import (
    BodyError,
    InvalidRequestError,
    NotFoundError,
    Service,
    StoreUnavailableError,
    TurnLogError,
    UnavailableError,
)
from semrouter_memory.manage import http_server

CANARY = "my-secret-canary"


def app_raising(error: Exception) -> FastAPI:
    app = FastAPI()
    http_server.install(app, max_body_bytes=10)

    @app.post("/")
    async def fail(request: Request) -> None:
        await request.body()
        raise error

    return app


def client_of(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (InvalidRequestError("no", field="a"), 400, "invalid_request_error", "invalid_value"),
        (NotFoundError("no"), 404, "invalid_request_error", "memory_not_found"),
        (StoreUnavailableError(CANARY), 503, "server_error", "store_unavailable"),
        (UnavailableError(service=Service.DELETION), 503, "server_error", "deletion_unfinished"),
        (UnavailableError(CANARY, service=Service.EMBEDDING), 503, "server_error", "embedding_unavailable"),
        (TurnLogError(CANARY), 503, "server_error", "turn_log_unavailable"),
        (BodyError(CANARY), 500, "server_error", "internal_error"),
        (ValueError(CANARY), 500, "server_error", "internal_error"),
    ],
)
async def test_the_answer_to_an_error(error: Exception, status: int, kind: str, code: str) -> None:
    with capture_logs() as lines:
        async with client_of(app_raising(error)) as client:
            response = await client.post("/")
    assert response.status_code == status
    body = response.json()["error"]
    assert (body["type"], body["code"]) == (kind, code)
    assert body["param"] == getattr(error, "field", None)
    assert ("retry-after" in response.headers) == (status == 503)
    assert CANARY not in response.text + str(lines)
    assert [line["event"] for line in lines] == (["Management request failed"] if status == 500 else [])


@pytest.mark.parametrize(("size", "status"), [(10, 404), (11, 413)])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_beyond_the_limit_is_refused(size: int, status: int, *, chunked: bool) -> None:
    """Whether its length is stated or found out while it arrives."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(size):
            yield b"x"

    async with client_of(app_raising(NotFoundError("no"))) as client:
        response = await client.post("/", content=pieces() if chunked else b"x" * size)
    assert response.status_code == status
    if status == 413:
        assert response.json()["error"]["code"] == "request_too_large"
