"""One look at every memory: what has ended, is history for too long, is low for long, or is too much, leaves.

Strategy: one pass over the collection keeps only what may leave and a tally for each owner; then owner by owner the
eraser decides again, under the lock. A part that is away only keeps back what hangs on it: without the state store
nothing leaves for want of use, without the turn log nothing that was deleted before is erased.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from semrouter_memory.config import AgeingConfig
from semrouter_memory.errors import StateStoreError, StoreUnavailableError, TurnLogError
from semrouter_memory.model import Leaving, Memory, Scope, UpkeepReport, Usage
from semrouter_memory.ports import Clock, MemoryReader, StateStore, Tombstones, TurnLog
from semrouter_memory.upkeep.erase import Eraser
from semrouter_memory.upkeep.leaving import (
    Judged,
    exceeds_quota,
    is_expired,
    is_low,
    is_old_history,
    orphans,
    over_quota,
    size_of,
)
from semrouter_memory.upkeep.ledger import AWAY, Ledger
from semrouter_memory.upkeep.listing import listed

NOBODY = Scope("")
"""Whose values in the state store are upkeep's own; no user has an empty id."""

_COUNTED_SINCE = "upkeep.uses_counted_since"
_COUNTED_KEPT = timedelta(days=365)
_USAGE_BATCH = 1_000
_AT_A_TIME = 200
"""Memories looked at before others have the loop: about a millisecond."""
_MAX_FAILURES = 3
"""Owners whose lock or usage cannot be had, after which a sweep is given up until the next."""


@dataclass(slots=True)
class Tally:
    """What a pass over the collection keeps of one owner.

    Attributes:
        ids: of all memories, history included; `size` is theirs in bytes.
        leaving: what leaves for a reason that needs no usage.
        quiet: active memories that are low unless they were used.
    """

    scope: Scope
    deleted: Tombstones | None
    ids: set[str] = field(default_factory=set)
    size: int = 0
    active: int = 0
    history: list[Memory] = field(default_factory=list)
    leaving: list[Judged] = field(default_factory=list)
    quiet: list[Memory] = field(default_factory=list)


class Sweeper:
    """Sweeps all owners, or enforces one owner's quota."""

    def __init__(
        self,
        *,
        reader: MemoryReader,
        turn_log: TurnLog,
        state: StateStore,
        eraser: Eraser,
        clock: Clock,
        config: AgeingConfig,
    ) -> None:
        self._reader = reader
        self._turn_log = turn_log
        self._state = state
        self._eraser = eraser
        self._clock = clock
        self._config = config

    async def sweep(self, ledger: Ledger) -> list[Scope]:
        """Delete what is to leave; returns the owners with enough memories to be consolidated.

        Never raises for a part that is away: the ledger has it.
        """
        now = self._clock.now()
        await self._eraser.drop_late_counts()
        tallies = await self._tallies(ledger, now, prune=self._config.prune != "off")
        may_prune = await self._may_prune(ledger, now)
        failures = 0
        for tally in tallies:
            await asyncio.sleep(0)
            try:
                await self._sweep_owner(tally, ledger, now, may_prune=may_prune)
            except AWAY as error:
                ledger.failed(error)
                failures += 1
                if isinstance(error, StoreUnavailableError) or failures == _MAX_FAILURES:
                    break
            except Exception as error:  # noqa: BLE001 - one owner's data must not keep upkeep from the others
                ledger.bugs.append(error)
        await self._drop_ended(ledger)
        return [tally.scope for tally in tallies if tally.active >= self._config.consolidate_at]

    async def report(self) -> UpkeepReport:
        """What a sweep would delete now, pruning included even where it is off. Deletes nothing."""
        now, ledger = self._clock.now(), Ledger(dry_run=True)
        tallies = await self._tallies(ledger, now, prune=True)
        may_prune = await self._may_prune(ledger, now, note=False)
        for tally in tallies:
            try:
                leaving = [*_leaving(tally), *await self._low(tally, ledger, now, may_prune=may_prune)]
                ids = {each.memory.id for each in leaving}
                if self._exceeds(tally, leaving):
                    leaving += await self._over_quota(tally.scope, now, without=ids)
                ledger.would_delete(leaving)
            except AWAY as error:
                ledger.failed(error)
            except Exception as error:  # noqa: BLE001 - as in a sweep; the report names its type
                ledger.failed(error)
        return ledger.report()

    async def enforce(self, scope: Scope, ledger: Ledger) -> None:
        """Bring one owner's memories within the quota.

        Raises:
            StoreUnavailableError: the store is away.
            StateStoreError: the state store is, and with it what speaks for a memory.
            LockLostError: the owner's lock cannot be had.
        """
        ledger.deleted(await self._eraser.erase(scope, await self._over_quota(scope, self._clock.now())))

    # -- the pass ------------------------------------------------------------------------------------------------------

    async def _tallies(self, ledger: Ledger, now: datetime, *, prune: bool) -> list[Tally]:
        tallies: dict[str, Tally] = {}
        try:
            async for batch in self._reader.scan():
                for number, memory in enumerate(batch):
                    if number % _AT_A_TIME == 0:
                        # Requests are answered in the same loop.
                        await asyncio.sleep(0)
                    user_id = memory.scope.user_id
                    if (tally := tallies.get(user_id)) is None:
                        tally = tallies[user_id] = Tally(Scope(user_id), await self._deletions(user_id, ledger))
                    self._add(tally, memory, now, prune=prune)
                ledger.memories += len(batch)
        except StoreUnavailableError as error:
            # Half a collection says nothing.
            ledger.failed(error)
            return []
        ledger.owners = len(tallies)
        return list(tallies.values())

    async def _deletions(self, user_id: str, ledger: Ledger) -> Tombstones | None:
        try:
            return await self._turn_log.tombstones(Scope(user_id))
        except TurnLogError as error:
            ledger.failed(error)
            return None

    def _add(self, tally: Tally, memory: Memory, now: datetime, *, prune: bool) -> None:
        tally.ids.add(memory.id)
        tally.size += size_of(memory)
        if memory.superseded_at is not None:
            tally.history.append(memory)
        if reason := self._reason(tally, memory, now):
            tally.leaving.append(Judged(memory, reason))
        elif memory.superseded_at is None:
            tally.active += 1
            if prune and is_low(memory, None, now=now, config=self._config):
                tally.quiet.append(memory)

    def _reason(self, tally: Tally, memory: Memory, now: datetime) -> Leaving | None:
        if tally.deleted is not None and tally.deleted.covers(memory):
            return Leaving.BURIED
        if is_expired(memory, now=now, config=self._config):
            return Leaving.EXPIRED
        return Leaving.HISTORY if is_old_history(memory, now=now, config=self._config) else None

    # -- one owner -----------------------------------------------------------------------------------------------------

    async def _sweep_owner(self, tally: Tally, ledger: Ledger, now: datetime, *, may_prune: bool) -> None:
        leaving = _leaving(tally)
        erased = await self._eraser.erase(tally.scope, leaving)
        ledger.deleted(erased)
        low = await self._low(tally, ledger, now, may_prune=may_prune)
        if self._config.prune == "on":
            pruned = await self._eraser.erase(tally.scope, low)
            ledger.deleted(pruned)
            erased += pruned
        else:
            ledger.would_delete(low)
        if self._exceeds(tally, erased):
            gone = {each.memory.id for each in erased}
            over = await self._over_quota(tally.scope, now, without=gone)
            ledger.deleted(await self._eraser.erase(tally.scope, over))

    async def _low(self, tally: Tally, ledger: Ledger, now: datetime, *, may_prune: bool) -> list[Judged]:
        """Of the quiet memories those that were not used either."""
        if not tally.quiet:
            return []
        if not may_prune:
            ledger.held += len(tally.quiet)
            return []
        usage = await self._usage(tally.scope, tally.quiet)
        return [
            Judged(memory, Leaving.PRUNED, usage.get(memory.id))
            for memory in tally.quiet
            if is_low(memory, usage.get(memory.id), now=now, config=self._config)
        ]

    def _exceeds(self, tally: Tally, gone: Iterable[Judged]) -> bool:
        left = {each.memory.id: each.memory for each in gone}
        size = tally.size - sum(map(size_of, left.values()))
        return exceeds_quota(len(tally.ids) - len(left), size, self._config)

    async def _over_quota(self, scope: Scope, now: datetime, *, without: Collection[str] = ()) -> list[Judged]:
        config = self._config
        # Asked after every write: all of an owner's memories are read only when some of them must leave.
        if not config.max_bytes and await self._reader.count(scope) <= config.max_memories:
            return []
        memories = [memory for memory in await listed(self._reader, scope, now=None) if memory.id not in without]
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

    async def _may_prune(self, ledger: Ledger, now: datetime, *, note: bool = True) -> bool:
        """Whether uses have been counted for as long as pruning looks back.

        Not so in a new installation, and after the state store lost what it had: everything would look unused.
        """
        kept_for = timedelta(days=self._config.prune_after_days)
        try:
            found = (await self._state.get(NOBODY, [_COUNTED_SINCE])).get(_COUNTED_SINCE)
            since = datetime.fromisoformat(found.decode()) if found else now
            if note:
                value = since.isoformat().encode()
                await self._state.put(NOBODY, _COUNTED_SINCE, value, ttl=kept_for + _COUNTED_KEPT)
        except StateStoreError as error:
            ledger.failed(error)
            return False
        return now - since >= kept_for

    async def _drop_ended(self, ledger: Ledger) -> None:
        try:
            ledger.ended = await self._state.sweep()
        except StateStoreError as error:
            ledger.failed(error)


def _leaving(tally: Tally) -> list[Judged]:
    """What leaves without regard to its use, and the history that this leaves behind."""
    gone = {each.memory.id for each in tally.leaving}
    history = [memory for memory in tally.history if memory.id not in gone]
    orphaned = orphans(history, tally.ids - gone)
    return [*tally.leaving, *(Judged(memory, Leaving.ORPHANED) for memory in orphaned)]
