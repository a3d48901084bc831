"""`semrouter-memory knowledge ...`: documents of an organisation, at the operator's port of a running sidecar.

The command reads files and pages and sends their bytes; the sidecar opens none and fetches none.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import track

from semrouter_memory.cli.connection import KNOWLEDGE, ApiClient, operator_command
from semrouter_memory.cli.output import AsJson, err, print_lines, print_objects, report, shown
from semrouter_memory.errors import InvalidRequestError, NotFoundError
from semrouter_memory.model import Json

if TYPE_CHECKING:
    import httpx

app = typer.Typer()
_knowledge = typer.Typer(
    no_args_is_help=True,
    help="""Documents of an organisation, which its members' requests are answered with.

Text, Markdown, HTML, PDF and DOCX are split into passages by their headings
and stored in a collection of their own. Requests that carry the organisation
find them together with the user's memories.

    knowledge add docs/ --org acme          all documents below a directory
    knowledge add https://... --org acme    a page
    knowledge list --org acme
    knowledge refresh --org acme            read all of them again
    knowledge remove ID --org acme
""",
)
app.add_typer(_knowledge, name="knowledge")

_URLS = ("http://", "https://")
_AT_ONCE = 2
"""While one is written to the store, the next one is embedded."""
_FETCH_SECONDS = 60.0
_GENERAL = "application/octet-stream"
_COLUMNS = {
    "id": "id",
    "kind": "kind",
    "passages": "passages",
    "changed": "published_at",
    "title": "title",
    "source": "source",
}
"""The member of the API's answer in each column."""

Org = Annotated[str, typer.Option("--org", help="The organisation.")]
DocumentId = Annotated[str, typer.Argument(help="The document's id.")]


@dataclass(frozen=True, slots=True)
class _Fetched:
    data: bytes
    media_type: str
    published_at: datetime | None


@operator_command(_knowledge, "add")
def _add(
    client: ApiClient,
    *,
    sources: Annotated[list[str], typer.Argument(help="Files, directories (all documents below them) and URLs.")],
    org: Org,
    tag: Annotated[list[str] | None, typer.Option(help="May be repeated.")] = None,
    title: Annotated[str | None, typer.Option(help="Of a single document; default its own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Add documents, or their new versions.

    Documents that did not change are skipped, so an interrupted run is repeated
    as it is. Exit status 1: a document was refused, the message says why; the
    others are added.
    """
    found = list(dict.fromkeys(each for source in sources for each in _expanded(source)))
    if title is not None and len(found) != 1:
        raise InvalidRequestError("--title is for one document")
    _send(client, org, found, {"tag": tag, "title": title}, as_json=as_json)


@operator_command(_knowledge, "refresh")
def _refresh(
    client: ApiClient,
    *,
    org: Org,
    document_ids: Annotated[list[str] | None, typer.Argument(help="Only these.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read stored documents again where they came from; exit status 1 when one could not be.

    Those that did not change are skipped. Run it where the files are.
    """
    known = {str(each["id"]): str(each["source"]) for each in _documents(client, org)}
    missing = [each for each in document_ids or () if each not in known]
    if missing:
        raise NotFoundError(f"no such document: {', '.join(missing)}", kind="document")
    _send(client, org, [known[each] for each in document_ids or known], {}, as_json=as_json)


def _print_documents(documents: Sequence[dict[str, Json]]) -> None:
    print_objects(_COLUMNS, documents)
    for each in documents:
        if not each["complete"]:
            err.print(f"{shown(each['source'])} is not complete; add it again")


@operator_command(_knowledge, "list", _print_documents)
def _list(client: ApiClient, *, org: Org) -> Json:
    """List documents, the one added last first."""
    return list(_documents(client, org))


@operator_command(_knowledge, "show")
def _show(client: ApiClient, *, document_id: DocumentId, org: Org) -> Json:
    """Show a document with its passages, as JSON."""
    return client.ask("GET", KNOWLEDGE, document_id, holding="text", query=_of(org))


@operator_command(
    _knowledge,
    "remove",
    lambda removed: print_lines(f"removed {each['id']}, {each['passages']} passages" for each in removed),
)
def _remove(
    client: ApiClient,
    *,
    document_ids: Annotated[list[str], typer.Argument(help="Ids of documents.")],
    org: Org,
) -> Json:
    """Remove documents with every passage.

    Nothing shows them from then on. The next compaction takes them out of the
    files; `semrouter-memory compact` does it now.
    """
    return [client.ask("DELETE", KNOWLEDGE, each, holding="deleted", query=_of(org)) for each in document_ids]


def _of(org: str) -> dict[str, Json]:
    return {"owner": f"org:{org}"}


def _documents(client: ApiClient, org: str) -> Iterator[dict[str, Json]]:
    """Every document of the organisation."""
    cursor: str | None = ""
    while cursor is not None:
        page = client.ask("GET", KNOWLEDGE, holding="data", query={**_of(org), "cursor": cursor})
        yield from page["data"]
        cursor = page["next_cursor"]


def _send(client: ApiClient, org: str, sources: Iterable[str], options: Mapping[str, Json], *, as_json: bool) -> None:
    """Add the documents; what is refused does not keep the others back."""

    def add(source: str) -> dict[str, Json] | InvalidRequestError:
        try:
            fetched = _fetched(source)
            published = fetched.published_at.isoformat() if fetched.published_at else None
            query = {**_of(org), "source": source, "published_at": published, **options}
            headers = {"content-type": fetched.media_type}
            return client.ask("POST", KNOWLEDGE, holding="outcome", query=query, content=fetched.data, headers=headers)
        except InvalidRequestError as error:
            return error if source in str(error) else InvalidRequestError(f"{source}: {error}")

    outcomes: list[dict[str, Json]] = []
    refused = 0
    known = list(sources)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(add, known)
        for each in track(found, "adding", total=len(known), console=err, transient=True, disable=len(known) < 2):  # noqa: PLR2004
            if isinstance(each, InvalidRequestError):
                refused += 1
                err.print(shown(str(each)))
            else:
                outcomes.append(each)
    counts = {kind: sum(each["outcome"] == kind for each in outcomes) for kind in ("added", "refreshed", "unchanged")}
    summary = ", ".join(f"{count} {kind}" for kind, count in {**counts, "refused": refused}.items())
    report(outcomes, [summary], as_json=as_json)
    if refused:
        raise typer.Exit(1)


def _expanded(source: str) -> Iterator[str]:
    """The URL, the file, or all documents below the directory."""
    if source.startswith(_URLS):
        yield source
        return
    from semrouter_memory.knowledge.reading import READABLE  # noqa: PLC0415 - loads what `--help` need not wait for

    path = Path(source).expanduser().resolve()
    if not path.is_dir():
        yield str(path)
        return
    found = sorted(each for each in path.rglob("*") if each.suffix.lower() in READABLE and each.is_file())
    if not found:
        raise InvalidRequestError(f"{source}: no documents below it ({', '.join(sorted(READABLE))})")
    yield from map(str, found)


def _fetched(source: str) -> _Fetched:
    """Raises: InvalidRequestError: it cannot be read."""
    if source.startswith(_URLS):
        return _page(source)
    try:
        path = Path(source)
        return _Fetched(path.read_bytes(), _GENERAL, datetime.fromtimestamp(path.stat().st_mtime, UTC))
    except OSError as error:
        raise InvalidRequestError(f"{source}: cannot be read: {error.strerror}") from None


def _page(url: str) -> _Fetched:
    import httpx  # noqa: PLC0415 - same

    try:
        response = httpx.get(url, follow_redirects=True, timeout=_FETCH_SECONDS)
        response.raise_for_status()
    except httpx.HTTPStatusError as error:
        raise InvalidRequestError(f"{url}: its server answers {error.response.status_code}") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise InvalidRequestError(f"{url}: cannot be fetched ({type(error).__name__})") from None
    return _Fetched(response.content, response.headers.get("content-type", _GENERAL), _last_modified(response))


def _last_modified(response: "httpx.Response") -> datetime | None:
    try:
        time = parsedate_to_datetime(response.headers["last-modified"])
    except (KeyError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
