"""The two HTTP applications, and the console that both serve.

The users' API is what Envoy routes at /v1/memory, behind the same filters that authenticate LLM traffic. The operator's port has
health, readiness, metrics, and the routes that need the operator's token; the public listener never routes to it.
"""

import hmac
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, FastAPI, Path, Request, Response
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from semrouter_memory import __version__
from semrouter_memory.config import ManagementConfig
from semrouter_memory.errors import NotFoundError
from semrouter_memory.manage import knowledge_routes, operator_routes, routes
from semrouter_memory.manage.access import PREFIX, Access, api_router, owner_in_header, owner_in_query
from semrouter_memory.manage.http_server import SharedSecretCheck, install, unauthenticated
from semrouter_memory.manage.operator_routes import OperatorContext
from semrouter_memory.manage.schemas import ApiAnswer
from semrouter_memory.model import Scope

_ABOUT = """The memories of the authenticated user. Who that is, a filter in front says (header `{header}`); clients
cannot choose. Memories of others do not exist: 404. Administrators of an organisation, whom a filter names too, act for it
with `owner`."""

_ABOUT_OPERATOR = """Health and metrics. With an operator's token configured, also the memory routes, for the user in `user_id` or the
owner in `owner`, the turns of the log, and care of the files."""

_OF_OWNERS = (routes.router, knowledge_routes.routes)


# -- the console: a page for browsers over the API, made of static files without anybody's data ---------------------------

_CONSOLE = f"{PREFIX}/console"
_FILES = StaticFiles(packages=[("semrouter_memory.manage", "console")])


class _Viewer(ApiAnswer):
    """Whom the page is for.

    Attributes:
        owner: whose memories it shows; None: an operator chooses.
    """

    owner: str | None


# Not described: pages are for people.
_pages = api_router(_CONSOLE, "console", in_schema=False)
_viewer = api_router(_CONSOLE, "console", in_schema=False)


@_viewer.get("/viewer")
async def _for_whom(request: Request) -> _Viewer:
    """On the operator's port no rule names an owner for this route."""
    owner: Scope | None = getattr(request.state, "owner", None)
    return _Viewer(owner=owner and owner.owner)


@_pages.get("")
async def _page(request: Request) -> Response:
    return await _response(request, "index.html")


@_pages.get("/")
async def _without_slash() -> Response:
    """The page's links are relative to its address without the slash."""
    return RedirectResponse("../console", HTTPStatus.PERMANENT_REDIRECT)


@_pages.get("/{name}")
async def _file(request: Request, name: Annotated[str, Path()]) -> Response:
    return await _response(request, name)


async def _response(request: Request, name: str) -> Response:
    try:
        found = await _FILES.get_response(name, request.scope)
    except HTTPException:
        raise NotFoundError("no such file", kind="file") from None
    # Asked for again each time, so that a page never runs with an older version's script.
    found.headers["cache-control"] = "no-cache"
    return found


# -- the applications -----------------------------------------------------------------------------------------------------


def create_user_api(
    access: Access,
    *,
    config: ManagementConfig,
    shared_secret: str | None = None,
    secret_header: str = "x-memory-secret",  # noqa: S107 - the name of a header
) -> FastAPI:
    """The ASGI application for `management.listen`.

    Args:
        shared_secret: what every request must carry in `secret_header`; None where only the proxy reaches the port.
    """
    app = _base_app("Memory", _ABOUT.format(header=access.identity.user_header), config, access)
    if shared_secret is not None:
        app.add_middleware(SharedSecretCheck, header=secret_header, secret=shared_secret)
    for router in (_viewer, _pages, *_OF_OWNERS):
        app.include_router(router, dependencies=[Depends(owner_in_header(access.identity))])
    return app


def _base_app(title: str, description: str, config: ManagementConfig, access: Access) -> FastAPI:
    """An application whose every error is JSON, described at /v1/memory/openapi.json."""
    app = FastAPI(
        title=title,
        description=description,
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )

    @app.get(f"{PREFIX}/openapi.json", include_in_schema=False)
    def describe() -> JSONResponse:
        """In a thread, as FastAPI's own is not: to describe all routes takes long the first time."""
        return JSONResponse(app.openapi())

    install(
        app,
        max_body_bytes=config.max_body_bytes,
        max_bytes_of=dict.fromkeys((f"{PREFIX}/import", "/v1/collections/import"), config.max_import_bytes)
        | {knowledge_routes.PATH: config.max_document_bytes},
    )
    app.state.access = access
    return app


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """What /readyz reports.

    Attributes:
        serving: the model is loaded and Envoy's port listens.
        store_available: does not decide: requests pass without memory meanwhile, and taking the sidecar out of service
            would bring nothing back.
        turn_log_damaged: the turn log takes no turns until an operator acts, so the sidecar is not ready.
    """

    serving: bool
    store_available: bool
    turn_log_damaged: bool = False

    @property
    def ready(self) -> bool:
        return self.serving and not self.turn_log_damaged

    def body(self) -> dict[str, str]:
        """As JSON."""
        return {
            "status": "ready" if self.ready else "not ready",
            "model": "loaded" if self.serving else "loading",
            "store": "available" if self.store_available else "unavailable",
            "turn_log": "damaged" if self.turn_log_damaged else "available",
        }


def create_operator_api(
    access: Access,
    *,
    config: ManagementConfig,
    token: str | None,
    readiness: Callable[[], Readiness],
    metrics: Callable[[], tuple[bytes, str]],
    context: OperatorContext | None = None,
) -> FastAPI:
    """The ASGI application for `management.operator_listen`.

    Args:
        token: the operator's; None: only health and metrics are served.
        context: serves the operator's own routes.
        readiness: asked at each /readyz.
        metrics: called at each /metrics; gives the text and its content type.
    """
    app = _base_app("Memory, operator", _ABOUT_OPERATOR, config, access)
    _add_health(app, readiness, metrics)
    if token is not None:
        check = Depends(_operator_check(token))
        app.include_router(_viewer, dependencies=[check])
        # For everybody who reaches the port: the page asks for the token, and shows nothing without.
        app.include_router(_pages)
        for router in _OF_OWNERS:
            app.include_router(router, dependencies=[check, Depends(owner_in_query(access.identity))])
        if context is not None:
            app.state.operator = context
            for router in operator_routes.ROUTERS:
                app.include_router(router, dependencies=[check])
    return app


def _add_health(app: FastAPI, readiness: Callable[[], Readiness], metrics: Callable[[], tuple[bytes, str]]) -> None:
    @app.get("/healthz", summary="The process answers")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz", summary="The model is loaded, and turns are taken", responses={503: {"description": "Not so"}})
    async def readyz() -> JSONResponse:
        state = readiness()
        return JSONResponse(state.body(), HTTPStatus.OK if state.ready else HTTPStatus.SERVICE_UNAVAILABLE)

    @app.get("/metrics", summary="Prometheus metrics", response_class=Response)
    async def exposition() -> Response:
        body, content_type = metrics()
        return Response(body, headers={"content-type": content_type})


def _operator_check(token: str) -> Callable[[HTTPAuthorizationCredentials | None], None]:
    bearer = HTTPBearer(auto_error=False, description="The operator's token.")

    def check(credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> None:
        given = credentials.credentials if credentials else ""
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode()):
            raise unauthenticated("the operator's token is missing or wrong", "bad_operator_token")

    return check
