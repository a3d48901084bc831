"""What users say through either replica, and whole conversations that go on through both."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx

from semrouter_memory.stack.loopback import local_client

from .client import CHAT, RESPONSES
from .conftest import envoy_count
from .replicas import Pair, key_of

_NAMES = """
    Turin Lyon Osaka Quito Perth Accra Lagos Berlin Oslo Bergen Porto Sofia Riga Tampa
    Boston Denver Dallas Miami Cairo Tunis Dakar Nairobi Kampala Lusaka Harare Maputo Delhi Mumbai
    Dhaka Hanoi Manila Jakarta Seoul Kyoto Nagoya Sapporo Sydney Hobart Auckland Lima Bogota Caracas
    Havana Montreal Toronto Ottawa Calgary Seattle Portland Chicago Madrid Seville Bilbao Naples Milan Genoa
    Vienna Graz Prague Brno Warsaw Krakow Vilnius Tallinn Helsinki Malmo Aarhus Hamburg
"""
PLACES = _NAMES.split()
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Said:
    """A request that told something, and when it was under way.

    Attributes:
        word: the one in the statement that no other statement of this user has.
    """

    user: str
    text: str
    word: str
    replica: int
    streamed: bool
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which a replica's sidecar was not there.

    Attributes:
        open: streams between Envoy and the sidecar when it was killed: after its last byte an exchange's copies are still
            on their way.
    """

    replica: int
    began: float
    ended: float
    open: int

    def hit(self, said: Said) -> bool:
        """Whether this request was under way meanwhile."""
        return said.replica == self.replica and said.began <= self.ended and said.ended >= self.began

    def follows(self, said: Said) -> bool:
        """Whether this request was answered before."""
        return said.replica == self.replica and said.ended < self.began


@dataclass
class Talks:
    """Users who keep talking, each in several sessions at a time, until they are told to stop.

    Attributes:
        delay_ms: the LLM's, before an answer and between the pieces of a stream.
        said: every request that was answered; an answer that is not exactly the LLM's fails the conversation.
    """

    on: Pair
    users: Sequence[str]
    draw: random.Random
    pause_seconds: float = 1.2
    delay_ms: float = 0
    said: list[Said] = field(default_factory=list)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def go_on(self) -> None:
        """Until `stopping`, or every place is told of."""
        async with asyncio.TaskGroup() as group:
            for user in self.users:
                places = self.draw.sample(PLACES, len(PLACES))
                for number, talk in enumerate((self._chat, self._streamed_chat, self._chain)):
                    group.create_task(talk(user, f"{user}-{number}", iter(places[number::3])))

    async def _chat(self, user: str, session: str, places: Iterator[str]) -> None:
        """A session that a header names; each request stands alone."""
        while place := await self._next(places):
            messages = [{"role": "user", "content": told(place)}]
            await self._send(user, place, CHAT, {"messages": messages}, {"x-session-id": session})

    async def _streamed_chat(self, user: str, _session: str, places: Iterator[str]) -> None:
        """A session that its own transcript names."""
        messages: list[dict[str, str]] = [{"role": "user", "content": f"Hello, {user} here, talk {next(_numbers)}"}]
        messages.append({"role": "assistant", "content": "Noted."})
        while place := await self._next(places):
            messages.append({"role": "user", "content": told(place)})
            await self._send(user, place, CHAT, {"messages": messages, "stream": True}, {})
            messages.append({"role": "assistant", "content": "Noted."})

    async def _chain(self, user: str, _session: str, places: Iterator[str]) -> None:
        """A stored chain, streamed or not."""
        before: dict[str, str] = {}
        while place := await self._next(places):
            body = {"input": told(place), "stream": self.draw.random() < 0.5, **before}
            before = {"previous_response_id": await self._send(user, place, RESPONSES, body, {})}

    async def _next(self, places: Iterator[str]) -> str:
        await asyncio.sleep(self.draw.uniform(0, 2 * self.pause_seconds))
        return "" if self.stopping.is_set() else next(places, "")

    async def _send(self, user: str, place: str, path: str, body: dict[str, Any], headers: dict[str, str]) -> str:
        replica, response_id = self.draw.randrange(len(self.on.replicas)), f"answer-{next(_numbers)}"
        headers = {"x-stand-in": json.dumps({"response_id": response_id, "delay_ms": self.delay_ms}), **headers}
        body = {"model": "m", **body}
        began = time.monotonic()
        async with self.on.replicas[replica].http(key_of(user), headers=headers) as http:
            answer = await http.post(path, json=body)
        streamed = bool(body.get("stream"))
        self.said.append(Said(user, told(place), place, replica, streamed, began, time.monotonic()))
        assert answer.status_code == httpx.codes.OK, (answer.status_code, answer.text)
        assert answer.content == await self._sent_by_llm(path, headers)
        return response_id

    async def _sent_by_llm(self, path: str, headers: dict[str, str]) -> bytes:
        """What the LLM answers to what it got when nothing stands between it and the client."""
        how = headers["x-stand-in"]
        got = next(each for each in reversed(self.on.llm.requests) if each.headers.get("x-stand-in") == how)
        url = self.on.replicas[0].stack._options.llm.removesuffix("/v1") + path
        at_once = json.dumps({**json.loads(how), "delay_ms": 0})
        async with local_client(headers={**headers, "x-stand-in": at_once}, timeout=30) as http:
            return (await http.post(url, content=got.body)).content


async def say(on: Pair, number: int, user: str, text: str, **headers: str) -> str:
    """Tell something through that replica, in a request of its own; returns the whole answer as it was sent."""
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    async with on.replicas[number].http(key_of(user), headers=headers) as http:
        return (await http.post(CHAT, json=body)).raise_for_status().text


def told(place: str) -> str:
    return f"My office in {place} has {30 + PLACES.index(place)} desks"


async def killed_at_random(on: Pair, kills: int, draw: random.Random) -> list[Outage]:
    """Kill one replica or the other, again and again, and start it again a little later."""
    outages = []
    for _ in range(kills):
        await asyncio.sleep(draw.uniform(0.2, 1.5))
        replica = draw.randrange(len(on.replicas))
        outages.append(await restarted(on, replica, after_seconds=draw.uniform(0, 0.5)))
    return outages


async def restarted(on: Pair, replica: int, *, after_seconds: float = 0.0) -> Outage:
    """Kill it, and start it again a little later."""
    began = time.monotonic()
    streams = await envoy_count(on.replicas[replica], "cluster.memory_sidecar.upstream_rq_active")
    await on.kill(replica)
    await asyncio.sleep(after_seconds)
    await on.start(replica)
    return Outage(replica, began, time.monotonic(), streams)


async def nothing_lost_nothing_twice(talks: Talks, outages: Sequence[Outage]) -> None:
    """What must hold when all of it is over and settled."""
    cut_off = Counter[Outage | None]()
    for user in talks.users:
        mine = [said for said in talks.said if said.user == user]
        accepted = [turn["user_text"] for turn in await talks.on.turns(user)]
        assert len(accepted) == len(set(accepted)), "a turn was accepted twice"
        assert set(accepted) <= {said.text for said in mine}
        for lost in (said for said in mine if said.text not in accepted):
            if not any(outage.hit(lost) for outage in outages):
                cut_off[next((outage for outage in outages if outage.follows(lost)), None)] += 1
        replicas = range(len(talks.on.replicas))
        listed = [await talks.on.memories(user, number=number, include="history") for number in replicas]
        contents = [memory["content"] for memory in listed[0]]
        for other in listed[1:]:
            assert sorted(contents) == sorted(memory["content"] for memory in other)
        remembered = {said.word: [each for each in contents if said.word in each] for said in mine}
        for said in mine:
            assert len(remembered[said.word]) == (said.text in accepted), remembered[said.word]
        assert len(contents) == len(accepted)
        assert all(memory["superseded_at"] is None for memory in listed[0])
    for outage, turns in cut_off.items():
        assert turns <= (outage.open if outage else 0), "a turn was lost without a kill"
