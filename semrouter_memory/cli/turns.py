"""`semrouter-memory turns ...`: what became of accepted turns, and what to do with those that failed."""

from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from semrouter_memory.cli.operator import operator_command
from semrouter_memory.cli.output import AsJson, err, out, print_json, print_table, shown
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.client import OperatorClient
from semrouter_memory.model import Json, TurnState

turns_app = typer.Typer(
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


def register(group: typer.Typer) -> None:
    """Add the commands to a group."""
    group.add_typer(turns_app, name="turns")


TurnId = Annotated[str, typer.Argument(help="The turn's id.")]
User = Annotated[str | None, typer.Option(help="Only this user's.")]


@operator_command(turns_app, "list")
def _list(
    client: OperatorClient,
    *,
    user: User = None,
    state: Annotated[list[TurnState] | None, typer.Option(help="Only this state; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200)] = 50,
    before: Annotated[int, typer.Option(min=0, help="Where the page before ended.")] = 0,
    as_json: AsJson = False,
) -> None:
    """List turns, newest first, without what was said."""
    page = client.turns(limit=limit, before=before, user=user, states=[each.value for each in state or ()])
    if as_json:
        print_json(page)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("id", "said", "user", "state", "attempts", "error", "chars"):
        table.add_column(heading, no_wrap=True)
    for turn in page["data"]:
        table.add_row(*(Text(shown(cell)) for cell in _cells(turn)))
    print_table(table)
    if page["next_before"]:
        err.print(f"more: --before {page['next_before']}")


@operator_command(turns_app, "show")
def _show(client: OperatorClient, *, turn_id: TurnId) -> None:
    """Show one turn with what the user said and was answered, as JSON."""
    print_json(client.turn(turn_id))


@operator_command(turns_app, "retry")
def _retry(
    client: OperatorClient,
    *,
    turn_id: Annotated[str | None, typer.Argument(help="A dead letter's id.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead letters.")] = False,
    user: User = None,
    as_json: AsJson = False,
) -> None:
    """Let a dead letter wait again, or all of them (of a user)."""
    if (turn_id is None) is not everything or (turn_id and user):
        raise InvalidRequestError("say which: an id, or --all, which --user narrows down")
    retried = client.retry_all(user) if turn_id is None else client.retry(turn_id)
    if as_json:
        print_json({"retried": retried})
    else:
        out.print(f"{retried} waiting again")


@operator_command(turns_app, "drop")
def _drop(client: OperatorClient, *, turn_id: TurnId, as_json: AsJson = False) -> None:
    """Delete a dead or waiting turn without learning from it."""
    dropped = client.drop(turn_id)
    if as_json:
        print_json(dropped)
    else:
        out.print(f"dropped {shown(turn_id)}", markup=False)


@operator_command(turns_app, "totals")
def _totals(client: OperatorClient, *, as_json: AsJson = False) -> None:
    """Count what became of all turns ever accepted; exit status 1 when it does not add up."""
    totals = client.totals()
    parts = ("extracted", "empty", "dead_lettered", "deleted", "waiting")
    if as_json:
        print_json(totals)
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(justify="right")
        table.add_column()
        for name, meaning in _MEANINGS.items():
            table.add_row(str(totals[name]), meaning)
        print_table(table)
    if totals["accepted"] != sum(totals[part] for part in parts):
        err.print("these do not add up to the turns accepted")
        raise typer.Exit(1)


_MEANINGS = {
    "accepted": "turns accepted, of which",
    "extracted": "extracted: something was stored",
    "empty": "empty: nothing was worth storing",
    "dead_lettered": "dead letters: failed too often (turns list --state dead)",
    "deleted": "deleted before they were learned from",
    "waiting": "waiting",
}


def _cells(turn: dict[str, Json]) -> list[str]:
    said = turn["observed_at"][:19].replace("T", " ")
    return [turn["id"], said, turn["user_id"], turn["state"], str(turn["attempts"]), turn["error"], str(turn["chars"])]
