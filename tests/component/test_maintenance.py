"""Maintenance with the real turn log, state store and locks: what leaves, what stays, and what races with it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.backends import Backends
from semrouter_memory.config import AgeingConfig, ManagementConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.errors import (
    ChatModelError,
    InvalidRequestError,
    StoreUnavailableError,
    TurnLogError,
    UnavailableError,
)
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.lineage import all_memories
from semrouter_memory.maintenance import schedule
from semrouter_memory.maintenance.consolidate import Consolidator
from semrouter_memory.maintenance.eviction import is_expired
from semrouter_memory.maintenance.recall_journal import MAX_NOTED, RecallJournal
from semrouter_memory.maintenance.reflect import InsightWriter
from semrouter_memory.maintenance.schedule import TICK_SECONDS, MaintenanceScheduler
from semrouter_memory.maintenance.sweep import OWN_SCOPE, Sweeper
from semrouter_memory.manage.schemas import UpdateRequest
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import (
    ChatMessage,
    Criteria,
    EmbeddedMemory,
    Memory,
    MemoryType,
    Reach,
    Scope,
    SessionHints,
    Tombstone,
    Turn,
    Usage,
)
from semrouter_memory.ports import OwnerLocks
from semrouter_memory.retain.redact import Redaction
from semrouter_memory.state.local import InProcessOwnerLocks, SqliteStateStore
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.hashed import HashedEmbedder
from tests.memory_service import backends_of, memory_service
from tests.unit.maintenance.parts import (
    ALICE,
    BOB,
    EMBEDDER,
    NOW,
    LostLocks,
    MaintenanceObserver,
    SteppingClock,
    aged,
    keep,
)

YEAR = timedelta(days=365)


class Store(InMemoryStore):
    """The in-memory store, which can be taken away and told to run something before it is read again."""

    def __init__(self) -> None:
        super().__init__(dimension=EMBEDDER.dimension)
        self.away = False
        self.before_get: Callable[[], Any] | None = None
        self.compactions = 0

    @property
    def available(self) -> bool:
        return not self.away

    async def get(self, scope: Scope, memory_id: str) -> Memory | None:
        if self.before_get:
            work, self.before_get = self.before_get, None
            await work()
        return await super().get(scope, memory_id)

    async def scan(self) -> AsyncIterator[Sequence[Memory]]:
        async for batch in super().scan():
            for memory in batch:
                if self.away:
                    raise StoreUnavailableError("away")
                yield [memory]

    async def compact(self) -> None:
        if self.away:
            raise StoreUnavailableError("away")
        self.compactions += 1

    @property
    def ids(self) -> set[str]:
        return {str(key)[-len("m0") :] for key in self._rows.by_key}


class ScriptedModel:
    name = "stand-in"
    retry_after = None

    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.prompts: list[str] = []

    def late(self) -> None:
        """Only deadlines tell."""

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        self.prompts.append(messages[-1].content)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@dataclass
class House:
    store: Store
    turn_log: SqliteTurnLog
    state: SqliteStateStore
    locks: OwnerLocks
    clock: SteppingClock
    observer: MaintenanceObserver
    embedder: HashedEmbedder = EMBEDDER

    def __post_init__(self) -> None:
        self.journal = RecallJournal(
            state=self.state, turn_log=self.turn_log, clock=self.clock, receipt_ttl=timedelta()
        )

    def use(self, memories: Sequence[Memory]) -> None:
        """Recall puts them into a request."""
        self.journal.note_uses(memories, self.clock.now())

    @property
    def backends(self) -> Backends:
        return backends_of(
            store=self.store,
            embedder=self.embedder,
            turn_log=self.turn_log,
            state=self.state,
            locks=self.locks,
            clock=self.clock,
            observer=self.observer,
        )

    def maintenance(
        self, model: ScriptedModel | None = None, *, insights: InsightWriter | None = None, **settings: Any
    ) -> MaintenanceScheduler:
        config = AgeingConfig.model_validate(settings)
        deletion = DeletionService(self.backends)
        consolidator = Consolidator(self.backends, chat_model=model, config=config)
        return MaintenanceScheduler(
            self.backends,
            sweeper=Sweeper(self.backends, deletion=deletion, config=config),
            consolidator=consolidator if config.consolidate == "on" else None,
            journal=self.journal,
            deletion=deletion,
            config=config,
            insights=insights,
        )

    async def keep(self, *memories: Memory) -> None:
        await keep(self.store, *memories)

    async def active(self, scope: Scope = ALICE) -> list[Memory]:
        return list((await self.store.page(Criteria(scope, active_at=self.clock.now()), limit=10_000)).memories)

    async def uses_counted_for_long(self) -> None:
        """As if access counts had been kept for years."""
        since = (NOW - 9 * YEAR).isoformat().encode()
        await self.state.put(OWN_SCOPE, "maintenance.usage_counted_since", since, ttl=9 * YEAR)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    clock = SteppingClock()
    turn_log = SqliteTurnLog(tmp_path / "turns.db", clock=clock)
    state = SqliteStateStore(tmp_path / "state.db", clock=clock)
    yield House(Store(), turn_log, state, InProcessOwnerLocks(), clock, MaintenanceObserver())
    state.close()
    turn_log.close()


# -- what leaves -------------------------------------------------------------------------------------------------------


async def test_by_default_a_sweep_deletes_only_what_has_ended(house: House) -> None:
    """Nothing that anybody could still want leaves unless somebody asks for it."""
    await house.keep(
        aged("m0", days=9_999, importance=0.0),
        aged("m1", days=9_999, superseded_at=NOW - 9 * YEAR, superseded_by="m0"),
        aged("m2", expires_at=NOW),
        aged("m3", superseded_at=NOW, superseded_by="m9"),
        aged("m4", superseded_at=NOW, superseded_by=""),
    )
    await house.uses_counted_for_long()
    report = await house.maintenance().sweep()
    assert house.store.ids == {"m0", "m1", "m4"}
    assert report.deleted == {"expired": {"semantic": 1}, "orphaned": {"semantic": 1}}
    assert (report.memories, report.owners, report.failures) == (5, 1, ())
    assert house.observer.reports == [report]


async def test_what_was_deleted_while_the_store_was_away_is_erased(house: House) -> None:
    await house.keep(aged("m0"), aged("m1"), aged("m2", scope=BOB))
    await house.turn_log.tombstone(Tombstone(scope=ALICE, at=NOW, memory_id="m1"))
    await house.turn_log.tombstone(Tombstone(scope=BOB, at=NOW))
    report = await house.maintenance().sweep()
    assert house.store.ids == {"m0"}
    assert report.deleted == {"tombstoned": {"semantic": 2}}


async def test_a_deletion_that_was_interrupted_is_finished_with_every_trace(house: House) -> None:
    """As an order in a user's message leaves it whose process is killed: the memory is hidden, and nothing else is done."""
    said = Turn(
        scope=ALICE,
        hints=SessionHints(explicit="s1"),
        user_texts=("I earn 5,000 euros",),
        assistant_text="ok",
        observed_at=NOW,
    )
    of_it = {"turn_ids": [house.turn_log.append(said, remember=False).turn_id]}
    quote = aged("m0", content="I earn 5,000 euros", metadata={"form": "quote", **of_it})
    await house.keep(
        quote,
        aged("m1", content="User's salary is 5,000 euros", metadata={"quote": "m0", **of_it}),
        aged("m2", content="Talked of pay", kind=MemoryType.EPISODIC, source="session", metadata=of_it),
        aged("m3"),
        aged("m4", scope=BOB),
    )
    house.clock.step(minutes=1)
    await DeletionService(house.backends).hide(quote)
    house.store.away = True
    await house.maintenance().sweep()
    house.store.away = False
    await house.maintenance().sweep()
    assert house.store.ids == {"m3", "m4"}
    assert await house.turn_log.list_turns(scope=ALICE, states=None, limit=10) == []


async def test_history_of_an_expired_memory_leaves_with_it(house: House) -> None:
    await house.keep(aged("m0", expires_at=NOW), aged("m1", superseded_at=NOW, superseded_by="m0"))
    await house.maintenance().sweep()
    assert house.store.ids == set()


async def test_old_history_leaves_and_its_successor_stays(house: House) -> None:
    await house.keep(aged("m0"), aged("m1", days=40, superseded_at=NOW - timedelta(days=35), superseded_by="m0"))
    report = await house.maintenance(history_days=30).sweep()
    assert house.store.ids == {"m0"}
    assert report.deleted == {"history": {"semantic": 1}}


async def test_pruned_memories_leave_without_a_tombstone(house: House) -> None:
    """Saying it again brings it back."""
    await house.keep(aged("m0", days=400), aged("m1", days=400, importance=0.9), aged("m2"))
    await house.uses_counted_for_long()
    report = await house.maintenance(prune="on").sweep()
    assert house.store.ids == {"m1", "m2"}
    assert report.deleted == {"pruned": {"semantic": 1}}
    said_again = aged("m0", days=400)
    tombstones = await house.turn_log.tombstones(ALICE)
    assert not tombstones.covers(said_again)
    assert not tombstones.forbids(ALICE, said_again.content, said_again.observed_at)


async def test_pruning_in_dry_run_only_reports(house: House) -> None:
    await house.keep(aged("m0", days=400), aged("m1", expires_at=NOW))
    await house.uses_counted_for_long()
    report = await house.maintenance(prune="dry-run").sweep()
    assert house.store.ids == {"m0"}
    assert report.would_delete == {"pruned": {"semantic": 1}}
    assert report.would_delete_ids == {"pruned": ("m0",)}
    assert report.deleted == {"expired": {"semantic": 1}}


async def test_nothing_is_pruned_before_uses_were_counted_for_long_enough(house: House) -> None:
    """Else the first sweep after an upgrade, or after the state was lost, would find everything unused."""
    await house.keep(aged("m0", days=400))
    maintenance = house.maintenance(prune="on", prune_after_days=180)
    report = await maintenance.sweep()
    assert (house.store.ids, report.held) == ({"m0"}, 1)
    house.clock.step(days=179)
    assert (await maintenance.sweep()).held == 1
    house.clock.step(days=2)
    assert (await maintenance.sweep()).deleted == {"pruned": {"semantic": 1}}
    assert house.store.ids == set()


async def test_what_is_used_is_not_pruned(house: House) -> None:
    await house.keep(aged("m0", days=400), aged("m1", days=400))
    await house.uses_counted_for_long()
    house.use([aged("m0", days=400)])
    await house.maintenance(prune="on").sweep()
    assert house.store.ids == {"m0"}


async def test_a_quota_takes_history_first_then_flagged_memories(house: House) -> None:
    await house.keep(
        aged("m0", days=3),
        aged("m1", days=2, metadata={"flagged": True}),
        aged("m2", days=1),
        aged("m3", days=9, superseded_at=NOW, superseded_by="m0"),
        aged("b0", scope=BOB),
        aged("b1", scope=BOB),
    )
    report = await house.maintenance(max_memories=4).sweep()
    assert house.store.ids == {"m0", "m1", "m2", "m3", "b0", "b1"}
    assert report.deleted == {}
    report = await house.maintenance(max_memories=2).sweep()
    assert house.store.ids == {"m0", "m2", "b0", "b1"}
    assert report.deleted == {"quota": {"semantic": 2}}


async def test_a_quota_in_bytes_counts_the_text(house: House) -> None:
    await house.keep(*(aged(f"m{day}", days=day, content="x" * 100) for day in range(5)))
    await house.maintenance(max_bytes=250).sweep()
    assert house.store.ids == {"m0", "m1"}


async def test_a_changed_owner_is_brought_within_the_quota_without_a_sweep(house: House) -> None:
    maintenance = house.maintenance(max_memories=2)
    await house.keep(
        *(aged(f"m{day}", days=day) for day in range(4)), *(aged(f"b{day}", scope=BOB) for day in range(4))
    )
    maintenance.changed(Scope("alice", "apollo"))
    await maintenance.maintain_changed()
    assert house.store.ids == {"m0", "m1", "b0", "b1", "b2", "b3"}
    (report,) = house.observer.reports
    assert report.deleted == {"quota": {"semantic": 2}}
    await maintenance.maintain_changed()
    assert len(house.observer.reports) == 1


async def test_without_quota_and_consolidation_a_change_costs_nothing(house: House) -> None:
    maintenance = house.maintenance()
    house.store.away = True
    maintenance.changed(ALICE)
    await maintenance.maintain_changed()
    assert house.observer.reports == []


# -- races -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"prune": "on"}, {"max_memories": 1}])
async def test_what_is_said_again_meanwhile_is_not_deleted(house: House, settings: dict[str, Any]) -> None:
    """Between judging and deleting a memory may have been confirmed, edited or used."""
    old = aged("m0", days=400)
    await house.keep(old, aged("m1"))
    await house.uses_counted_for_long()

    async def confirm() -> None:
        await house.keep(replace(old, observed_at=NOW, updated_at=NOW))

    house.store.before_get = confirm
    await house.maintenance(**settings).sweep()
    assert house.store.ids == {"m0", "m1"}


async def test_what_is_used_meanwhile_is_not_deleted(house: House) -> None:
    old = aged("m0", days=400)
    await house.keep(old)
    await house.uses_counted_for_long()
    real_usage = house.state.usage
    answers: Iterator[dict[str, Usage]] = iter([{}])

    async def late(scope: Scope, memory_ids: Sequence[str]) -> Any:
        for first in answers:
            await house.state.count_uses(ALICE, {"m0": 1}, at=NOW)
            return first
        return await real_usage(scope, memory_ids)

    house.state.usage = late  # type: ignore[method-assign]
    await house.maintenance(prune="on").sweep()
    assert house.store.ids == {"m0"}


async def test_history_whose_successor_is_written_meanwhile_stays(house: House) -> None:
    await house.keep(aged("m1", superseded_at=NOW, superseded_by="m0"))

    async def write_successor() -> None:
        await house.keep(aged("m0"))

    house.store.before_get = write_successor
    await house.maintenance().sweep()
    assert house.store.ids == {"m0", "m1"}


async def test_erasing_waits_for_the_owners_lock(house: House) -> None:
    await house.keep(aged("m0", expires_at=NOW))
    async with house.locks.hold(ALICE):
        sweeping = asyncio.create_task(house.maintenance().sweep())
        done, _ = await asyncio.wait([sweeping], timeout=0.2)
        assert not done
        assert house.store.ids == {"m0"}
    await sweeping
    assert house.store.ids == set()


async def test_a_flush_that_races_with_a_deletion_brings_nothing_back(house: House) -> None:
    """Neither a row nor a count, whether the deletion comes before the flush or in its middle."""
    memory, other = aged("m0"), aged("m1")
    await house.keep(memory, other)
    house.use([memory, other])
    real_count = house.state.count_uses

    async def deleting(scope: Scope, uses: Mapping[str, int], *, at: datetime) -> None:
        assert set(uses) == {"m1"}
        await real_count(scope, uses, at=at)
        await house.turn_log.tombstone(Tombstone(scope=ALICE, at=NOW, memory_id="m1"))
        await house.store.delete(ALICE, ["m1"])

    await house.turn_log.tombstone(Tombstone(scope=ALICE, at=NOW, memory_id="m0"))
    await house.store.delete(ALICE, ["m0"])
    house.state.count_uses = deleting  # type: ignore[method-assign]
    await house.journal.flush()
    assert house.store.ids == set()
    assert await house.state.usage(ALICE, ["m0", "m1"]) == {}


async def test_counts_that_come_after_the_deletion_are_dropped_by_the_next_sweep(house: House) -> None:
    maintenance = house.maintenance()
    await house.keep(aged("m0", expires_at=NOW))
    await maintenance.sweep()
    house.use([aged("m0")])
    await maintenance.flush()
    assert await house.state.usage(ALICE, ["m0"])
    await maintenance.sweep()
    assert await house.state.usage(ALICE, ["m0"]) == {}


# -- access counts -----------------------------------------------------------------------------------------------------


async def test_uses_are_added_up_and_written_in_one_batch(house: House) -> None:
    house.use([aged("m0"), aged("m1")])
    house.clock.step(seconds=5)
    house.use([aged("m0"), aged("b0", scope=BOB)])
    assert await house.state.usage(ALICE, ["m0"]) == {}
    await house.journal.flush()
    later = NOW + timedelta(seconds=5)
    assert await house.state.usage(ALICE, ["m0", "m1"]) == {"m0": Usage(2, later), "m1": Usage(1, later)}
    assert await house.state.usage(BOB, ["b0"]) == {"b0": Usage(1, later)}
    assert house.journal.waiting == 0


async def test_counts_that_cannot_be_written_wait_and_are_bounded(house: House) -> None:
    real_tombstones = house.turn_log.tombstones

    async def away(scope: Scope) -> Any:
        raise TurnLogError("away")

    house.turn_log.tombstones = away  # type: ignore[method-assign]
    house.use([aged(f"m{number}") for number in range(MAX_NOTED + 10)])
    house.use([aged("m0")])
    with pytest.raises(TurnLogError):
        await house.journal.flush()
    assert house.journal.waiting == MAX_NOTED
    house.turn_log.tombstones = real_tombstones  # type: ignore[method-assign]
    await house.journal.flush()
    last = f"m{MAX_NOTED - 1}"
    assert await house.state.usage(ALICE, ["m0", last, f"m{MAX_NOTED}"]) == {"m0": Usage(2, NOW), last: Usage(1, NOW)}


async def test_what_waits_is_written_at_the_end(house: House) -> None:
    maintenance = house.maintenance()
    maintenance.start()
    house.use([aged("m0")])
    await maintenance.stop()
    assert await house.state.usage(ALICE, ["m0"]) == {"m0": Usage(1, NOW)}


async def test_it_stops_also_when_its_work_swallows_the_cancellation(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "TICK_SECONDS", 0.0)
    at_work = asyncio.Event()

    async def swallow_once() -> None:
        if at_work.is_set():
            await asyncio.Event().wait()
        at_work.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    maintenance = house.maintenance()
    monkeypatch.setattr(maintenance, "run_due", swallow_once)
    maintenance.start()
    await at_work.wait()
    async with asyncio.timeout(60):
        await maintenance.stop()


# -- parts that are away -----------------------------------------------------------------------------------------------


async def test_without_the_state_store_nothing_leaves_for_want_of_use(house: House, tmp_path: Path) -> None:
    await house.keep(aged("m0", days=400), aged("m1", expires_at=NOW), aged("m2"))
    maintenance = house.maintenance(prune="on", max_memories=1)
    house.state.close()
    report = await maintenance.sweep()
    assert house.store.ids == {"m0", "m2"}
    assert report.failures == ("state",)


async def test_a_store_that_goes_away_in_the_middle_costs_nothing(house: House) -> None:
    await house.keep(aged("m0"), aged("m1", superseded_at=NOW, superseded_by="m0"))
    house.store.away = True
    report = await house.maintenance().sweep()
    assert report.failures == ("store",)
    assert house.store.ids == {"m0", "m1"}


async def test_under_a_lost_lock_nothing_is_deleted_or_merged(house: House) -> None:
    await keep_hawaii(house)
    await house.keep(aged("m9", expires_at=NOW))
    house.locks = LostLocks()
    report = await house.maintenance(consolidate="on", consolidate_at=2).sweep()
    assert report.failures == ("lock",)
    assert house.store.ids == {"m0", "m1", "m2", "m9"}


async def test_an_owner_whose_quota_could_not_be_enforced_is_looked_at_again(house: House) -> None:
    await house.keep(aged("m0"), aged("m1", days=1))
    maintenance = house.maintenance(max_memories=1)
    maintenance.changed(ALICE)
    real_page = house.store.page

    async def away(*args: Any, **kwargs: Any) -> Any:
        raise StoreUnavailableError("away")

    house.store.page = away  # type: ignore[method-assign]
    await maintenance.maintain_changed()
    house.store.page = real_page  # type: ignore[method-assign]
    await maintenance.maintain_changed()
    assert [report.failures for report in house.observer.reports] == [("store",), ()]
    assert house.store.ids == {"m0"}


# -- pace --------------------------------------------------------------------------------------------------------------


async def test_a_sweep_comes_soon_after_the_start_and_then_in_its_time(house: House) -> None:
    maintenance = house.maintenance(sweep_seconds=3600, compact_hours=0)
    await maintenance.run_due()
    assert not house.observer.reports
    for _ in range(130):
        house.clock.step(minutes=1)
        await maintenance.run_due()
    assert len(house.observer.reports) == 3


async def test_two_replicas_and_a_restart_share_one_pace(house: House) -> None:
    maintenances = [house.maintenance(sweep_seconds=3600, compact_hours=0) for _ in range(2)]
    for minute in range(130):
        house.clock.step(minutes=1)
        if minute == 30:
            maintenances.append(house.maintenance(sweep_seconds=3600, compact_hours=0))
        for maintenance in maintenances:
            await maintenance.run_due()
    assert len(house.observer.reports) == 3


async def test_a_shorter_pace_holds_from_the_restart_on(house: House) -> None:
    """Not only when the time of the longer one is over."""
    house.clock.step(minutes=1)
    maintenance = house.maintenance(sweep_seconds=10**6, compact_hours=0)
    house.clock.step(minutes=1)
    await maintenance.run_due()
    maintenance = house.maintenance(sweep_seconds=300, compact_hours=0)
    for _ in range(10):
        house.clock.step(minutes=1)
        await maintenance.run_due()
    assert len(house.observer.reports) == 3


async def test_a_clock_that_is_set_back_a_day_stops_neither_sweeps_nor_compactions(house: House) -> None:
    """Nor does a replica that swept before believe that it has just done so."""
    house.clock.step(days=1)
    maintenance = house.maintenance(sweep_seconds=3600, compact_hours=1)
    house.clock.step(minutes=61)
    await maintenance.run_due()
    assert (len(house.observer.reports), house.store.compactions) == (1, 1)
    house.clock.step(days=-1)
    for each in (maintenance, house.maintenance(sweep_seconds=3600, compact_hours=1)):
        house.clock.step(minutes=61)
        await each.run_due()
    assert (len(house.observer.reports), house.store.compactions) == (3, 3)


async def test_a_failed_sweep_is_tried_again_within_a_minute(house: House) -> None:
    await house.keep(aged("m0"))
    maintenance = house.maintenance(sweep_seconds=3600, compact_hours=0)
    house.clock.step(minutes=1)

    def gone() -> AsyncIterator[Sequence[Memory]]:
        raise StoreUnavailableError("away")

    real_scan, house.store.scan = house.store.scan, gone  # type: ignore[method-assign]
    await maintenance.run_due()
    house.store.scan = real_scan  # type: ignore[method-assign]
    house.clock.step(minutes=1)
    await maintenance.run_due()
    assert [report.failures for report in house.observer.reports] == [("store",), ()]


async def test_files_are_compacted_in_their_time_and_only_those_that_failed_again(house: House) -> None:
    maintenance = house.maintenance(compact_hours=24, sweep_seconds=10**9)
    house.store.away = True
    for _ in range(3):
        house.clock.step(minutes=10)
        await maintenance.run_due()
    assert (house.store.compactions, house.observer.failures) == (0, ["compact"] * 3)
    house.store.away = False
    house.clock.step(minutes=10)
    await maintenance.run_due()
    house.clock.step(hours=23)
    await maintenance.run_due()
    assert house.store.compactions == 1
    house.clock.step(hours=1)
    await maintenance.run_due()
    assert house.store.compactions == 2


async def test_a_bug_in_one_part_holds_up_no_other_and_is_not_repeated_at_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintenance = house.maintenance(compact_hours=24, sweep_seconds=10**9)
    house.clock.step(minutes=10)
    attempts = 0

    async def broken() -> None:
        nonlocal attempts
        attempts += 1
        raise ZeroDivisionError

    monkeypatch.setattr(house.turn_log, "compact", broken)
    with pytest.raises(ZeroDivisionError):
        await maintenance.run_due()
    house.clock.step(seconds=TICK_SECONDS)
    await maintenance.run_due()
    assert (attempts, house.store.compactions) == (1, 1)


@pytest.mark.parametrize("setting", ["history_days", "prune_after_days", "ttl_days"])
async def test_a_setting_that_means_never_stops_no_sweep(house: House, setting: str) -> None:
    """The longest time that a setting may have."""
    await house.keep(aged("m0", superseded_at=NOW, superseded_by="m1"), aged("m1"))
    never: Any = {"semantic": 36_500} if setting == "ttl_days" else 36_500
    report = await house.maintenance(**{setting: never}).sweep()
    assert (report.memories, report.deleted, house.observer.bugs) == (2, {}, [])


async def test_one_owners_data_does_not_end_the_sweep_of_the_others(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.keep(aged("m0"), aged("m1", scope=BOB, expires_at=NOW))

    def failing_for_alice(memory: Memory, **rest: Any) -> bool:
        if memory.scope == ALICE:
            raise OverflowError
        return is_expired(memory, **rest)

    monkeypatch.setattr("semrouter_memory.maintenance.sweep.is_expired", failing_for_alice)
    report = await house.maintenance().sweep()
    assert report.deleted == {"expired": {"semantic": 1}}
    assert [type(bug) for bug in house.observer.bugs] == [OverflowError]


# -- consolidation -----------------------------------------------------------------------------------------------------

HAWAII = ["Budget for Hawaii is $10,000", "Added $2,000 to Hawaii budget", "Final Hawaii budget is $12,000"]
BY_RULE = "Final Hawaii budget is $12,000 (earlier: Added $2,000 to Hawaii budget; Budget for Hawaii is $10,000)"


async def keep_hawaii(house: House) -> None:
    for number, content in enumerate(HAWAII):
        metadata = {"turn_ids": [f"t{number}"], "confirmations": number}
        await house.keep(aged(f"m{number}", days=9 - number, content=content, metadata=metadata))


async def test_consolidation_is_off_by_default(house: House) -> None:
    await keep_hawaii(house)
    maintenance = house.maintenance(consolidate_at=2)
    maintenance.changed(ALICE)
    await maintenance.maintain_changed()
    await maintenance.sweep()
    assert len(await house.active()) == 3


async def test_what_is_pinned_is_not_merged(house: House) -> None:
    await keep_hawaii(house)
    await house.keep(aged("m1", days=8, content=HAWAII[1], metadata={"turn_ids": ["t1"], "pinned": True}))
    await house.maintenance(consolidate="on", consolidate_at=3).sweep()
    assert HAWAII[1] in [memory.content for memory in await house.active()]


@pytest.mark.parametrize("by_sweep", [True, False])
async def test_related_memories_become_one_and_the_originals_history(house: House, by_sweep: bool) -> None:
    await keep_hawaii(house)
    house.use([aged("m0"), aged("m1")])
    maintenance = house.maintenance(consolidate="on", consolidate_at=3)
    if by_sweep:
        await maintenance.sweep()
    else:
        await maintenance.flush()
        maintenance.changed(ALICE)
        await maintenance.maintain_changed()
    (summary,) = await house.active()
    assert summary.content == BY_RULE
    assert summary.observed_at == NOW - timedelta(days=7)
    assert summary.metadata["turn_ids"] == ["t0", "t1", "t2"]
    assert summary.metadata["consolidated_from"] == ["m2", "m1", "m0"]
    assert summary.metadata["confirmations"] == 3
    originals = await house.store.predecessors(ALICE, [summary.id])
    assert {memory.id: memory.content for memory in originals} == dict(zip(["m0", "m1", "m2"], HAWAII, strict=True))
    assert await house.state.usage(ALICE, [summary.id, "m0"]) == {summary.id: Usage(2, NOW)}
    (report,) = house.observer.reports
    assert (report.summaries, report.merged) == (1, 3)


async def test_a_summary_that_the_embedding_model_does_not_read_to_its_end_is_not_written(house: House) -> None:
    """Worded by the model it may be shorter."""
    await keep_hawaii(house)
    house.embedder = HashedEmbedder(max_passage_tokens=16)
    await house.maintenance(consolidate="on", consolidate_at=3).sweep()
    assert {memory.content for memory in await house.active()} == set(HAWAII)
    model = ScriptedModel("User's Hawaii budget is $12,000 (before $10,000, then $2,000 added)")
    await house.maintenance(model, consolidate="on", consolidate_at=3).sweep()
    assert [memory.content for memory in await house.active()] == [model.answer]


async def test_an_owner_is_consolidated_once_between_two_sweeps(house: House) -> None:
    """What the model words badly, and no rule can word, is not asked for again at each change."""
    await keep_hawaii(house)
    house.embedder = HashedEmbedder(max_passage_tokens=16)
    model = ScriptedModel("User goes to Hawaii")
    maintenance = house.maintenance(model, consolidate="on", consolidate_at=3)
    for asked in (1, 1, 2):
        if asked > len(model.prompts):
            await maintenance.sweep()
        maintenance.changed(ALICE)
        await maintenance.maintain_changed()
        assert len(model.prompts) == asked


async def test_below_the_threshold_nothing_is_merged(house: House) -> None:
    await keep_hawaii(house)
    await house.maintenance(consolidate="on", consolidate_at=4).sweep()
    assert len(await house.active()) == 3


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        (
            "User's final budget for Hawaii is $12,000 (initially $10,000, then $2,000 added)",
            "User's final budget for Hawaii is $12,000 (initially $10,000, then $2,000 added)",
        ),
        ("User's budget for Hawaii is $12,000 (updated from initial $10,000)", BY_RULE),
        ("User's budget for Hawaii is $12,000 ($10,000 and $2,000), $500 of it spent", BY_RULE),
        ("User's and Tom's budget for Hawaii is $12,000 ($10,000 and $2,000)", BY_RULE),
        ("", BY_RULE),
        ("$12,000 $10,000 $2,000 Hawaii " * 100, BY_RULE),
        (ChatModelError("away"), BY_RULE),
    ],
)
async def test_a_model_words_the_summary_when_it_loses_and_adds_nothing(
    house: House, answer: str | Exception, content: str
) -> None:
    await keep_hawaii(house)
    model = ScriptedModel(answer)
    await house.maintenance(model, consolidate="on", consolidate_at=3).sweep()
    (summary,) = await house.active()
    assert summary.content == content
    assert summary.metadata["model"] == ("" if content == BY_RULE else "stand-in")
    assert len(model.prompts) == 1


async def test_originals_that_change_meanwhile_are_not_merged(house: House) -> None:
    await keep_hawaii(house)

    async def edit() -> None:
        await house.keep(aged("m0", content="Budget for Hawaii is $11,000", updated_at=NOW))

    house.store.before_get = edit
    await house.maintenance(consolidate="on", consolidate_at=3).sweep()
    assert {memory.id for memory in await house.active()} == {"m0", "m1", "m2"}


async def test_what_was_deleted_is_not_brought_back_by_a_summary(house: House) -> None:
    """The store was away when it was deleted: its row is still there."""
    await keep_hawaii(house)
    maintenance = house.maintenance(consolidate="on", consolidate_at=3)
    await house.turn_log.tombstone(Tombstone(scope=ALICE, at=NOW, memory_id="m1"))
    maintenance.changed(ALICE)
    await maintenance.maintain_changed()
    assert not house.observer.reports


async def test_projects_and_users_are_consolidated_apart(house: House) -> None:
    apollo = Scope("alice", "apollo")
    for scope, name in ((ALICE, "a"), (apollo, "p"), (BOB, "b")):
        for number, content in enumerate(HAWAII):
            await house.keep(aged(f"{name}{number}", days=9 - number, content=content, scope=scope))
    await house.maintenance(consolidate="on", consolidate_at=2).sweep()
    assert [memory.content for memory in await house.active()] == [BY_RULE] * 2
    assert {memory.scope for memory in await house.active()} == {ALICE, apollo}
    assert [memory.content for memory in await house.active(BOB)] == [BY_RULE]


async def test_memories_of_every_kind_survive_a_sweep_of_what_is_not_theirs(house: House) -> None:
    kinds = [aged(f"m{at}", kind=kind) for at, kind in enumerate(MemoryType)]
    await house.keep(*kinds)
    await house.maintenance(prune="on", max_memories=4, max_bytes=10_000, history_days=1, consolidate="on").sweep()
    assert len(await house.active()) == len(kinds)
    assert (await house.store.delete_all(ALICE, Reach.ALL)) == len(kinds)


async def test_the_rows_that_consolidation_writes_are_found_by_their_own_words(house: House) -> None:
    await keep_hawaii(house)
    await house.maintenance(consolidate="on", consolidate_at=3).sweep()
    (vector,) = await EMBEDDER.embed_passages([BY_RULE])
    (hit,) = await house.store.search(Criteria(ALICE, reach=Reach.RECALL, active_at=NOW), vector, limit=5)
    assert isinstance(EmbeddedMemory(hit.memory, vector), EmbeddedMemory)
    assert hit.similarity == pytest.approx(1)


async def test_merged_quotes_are_found_as_quotes_are(house: House) -> None:
    """By their context, and in the third person; the originals, too, which are active again when the summary is deleted."""
    quote = {"form": "quote", "context": "Hawaii"}
    for number, content in enumerate(("my budget is $10,000", "my budget is $12,000")):
        await house.keep(aged(f"m{number}", days=9 - number, content=content, metadata=quote))
    await house.maintenance(consolidate="on", consolidate_at=2).sweep()
    assert len(await house.active()) == 1
    stored = await all_memories(house.store, Criteria(ALICE))
    assert len(stored) == 3
    for memory in stored:
        (vector,) = await EMBEDDER.embed_passages([embedded_text(memory)])
        hits = await house.store.search(Criteria(ALICE), vector, limit=5)
        assert {hit.memory.id: hit.similarity for hit in hits}[memory.id] == pytest.approx(1)


# -- one owner's data, and others --------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [{"turn_ids": [["x"]]}, {"turn_ids": 5}, {"replaces": [{}], "turn_ids": [None]}])
async def test_ids_that_are_none_keep_nothing_from_being_merged(house: House, odd: dict[str, Any]) -> None:
    """They came in by an import before its metadata was checked."""
    await keep_hawaii(house)
    await house.keep(aged("m1", days=8, content=HAWAII[1], metadata=odd))
    await house.maintenance(consolidate="on", consolidate_at=3).sweep()
    (summary,) = await house.active()
    assert summary.metadata["turn_ids"] == ["t0", "t2"]
    assert not house.observer.bugs


@pytest.mark.parametrize("metadata", [{"note": "x" * 9_000}, {"confirmations": 2**64 - 1}])
async def test_a_summary_whose_metadata_would_be_too_large_is_not_written(
    house: House, metadata: dict[str, Any]
) -> None:
    """So that an import takes its export line; a number that no store keeps counts as too large."""
    await keep_hawaii(house)
    await house.keep(aged("m1", days=8, content=HAWAII[1], metadata=metadata))
    for number, content in enumerate(HAWAII):
        await house.keep(aged(f"b{number}", days=9 - number, content=content, scope=BOB))
    await house.maintenance(consolidate="on", consolidate_at=3).sweep()
    assert len(await house.active()) == 3
    assert len(await house.active(BOB)) == 1
    assert not house.observer.bugs


@pytest.mark.parametrize("by_sweep", [True, False])
async def test_an_owner_who_cannot_be_looked_after_keeps_nobody_else_from_it(
    house: House, by_sweep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from consolidation nor from the quota, and nor is their own quota given up."""
    upsert = house.store.upsert

    async def refusing(scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        if scope.owner_id == "alice":
            raise InvalidRequestError("metadata is longer than 65536 bytes", field="metadata")
        await upsert(scope, rows)

    for name, scope in (("a", ALICE), ("b", BOB)):
        for number, content in enumerate(HAWAII):
            await house.keep(aged(f"{name}{number}", days=9 - number, content=content, scope=scope))
        await house.keep(aged(f"{name}9", content="User plays the cello", scope=scope))
    monkeypatch.setattr(house.store, "upsert", refusing)
    maintenance = house.maintenance(consolidate="on", consolidate_at=2, max_memories=3)
    maintenance.changed(ALICE)
    maintenance.changed(BOB)
    await (maintenance.sweep() if by_sweep else maintenance.maintain_changed())
    if by_sweep:
        await maintenance.sweep()
    assert len(await house.active()) == 3
    assert len(house.store.ids) <= 6
    assert any(memory.metadata.get("consolidated_from") for memory in await house.active(BOB))
    assert house.observer.bugs
    assert {type(bug) for bug in house.observer.bugs} == {InvalidRequestError}


async def test_an_owner_who_cannot_be_swept_keeps_no_other_from_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, scope in (("a", ALICE), ("b", BOB)):
        await house.keep(aged(f"{name}0", expires_at=NOW, scope=scope))
    delete = house.store.delete

    async def refusing(scope: Scope, memory_ids: Sequence[str]) -> int:
        if scope.owner_id == "alice":
            raise RuntimeError("a bug")
        return await delete(scope, memory_ids)

    monkeypatch.setattr(house.store, "delete", refusing)
    report = await house.maintenance().sweep()
    assert house.store.ids == {"a0"}
    assert report.failures == ()
    assert [str(bug) for bug in house.observer.bugs] == ["a bug"]


# -- forgetting what was merged or moved -------------------------------------------------------------------------------


def service(house: House) -> MemoryService:
    return memory_service(house.backends, new_id=lambda: "new", redact=Redaction, config=ManagementConfig())


async def test_a_forgotten_original_is_not_recalled_in_its_summary(house: House) -> None:
    """The others are what they were before they were merged."""
    await keep_hawaii(house)
    await house.maintenance(consolidate="on", consolidate_at=3).sweep()
    (summary,) = await house.active()
    house.clock.step(minutes=1)
    await service(house).forget(ALICE, "m1")
    assert {memory.id: memory.content for memory in await house.active()} == {"m0": HAWAII[0], "m2": HAWAII[2]}
    (vector,) = await EMBEDDER.embed_passages([HAWAII[1]])
    hits = await house.store.search(Criteria(ALICE, reach=Reach.RECALL, active_at=house.clock.now()), vector, limit=10)
    assert {hit.memory.id for hit in hits} == {"m0", "m2"}
    assert await house.store.get(ALICE, summary.id) is None
    assert (await house.turn_log.tombstones(ALICE)).covers(summary)


async def test_a_deletion_that_was_interrupted_takes_no_other_original_of_a_summary_along(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary is hidden already, and they are only its history: also of a summary of summaries."""

    async def away(*_: Any) -> None:
        raise StoreUnavailableError("away")

    await keep_hawaii(house)
    await house.maintenance(consolidate="on", consolidate_at=3).sweep()
    (summary,) = await house.active()
    late = aged("m3", content="Booked a flight to Hawaii")
    at = house.clock.now()
    # Rows are read in the order of their ids: this one before what it was made of.
    above = replace(aged("a0", content="All of it", metadata={"consolidated_from": [summary.id, "m3"]}), created_at=at)
    await house.keep(above, *(replace(each, superseded_at=at, superseded_by=above.id) for each in (summary, late)))
    house.clock.step(minutes=1)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(house.store, "upsert", away)
        with pytest.raises(UnavailableError):
            await service(house).forget(ALICE, "m1")
    house.clock.step(minutes=1)
    await house.maintenance().sweep()
    assert {memory.id for memory in await house.active()} == {"m0", "m2", "m3"}


@pytest.mark.parametrize(
    ("forgotten", "left"),
    [
        ("q0", {"m2": HAWAII[2], "q2": "so it is $12,000, and I hate flying"}),
        ("q2", {"m0": HAWAII[0], "q0": "I have $10,000 for Hawaii, and a red hat"}),
    ],
)
async def test_a_forgotten_quote_is_not_recalled_in_a_summary_of_its_statement(
    house: House, forgotten: str, left: dict[str, str]
) -> None:
    """The summary is no statement of any one quote, so the other's statement is what it was."""
    quote = {"form": "quote"}
    await house.keep(
        aged("q0", days=9, content="I have $10,000 for Hawaii, and a red hat", metadata=quote),
        aged("q2", days=7, content="so it is $12,000, and I hate flying", metadata=quote),
        aged("m0", days=9, content=HAWAII[0], metadata={"quote": "q0"}),
        aged("m2", days=7, content=HAWAII[2], metadata={"quote": "q2"}),
    )
    await house.maintenance(consolidate="on", consolidate_at=2).sweep()
    assert {memory.id for memory in await house.active()}.isdisjoint({"m0", "m2"})
    house.clock.step(minutes=1)
    await service(house).forget(ALICE, forgotten)
    assert {memory.id: memory.content for memory in await house.active()} == left


async def test_a_summary_tells_no_fact_of_what_it_replaced(house: House) -> None:
    told = {"statements": [{"attribute": "budget", "value": "$10,000", "text": "budget"}], "asked": "How much?"}
    old, new = "my budget for Hawaii is $10,000", "my budget for Hawaii is $12,000"
    await house.keep(
        aged("m0", days=9, content=old, metadata={"form": "quote", "origin": "crm", **told}),
        aged("m1", days=8, content=new, metadata={"form": "quote"}),
    )
    await house.maintenance(consolidate="on", consolidate_at=2).sweep()
    (summary,) = await house.active()
    assert summary.metadata["consolidated_from"] == ["m1", "m0"]
    assert (summary.facts, summary.asked, summary.metadata["origin"]) == ((), "", "crm")


async def test_forgetting_takes_the_state_of_all_projects_in_which_it_may_have_been_told(house: House) -> None:
    """Of the one where it was said before it was moved, and of one where an answer told it; not what is no project's."""
    said, told, marks = Scope("alice", "work"), Scope("alice", "travel"), Scope("alice", "\x00marks")
    texts = [
        (said, "My passport is with Zelda.", "ok"),
        (told, "Where is my passport?", "Your passport is with Zelda."),
    ]
    turns = [
        house.turn_log.append(
            Turn(
                scope=scope,
                hints=SessionHints(explicit="s1"),
                user_texts=(asked,),
                assistant_text=answered,
                observed_at=NOW,
            ),
            remember=False,
        ).turn_id
        for scope, asked, answered in texts
    ]
    for scope in (said, told, marks, Scope("bob", "work")):
        await house.state.put(scope, "session:s1", b"passport with Zelda", ttl=YEAR)
    content = "User's passport is with Zelda"
    await house.keep(aged("m0", content=content, scope=said, metadata={"turn_ids": turns[:1]}))
    house.clock.step(minutes=1)
    await service(house).update(ALICE, "m0", UpdateRequest(project_id="private"))
    await service(house).forget(ALICE, "m0")
    for scope in (said, told):
        assert await house.state.get(scope, ["session:s1"]) == {}
    for scope in (marks, Scope("bob", "work")):
        assert await house.state.get(scope, ["session:s1"])
    assert await house.turn_log.list_turns(scope=ALICE, states=None, limit=10) == []
