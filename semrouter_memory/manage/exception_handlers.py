"""Exception handlers of the HTTP ports: every error becomes JSON in the error shape of OpenAI's APIs."""

import hmac
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semrouter_memory.deletion.service import DeletionUnfinishedError
from semrouter_memory.errors import (
    EmbeddingError,
    InvalidRequestError,
    LockLostError,
    MemoryServiceError,
    NotFoundError,
    StateStoreError,
    StoreUnavailableError,
    TurnLogError,
)
from semrouter_memory.manage.backup import MaintenanceError
from semrouter_memory.manage.importing import ImportUnfinishedError, TooManyLinesError

_log = structlog.get_logger("semrouter_memory.manage")

RETRY_SECONDS = 5
"""`Retry-After` of a 503: about the interval at which the store is tried again."""


class Refusal(HTTPException):
    """An HTTP error with the code of its body."""

    def __init__(self, status: HTTPStatus, message: str, code: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)
        self.code = code


def refuse_unauthenticated(message: str, code: str) -> Refusal:
    return Refusal(HTTPStatus.UNAUTHORIZED, message, code, {"www-authenticate": "Bearer"})


def error_response(
    status: int, message: str, *, code: str, param: str | None = None, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return JSONResponse(body, status, headers)


def install(app: FastAPI, *, max_body_bytes: int, max_bytes_of: Mapping[str, int] = MappingProxyType({})) -> None:
    """Make every failing request of this app end in `error_response`.

    Args:
        max_bytes_of: path -> bound on its body, where it differs from `max_body_bytes`.
    """
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(MemoryServiceError, _on_service_error)
    app.add_middleware(_BodyLimit, max_body_bytes=max_body_bytes, max_bytes_of=max_bytes_of)
    app.add_middleware(_CatchAll)


async def _on_http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = error.code if isinstance(error, Refusal) else HTTPStatus(error.status_code).name.lower()
    return error_response(error.status_code, str(error.detail), code=code, headers=error.headers)


async def _on_validation(_request: Request, error: Exception) -> Response:
    """The first problem; pydantic's messages name the rule, not the value."""
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where, *path = problem["loc"]
    if where == "body" and (not path or problem["type"] == "json_invalid"):
        message = "the body must be a JSON object, sent with content-type: application/json"
        return error_response(HTTPStatus.BAD_REQUEST, message, code="invalid_json")
    param = ".".join(str(part) for part in path)
    what = "unknown field" if problem["type"] == "extra_forbidden" else str(problem["msg"])
    return error_response(HTTPStatus.BAD_REQUEST, f"{param}: {what}", code="invalid_value", param=param)


_UNAVAILABLE: tuple[tuple[type[MemoryServiceError], str, str], ...] = (
    (
        DeletionUnfinishedError,
        "a part is unavailable; the memory is hidden from now on, but not all of it is deleted: repeat the request",
        "deletion_unfinished",
    ),
    (ImportUnfinishedError, "", "import_unfinished"),
    (MaintenanceError, "", "maintenance_failed"),
    (
        LockLostError,
        "this user's memories cannot be locked for a change at present; repeat the request",
        "lock_lost",
    ),
    (StateStoreError, "the state store is unavailable at present", "state_unavailable"),
    (StoreUnavailableError, "the store is unavailable at present", "store_unavailable"),
    (EmbeddingError, "the text could not be embedded", "embedding_unavailable"),
    (TurnLogError, "the turn log, which has the tombstones, is not readable", "turn_log_unavailable"),
)
"""Errors that end without action, the most special first; without a message here, the error's own message is shown."""


async def _on_service_error(_request: Request, error: Exception) -> Response:
    match error:
        case TooManyLinesError():
            return error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error), code="too_many_lines")
        case InvalidRequestError():
            return error_response(HTTPStatus.BAD_REQUEST, str(error), code="invalid_value", param=error.field)
        case NotFoundError():
            return error_response(HTTPStatus.NOT_FOUND, f"no such {error.kind}", code=f"{error.kind}_not_found")
    for kind, message, code in _UNAVAILABLE:
        if isinstance(error, kind):
            return _unavailable(message or str(error), code)
    raise error


def _unavailable(message: str, code: str) -> JSONResponse:
    return error_response(
        HTTPStatus.SERVICE_UNAVAILABLE, message, code=code, headers={"retry-after": str(RETRY_SECONDS)}
    )


class _CatchAll:
    """Turns an unexpected exception into a 500 without details.

    The server would log its message, and a foreign message may quote content.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - the client gets an answer in any case
            _log.error("Management request failed", error=type(error).__name__, method=scope.get("method"))
            # A response that has begun stays incomplete; the server closes the connection, so the client notices.
            if not started:
                message = "the server failed to answer this request"
                response = error_response(HTTPStatus.INTERNAL_SERVER_ERROR, message, code="internal_error")
                await response(scope, receive, send)


class _BodyLimit:
    """Refuses bodies above the limit, by their content-length or as soon as too much arrived."""

    def __init__(self, app: ASGIApp, max_body_bytes: int, max_bytes_of: Mapping[str, int]) -> None:
        self._app = app
        self._max_body_bytes = max_body_bytes
        self._max_bytes_of = max_bytes_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0
        limit = self._max_bytes_of.get(scope.get("path", ""), self._max_body_bytes)

        async def receiving() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(limit)
            return message

        if _stated_length(scope) > limit:
            refusal = _too_large(limit)
            response = error_response(refusal.status_code, refusal.detail, code=refusal.code)
            await response(scope, receive, send)
            return
        await self._app(scope, receiving, send)


def _too_large(limit: int) -> Refusal:
    return Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is larger than {limit} bytes", "request_too_large")


def _stated_length(scope: Scope) -> int:
    for name, value in scope.get("headers", ()):
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0


class SharedSecretCheck:
    """Refuses requests without the proxy's secret: a caller that reaches the port directly could claim any identity."""

    def __init__(self, app: ASGIApp, header: str, secret: str) -> None:
        self._app = app
        self._header = header.encode()
        self._secret = secret.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        values = [value for name, value in scope.get("headers", ()) if name == self._header]
        if len(values) == 1 and hmac.compare_digest(values[0], self._secret):
            await self._app(scope, receive, send)
            return
        message = "this port answers the proxy in front of it only"
        response = error_response(HTTPStatus.UNAUTHORIZED, message, code="unauthenticated_proxy")
        await response(scope, receive, send)
