"""When upkeep does what: access counts every few seconds, owners that changed soon after, sweeps, compactions.

Strategy: everything here is repeated, so whatever fails is left for the next time and told once in the report. What
fails for one owner only, because of what is stored for them, keeps nobody else from their turn. Replicas
share one pace through the state store; where two sweep at once, the owners' locks keep them apart.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from semrouter_memory.config import AgeingConfig
from semrouter_memory.errors import EmbeddingError, MemoryServiceError, StateStoreError, StoreUnavailableError
from semrouter_memory.events import StoreFailed, UpkeepFinished, WorkFailed
from semrouter_memory.model import Scope, UpkeepReport
from semrouter_memory.ports import Clock, MemoryReader, MemoryWriter, Observer, StateStore, TurnLog
from semrouter_memory.resilience import Cooldown
from semrouter_memory.upkeep.consolidate import Consolidator
from semrouter_memory.upkeep.leaving import has_quota
from semrouter_memory.upkeep.ledger import AWAY, Ledger
from semrouter_memory.upkeep.sweep import NOBODY, Sweeper
from semrouter_memory.upkeep.usage import UsageCounter

TICK_SECONDS = 2.0
"""How soon after a write an owner's quota is enforced."""
MAX_CHANGED = 10_000
"""Owners that wait to be looked at; others wait for the sweep."""
_FIRST = timedelta(minutes=1)
"""After the start, and after a failure: a process that is restarted every hour sweeps too."""
_FIRST_COMPACTION = timedelta(minutes=10)
"""The same for the files; a start has other things to do."""
_SWEPT = "upkeep.swept"
"""When the last sweep of any replica began."""
_SKEW = timedelta(minutes=1)
"""Replicas' clocks differ."""


class Upkeep:
    """Keeps memories in order in the background: `start`, then `stop`.

    Args:
        consolidator: None: memories are not merged.
    """

    def __init__(
        self,
        *,
        sweeper: Sweeper,
        consolidator: Consolidator | None,
        usage: UsageCounter,
        reader: MemoryReader,
        writer: MemoryWriter,
        turn_log: TurnLog,
        state: StateStore,
        observer: Observer,
        clock: Clock,
        config: AgeingConfig,
    ) -> None:
        self._sweeper = sweeper
        self._consolidator = consolidator
        self._usage = usage
        self._reader = reader
        self._state = state
        self._observer = observer
        self._clock = clock
        self._config = config
        self._changed: dict[str, None] = {}
        self._consolidated: set[str] = set()
        self._sweep_cooldown = Cooldown.of(min(self._sweep_every, _FIRST), self._clock.now())
        self._compaction_cooldown = Cooldown.of(min(self._compact_every, _FIRST_COMPACTION), self._clock.now())
        self._parts: tuple[MemoryWriter | TurnLog | StateStore, ...] = (turn_log, state, writer)
        self._uncompacted: tuple[MemoryWriter | TurnLog | StateStore, ...] = self._parts
        self._tasks: list[asyncio.Task[None]] = []

    # -- driving -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to tick and to flush."""
        every = (
            ("upkeep of changed owners", TICK_SECONDS, self.look_after_changed),
            ("upkeep of all", TICK_SECONDS, self.do_what_is_due),
            ("access counts", self._config.usage_seconds, self.flush),
        )
        self._tasks = [asyncio.create_task(self._repeat(seconds, work), name=name) for name, seconds, work in every]

    async def stop(self) -> None:
        """Stop, and write the access counts that wait. What was being deleted is deleted again by the next sweep."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self.flush()

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - one failed look must not be the last
                self._observer.observe(WorkFailed(error))

    # -- what is done --------------------------------------------------------------------------------------------------

    def changed(self, scope: Scope) -> None:
        """Something was written for this owner: look at them soon. Quick, never raises."""
        wanted = has_quota(self._config) or self._consolidator is not None
        if wanted and len(self._changed) < MAX_CHANGED:
            self._changed[scope.user_id] = None

    async def flush(self) -> None:
        """Write the access counts; those that cannot be written wait."""
        with suppress(*AWAY):
            await self._usage.flush()

    async def do_what_is_due(self) -> None:
        """Sweep and compact, each in its time. A store that is away is not swept."""
        now = self._clock.now()
        if self._reader.available and not self._sweep_cooldown.active(now) and not await self._swept_elsewhere(now):
            await self.sweep()
        if self._config.compact_hours and not self._compaction_cooldown.active(now):
            await self._compact(self._uncompacted)

    async def sweep(self) -> UpkeepReport:
        """Sweep and consolidate now, and report it."""
        ledger = Ledger()
        await self.flush()
        self._consolidated.clear()
        for scope in await self._sweeper.sweep(ledger):
            if not await self._consolidate(scope, ledger):
                break
        self._tell(ledger.bugs)
        return await self._finish_sweep(ledger.report())

    async def report(self) -> UpkeepReport:
        """What a sweep would delete now; deletes nothing. For the operator."""
        await self.flush()
        return await self._sweeper.report()

    async def compact(self) -> bool:
        """Take what was deleted out of the files of every part now; returns whether all of them could."""
        return await self._compact(self._parts)

    async def _compact(self, parts: Sequence[MemoryWriter | TurnLog | StateStore]) -> bool:
        failed = []
        for part in parts:
            try:
                await part.compact()
            except MemoryServiceError as error:
                failed.append(part)
                self._observer.observe(StoreFailed("compact", error))
        # Those that could are not bothered again for one that could not.
        self._uncompacted = tuple(failed) or self._parts
        pause = min(self._compact_every, _FIRST_COMPACTION) if failed else self._compact_every
        self._compaction_cooldown = Cooldown.of(pause, self._clock.now())
        return not failed

    # -- owners that changed -------------------------------------------------------------------------------------------

    async def look_after_changed(self) -> None:
        """Enforce the quotas of owners for whom something was written, and merge what they have too much of."""
        if not self._changed or not self._reader.available:
            return
        changed, self._changed = self._changed, {}
        ledger = Ledger()
        for user_id in list(changed):
            del changed[user_id]
            try:
                await self._look_after(Scope(user_id), ledger)
            except AWAY as error:
                ledger.failed(error)
                # Again later, this one last: it must not keep others from their turn.
                self._changed = {**changed, **self._changed, user_id: None}
                break
            except Exception as error:  # noqa: BLE001 - one owner's data must not keep upkeep from the others
                ledger.bugs.append(error)
        self._tell(ledger.bugs)
        report = ledger.report()
        if report.deleted or report.summaries or report.failures:
            self._observer.observe(UpkeepFinished(report))

    async def _look_after(self, scope: Scope, ledger: Ledger) -> None:
        if self._consolidator is not None and scope.user_id not in self._consolidated:
            await self._consolidate(scope, ledger)
        if has_quota(self._config):
            await self._sweeper.enforce(scope, ledger)

    async def _consolidate(self, scope: Scope, ledger: Ledger) -> bool:
        """Consolidate an owner once between two sweeps; returns whether it makes sense to go on with others."""
        if self._consolidator is None:
            return False
        try:
            if await self._consolidator.consolidate(scope, ledger):
                self._consolidated.add(scope.user_id)
        except (*AWAY, EmbeddingError) as error:
            ledger.failed(error)
            return not isinstance(error, StoreUnavailableError)
        except Exception as error:  # noqa: BLE001 - same; their quota is enforced all the same
            ledger.bugs.append(error)
            # Until the next sweep, which would meet the same again.
            self._consolidated.add(scope.user_id)
        return True

    def _tell(self, bugs: Sequence[BaseException]) -> None:
        for bug in bugs:
            self._observer.observe(WorkFailed(bug))

    # -- pace ----------------------------------------------------------------------------------------------------------

    @property
    def _sweep_every(self) -> timedelta:
        return timedelta(seconds=self._config.sweep_seconds)

    @property
    def _compact_every(self) -> timedelta:
        return timedelta(hours=self._config.compact_hours)

    async def _swept_elsewhere(self, now: datetime) -> bool:
        """Whether another replica, or this one before a restart, swept within the pause between sweeps."""
        try:
            swept = (await self._state.get(NOBODY, [_SWEPT])).get(_SWEPT)
            if swept is not None and not _is_ahead(swept, now):
                self._sweep_cooldown = Cooldown.of(min(self._sweep_every, _FIRST), now)
                return True
            await self._state.put(NOBODY, _SWEPT, now.isoformat().encode(), ttl=self._sweep_every)
        except StateStoreError:
            # Then each replica keeps its own pace.
            return False
        return False

    async def _finish_sweep(self, report: UpkeepReport) -> UpkeepReport:
        pause = min(self._sweep_every, _FIRST) if report.failures else self._sweep_every
        self._sweep_cooldown = Cooldown.of(pause, self._clock.now())
        if "store" in report.failures:
            with suppress(StateStoreError):
                await self._state.drop(NOBODY, [_SWEPT])
        self._observer.observe(UpkeepFinished(report))
        return report


def _is_ahead(moment: bytes, now: datetime) -> bool:
    """Whether it was noted before the clock was set back, so that nobody knows how long ago it was."""
    try:
        return datetime.fromisoformat(moment.decode()) > now + _SKEW
    except ValueError:
        return False
