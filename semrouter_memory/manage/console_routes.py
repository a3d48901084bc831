"""The console: a page for browsers over the API, made of static files without anybody's data."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Request, Response
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from semrouter_memory.errors import NotFoundError
from semrouter_memory.manage.access import PREFIX, Access, Owner, access_of, api_router
from semrouter_memory.manage.schemas import ApiAnswer

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
viewer_of_user = api_router(PATH, "console", in_schema=False)
viewer_of_operator = api_router(PATH, "console", in_schema=False)


@viewer_of_user.get("/viewer")
async def _user(owner: Owner) -> Viewer:
    return Viewer(owner=owner.owner)


@viewer_of_operator.get("/viewer")
async def _operator() -> Viewer:
    return Viewer(owner=None)


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


def _require_user(request: Request, access: Annotated[Access, Depends(access_of)]) -> None:
    access.owner_of(request)


def add_for_users(app: FastAPI) -> None:
    """The page behind the identity of every other route."""
    app.include_router(viewer_of_user)
    app.include_router(pages, dependencies=[Depends(_require_user)])


def add_for_operators(app: FastAPI, check: Any) -> None:
    """The page for everybody who reaches the port; it asks for the token, and shows nothing without.

    Args:
        check: the dependency that refuses requests without the operator's token.
    """
    app.include_router(viewer_of_operator, dependencies=[check])
    app.include_router(pages)
