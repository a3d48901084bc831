"""What a memory adds to its owner's index, as the store keeps it."""

from dataclasses import replace
from typing import Any

import pytest

from semrouter_memory.model import Memory, MemoryType, Scope
from semrouter_memory.store import index_record, memory_collection, schema
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.index_record import RecordFormat
from semrouter_memory.store.owner_index import build_index
from tests.memories import DIMENSION, NOW, embedded, memory

ALICE = Scope("alice")
RECORD_FORMAT = RecordFormat(lambda one: len(one.content), "v1")

MEMORIES = (
    memory(ALICE, "plain"),
    replace(memory(ALICE, "mem\n\ud800", metadata={"tag": "[x]\n", "n": [1, 2]}), importance=0.25),
    memory(replace(ALICE, project_id='a"\nb'), "elsewhere", metadata={"tag": "x"}),
    memory(ALICE, "中文", content="我对花生过敏\n", kind=MemoryType.EPISODIC, expires_at=NOW),
    memory(ALICE, "nothing", content=""),
    *(replace(memory(ALICE, "long", content=f"part {at}"), passage=at) for at in (1, 2, 10)),
)


def test_an_index_is_the_same_of_stored_records_and_of_the_rows_themselves() -> None:
    rows = [embedded(one, seed) for seed, one in enumerate(MEMORIES)]
    records = [RECORD_FORMAT.record(RECORD_FORMAT.stored(row)) for row in reversed(rows)]
    stored, built = build_index("user:alice", records), build_index("user:alice", rows, label=RECORD_FORMAT.label)
    assert [stored.memory(at) for at in range(len(rows))] == [built.memory(at) for at in range(len(rows))]
    assert {stored.memory(at).id for at in range(len(rows))} == {one.id for one in MEMORIES}
    for name in ("keys", "created_at", "expires_at", "kinds", "labels", "importances", "factors", "vectors"):
        assert getattr(stored, name).tolist() == getattr(built, name).tolist()
    for name in ("hashes", "starts", "texts", "counts", "weights", "lengths"):
        assert getattr(stored.words, name).tolist() == getattr(built.words, name).tolist()
    assert [stored.attached[at] for at in stored.attachments] == [built.attached[at] for at in built.attachments]


def test_a_row_that_is_written_is_read_once_for_the_index_and_the_store() -> None:
    read = list[str]()
    record_format = RecordFormat(lambda one: read.append(one.id) or 7, "v1")  # type: ignore[func-returns-value]
    rows = [embedded(memory(ALICE, name), 1) for name in ("a", "b")]
    index = build_index("user:alice", ()).with_written(rows, label=record_format.label)
    stored = [record_format.record(record_format.stored(row)) for row in rows]
    assert build_index("user:alice", stored).labels.tolist() == index.labels.tolist() == [7, 7]
    assert read == ["a", "b"]


def test_a_row_that_was_changed_is_read_again() -> None:
    row = embedded(memory(ALICE, content="tea"), 1)
    changed = replace(row, memory=replace(row.memory, content="coffee"))
    of_both = [RECORD_FORMAT.record(RECORD_FORMAT.stored(each)) for each in (row, changed)]
    assert [build_index("user:alice", [each]).memory(0).content for each in of_both] == ["tea", "coffee"]


def test_records_and_rows_make_one_index() -> None:
    first, second = embedded(memory(ALICE, "a"), 1), embedded(memory(ALICE, "b"), 2)
    index = build_index(
        "user:alice", [second, RECORD_FORMAT.record(RECORD_FORMAT.stored(first))], label=RECORD_FORMAT.label
    )
    assert [index.memory(at).id for at in range(2)] == ["a", "b"]


@pytest.mark.parametrize("one", [memory(ALICE, superseded_at=NOW), memory(ALICE, metadata={"passage_count": 2})])
def test_what_no_index_holds_has_an_empty_record(one: Memory) -> None:
    stored = RECORD_FORMAT.stored(embedded(one))
    assert RECORD_FORMAT.is_current(stored)
    assert RECORD_FORMAT.record(stored) == ""


def test_another_versions_records_and_missing_ones_are_not_read() -> None:
    stored = replace(RECORD_FORMAT, version="v2").stored(embedded(memory(ALICE)))
    assert not RECORD_FORMAT.is_current(stored)
    assert not RECORD_FORMAT.is_current("")


def test_a_record_that_is_too_long_for_the_store_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    row = embedded(memory(ALICE))
    size = len(RECORD_FORMAT.stored(row).encode())
    for most, is_there in ((size, True), (size - 1, False)):
        monkeypatch.setattr(index_record, "MAX_VARCHAR_BYTES", most)
        assert bool(RECORD_FORMAT.stored(row)) is is_there


@pytest.mark.parametrize("stale", [{0}, {7}, {19}, set(range(20)), set()])
async def test_from_the_first_row_without_a_current_record_on_rows_are_read_whole(
    stale: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RECORD_BATCH", "OWNER_BATCH"):
        monkeypatch.setattr(memory_collection, name, 5)
    store = InMemoryStore(dimension=DIMENSION, record_format=RECORD_FORMAT)
    rows = [embedded(memory(ALICE, f"mem_{at:02}"), at) for at in range(20)]
    await store.upsert(ALICE, rows)
    for at in stale:
        row = store._rows.by_key[schema.primary_key(ALICE, f"mem_{at:02}")]
        row["record"] = "" if at % 2 else row["record"].replace("v1", "v2", 1)
    for limit in (19, 20):
        found = await store.load_records(ALICE, limit=limit)
        assert (found is None) is (limit < len(rows))
    assert found is not None
    assert [isinstance(each, str) for each in found] == [at < min(stale, default=20) for at in range(20)]
    index = build_index(ALICE.owner, found, label=RECORD_FORMAT.label)
    built = build_index(ALICE.owner, rows, label=RECORD_FORMAT.label)
    assert (index.rows, index.vectors.tolist()) == (built.rows, built.vectors.tolist())


@pytest.mark.parametrize(("is_local", "pages"), [(True, 0), (False, 1)])
async def test_of_an_owner_with_too_many_memories_no_more_is_read_than_shows_it(
    is_local: bool, pages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Milvus Lite is asked for the number first; a server, which takes as long for that as for a page, after one."""
    monkeypatch.setattr(memory_collection, "RECORD_BATCH", 5)
    store = InMemoryStore(dimension=DIMENSION, record_format=RECORD_FORMAT)
    store.is_local = is_local
    await store.upsert(ALICE, [embedded(memory(ALICE, f"mem_{at:02}"), at) for at in range(20)])
    read: list[int] = []
    select = store._rows.select

    async def counted(*arguments: Any, limit: int, **options: Any) -> list[schema.Row]:
        read.append(limit)
        return await select(*arguments, limit=limit, **options)

    monkeypatch.setattr(store._rows, "select", counted)
    assert await store.load_records(ALICE, limit=19) is None
    assert read == [5] * pages
