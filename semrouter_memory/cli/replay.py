"""`semrouter-memory replay`: plays recordings against a server and says what is otherwise than it was."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from semrouter_memory.cli.output import err, out, shown
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.replay.comparing import Difference
from semrouter_memory.replay.playing import PlayOptions, sendable
from semrouter_memory.replay.reading import recording_files
from semrouter_memory.replay.replayer import Replayer, ReplayOptions, ReplayReport

app = typer.Typer()
_COLOURS = {"-": "red", "+": "green", "@": "cyan"}


@app.command()
def replay(
    files: Annotated[list[Path], typer.Argument(help="Recordings, or directories of them.")],
    target: Annotated[
        str, typer.Option(help="The server's gRPC address: host:port, or unix:path.")
    ] = "127.0.0.1:50051",
    speed: Annotated[str, typer.Option(help="2 is twice as fast as it was, max as fast as the order allows.")] = "1",
    compare: Annotated[
        Literal["bytes", "json", "kinds"],
        typer.Option(help="How bodies must agree: to the byte, as JSON, or only in whether they are changed."),
    ] = "bytes",
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="gRPC metadata to send, for example a secret that was redacted."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.01, help="Seconds to wait for one answer.")] = 10.0,
    max_gap: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="Longest wait while nothing happens.")
    ] = 5.0,
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Exit status 1 when anything differs, a file is cut, or nothing compared.")
    ] = False,
) -> None:
    """Play recordings against a server, as Envoy did, and compare its answers with those that were recorded.

    Messages keep their order and the chunks in which they came. Memory works in time: what one exchange teaches is known
    to a later one when it comes as much later as it did. Times and dynamic metadata are not compared.
    A damaged file is played up to there, and makes the exit status 1.
    """
    paths = recording_files(files)
    play = PlayOptions(
        target=target,
        speed=_speed(speed),
        timeout_seconds=timeout,
        metadata=dict(_pair(each) for each in metadata or ()),
    )
    options = ReplayOptions(files=tuple(paths), play=play, level=compare, max_gap_seconds=max_gap)
    tally = asyncio.run(_played(options, sum(path.stat().st_size for path in paths)))
    _summarise(tally)
    if tally.damaged or (check and not _agrees(tally)):
        raise typer.Exit(1)


async def _played(options: ReplayOptions, nbytes: int) -> ReplayReport:
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("playing", total=nbytes)
        session = Replayer(
            options,
            on_differences=_print,
            on_bytes_done=lambda count: progress.advance(task, count),
            on_notice=lambda notice: err.print(shown(notice), style="yellow"),
        )
        return await session.run()


def _print(found: list[Difference]) -> None:
    for difference in found:
        out.print(f"{shown(difference.where)}: {shown(difference.what)}", style="bold")
        for line in difference.lines:
            out.print(f"  {shown(line)}", style=_COLOURS.get(line[:1]))


def _summarise(tally: ReplayReport) -> None:
    parts = [
        f"{tally.exchanges} exchanges",
        f"{tally.streams} streams",
        f"{tally.messages} messages",
        f"{tally.answers} answers",
        f"{tally.differing} differ",
    ]
    if tally.not_compared:
        parts.append(f"{tally.not_compared} without recorded answers")
    if tally.unfinished:
        parts.append(f"{tally.unfinished} not recorded to their end")
    if tally.damaged:
        parts.append(f"{len(tally.damaged)} damaged files")
    out.print(", ".join(parts))


def _agrees(tally: ReplayReport) -> bool:
    nothing = _nothing_compared(tally)
    if nothing:
        err.print(nothing, style="red")
    return not (nothing or tally.differing or tally.notices)


def _nothing_compared(tally: ReplayReport) -> str:
    """Why a check says nothing; "" when it does."""
    if not tally.exchanges:
        return "nothing was checked: no exchanges were played"
    if tally.not_compared >= tally.exchanges:
        return "nothing was checked: no exchange has recorded answers to compare with"
    return ""


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < 1e6:  # noqa: PLR2004 - more is what `max` is for; NaN is refused as well
        raise InvalidRequestError(f"--speed {text}: must be a number above 0, or max")
    return speed


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidRequestError(f"--metadata {text.partition('=')[0]}: must be NAME=VALUE")
    if not sendable(name, value):
        raise InvalidRequestError(
            f"--metadata {name}: gRPC does not take this name from a caller, or value is not ASCII"
        )
    return name, value
