"""`semrouter-memory memory ...`: look at and change stored memories through the running sidecar.

It speaks the API instead of opening the store, because a Milvus Lite file belongs to one process.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated

import typer

from semrouter_memory.cli import importing
from semrouter_memory.cli.connection import MEMORY, ApiClient, given, user_command
from semrouter_memory.cli.output import (
    out,
    print_lines,
    print_objects,
    print_page,
    print_table,
    shown,
)
from semrouter_memory.errors import InvalidRequestError
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


# -- options and arguments that several commands take ---------------------------------------------------------------------

MemoryId = Annotated[str, typer.Argument(help="The memory's id.")]
Types = Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type; may be repeated.")]
Project = Annotated[str | None, typer.Option("--project", help='Its project; "" is the user\'s own space.')]
Since = Annotated[
    str | None, typer.Option(help="Only what was said from then on: 2027-01-01, or a time with its offset.")
]
Until = Annotated[str | None, typer.Option(help="Only what was said before that time; of a date, up to its end.")]
Cursor = Annotated[str, typer.Option(help="Where the page before ended.")]
Filter = Annotated[
    str | None,
    typer.Option(
        "--filter", help="Only memories with all of this: category=work,metadata.team=core,min_importance=0.5."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """Which memories are meant, by the names of the API."""

    types: Types = None
    project_id: Project = None
    since: Since = None
    until: Until = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFields:
    """What a caller says of a memory, by the names of the API."""

    goal: Annotated[str | None, typer.Option(help="What was to be done; of an episode.")] = None
    steps: Annotated[list[str] | None, typer.Option("--step", help="A step of an episode; may be repeated.")] = None
    outcome: Annotated[str | None, typer.Option(help="How an episode ended.")] = None
    lessons: Annotated[list[str] | None, typer.Option("--lesson", help="What to do next time; may be repeated.")] = None
    type: Annotated[MemoryType | None, typer.Option("--type", help="Its type.")] = None
    project_id: Project = None
    importance: Annotated[float | None, typer.Option(min=0, max=1, help="0 (trivia) to 1 (vital).")] = None
    category: Annotated[str | None, typer.Option(help='A category of your own; "": none.')] = None
    metadata: Annotated[str | None, typer.Option(help="A JSON object to store with the statement.")] = None
    expires_at: Annotated[str | None, typer.Option(help="From when on it is not recalled: 2027-01-01T00:00:00Z.")] = (
        None
    )

    def given(self) -> dict[str, Json]:
        """Those that were given. Raises: InvalidRequestError: the metadata is no JSON object."""
        metadata = None if self.metadata is None else _object(self.metadata)
        return given({**asdict(self), "metadata": metadata})

    @property
    def is_episode(self) -> bool:
        """Whether a part of an episode was given."""
        return bool(self.steps or self.lessons) or self.goal is not None or self.outcome is not None


def _object(text: str) -> dict[str, Json]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise InvalidRequestError("--metadata must be a JSON object")
    return value


# -- how answers are printed ----------------------------------------------------------------------------------------------


def _print_memories(memories: Sequence[dict[str, Json]]) -> None:
    def is_known(member: str) -> bool:
        return any(memory.get(member) is not None for memory in memories)

    columns = {heading: member for heading, member in _COLUMNS.items() if heading not in _OPTIONAL or is_known(member)}
    print_objects(columns, memories)


def _print_entities(entities: Sequence[dict[str, Json]]) -> None:
    rows = ([each["name"], ", ".join(each["aliases"]), " ".join(each["memory_ids"])] for each in entities)
    print_table(["name", "aliases", "memories"], rows)


def _print_explanation(told: Json) -> None:
    out.print(f"{told['reason']}, {told['tokens']} tokens; threshold {told['threshold']}, limit {told['limit']}")
    columns = {name: name for name in ("verdict", "relevance", "similarity", "id", "content")}
    print_objects(columns, ({**each, "content": (each["memory"] or {}).get("content")} for each in told["data"]))


def _print_reflection(told: Json) -> None:
    sources = (f"[{each['number']}] {each['observed_at'][:10]} {each['content']}" for each in told["citations"])
    why = [f"(no model's answer: {told['model_error']})"] if told["model_error"] else []
    print_lines((told["answer"], *why, *sources))


def _print_receipts(receipts: Sequence[dict[str, Json]]) -> None:
    rows = ([each["at"][:19].replace("T", " "), each["reason"], " ".join(_done(each))] for each in receipts)
    print_table(["at", "reason", "memories"], rows)


def _done(receipt: dict[str, Json]) -> list[str]:
    """What was injected, then what was deleted: in one column, the last, because only that one is folded."""
    given = [f"{one['id']} ({one['relevance']:.2f})" for one in receipt["memories"]]
    return [*given, "order", receipt["steering"], *receipt["forgotten"]] if receipt["steering"] else given


# -- the commands ---------------------------------------------------------------------------------------------------------


@_command("list", partial(print_page, _print_memories, "cursor"))
def _list(
    client: ApiClient,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    cursor: Cursor = "",
    selection: SelectionOptions,
    pinned: Annotated[bool, typer.Option("--pinned", help="Only pinned memories.")] = False,
    goal: Annotated[str | None, typer.Option(help="Only episodes with this text in their goal.")] = None,
    outcome: Annotated[str | None, typer.Option(help="Only episodes with this text in their outcome.")] = None,
    memory_filter: Filter = None,
) -> Json:
    """List active memories, newest first."""
    selected = asdict(selection)
    further = {"type": selected.pop("types"), "pinned": pinned or None, "filter": memory_filter}
    query = {"limit": limit, "cursor": cursor, "goal": goal, "outcome": outcome, **selected, **further}
    return client.ask("GET", MEMORY, holding="data", query=query)


@_command("get")
def _get(client: ApiClient, memory_id: MemoryId) -> Json:
    """Show one memory with everything known about it."""
    return client.ask("GET", MEMORY, memory_id, holding="id")


@_command("history", _print_memories)
def _history(client: ApiClient, memory_id: MemoryId) -> Json:
    """Show what was said before and after a memory: all that replaced one another, oldest first."""
    return client.ask("GET", MEMORY, memory_id, "history", holding="data")["data"]


@_command("entities", partial(print_page, _print_entities, "after"))
def _entities(
    client: ApiClient,
    *,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    after: Cursor = "",
) -> Json:
    """List the names in active memories, with the ids of these."""
    return client.ask("GET", MEMORY, "entities", holding="data", query={"limit": limit, "after": after})


@_command("end-session")
def _end_session(
    client: ApiClient,
    session_id: Annotated[str, typer.Argument(help="What the client calls it (x-session-id), or our own id.")],
    project: Project = None,
) -> None:
    """Say that a session is at its end: what waits is learned from now, and it is summed up."""
    path, query = ("sessions", session_id, "end"), {"project_id": project}
    ended = client.ask("POST", MEMORY, *path, holding="session_id", query=query)
    out.print(f"ended {shown(ended['session_id'])}, {ended['waiting']} turns to learn from")


@_command("search", partial(print_page, _print_memories, "cursor"))
def _search(
    client: ApiClient,
    *,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=100)] = 10,
    cursor: Cursor = "",
    selection: SelectionOptions,
    threshold: Annotated[float | None, typer.Option(min=-1, max=1, help="Least relevance.")] = None,
    memory_filter: Filter = None,
) -> Json:
    """Find the memories nearest to a query."""
    further = {"threshold": threshold, "filter": memory_filter}
    asked = {"query": query, "limit": limit, "cursor": cursor, **further, **asdict(selection)}
    return client.ask("POST", MEMORY, "search", holding="data", json=given(asked))


@_command("explain", _print_explanation)
def _explain(
    client: ApiClient,
    *,
    question: Annotated[str, typer.Argument(help="What the user asks.")],
    limit: Annotated[
        int | None, typer.Option(min=1, max=100, help="As in the request; default: as configured.")
    ] = None,
    types: Types = None,
    project: Project = None,
    threshold: Annotated[float | None, typer.Option(min=-1, max=1, help="The same.")] = None,
    memory_filter: Filter = None,
) -> Json:
    """Show what recall would do with a question: each candidate, and why it was chosen or not."""
    wanted = {"types": types, "project_id": project, "filter": memory_filter}
    asked = {"query": question, "as": "recall", "limit": limit, "threshold": threshold, **wanted}
    return client.ask("POST", MEMORY, "search", holding="data", json=given(asked))


@_command("reflect", _print_reflection)
def _reflect(
    client: ApiClient,
    *,
    question: Annotated[str, typer.Argument(help="A question about what is remembered.")],
    limit: Annotated[int | None, typer.Option(min=1, max=50, help="Sources at most.")] = None,
    project: Project = None,
) -> Json:
    """Answer a question from memories, with citations."""
    asked = {"question": question, "limit": limit, "project_id": project}
    return client.ask("POST", MEMORY, "reflect", holding="answer", json=given(asked))


@_command("receipts", _print_receipts)
def _receipts(client: ApiClient) -> Json:
    """List what the last requests were given: time (UTC), reason, ids and relevance; and what became of an order to forget."""
    return client.ask("GET", MEMORY, "receipts", holding="data")["data"]


@_command("add")
def _add(
    client: ApiClient,
    *,
    content: Annotated[
        str | None, typer.Argument(help='For example "User is allergic to peanuts"; an episode\'s parts can make it.')
    ] = None,
    fields: MemoryFields,
) -> Json:
    """Store a memory."""
    kind = {"type": MemoryType.EPISODIC} if fields.is_episode else {}
    return client.ask("POST", MEMORY, holding="id", json=given({"content": content, **kind, **fields.given()}))


@_command("update")
def _update(
    client: ApiClient,
    *,
    memory_id: MemoryId,
    content: Annotated[str | None, typer.Option(help="Its new text.")] = None,
    fields: MemoryFields,
    never_expires: Annotated[bool, typer.Option("--never-expires", help="Remove its time of expiry.")] = False,
) -> Json:
    """Change a memory; what is not given stays as it is."""
    if fields.expires_at and never_expires:
        raise InvalidRequestError("--expires-at and --never-expires exclude each other")
    changes = given({"content": content, **fields.given()})
    return _updated(client, memory_id, changes | ({"expires_at": None} if never_expires else {}))


@_command("pin")
def _pin(client: ApiClient, memory_id: MemoryId) -> None:
    """Have one memory in every request that recall searches for, whatever it asks; it expires no more."""
    _updated(client, memory_id, {"pinned": True})
    out.print(f"pinned {shown(memory_id)}")


@_command("unpin")
def _unpin(client: ApiClient, memory_id: MemoryId) -> None:
    """Have one memory in a request only when it is relevant, again."""
    _updated(client, memory_id, {"pinned": False})
    out.print(f"unpinned {shown(memory_id)}")


@_command("forget")
def _forget(client: ApiClient, memory_id: MemoryId) -> None:
    """Delete one memory."""
    client.ask("DELETE", MEMORY, memory_id, holding="deleted")
    out.print(f"forgot {shown(memory_id)}")


@_command("forget-all")
def _forget_all(
    client: ApiClient,
    *,
    project: Annotated[str | None, typer.Option("--project", help="Only this project.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete all memories of the user, or those of one project."""
    what = "everything" if project is None else f"everything in project {shown(project)}"
    if not yes:
        typer.confirm(f"Forget {what} that is remembered? This cannot be undone.", abort=True)
    user = None if "owner" in client.endpoint.parameters else client.endpoint.user
    if user == "":
        raise InvalidRequestError("forgetting everything needs the name of the user: give --user")
    answer = client.ask("DELETE", MEMORY, holding="deleted", query={"user_id": user, "project_id": project})
    out.print(f"forgot {answer['deleted']} memories")


@_command("export")
def _export(
    client: ApiClient,
    *,
    history: Annotated[bool, typer.Option(help="Superseded memories too.")] = True,
    since: Since = None,
    until: Until = None,
) -> None:
    """Write every memory, or those of a period, to stdout, one JSON object a line; `import` reads it."""
    query = {"history": history, "since": since, "until": until}
    with client.lines(MEMORY, "export", query=query) as lines:
        for line in lines:
            typer.echo(line, nl=False)


importing.register(memory_app)


@_command("pause")
def _pause(client: ApiClient) -> None:
    """Pause remembering: nothing is recalled, and nothing that is said is stored, until `resume`."""
    out.print(f"paused since {_set_paused(client, paused=True)['paused_at']}")


@_command("resume")
def _resume(client: ApiClient) -> None:
    """Remember again; what was said in the pause is not."""
    _set_paused(client, paused=False)
    out.print("resumed")


@_command("settings")
def _settings(client: ApiClient) -> Json:
    """Show the user's switches: whether remembering is paused, and since when."""
    return client.ask("GET", MEMORY, "settings", holding="paused")


def _updated(client: ApiClient, memory_id: str, changes: dict[str, Json]) -> dict[str, Json]:
    return client.ask("PATCH", MEMORY, memory_id, holding="id", json=changes)


def _set_paused(client: ApiClient, *, paused: bool) -> dict[str, Json]:
    return client.ask("PUT", MEMORY, "settings", holding="paused", json={"paused": paused})
