"""`semrouter-memory memory reembed`: exports another collection of a running sidecar and imports it into its own."""

from typing import Annotated

import typer

from semrouter_memory.cli.importing import import_lines
from semrouter_memory.cli.operator import operator_command
from semrouter_memory.cli.output import AsJson, err, out, print_json
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.client import OperatorClient
from semrouter_memory.model import Json


def register(group: typer.Typer) -> None:
    """Add the command to a group."""
    operator_command(group, "reembed")(_reembed)


def _reembed(
    client: OperatorClient,
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
    source = _source(from_collection, client.collections())
    if drop_source and not yes:
        typer.confirm(
            f"Delete {source} for good once it is copied? No sidecar may use it any more.", abort=True, err=True
        )
    total = int(client.collection(source)["memories"])
    with client.export_collection(source) as lines:
        report = import_lines(lines, client.import_lines, err, description=f"copying {source}", total=total)
    dropped = drop_source and not report["refused"]
    if dropped:
        client.drop_collection(source)
    if as_json:
        print_json({"source": source, "dropped": dropped, **report})
    else:
        _report(source, report, dropped=dropped)
    if report["refused"]:
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


def _report(source: str, report: dict[str, Json], *, dropped: bool) -> None:
    lines = [f"{report['imported']} copied, {report['skipped']} skipped, {report['refused']} refused"]
    lines += [f"line {error['line']}: {error['message']}" for error in report["errors"]]
    if dropped:
        lines.append(f"{source} is deleted")
    elif not report["refused"]:
        lines.append(
            f"{source} still holds its memories, deleted ones too. When no sidecar uses it any more:"
            f" run this again with --drop-source --from-collection {source}"
        )
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)
