"""Lines that become memories. `house` is in conftest.py."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from semrouter_memory.errors import TOO_MANY_LINES, InvalidRequestError, Service, TurnLogError, UnavailableError
from semrouter_memory.manage.importing import Imported
from semrouter_memory.manage.portable import MAX_LINE_BYTES, export_line, lines_of
from semrouter_memory.model import Memory, MemoryType, Reach, Scope
from tests.raising import raising

ALICE = Scope("alice")

House = Any
"""The fixture's class lives in conftest.py, which cannot be imported."""


def scope_of(project: str) -> Scope:
    if project == "bad":
        raise InvalidRequestError("is no project", field="project_id")
    return Scope("alice", project)


async def pieces(data: bytes, size: int = 7) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def imported(house: House, *lines: dict[str, Any] | bytes, from_owner: str | None = None) -> Imported:
    data = b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    report = Imported()
    await house.service.importer.run(scope_of, pieces(data), report, from_owner=from_owner)
    return report


async def exported(house: House) -> list[bytes]:
    return [export_line(memory) async for memories in house.service.export(ALICE) for memory in memories]


def whole(house: House) -> list[Memory]:
    """Two memories with everything that a memory can have."""
    new = house.put(
        "mem_new",
        scope=Scope("alice", "trip"),
        type=MemoryType.PROCEDURAL,
        content="User moved to Munich",
        session_id="ses 1",
        importance=0.7,
        expires_at=house.put("x").observed_at + timedelta(days=900),
        metadata={
            "turn_ids": ["t1"],
            "extractor": "quotes",
            "model": "",
            "flagged": True,
            "contradicts": ["m9"],
            "k": 1,
        },
    )
    house.store.rows.pop("x")
    said = new.observed_at - timedelta(days=1, microseconds=1)
    old = house.put(
        "mem_old", observed_at=said, created_at=said, superseded_at=new.observed_at, superseded_by="mem_new"
    )
    return [new, old]


async def test_an_export_imported_after_everything_was_forgotten_is_exported_the_same(house: House) -> None:
    """Ids, texts, times, links, provenance: all of it; an import is a deliberate act that no tombstone hides."""
    rows = whole(house)
    before = await exported(house)
    await house.service.forget_all(ALICE, Reach.ALL)
    assert await exported(house) == []
    report = await imported(house, *before)
    assert (report.lines, report.imported, report.skipped, report.refused) == (2, 2, 0, 0)
    assert await exported(house) == before
    for row in rows:
        back = house.store.rows[row.id]
        assert back.metadata.keys() - row.metadata.keys() == {"imported_at"}
        assert replace(back, metadata=row.metadata) == row
    assert house.changed[-1] == ALICE


async def test_importing_a_file_twice_changes_nothing(house: House) -> None:
    """Nor does a line of the file undo what was changed since."""
    whole(house)
    lines = await exported(house)
    house.store.rows["mem_new"] = changed = replace(house.store.rows["mem_new"], content="User moved to Kiel")
    report = await imported(house, *lines, *lines)
    assert (report.imported, report.skipped) == (0, 4)
    assert house.store.rows["mem_new"] == changed
    assert "upsert" not in house.calls


async def test_a_statement_that_comes_back_is_deleted_with_its_quote_again(house: House) -> None:
    house.put("mem_q", content="my rent is $900", metadata={"form": "quote"})
    house.put("mem_s", content="User's rent is $900", metadata={"quote": "mem_q", "contradicts": ["mem_q", "mem_z"]})
    lines = await exported(house)
    await house.service.forget(ALICE, "mem_q")
    assert await exported(house) == []
    assert (await imported(house, *lines)).imported == 2
    (quote,) = [memory for memory in house.store.rows.values() if memory.form == "quote"]
    (statement,) = [memory for memory in house.store.rows.values() if memory.form == "statement"]
    assert (statement.quote, statement.ids("contradicts")) == (quote.id, (quote.id, "mem_z"))
    await house.service.forget(ALICE, quote.id)
    assert await exported(house) == []


async def test_a_memory_deleted_by_its_id_comes_back_under_another_and_links_follow(house: House) -> None:
    """The same one at every import; deleted again, it comes back under a third."""
    whole(house)
    lines = await exported(house)
    await house.service.forget(ALICE, "mem_new")
    assert (await imported(house, *lines)).imported == 2
    (new,) = [memory for memory in house.store.rows.values() if memory.superseded_at is None]
    (old,) = [memory for memory in house.store.rows.values() if memory.superseded_at is not None]
    assert new.id not in {"mem_new", "mem_old"}
    assert old.id not in {"mem_new", "mem_old"}
    assert old.superseded_by == new.id
    assert [each.id for each in await house.service.history(ALICE, new.id)] == [old.id, new.id]
    assert (await imported(house, *lines)).skipped == 2
    await house.service.forget(ALICE, new.id)
    assert (await imported(house, *lines)).imported == 2
    assert new.id not in house.store.rows


async def test_a_line_made_by_hand_needs_a_content_only(house: House) -> None:
    line = {"content": "User likes tea"}
    assert (await imported(house, line, {**line, "project_id": "trip"})).imported == 2
    assert (await imported(house, line, {**line, "project_id": "trip"})).skipped == 2
    sources = {(memory.source, memory.content, memory.scope.project_id) for memory in house.store.rows.values()}
    assert sources == {("import", "User likes tea", ""), ("import", "User likes tea", "trip")}


async def test_a_file_of_another_system_is_read(house: House) -> None:
    """With a byte order mark, and with carriage returns at the lines' ends."""
    file = b'\xef\xbb\xbf{"content": "User likes tea"}\r\n{"content": "User likes coffee"}\r\n'
    assert (await imported(house, file)).imported == 2
    assert {memory.content for memory in house.store.rows.values()} == {"User likes tea", "User likes coffee"}


LATER = "2036-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (b"{", None),
        (b"[]", None),
        (b'"text"', None),
        (b"\xff\xfe", None),
        ({}, "content"),
        ({"content": 1}, "content"),
        ({"content": "  "}, "content"),
        ({"content": "x" * 101}, "content"),
        ({"content": "my password is hunter2"}, "content"),
        ({"content": "x", "colour": "red"}, "colour"),
        ({"content": "x", "type": "gossip"}, "type"),
        ({"content": "x", "importance": 2}, "importance"),
        ({"content": "x", "observed_at": "yesterday"}, "observed_at"),
        ({"content": "x", "observed_at": "2026-01-01T00:00:00"}, "observed_at"),
        ({"content": "x", "observed_at": "20240315"}, "observed_at"),
        ({"content": "x", "observed_at": " 2024 "}, "observed_at"),
        ({"content": "x", "observed_at": 20240315}, "observed_at"),
        ({"content": "x", "observed_at": "0001-01-01T00:00:00+01:00"}, "observed_at"),
        ({"content": "x", "observed_at": LATER}, "observed_at"),
        ({"content": "x", "created_at": LATER}, "created_at"),
        ({"content": "x", "superseded_at": LATER}, "superseded_at"),
        ({"content": "x", "superseded_by": "mem_2"}, "superseded_by"),
        ({"content": "x", "id": "a/b"}, "id"),
        ({"content": "x", "id": "export"}, "id"),
        ({"content": "x", "id": ""}, "id"),
        ({"content": "x", "id": "x" * 129}, "id"),
        ({"content": "x", "project_id": "bad"}, "project_id"),
        ({"content": "x", "session_id": "x" * 513}, "session_id"),
        ({"content": "x", "metadata": {"k": "my password is hunter2"}}, "metadata"),
        ({"content": "x", "metadata": {"k": "x" * 300}}, "metadata"),
        ({"content": "x", "metadata": {"turn_ids": ["x" * 20_000]}}, "metadata"),
        ({"content": "x", "metadata": {"turn_ids": [2**70]}}, "metadata.turn_ids"),
        ({"content": "x", "metadata": {"turn_ids": [["x"]]}}, "metadata.turn_ids"),
        ({"content": "x", "metadata": {"turn_ids": 5}}, "metadata.turn_ids"),
        ({"content": "x", "metadata": {"replaces": [None]}}, "metadata.replaces"),
        ({"content": "x", "metadata": {"contradicts": {"m1": 1}}}, "metadata.contradicts"),
        ({"content": "x", "metadata": {"consolidated_from": "m1"}}, "metadata.consolidated_from"),
        ({"content": "x", "metadata": {"extractor": 1}}, "metadata.extractor"),
        ({"content": "x", "metadata": {"confirmations": True}}, "metadata.confirmations"),
        ({"content": "x", "metadata": {"flagged": "yes"}}, "metadata.flagged"),
        ({"content": "x", "metadata": {"within": {"session": "s1"}, "pinned": True}}, "pinned"),
        ({"content": "x", "owner": "user:bob"}, "owner"),
    ],
)
async def test_a_line_that_does_not_fit_is_named_and_the_others_are_imported(
    house: House, line: dict[str, Any] | bytes, field: str | None
) -> None:
    report = await imported(house, {"content": "first"}, b"", line, {"content": "last"})
    assert (report.lines, report.imported, report.refused) == (3, 2, 1)
    (error,) = report.errors
    assert (error.line, error.param) == (3, field)
    assert "hunter2" not in error.message
    assert {memory.content for memory in house.store.rows.values()} == {"first", "last"}


async def test_another_users_lines_are_taken_over_only_when_that_is_said(house: House) -> None:
    """And whatever a line says, it becomes the memory of who imports it."""
    line = {"content": "User likes tea", "owner": "user:bob"}
    assert (await imported(house, line)).refused == 1
    assert (await imported(house, line, from_owner="user:carol")).refused == 1
    assert (await imported(house, line, from_owner="user:bob")).imported == 1
    assert {memory.scope for memory in house.store.rows.values()} == {ALICE}


async def test_what_holds_within_a_session_becomes_no_organisations(house: House) -> None:
    report = Imported()
    line = {"content": "User likes tea", "owner": "user:bob", "metadata": {"within": {"session": "s1"}}}
    await house.service.importer.run(
        lambda _: Scope.of_owner("org:acme"), pieces(json.dumps(line).encode()), report, from_owner="user:bob"
    )
    assert [error.param for error in report.errors] == ["within_session"]


async def test_an_expired_line_is_skipped(house: House) -> None:
    report = await imported(house, {"content": "x", "expires_at": "2020-01-01T00:00:00Z"})
    assert (report.imported, report.skipped) == (0, 1)


async def test_more_lines_than_a_request_may_bring_are_not_dropped_silently(house: House) -> None:
    report = Imported()
    lines = b"".join(json.dumps({"content": f"fact {number}"}).encode() + b"\n" for number in range(121))
    with raising(InvalidRequestError, code=TOO_MANY_LINES, match="120 imported, 0 skipped, 0 refused"):
        await house.service.importer.run(scope_of, pieces(lines), report)
    assert len(house.store.rows) == report.imported == 120


async def test_a_line_of_any_length_is_refused_without_being_kept(house: House) -> None:
    long = b'{"content": "' + b"x" * (3 * MAX_LINE_BYTES) + b'"}'
    kept = [len(line) async for line in lines_of(pieces(long, 65_536))]
    assert kept == [MAX_LINE_BYTES + 65_536]
    report = Imported()
    await house.service.importer.run(scope_of, pieces(long + b'\r\n{"content": "after"}', 65_536), report)
    assert (report.refused, report.imported) == (1, 1)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
async def test_lines_are_the_same_however_they_arrive(size: int) -> None:
    assert [line async for line in lines_of(pieces(b"one\n\ntwo\r\nthree", size))] == [b"one", b"", b"two\r", b"three"]


async def test_an_import_that_breaks_off_says_how_far_it_came_and_can_be_repeated(house: House) -> None:
    lines = [{"content": f"fact {number}"} for number in range(75)]
    upsert, writes = house.store.upsert, iter([True, False])

    async def failing(*arguments: Any) -> None:
        house.store.refuse = set() if next(writes) else {"upsert"}
        await upsert(*arguments)

    house.store.upsert = failing
    with raising(UnavailableError, service=Service.IMPORT, match="25 imported, 0 skipped, 0 refused"):
        await imported(house, *lines)
    house.store.upsert, house.store.refuse = upsert, set()
    report = await imported(house, *lines)
    assert (report.imported, report.skipped) == (50, 25)


async def test_an_import_that_loses_the_turn_log_says_how_far_it_came(house: House) -> None:
    timestamp, batches = house.log.timestamp, iter([True, False])

    async def failing() -> Any:
        if not next(batches):
            raise TurnLogError("the disk failed")
        return await timestamp()

    house.log.timestamp = failing
    with raising(UnavailableError, service=Service.IMPORT, match="25 imported, 0 skipped, 0 refused"):
        await imported(house, *({"content": f"fact {number}"} for number in range(75)))


@pytest.mark.parametrize(
    "metadata",
    [
        {"context": "my password is hunter2-Xy9!"},
        {"asked": "is my password hunter2-Xy9!?"},
        {"statements": [{"attribute": "password", "value": "x", "text": "User's password is hunter2-Xy9!"}]},
        {"context": "a\x00b"},
    ],
)
async def test_what_is_refused_as_content_is_refused_in_what_a_quote_carries(
    house: House, metadata: dict[str, Any]
) -> None:
    report = await imported(house, {"content": "fact", "metadata": metadata})
    assert (report.imported, report.refused) == (0, 1)
    assert report.errors[0].param == f"metadata.{next(iter(metadata))}"
    assert "hunter2" not in report.errors[0].message


@pytest.mark.parametrize("field", ["source", "session_id"])
@pytest.mark.parametrize("value", ["my password is hunter2-Xy9!", "a\x00b"])
async def test_what_is_refused_as_content_is_refused_as_where_it_comes_from(
    house: House, field: str, value: str
) -> None:
    report = await imported(house, {"content": "fact", field: value})
    assert (report.imported, [each.param for each in report.errors]) == (0, [field])


async def test_lines_whose_lock_is_lost_for_a_moment_are_imported_and_counted_once(house: House) -> None:
    house.locks.losses = 2
    report = await imported(house, {"content": "User likes tea"}, {"content": "User likes tea"}, {"content": ""})
    assert (report.lines, report.imported, report.skipped, report.refused) == (3, 1, 1, 1)
    assert len(house.store.rows) == 1
