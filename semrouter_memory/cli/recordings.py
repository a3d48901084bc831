"""`semrouter-memory record` and `replay`: recordings of a running sidecar or of Envoy's tap output, played against a server.

What the commands do is loaded when they run: it takes a second, which `--help` need not wait for.
"""

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from semrouter_memory.cli.connection import TIMEOUT_SECONDS, ApiClient, OperatorConnection
from semrouter_memory.cli.groups import with_groups
from semrouter_memory.cli.output import err, shown
from semrouter_memory.cli.output import out as printed
from semrouter_memory.errors import InputFileError, InvalidRequestError

if TYPE_CHECKING:
    from semrouter_memory.replay.cleaning import Cleaner
    from semrouter_memory.replay.comparing import Difference
    from semrouter_memory.replay.folder import ExchangeWriter
    from semrouter_memory.replay.playing import ReplayOptions
    from semrouter_memory.replay.replayer import ReplayReport

app = typer.Typer()
_record = typer.Typer(
    help="""Record what Envoy and a running sidecar say to each other.

    record --out DIR --seconds 60      from now on, at the operator's port
    record import-tap FILES --out DIR  from what Envoy's tap filter wrote

Credentials are not recorded, neither in headers nor, as far as they can
be told, in bodies. --pseudonymise replaces every word and id as well.
`semrouter-memory replay` plays the files. To record all the time, see
`recording` in the configuration.
""",
)
app.add_typer(_record, name="record")
_MB = 1024 * 1024
_PSEUDONYM_VARIABLE = "SEMROUTER_MEMORY__RECORDING__PSEUDONYM_KEY"
_COLOURS = {"-": "red", "+": "green", "@": "cyan"}
_FASTEST = 1e6
"""Of the speeds that are numbers; more is what `max` is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How recordings are writing."""

    form: Annotated[
        Literal["jsonl", "protobuf"], typer.Option("--format", help="Lines to read and compare, or protobuf.")
    ] = "jsonl"
    into: Annotated[
        Literal["rolling", "exchange"], typer.Option("--files", help="Many exchanges in a file, or one in each.")
    ] = "rolling"
    max_file_mb: Annotated[int, typer.Option(min=1, help="Bound on one file, in MB.")] = 64
    max_total_mb: Annotated[
        int, typer.Option(min=1, help="Bound on all recordings in the directory, in MB; the oldest leave.")
    ] = 1024
    redact: Annotated[
        list[str] | None, typer.Option(metavar="HEADER", help="A further header that is not recorded.")
    ] = None
    pseudonymise: Annotated[
        bool, typer.Option("--pseudonymise", help="Replace every word and id, the same by the same.")
    ] = False
    normalise: Annotated[
        bool, typer.Option("--normalise", help="Leave out times, and number ids: for recordings in a repository.")
    ] = False

    def writer(self, directory: Path) -> "ExchangeWriter":
        """What writes recordings to that directory."""
        from semrouter_memory.replay.folder import ExchangeWriter, FolderSettings  # noqa: PLC0415 - see above

        settings = FolderSettings(
            directory=directory,
            format=self.form,
            files=self.into,
            max_file_bytes=self.max_file_mb * _MB,
            max_total_bytes=self.max_total_mb * _MB,
            pseudonymised=self.pseudonymise,
            timed=not self.normalise,
        )
        return ExchangeWriter(settings)


@_record.callback(invoke_without_command=True)
@with_groups
def record(
    context: typer.Context,
    *,
    out: Annotated[Path | None, typer.Option(help="Directory that takes the recordings.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=86400, help="For how long; Ctrl-C ends it earlier.")] = 60,
    sample: Annotated[float, typer.Option(min=0.000001, max=1, help="Share of the exchanges.")] = 1,
    writing: Writing,
    connection: OperatorConnection,
) -> None:
    """Record what a running sidecar sees, from now on."""
    if context.invoked_subcommand is not None:
        return
    if out is None:
        raise InvalidRequestError("say where recordings go: --out DIR")
    endpoint = replace(connection.endpoint(), timeout_seconds=seconds + TIMEOUT_SECONDS)
    writer = writing.writer(out)
    wish = {"seconds": seconds, "sample": sample, "pseudonymise": writing.pseudonymise, "redact": writing.redact or []}
    with ApiClient(endpoint) as client, client.stream("POST", "/v1/recording", query=wish) as response:
        err.print(f"recording for {seconds:g} s into {out}; Ctrl-C ends it")
        try:
            writer.take_stream(response.iter_raw(), connection.url, _tell)
        except KeyboardInterrupt:
            err.print("ended")
    _summarise_writing(writer)


@_record.command("import-tap")
@with_groups
def import_tap(
    files: Annotated[
        list[Path],
        typer.Argument(help="Output of Envoy's tap filter, or directories: JSON or PROTO_BINARY_LENGTH_DELIMITED."),
    ],
    *,
    out: Annotated[Path, typer.Option(help="Directory that takes the recordings.")],
    chain: Annotated[
        Literal["two-filter", "single-filter"], typer.Option(help="As which chain Envoy would have shown it.")
    ] = "two-filter",
    user: Annotated[str, typer.Option(help="Who asked, where the tap did not see it.")] = "",
    user_header: Annotated[str, typer.Option(help="memory.identity.user_header.")] = "x-authz-user-id",
    writing: Writing,
) -> None:
    """Make recordings of Envoy's tap output (http_streamed_trace_segment or http_buffered_trace).

    The filter cuts bodies at 1 KiB unless its output_config says otherwise (max_buffered_rx_bytes and
    max_buffered_tx_bytes); exchanges with a body that was cut are left out. Answers of this service are not in its output.
    Files of a directory are read in the order of their writing. Damage ends a file and makes the exit status 1.
    """
    from semrouter_memory.replay import tap  # noqa: PLC0415 - see above
    from semrouter_memory.replay.records import RecordedExchange, changed  # noqa: PLC0415

    paths, user_header = tap.tap_files(files), user_header.lower()
    cleaner = _cleaner(writing.redact or [], user_header, pseudonymise=writing.pseudonymise)
    writer = writing.writer(out)
    number, damaged = 0, 0
    for path in paths:
        try:
            for tapped in tap.tapped_exchanges(path, _tell):
                number += 1
                records = tap.records_from(tapped, chain=chain, user=user, user_header=user_header, number=number)
                numbered = [changed(each, stream=2 * number + each.stream) for each in cleaner.cleaned(records)]
                writer.take(RecordedExchange(tapped.location, tuple(numbered)))
        except InputFileError as error:
            damaged += 1
            _tell(str(error))
    _summarise_writing(writer, damaged)


def _cleaner(headers: list[str], user_header: str, *, pseudonymise: bool) -> "Cleaner":
    from semrouter_memory.config import IdentityConfig  # noqa: PLC0415 - see above
    from semrouter_memory.replay.cleaning import Cleaner, CleaningSettings  # noqa: PLC0415
    from semrouter_memory.retain.redact import without_secrets  # noqa: PLC0415

    key = os.environ.get(_PSEUDONYM_VARIABLE, "").encode() or os.urandom(32)
    settings = CleaningSettings(
        redact=without_secrets,
        headers=frozenset(name.lower() for name in headers),
        identity_headers=frozenset({user_header, *IdentityConfig().other_headers, "x-session-id"}),
        pseudonym_key=key if pseudonymise else b"",
    )
    return Cleaner(settings)


def _summarise_writing(writer: "ExchangeWriter", damaged: int = 0) -> None:
    left_out = f", {writer.left_out} left out: larger than a file may be" if writer.left_out else ""
    err.print(f"{writer.taken} exchanges written to {writer.directory}{left_out}")
    if writer.note:
        err.print(f"the sidecar: {shown(writer.note)}")
    if damaged:
        err.print(f"{damaged} damaged files")
        raise typer.Exit(1)


def _tell(notice: str) -> None:
    err.print(shown(notice), style="yellow")


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

    Messages keep their order and chunks. Memory works in time: what one exchange teaches is known to a later one when it
    comes as much later as it did. Times, dynamic metadata, and injected memories' ids and days are not compared.
    What is played is learned: give it a sidecar of its own. A damaged file is played up to there, with exit status 1.
    """
    from semrouter_memory.replay.playing import ReplayOptions  # noqa: PLC0415
    from semrouter_memory.replay.reading import recording_files  # noqa: PLC0415 - see above

    options = ReplayOptions(
        files=tuple(recording_files(files)),
        target=target,
        speed=_speed(speed),
        timeout_seconds=timeout,
        metadata=dict(map(_pair, metadata or ())),
        level=compare,
        max_gap_seconds=max_gap,
    )
    tally = asyncio.run(_played(options, sum(path.stat().st_size for path in options.files)))
    printed.print(", ".join(_figures(tally)))
    if tally.damaged or (check and not _agrees(tally)):
        raise typer.Exit(1)


async def _played(options: "ReplayOptions", nbytes: int) -> "ReplayReport":
    from semrouter_memory.replay.replayer import Replayer  # noqa: PLC0415 - see above

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("playing", total=nbytes)
        session = Replayer(
            options,
            on_differences=_print,
            on_bytes_done=lambda count: progress.advance(task, count),
            on_notice=_tell,
        )
        return await session.run()


def _print(found: "list[Difference]") -> None:
    for difference in found:
        printed.print(f"{shown(difference.where)}: {shown(difference.what)}", style="bold")
        for line in difference.lines:
            printed.print(f"  {shown(line)}", style=_COLOURS.get(line[:1]))


def _figures(tally: "ReplayReport") -> list[str]:
    figures = {
        "exchanges": tally.exchanges,
        "streams": tally.streams,
        "messages": tally.messages,
        "answers": tally.answers,
        "differ": tally.differing,
    }
    exceptions = {
        "without recorded answers": tally.not_compared,
        "not recorded to their end": tally.unfinished,
        "damaged files": len(tally.damaged),
    }
    return [f"{count} {what}" for what, count in {**figures, **{k: n for k, n in exceptions.items() if n}}.items()]


def _agrees(tally: "ReplayReport") -> bool:
    nothing = ""
    if not tally.exchanges:
        nothing = "nothing was checked: no exchanges were played"
    elif tally.not_compared >= tally.exchanges:
        nothing = "nothing was checked: no exchange has recorded answers to compare with"
    if nothing:
        err.print(nothing, style="red")
    return not (nothing or tally.differing or tally.notices)


def _speed(text: str) -> float | None:
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < _FASTEST:  # NaN is refused as well
        raise InvalidRequestError(f"--speed {text}: must be a number above 0, or max")
    return speed


def _pair(text: str) -> tuple[str, str]:
    from semrouter_memory.replay.playing import sendable  # noqa: PLC0415 - see above

    name, equals, value = text.partition("=")
    if not (name and equals):
        raise InvalidRequestError(f"--metadata {text.partition('=')[0]}: must be NAME=VALUE")
    if not sendable(name, value):
        raise InvalidRequestError(
            f"--metadata {name}: gRPC does not take this name from a caller, or value is not ASCII"
        )
    return name, value
