"""`semrouter-memory run`: the demo's installation, staying up, with lines to try it by hand."""

import asyncio
import json
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from semrouter_memory.config import variable_of
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.secret_file import write_private
from semrouter_memory.stack.envoy import PORTS, StackOptions
from semrouter_memory.stack.llm import StandInLlm, served
from semrouter_memory.stack.llm_probe import probe
from semrouter_memory.stack.loopback import chosen_ports
from semrouter_memory.stack.stack import Stack, locked, steps
from semrouter_memory.termination import on_termination

_USER, _KEY = "alice", "demo-key-alice"
_MODEL = "your-model"
_BIN = Path(sys.executable).parent
_TOKEN_VARIABLE = variable_of("management.operator_token")
_OTHER_TARGETS = ("SEMROUTER_MEMORY_URL", "SEMROUTER_MEMORY_API_KEY")
"""What would lead the commands elsewhere."""

_TELL = """\
curl -sS {url}/v1/chat/completions -H 'authorization: Bearer {key}' -H 'content-type: application/json' -d '{body}'
"""
_ASK = """\
{python} - <<'EOF'
from openai import OpenAI
client = OpenAI(base_url="{url}/v1", api_key="{key}")
question = {{"role": "user", "content": "What is my budget for the trip?"}}
print(client.chat.completions.create(model={model}, messages=[question]).choices[0].message.content)
EOF
"""
_LOOK = """\
. {env} && {command} memory list
"""
_OPEN = """\
{operator}/v1/memory/console#token={token}&owner=user%3A{user}
"""


async def stay(options: StackOptions, *, port: int, operator_port: int | None = None) -> None:
    """Start everything and wait for Ctrl-C, SIGTERM or the terminal's end, also while it starts.

    Args:
        options: without an LLM, the stand-in serves.
        port: Envoy's, which the others follow.
        operator_port: where it is another one.

    Raises:
        ConfigurationError: a setting, a port or the directory does not serve.
        UnavailableError: Envoy or the sidecar did not start, or Envoy ended.
    """
    console = Console(highlight=False, soft_wrap=True)
    staying = asyncio.ensure_future(_start_and_wait(options, port, operator_port, console))
    stopping = False

    def stop() -> None:
        nonlocal stopping
        # Once is enough: a second signal must not interrupt the parts' own end.
        if not stopping:
            stopping = True
            staying.cancel()
            with suppress(OSError):  # the terminal may be gone
                console.print("==> stopping (20 s at most)", style="dim")

    on_termination(stop)
    try:
        await staying
    except asyncio.CancelledError:
        if not stopping:
            raise


async def _start_and_wait(options: StackOptions, port: int, operator_port: int | None, console: Console) -> None:
    async with AsyncExitStack() as exits:
        exits.enter_context(locked(options.directory))
        ports = chosen_ports(port, [*PORTS, "llm_port"], operator_port)
        llm_name, directory = options.llm or "a stand-in that repeats its context", options.directory.absolute()
        with steps(console) as say:
            if options.llm:
                name = await _first_model(options, console, say)
            else:
                name, llm = "stand-in", await exits.enter_async_context(served(StandInLlm(), ports["llm_port"]))
                options = replace(options, llm=llm, llm_key="")
            token = operator_token_file(directory, os.environ)
            options = replace(
                options,
                directory=directory,
                model_directory=options.model_directory.absolute(),
                sidecar_config={"management": {"operator_token_file": str(token)}},
                ports=ports,
            )
            stack = await exits.enter_async_context(Stack(options, say))
        env = directory / "env"
        write_private(env, _environment(stack, token))
        _print_lines(console, stack, env=env, token=token, model=name, llm=llm_name)
        await _until_envoy_ends(stack, console)


async def _first_model(options: StackOptions, console: Console, say: Callable[[str], None]) -> str:
    say(f"asking {options.llm} for its models")
    found = await probe(options.llm, options.llm_key)
    if found.problem:
        console.print(Text(f"warning: {found.problem}. Going on: it is asked again with every request.", "yellow"))
    if not found.model:
        console.print(Text(f"It names no model: write one in the place of {_MODEL} in the lines below."))
    return found.model or _MODEL


async def _until_envoy_ends(stack: Stack, console: Console) -> None:
    """When the sidecar ends, a warning is printed: requests pass without it."""
    envoy, sidecar = (asyncio.ensure_future(part.ended()) for part in (stack.envoy, stack.sidecar))
    try:
        await asyncio.wait({envoy, sidecar}, return_when=asyncio.FIRST_COMPLETED)
        if not envoy.done():
            console.print(Text(f"warning: {sidecar.result()}\nRequests pass without memory until the next start."))
        raise UnavailableError(await envoy, service=Service.SERVER)
    finally:
        envoy.cancel()
        sidecar.cancel()


def operator_token_file(directory: Path, environment: Mapping[str, str]) -> Path:
    """The file with the operator's token: what the environment says, else the one of the last run, else a new one."""
    if named := environment.get(f"{_TOKEN_VARIABLE}_FILE"):
        return Path(named).expanduser().absolute()
    path = directory.absolute() / "operator-token"
    token = environment.get(_TOKEN_VARIABLE) or (path.read_text(encoding="utf-8").strip() if path.exists() else "")
    write_private(path, token or secrets.token_urlsafe(32))
    return path


def _environment(stack: Stack, token: Path) -> str:
    """Text for a shell to source."""
    exported = {
        "SEMROUTER_MEMORY_OPERATOR_URL": stack.operator_url,
        "SEMROUTER_MEMORY_OPERATOR_TOKEN_FILE": str(token),
        "SEMROUTER_MEMORY_USER": _USER,
        "OPENAI_BASE_URL": f"{stack.url}/v1",
        "OPENAI_API_KEY": _KEY,
    }
    lines = [f"export {name}={shlex.quote(value)}" for name, value in exported.items()]
    return "\n".join([f"unset {' '.join(_OTHER_TARGETS)}", *lines, ""])


def _print_lines(console: Console, stack: Stack, *, env: Path, token: Path, model: str, llm: str) -> None:
    message = {"role": "user", "content": "My budget for the Hawaii trip is $10,000"}
    body = json.dumps({"model": model, "messages": [message]}).replace("'", r"\u0027")
    command = shlex.quote(str(_BIN / "semrouter-memory"))
    python = shlex.quote(sys.executable)
    parts = {
        "": f"Up. Envoy listens on {stack.url}; the LLM is {llm}. Ctrl-C ends it.\n"
        f"Memories, logs and settings are stored in {env.parent}: the next start knows them.\n"
        f"Operator: {stack.operator_url}/metrics and /readyz. In another terminal:\n",
        "Tell it something, as alice (bob's key is demo-key-bob)": _TELL.format(url=stack.url, key=_KEY, body=body),
        "Ask in a new conversation": _ASK.format(python=python, url=stack.url, key=_KEY, model=json.dumps(model)),
        "See what is remembered; then also `turns list`, `backup DIRECTORY`, and any OpenAI client": _LOOK.format(
            env=shlex.quote(str(env)), command=command
        ),
        # On loopback alone; what stands behind the # stays in the browser.
        "Open the console in a browser, as operator, with alice's memories": _OPEN.format(
            operator=stack.operator_url, token=quote(token.read_text(encoding="utf-8").strip(), safe=""), user=_USER
        ),
    }
    for title, text in parts.items():
        console.print(Text(f"\n# {title}" if title else "", "bold"))
        console.print(Text(text), end="")
