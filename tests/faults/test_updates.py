"""The store's process is killed while rows are updated, alone or together with the sidecar: no row is lost or undone."""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from tests.envoy.conftest import eventually
from tests.envoy.replicas import Pair, key_of, pair
from tests.envoy.talk import PLACES, say

from .conftest import Figures, sized
from .parts import PATIENT, children, killed_between_delete_and_insert

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(sized(180, 900))]

KILLS = sized(2, 30)
EDITORS = [f"editor-{number}" for number in range(sized(4, 6))]
ROWS = 10
TALKERS = [f"talker-{number}" for number in range(sized(2, 6))]
BACK_SECONDS = 60


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def on(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Pair]:
    retain = {"tick_seconds": 0.2, "retry_seconds": 0.2, "retry_max_seconds": 1, "lease_seconds": 3}
    config = {"memory": {**PATIENT, "milvus": {"reconnect_seconds": 0.1}, "retain": retain}}
    directory = tmp_path_factory.mktemp("updates")
    async with pair(directory, model_directory, users=[*EDITORS, *TALKERS], config=config, count=1) as one:
        yield one


@dataclass
class Updates:
    """Users who edit their memories, and users who move again and again, until they are told to stop.

    Attributes:
        sent: of each memory the last version that a request carried.
        answered: the last one that was confirmed.
        homes: where each talker said to live, in this order.
    """

    on: Pair
    draw: random.Random
    sent: dict[tuple[str, str], int] = field(default_factory=dict)
    answered: dict[tuple[str, str], int] = field(default_factory=dict)
    edits: int = 0
    homes: dict[str, list[str]] = field(default_factory=dict)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def prepare(self) -> None:
        for user in EDITORS:
            async with self.on.replicas[0].http(key_of(user)) as http:
                (await http.delete("/v1/memory", params={"user_id": user})).raise_for_status()
                for number in range(ROWS):
                    body = {"content": _content(number, 0)}
                    made = (await http.post("/v1/memory", json=body)).raise_for_status().json()
                    self.sent[user, made["id"]] = self.answered[user, made["id"]] = 0
        self.homes = {user: await self._homes_of(user) for user in TALKERS}

    async def go_on(self) -> None:
        async with asyncio.TaskGroup() as group:
            for user in EDITORS:
                group.create_task(self._edit(user))
            for user in TALKERS:
                group.create_task(self._move(user))

    async def _edit(self, user: str) -> None:
        mine = [key for key in self.sent if key[0] == user]
        async with self.on.replicas[0].http(key_of(user)) as http:
            while not self.stopping.is_set():
                key = self.draw.choice(mine)
                self.sent[key] += 1
                body = {"content": _content(mine.index(key), self.sent[key])}
                try:
                    answer = await http.patch(f"/v1/memory/{key[1]}", json=body)
                except httpx.RemoteProtocolError:
                    continue  # killed between the headers and the body of its answer
                if answer.is_success:
                    self.answered[key] = self.sent[key]
                    self.edits += 1
                else:
                    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, (answer.status_code, answer.text)
                    await asyncio.sleep(0.05)

    async def _move(self, user: str) -> None:
        places = [place for place in PLACES if place not in self.homes[user]]
        while places and not self.stopping.is_set():
            place = places.pop(0)
            await say(self.on, 0, user, f"I live in {place}", **{"x-session-id": f"{user}-moves"})
            await asyncio.sleep(self.draw.uniform(0.1, 0.3))

    async def _homes_of(self, user: str) -> list[str]:
        return [turn["user_text"].rsplit(" ", 1)[1] for turn in await self.on.turns(user)]

    async def lost(self) -> dict[str, int]:
        """Every row, history included, beside what was confirmed."""
        rows = {user: await self.on.memories(user, include="history") for user in (*EDITORS, *TALKERS)}
        there = {(user, row["id"]): int(row["content"].rsplit(" ", 1)[1]) for user in EDITORS for row in rows[user]}
        assert there.keys() <= self.sent.keys()
        assert all(version <= self.sent[key] for key, version in there.items())
        lost = {
            "rows_lost": len(self.sent.keys() - there.keys()),
            "edits_lost": sum(version < self.answered[key] for key, version in there.items()),
            "facts_told": 0,
            "facts_lost": 0,
            "facts_twice": 0,
        }
        for user in TALKERS:
            told = await self._homes_of(user)
            kept = [place for place in told for row in rows[user] if row["content"].endswith(f" {place}")]
            assert len(kept) == len(rows[user])
            lost["facts_told"] += len(told)
            lost["facts_lost"] += len(set(told) - set(kept))
            lost["facts_twice"] += len(kept) - len(set(kept))
            current = [row["content"].rsplit(" ", 1)[1] for row in rows[user] if row["superseded_at"] is None]
            assert current == told[-1:]
        return lost


async def test_the_store_is_killed_in_updates(on: Pair, figures: Figures) -> None:
    def kill() -> None:
        (store,) = children(on.replicas[0].stack.sidecar.pid)
        os.kill(store, signal.SIGKILL)

    async def again() -> None:
        """The sidecar does that."""

    await killed_in_updates(on, kill, again, figures)


async def test_sidecar_and_store_are_killed_together_in_updates(on: Pair, figures: Figures) -> None:
    """As a container dies: all its processes at once."""

    def kill() -> None:
        os.killpg(on.replicas[0].stack.sidecar.pid, signal.SIGKILL)

    async def again() -> None:
        await on.kill(0)
        await on.start(0)

    await killed_in_updates(on, kill, again, figures)


async def killed_in_updates(
    on: Pair, kill: Callable[[], None], again: Callable[[], Awaitable[None]], figures: Figures
) -> None:
    draw = random.Random(23)
    updates = Updates(on, draw)
    await updates.prepare()
    async with asyncio.TaskGroup() as group:
        group.create_task(updates.go_on())
        for _ in range(KILLS):
            before = updates.edits
            await eventually(partial(_edited, updates, before), "no update succeeds", seconds=BACK_SECONDS)
            await asyncio.to_thread(killed_between_delete_and_insert, on.directories[0] / "milvus.db", kill)
            await again()
        updates.stopping.set()
    await eventually(partial(_answers, on), "the store did not come back", seconds=BACK_SECONDS)
    await on.settled()
    lost = await updates.lost()
    figures(kills=KILLS, rows=len(updates.sent), edits=updates.edits, **lost)
    assert updates.edits > KILLS
    assert lost["facts_told"] > KILLS
    assert {name: count for name, count in lost.items() if name != "facts_told" and count} == {}


async def _edited(updates: Updates, before: int) -> bool:
    return updates.edits > before + len(EDITORS)


async def _answers(on: Pair) -> bool:
    async with on.replicas[0].http(key_of(EDITORS[0])) as http:
        return (await http.get("/v1/memory")).is_success


def _content(number: int, version: int) -> str:
    return f"The label on crate {number} says revision {version}"
