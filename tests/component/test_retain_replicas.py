"""Two replicas on one Redis: every turn is extracted once, every session is summed up once, whoever does it."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from semrouter_memory.config import RetainConfig
from semrouter_memory.databases.redis_connection import RedisConnection
from semrouter_memory.model import Criteria, MemoryType, SessionHints, SessionKey, ToolUse, Turn, TurnTotals
from semrouter_memory.retain.failures import RetainParts
from semrouter_memory.retain.pipeline import Retainer
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter
from semrouter_memory.state.local import InProcessOwnerLocks
from semrouter_memory.turn_log.redis_log import RedisTurnLog
from tests.hashed import HashedEmbedder
from tests.memory_service import backends_of
from tests.redis_server import RedisServer
from tests.retaining import ALICE, BreakableStore, Collecting, SteppingClock

pytestmark = pytest.mark.usefixtures("patient")

SESSIONS, TURNS = 4, 3
WORDS = ("budget for the Hawaii trip", "favourite colour", "dog", "office", "bike", "tea", "piano", "garden")


class Replica:
    """One process's part; the store and the owners' lock are shared."""

    def __init__(
        self, log: RedisTurnLog, store: BreakableStore, clock: SteppingClock, writer: ReconcilingWriter
    ) -> None:
        self.log = log
        self.woken: list[SessionKey] = []
        self.retainer = Retainer(
            RetainParts(
                backends=backends_of(
                    store=store, embedder=HashedEmbedder(), turn_log=log, locks=None, clock=clock, observer=Collecting()
                ),
                writer=writer,
                chat_model=None,
                config=RetainConfig(),
                batch_size=10,
            ),
            wake=self.woken.append,
            monotonic=clock.monotonic,
        )

    async def look(self) -> None:
        await self.retainer.tick()
        while self.woken:
            await self.retainer.process(self.woken.pop(0))


def _raise(error: BaseException) -> None:
    raise AssertionError from error


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def store() -> BreakableStore:
    return BreakableStore()


@pytest.fixture
async def replicas(
    redis_server: RedisServer, tmp_path: Path, clock: SteppingClock, store: BreakableStore
) -> AsyncIterator[list[Replica]]:
    prefix, locks = uuid.uuid4().hex, InProcessOwnerLocks()
    async with AsyncExitStack() as stack:
        made = []
        for name in ("one", "two"):
            connection = RedisConnection(redis_server.config())
            stack.push_async_callback(connection.aclose)
            log = RedisTurnLog(
                tmp_path / name / "turns.db",
                connection,
                prefix=prefix,
                clock=clock,
                forwarded=lambda scope, session_id: None,
                on_error=_raise,
                config=RetainConfig(max_turn_chars=1000),
            )
            stack.push_async_callback(log.stop)
            await log.pending()
            writer = ReconcilingWriter(
                backends_of(store=store, embedder=HashedEmbedder(), turn_log=log, locks=locks, clock=clock)
            )
            made.append(Replica(log, store, clock, writer))
        yield made


async def test_each_turn_is_extracted_and_each_session_summed_up_once(
    replicas: list[Replica], clock: SteppingClock, store: BreakableStore
) -> None:
    for number in range(SESSIONS * TURNS):
        clock.step(seconds=1)
        session = f"s{number % SESSIONS}"
        turn = Turn(
            scope=ALICE,
            hints=SessionHints(explicit=session),
            user_texts=(f"My {WORDS[number % len(WORDS)]} is called Name{number}",),
            assistant_text="Noted.",
            tools=(ToolUse("note", "ok"),),
            observed_at=clock.now(),
            request_id=f"r{number}",
            ends_session=number >= SESSIONS * (TURNS - 1),
        )
        replica = replicas[number % 2]
        assert replica.retainer.intake.accept(turn) is not None
        await replica.log.forward()
    for _ in range(6):
        await asyncio.gather(*(replica.look() for replica in replicas))
        clock.step(seconds=1)
    assert await replicas[0].log.totals() == TurnTotals(accepted=12, extracted=12)
    memories = (await store.page(Criteria(ALICE, active_at=clock.now()), limit=100)).memories
    told = [memory for memory in memories if memory.type is MemoryType.EPISODIC]
    assert len(told) == len({memory.session_id for memory in told}) == SESSIONS
    assert [await replica.log.pending() for replica in replicas] == [[], []]


async def test_a_replica_that_dies_while_it_holds_a_session_is_taken_over(
    replicas: list[Replica], clock: SteppingClock, store: BreakableStore
) -> None:
    dying, living = replicas
    turn = Turn(
        scope=ALICE,
        hints=SessionHints(explicit="s"),
        user_texts=("My budget for the Hawaii trip is $10,000",),
        assistant_text="Noted.",
        tools=(ToolUse("note", "ok"),),
        observed_at=clock.now(),
        request_id="r",
        ends_session=True,
    )
    dying.retainer.intake.accept(turn)
    await dying.log.forward()
    (session,) = await dying.log.pending()
    assert await dying.log.claim(ALICE, session.session_id, lease=timedelta(seconds=120), context=0) is not None
    await living.look()
    assert (await living.log.totals()).waiting == 1
    clock.step(seconds=121)
    for _ in range(2):
        await living.look()
    assert await living.log.totals() == TurnTotals(accepted=1, extracted=1)
    kinds = {memory.type for memory in (await store.page(Criteria(ALICE, active_at=clock.now()), limit=10)).memories}
    assert kinds == {MemoryType.SEMANTIC, MemoryType.EPISODIC}
    assert await living.log.pending() == []
