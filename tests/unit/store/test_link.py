"""One connection that comes back by itself."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from semrouter_memory.errors import SchemaMismatchError, StoreUnavailableError
from semrouter_memory.store import link as module
from semrouter_memory.store.link import PATIENCE, Link
from tests.store_observer import StoreObserver

AWAY = StoreUnavailableError("nobody answers")


class Wire:
    """A connection whose probe answers, fails or hangs, as it is told."""

    def __init__(self) -> None:
        self.error: StoreUnavailableError | None = None
        self.hangs = False
        self.probes = 0
        self.closed = 0

    async def probe(self) -> None:
        self.probes += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error:
            raise self.error

    async def close(self) -> None:
        self.closed += 1
        if self.error:
            raise self.error


class Exchange:
    """Connects as long as nothing is in the way, and keeps what it gave out."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.attempts = 0
        self.wires: list[Wire] = []

    async def connect(self) -> Wire:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        self.wires.append(Wire())
        return self.wires[-1]


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


@pytest.fixture
def observer() -> StoreObserver:
    return StoreObserver()


@pytest.fixture
async def link(
    exchange: Exchange, observer: StoreObserver, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Link[Wire]]:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.02)
    opened = Link(exchange.connect, pause_seconds=0.001, observer=observer.port())
    yield opened
    await opened.close()


async def settled(link: Link[Wire], *, up: bool) -> None:
    async with asyncio.timeout(2):
        while link.is_up is not up:  # noqa: ASYNC110 - the link has no event to wait for
            await asyncio.sleep(0.001)


async def test_it_is_up_after_the_first_attempt(link: Link[Wire], exchange: Exchange, observer: StoreObserver) -> None:
    await link.start()
    assert link.connection() is exchange.wires[0]
    assert observer.states == [(True, "connected")]


async def test_it_goes_on_trying_and_says_so_once(
    link: Link[Wire], exchange: Exchange, observer: StoreObserver
) -> None:
    exchange.errors = [AWAY] * 5
    await link.start()
    with pytest.raises(StoreUnavailableError):
        link.connection()
    await settled(link, up=True)
    assert exchange.attempts == 6
    assert observer.states == [(False, "nobody answers"), (True, "connected")]


async def test_a_contradiction_at_start_is_raised(link: Link[Wire], exchange: Exchange) -> None:
    exchange.errors = [SchemaMismatchError("another embedding")]
    with pytest.raises(SchemaMismatchError):
        await link.start()


async def test_a_contradiction_found_later_is_told_and_may_be_cured(
    link: Link[Wire], exchange: Exchange, observer: StoreObserver
) -> None:
    """It keeps the store away, but nobody has to restart us once the server is right again."""
    await link.start()
    exchange.errors = [SchemaMismatchError("another embedding")] * 3
    link.lost(exchange.wires[0], "gone")
    await settled(link, up=True)
    assert observer.states[1:] == [(False, "gone"), (False, "another embedding"), (True, "connected")]


async def test_a_lost_connection_is_given_up_at_once_and_closed(
    link: Link[Wire], exchange: Exchange, observer: StoreObserver
) -> None:
    await link.start()
    link.lost(exchange.wires[0], "gone")
    assert not link.is_up
    await settled(link, up=True)
    assert link.connection() is exchange.wires[1]
    assert (exchange.wires[0].closed, exchange.wires[0].probes) == (1, 0)
    assert observer.states == [(True, "connected"), (False, "gone"), (True, "connected")]


async def test_late_news_of_an_earlier_connection_do_not_harm_the_current_one(
    link: Link[Wire], exchange: Exchange
) -> None:
    await link.start()
    link.lost(exchange.wires[0], "gone")
    await settled(link, up=True)
    link.lost(exchange.wires[0], "gone")
    link.doubt(exchange.wires[0])
    await asyncio.sleep(0.01)
    assert link.connection() is exchange.wires[1]
    assert exchange.wires[1].probes == 0


async def test_a_connection_that_answers_our_own_question_is_kept(link: Link[Wire], exchange: Exchange) -> None:
    await link.start()
    link.doubt(exchange.wires[0])
    await asyncio.sleep(0.01)
    assert exchange.wires[0].probes == 1
    assert link.connection() is exchange.wires[0]


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_connection_that_does_not_is_replaced(link: Link[Wire], exchange: Exchange, *, hangs: bool) -> None:
    """Also when it cannot even be closed."""
    await link.start()
    exchange.wires[0].hangs = hangs
    exchange.wires[0].error = AWAY
    link.doubt(exchange.wires[0])
    async with asyncio.timeout(2):
        while len(exchange.wires) == 1:  # noqa: ASYNC110 - the link has no event to wait for
            await asyncio.sleep(0.001)
    assert exchange.wires[0].closed == 1
    assert link.connection() is exchange.wires[1]


async def test_it_takes_several_unanswered_calls_in_a_row_to_doubt(link: Link[Wire], exchange: Exchange) -> None:
    """A client that goes away cancels its call, too; one answer starts the count anew."""
    await link.start()
    for _ in range(PATIENCE - 1):
        link.unanswered(exchange.wires[0])
    link.answered()
    for _ in range(PATIENCE - 1):
        link.unanswered(exchange.wires[0])
    await asyncio.sleep(0.01)
    assert exchange.wires[0].probes == 0
    link.unanswered(exchange.wires[0])
    await asyncio.sleep(0.01)
    assert exchange.wires[0].probes == 1


async def test_a_closed_link_has_no_connection_and_no_task(link: Link[Wire], exchange: Exchange) -> None:
    await link.start()
    await link.close()
    await link.close()
    assert exchange.wires[0].closed == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(StoreUnavailableError):
        link.connection()


async def test_closing_ends_the_attempts(link: Link[Wire], exchange: Exchange) -> None:
    exchange.errors = [AWAY] * 1_000
    await link.start()
    await link.close()
    attempts = exchange.attempts
    await asyncio.sleep(0.01)
    assert exchange.attempts == attempts
