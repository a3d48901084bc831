"""Takes turns from the spool to Redis, in order, in the background.

Strategy. One loop: what is spooled is sent in small batches, each turn in its own transaction. While Redis is unavailable the
loop waits for it (the connection looks again with growing pauses) and holds no turns in memory.

Redis answers before what it was told is safe on its disk (`appendfsync everysec`). So a turn stays in the spool for
`KEPT_SECONDS` after its arrival, and is deleted when Redis still has the number that came with it; a Redis that died in
between and came back without it is sent it again.

A turn that cannot be taken in for another reason is postponed behind the others and tried again with growing pauses, so
that one bad turn holds up no other.
"""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from semrouter_memory.errors import MemoryServiceError, TurnLogError, UnavailableError
from semrouter_memory.model import Appended, AppendOutcome, Scope
from semrouter_memory.resilience import Backoff
from semrouter_memory.turn_log.redis.connection import RedisConnection, reported_as
from semrouter_memory.turn_log.redis.keys import Keys
from semrouter_memory.turn_log.sqlite.spool import Spool, SpooledTurn

KEPT_SECONDS = 5.0
"""Redis writes and syncs within two seconds, even when its disk is busy."""

_BATCH = 32
_BACKOFF = Backoff(first=0.05, longest=30.0, spread=0.5)


@dataclass(frozen=True, slots=True)
class _Arrived:
    """What was shipped and is still in the spool: up to that key, the last number of that run."""

    key: int
    run: str
    number: int
    kept_until: float


class Forwarder:
    """Ships one spool.

    Args:
        take: takes a turn in, once (see `RedisTurnLog`).
        shipped: told of each turn that has arrived and waits: whose it is, and its session.
        on_error: told of errors that are bugs, not outages.
    """

    def __init__(
        self,
        spool: Spool,
        connection: RedisConnection,
        keys: Keys,
        take: Callable[[SpooledTurn], Awaitable[Appended | None]],
        *,
        shipped: Callable[[Scope, str], object],
        on_error: Callable[[BaseException], object],
        kept_seconds: float = KEPT_SECONDS,
    ) -> None:
        self._spool = spool
        self._connection = connection
        self._keys = keys
        self._take = take
        self._shipped = shipped
        self._on_error = on_error
        self._kept_seconds = kept_seconds
        self._spooled = asyncio.Event()
        self._spooled.set()
        self._one_at_a_time = asyncio.Lock()
        self._shipped_to = 0
        self._shipped_beside = connection.disturbances
        self._kept: deque[_Arrived] = deque()
        self._postponed: set[int] = set()
        self._try_again_at = 0.0
        self._retries = 0
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="turn-forwarder")

    def wake(self) -> None:
        """Something was spooled."""
        self._spooled.set()

    @property
    def pausing(self) -> asyncio.Lock:
        """While this is held, nothing is on its way."""
        return self._one_at_a_time

    async def ship(self, *, all_of_it: bool = True) -> list[Appended]:
        """Ship all that is spooled now; what became of it, in order.

        Args:
            all_of_it: what was postponed too.

        Raises:
            TurnLogError: Redis is unavailable; what had not arrived stays in the spool.
        """
        appended: list[Appended] = []
        async with self._one_at_a_time:
            if all_of_it:
                self._postponed.clear()
            if self._shipped_beside != self._connection.disturbances:
                self._send_again()
            while turns := await self._spool.first(_BATCH + len(self._postponed), after=self._shipped_to):
                if all(self._is_postponed(turn) for turn in turns):
                    break
                appended += await self._ship_batch(turns)
                # Here too: traffic that comes as fast as it is shipped never lets this loop end.
                await self._remove_due()
        return appended

    def _is_postponed(self, turn: SpooledTurn) -> bool:
        return turn.run == self._spool.run and turn.number in self._postponed

    async def settle(self) -> None:
        """Return when nothing is in the spool any more of what was spooled before now: what has arrived stays in it a while.

        Raises:
            TurnLogError, UnavailableError: Redis is unavailable.
        """
        await self.ship()
        through = self._shipped_to
        while (first := await self._spool.first(1, after=0)) and first[0].key <= through:
            if self._kept:
                await asyncio.sleep(self._kept[0].kept_until - asyncio.get_running_loop().time())
            await self.ship()
            await self._remove_arrived()

    async def stop(self, seconds: float) -> None:
        """End the loop, then ship what can be shipped within that time."""
        # A cancellation that comes with the end of a call to Redis may be lost in it: the loop ends by itself then.
        self._stopping = True
        self._spooled.set()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._connection.available:
            with suppress(MemoryServiceError, TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.ship()

    # -- shipping ------------------------------------------------------------------------------------------------------

    async def _ship_batch(self, turns: list[SpooledTurn]) -> list[Appended]:
        appended: list[Appended] = []
        for turn in turns:
            if self._is_postponed(turn):
                await self._requeue(turn)
                continue
            try:
                with reported_as(TurnLogError, "turn log: forwarding"):
                    outcome = await self._take(turn)
            except MemoryServiceError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a turn does to us, the others go on
                await self._requeue(turn)
                self._on_error(error)
                continue
            self._note(turn)
            if outcome is not None:
                appended.append(outcome)
                await self._tell(turn, outcome)
        return appended

    async def _requeue(self, turn: SpooledTurn) -> None:
        """Set it aside, behind the others: what stands before a turn that has arrived is deleted with it."""
        if self._is_postponed(turn):
            self._postponed.remove(turn.number)
        self._postponed.add(await self._spool.requeue(turn))

    async def _tell(self, turn: SpooledTurn, appended: Appended) -> None:
        match appended.outcome:
            case AppendOutcome.ACCEPTED:
                self._shipped(turn.scope, appended.session_id)
            case AppendOutcome.FORGOTTEN:
                # Not after a while, as the others: somebody wants it gone.
                await self._spool.redact(turn)

    def _note(self, turn: SpooledTurn) -> None:
        self._shipped_to = turn.key
        # One entry for the turns of a second, which stays for that much longer.
        kept_until = asyncio.get_running_loop().time() + self._kept_seconds + 1
        if self._kept and self._kept[-1].run == turn.run and self._kept[-1].kept_until > kept_until - 1:
            kept_until = self._kept.pop().kept_until
        self._kept.append(_Arrived(turn.key, turn.run, turn.number, kept_until))

    # -- what has arrived ----------------------------------------------------------------------------------------------

    def _send_again(self) -> None:
        """From the beginning of the spool. Redis knows what it has, and takes nothing twice."""
        self._shipped_to = 0
        self._kept.clear()
        self._shipped_beside = self._connection.disturbances

    async def _remove_arrived(self) -> None:
        async with self._one_at_a_time:
            await self._remove_due()

    async def _remove_due(self) -> None:
        """Delete the turns whose time in the spool is over, if Redis has them still."""
        now = asyncio.get_running_loop().time()
        due = [each for each in self._kept if each.kept_until <= now]
        if not due:
            return
        try:
            known = await self._connection.execute_all(("GET", self._keys.spool(each.run)) for each in due)
        except UnavailableError:
            self._send_again()
            raise
        if all(int(number or 0) >= each.number for each, number in zip(due, known, strict=True)):
            await self._spool.remove(due[-1].key)
            # Not before: what could not be removed is due again.
            for _ in due:
                self._kept.popleft()
        else:
            self._send_again()
            self._spooled.set()

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        failures = 0
        while not self._stopping:
            await self._wait_for_work()
            await self._connection.wait()
            self._spooled.clear()
            try:
                await self._ship_what_is_due()
                await self._remove_arrived()
            except MemoryServiceError:
                pass
            except Exception as error:  # noqa: BLE001 - the loop is the only way from the spool to Redis
                self._on_error(error)
            else:
                failures = 0
                continue
            self._spooled.set()
            await asyncio.sleep(_pause(failures))
            failures += 1

    async def _ship_what_is_due(self) -> None:
        """What was spooled, and when their pause is over the turns that are postponed."""
        now = asyncio.get_running_loop().time()
        is_over = now >= self._try_again_at
        await self.ship(all_of_it=is_over)
        if not self._postponed:
            self._retries = 0
        elif is_over:
            self._try_again_at = now + _pause(self._retries)
            self._retries += 1

    async def _wait_for_work(self) -> None:
        """Until something was spooled, the time in the spool of what has arrived is over, or a pause is over."""
        moments = [self._kept[0].kept_until] if self._kept else []
        if self._postponed:
            moments.append(self._try_again_at)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(moments, default=None)):
                await self._spooled.wait()


def _pause(failures: int) -> float:
    return _BACKOFF.delay(failures, random.random())  # noqa: S311 - no secret
