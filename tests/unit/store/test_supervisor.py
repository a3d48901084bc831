"""One connection that is reopened by itself."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from semrouter_memory.errors import ConfigurationError, StoreUnavailableError
from semrouter_memory.resilience import Backoff
from semrouter_memory.store import supervisor as module
from semrouter_memory.store.supervisor import PATIENCE, ConnectionSupervisor
from tests.store_observer import StoreObserver

pytestmark = pytest.mark.usefixtures("stepped_time")

AT_ONCE = Backoff(first=0.001, longest=0.001)
AWAY = StoreUnavailableError("nobody answers")


class Wire:
    """A connection whose probe answers, fails or hangs, as it is told."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.hangs = False
        self.swallows_cancellation = False
        self.probes = 0
        self.closed = 0

    async def probe(self) -> None:
        self.probes += 1
        if self.hangs:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not self.swallows_cancellation:
                    raise
                self.swallows_cancellation = False
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


async def _nothing_to_settle(_wire: Wire) -> bool:
    return True


@pytest.fixture
def exchange() -> Exchange:
    return Exchange()


@pytest.fixture
def observer() -> StoreObserver:
    return StoreObserver()


@pytest.fixture
async def supervisor(
    exchange: Exchange, observer: StoreObserver, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ConnectionSupervisor[Wire]]:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.02)
    opened = ConnectionSupervisor(exchange.connect, backoff=AT_ONCE, observer=observer, settle=_nothing_to_settle)
    yield opened
    await opened.close()


async def settled(supervisor: ConnectionSupervisor[Wire], *, up: bool) -> None:
    async with asyncio.timeout(2):
        while supervisor.is_up is not up:  # noqa: ASYNC110 - the supervisor has no event to wait for
            await asyncio.sleep(0.001)


async def test_it_is_up_after_the_first_attempt(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange, observer: StoreObserver
) -> None:
    await supervisor.start()
    assert supervisor.connection() is exchange.wires[0]
    assert observer.states == [(True, "connected")]


async def test_it_goes_on_trying_and_says_so_once(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange, observer: StoreObserver
) -> None:
    exchange.errors = [AWAY] * 5
    await supervisor.start()
    with pytest.raises(StoreUnavailableError):
        supervisor.connection()
    await settled(supervisor, up=True)
    assert exchange.attempts == 6
    assert observer.states == [(False, "nobody answers"), (True, "connected")]


async def test_the_pauses_between_attempts_grow(exchange: Exchange, observer: StoreObserver) -> None:
    failures: list[int] = []

    class Counting(Backoff):
        def delay(self, failures_before: int, jitter: float) -> float:
            failures.append(failures_before)
            return 0.0 * jitter

    backoff = Counting(first=1, longest=9)
    supervisor = ConnectionSupervisor(exchange.connect, backoff=backoff, observer=observer, settle=_nothing_to_settle)
    exchange.errors = [AWAY] * 5
    await supervisor.start()
    await settled(supervisor, up=True)
    assert failures == [0, 1, 2, 3]
    await supervisor.close()


async def test_it_ends_also_when_a_probe_swallows_the_cancellation(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PROBE_SECONDS", 60)
    await supervisor.start()
    (wire,) = exchange.wires
    wire.hangs = wire.swallows_cancellation = True
    supervisor.mark_suspect(wire)
    while not wire.probes:  # noqa: ASYNC110 - same as in `settled`
        await asyncio.sleep(0)
    async with asyncio.timeout(2):
        await supervisor.close()


async def test_a_contradiction_at_start_is_raised(supervisor: ConnectionSupervisor[Wire], exchange: Exchange) -> None:
    exchange.errors = [ConfigurationError("another embedding")]
    with pytest.raises(ConfigurationError):
        await supervisor.start()


async def test_a_contradiction_found_later_is_told_and_may_be_cured(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange, observer: StoreObserver
) -> None:
    """It keeps the store away, but nobody has to restart us once the server is right again."""
    await supervisor.start()
    exchange.errors = [ConfigurationError("another embedding")] * 3
    supervisor.mark_down(exchange.wires[0], "gone")
    await settled(supervisor, up=True)
    assert observer.states[1:] == [(False, "gone"), (False, "another embedding"), (True, "connected")]


async def test_a_lost_connection_is_given_up_at_once_and_closed(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange, observer: StoreObserver
) -> None:
    await supervisor.start()
    supervisor.mark_down(exchange.wires[0], "gone")
    assert not supervisor.is_up
    await settled(supervisor, up=True)
    assert supervisor.connection() is exchange.wires[1]
    assert (exchange.wires[0].closed, exchange.wires[0].probes) == (1, 0)
    assert observer.states == [(True, "connected"), (False, "gone"), (True, "connected")]


async def test_late_news_of_an_earlier_connection_do_not_harm_the_current_one(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange
) -> None:
    await supervisor.start()
    supervisor.mark_down(exchange.wires[0], "gone")
    await settled(supervisor, up=True)
    supervisor.mark_down(exchange.wires[0], "gone")
    supervisor.mark_suspect(exchange.wires[0])
    await asyncio.sleep(0.01)
    assert supervisor.connection() is exchange.wires[1]
    assert exchange.wires[1].probes == 0


async def test_a_connection_that_answers_our_own_question_is_kept(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange
) -> None:
    await supervisor.start()
    supervisor.mark_suspect(exchange.wires[0])
    await asyncio.sleep(0.01)
    assert exchange.wires[0].probes == 1
    assert supervisor.connection() is exchange.wires[0]


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_connection_that_does_not_is_replaced(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange, *, hangs: bool
) -> None:
    """Also when it cannot even be closed."""
    await supervisor.start()
    exchange.wires[0].hangs = hangs
    exchange.wires[0].error = AWAY
    supervisor.mark_suspect(exchange.wires[0])
    async with asyncio.timeout(2):
        while len(exchange.wires) == 1:  # noqa: ASYNC110 - the supervisor has no event to wait for
            await asyncio.sleep(0.001)
    assert exchange.wires[0].closed == 1
    assert supervisor.connection() is exchange.wires[1]


async def test_an_error_that_is_not_ours_does_not_end_the_supervision(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange, observer: StoreObserver
) -> None:
    """No process can be started for a moment, say: the next attempt connects. What the error quotes is not reported."""
    await supervisor.start()
    exchange.wires[0].error = ValueError("User's secret")
    exchange.errors = [OSError("too many open files"), RuntimeError("User's secret")]
    supervisor.mark_suspect(exchange.wires[0])
    async with asyncio.timeout(2):
        while len(exchange.wires) == 1:  # noqa: ASYNC110 - the supervisor has no event to wait for
            await asyncio.sleep(0.001)
    await settled(supervisor, up=True)
    assert supervisor.connection() is exchange.wires[1]
    assert exchange.wires[0].closed == 1
    assert [detail for available, detail in observer.states if not available] == [
        "unexpected ValueError",
        "unexpected OSError",
        "unexpected RuntimeError",
    ]


async def test_it_takes_several_unanswered_calls_in_a_row_to_doubt(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange
) -> None:
    """A client that goes away cancels its call, too; one answer starts the count anew."""
    await supervisor.start()
    for _ in range(PATIENCE - 1):
        supervisor.unanswered(exchange.wires[0])
    supervisor.answered()
    for _ in range(PATIENCE - 1):
        supervisor.unanswered(exchange.wires[0])
    await asyncio.sleep(0.01)
    assert exchange.wires[0].probes == 0
    supervisor.unanswered(exchange.wires[0])
    await asyncio.sleep(0.01)
    assert exchange.wires[0].probes == 1


async def test_a_closed_link_has_no_connection_and_no_task(
    supervisor: ConnectionSupervisor[Wire], exchange: Exchange
) -> None:
    await supervisor.start()
    await supervisor.close()
    await supervisor.close()
    assert exchange.wires[0].closed == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(StoreUnavailableError):
        supervisor.connection()


async def test_closing_ends_the_attempts(supervisor: ConnectionSupervisor[Wire], exchange: Exchange) -> None:
    exchange.errors = [AWAY] * 1_000
    await supervisor.start()
    await supervisor.close()
    attempts = exchange.attempts
    await asyncio.sleep(0.01)
    assert exchange.attempts == attempts


# -- what failed calls left half done ----------------------------------------------------------------------------------


class Settling:
    """Settles, or fails to, as it is told; keeps how often it was asked, and whether the supervisor was up meanwhile."""

    def __init__(self) -> None:
        self.outcomes: list[bool | StoreUnavailableError] = []
        self.up: list[bool] = []
        self.supervisor: ConnectionSupervisor[Wire] | None = None

    async def __call__(self, _wire: Wire) -> bool:
        assert self.supervisor is not None
        self.up.append(self.supervisor.is_up)
        outcome = self.outcomes.pop(0) if self.outcomes else True
        if isinstance(outcome, StoreUnavailableError):
            raise outcome
        return outcome


@pytest.fixture
async def settling(
    exchange: Exchange, observer: StoreObserver, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Settling]:
    monkeypatch.setattr(module, "UNSETTLED_SECONDS", 0.01)
    settling = Settling()
    settling.supervisor = ConnectionSupervisor(exchange.connect, backoff=AT_ONCE, observer=observer, settle=settling)
    yield settling
    await settling.supervisor.close()


async def asked(settling: Settling, times: int) -> None:
    async with asyncio.timeout(2):
        while len(settling.up) < times:  # noqa: ASYNC110 - the supervisor has no event to wait for
            await asyncio.sleep(0.001)


async def test_a_connection_is_given_out_when_all_is_settled(settling: Settling, exchange: Exchange) -> None:
    """One on which that is impossible is closed, and another one is tried."""
    settling.outcomes = [AWAY, True]
    supervisor = settling.supervisor
    assert supervisor is not None
    await supervisor.start()
    assert not supervisor.is_up
    await settled(supervisor, up=True)
    assert settling.up == [False, False]
    assert [wire.closed for wire in exchange.wires] == [1, 0]


async def test_after_a_doubt_it_is_settled_again(settling: Settling, exchange: Exchange) -> None:
    """Callers go on meanwhile, for the connection answers; when it does not serve, it is replaced."""
    supervisor = settling.supervisor
    assert supervisor is not None
    await supervisor.start()
    supervisor.mark_suspect(supervisor.connection())
    await asked(settling, 2)
    settling.outcomes = [AWAY]
    supervisor.mark_suspect(supervisor.connection())
    await asked(settling, 4)
    await settled(supervisor, up=True)
    assert settling.up[:4] == [False, True, True, False]
    assert len(exchange.wires) == 2


async def test_what_cannot_be_settled_yet_is_tried_later_and_keeps_nobody_waiting(settling: Settling) -> None:
    settling.outcomes = [False, False, True]
    supervisor = settling.supervisor
    assert supervisor is not None
    await supervisor.start()
    assert supervisor.is_up
    await asked(settling, 3)
    await asyncio.sleep(0.05)
    assert settling.up == [False, True, True]
