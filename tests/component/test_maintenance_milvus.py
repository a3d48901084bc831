"""Maintenance on the real Milvus Lite: what a scan reads is what is read again under the lock."""

from datetime import timedelta
from pathlib import Path

import pytest

from semrouter_memory.config import AgeingConfig, MilvusConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.maintenance.sweep import Sweeper
from semrouter_memory.model import MaintenanceReport, Scope, Tombstone
from semrouter_memory.state.local import InProcessOwnerLocks, SqliteStateStore
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.memory_service import backends_of
from tests.store_observer import StoreObserver
from tests.unit.maintenance.parts import BOB, EMBEDDER, NOW, SteppingClock, aged, keep

pytest.importorskip("milvus_lite")


async def test_a_sweep_deletes_from_milvus_what_it_judged_and_nothing_else(tmp_path: Path) -> None:
    clock = SteppingClock()
    turn_log = SqliteTurnLog(tmp_path / "turns.db", clock=clock)
    state = SqliteStateStore(tmp_path / "state.db", clock=clock)
    store = MilvusStore(
        MilvusConfig(timeout_ms=30_000),
        data_dir=tmp_path,
        fingerprint=EMBEDDER.fingerprint,
        observer=StoreObserver(),
    )
    await store.start()
    try:
        await keep(
            store,
            aged("expired", expires_at=NOW, importance=0.3, metadata={"turn_ids": ["t1"], "note": "früher"}),
            aged("history", superseded_at=NOW, superseded_by="expired"),
            aged("kept", scope=Scope("alice", "apollo"), expires_at=NOW + timedelta(days=1)),
            aged("older", days=8, scope=BOB),
            aged("newer", days=7, scope=BOB),
            aged("deleted", scope=BOB),
        )
        await turn_log.tombstone(Tombstone(scope=BOB, at=NOW, memory_id="deleted"))
        config = AgeingConfig(max_memories=1)
        backends = backends_of(
            store=store,
            embedder=EMBEDDER,
            turn_log=turn_log,
            state=state,
            locks=InProcessOwnerLocks(),
            clock=clock,
        )
        report = MaintenanceReport()
        sweeper = Sweeper(backends, deletion=DeletionService(backends), config=config)
        await sweeper.sweep(report)
        left = {memory.id async for batch in store.scan() for memory in batch}
    finally:
        await store.close()
        state.close()
        turn_log.close()
    assert left == {"kept", "newer"}
    assert {reason: sum(types.values()) for reason, types in report.deleted.items()} == {
        "expired": 1,
        "orphaned": 1,
        "tombstoned": 1,
        "quota": 1,
    }
