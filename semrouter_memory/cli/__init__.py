"""The command line. It parses, calls, prints; logic lives in the rooms below."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from semrouter_memory import __version__
from semrouter_memory.cli.bench import register as register_bench
from semrouter_memory.cli.config import config_app
from semrouter_memory.cli.doctor import register as register_doctor
from semrouter_memory.cli.eval import eval_app
from semrouter_memory.cli.memory import memory_app
from semrouter_memory.cli.model import model_app
from semrouter_memory.cli.record import record_app
from semrouter_memory.cli.replay import replay
from semrouter_memory.cli.turns import turns_app
from semrouter_memory.cli.upkeep import register as register_upkeep
from semrouter_memory.errors import MemoryServiceError

app = typer.Typer(
    name="semrouter-memory",
    help="A memory across sessions for LLM traffic behind Envoy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(model_app, name="model")
app.add_typer(memory_app, name="memory")
app.add_typer(turns_app, name="turns")
app.add_typer(config_app, name="config")
app.add_typer(eval_app, name="eval")
app.add_typer(record_app, name="record")
app.command()(replay)

Model = Annotated[Path, typer.Option(help="Directory with the embedding model's files (see `model build`).")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Envoy's port on 127.0.0.1; 0 draws a free one.")]
Free = Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 draws a free one.")]
Directory = Annotated[Path, typer.Option(help="Takes data, logs and generated configurations.")]

_DEFAULT_MODEL = Path(".cache/model")


@app.callback(invoke_without_command=True)
def _version(
    *, version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The YAML file; without one, the defaults.")
    ] = None,
) -> None:
    """Run the sidecar until SIGTERM or Ctrl-C.

    Settings come from the file, with environment variables on top: SEMROUTER_MEMORY__MEMORY__MILVUS__URI sets
    memory.milvus.uri, and so on. The configuration reference is in the README.
    """
    from semrouter_memory.app import run  # noqa: PLC0415 - the server's libraries take a second to load
    from semrouter_memory.config import load  # noqa: PLC0415

    run(load(config))


@app.command()
def demo(
    model: Model = _DEFAULT_MODEL,
    port: Port = 10000,
    directory: Directory = Path(".run/demo"),
) -> None:
    """Play a conversation that is remembered, through the real Envoy; exit status 1 when something was not."""
    from semrouter_memory.demo.play import play  # noqa: PLC0415

    if not asyncio.run(play(model=model, port=port, directory=directory)):
        raise typer.Exit(1)


@app.command(name="run")
def run_stack(
    model: Model = _DEFAULT_MODEL,
    port: Port = 10000,
    admin_port: Free = 0,
    ext_proc_port: Free = 0,
    api_port: Free = 0,
    operator_port: Free = 0,
    directory: Directory = Path(".run/data"),
    llm_base_url: Annotated[
        str, typer.Option(help="A real OpenAI-compatible server; without one, a stand-in.", envvar="LLM_BASE_URL")
    ] = "",
) -> None:
    """Start Envoy, the sidecar and an LLM (or a stand-in) and stay up; prints curl lines to try.

    LLM_API_KEY in the environment is sent to the LLM server.
    """
    from semrouter_memory.demo.stay import RunOptions, stay  # noqa: PLC0415

    options = RunOptions(
        model=model,
        directory=directory,
        llm_base_url=llm_base_url,
        llm_key=os.environ.get("LLM_API_KEY", ""),
        port=port,
        admin_port=admin_port,
        ext_proc_port=ext_proc_port,
        api_port=api_port,
        operator_port=operator_port,
    )
    asyncio.run(stay(options))


register_bench(app)
register_doctor(app)
register_upkeep(app)


def main() -> None:
    """Entry point: an expected failure is one clear message and exit status 2, anything else a traceback."""
    try:
        app()
    except MemoryServiceError as error:
        typer.secho(f"semrouter-memory: {error}", fg="red", err=True)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
