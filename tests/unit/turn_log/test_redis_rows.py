"""What a process knows of deletions in Redis while it reads and deletes at once."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import cast

import pytest

from semrouter_memory.databases.redis_connection import RedisConnection
from semrouter_memory.errors import Service, UnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.turn_log.client_values import Digests
from semrouter_memory.turn_log.redis_rows import Keys, RedisRows
from semrouter_memory.turn_log.tombstones import TombstoneChange


class SlowRedis:
    """Its first answer is of before what happens while it is on its way; then it is away."""

    def __init__(self, answer: list[object]) -> None:
        self.answer = answer
        self.asked, self.arrives = asyncio.Event(), asyncio.Event()

    def script(self, source: str) -> str:
        return source

    def within(self, seconds: float) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)

    async def run(self, *_: object) -> list[object]:
        if self.asked.is_set():
            raise UnavailableError("away", service=Service.TURN_LOG)
        self.asked.set()
        await self.arrives.wait()
        return self.answer


@pytest.mark.parametrize("answer", [[], [b"1", [b"v", b"1", b"older", b"5"]]])
async def test_an_answer_of_before_a_deletion_does_not_replace_it(answer: list[object]) -> None:
    redis = SlowRedis(answer)
    rows = RedisRows(
        cast(RedisConnection, redis), Keys("test"), Digests(b"key"), deleted=lambda _: None, keep=timedelta(days=1)
    )
    scope = Scope("alice")
    owner = rows.digests.owner(scope)
    reading = asyncio.create_task(rows.tombstones(owner))
    await redis.asked.wait()
    rows.deleted_here(TombstoneChange(owner, {b"deleted": 7}))
    redis.arrives.set()
    await reading
    assert (await rows.tombstones_at_once(scope)).fields == {b"deleted": 7}
