"""The routes under /v1/knowledge, the same for users, administrators and operators: add, list, show and remove documents."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, Path, Query, Request
from pydantic import AliasPath, BeforeValidator, Field

from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.knowledge.documents import Document
from semrouter_memory.knowledge.service import AddOutcome, Upload
from semrouter_memory.manage.access import NOT_FOUND, TOO_LARGE, Api, OwnerAccess, api_router, raw_body
from semrouter_memory.manage.parameters import UtcTime
from semrouter_memory.manage.schemas import MAX_PAGE, ApiAnswer

PATH = "/v1/knowledge"
_MAX_SOURCE_CHARS = 4096
_MAX_TAGS = 20
_MAX_TAG_CHARS = 64

routes = api_router(PATH, "knowledge")


def _documents(api: Api) -> OwnerAccess:
    if not api.knowledge.serves(api.owner):
        raise NotFoundError(
            "documents are an organisation's (owner=org:ID), and a user's own where memory.knowledge.user_documents is on",
            kind="document",
        )
    return api


Documents = Annotated[OwnerAccess, Depends(_documents)]
DocumentId = Annotated[str, Path(description="The document's id.", examples=["doc_9f86d081884c7d659a2feaa0c55a"])]
Tag = Annotated[str, Field(min_length=1, max_length=_MAX_TAG_CHARS)]


class DocumentJson(ApiAnswer):
    """A stored document."""

    id: str = Field(examples=["doc_9f86d081884c7d659a2feaa0c55a"])
    source: str = Field(description="Path or URL that it came from.", examples=["https://example.org/handbook.html"])
    title: str = Field(examples=["Handbook"])
    kind: str = Field(description="How it was read: text, Markdown, HTML, PDF or DOCX.")
    tags: list[str]
    published_at: datetime = Field(description="When it was last changed, as far as its source tells.")
    added_at: datetime = Field(description="When it was last read.")
    size_bytes: int
    complete: bool = Field(
        validation_alias="is_complete",
        description="False: adding it was interrupted; adding it again completes it.",
    )
    passages: Annotated[int, BeforeValidator(len)] = Field(description="How many passages it was split into.")


class AddedDocument(DocumentJson):
    """A document, and what became of it."""

    outcome: AddOutcome = Field(description="`unchanged`: it was stored already and was not read again.")


class PassageJson(ApiAnswer):
    """A part of a document."""

    id: str
    context: str = Field(description="The title and the headings above it.")
    page: Annotated[int | None, BeforeValidator(lambda page: page or None)] = Field(
        validation_alias=AliasPath("metadata", "page"), description="Its page, where the document has pages."
    )
    content: str


class WholeDocument(DocumentJson):
    """A document with its passages, in order."""

    text: list[PassageJson]


class DocumentList(ApiAnswer):
    """A page of documents, the one added last first."""

    data: list[DocumentJson]
    next_cursor: str | None = Field(description="`cursor` of the next page; null at the end.")


class RemovedDocument(ApiAnswer):
    """What was removed."""

    id: str
    deleted: Literal[True] = True
    passages: int = Field(description="How many passages it had.")


@routes.post(
    "",
    summary="Add a document",
    responses=NOT_FOUND | TOO_LARGE,
    openapi_extra=raw_body("application/octet-stream", format="binary"),
)
async def add_document(
    request: Request,
    api: Documents,
    *,
    source: Annotated[
        str,
        Query(
            min_length=1,
            max_length=_MAX_SOURCE_CHARS,
            description="Path or URL that it comes from. It names the document: the same source again replaces it.",
        ),
    ],
    title: Annotated[
        str, Query(max_length=_MAX_SOURCE_CHARS, description="Without it the document's own, else its file's name.")
    ] = "",
    tag: Annotated[list[Tag] | None, Query(max_length=_MAX_TAGS, description="May be repeated.")] = None,
    published_at: Annotated[UtcTime | None, Query(description="When it was last changed.")] = None,
) -> AddedDocument:
    """Read, split and store a document; the body is its bytes.

    Its kind is the content type's (`text/plain`, `text/markdown`, `text/html`, `application/pdf`, DOCX), else that of the
    ending of `source`. A document whose content did not change is not read again. One that cannot be read is refused and
    changes nothing.
    """
    if not source.isprintable():
        raise InvalidRequestError("must be printable", field="source")
    upload = Upload(
        source=source,
        data=await request.body(),
        media_type=request.headers.get("content-type", ""),
        title=title,
        tags=tuple(tag) if tag else None,
        published_at=published_at,
    )
    document, outcome = await api.knowledge.add(api.owner, upload)
    return AddedDocument.model_construct(**_described(document), outcome=outcome)


@routes.get("", summary="List documents", responses=NOT_FOUND)
async def list_documents(
    api: Documents,
    *,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
    cursor: Annotated[str, Query(description="`next_cursor` of the page before.")] = "",
) -> DocumentList:
    """The owner's documents, the one added last first. A page may hold fewer than `limit`."""
    page = await api.knowledge.page(api.owner, limit=limit, cursor=cursor)
    return DocumentList(
        data=[DocumentJson.model_validate(each) for each in page.documents], next_cursor=page.cursor or None
    )


@routes.get("/{document_id}", summary="Show a document", responses=NOT_FOUND)
async def show_document(api: Documents, document_id: DocumentId) -> WholeDocument:
    """One document with its passages."""
    document, passages = await api.knowledge.show(api.owner, document_id)
    text = [PassageJson.model_validate(row) for row in passages]
    return WholeDocument.model_construct(**_described(document), text=text)


@routes.delete("/{document_id}", summary="Remove a document", responses=NOT_FOUND)
async def remove_document(api: Documents, document_id: DocumentId) -> RemovedDocument:
    """Delete a document with every passage. Nothing shows it from then on; the next compaction takes it out of the files."""
    return RemovedDocument(id=document_id, passages=await api.knowledge.remove(api.owner, document_id))


def _described(document: Document) -> dict[str, Any]:
    return dict(DocumentJson.model_validate(document))
