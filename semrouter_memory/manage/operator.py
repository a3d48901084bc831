"""The operator's port: health, readiness, metrics, and the routes that need the operator's token.

Never routed by the public listener: it binds to its own address.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from semrouter_memory.config import IdentityConfig, ManagementConfig
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.exchange.events import Headers
from semrouter_memory.exchange.identity import authenticated_user
from semrouter_memory.manage import collection_routes, recording_routes, turn_routes
from semrouter_memory.manage.access import Access
from semrouter_memory.manage.exception_handlers import unauthenticated
from semrouter_memory.manage.http import ROUTERS, base_app
from semrouter_memory.manage.recording_routes import LiveRecordings
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.manage.turn_routes import OperatorContext
from semrouter_memory.model import Reason

_ABOUT = """Health and metrics. With an operator's token configured, also the memory routes, for the user in `user_id`, the
turns of the log, and care of the files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What /readyz reports.

    Attributes:
        serving: the model is loaded and Envoy's port listens.
        store_available: does not decide: requests pass without memory meanwhile, and taking the sidecar out of service
            would bring nothing back.
        turn_log_damaged: the turn log takes no turns until somebody acts, so it is not ready.
    """

    serving: bool
    store_available: bool
    turn_log_damaged: bool = False

    @property
    def ready(self) -> bool:
        return self.serving and not self.turn_log_damaged


@dataclass(frozen=True, slots=True)
class Exposition:
    """The metrics as Prometheus reads them."""

    body: bytes
    content_type: str


def create_operator_api(
    service: MemoryService,
    *,
    identity: IdentityConfig,
    config: ManagementConfig,
    token: str | None,
    readiness: Callable[[], Readiness],
    metrics: Callable[[], Exposition],
    context: OperatorContext | None = None,
    recordings: LiveRecordings | None = None,
) -> FastAPI:
    """The ASGI application for `management.operator_listen`.

    Args:
        token: the operator's; None: only health and metrics are served.
        context: serves the routes for turns and files.
        recordings: serves the route that records.
        readiness: asked at each /readyz.
        metrics: asked at each /metrics.
    """
    app = base_app("Memory, operator", _ABOUT, config)
    _add_health(app, readiness, metrics)
    if token is not None:
        app.state.access = Access(
            service=service, identity=identity, user_of=_user_named(identity), extra_parameters=frozenset({"user_id"})
        )
        check = Depends(_operator_check(token))
        for router in ROUTERS:
            app.include_router(router, dependencies=[check, Depends(_describe_user_id)])
        if context is not None:
            app.state.operator = context
            app.include_router(turn_routes.router, dependencies=[check])
            app.include_router(collection_routes.router, dependencies=[check])
        if recordings is not None:
            app.state.recordings = recordings
            app.include_router(recording_routes.router, dependencies=[check])
    return app


def _add_health(app: FastAPI, readiness: Callable[[], Readiness], metrics: Callable[[], Exposition]) -> None:
    @app.get("/healthz", summary="The process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", summary="The model is loaded, and turns are taken", responses={503: {"description": "Not so"}})
    async def readyz() -> JSONResponse:
        state = readiness()
        status = HTTPStatus.OK if state.ready else HTTPStatus.SERVICE_UNAVAILABLE
        return JSONResponse(
            {
                "status": "ready" if state.ready else "not ready",
                "model": "loaded" if state.serving else "loading",
                "store": "available" if state.store_available else "unavailable",
                "turn_log": "damaged" if state.turn_log_damaged else "available",
            },
            status,
        )

    @app.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def exposition() -> Response:
        current = metrics()
        return Response(current.body, headers={"content-type": current.content_type})


def _operator_check(token: str) -> Callable[[HTTPAuthorizationCredentials | None], None]:
    bearer = HTTPBearer(auto_error=False, description="The operator's token.")

    def check(credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
        given = credentials.credentials if credentials else ""
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode()):
            raise unauthenticated("the operator's token is missing or wrong", "bad_operator_token")

    return check


def _user_named(identity: IdentityConfig) -> Callable[[Request], str]:
    def user_of(request: Request) -> str:
        given = request.query_params.get("user_id", "")
        user = authenticated_user(Headers([(identity.user_header, given)]), {}, identity)
        if isinstance(user, Reason):
            raise InvalidRequestError("say for which user: ?user_id=...", field="user_id")
        return user

    return user_of


def _describe_user_id(user_id: Annotated[str, Query(min_length=1, description="The user to act for.")]) -> None:
    """Puts the parameter into the description; `_user_named` reads it."""
