"""`semrouter-memory memory ...`: look at and change stored memories through the running sidecar.

It speaks the API instead of opening the store, because a Milvus Lite file belongs to one process.
"""

import json
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from semrouter_memory.config import secret
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.client import MemoryClient, Target
from semrouter_memory.model import Json, MemoryType

_API = "http://127.0.0.1:8081"
_ENVOY = "http://127.0.0.1:10000"
_OPERATOR_API = "http://127.0.0.1:9090"

_CONTENT_WIDTH = 24
_PIPE_WIDTH = 240

memory_app = typer.Typer(no_args_is_help=True, help="List, search and change stored memories of a running sidecar.")
_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)

Type = Annotated[MemoryType | None, typer.Option("--type", help="Its type.")]
Types = Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type; may be repeated.")]
Project = Annotated[str | None, typer.Option("--project", help='Its project; "" is the user\'s own space.')]
Importance = Annotated[float | None, typer.Option(min=0, max=1, help="0 (trivia) to 1 (vital).")]
Metadata = Annotated[str | None, typer.Option(help="A JSON object to keep beside the statement.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the API's JSON.")]
MemoryId = Annotated[str, typer.Argument(help="The memory's id.")]


# -- connection --------------------------------------------------------------------------------------------------------


def _connect(
    url: Annotated[
        str | None,
        typer.Option(
            envvar="SEMROUTER_MEMORY_URL",
            help=f"http(s)://host:port or unix:path. Default {_API}, with an API key {_ENVOY}, with an operator's token"
            f" {_OPERATOR_API}.",
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
        Path | None, typer.Option(help="Ask the operator's port, with the token in this file.")
    ] = None,
) -> Target:
    if operator_token_file is not None:
        headers = {"authorization": f"Bearer {secret(None, operator_token_file)}"}
        return Target(
            url=url or _OPERATOR_API, user=_named(user), headers=headers, parameters={"user_id": _named(user)}
        )
    if api_key is not None:
        return Target(url=url or _ENVOY, user=user or "", headers={"authorization": f"Bearer {api_key}"})
    return Target(url=url or _API, user=_named(user), headers={user_header: _named(user)})


def _named(user: str | None) -> str:
    if not user:
        raise InvalidRequestError("say whose memories: --user, or --api-key to be known by Envoy")
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
        _print_json(page)
        return
    _print_table(page["data"])
    if page["next_cursor"]:
        _err.print(f"more: --cursor {_shown(page['next_cursor'])}", markup=False, soft_wrap=True)


@_command("get")
def _get(client: MemoryClient, memory_id: MemoryId) -> None:
    """Show one memory with everything known about it."""
    _print_json(client.get(memory_id))


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
        _print_json(hits)
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
) -> None:
    """Store a memory."""
    fields = _fields(kind, project, importance, metadata)
    _print_json(client.add(content, **fields))


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
) -> None:
    """Change a memory; what is not given stays as it is."""
    fields = _fields(kind, project, importance, metadata)
    _print_json(client.update(memory_id, content=content, **fields))


@_command("forget")
def _forget(client: MemoryClient, memory_id: MemoryId) -> None:
    """Delete one memory."""
    client.forget(memory_id)
    _out.print(f"forgot {_shown(memory_id)}", markup=False)


@_command("forget-all")
def _forget_all(
    client: MemoryClient,
    *,
    project: Annotated[str | None, typer.Option("--project", help="Only this project.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all memories of the user, or those of one project."""
    what = "everything" if project is None else f"everything in project {_shown(project)}"
    if not yes:
        typer.confirm(f"Forget {what} that is remembered? This cannot be undone.", abort=True)
    _out.print(f"forgot {client.forget_all(project)['deleted']} memories", markup=False)


@_command("export")
def _export(client: MemoryClient) -> None:
    """Write every active memory to stdout, one JSON object a line."""
    for line in client.export():
        typer.echo(line)


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


def _print_json(value: Json) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _print_table(memories: Sequence[dict[str, Json]]) -> None:
    scored = any("relevance" in memory for memory in memories)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (*(["score"] if scored else []), "id", "type", "project", "said"):
        table.add_column(heading, no_wrap=True)
    table.add_column("content", overflow="fold", min_width=_CONTENT_WIDTH)
    for memory in memories:
        cells = [memory["id"], memory["type"], memory["project_id"], memory["observed_at"][:10], memory["content"]]
        score = [f"{memory['relevance']:.2f}"] if scored else []
        table.add_row(*score, *(Text(_shown(cell)) for cell in cells))
    # A pipe has no width of its own; the 80 columns that are assumed then would cut the ids.
    Console(highlight=False, width=None if _out.is_terminal else _PIPE_WIDTH).print(table)


def _shown(text: str) -> str:
    """Stored text is hostile: what could steer the terminal is replaced."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text)
