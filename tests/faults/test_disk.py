"""The data directory: its disk is full, it is deleted, its files are damaged."""

import asyncio
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from semrouter_memory.app.sidecar import App
from semrouter_memory.config import Config, MilvusConfig
from semrouter_memory.errors import ConfigurationError, StoreUnavailableError
from semrouter_memory.model import Criteria, Scope
from semrouter_memory.stack.loopback import LOOPBACK, free_port, local_client
from semrouter_memory.store.lite import LiteServer
from semrouter_memory.store.milvus import MilvusStore
from tests.envoy.client import APIS
from tests.envoy.conftest import Installation, eventually, installed
from tests.envoy.sidecar_log import logged
from tests.envoy.talk import PLACES, told
from tests.memories import DIMENSION, embedded, memory
from tests.store_observer import StoreObserver

from .conftest import Figures, sized
from .parts import PATIENT, Behind, installed_with, tell

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(sized(180, 300))]

DISK = 12 << 20
_MOUNTED = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
_LOG_APART = ["bash", "-c", 'exec "$@" > >(cat) 2>&1', "bash"]
"""The log is written by another process, which is not limited."""
_PAGE = 4096
SAID_WHILE_FULL = sized(8, 60)
ANSWER = "y" * 30_000
"""Longer in all than what the turn log's files already take of the disk, which stays writable when it is full."""
DROPPED = "semrouter_memory_turns_dropped_total"


def own_disk(data: Path) -> list[str]:
    """A command that gives what it starts a small disk of its own at that directory; it goes with the process."""
    return [*_MOUNTED, f'mount -t tmpfs -o size={DISK} tmpfs {data} && exec "$@"', "sh"]


def may_mount() -> bool:
    return subprocess.run([*_MOUNTED, "mount -t tmpfs tmpfs /mnt"], check=False, capture_output=True).returncode == 0


class FullDisk:
    """A file that takes all room on the sidecar's own small disk."""

    def __init__(self, on: Installation, data: Path) -> None:
        self._ballast = Path(f"/proc/{on.stack.sidecar.pid}/root{data}/ballast")

    @contextmanager
    def full(self) -> Iterator[None]:
        with self._ballast.open("wb", buffering=0) as ballast, suppress(OSError):
            while True:
                ballast.write(bytes(4096))
        try:
            yield
        finally:
            self._ballast.unlink()


class FileLimit:
    """The kernel refuses the sidecar to write beyond the first bytes of any file: what needs no privilege."""

    def __init__(self, on: Installation, data: Path) -> None:
        self._pid = on.stack.sidecar.pid

    @contextmanager
    def full(self) -> Iterator[None]:
        before = resource.prlimit(self._pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._pid, resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            yield
        finally:
            resource.prlimit(self._pid, resource.RLIMIT_FSIZE, before)


@pytest_asyncio.fixture(loop_scope="session", params=["small disk", "file limit"])
async def disk(
    request: pytest.FixtureRequest, tmp_path: Path, model_directory: Path
) -> AsyncIterator[tuple[Installation, FullDisk | FileLimit]]:
    data = tmp_path / "data"
    data.mkdir()
    mounted = request.param == "small disk"
    if mounted and not may_mount():
        pytest.skip("no mount without privileges here; the other way runs")
    before = own_disk(data) if mounted else _LOG_APART
    retain = {"tick_seconds": 0.2, "retry_seconds": 0.2, "retry_max_seconds": 1, "lease_seconds": 3}
    async with installed_with(
        tmp_path,
        model_directory,
        lambda name, log: Behind(name, log, before),
        sidecar_config={"memory": {**PATIENT, "retain": retain}},
    ) as on:
        yield on, FullDisk(on, data) if mounted else FileLimit(on, data)


async def test_a_full_disk(disk: tuple[Installation, FullDisk | FileLimit], figures: Figures) -> None:
    """Requests pass; every turn is remembered or counted as dropped and logged; with room it works again by itself."""
    on, of = disk
    await tell(on, told(PLACES[0]))
    await on.remembers(PLACES[0])
    with of.full():
        for number in range(SAID_WHILE_FULL):
            await tell(on, told(PLACES[1 + number % 20]), APIS[number % 2], text=ANSWER)
            await tell(on, told(PLACES[21 + number % 20]), APIS[number % 2], text=ANSWER, stream=True)
        # A client has its answer before the observer has its copy, and long texts are read in the background.
        await eventually(partial(_all_counted, on, 1 + 2 * SAID_WHILE_FULL), "some are neither accepted nor dropped")
    dropped = await on.metric(DROPPED)
    assert dropped > 0
    assert logged(on, "warning", "Turn dropped") == dropped
    for place in PLACES[-5:]:
        await tell(on, told(place))
        await on.remembers(place)
    accepted = await on.metric("semrouter_memory_turns_total")
    memories = await on.memories()
    figures(
        way=type(of).__name__,
        requests=2 * SAID_WHILE_FULL,
        failed=0,
        dropped=dropped,
        accepted=accepted,
        memories=len(memories),
    )
    assert dropped + accepted == 6 + 2 * SAID_WHILE_FULL
    assert await on.metric("semrouter_memory_exchanges_failed_total") == 0
    await eventually(partial(_as_many, on, accepted), "accepted turns are no memories")


async def _all_counted(on: Installation, said: int) -> bool:
    return await on.metric(DROPPED) + await on.metric("semrouter_memory_turns_total") == said


async def _as_many(on: Installation, accepted: float) -> bool:
    return len(await on.memories()) == accepted


async def test_what_milvus_lite_has_not_on_its_disk_is_refused(tmp_path: Path) -> None:
    """It confirms what a full disk refused, and has lost it at its next start; so it is not asked."""
    if not may_mount():
        pytest.skip("no mount without privileges here")
    script = f"import asyncio; from {__name__} import fill; asyncio.run(fill('{tmp_path}'))"
    ran = await asyncio.create_subprocess_exec(
        *own_disk(tmp_path), sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await ran.communicate()
    told, kept = (set(line.split()) for line in out.decode().splitlines()[-2:])
    assert ran.returncode == 0
    assert told == kept == {"0", "after"}


async def fill(directory: str) -> None:
    """Prints which of some rows were confirmed while the disk was full and after, and which are there after a start."""
    confirmed, alice = [], Scope("alice")
    ballast = Path(directory) / "ballast"
    async with opened(directory) as store:
        await store.upsert(alice, [embedded(memory(alice, "0"))])
        with ballast.open("wb", buffering=0) as filling, suppress(OSError):
            while True:
                filling.write(bytes(4096))
        for number in range(3):
            try:
                await store.upsert(alice, [embedded(memory(alice, f"full-{number}"))])
                confirmed.append(f"full-{number}")
            except StoreUnavailableError as error:
                if not error.disk_full:
                    raise
        ballast.unlink()
        await store.upsert(alice, [embedded(memory(alice, "after"))])
    print(*confirmed, "0", "after")  # noqa: T201 - for the test that runs this in a process of its own
    async with opened(directory) as store:
        page = await store.page(Criteria(alice), limit=10)
    print(*(each.id for each in page.memories))  # noqa: T201


@asynccontextmanager
async def opened(directory: str) -> AsyncIterator[MilvusStore]:
    config = MilvusConfig(dimension=DIMENSION)
    store = MilvusStore(config, data_dir=Path(directory), fingerprint="test", observer=StoreObserver())
    await store.start()
    try:
        yield store
    finally:
        await store.close()


async def test_the_data_directory_is_deleted_and_comes_back(
    tmp_path: Path, model_directory: Path, figures: Figures
) -> None:
    """Requests pass. What would be lost with the process is not accepted but counted and said, until it is back."""
    retain = {"tick_seconds": 0.2}
    async with installed(tmp_path, model_directory, sidecar_config={"memory": {**PATIENT, "retain": retain}}) as on:
        await tell(on, told(PLACES[0]))
        await on.remembers(PLACES[0])
        data, away = tmp_path / "data", tmp_path / "away"
        data.rename(away)
        for place in PLACES[1:6]:
            await tell(on, told(place))
            await tell(on, told(place), APIS[1], stream=True)
        await eventually(partial(_counted, on, DROPPED, 10), "not all turns were counted as dropped")

        async def missed() -> bool:
            return logged(on, "error", "Turn log unavailable") > 0

        await eventually(missed, "no word of its absence")
        away.rename(data)
        await tell(on, told(PLACES[7]))
        await on.remembers(PLACES[7])

        async def said() -> bool:
            return logged(on, "info", "Turn log available again") == 1

        await eventually(said, "no word of its return")
        assert logged(on, "error", "Turn log unavailable") == 1
        shutil.rmtree(data)
        await tell(on, told(PLACES[8]))
        await eventually(partial(_counted, on, DROPPED, 11), "not counted as dropped")
        await on.stack.sidecar.stop()
        await on.stack.start_sidecar()
        await tell(on, told(PLACES[9]))
        await on.remembers(PLACES[9])
        figures(requests=14, failed=0, dropped=11, remembered_after_the_restart=len(await on.memories()))


async def _counted(on: Installation, name: str, count: int) -> bool:
    return await on.metric(name) == count


async def test_the_turn_log_is_damaged_while_it_is_in_use(
    tmp_path: Path, model_directory: Path, figures: Figures
) -> None:
    """Requests pass. The turns that it cannot take are counted, the damage is named, and the sidecar is not ready."""
    config = {"memory": {**PATIENT, "retain": {"tick_seconds": 0.2}}}
    async with installed(tmp_path, model_directory, sidecar_config=config) as on:
        await tell(on, told(PLACES[0]))
        await on.remembers(PLACES[0])
        # Nothing of the file is in the next process's memory yet.
        await on.stack.sidecar.stop()
        await on.stack.start_sidecar()
        path = tmp_path / "data" / "turns.db"
        with path.open("r+b") as file:
            file.seek(_PAGE)
            file.write(b"\xa5" * (path.stat().st_size - _PAGE))
        count = sized(6, 60)
        for number in range(count // 2):
            await tell(on, told(PLACES[1 + number % 20]), APIS[number % 2])
            await tell(on, told(PLACES[1 + number % 20]), APIS[number % 2], stream=True)
        damaged = f'{DROPPED}{{reason="log_damaged"}}'
        await eventually(partial(_counted, on, damaged, count), "not all turns were counted as dropped")
        state = await _readiness(on)
        assert (state.status_code, state.json()["status"]) == (503, "not ready")
        assert (state.json()["model"], state.json()["turn_log"]) == ("loaded", "damaged")

        async def said() -> bool:
            return logged(on, "error", "Turn log damaged, turns are dropped") == 1

        await eventually(said, "the damage was not said")
        assert not any(place in on.stack.sidecar.log.read_text() for place in PLACES)
        await on.stack.sidecar.stop()
        for file_name in ("turns.db", "turns.db-wal", "turns.db-shm"):
            (tmp_path / "data" / file_name).unlink(missing_ok=True)
        await on.stack.start_sidecar()
        assert (await _readiness(on)).status_code == 200
        await tell(on, told(PLACES[30]))
        await on.remembers(PLACES[30])
        figures(requests=count + 2, failed=0, dropped=count)


async def _readiness(on: Installation) -> httpx.Response:
    async with local_client(base_url=on.stack.operator_url) as http:
        return await http.get("/readyz")


# -- damaged files at the start ----------------------------------------------------------------------------------------

Damage = Callable[[Path], object]


def cut(path: Path) -> None:
    """As by a copy that was broken off."""
    os.truncate(path, path.stat().st_size // 2)


def overwritten(path: Path) -> None:
    path.write_bytes(b"not what it was " * 4096)


def overwritten_in_its_middle(path: Path) -> None:
    """Pages that opening the file does not read."""
    with path.open("r+b") as file:
        file.seek(-3 * _PAGE, os.SEEK_END)
        file.write(b"\xa5" * 2 * _PAGE)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("turns.db", cut),
        ("turns.db", overwritten),
        ("turns.db", overwritten_in_its_middle),
        ("state.db", overwritten),
        ("state.db", overwritten_in_its_middle),
        ("model.onnx", cut),
    ],
)
async def test_a_damaged_file_keeps_the_sidecar_from_starting_and_says_so(
    tmp_path: Path, model_directory: Path, name: str, damage: Damage
) -> None:
    """It names the file and what to do, and leaves it as it was found; moved away or made anew, everything starts."""
    model = tmp_path / "model"
    shutil.copytree(model_directory, model)
    await started(tmp_path, model)
    path = next(each for each in (tmp_path / name, model / name) if each.exists())
    damage(path)
    damaged = path.read_bytes()
    with pytest.raises(ConfigurationError) as refusal:
        await started(tmp_path, model)
    assert "damaged" in str(refusal.value)
    assert path.name in str(refusal.value) or str(path.parent) in str(refusal.value)
    assert "move it away" in str(refusal.value) or "model build" in str(refusal.value)
    assert path.read_bytes() == damaged
    shutil.copyfile(model_directory / name, path) if path.parent == model else path.unlink()
    await started(tmp_path, model)


async def started(data: Path, model: Path) -> None:
    """Start everything but a store, and stop it."""
    app = App(
        Config.model_validate(
            {
                "memory": {
                    "data_dir": str(data),
                    "embedding": {"path": str(model)},
                    "milvus": {"address": f"{LOOPBACK}:1"},
                },
                "server": {"listen": f"{LOOPBACK}:0"},
                "management": {name: f"{LOOPBACK}:{free_port()}" for name in ("listen", "operator_listen")},
            }
        )
    )
    await app.start()
    await app.stop()


async def test_a_damaged_store_is_told_apart_from_one_that_is_away(tmp_path: Path) -> None:
    """Milvus Lite does not start on it; the rest runs on and waits for a sound file."""
    path = tmp_path / "milvus.db"
    overwritten(path)
    lite = LiteServer(path)
    with pytest.raises(StoreUnavailableError, match="damaged; put a copy in its place"):
        await asyncio.to_thread(lite.start)
    path.unlink()
    assert await asyncio.to_thread(lite.start)
    await asyncio.to_thread(lite.stop)
