"""Sidecars, each behind an Envoy of its own, that share what they know; and what an operator sees of them."""

import asyncio
import signal
import sqlite3
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from semrouter_memory.stack.envoy import StackOptions
from semrouter_memory.stack.loopback import local_client
from semrouter_memory.stack.stack import Stack
from tests.milvus_server import MilvusServer
from tests.redis_server import RedisServer
from tests.stand_in import MisbehavingLlm, misbehaving_llm

from .conftest import UNHURRIED, Installation, all_streams_ended, eventually, patient

OPERATOR = "operator-token"
LEASE_SECONDS = 3
REDIS_TIMEOUT_SECONDS = 2.5
SETTLED_SECONDS = 60
_PARTS = ("extracted", "empty", "dead_lettered", "deleted", "waiting")
_PAGE = 200
_SHOWN_CHARS = 6_000
"""Of the end of each sidecar's log, where turns do not settle."""


def key_of(user: str) -> str:
    """The API key that Envoy knows a user of these tests by."""
    return f"key-of-{user}"


def settings(milvus: MilvusServer, **memory: Any) -> dict[str, Any]:
    """Short times, so that tests of outages are short."""
    retain = {"tick_seconds": 0.2, "lease_seconds": LEASE_SECONDS, "retry_seconds": 0.2, "retry_max_seconds": 1}
    return {
        "memory": {
            "milvus": {"uri": milvus.uri, "collection": f"c{uuid.uuid4().hex}", "reconnect_seconds": 0.3},
            "retain": retain,
            "recall": UNHURRIED,
            **memory,
        }
    }


def on_redis(server: RedisServer, *, prefix: str = "replicas") -> dict[str, Any]:
    timeout_ms = int(1000 * REDIS_TIMEOUT_SECONDS)
    times = {"timeout_ms": timeout_ms, "retry_seconds": 0.1, "lock_seconds": 3}
    return {"redis": {"url": server.url, "prefix": prefix, **times}}


@dataclass(frozen=True, slots=True)
class Pair:
    """All replicas: two, unless a test wants another number.

    Attributes:
        directories: those of their data.
        collection: Milvus's.
    """

    replicas: tuple[Installation, ...]
    directories: tuple[Path, ...]
    collection: str

    @property
    def llm(self) -> MisbehavingLlm:
        return self.replicas[0].llm

    async def kill(self, number: int) -> None:
        await self.replicas[number].stack.sidecar.stop(kill=True)

    async def start(self, number: int) -> None:
        await self.replicas[number].stack.start_sidecar()

    async def all_running(self) -> None:
        """Start whatever an earlier test left dead, and let go on what it left stopped."""
        for number, replica in enumerate(self.replicas):
            replica.stack.sidecar.send(signal.SIGCONT)
            if not replica.stack.sidecar.running:
                await self.start(number)

    @asynccontextmanager
    async def operator(self, number: int) -> AsyncIterator[httpx.AsyncClient]:
        headers = {"authorization": f"Bearer {OPERATOR}"}
        url = self.replicas[number].stack.operator_url
        async with local_client(base_url=url, headers=headers, timeout=60) as http:
            yield http

    async def totals(self, number: int) -> dict[str, int]:
        async with self.operator(number) as http:
            answer = (await http.get("/v1/turns/totals")).raise_for_status().json()
        return {name: answer[name] for name in ("accepted", *_PARTS)}

    async def settled(self) -> dict[str, int]:
        """The totals when nothing is on its way or waits any more, anywhere; they must add up, and be what the files accepted.

        A client has its answer before the observer has its copy: until then no count knows of the turn.
        """
        for replica in self.replicas:
            await all_streams_ended(replica, seconds=SETTLED_SECONDS)
        deadline = time.monotonic() + SETTLED_SECONDS
        all_of_them = [{"waiting": 1}]
        while True:
            one, *others = all_of_them
            same = all(other == one for other in others)
            if same and one["waiting"] == 0 and one["accepted"] == self.accepted_here():
                break
            assert time.monotonic() < deadline, f"{all_of_them}, {self.accepted_here()} accepted\n" + "\n".join(
                replica.stack.sidecar.log.read_text()[-_SHOWN_CHARS:] for replica in self.replicas
            )
            await asyncio.sleep(0.2)
            with suppress(httpx.HTTPStatusError):  # what it needs was away a moment ago
                all_of_them = [await self.totals(number) for number in range(len(self.replicas))]
        assert one["accepted"] == sum(one[part] for part in _PARTS)
        return one

    def accepted_here(self) -> int:
        """How many turns the local files have ever accepted, by their own count and not by the totals."""
        return sum(accepted_in(directory) for directory in self.directories)

    async def turns(self, user: str | None = None) -> list[dict[str, Any]]:
        """All turns of the log, with their texts, oldest first."""
        async with self.operator(len(self.replicas) - 1) as http:
            found: list[dict[str, Any]] = []
            before = 0
            while True:
                asked = {"limit": _PAGE, "before": before} | ({"user_id": user} if user else {})
                page = (await http.get("/v1/turns", params=asked)).raise_for_status().json()
                answers = [await http.get(f"/v1/turns/{turn['id']}") for turn in page["data"]]
                found += [answer.raise_for_status().json() for answer in answers]
                if page["next_before"] is None:
                    return found[::-1]
                before = page["next_before"]

    async def memories(self, user: str, *, number: int = 0, **asked: str) -> list[dict[str, Any]]:
        """All of a user's memories, as one of the replicas lists them."""
        found: list[dict[str, Any]] = []
        cursor = ""
        async with self.replicas[number].http(key_of(user)) as http:
            while True:
                page = await http.get("/v1/memory", params={"limit": 100, "cursor": cursor, **asked})
                page.raise_for_status()
                found += page.json()["data"]
                if not (cursor := page.json()["next_cursor"] or ""):
                    return found

    async def compact(self) -> None:
        """At the same time: each waits for seconds until what has arrived leaves its spool."""

        async def one(number: int) -> None:
            async with self.operator(number) as http:
                (await http.post("/v1/compact")).raise_for_status()

        await asyncio.gather(*(one(number) for number in range(len(self.replicas))))

    async def remembers(self, user: str, text: str, *, number: int = 0) -> None:
        async def found() -> bool:
            # Whether it is slow for a moment is no matter: until it is found, the store is asked again.
            with suppress(httpx.HTTPStatusError):
                return any(text in memory["content"] for memory in await self.memories(user, number=number))
            return False

        await eventually(found, f"nothing remembered of {text!r}", seconds=SETTLED_SECONDS)


@asynccontextmanager
async def pair(
    directory: Path,
    model: Path,
    *,
    users: Sequence[str],
    config: dict[str, Any],
    count: int = 2,
    shipped_timeouts: bool = False,
    edit_envoy: Callable[[dict[str, Any]], None] | None = None,
) -> AsyncIterator[Pair]:
    """Replicas with the same settings, started one after the other.

    Args:
        users: who may come, beside alice and bob.
        shipped_timeouts, edit_envoy: as in `installed`, of each Envoy.
    """
    data = [directory / f"replica-{number}" / "data" for number in range(count)]
    environment = {"SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN": OPERATOR}

    def with_users(envoy: dict[str, Any]) -> None:
        manager = envoy["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
        credentials = manager["http_filters"][0]["typed_config"]["credentials"]
        credentials += [{"key": key_of(user), "client": user} for user in users]
        if not shipped_timeouts:
            patient(envoy)
        if edit_envoy is not None:
            edit_envoy(envoy)

    async with AsyncExitStack() as exits:
        llm, url = await exits.enter_async_context(misbehaving_llm())
        stacks = [
            await exits.enter_async_context(
                Stack(
                    StackOptions(
                        directory=directory / f"replica-{number}",
                        model_directory=model,
                        llm=url,
                        environment=environment,
                        edit_envoy=with_users,
                        sidecar_config={**config, "memory": {**config["memory"], "data_dir": str(data[number])}},
                    )
                )
            )
            for number in range(count)
        ]
        collection = config["memory"].get("milvus", {}).get("collection", "")
        yield Pair(tuple(Installation(stack, llm) for stack in stacks), tuple(data), collection)


def accepted_in(directory: Path) -> int:
    """How many turns a data directory has ever accepted: in the log itself, or in the spool of what goes to Redis."""
    count = "SELECT accepted + coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'spool'), 0) FROM counters"
    with closing(sqlite3.connect(f"file:{directory / 'turns.db'}?mode=ro", uri=True)) as database:
        return int(database.execute(count).fetchone()[0])
