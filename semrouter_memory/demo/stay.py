"""`semrouter-memory run`: the demo's installation, staying up, with lines to try it by hand."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from semrouter_memory.manage.server import serve_http
from semrouter_memory.stack.llm import StandInLlm
from semrouter_memory.stack.ports import LOOPBACK
from semrouter_memory.stack.stack import Stack, StackOptions

_TRY = """
[bold]Up.[/] Envoy listens on {url}; Ctrl-C ends it. The LLM is {llm}. Logs and data: {directory}

[bold]Tell it something[/] (alice's key; bob's is demo-key-bob):
  curl {url}/v1/chat/completions -H 'authorization: Bearer demo-key-alice' -H 'content-type: application/json' \\
    -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "My budget for the Hawaii trip is $10,000"}}]}}'

[bold]Ask in a new conversation[/]:
  curl {url}/v1/chat/completions -H 'authorization: Bearer demo-key-alice' -H 'content-type: application/json' \\
    -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "What is my budget for the trip?"}}]}}'

[bold]See and forget what is remembered[/]:
  curl {url}/v1/memory -H 'authorization: Bearer demo-key-alice'
  curl -X DELETE '{url}/v1/memory?user_id=alice' -H 'authorization: Bearer demo-key-alice'

[bold]Any OpenAI client[/]:
  OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=demo-key-alice ...

[bold]For the operator[/]: {operator}/metrics  {operator}/readyz
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line says; port 0 draws a free one."""

    model: Path
    directory: Path
    llm_base_url: str
    llm_key: str
    port: int
    admin_port: int
    ext_proc_port: int
    api_port: int
    operator_port: int


@asynccontextmanager
async def local_llm(directory: Path) -> AsyncIterator[tuple[StandInLlm, str]]:
    """The stand-in LLM in this process, and its base URL."""
    directory.mkdir(parents=True, exist_ok=True)
    llm = StandInLlm()
    server = await serve_http(llm.app, f"{LOOPBACK}:0")
    try:
        yield llm, f"http://{LOOPBACK}:{server.port}/v1"
    finally:
        await server.stop()


async def stay(options: RunOptions) -> None:
    """Start everything and wait for Ctrl-C or SIGTERM."""
    console = Console()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as exits:
        url = options.llm_base_url
        if not url:
            _, url = await exits.enter_async_context(local_llm(options.directory))
        stack = await exits.enter_async_context(
            Stack(_stack_options(options, url), say=lambda what: console.print(f"[dim]==> {what}[/]"))
        )
        text = _TRY.format(
            url=stack.url,
            operator=stack.operator_url,
            llm=url if options.llm_base_url else "a stand-in that repeats what its context says",
            model="your-model" if options.llm_base_url else "stand-in",
            directory=options.directory,
        )
        console.print(text, highlight=False, soft_wrap=True)
        await stop.wait()
        console.print("[dim]==> stopping[/]")


def _stack_options(options: RunOptions, llm: str) -> StackOptions:
    return StackOptions(
        directory=options.directory,
        model_directory=options.model,
        llm=llm,
        llm_key=options.llm_key,
        port=options.port,
        admin_port=options.admin_port,
        ext_proc_port=options.ext_proc_port,
        api_port=options.api_port,
        operator_port=options.operator_port,
    )
