"""`semrouter-memory doctor`: the mistakes in Envoy's configuration and the sidecar's, each with its fix."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from semrouter_memory.cli.output import AsJson, err, print_json, shown
from semrouter_memory.doctor.finding import Finding, Severity

_PIPE_WIDTH = 160
app = typer.Typer()
_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}


@app.command()
def doctor(
    envoy: Annotated[
        Path | None,
        typer.Argument(
            metavar="[ENVOY.yaml]",
            help="The file that Envoy is started with; without it, only the settings are checked.",
        ),
    ] = None,
    *,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The sidecar's settings; without them, the defaults.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Connect to nothing; the sidecar may run on another machine.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find mistakes in Envoy's configuration and the sidecar's own.

    Each is shown with its place and the fix. Where an Envoy binary is
    installed (extra envoy, or on the PATH), it validates its configuration,
    too. Unless --offline is given, the sidecar, Milvus, Redis and the models
    are asked whether they answer (three seconds at most). The embedding
    model's files are checked where they are on this machine; only without
    --offline, and with the sidecar's settings, is it an error that they are
    missing.

    Exit status 1 when there are errors; warnings alone are 0.
    """
    from semrouter_memory.doctor.diagnose import diagnose  # noqa: PLC0415 - takes a second to load

    # Only a terminal shows it.
    with err.status("checking, and asking the servers" if not offline else "checking"):
        findings = diagnose(envoy, config, offline=offline)
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        _print(findings)
    if any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(1)


def _print(findings: list[Finding]) -> None:
    terminal = Console(highlight=False)
    console = Console(highlight=False, width=None if terminal.is_terminal else _PIPE_WIDTH)
    for finding in findings:
        _print_finding(console, finding)
    if not findings:
        console.print("nothing found", style="green")
        return
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    console.print(f"{_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}")


def _print_finding(console: Console, finding: Finding) -> None:
    console.print(Text.assemble((finding.severity.value, _COLOURS[finding.severity]), " ", (finding.code, "bold")))
    # Soft-wrapped, so that a path can be copied whole.
    console.print(Text(f"  at   {shown(finding.where)}", style="cyan"), soft_wrap=True)
    _print_indented(console, Text(_shown_lines(finding.what)))
    _print_indented(console, Text.assemble(("fix: ", "green"), shown(finding.fix)))
    console.print()


def _print_indented(console: Console, text: Text) -> None:
    for line in text.wrap(console, console.width - 2):
        line.rstrip()
        console.print(Text("  ").append_text(line))


def _shown_lines(text: str) -> str:
    return "\n".join(shown(line) for line in text.splitlines())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
