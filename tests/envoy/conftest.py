"""The real Envoy with the shipped YAML, the real sidecar, and a stand-in LLM in the test's process."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from semrouter_memory.stack.envoy import StackOptions
from semrouter_memory.stack.loopback import LOOPBACK, local_client
from semrouter_memory.stack.stack import Stack
from tests.stand_in import MisbehavingLlm, misbehaving_llm

ALICE, BOB = "demo-key-alice", "demo-key-bob"
OTHERS = [
    "User works as a translator",
    "User is allergic to penicillin",
    "User's sister is a surgeon",
    "User plays the cello",
    "User's car is a red Skoda",
    "User studied chemistry in Graz",
    "User's bicycle is a Brompton",
    "User's landlord is Mr Novak",
    "User reads detective novels",
    "User is learning Portuguese",
    "User's bank is Fjordbanken",
    "User wants to run a marathon in spring",
    "User's favourite colour is green",
    "User collects stamps",
]
"""Of few memories, recall shows more than of many."""
_WITHIN_SECONDS = 60
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.01, 0.1
"""What is to happen in the background is mostly a matter of milliseconds."""
UNHURRIED = {"deadline_ms": 4000, "forget_deadline_ms": 4000}
"""Of recall, unless a test says otherwise: what is not about time must not fail on a machine that is busy."""
_QUICK = {"memory": {"retain": {"tick_seconds": 0.1}}}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Installation:
    """A running stack, and what its LLM saw."""

    stack: Stack
    llm: MisbehavingLlm

    @property
    def url(self) -> str:
        return self.stack.url

    def sdk(self, key: str = ALICE, **options: Any) -> AsyncOpenAI:
        options.setdefault("http_client", local_client())
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, **options)

    def http(self, key: str = ALICE, **options: Any) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {key}", **options.pop("headers", {})}
        return local_client(base_url=self.url, headers=headers, timeout=30, **options)

    async def memories(self, key: str = ALICE) -> list[str]:
        """The contents of the user's memories."""
        async with self.http(key) as http:
            answer = (await http.get("/v1/memory", params={"limit": 100})).raise_for_status()
        return [memory["content"] for memory in answer.json()["data"]]

    async def remembers(self, text: str, key: str = ALICE) -> None:
        """Wait until a memory contains that text."""

        async def found() -> bool:
            # Whether it is slow for a moment is no matter: until it is found, the store is asked again.
            with suppress(httpx.HTTPStatusError):
                return any(text in content for content in await self.memories(key))
            return False

        await eventually(found, f"nothing remembered of {text!r}")

    async def forget_everything(self) -> None:
        for key, user in ((ALICE, "alice"), (BOB, "bob")):
            async with self.http(key) as http:
                (await http.delete("/v1/memory", params={"user_id": user})).raise_for_status()

    async def metric(self, name: str) -> float:
        """The sum of a metric over its labels; 0 when it has no sample yet."""
        async with local_client() as http:
            text = (await http.get(f"{self.stack.operator_url}/metrics")).text
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(name)]
        return sum(float(value) for sample, value in lines if sample == name or sample.startswith(name + "{"))

    async def turns(self, outcome: str = "") -> float:
        """How many turns ended so, once nothing is on its way; all of them when no outcome is given.

        A client has its answer before the observer has its copy: a count that is read at once may lack a turn. The stream
        of a client that went away stays open for a minute, and is not waited for.
        """
        with suppress(AssertionError):
            await all_streams_ended(self, seconds=10)
        return await self.metric("semrouter_memory_turns_total" + (f'{{outcome="{outcome}"}}' if outcome else ""))


async def envoy_count(on: Installation, name: str) -> int:
    """One of Envoy's own numbers."""
    async with local_client() as http:
        text = (await http.get(f"http://{LOOPBACK}:{on.stack.admin_port}/stats", params={"filter": f"^{name}$"})).text
    return int(text.rsplit(":", 1)[1]) if text.strip() else 0


async def streams_open(on: Installation) -> int:
    """Streams between Envoy and the sidecar, and requests of clients, as Envoy counts them."""
    names = ("cluster.memory_sidecar.upstream_rq_active", "http.llm.downstream_rq_active")
    return sum([await envoy_count(on, name) for name in names])


async def all_streams_ended(on: Installation, *, seconds: float = 15) -> float:
    """Wait until nothing is open between Envoy, its clients and the sidecar; returns how long that took."""
    began = time.monotonic()

    async def none() -> bool:
        return await streams_open(on) == 0

    await eventually(none, "streams stay open", seconds=seconds)
    return time.monotonic() - began


async def eventually(holds: Callable[[], Awaitable[bool]], otherwise: str, *, seconds: float = _WITHIN_SECONDS) -> None:
    """Wait for something that happens in the background."""
    deadline, pause = time.monotonic() + seconds, _FIRST_PAUSE_SECONDS
    while not await holds():
        assert time.monotonic() < deadline, otherwise
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)


def patient(config: dict[str, Any]) -> None:
    """A change to Envoy's configuration: the sidecar has more time for a message than any of these tests takes."""
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    for each in manager["http_filters"]:
        if "message_timeout" in each["typed_config"]:
            each["typed_config"]["message_timeout"] = "10s"


@asynccontextmanager
async def installed(
    directory: Path,
    model: Path,
    *,
    shipped_timeouts: bool = False,
    edit_envoy: Callable[[dict[str, Any]], None] | None = None,
    **options: Any,
) -> AsyncIterator[Installation]:
    """An installation of one's own.

    Args:
        shipped_timeouts: Envoy gives up a sidecar that takes longer for a message than the shipped chains allow. Otherwise
            it waits: what is not about time must not fail on a machine that is busy.
        edit_envoy: a further change to Envoy's configuration.
        options: those of `StackOptions`.
    """

    def edit(config: dict[str, Any]) -> None:
        if not shipped_timeouts:
            patient(config)
        if edit_envoy is not None:
            edit_envoy(config)

    async with misbehaving_llm() as (llm, url):
        config = _unhurried(options.pop("sidecar_config", _QUICK))
        settings = {"llm": url, "edit_envoy": edit, **options}
        async with Stack(
            StackOptions(directory=directory, model_directory=model, sidecar_config=config, **settings)
        ) as stack:
            yield Installation(stack, llm)


def _unhurried(config: dict[str, Any]) -> dict[str, Any]:
    memory = config.get("memory", {})
    return config | {"memory": memory | {"recall": UNHURRIED | memory.get("recall", {})}}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    """The default chain, shared by all tests that do not break it."""
    async with installed(tmp_path_factory.mktemp("two-filter"), model_directory) as installation:
        yield installation


@pytest_asyncio.fixture(loop_scope="session")
async def two_filter(shared: Installation) -> Installation:
    """The default chain, with nothing remembered."""
    await shared.forget_everything()
    return shared
