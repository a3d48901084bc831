"""The users' API: what Envoy routes at /v1/memory, behind the same filters that authenticate LLM traffic."""

from fastapi import FastAPI

from semrouter_memory import __version__
from semrouter_memory.config import IdentityConfig, ManagementConfig
from semrouter_memory.manage import exception_handlers, routes, transfer
from semrouter_memory.manage.access import PREFIX, Access, user_in_header
from semrouter_memory.manage.service import MemoryService

ROUTERS = (transfer.router, routes.router)
"""What users and operators have in common, in the order in which paths are tried."""

_ABOUT = """The memories of the authenticated user. Who that is, a filter in front says (header `{header}`); clients
cannot choose. A memory of somebody else does not exist: 404."""


def create_user_api(
    service: MemoryService,
    *,
    identity: IdentityConfig,
    config: ManagementConfig,
    shared_secret: str | None = None,
    secret_header: str = "x-memory-secret",  # noqa: S107 - the name of a header
) -> FastAPI:
    """The ASGI application for `management.listen`.

    Args:
        shared_secret: what every request must carry in `secret_header`; None where only the proxy reaches the port.
    """
    app = base_app("Memory", _ABOUT.format(header=identity.user_header), config)
    if shared_secret is not None:
        app.add_middleware(exception_handlers.SharedSecretCheck, header=secret_header, secret=shared_secret)
    app.state.access = Access(service=service, identity=identity, user_of=user_in_header(identity))
    for router in ROUTERS:
        app.include_router(router)
    return app


def base_app(title: str, description: str, config: ManagementConfig) -> FastAPI:
    """An application whose every error is JSON, described at /v1/memory/openapi.json."""
    app = FastAPI(
        title=title,
        description=description,
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    exception_handlers.install(
        app,
        max_body_bytes=config.max_body_bytes,
        max_bytes_of=dict.fromkeys((f"{PREFIX}/import", "/v1/collections/import"), config.max_import_bytes),
    )
    return app
