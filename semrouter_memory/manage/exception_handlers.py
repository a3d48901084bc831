"""Exception handlers of the HTTP ports: every error becomes JSON in the error shape of OpenAI's APIs."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType

import fastapi
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semrouter_memory.errors import MemoryServiceError, complaint, http_answer, name_of

_log = structlog.get_logger("semrouter_memory.manage")

RETRY_SECONDS = 5
"""`Retry-After` of a 503: about the interval at which the store is tried again."""


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
    message, code = described(error)
    return error_response(error.status_code, message, code=code, headers=error.headers)


def described(error: HTTPException) -> tuple[str, str]:
    """The message and the code of an HTTP error, also of one that the framework raised."""
    detail: object = error.detail
    if isinstance(detail, dict):
        return detail["message"], detail["code"]
    return str(detail), HTTPStatus(error.status_code).name.lower()


async def _on_validation(_request: Request, error: Exception) -> Response:
    """The first problem; pydantic's messages name the rule, not the value."""
    assert isinstance(error, RequestValidationError)
    problem = error.errors()[0]
    where, *path = problem["loc"]
    if where == "body" and (not path or problem["type"] == "json_invalid"):
        message = "the body must be a JSON object, sent with content-type: application/json"
        return error_response(HTTPStatus.BAD_REQUEST, message, code="invalid_json")
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
