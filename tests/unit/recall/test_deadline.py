"""A request's deadline, and what may still run when it has passed."""

import asyncio

import pytest

from semrouter_memory.config import RecallConfig
from semrouter_memory.recall.deadline import Deadline


async def waits(deadline: Deadline) -> None:
    with deadline.embedding_queue():
        await asyncio.sleep(0)


async def is_late(deadline: Deadline) -> None:
    async with deadline:
        try:
            await asyncio.sleep(10)
        finally:
            await asyncio.create_task(waits(deadline))


async def test_a_wait_that_begins_when_the_deadline_has_passed_does_not_turn_the_timeout_into_an_error() -> None:
    with pytest.raises(TimeoutError):
        await is_late(Deadline(RecallConfig(deadline_ms=1)))
