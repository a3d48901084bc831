"""`semrouter-memory record`: recordings from a running sidecar, or from Envoy's tap output."""

import io
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from semrouter_memory import __version__
from semrouter_memory.cli.connection import OPERATOR_API, OperatorTokenFile, OperatorUrl, operator_endpoint
from semrouter_memory.cli.output import err, shown
from semrouter_memory.config import IdentityConfig
from semrouter_memory.errors import InputFileError, InvalidRequestError
from semrouter_memory.manage.client import OperatorClient
from semrouter_memory.replay.cleaning import Cleaner, CleaningSettings
from semrouter_memory.replay.folder import Files, Folder, FolderSettings
from semrouter_memory.replay.normalise import normalised
from semrouter_memory.replay.reading import LocatedRecord, exchanges_of, records_in
from semrouter_memory.replay.records import End, Header, RecordedExchange
from semrouter_memory.replay.rendering import Format, written
from semrouter_memory.replay.tap import records_from, tap_files, tapped_exchanges
from semrouter_memory.retain.redact import without_secrets

_MB = 1024 * 1024
_PSEUDONYM_VARIABLE = "SEMROUTER_MEMORY__RECORDING__PSEUDONYM_KEY"

app = typer.Typer()
record_app = typer.Typer(
    help="""Record what Envoy and a running sidecar say to each other.

    record --out DIR --seconds 60      from now on, at the operator's port
    record import-tap FILES --out DIR  from what Envoy's tap filter wrote

Credentials are not recorded, neither in headers nor, as far as they can
be told, in bodies. --pseudonymise replaces every word and id as well.
`semrouter-memory replay` plays the files. To record all the time, see
`recording` in the configuration.
""",
)
app.add_typer(record_app, name="record")


Out = Annotated[Path, typer.Option(help="Directory that takes the recordings.")]
Form = Annotated[Format, typer.Option("--format", help="Lines to read and compare, or protobuf.")]
Into = Annotated[Files, typer.Option("--files", help="Many exchanges in a file, or one in each.")]
Normalise = Annotated[
    bool, typer.Option("--normalise", help="Leave out times, and number ids: for recordings in a repository.")
]
Pseudonymise = Annotated[bool, typer.Option("--pseudonymise", help="Replace every word and id, the same by the same.")]
Redact = Annotated[list[str] | None, typer.Option(metavar="HEADER", help="A further header that is not recorded.")]
MaxFile = Annotated[int, typer.Option(min=1, help="Bound on one file, in MB.")]
MaxTotal = Annotated[
    int, typer.Option(min=1, help="Bound on all recordings in the directory, in MB; the oldest leave.")
]


@record_app.callback(invoke_without_command=True)
def record(
    context: typer.Context,
    *,
    out: Annotated[Path | None, typer.Option(help="Directory that takes the recordings.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, max=86400, help="For how long; Ctrl-C ends it earlier.")] = 60,
    sample: Annotated[float, typer.Option(min=0.000001, max=1, help="Share of the exchanges.")] = 1,
    form: Form = "jsonl",
    into: Into = "rolling",
    max_file_mb: MaxFile = 64,
    max_total_mb: MaxTotal = 1024,
    redact: Redact = None,
    pseudonymise: Pseudonymise = False,
    normalise: Normalise = False,
    url: OperatorUrl = OPERATOR_API,
    operator_token_file: OperatorTokenFile = None,
) -> None:
    """Record what a running sidecar sees, from now on."""
    if context.invoked_subcommand is not None:
        return
    if out is None:
        raise InvalidRequestError("say where recordings go: --out DIR")
    target = operator_endpoint(url, operator_token_file)
    settings = _settings(out, form, into, (max_file_mb, max_total_mb), pseudonymised=pseudonymise)
    writer = _Writer(settings, normalise=normalise)
    wish = {"seconds": seconds, "sample": sample, "pseudonymise": pseudonymise, "redact": redact or []}
    with OperatorClient(target) as client, client.recording(wish, seconds=seconds) as chunks:
        err.print(f"recording for {seconds:g} s into {out}; Ctrl-C ends it")
        try:
            writer.take_stream(chunks, url)
        except KeyboardInterrupt:
            err.print("ended")
    writer.summarise()


@record_app.command("import-tap")
def import_tap(
    files: Annotated[
        list[Path],
        typer.Argument(help="Output of Envoy's tap filter, or directories: JSON or PROTO_BINARY_LENGTH_DELIMITED."),
    ],
    *,
    out: Out,
    chain: Annotated[
        Literal["two-filter", "single-filter"], typer.Option(help="As which chain Envoy would have shown it.")
    ] = "two-filter",
    user: Annotated[str, typer.Option(help="Who asked, where the tap did not see it.")] = "",
    user_header: Annotated[str, typer.Option(help="memory.identity.user_header.")] = "x-authz-user-id",
    form: Form = "jsonl",
    into: Into = "rolling",
    max_file_mb: MaxFile = 64,
    max_total_mb: MaxTotal = 1024,
    redact: Redact = None,
    pseudonymise: Pseudonymise = False,
    normalise: Normalise = False,
) -> None:
    """Make recordings of Envoy's tap output (http_streamed_trace_segment or http_buffered_trace).

    The filter cuts bodies at 1 KiB unless its output_config says otherwise (max_buffered_rx_bytes and
    max_buffered_tx_bytes); exchanges with a body that was cut are left out. Answers of this service are not in its output.
    Files of a directory are read in the order of their writing. Damage ends a file and makes the exit status 1.
    """
    paths = tap_files(files)
    cleaner = Cleaner(_cleaning(redact, user_header.lower(), pseudonymise=pseudonymise))
    settings = _settings(out, form, into, (max_file_mb, max_total_mb), pseudonymised=pseudonymise)
    writer = _Writer(settings, normalise=normalise)
    number, damaged = 0, 0
    for path in paths:
        try:
            for tapped in tapped_exchanges(path, _tell):
                number += 1
                records = records_from(tapped, chain=chain, user=user, user_header=user_header.lower(), number=number)
                numbered = [replace(each, stream=2 * number + each.stream) for each in cleaner.cleaned(records)]
                writer.take(RecordedExchange(tapped.location, tuple(numbered)))
        except InputFileError as error:
            damaged += 1
            _tell(str(error))
    writer.summarise()
    if damaged:
        err.print(f"{damaged} damaged files")
        raise typer.Exit(1)


class _Writer:
    """Writes exchanges to a folder."""

    def __init__(self, settings: FolderSettings, *, normalise: bool) -> None:
        self._settings = replace(settings, timed=not normalise, started_at="" if normalise else settings.started_at)
        self._folder = Folder(self._settings)
        self._normalise = normalise
        self._taken = self._left_out = 0
        self._note = ""

    def take_stream(self, chunks: Iterator[bytes], name: str) -> None:
        """All exchanges of a recording that is being made."""
        located = records_in(io.BufferedReader(_LiveStream(chunks)), name, _tell)
        for exchange in exchanges_of(self._noted(located)):
            self.take(exchange)

    def take(self, exchange: RecordedExchange) -> None:
        self._taken += 1
        records = list(exchange.records)
        if self._normalise:
            records = normalised(exchange, name=f"exchange-{self._taken}")
            records = [replace(each, stream=2 * self._taken - 2 + each.stream) for each in records]
        data = written(records, self._settings.format, timed=self._settings.timed)
        if self._folder.append(data, started_at=exchange.started_at) is None:
            self._taken -= 1
            self._left_out += 1

    def summarise(self) -> None:
        left_out = f", {self._left_out} left out: larger than a file may be" if self._left_out else ""
        err.print(f"{self._taken} exchanges written to {self._settings.directory}{left_out}")
        if self._note:
            err.print(f"the sidecar: {shown(self._note)}")

    def _noted(self, located: Iterator[LocatedRecord]) -> Iterator[LocatedRecord]:
        for each in located:
            event = each.record.event
            if each.record.stream == 0 and isinstance(event, End):
                self._note = event.note
            if isinstance(event, Header):
                self._settings = replace(self._settings, started_at="" if self._normalise else event.started_at)
            yield each


class _LiveStream(io.RawIOBase):
    """Bytes that arrive in chunks, as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]  # any buffer, in the base class
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def _settings(
    out: Path,
    form: Format,
    files: Files,
    bounds_mb: tuple[int, int],
    *,
    pseudonymised: bool,
) -> FolderSettings:
    return FolderSettings(
        directory=out,
        format=form,
        files=files,
        max_file_bytes=bounds_mb[0] * _MB,
        max_total_bytes=bounds_mb[1] * _MB,
        made_by=f"semrouter-memory {__version__}",
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        pseudonymised=pseudonymised,
    )


def _cleaning(headers: list[str] | None, user_header: str, *, pseudonymise: bool) -> CleaningSettings:
    key = os.environ.get(_PSEUDONYM_VARIABLE, "").encode() or os.urandom(32)
    return CleaningSettings(
        redact=without_secrets,
        headers=frozenset(name.lower() for name in headers or ()),
        identity_headers=frozenset({user_header, *IdentityConfig().other_headers, "x-session-id"}),
        pseudonym_key=key if pseudonymise else b"",
    )


def _tell(notice: str) -> None:
    err.print(shown(notice), style="yellow")
