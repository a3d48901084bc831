"""When maintenance runs: the recall journal every second, changed owners soon after, sweeps and compactions on schedule.

Strategy: every task is repeated, so a failure waits for the next run and is reported once. A failure caused by one owner's
data does not affect other owners. Replicas share one schedule through the state store; if two sweep at once, the owners'
locks separate them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from semrouter_memory.backends import Backends
from semrouter_memory.config import AgeingConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.errors import StoreUnavailableError, UnavailableError
from semrouter_memory.events import MaintenanceFinished, StoreFailed, WorkFailed
from semrouter_memory.maintenance.consolidate import Consolidator
from semrouter_memory.maintenance.eviction import has_quota
from semrouter_memory.maintenance.recall_journal import RecallJournal
from semrouter_memory.maintenance.reflect import InsightWriter
from semrouter_memory.maintenance.sweep import OWN_SCOPE, Sweeper, isolated, note_time, noted_time
from semrouter_memory.model import MaintenanceReport, Scope
from semrouter_memory.resilience import Cooldown, is_cancelled
from semrouter_memory.workers import BackgroundTasks

TICK_SECONDS = 2.0
"""Delay between a write and the check of the owner's quota."""
MAX_CHANGED = 10_000
"""Owners that wait for a check; others wait for the sweep."""
MAX_REFLECTED = 100
"""Users that a model is asked about in one sweep."""
_FIRST = timedelta(minutes=1)
"""Delay after the start and after a failure, so that a process that is restarted every hour sweeps too."""
_FIRST_COMPACTION = timedelta(minutes=10)
"""Same, of a compaction, which is more work."""
_SWEPT = "maintenance.swept"
"""Key of the time when the last sweep of any replica began."""
_SKEW = timedelta(minutes=1)
"""Replicas' clocks differ."""


class MaintenanceScheduler:
    """Runs maintenance in the background: `start`, then `stop`.

    Args:
        consolidator: None: memories are not merged.
        insights: None: no insights are written.
        finish_removals: of documents; done with each sweep. None: there are no documents.
    """

    def __init__(
        self,
        backends: Backends,
        *,
        sweeper: Sweeper,
        consolidator: Consolidator | None,
        journal: RecallJournal,
        deletion: DeletionService,
        config: AgeingConfig,
        insights: InsightWriter | None = None,
        finish_removals: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._reader, self._state = backends.store, backends.state
        self._observer, self._clock = backends.observer, backends.clock
        self._sweeper, self._consolidator, self._insights = sweeper, consolidator, insights
        self._journal, self._deletion, self._config = journal, deletion, config
        self._finish_removals = finish_removals
        self._changed: dict[str, None] = {}
        self._consolidated: set[str] = set()
        self._sweep_cooldown = Cooldown.of(min(self._sweep_every, _FIRST), self._clock.now())
        self._compaction_cooldown = Cooldown.of(min(self._compact_every, _FIRST_COMPACTION), self._clock.now())
        self._uncompacted: Collection[str] | None = None
        self._tasks = BackgroundTasks()

    # -- driving -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all tasks."""
        every = (
            ("maintenance of changed owners", TICK_SECONDS, self.maintain_changed),
            ("scheduled maintenance", TICK_SECONDS, self.run_due),
            ("recall journal", self._config.usage_seconds, self.flush),
        )
        for name, seconds, work in every:
            self._tasks.start(self._repeat(seconds, work), name=name)

    async def stop(self) -> None:
        """Stop, and write what the journal holds. The next sweep finishes an interrupted one."""
        await self._tasks.stop()
        await self.flush()

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while not is_cancelled():
            await asyncio.sleep(seconds)
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - the next repetition may succeed
                self._observer.observe(WorkFailed(error))

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def changed(self, scope: Scope) -> None:
        """Memories of this owner were written: check the owner soon. Quick, never raises."""
        wanted = has_quota(self._config) or self._consolidator is not None
        if wanted and len(self._changed) < MAX_CHANGED:
            self._changed[scope.owner] = None

    async def flush(self) -> None:
        """Write what the journal holds; what cannot be written waits."""
        with suppress(UnavailableError):
            await self._journal.flush()

    async def run_due(self) -> None:
        """Sweep and compact when each is due. An unavailable store is not swept."""
        now = self._clock.now()
        if self._reader.available and not self._sweep_cooldown.active(now) and not await self._swept_elsewhere(now):
            self._sweep_cooldown = Cooldown.of(min(self._sweep_every, _FIRST), now)
            await self.sweep()
        if self._config.compact_hours and not self._compaction_cooldown.active(now):
            await self._compact()

    async def sweep(self) -> MaintenanceReport:
        """Sweep, consolidate and reflect now, and report it."""
        started, report = time.perf_counter(), MaintenanceReport()
        await self.flush()
        self._consolidated.clear()
        owners = await self._sweeper.sweep(report)
        for scope, active in owners:
            if active >= self._config.consolidate_at and not await self._consolidate(scope, report):
                break
        await self._reflect(owners, report)
        if self._finish_removals is not None:
            await isolated(self._finish_removals(), report, self._observer)
        await self._plan_next(report)
        self._finished(report, started)
        return report

    async def _compact(self) -> None:
        # Before the work: one that ends in an unexpected error must not be repeated at once either.
        self._compaction_cooldown = Cooldown.of(min(self._compact_every, _FIRST_COMPACTION), self._clock.now())
        results = await self._deletion.compact(self._uncompacted)
        failed = [result for result in results if result.error is not None]
        for result in failed:
            assert result.error is not None
            self._observer.observe(StoreFailed("compact", result.error))
        # Parts that succeeded are not compacted again because another one failed.
        self._uncompacted = [result.part for result in failed] or None
        if not failed:
            self._compaction_cooldown = Cooldown.of(self._compact_every, self._clock.now())

    # -- owners that changed -------------------------------------------------------------------------------------------

    async def maintain_changed(self) -> None:
        """Enforce the quotas of changed owners, and consolidate their memories."""
        if not self._changed or not self._reader.available:
            return
        changed, self._changed = self._changed, {}
        started, report = time.perf_counter(), MaintenanceReport()
        for owner in list(changed):
            del changed[owner]
            done = await isolated(self._maintain(Scope.of_owner(owner), report), report, self._observer)
            if isinstance(done, UnavailableError):
                # Retried later, after the others.
                self._changed = {**changed, **self._changed, owner: None}
                break
        if report.deleted or report.summaries or report.failures:
            self._finished(report, started)

    async def _maintain(self, scope: Scope, report: MaintenanceReport) -> None:
        if scope.owner not in self._consolidated:
            await self._consolidate(scope, report)
        if has_quota(self._config):
            await self._sweeper.enforce(scope, report)

    async def _consolidate(self, scope: Scope, report: MaintenanceReport) -> bool:
        """Consolidate an owner once between two sweeps; returns whether to go on with others."""
        if self._consolidator is None:
            return False
        done = await isolated(self._consolidator.consolidate(scope, report), report, self._observer)
        if done is None or done is True:
            # After an unexpected error, too, it is not retried before the next sweep.
            self._consolidated.add(scope.owner)
        return not isinstance(done, StoreUnavailableError)

    async def _reflect(self, owners: Sequence[tuple[Scope, int]], report: MaintenanceReport) -> None:
        """Have insights written; owners that are not reached come first the next time, for the others have nothing new."""
        asked = 0
        for scope, active in owners if self._insights is not None else ():
            assert self._insights is not None
            if asked == MAX_REFLECTED or not self._insights.wants(scope, active):
                continue
            done = await isolated(self._insights.reflect(scope, report), report, self._observer)
            if isinstance(done, UnavailableError):
                break
            asked += bool(done)

    def _finished(self, report: MaintenanceReport, started: float) -> None:
        report.seconds = time.perf_counter() - started
        self._observer.observe(MaintenanceFinished(report))

    # -- schedule ------------------------------------------------------------------------------------------------------

    @property
    def _sweep_every(self) -> timedelta:
        return timedelta(seconds=self._config.sweep_seconds)

    @property
    def _compact_every(self) -> timedelta:
        return timedelta(hours=self._config.compact_hours)

    async def _swept_elsewhere(self, now: datetime) -> bool:
        """Whether another replica, or this one before a restart, swept less than one interval ago."""
        try:
            swept = await noted_time(self._state, _SWEPT)
            # One that is ahead was noted before the clock was set back: then its age is unknown. The note may outlive the interval,
            # where that was a longer one before a restart.
            if swept is not None and now - self._sweep_every < swept <= now + _SKEW:
                self._sweep_cooldown = Cooldown.of(min(self._sweep_every, _FIRST), now)
                return True
            await note_time(self._state, _SWEPT, now, ttl=self._sweep_every)
        except UnavailableError:
            pass  # Then each replica keeps its own schedule.
        return False

    async def _plan_next(self, report: MaintenanceReport) -> None:
        pause = min(self._sweep_every, _FIRST) if report.failures else self._sweep_every
        self._sweep_cooldown = Cooldown.of(pause, self._clock.now())
        if not {"store", "deletion"}.isdisjoint(report.failures):
            with suppress(UnavailableError):
                await self._state.drop(OWN_SCOPE, [_SWEPT])
