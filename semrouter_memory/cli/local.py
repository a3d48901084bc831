"""`semrouter-memory demo` and `run`: an installation on this machine, to look at and to try."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

_DEFAULT_MODEL = Path(".cache/model")

Model = Annotated[Path, typer.Option(help="Directory with the embedding model's files (see `model build`).")]
EnvoyPort = Annotated[
    int, typer.Option(envvar="PORT", min=0, max=65535, help="Envoy's port on 127.0.0.1; 0 draws a free one.")
]


def _port(name: str, what: str) -> typer.models.OptionInfo:
    """The option of a further port."""
    option: typer.models.OptionInfo = typer.Option(envvar=name, min=0, max=65535, help=f"{what}; 0 draws a free one.")
    return option


OperatorPort = Annotated[int | None, _port("OPERATOR_PORT", "The sidecar's operator port (metrics, turns)")]
ApiPort = Annotated[int | None, _port("API_PORT", "The sidecar's users' API, which Envoy asks")]
ExtProcPort = Annotated[int | None, _port("EXT_PROC_PORT", "The sidecar's gRPC port, which Envoy asks")]
AdminPort = Annotated[int | None, _port("ADMIN_PORT", "Envoy's admin port")]
LlmPort = Annotated[int | None, _port("LLM_PORT", "The stand-in LLM's port")]
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


def register(group: typer.Typer) -> None:
    """Add the commands to a group."""
    group.command("demo")(_demo)
    group.command("run")(_run)


def _demo(
    model: Model = _DEFAULT_MODEL,
    port: EnvoyPort = 10000,
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


def _run(
    model: Model = _DEFAULT_MODEL,
    port: EnvoyPort = 10000,
    operator_port: OperatorPort = None,
    api_port: ApiPort = None,
    ext_proc_port: ExtProcPort = None,
    admin_port: AdminPort = None,
    llm_port: LlmPort = None,
    directory: RunDirectory = Path(".run"),
    llm_base_url: LlmBaseUrl = "",
) -> None:
    """Start Envoy, the sidecar and a stand-in LLM, and stay up until Ctrl-C.

    Prints lines to paste: a request, a question with the openai package, and
    what is remembered. `. .run/env` prepares a shell for `semrouter-memory
    memory`, `turns`, `backup`, `record`, and for OpenAI clients.

    Everything listens on 127.0.0.1. Ports that are not given follow --port:
    10001 operator, 10002 users' API, 10003 gRPC, 10004 Envoy's admin, 10005
    stand-in LLM. Settings of the sidecar come from the environment:
    SEMROUTER_MEMORY__MEMORY__RECALL__STRATEGY=keywords.
    """
    from semrouter_memory.demo.stay import RunOptions, stay  # noqa: PLC0415 - same

    options = RunOptions(
        model=model,
        directory=directory,
        llm_base_url=llm_base_url,
        llm_key=os.environ.get("LLM_API_KEY", ""),
        port=port,
        ports={
            "operator_port": operator_port,
            "api_port": api_port,
            "ext_proc_port": ext_proc_port,
            "admin_port": admin_port,
            "llm_port": llm_port,
        },
    )
    asyncio.run(stay(options))
