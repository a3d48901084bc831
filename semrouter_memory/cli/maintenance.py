"""`semrouter-memory compact` and `backup`: care of the files of a running sidecar, asked at the operator's port."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from semrouter_memory.cli.operator import operator_command
from semrouter_memory.cli.output import AsJson, out, print_json
from semrouter_memory.manage.client import OperatorClient
from semrouter_memory.model import Json


def register(group: typer.Typer) -> None:
    """Add the commands to a group."""
    operator_command(group, "compact")(_compact)
    operator_command(group, "backup")(_backup)


def _compact(client: OperatorClient, *, as_json: AsJson = False) -> None:
    """Take what was deleted out of the sidecar's files, now.

    Forgotten memories and turns are invisible at once, but their text may stay
    in unused pages of the files until this was done. It also happens on
    schedule (memory.ageing.compact_hours). The sidecar goes on serving.
    """
    _report(client.compact(), as_json=as_json)


def _backup(
    client: OperatorClient,
    *,
    directory: Annotated[
        Path, typer.Argument(help="A new directory on the sidecar's machine.", file_okay=False, resolve_path=True)
    ],
    as_json: AsJson = False,
) -> None:
    """Copy turn log, state and memories, while the sidecar runs.

    To restore it, stop the sidecar and let memory.data_dir name the copy. What
    is forgotten later stays in a backup, so delete old ones. Memories on a
    Milvus server and what is in Redis are not in it: these have backups of
    their own.
    """
    _report(client.backup(str(directory)), as_json=as_json)


def _report(shares: Sequence[dict[str, Json]], *, as_json: bool) -> None:
    if as_json:
        print_json(shares)
        return
    for share in shares:
        note = f" ({share['note']})" if share["note"] else ""
        out.print(f"{share['part']}: {share['seconds']:.2f} s{note}", markup=False, soft_wrap=True)
