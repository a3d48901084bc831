"""`semrouter-memory memory ...`: look at and change stored memories through the running sidecar.

It speaks the API instead of opening the store, because a Milvus Lite file belongs to one process.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import rich.progress
import typer

from semrouter_memory.cli import importing, switches
from semrouter_memory.cli import memory_options as options
from semrouter_memory.cli.connection import user_command
from semrouter_memory.cli.output import (
    AsJson,
    err,
    out,
    print_json,
    print_objects,
    print_page,
    print_table,
    report,
    shown,
)
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.client import MemoryClient
from semrouter_memory.model import Json, MemoryType

app = typer.Typer()
memory_app = typer.Typer(no_args_is_help=True, help="List, search and change stored memories of a running sidecar.")
app.add_typer(memory_app, name="memory")
_command = partial(user_command, memory_app)
_COLUMNS = {
    "score": "relevance",
    "id": "id",
    "type": "type",
    "project": "project_id",
    "said": "observed_at",
    "until": "superseded_at",
    "content": "content",
}
"""The member of the API's answer in each column."""
_OPTIONAL = frozenset({"score", "until"})


@_command("list")
def _list(
    client: MemoryClient,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    cursor: Annotated[str, typer.Option(help="Where the page before ended.")] = "",
    types: options.Types = None,
    project: options.Project = None,
    since: options.Since = None,
    until: options.Until = None,
    pinned: Annotated[bool, typer.Option("--pinned", help="Only pinned memories.")] = False,
    goal: Annotated[str | None, typer.Option(help="Only episodes with this text in their goal.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only episodes with this text in their outcome.")] = None,
    memory_filter: options.Filter = None,
    as_json: AsJson = False,
) -> None:
    """List active memories, newest first."""
    kinds = [kind.value for kind in types or ()]
    filters = {"goal": goal, "outcome": outcome, "since": since, "until": until, "filter": memory_filter}
    page = client.page(limit=limit, cursor=cursor, types=kinds, project_id=project, pinned=pinned or None, **filters)
    print_page(page, _print_memories, following="cursor", as_json=as_json)


@_command("get")
def _get(client: MemoryClient, memory_id: options.MemoryId) -> None:
    """Show one memory with everything known about it."""
    print_json(client.get(memory_id))


@_command("history")
def _history(client: MemoryClient, memory_id: options.MemoryId, *, as_json: AsJson = False) -> None:
    """Show what was said before and after a memory: all that replaced one another, oldest first."""
    members = client.history(memory_id)
    if as_json:
        print_json(members)
    else:
        _print_memories(members)


@_command("entities")
def _entities(
    client: MemoryClient,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    after: Annotated[str, typer.Option(help="Where the page before ended.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the names in active memories, with the ids of these."""
    page = client.entities(limit=limit, after=after)
    print_page(page, _print_entities, following="after", as_json=as_json)


@_command("end-session")
def _end_session(
    client: MemoryClient,
    session_id: Annotated[str, typer.Argument(help="What the client calls it (x-session-id), or our own id.")],
    project: options.Project = None,
) -> None:
    """Say that a session is at its end: what waits is learned from now, and it is summed up."""
    ended = client.end_session(session_id, project)
    out.print(f"ended {shown(ended['session_id'])}, {ended['waiting']} turns to learn from")


@_command("search")
def _search(
    client: MemoryClient,
    *,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=100)] = 10,
    types: options.Types = None,
    project: options.Project = None,
    since: options.Since = None,
    until: options.Until = None,
    threshold: Annotated[float | None, typer.Option(min=-1, max=1, help="Least relevance.")] = None,
    memory_filter: options.Filter = None,
    as_json: AsJson = False,
) -> None:
    """Find the memories nearest to a query."""
    kinds = [kind.value for kind in types] if types else None
    period = {"since": since, "until": until}
    hits = client.search(
        query, limit=limit, types=kinds, project_id=project, threshold=threshold, filter=memory_filter, **period
    )
    if as_json:
        print_json(hits)
    else:
        _print_memories(hits)


@_command("explain")
def _explain(
    client: MemoryClient,
    *,
    question: Annotated[str, typer.Argument(help="What the user asks.")],
    limit: Annotated[
        int | None, typer.Option(min=1, max=100, help="As in the request; default: as configured.")
    ] = None,
    types: options.Types = None,
    project: options.Project = None,
    threshold: Annotated[float | None, typer.Option(min=-1, max=1, help="The same.")] = None,
    memory_filter: options.Filter = None,
    as_json: AsJson = False,
) -> None:
    """Show what recall would do with a question: each candidate, and why it was chosen or not."""
    kinds = [kind.value for kind in types] if types else None
    told = client.explain(
        question, limit=limit, types=kinds, project_id=project, threshold=threshold, filter=memory_filter
    )
    if as_json:
        print_json(told)
        return
    out.print(f"{told['reason']}, {told['tokens']} tokens; threshold {told['threshold']}, limit {told['limit']}")
    columns = {name: name for name in ("verdict", "relevance", "similarity", "id", "content")}
    print_objects(columns, ({**each, "content": _content(each)} for each in told["data"]))


@_command("reflect")
def _reflect(
    client: MemoryClient,
    *,
    question: Annotated[str, typer.Argument(help="A question about what is remembered.")],
    limit: Annotated[int | None, typer.Option(min=1, max=50, help="Sources at most.")] = None,
    project: options.Project = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question from memories, with citations."""
    told = client.reflect(question, limit=limit, project_id=project)
    sources = (f"[{each['number']}] {each['observed_at'][:10]} {each['content']}" for each in told["citations"])
    why = [f"(no model's answer: {told['model_error']})"] if told["model_error"] else []
    report(told, (told["answer"], *why, *sources), as_json=as_json)


def _content(candidate: dict[str, Json]) -> str:
    return str((candidate["memory"] or {}).get("content", ""))


@_command("receipts")
def _receipts(client: MemoryClient, *, as_json: AsJson = False) -> None:
    """List what the last requests were given: time (UTC), reason, ids and relevance; and what became of an order to forget."""
    receipts = client.receipts()
    if as_json:
        print_json(receipts)
        return
    rows = ([each["at"][:19].replace("T", " "), each["reason"], " ".join(_done(each))] for each in receipts)
    print_table(["at", "reason", "memories"], rows)


def _done(receipt: dict[str, Json]) -> list[str]:
    """What was injected, then what was deleted: in one column, the last, because only that one is folded."""
    given = [f"{one['id']} ({one['relevance']:.2f})" for one in receipt["memories"]]
    return [*given, "order", receipt["steering"], *receipt["forgotten"]] if receipt["steering"] else given


@_command("add")
def _add(
    client: MemoryClient,
    *,
    content: Annotated[
        str | None, typer.Argument(help='For example "User is allergic to peanuts"; an episode\'s parts can make it.')
    ] = None,
    goal: options.Goal = None,
    steps: options.Steps = None,
    outcome: options.Outcome = None,
    lessons: options.Lessons = None,
    kind: options.Type = None,
    project: options.Project = None,
    importance: options.Importance = None,
    category: options.Category = None,
    metadata: options.Metadata = None,
    expires_at: options.Expires = None,
) -> None:
    """Store a memory."""
    parts = _parts(goal, steps, outcome, lessons)
    kind = kind or (MemoryType.EPISODIC if parts else None)
    fields = _fields(kind, project, metadata, importance=importance, category=category, expires_at=expires_at)
    print_json(client.add(content, **fields, **parts))


@_command("update")
def _update(
    client: MemoryClient,
    *,
    memory_id: options.MemoryId,
    content: Annotated[str | None, typer.Option(help="Its new text.")] = None,
    goal: options.Goal = None,
    steps: options.Steps = None,
    outcome: options.Outcome = None,
    lessons: options.Lessons = None,
    kind: options.Type = None,
    project: options.Project = None,
    importance: options.Importance = None,
    category: options.Category = None,
    metadata: options.Metadata = None,
    expires_at: options.Expires = None,
    never_expires: Annotated[bool, typer.Option("--never-expires", help="Remove its time of expiry.")] = False,
) -> None:
    """Change a memory; what is not given stays as it is."""
    if expires_at and never_expires:
        raise InvalidRequestError("--expires-at and --never-expires exclude each other")
    fields = _fields(kind, project, metadata, importance=importance, category=category, expires_at=expires_at)
    given = {"content": content, **fields}
    changes: dict[str, Json] = {name: value for name, value in given.items() if value is not None}
    changes |= _parts(goal, steps, outcome, lessons)
    print_json(client.update(memory_id, changes | ({"expires_at": None} if never_expires else {})))


@_command("pin")
def _pin(client: MemoryClient, memory_id: options.MemoryId) -> None:
    """Have one memory in every request that recall searches for, whatever it asks; it expires no more."""
    client.update(memory_id, {"pinned": True})
    out.print(f"pinned {shown(memory_id)}")


@_command("unpin")
def _unpin(client: MemoryClient, memory_id: options.MemoryId) -> None:
    """Have one memory in a request only when it is relevant, again."""
    client.update(memory_id, {"pinned": False})
    out.print(f"unpinned {shown(memory_id)}")


@_command("forget")
def _forget(client: MemoryClient, memory_id: options.MemoryId) -> None:
    """Delete one memory."""
    client.forget(memory_id)
    out.print(f"forgot {shown(memory_id)}")


@_command("forget-all")
def _forget_all(
    client: MemoryClient,
    *,
    project: Annotated[str | None, typer.Option("--project", help="Only this project.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all memories of the user, or those of one project."""
    what = "everything" if project is None else f"everything in project {shown(project)}"
    if not yes:
        typer.confirm(f"Forget {what} that is remembered? This cannot be undone.", abort=True)
    out.print(f"forgot {client.forget_all(project)['deleted']} memories")


@_command("export")
def _export(
    client: MemoryClient,
    *,
    history: Annotated[bool, typer.Option(help="Superseded memories too.")] = True,
    since: options.Since = None,
    until: options.Until = None,
) -> None:
    """Write every memory, or those of a period, to stdout, one JSON object a line; `import` reads it."""
    for line in client.export(history=history, since=since, until=until):
        typer.echo(line)


@_command("import")
def _import(
    client: MemoryClient,
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
    with _lines(file) as lines:
        result = importing.import_lines(lines, partial(client.import_lines, from_user=from_user))
    summary = f"{result['imported']} imported, {result['skipped']} skipped, {result['refused']} refused"
    report(result, [summary], as_json=as_json)
    for error in result["errors"] if not as_json else ():
        where = f" ({error['param']})" if error["param"] else ""
        err.print(f"line {error['line']}{where}: {shown(error['message'])}")
    if result["refused"]:
        raise typer.Exit(1)


importing.register(memory_app)
switches.register(memory_app)


# -- input and output --------------------------------------------------------------------------------------------------


def _lines(file: Path) -> AbstractContextManager[Iterable[bytes]]:
    if str(file) == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return rich.progress.open(file, "rb", description="importing", console=err, transient=True)
    except OSError as error:
        raise InvalidRequestError(f"cannot read {file}: {error.strerror}") from None


def _fields(kind: MemoryType | None, project: str | None, metadata: str | None, **plain: Json) -> dict[str, Json]:
    decoded = None if metadata is None else _object(metadata)
    return {"type": kind.value if kind else None, "project_id": project, "metadata": decoded, **plain}


def _parts(
    goal: str | None, steps: list[str] | None, outcome: str | None, lessons: list[str] | None
) -> dict[str, Json]:
    """The parts of an episode that are given; repeated options without a value are an empty list."""
    given = {"goal": goal, "steps": steps or None, "outcome": outcome, "lessons": lessons or None}
    return {name: value for name, value in given.items() if value is not None}


def _object(text: str) -> dict[str, Json]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidRequestError("--metadata must be a JSON object")
    return value


def _print_memories(memories: Sequence[dict[str, Json]]) -> None:
    def is_known(member: str) -> bool:
        return any(memory.get(member) is not None for memory in memories)

    columns = {heading: member for heading, member in _COLUMNS.items() if heading not in _OPTIONAL or is_known(member)}
    print_objects(columns, memories)


def _print_entities(entities: Sequence[dict[str, Json]]) -> None:
    rows = ([each["name"], ", ".join(each["aliases"]), " ".join(each["memory_ids"])] for each in entities)
    print_table(["name", "aliases", "memories"], rows)
