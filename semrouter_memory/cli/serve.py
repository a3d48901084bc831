"""`semrouter-memory serve`: the sidecar."""

import gc
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="The YAML file; without one, the defaults.")
    ] = None,
) -> None:
    """Run the sidecar until SIGTERM or Ctrl-C.

    Settings come from the file, with environment variables on top: SEMROUTER_MEMORY__MEMORY__MILVUS__URI sets
    memory.milvus.uri, and so on. `semrouter-memory config reference` prints all keys.
    """
    # What loading makes stays: collections on the way would find no garbage, and cost 0.3 s. `run` enables them again.
    gc.disable()
    from semrouter_memory.app import run  # noqa: PLC0415 - the server's libraries take seconds to load
    from semrouter_memory.config import load  # noqa: PLC0415

    run(load(config))
