"""`semrouter-memory memory ...`: look at and change stored memories through the running sidecar.

It speaks the API instead of opening the store, because a Milvus Lite file belongs to one process.

"""

import json
import os
from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from semrouter_memory.cli.importing import import_file
from semrouter_memory.cli.operator import OPERATOR_API, TOKEN_FILE_VARIABLE, URL_VARIABLE
from semrouter_memory.cli.output import AsJson, err, out, print_json, print_table, shown
from semrouter_memory.cli.reembed import register as register_reembed
from semrouter_memory.config import secret
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.client import PREPARED_SHELL, ApiEndpoint, MemoryClient
from semrouter_memory.model import Json, MemoryType

_API = "http://127.0.0.1:8081"
_ENVOY = "http://127.0.0.1:10000"

_CONTENT_WIDTH = 24

memory_app = typer.Typer(no_args_is_help=True, help="List, search and change stored memories of a running sidecar.")


def register(group: typer.Typer) -> None:
    """Add the commands to a group."""
    group.add_typer(memory_app, name="memory")


Type = Annotated[MemoryType | None, typer.Option("--type", help="Its type.")]
Types = Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type; may be repeated.")]
Project = Annotated[str | None, typer.Option("--project", help='Its project; "" is the user\'s own space.')]
Importance = Annotated[float | None, typer.Option(min=0, max=1, help="0 (trivia) to 1 (vital).")]
Metadata = Annotated[str | None, typer.Option(help="A JSON object to store with the statement.")]
Expires = Annotated[str | None, typer.Option(help="From when on it is not recalled: 2027-01-01T00:00:00Z.")]
MemoryId = Annotated[str, typer.Argument(help="The memory's id.")]


# -- connection --------------------------------------------------------------------------------------------------------


def _connect(
    url: Annotated[
        str | None,
        typer.Option(
            envvar="SEMROUTER_MEMORY_URL",
            help=f"http(s)://host:port or unix:path. Default {_API}, with an API key {_ENVOY}, with an operator's token"
            f" {URL_VARIABLE}, else {OPERATOR_API}.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(envvar="SEMROUTER_MEMORY_USER", help="Whose memories (not needed with --api-key)."),
    ] = None,
    user_header: Annotated[str, typer.Option(help="memory.identity.user_header of the sidecar.")] = "x-authz-user-id",
    api_key: Annotated[
        str | None,
        typer.Option(envvar="SEMROUTER_MEMORY_API_KEY", help="Ask through Envoy, which knows the user by this key."),
    ] = None,
    operator_token_file: Annotated[
        Path | None,
        typer.Option(
            help="Ask the operator's port, with the token in this file."
            f" {TOKEN_FILE_VARIABLE} says the same where neither a URL nor an API key is given."
        ),
    ] = None,
) -> ApiEndpoint:
    if operator_token_file is None and url is None and api_key is None and os.environ.get(TOKEN_FILE_VARIABLE):
        operator_token_file = Path(os.environ[TOKEN_FILE_VARIABLE])
    if operator_token_file is not None:
        headers = {"authorization": f"Bearer {secret(None, operator_token_file)}"}
        address = url or os.environ.get(URL_VARIABLE) or OPERATOR_API
        return ApiEndpoint(url=address, user=_named(user), headers=headers, parameters={"user_id": _named(user)})
    if api_key is not None:
        return ApiEndpoint(url=url or _ENVOY, user=user or "", headers={"authorization": f"Bearer {api_key}"})
    return ApiEndpoint(url=url or _API, user=_named(user), headers={user_header: _named(user)})


def _named(user: str | None) -> str:
    if not user:
        raise InvalidRequestError(f"say whose memories: --user, or --api-key to be known by Envoy. {PREPARED_SHELL}")
    return user


def _command(name: str) -> Callable[[Callable[..., None]], None]:
    """Registers a command that is given a client; its connection options may stand behind its name."""
    shared = signature(_connect).parameters.values()

    def register(function: Callable[..., None]) -> None:
        own = list(signature(function).parameters.values())[1:]

        @wraps(function)
        def command(**given: Any) -> None:
            connection = {parameter.name: given.pop(parameter.name) for parameter in shared}
            with MemoryClient(_connect(**connection)) as client:
                function(client, **given)

        parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in (*own, *shared)]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        memory_app.command(name)(command)

    return register


# -- commands ----------------------------------------------------------------------------------------------------------


@_command("list")
def _list(
    client: MemoryClient,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    cursor: Annotated[str, typer.Option(help="Where the page before ended.")] = "",
    types: Types = None,
    project: Project = None,
    as_json: AsJson = False,
) -> None:
    """List active memories, newest first."""
    page = client.page(limit=limit, cursor=cursor, types=[kind.value for kind in types or ()], project_id=project)
    if as_json:
        print_json(page)
        return
    _print_table(page["data"])
    if page["next_cursor"]:
        err.print(f"more: --cursor {shown(page['next_cursor'])}", markup=False, soft_wrap=True)


@_command("get")
def _get(client: MemoryClient, memory_id: MemoryId) -> None:
    """Show one memory with everything known about it."""
    print_json(client.get(memory_id))


@_command("history")
def _history(client: MemoryClient, memory_id: MemoryId, *, as_json: AsJson = False) -> None:
    """Show what was said before and after a memory: all that replaced one another, oldest first."""
    members = client.history(memory_id)
    if as_json:
        print_json(members)
    else:
        _print_table(members)


@_command("end-session")
def _end_session(
    client: MemoryClient,
    session_id: Annotated[str, typer.Argument(help="What the client calls it (x-session-id), or our own id.")],
) -> None:
    """Say that a session is at its end: what waits is learned from now, and it is summed up."""
    ended = client.end_session(session_id)
    out.print(f"ended {shown(ended['session_id'])}, {ended['waiting']} turns to learn from", markup=False)


@_command("search")
def _search(
    client: MemoryClient,
    *,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=100)] = 10,
    types: Types = None,
    project: Project = None,
    threshold: Annotated[float | None, typer.Option(min=-1, max=1, help="Least relevance.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the memories nearest to a query."""
    kinds = [kind.value for kind in types] if types else None
    hits = client.search(query, limit=limit, types=kinds, project_id=project, threshold=threshold)
    if as_json:
        print_json(hits)
    else:
        _print_table(hits)


@_command("add")
def _add(
    client: MemoryClient,
    *,
    content: Annotated[str, typer.Argument(help='For example "User is allergic to peanuts".')],
    kind: Type = None,
    project: Project = None,
    importance: Importance = None,
    metadata: Metadata = None,
    expires_at: Expires = None,
) -> None:
    """Store a memory."""
    fields = _fields(kind, project, importance, metadata)
    print_json(client.add(content, expires_at=expires_at, **fields))


@_command("update")
def _update(
    client: MemoryClient,
    *,
    memory_id: MemoryId,
    content: Annotated[str | None, typer.Option(help="Its new text.")] = None,
    kind: Type = None,
    project: Project = None,
    importance: Importance = None,
    metadata: Metadata = None,
    expires_at: Expires = None,
    never_expires: Annotated[bool, typer.Option("--never-expires", help="Remove its time of expiry.")] = False,
) -> None:
    """Change a memory; what is not given stays as it is."""
    if expires_at and never_expires:
        raise InvalidRequestError("--expires-at and --never-expires exclude each other")
    fields = {**_fields(kind, project, importance, metadata), "content": content, "expires_at": expires_at}
    changes: dict[str, Json] = {name: value for name, value in fields.items() if value is not None}
    print_json(client.update(memory_id, changes | ({"expires_at": None} if never_expires else {})))


@_command("forget")
def _forget(client: MemoryClient, memory_id: MemoryId) -> None:
    """Delete one memory."""
    client.forget(memory_id)
    out.print(f"forgot {shown(memory_id)}", markup=False)


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
    out.print(f"forgot {client.forget_all(project)['deleted']} memories", markup=False)


@_command("export")
def _export(
    client: MemoryClient,
    *,
    history: Annotated[bool, typer.Option(help="Superseded memories too.")] = True,
) -> None:
    """Write every memory to stdout, one JSON object a line; `import` reads it."""
    for line in client.export(history=history):
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
    result = import_file(file, partial(client.import_lines, from_user=from_user), err)
    if as_json:
        print_json(result)
    else:
        out.print(f"{result['imported']} imported, {result['skipped']} skipped, {result['refused']} refused")
        for error in result["errors"]:
            where = f" ({error['param']})" if error["param"] else ""
            err.print(f"line {error['line']}{where}: {shown(error['message'])}", markup=False, soft_wrap=True)
    if result["refused"]:
        raise typer.Exit(1)


register_reembed(memory_app)


# -- input and output --------------------------------------------------------------------------------------------------


def _fields(
    kind: MemoryType | None, project: str | None, importance: float | None, metadata: str | None
) -> dict[str, Json]:
    return {
        "type": kind.value if kind else None,
        "project_id": project,
        "importance": importance,
        "metadata": None if metadata is None else _object(metadata),
    }


def _object(text: str) -> dict[str, Json]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidRequestError("--metadata must be a JSON object")
    return value


def _print_table(memories: Sequence[dict[str, Json]]) -> None:
    scored = any("relevance" in memory for memory in memories)
    superseded = any(memory.get("superseded_at") for memory in memories)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (
        *(["score"] if scored else []),
        "id",
        "type",
        "project",
        "said",
        *(["until"] if superseded else []),
    ):
        table.add_column(heading, no_wrap=True)
    table.add_column("content", overflow="fold", min_width=_CONTENT_WIDTH)
    for memory in memories:
        until = [(memory.get("superseded_at") or "")[:10]] if superseded else []
        said = memory["observed_at"][:10]
        cells = [memory["id"], memory["type"], memory["project_id"], said, *until, memory["content"]]
        score = [f"{memory['relevance']:.2f}"] if scored else []
        table.add_row(*score, *(Text(shown(cell)) for cell in cells))
    print_table(table)
