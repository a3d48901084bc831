"""`semrouter-memory memory import` and `reembed`: memories in parts that one request may bring, and what became of them."""

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import rich.progress
import typer
from rich.progress import track

from semrouter_memory.cli.connection import COLLECTIONS, MEMORY, ApiClient, operator_command, user_command
from semrouter_memory.cli.output import AsJson, err, report, shown
from semrouter_memory.errors import InvalidRequestError, UnavailableError
from semrouter_memory.model import Json
from semrouter_memory.resilience import Backoff

PART_LINES = 200
PART_BYTES = 4 * 1024 * 1024
MAX_ERRORS = 100
ATTEMPTS = 6
"""To send a part. A copy that has come some way is not given up for one moment in which the store is slow."""
BACKOFF = Backoff(first=1.0, longest=15.0)


def import_lines(lines: Iterable[bytes], send: Callable[[bytes], dict[str, Json]]) -> dict[str, Json]:
    """Send the lines, in order, and return the report; its errors name the lines by their numbers among all.

    After the first part it waits for a service that is unavailable, half a minute at most. Of a part that is sent again, what was
    stored the first time counts as skipped.

    Raises:
        UnavailableError: the service is unavailable at the first part, or for longer.
    """
    summary: dict[str, Json] = {"lines": 0, "imported": 0, "skipped": 0, "refused": 0, "errors": []}
    before = 0
    for part in _parts(lines):
        answer = _sent(b"".join(part), send, attempts=ATTEMPTS if before else 1)
        for name in ("lines", "imported", "skipped", "refused"):
            summary[name] += answer[name]
        free = MAX_ERRORS - len(summary["errors"])
        summary["errors"] += [{**error, "line": error["line"] + before} for error in answer["errors"][:free]]
        before += len(part)
    return summary


def _sent(part: bytes, send: Callable[[bytes], dict[str, Json]], *, attempts: int) -> dict[str, Json]:
    for failures in range(attempts - 1):
        try:
            return send(part)
        except UnavailableError as error:
            pause = BACKOFF.delay(failures, random.random())  # noqa: S311 - no secret
            err.print(f"{shown(str(error))}; trying again in {pause:.0f} s")
            time.sleep(pause)
    return send(part)


def _parts(lines: Iterable[bytes]) -> Iterator[list[bytes]]:
    part: list[bytes] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line)
        if len(part) >= PART_LINES or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def register(group: typer.Typer) -> None:
    """Add both commands to a group."""
    user_command(group, "import")(_import)
    operator_command(group, "reembed")(_reembed)


def _import(
    client: ApiClient,
    *,
    file: Annotated[Path, typer.Argument(help="Lines as `export` writes them; - reads stdin.", allow_dash=True)],
    from_user: Annotated[
        str | None, typer.Option(help="Take over lines of this other user, too; all others' are refused.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Store exported memories; exit status 1 when a line was refused.

    Memories that are there already are skipped, so a file may be imported again.
    One that was deleted comes back.
    """
    with _opened(file) as lines:
        result = import_lines(lines, partial(client.import_lines, prefix=MEMORY, query={"from_user": from_user}))
    summary = f"{result['imported']} imported, {result['skipped']} skipped, {result['refused']} refused"
    report(result, [summary], as_json=as_json)
    for line in refusals(result) if not as_json else ():
        err.print(shown(line))
    if result["refused"]:
        raise typer.Exit(1)


def refusals(summary: dict[str, Json]) -> Iterator[str]:
    """The lines that were refused, and how many more there are than are named."""
    for error in summary["errors"]:
        where = f" ({error['param']})" if error["param"] else ""
        yield f"line {error['line']}{where}: {error['message']}"
    if more := summary["refused"] - len(summary["errors"]):
        yield f"and {more} more; {len(summary['errors'])} are named at a time"


def _opened(file: Path) -> AbstractContextManager[Iterable[bytes]]:
    if str(file) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return rich.progress.open(file, "rb", description="importing", console=err, transient=True)
    except OSError as error:
        raise InvalidRequestError(f"cannot read {file}: {error.strerror}") from None


def _reembed(
    client: ApiClient,
    *,
    from_collection: Annotated[
        str | None, typer.Option(help="The collection to copy. Not needed if there is only one other collection.")
    ] = None,
    drop_source: Annotated[
        bool, typer.Option("--drop-source", help="Delete the copied collection for good if all is copied; asks first.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy all memories of another collection into the sidecar's own.

    Vectors of two models cannot be compared, so each model has its own
    collection. Start the sidecar with the new model (memory.embedding,
    memory.milvus.dimension) and a new name for memory.milvus.collection, then
    run this. Every memory of every user is exported from the old collection,
    history included, and imported into the new one, which embeds it again.
    Deleted memories do not come back; the old collection is only read.

    Stored memories are skipped unless the old collection has a newer version,
    so an interrupted run is repeated as it is. With several sidecars, run it
    again when all of them use the new collection. Exit status 1: a memory could
    not be copied, the message says which line of the export and why.
    """
    source = _source(from_collection, client.ask("GET", COLLECTIONS, holding="data")["data"])
    if drop_source and not yes:
        typer.confirm(
            f"Delete {source} for good once it is copied? No sidecar may use it any more.", abort=True, err=True
        )
    total = int(client.ask("GET", COLLECTIONS, source, holding="memories")["memories"])
    with client.lines(COLLECTIONS, source, "export") as lines:
        read = track(lines, f"copying {source}", total, console=err, transient=True)
        copied = import_lines(read, partial(client.import_lines, prefix=COLLECTIONS))
    dropped = drop_source and not copied["refused"]
    if dropped:
        client.ask("DELETE", COLLECTIONS, source, holding="deleted")
    outcome = {"source": source, "dropped": dropped, **copied}
    report(outcome, _lines(source, copied, dropped=dropped), as_json=as_json)
    if copied["refused"]:
        raise typer.Exit(1)


def _source(named: str | None, collections: list[dict[str, Json]]) -> str:
    """The named collection, else the only other one."""
    others = {str(each["name"]): str(each["embedding"]) for each in collections if not each["current"]}
    known = ", ".join(f"{name} ({embedding})" for name, embedding in sorted(others.items())) or "none"
    if named is not None:
        if named not in others:
            raise InvalidRequestError(f"--from-collection: there is no other collection {named}; there are: {known}")
        return named
    if len(others) != 1:
        raise InvalidRequestError(f"name the collection to copy with --from-collection; there are: {known}")
    return next(iter(others))


def _lines(source: str, copied: dict[str, Json], *, dropped: bool) -> Iterator[str]:
    yield f"{copied['imported']} copied, {copied['skipped']} skipped, {copied['refused']} refused"
    yield from refusals(copied)
    if dropped:
        yield f"{source} is deleted"
    elif not copied["refused"]:
        yield (
            f"{source} still holds its memories, deleted ones too. When no sidecar uses it any more:"
            f" run this again with --drop-source --from-collection {source}"
        )
