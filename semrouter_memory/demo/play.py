"""The scripted conversation of `semrouter-memory demo`: told in one session, asked for in another.

Every expectation is checked against what the model was really sent and what it really answered.
"""

import asyncio
import os
import shutil
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from openai import AsyncOpenAI
from rich.console import Console
from rich.markup import escape

from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.stack.envoy import StackOptions
from semrouter_memory.stack.llm import StandInLlm, served
from semrouter_memory.stack.loopback import chosen_ports, local_client
from semrouter_memory.stack.stack import LOCK, Stack, locked, steps

ALICE, BOB = "demo-key-alice", "demo-key-bob"
_MODEL = "stand-in"
_STORED_WITHIN_SECONDS = 10
_POLL_SECONDS = 0.1
_DEADLINE_MS = 500
"""Of recall, ten times the default: a demo is played once, often while a build or a browser runs, and says how long memory took."""
_MADE = frozenset({"data", "envoy.log", "envoy.yaml", "sidecar.log", "sidecar.yaml"})
"""What an installation without an operator leaves in its directory."""

TOLD = (
    "Hi! My budget for the Hawaii trip is $10,000. Any first thoughts?",
    "Before we look at restaurants: I'm allergic to peanuts.",
    "To deploy the payment-service: run npm build, then docker push, then restart the pod.",
)


@dataclass(frozen=True, slots=True)
class DemoQuestion:
    """Something asked in a new session, and what must be in the answer."""

    text: str
    expected: str
    how: str


ASKED = (
    DemoQuestion("What's my budget for the trip?", "$10,000", "chat completions"),
    DemoQuestion("Is there any food I'm allergic to?", "peanuts", "chat completions, streamed"),
    DemoQuestion("What are the steps to deploy the payment-service?", "docker push", "Responses API"),
)

_RECALL_SUM = "semrouter_memory_recall_seconds_sum "


class Demo:
    """One run. `failures` collects what did not come out as it should."""

    def __init__(self, stack: Stack, llm: StandInLlm, console: Console) -> None:
        self._stack = stack
        self._llm = llm
        self._console = console
        self.failures: list[str] = []

    async def run(self) -> None:
        self._title("Session 1, Alice tells")
        for text in TOLD:
            answer = await self._chat(ALICE, text)
            self._line("alice", text)
            self._line("model", answer)
        await self._show_stored()
        self._title("Session 2, Alice asks, in a new conversation and other words")
        for question in ASKED:
            await self._ask(ALICE, question)
        self._title("Bob asks the same")
        for question in ASKED:
            await self._ask(BOB, question, unless="bob was given memories of somebody else")
        await self._forget(ASKED[0])

    async def _show_stored(self) -> None:
        self._title("What was stored")
        started = time.monotonic()
        memories: list[dict[str, Any]] = []
        while len(memories) < len(TOLD) and time.monotonic() - started < _STORED_WITHIN_SECONDS:
            await asyncio.sleep(_POLL_SECONDS)
            memories = await self._memories()
        for memory in memories:
            self._console.print(
                f"  [green]{memory['type']:<10}[/] {escape(memory['content'])}", highlight=False, soft_wrap=True
            )
        seconds = time.monotonic() - started
        self._console.print(f"  [dim]stored {seconds:.1f} s after the last answer at the latest, without any LLM[/]")
        for question in ASKED:
            if not any(question.expected in memory["content"] for memory in memories):
                self.failures.append(f"{question.expected!r} was not stored")

    async def _ask(self, key: str, question: DemoQuestion, *, unless: str = "") -> None:
        """Ask, and expect an answer from memory; `unless` is what is wrong when memory has one that it must not have."""
        before = await self._recall_seconds()
        ways = {"chat completions": self._chat, "chat completions, streamed": self._chat_streamed}
        answer = await ways.get(question.how, self._respond)(key, question.text)
        block = self._injected()
        spent = (await self._recall_seconds() - before) * 1000
        self._line("alice" if key == ALICE else "bob", f"{question.text}  [{question.how}]")
        for line in block.splitlines():
            self._console.print(f"    [cyan]+ {escape(line)}[/]", highlight=False, soft_wrap=True)
        self._line("model", answer)
        self._console.print(f"    [dim]memory took {spent:.1f} ms[/]", highlight=False)
        if not unless and question.expected not in answer:
            self.failures.append(f"{question.text!r} ({question.how}) was answered without {question.expected!r}")
        # Bob has no memories at all.
        if unless and (question.expected in answer or question.expected in block or (key == BOB and block)):
            self.failures.append(f"{question.text!r} ({question.how}): {unless}")

    async def _forget(self, question: DemoQuestion) -> None:
        self._title("Alice has one memory forgotten and asks again")
        memory = next((m for m in await self._memories() if question.expected in m["content"]), None)
        if memory is None:
            return  # that it is missing was said above
        async with self._api() as api:
            answer = await api.delete(f"/v1/memory/{memory['id']}")
        self._console.print(f"  DELETE /v1/memory/{memory['id']} -> {answer.status_code}", highlight=False)
        await self._ask(ALICE, question, unless=f"{question.expected!r} was still known after it was forgotten")

    # -- the three ways to ask, with the plain SDK ---------------------------------------------------------------------

    def _client(self, key: str) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self._stack.url}/v1", api_key=key, max_retries=0)

    async def _chat(self, key: str, text: str) -> str:
        async with self._client(key) as client:
            answer = await client.chat.completions.create(model=_MODEL, messages=[{"role": "user", "content": text}])
        return answer.choices[0].message.content or ""

    async def _chat_streamed(self, key: str, text: str) -> str:
        async with self._client(key) as client:
            stream = await client.chat.completions.create(
                model=_MODEL, messages=[{"role": "user", "content": text}], stream=True
            )
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def _respond(self, key: str, text: str) -> str:
        async with self._client(key) as client:
            return (await client.responses.create(model=_MODEL, input=text)).output_text

    # -- looking behind the scenes -------------------------------------------------------------------------------------

    def _api(self) -> httpx.AsyncClient:
        return local_client(base_url=self._stack.url, headers={"authorization": f"Bearer {ALICE}"})

    async def _memories(self) -> list[dict[str, Any]]:
        async with self._api() as api:
            answer = await api.get("/v1/memory")
        found: list[dict[str, Any]] = answer.raise_for_status().json()["data"]
        return found

    def _injected(self) -> str:
        """The block in the request that the model was sent last, "" when there was none."""
        body = self._llm.last.json
        text = str(body.get("instructions") or "") + "".join(str(m.get("content")) for m in body.get("messages") or [])
        start, end = text.find(BLOCK_OPEN), text.find(BLOCK_CLOSE)
        return text[start + len(BLOCK_OPEN) : end].strip() if 0 <= start < end else ""

    async def _recall_seconds(self) -> float:
        async with local_client() as client:
            text = (await client.get(f"{self._stack.operator_url}/metrics")).text
        return next((float(line.split()[1]) for line in text.splitlines() if line.startswith(_RECALL_SUM)), 0.0)

    def _title(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/]")

    def _line(self, who: str, text: str) -> None:
        self._console.print(f"  [yellow]{who:>5}[/]  {escape(text)}", highlight=False, soft_wrap=True)


async def play(*, model: Path, port: int, directory: Path) -> bool:
    """Play the whole conversation on fresh data; True when every expectation held."""
    console = Console()
    if os.environ.get("LLM_BASE_URL"):
        console.print("[dim]the demo has a stand-in LLM; LLM_BASE_URL is for `make run`[/]")
    ports = chosen_ports(port, ["port"])
    with locked(directory):
        _clear(directory)
        async with AsyncExitStack() as exits:
            llm = StandInLlm()
            with steps(console) as say:
                url = await exits.enter_async_context(served(llm))
                options = StackOptions(
                    directory=directory,
                    model_directory=model,
                    llm=url,
                    ports=ports,
                    sidecar_config={"memory": {"recall": {"deadline_ms": _DEADLINE_MS}}},
                )
                stack = await exits.enter_async_context(Stack(options, say))
            demo = Demo(stack, llm, console)
            await demo.run()
    for failure in demo.failures:
        console.print(f"[bold red]FAILED[/] {escape(failure)}")
    if not demo.failures:
        console.print("\n[bold green]Everything came out as expected.[/] Try it by hand: make run")
    return not demo.failures


def _clear(directory: Path) -> None:
    """Remove what an earlier demo left, and nothing else."""
    entries = [path for path in directory.iterdir() if path.name != LOCK]
    foreign = next((path.name for path in entries if path.name not in _MADE), None)
    if foreign is not None:
        raise ConfigurationError(
            f"{directory} holds {foreign}, which no demo made; choose another directory with --directory"
        )
    for path in entries:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
