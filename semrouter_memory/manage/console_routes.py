"""The console: a page for browsers over the API, made of static files without anybody's data."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from pathlib import PurePath
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Path, Request, Response
from fastapi.responses import RedirectResponse

from semrouter_memory.errors import NotFoundError
from semrouter_memory.manage.access import PREFIX, Access, Owner, access_of, api_router
from semrouter_memory.manage.schemas import ApiAnswer

PATH = f"{PREFIX}/console"
_PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class Viewer(ApiAnswer):
    """Whom the page is for.

    Attributes:
        owner: whose memories it shows; None: an operator chooses.
    """

    owner: str | None


@dataclass(frozen=True, slots=True)
class _Asset:
    content: bytes
    media_type: str
    tag: str


@cache
def _assets() -> Mapping[str, _Asset]:
    """The files by name: what is asked for is looked up here, and never becomes a path."""
    folder = files("semrouter_memory.manage") / "console"
    found = {file.name: file.read_bytes() for file in folder.iterdir() if PurePath(file.name).suffix in _TYPES}
    return MappingProxyType(
        {
            name: _Asset(content, _TYPES[PurePath(name).suffix], f'"{hashlib.sha256(content).hexdigest()[:16]}"')
            for name, content in found.items()
        }
    )


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
    return _response(request, _PAGE)


@pages.get("/")
async def _without_slash() -> Response:
    """The page's links are relative to its address without the slash."""
    return RedirectResponse("../console", HTTPStatus.PERMANENT_REDIRECT)


@pages.get("/{name}")
async def _file(request: Request, name: Annotated[str, Path()]) -> Response:
    return _response(request, name)


def _response(request: Request, name: str) -> Response:
    asset = _assets().get(name)
    if asset is None:
        raise NotFoundError("no such file", kind="file")
    # Asked for again each time, so that a page never runs with an older version's script.
    headers = {"cache-control": "no-cache", "etag": asset.tag}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)


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
