"""Open writes in files: their order, what takes them out, what a crash may leave, and who may touch them."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import Scope
from semrouter_memory.store import schema
from semrouter_memory.store.journal import WriteJournal
from semrouter_memory.store.schema import Row
from tests.memories import DIMENSION, embedded, memory
from tests.raising import raising

ALICE = Scope("alice", "hawaii")


def row(memory_id: str, content: str = "content") -> Row:
    one = memory(ALICE, memory_id, content=content, metadata={"tags": ["a", "é\n"]})
    return schema.row_from(ALICE, embedded(one), dimension=DIMENSION)


def journal(directory: Path, target: str = "target") -> WriteJournal:
    return WriteJournal(directory / "writes", target=(target,))


@pytest.fixture
def opened(tmp_path: Path) -> WriteJournal:
    return journal(tmp_path)


def contents(opened: WriteJournal) -> list[dict[str, str]]:
    """Of each open write what its rows say, by their keys."""
    return [{row["id"].rpartition(":")[2]: row["content"] for row in write.rows} for write in opened.open_writes()]


def files_in(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def test_a_row_comes_back_as_it_was(opened: WriteJournal) -> None:
    written = row("mem_1")
    opened.add([written])
    (write,) = opened.open_writes()
    (read,) = write.rows
    assert np.array_equal(read.pop("embedding"), written.pop("embedding"))
    assert read == written


def test_what_was_recorded_is_open_until_it_is_removed(opened: WriteJournal) -> None:
    assert opened.is_empty()
    opened.add([row("mem_1")])
    assert not opened.is_empty()
    assert contents(opened) == [{"mem_1": "content"}]
    (write,) = opened.open_writes()
    write.remove()
    write.remove()
    assert opened.is_empty()


def test_a_process_that_ends_gives_its_writes_up(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.unit.store.test_journal import journal, row\n"
        "write = journal(Path(sys.argv[1])).add([row('mem_1')]); print('there', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"there\n"
        other.kill()
        other.wait()
    assert contents(journal(tmp_path)) == [{"mem_1": "content"}]


def test_the_later_write_of_a_row_counts(opened: WriteJournal) -> None:
    """Whatever their times say, and though the later one was completed: the earlier one must not undo it."""
    opened.add([row("mem_1", "first"), row("mem_2", "first")])
    second = opened.add([row("mem_1", "second")])
    assert contents(opened) == [{"mem_2": "first"}, {"mem_1": "second"}]
    second.remove()
    assert contents(opened) == [{"mem_2": "first"}]


def test_the_later_write_of_a_row_counts_also_after_a_crash(opened: WriteJournal, tmp_path: Path) -> None:
    """One that came before the earlier write had lost the row."""
    opened.add([row("mem_1", "first"), row("mem_2", "first")])
    (first,) = (tmp_path / "writes").iterdir()
    data = first.read_bytes()
    opened.add([row("mem_1", "second")])
    first.write_bytes(data)
    for left in (tmp_path / "writes").iterdir():
        if left.name.startswith(first.name.partition("-")[0]) and left != first:
            left.unlink()
    assert contents(opened) == [{"mem_2": "first"}, {"mem_1": "second"}]


def test_a_write_for_another_collection_is_left_to_it_but_forgotten_with_it(tmp_path: Path) -> None:
    old, new = journal(tmp_path, "old"), journal(tmp_path, "new")
    old.add([row("mem_1", "of the old one")])
    new.add([row("mem_1", "of the new one")])
    assert contents(old) == [{"mem_1": "of the old one"}]
    assert contents(new) == [{"mem_1": "of the new one"}]
    new.forget(lambda each: each["id"] == row("mem_1")["id"])
    assert old.is_empty()


def test_forgotten_rows_are_in_no_file(opened: WriteJournal, tmp_path: Path) -> None:
    opened.add([row("mem_1", "gone-XQZJ"), row("mem_2", "stays-WKVB")])
    opened.forget(lambda each: "gone" in each["content"])
    assert contents(opened) == [{"mem_2": "stays-WKVB"}]
    assert b"XQZJ" not in files_in(tmp_path)
    assert b"WKVB" in files_in(tmp_path)
    opened.forget(lambda _: True)
    assert files_in(tmp_path) == b""


@pytest.mark.parametrize("length", [0, 1, 200])
def test_a_file_that_was_not_written_to_its_end_is_removed(opened: WriteJournal, tmp_path: Path, length: int) -> None:
    """The store was not asked for that write; and nothing could forget what it holds."""
    opened.add([row("mem_1")])
    (file,) = (tmp_path / "writes").iterdir()
    os.truncate(file, length)
    opened.forget(lambda _: False)
    assert contents(opened) == []
    assert opened.is_empty()


def test_files_of_others_are_left_alone(opened: WriteJournal, tmp_path: Path) -> None:
    opened.add([row("mem_1")]).remove()
    other = tmp_path / "writes" / "notes.txt"
    other.write_text("not ours")
    assert opened.is_empty()
    assert contents(opened) == []
    assert other.exists()


def test_only_the_user_of_the_service_can_read_it(opened: WriteJournal, tmp_path: Path) -> None:
    opened.add([row("mem_1")])
    (file,) = (tmp_path / "writes").iterdir()
    assert (tmp_path / "writes").stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_copy_is_a_journal(opened: WriteJournal, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    opened.copy(tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []
    opened.add([row("mem_1")])
    opened.copy(tmp_path / "copy")
    assert contents(journal(tmp_path / "copy")) == contents(opened) == [{"mem_1": "content"}]
    assert oct((tmp_path / "copy" / "writes").stat().st_mode)[-3:] == "700"


def test_without_its_directory_nothing_is_noted(tmp_path: Path) -> None:
    """A data directory that is gone must not be made anew in part."""
    gone = journal(tmp_path / "gone")
    assert gone.is_empty()
    with pytest.raises(StoreUnavailableError, match="No such file"):
        gone.add([row("mem_1")])
    assert not (tmp_path / "gone").exists()


def test_a_full_disk_is_said_and_leaves_nothing(
    opened: WriteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with raising(StoreUnavailableError, disk_full=True):
        opened.add([row("mem_1")])
    assert list((tmp_path / "writes").iterdir()) == []


IDS = st.sampled_from(["mem_1", "mem_2", "mem_3"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["fails", "succeeds"]), st.sets(IDS, min_size=1))
    | st.tuples(st.just("deleted"), st.sets(IDS, min_size=1)),
    max_size=12,
)


@given(steps=STEPS)
def test_what_is_open_is_the_last_failed_version_of_each_row(
    steps: Iterable[tuple[str, set[str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Unless it was deleted or written since; and no file holds any other version."""
    directory = tmp_path_factory.mktemp("journal")
    opened, expected = journal(directory), dict[str, str]()
    for number, (what, ids) in enumerate(steps):
        if what == "deleted":
            keys = {row(each)["id"] for each in ids}
            opened.forget(lambda each, keys=keys: each["id"] in keys)  # type: ignore[misc]
        else:
            write: Any = opened.add([row(each, f"version-{number}.") for each in sorted(ids)])
            if what == "succeeds":
                write.remove()
        expected = {each: version for each, version in expected.items() if each not in ids}
        if what == "fails":
            expected |= dict.fromkeys(ids, f"version-{number}.")
    rows = [each for write in contents(opened) for each in write.items()]
    assert sorted(rows) == sorted(expected.items())
    held = files_in(directory)
    assert all((f"version-{n}.".encode() in held) == (f"version-{n}." in expected.values()) for n in range(12))
