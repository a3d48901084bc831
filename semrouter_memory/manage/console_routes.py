"""The console: a page for browsers over the API, made of static files without anybody's data."""

from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from semrouter_memory.errors import NotFoundError
from semrouter_memory.manage.access import PREFIX, api_router
from semrouter_memory.manage.schemas import ApiAnswer
from semrouter_memory.model import Scope

PATH = f"{PREFIX}/console"
_FILES = StaticFiles(packages=[("semrouter_memory.manage", "console")])


class Viewer(ApiAnswer):
    """Whom the page is for.

    Attributes:
        owner: whose memories it shows; None: an operator chooses.
    """

    owner: str | None


# Not described: pages are for people.
pages = api_router(PATH, "console", in_schema=False)
viewer = api_router(PATH, "console", in_schema=False)


@viewer.get("/viewer")
async def _viewer(request: Request) -> Viewer:
    """On the operator's port no rule names an owner for this route."""
    owner: Scope | None = getattr(request.state, "owner", None)
    return Viewer(owner=owner and owner.owner)


@pages.get("")
async def _page(request: Request) -> Response:
    return await _response(request, "index.html")


@pages.get("/")
async def _without_slash() -> Response:
    """The page's links are relative to its address without the slash."""
    return RedirectResponse("../console", HTTPStatus.PERMANENT_REDIRECT)


@pages.get("/{name}")
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
