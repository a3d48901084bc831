"""The operator's routes that copy the memories of another collection: export it, import the lines, drop it."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import StreamingResponse

from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.manage.access import Api, errors, exactly
from semrouter_memory.manage.edits import ImportReport
from semrouter_memory.manage.operator_schemas import (
    CollectionDropped,
    CollectionJson,
    CollectionList,
    CountedCollection,
)
from semrouter_memory.manage.portable import export_line
from semrouter_memory.manage.schemas import Imported
from semrouter_memory.manage.turn_routes import Collections, Context

Name = Annotated[str, Path(description="The collection's name.")]

router = APIRouter(prefix="/v1/collections", tags=["collections"])


@router.get("", summary="List collections", responses=errors(), dependencies=[exactly()])
async def list_collections(context: Context) -> CollectionList:
    """The collections that this service made, each for one embedding."""
    collections = context.collections
    found = await collections.embeddings()
    return CollectionList(
        data=[
            CollectionJson(name=name, embedding=embedding, current=name == collections.current)
            for name, embedding in sorted(found.items())
        ]
    )


@router.post(
    "/import",
    summary="Import the lines of a collection",
    responses=errors(HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    dependencies=[exactly()],
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}
    },
)
async def import_collection(request: Request, api: Api) -> Imported:
    """Memories of all users, embedded again and otherwise unchanged. Deleted ones are skipped.

    Stored ones are skipped too unless the line has a newer version, so the same lines may be sent again.
    """
    report = ImportReport()
    await api.service.restore_lines(request.stream(), report)
    return Imported.of(report)


@router.get("/{name}", summary="Count a collection", responses=errors(HTTPStatus.NOT_FOUND), dependencies=[exactly()])
async def show_collection(context: Context, name: Name) -> CountedCollection:
    """One collection with the number of its memories, superseded and expired ones included."""
    collections = context.collections
    embedding = await _embedding(collections, name)
    count = await collections.count(name)
    return CountedCollection(name=name, embedding=embedding, current=name == collections.current, memories=count)


@router.get(
    "/{name}/export",
    summary="Export a collection",
    response_class=StreamingResponse,
    responses=errors(HTTPStatus.NOT_FOUND),
    dependencies=[exactly()],
)
async def export_collection(context: Context, name: Name) -> StreamingResponse:
    """Every memory of every user, one JSON object a line. The connection is cut when it cannot be completed."""
    await _embedding(context.collections, name)
    return StreamingResponse(_lines(context.collections, name), media_type="application/x-ndjson")


@router.delete("/{name}", summary="Drop a collection", responses=errors(HTTPStatus.NOT_FOUND), dependencies=[exactly()])
async def drop_collection(context: Context, name: Name) -> CollectionDropped:
    """Delete another collection with everything in it, for good."""
    if name == context.collections.current:
        raise InvalidRequestError("is the collection in use", field="name")
    await _embedding(context.collections, name)
    await context.collections.drop(name)
    # In Milvus Lite's file the text would stay until then.
    await context.deletion.compact({"store"})
    return CollectionDropped(name=name)


async def _embedding(collections: Collections, name: str) -> str:
    embedding = (await collections.embeddings()).get(name)
    if embedding is None:
        raise NotFoundError("no such collection", kind="collection")
    return embedding


async def _lines(collections: Collections, name: str) -> AsyncIterator[bytes]:
    async for memories in collections.scan(name):
        yield b"".join(export_line(memory, exact=True) for memory in memories)
