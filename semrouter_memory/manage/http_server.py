"""The HTTP ports: an application is served inside our own event loop, and every request is held to the same rules.

Every error becomes JSON in the error shape of OpenAI's APIs, a body has a bound, and no other site's page may change anything.
"""

import asyncio
import hmac
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import fastapi
import structlog
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semrouter_memory.errors import MemoryServiceError, complaint, http_answer, name_of
from semrouter_memory.sockets import listening_socket

_log = structlog.get_logger("semrouter_memory.manage")

RETRY_SECONDS = 5
"""`Retry-After` of a 503: about the interval at which the store is tried again."""

_NO_JSON = "the body must be a JSON object in UTF-8, sent with content-type: application/json"


def refusal(status: HTTPStatus, message: str, code: str, headers: Mapping[str, str] | None = None) -> HTTPException:
    """An HTTP error with the code of its body; FastAPI lets it pass from wherever it is raised."""
    return fastapi.HTTPException(status, {"message": message, "code": code}, None if headers is None else dict(headers))


def unauthenticated(message: str, code: str) -> HTTPException:
    return refusal(HTTPStatus.UNAUTHORIZED, message, code, {"www-authenticate": "Bearer"})


def error_response(
    status: int, message: str, *, code: str, param: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return JSONResponse(body, status, headers)


def install(app: FastAPI, *, max_body_bytes: int, max_bytes_of: Mapping[str, int] = MappingProxyType({})) -> None:
    """Make every failing request of this app end in `error_response`, and browsers keep its answers to themselves.

    Args:
        max_bytes_of: path -> bound on its body, where it differs from `max_body_bytes`.
    """
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(MemoryServiceError, _on_service_error)
    app.add_middleware(_BodyLimit, max_body_bytes=max_body_bytes, max_bytes_of=max_bytes_of)
    app.add_middleware(_CatchAll)
    app.add_middleware(_BrowserRules)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message, code = described(error)
    headers = MutableHeaders(error.headers)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and isinstance(error.detail, str):
        # The framework's own, which names the methods of the first route with this path alone.
        headers["allow"] = ", ".join(method for method in _METHODS if _takes(request, method))
    return error_response(error.status_code, message, code=code, headers=headers)


_METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


def _takes(request: Request, method: str) -> bool:
    """Whether the request's path takes this method."""
    scope = {**request.scope, "method": method}
    return any(route.matches(scope)[0] is Match.FULL for route in request.app.routes)


def described(error: HTTPException) -> tuple[str, str]:
    """The message and the code of an HTTP error, also of one that the framework raised."""
    detail: object = error.detail
    if isinstance(detail, dict):
        return detail["message"], detail["code"]
    if error.status_code == HTTPStatus.BAD_REQUEST:
        # The framework's, for a body that is no UTF-8 or too deep.
        return _NO_JSON, "invalid_json"
    return str(detail), HTTPStatus(error.status_code).name.lower()


async def _on_validation(_request: Request, error: Exception) -> Response:
    """The first problem; pydantic's messages name the rule, not the value."""
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where, *path = problem["loc"]
    if where == "body" and (not path or problem["type"] == "json_invalid"):
        return error_response(HTTPStatus.BAD_REQUEST, _NO_JSON, code="invalid_json")
    param = ".".join(str(part) for part in path)
    return error_response(HTTPStatus.BAD_REQUEST, f"{param}: {complaint(problem)}", code="invalid_value", param=param)


async def _on_service_error(_request: Request, error: Exception) -> Response:
    answer = http_answer(error)
    if answer.status is HTTPStatus.INTERNAL_SERVER_ERROR:
        raise error
    headers = {"retry-after": str(RETRY_SECONDS)} if answer.status is HTTPStatus.SERVICE_UNAVAILABLE else None
    return error_response(answer.status, answer.message, code=answer.code, param=answer.field, headers=headers)


@dataclass(frozen=True, slots=True)
class _CatchAll:
    """Turns an unexpected exception into a 500 without details.

    The server would log its message, and a foreign message may quote content.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - the client gets an answer in any case
            _log.error("Management request failed", error=name_of(error), method=scope.get("method"))
            # A response that has begun stays incomplete; the server closes the connection, so the client notices.
            if not started:
                answer = http_answer(error)
                response = error_response(answer.status, answer.message, code=answer.code)
                await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _BodyLimit:
    """Refuses bodies above the limit, by their content-length or as soon as too much arrived."""

    app: ASGIApp
    max_body_bytes: int
    max_bytes_of: Mapping[str, int]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0
        limit = self.max_bytes_of.get(scope.get("path", ""), self.max_body_bytes)

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(limit)
            return message

        if _stated_length(scope) > limit:
            message, code = described(_too_large(limit))
            response = error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, code=code)
            await response(scope, receive, send)
            return
        await self.app(scope, receiving, send)


def _too_large(limit: int) -> HTTPException:
    return refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limit} bytes", "request_too_large")


def _stated_length(scope: Scope) -> int:
    for name, value in scope.get("headers", ()):
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


@dataclass(frozen=True, slots=True)
class SharedSecretCheck:
    """Refuses requests without the proxy's secret: a caller that reaches the port directly could claim any identity."""

    app: ASGIApp
    header: str
    secret: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        values = [value for name, value in scope.get("headers", ()) if name == self.header.encode()]
        if len(values) == 1 and hmac.compare_digest(values[0], self.secret.encode()):
            await self.app(scope, receive, send)
            return
        message = "this port answers the proxy in front of it only"
        response = error_response(HTTPStatus.UNAUTHORIZED, message, code="unauthenticated_proxy")
        await response(scope, receive, send)


# -- browsers: no other site may change anything here, frame a page, or read an answer -------------------------------------
#
# The identity may be a cookie of the filter that authenticates, which a browser also sends with a request that another site's
# page started. A browser says where a request comes from: `Sec-Fetch-Site`, and, where it leaves that out (plain HTTP),
# `Origin`. Clients that are no browsers send neither and are unaffected.

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'none';"
    " frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'"
)
_HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # What answers hold is one user's own.
    "cache-control": "no-store",
}
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({"same-origin", "none"})
"""`none`: the user's own doing, as an address that was typed."""


@dataclass(frozen=True, slots=True)
class _BrowserRules:
    """Refuses changes that another site's page asks for, and gives every answer the headers that browsers obey."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["method"] not in _SAFE_METHODS and _is_of_another_site(Headers(scope=scope)):
            message = "a page of another site may not change anything here"
            refused = error_response(HTTPStatus.FORBIDDEN, message, code="cross_site_request")
            await refused(scope, receive, sending)
            return
        await self.app(scope, receive, sending)


def _is_of_another_site(headers: Headers) -> bool:
    """Whether a browser says that a page of another origin started the request. A subdomain is another origin, too."""
    sites, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
    if sites:
        return not _OWN_SITES.issuperset(sites)
    return any(not _is_own(origin, headers.get("host", "")) for origin in origins)


def _is_own(origin: str, host: str) -> bool:
    """The scheme is left out: behind a proxy that ends TLS, this server does not know its own."""
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


# -- the server ----------------------------------------------------------------------------------------------------------

_BACKLOG = 512


class HttpServer:
    """A running server.

    Attributes:
        port: the bound port; None on a Unix socket.
    """

    def __init__(self, server: uvicorn.Server, listening: socket.socket, path: Path | None) -> None:
        self._server = server
        self._path = path
        self.port: int | None = None if path else listening.getsockname()[1]
        self._serving = asyncio.create_task(server.serve([listening]), name="management-http")

    async def stop(self) -> None:
        """Answer what is running, for a bounded time, and close. Safe to call twice."""
        self._server.should_exit = True
        await asyncio.wait([self._serving])
        if self._path is not None:
            self._path.unlink(missing_ok=True)


class _EmbeddedServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's business, not this server's."""
        yield


async def serve_http(app: ASGIApp, listen: str, *, drain_seconds: int = 5) -> HttpServer:
    """Serve, without signal handlers, at host:port (port 0: any free one) or unix:path.

    Returns:
        The server, accepting connections.

    Raises:
        ConfigurationError: the address cannot be listened on; the message says why.
    """
    listening, path = listening_socket(listen)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=drain_seconds,
    )
    listening.listen(_BACKLOG)
    return HttpServer(_EmbeddedServer(config), listening, path)
