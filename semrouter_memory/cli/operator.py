"""`semrouter-memory turns ...`, `compact` and `backup`: the log and the files of a running sidecar, at the operator's port."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from semrouter_memory.cli.connection import TURNS, ApiClient, operator_command
from semrouter_memory.cli.output import AsJson, err, out, print_lines, print_objects, print_page, report
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.model import Json, TurnState

app = typer.Typer()
_turns = typer.Typer(
    no_args_is_help=True,
    help="""Turns in the log of a running sidecar, asked at the operator's port.

A turn is what a user said and was answered. Once accepted it waits
until it was learned from; then it is extracted (something was stored)
or empty (nothing was worth it). When learning from it failed too often
it is dead: a dead letter, stored until an operator retries it (the model was
misconfigured and is up again) or drops it. Nothing is lost in between:
the totals add up.

    turns list --state dead       which failed, and with what error
    turns show ID                 what was said in one of them
    turns retry --all             let all dead letters wait again
    turns drop ID                 delete one without learning from it
    turns totals                  what became of all turns ever
""",
)
app.add_typer(_turns, name="turns")

_COLUMNS = {
    "id": "id",
    "said": "said",
    "user": "user_id",
    "state": "state",
    "attempts": "attempts",
    "error": "error",
    "chars": "chars",
}
"""The member of the API's answer in each column."""
_TOTALS = {
    "extracted": "extracted: something was stored",
    "empty": "empty: nothing was worth storing",
    "dead_lettered": "dead letters: failed too often (turns list --state dead)",
    "deleted": "deleted before they were learned from",
    "waiting": "waiting",
}
"""The totals that must add up to the turns accepted."""

TurnId = Annotated[str, typer.Argument(help="The turn's id.")]
User = Annotated[str | None, typer.Option(help="Only this user's.")]


def _print_turns(turns: Sequence[dict[str, Json]]) -> None:
    print_objects(_COLUMNS, ({**turn, "said": turn["observed_at"][:19].replace("T", " ")} for turn in turns))


def _print_durations(parts: Sequence[dict[str, Json]]) -> None:
    print_lines(
        f"{part['part']}: {part['seconds']:.2f} s" + (f" ({part['note']})" if part["note"] else "") for part in parts
    )


@operator_command(_turns, "list", partial(print_page, _print_turns, "before"))
def _list(
    client: ApiClient,
    *,
    user: User = None,
    state: Annotated[list[TurnState] | None, typer.Option(help="Only this state; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    before: Annotated[int, typer.Option(min=0, help="Where the page before ended.")] = 0,
) -> Json:
    """List turns, newest first, without what was said."""
    query = {"limit": limit, "before": before, "user_id": user, "state": [each.value for each in state or ()]}
    return client.ask("GET", TURNS, holding="data", query=query)


@operator_command(_turns, "show")
def _show(client: ApiClient, *, turn_id: TurnId) -> Json:
    """Show one turn with what the user said and was answered, as JSON."""
    return client.ask("GET", TURNS, turn_id, holding="id")


@operator_command(_turns, "retry", lambda answer: out.print(f"{answer['retried']} waiting again"))
def _retry(
    client: ApiClient,
    *,
    turn_id: Annotated[str | None, typer.Argument(help="A dead letter's id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead letters.")] = False,
    user: User = None,
) -> Json:
    """Let a dead letter wait again, or all of them (of a user)."""
    if (turn_id is None) is not everything or (turn_id and user):
        raise InvalidRequestError("say which: an id, or --all, which --user narrows down")
    one = () if turn_id is None else (turn_id,)
    retried = client.ask("POST", TURNS, *one, "retry", holding="retried", query={"user_id": user})["retried"]
    return {"retried": retried}


@operator_command(_turns, "drop", lambda answer: print_lines([f"dropped {answer['id']}"]))
def _drop(client: ApiClient, *, turn_id: TurnId) -> Json:
    """Delete a dead or waiting turn without learning from it."""
    return client.ask("DELETE", TURNS, turn_id, holding="deleted")


@operator_command(_turns, "totals")
def _count(client: ApiClient, *, as_json: AsJson = False) -> None:
    """Count what became of all turns ever accepted; exit status 1 when it does not add up."""
    totals = client.ask("GET", TURNS, "totals", holding="accepted")
    meanings = {"accepted": "turns accepted, of which", **_TOTALS}
    width = max(len(str(totals[name])) for name in meanings)
    report(totals, [f"{totals[name]:>{width}}  {meaning}" for name, meaning in meanings.items()], as_json=as_json)
    if totals["accepted"] != sum(totals[part] for part in _TOTALS):
        err.print("these do not add up to the turns accepted")
        raise typer.Exit(1)


@operator_command(app, "compact", _print_durations)
def _compact(client: ApiClient) -> Json:
    """Take what was deleted out of the sidecar's files, now.

    Forgotten memories and turns are invisible at once, but their text may stay
    in unused pages of the files until this was done. It also happens on
    schedule (memory.ageing.compact_hours). The sidecar goes on serving.
    """
    return client.ask("POST", "/v1/compact", holding="data")["data"]


@operator_command(app, "backup", _print_durations)
def _backup(
    client: ApiClient,
    *,
    directory: Annotated[
        Path, typer.Argument(help="A new directory on the sidecar's machine.", file_okay=False, resolve_path=True)
    ],
) -> Json:
    """Copy turn log, state and memories, while the sidecar runs.

    To restore it, stop the sidecar and let memory.data_dir name the copy, and
    memory.milvus.uri, where it names a file, the file in the copy. What is
    forgotten later stays in a backup, so delete old ones. Memories on a Milvus
    server and what is in Redis are not in it: these have backups of their own.
    """
    return client.ask("POST", "/v1/backup", holding="data", json={"directory": str(directory)})["data"]
