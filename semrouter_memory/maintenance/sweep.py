"""Looks at every memory and evicts what is expired, old history, unused for long, or over the quota.

Strategy: one pass over the collection keeps only candidates and a tally for each owner; then, owner by owner, the deletion
service checks each candidate again under the lock. If a part is unavailable, only the evictions that need it are skipped:
without the state store nothing is pruned, without the turn log nothing with a tombstone is purged.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from semrouter_memory.backends import Backends
from semrouter_memory.config import AgeingConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.errors import StoreUnavailableError, TurnLogError, UnavailableError
from semrouter_memory.events import WorkFailed
from semrouter_memory.lineage import all_memories
from semrouter_memory.maintenance.eviction import (
    exceeds_quota,
    is_expired,
    is_old_history,
    is_unused,
    orphans,
    over_quota,
    size_of,
    unsupported,
)
from semrouter_memory.model import (
    DERIVED_FROM,
    Counts,
    Criteria,
    EvictionCandidate,
    EvictionReason,
    MaintenanceReport,
    Memory,
    Scope,
    Usage,
)
from semrouter_memory.ports import Observer, StateStore, Tombstones

T = TypeVar("T")

OWN_SCOPE = Scope("")
"""The scope of maintenance's own values in the state store; no user has an empty id."""

_COUNTED_SINCE = "maintenance.usage_counted_since"
_COUNTED_TTL = timedelta(days=365)
_MAX_DAYS = 100 * 365
"""A longer setting means never."""
_USAGE_BATCH = 1_000
_YIELD_EVERY = 200
"""Memories between two yields to the event loop: about a millisecond."""
_MAX_FAILURES = 3
"""Owners whose lock or usage is unavailable, after which a sweep stops until the next one."""


_MAX_IDS = 1_000
"""Ids listed in a report, of each reason."""


async def isolated(work: Awaitable[T], report: MaintenanceReport, observer: Observer) -> T | UnavailableError | None:
    """Work for one owner, whose data must not keep maintenance from the others.

    Returns:
        The result; the error, which the report names, where a part is unavailable; None after an unexpected error, which the
        observer is told.
    """
    try:
        return await work
    except UnavailableError as error:
        report.failed(error.service.value)
        return error
    except Exception as error:  # noqa: BLE001 - see above
        observer.observe(WorkFailed(error))
        return None


async def noted_time(state: StateStore, key: str) -> datetime | None:
    """A time that maintenance, of any replica, has noted; None where there is none. Raises: UnavailableError."""
    value = (await state.get(OWN_SCOPE, [key])).get(key)
    with suppress(ValueError):
        return datetime.fromisoformat(value.decode()) if value else None
    return None


async def note_time(state: StateStore, key: str, at: datetime, *, ttl: timedelta) -> None:
    """Note a time. Raises: UnavailableError."""
    await state.put(OWN_SCOPE, key, at.isoformat().encode(), ttl=ttl)


@dataclass(slots=True)
class OwnerTally:
    """What a pass over the collection keeps of one owner.

    Attributes:
        tombstones: None: unavailable.
        ids: of all memories, history included; `size` is theirs in bytes.
        candidates: memories evicted for a reason that needs no usage.
        unused: active memories that are unused as far as is known without usage.
        insights: which name the memories that they were drawn from.
    """

    scope: Scope
    tombstones: Tombstones | None
    ids: set[str] = field(default_factory=set)
    size: int = 0
    active: int = 0
    history: list[Memory] = field(default_factory=list)
    candidates: list[EvictionCandidate] = field(default_factory=list)
    unused: list[Memory] = field(default_factory=list)
    insights: list[Memory] = field(default_factory=list)


class Sweeper:
    """Sweeps all owners, or enforces one owner's quota."""

    def __init__(self, backends: Backends, *, deletion: DeletionService, config: AgeingConfig) -> None:
        self._reader, self._turn_log = backends.store, backends.turn_log
        self._state, self._clock, self._observer = backends.state, backends.clock, backends.observer
        self._deletion, self._config = deletion, config

    async def sweep(self, report: MaintenanceReport) -> list[tuple[Scope, int]]:
        """Evict what is due; returns each owner with the number of active memories.

        Never raises for a part that is unavailable: the report names it.
        """
        now = self._clock.now()
        await self._deletion.purge_late_usage()
        tallies = await self._tallies(report, now)
        may_prune = await self._may_prune(report, now)
        failures = 0
        for tally in tallies:
            await asyncio.sleep(0)
            work = self._sweep_owner(tally, report, now, may_prune=may_prune)
            done = await isolated(work, report, self._observer)
            failures += isinstance(done, UnavailableError)
            if isinstance(done, StoreUnavailableError) or failures == _MAX_FAILURES:
                break
        await self._drop_ended(report)
        return [(tally.scope, tally.active) for tally in tallies]

    async def enforce(self, scope: Scope, report: MaintenanceReport) -> None:
        """Bring one owner's memories within the quota.

        Raises:
            UnavailableError: the store, the usage counts or the owner's lock are.
        """
        _count(report.deleted, await self._deletion.purge(scope, await self._over_quota(scope, self._clock.now())))

    # -- the pass ------------------------------------------------------------------------------------------------------

    async def _tallies(self, report: MaintenanceReport, now: datetime) -> list[OwnerTally]:
        tallies: dict[str, OwnerTally] = {}
        broken: dict[str, BaseException] = {}
        try:
            async for batch in self._reader.scan():
                for number, memory in enumerate(batch):
                    if number % _YIELD_EVERY == 0:
                        # Requests are answered in the same loop.
                        await asyncio.sleep(0)
                    owner = memory.scope.owner
                    scope = memory.scope.in_project("")
                    if (tally := tallies.get(owner)) is None:
                        tally = tallies[owner] = OwnerTally(scope, await self._tombstones(scope, report))
                    try:
                        self._add(tally, memory, now)
                    except Exception as error:  # noqa: BLE001 - one owner's data must not keep maintenance from the others
                        broken[owner] = error
                report.memories += len(batch)
        except StoreUnavailableError as error:
            # Half a collection proves nothing.
            report.failed(error.service.value)
            return []
        report.owners = len(tallies)
        for bug in broken.values():
            self._observer.observe(WorkFailed(bug))
        return [tally for owner, tally in tallies.items() if owner not in broken]

    async def _tombstones(self, scope: Scope, report: MaintenanceReport) -> Tombstones | None:
        try:
            return await self._turn_log.tombstones(scope)
        except TurnLogError as error:
            report.failed(error.service.value)
            return None

    def _add(self, tally: OwnerTally, memory: Memory, now: datetime) -> None:
        tally.ids.add(memory.id)
        tally.size += size_of(memory)
        if memory.superseded_at is not None:
            tally.history.append(memory)
        if memory.ids(DERIVED_FROM):
            tally.insights.append(memory)
        if reason := self._reason(tally, memory, now):
            tally.candidates.append(EvictionCandidate(memory, reason))
        elif memory.superseded_at is None:
            tally.active += 1
            if self._config.prune != "off" and is_unused(memory, None, now=now, config=self._config):
                tally.unused.append(memory)

    def _reason(self, tally: OwnerTally, memory: Memory, now: datetime) -> EvictionReason | None:
        if tally.tombstones is not None and tally.tombstones.covers(memory):
            return EvictionReason.TOMBSTONED
        if is_expired(memory, now=now, config=self._config):
            return EvictionReason.EXPIRED
        return EvictionReason.HISTORY if is_old_history(memory, now=now, config=self._config) else None

    # -- one owner -----------------------------------------------------------------------------------------------------

    async def _sweep_owner(
        self, tally: OwnerTally, report: MaintenanceReport, now: datetime, *, may_prune: bool
    ) -> None:
        unfinished = _unfinished(tally)
        await self._deletion.finish(tally.scope, [each.memory for each in unfinished])
        # What a finished deletion has restored is not what it was when it was judged, and stays.
        purged = [*unfinished, *await self._deletion.purge(tally.scope, _due(tally))]
        _count(report.deleted, purged)
        unused = await self._unused(tally, report, now, may_prune=may_prune)
        if self._config.prune == "on":
            pruned = await self._deletion.purge(tally.scope, unused)
            _count(report.deleted, pruned)
            purged += pruned
        else:
            _note_unused(report, unused)
        if self._exceeds(tally, [each.memory for each in purged]):
            _count(report.deleted, await self._deletion.purge(tally.scope, await self._over_quota(tally.scope, now)))

    async def _unused(
        self, tally: OwnerTally, report: MaintenanceReport, now: datetime, *, may_prune: bool
    ) -> list[EvictionCandidate]:
        """Of the memories that seem unused those without usage."""
        if not tally.unused:
            return []
        if not may_prune:
            report.held += len(tally.unused)
            return []
        usage = await self._usage(tally.scope, tally.unused)
        return [
            EvictionCandidate(memory, EvictionReason.PRUNED, usage.get(memory.id))
            for memory in tally.unused
            if is_unused(memory, usage.get(memory.id), now=now, config=self._config)
        ]

    def _exceeds(self, tally: OwnerTally, purged: Sequence[Memory]) -> bool:
        size = tally.size - sum(map(size_of, purged))
        return exceeds_quota(len(tally.ids) - len(purged), size, self._config)

    async def _over_quota(self, scope: Scope, now: datetime) -> list[EvictionCandidate]:
        config = self._config
        # Called after every write: all memories of an owner are read only when some of them must be evicted.
        if not config.max_bytes and await self._reader.count(scope) <= config.max_memories:
            return []
        memories = await all_memories(self._reader, Criteria(scope))
        if not exceeds_quota(len(memories), sum(map(size_of, memories)), config):
            return []
        return over_quota(memories, await self._usage(scope, memories), now=now, config=config)

    async def _usage(self, scope: Scope, memories: Sequence[Memory]) -> Mapping[str, Usage]:
        found: dict[str, Usage] = {}
        ids = [memory.id for memory in memories]
        for start in range(0, len(ids), _USAGE_BATCH):
            found.update(await self._state.usage(scope, ids[start : start + _USAGE_BATCH]))
        return found

    # -- the state store -----------------------------------------------------------------------------------------------

    async def _may_prune(self, report: MaintenanceReport, now: datetime) -> bool:
        """Whether usage has been counted for as long as pruning looks back.

        False in a new installation, and after the state store lost its data: every memory would look unused.
        """
        looks_back = timedelta(days=min(self._config.prune_after_days, _MAX_DAYS))
        try:
            since = await noted_time(self._state, _COUNTED_SINCE) or now
            await note_time(self._state, _COUNTED_SINCE, since, ttl=looks_back + _COUNTED_TTL)
        except UnavailableError as error:
            report.failed(error.service.value)
            return False
        return now - since >= looks_back

    async def _drop_ended(self, report: MaintenanceReport) -> None:
        try:
            report.ended = await self._state.sweep()
        except UnavailableError as error:
            report.failed(error.service.value)


def _unfinished(tally: OwnerTally) -> list[EvictionCandidate]:
    """What was deleted by its id, whose row is the last trace to go. What a deletion of a scope covers has no others."""
    deleted = tally.tombstones
    return [
        each
        for each in tally.candidates
        if each.reason is EvictionReason.TOMBSTONED
        and deleted is not None
        and not deleted.forbids(each.memory.scope, "", each.memory.asserted_at)
    ]


def _due(tally: OwnerTally) -> list[EvictionCandidate]:
    """Memories evicted whatever their usage, and the history that becomes orphaned by it."""
    gone = {each.memory.id for each in tally.candidates}
    history = [memory for memory in tally.history if memory.id not in gone]
    orphaned = orphans(history, tally.ids - gone)
    gone |= {memory.id for memory in orphaned}
    insights = [memory for memory in tally.insights if memory.id not in gone]
    orphaned += unsupported(insights, tally.ids - gone - {memory.id for memory in tally.history})
    return [*tally.candidates, *(EvictionCandidate(memory, EvictionReason.ORPHANED) for memory in orphaned)]


def _count(counts: Counts, candidates: Iterable[EvictionCandidate]) -> None:
    for each in candidates:
        types = counts.setdefault(each.reason.value, {})
        types[each.memory.type.value] = types.get(each.memory.type.value, 0) + 1


def _note_unused(report: MaintenanceReport, unused: Sequence[EvictionCandidate]) -> None:
    _count(report.would_delete, unused)
    for each in unused:
        known = report.would_delete_ids.get(each.reason.value, ())
        report.would_delete_ids[each.reason.value] = (*known, each.memory.id)[:_MAX_IDS]
