"""`semrouter-memory memory reembed` on Milvus Lite and on a server, with models made here.

It runs in this process, and as its own where that makes a difference: it is killed, or another one has the file.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sqlite3
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from typer.testing import CliRunner

from semrouter_memory.app.adapters import connect
from semrouter_memory.cli import app
from semrouter_memory.config import Config, WorkingSetConfig, load
from semrouter_memory.embedding.bert import BertShape
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import MemoryServiceError, SchemaMismatchError
from semrouter_memory.model import EmbeddedMemory, Memory, Scope, Tombstone
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.telemetry.metrics import Metrics
from semrouter_memory.telemetry.observer import TelemetryObserver
from semrouter_memory.turn_log.redis.connection import RedisConnection
from semrouter_memory.turn_log.redis.generations import RedisGenerations
from semrouter_memory.turn_log.redis.log import RedisTurnLog
from semrouter_memory.turn_log.sqlite.log import SqliteTurnLog
from tests import small_bert
from tests.memories import NOW, memory, vector
from tests.milvus_server import MilvusServer
from tests.redis_server import RedisServer
from tests.store_observer import StoreObserver

pytest_plugins = ("tests.milvus_server", "tests.redis_server")

ALICE, BOB = Scope("alice"), Scope('bob "\n{用户}')
OLD, NEW = BertShape(dimension=16, layers=1, heads=4), BertShape(dimension=24, layers=1, heads=4)
LATER = NOW + timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a run of the command ended."""

    status: int
    output: str
    errors: str

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.output)
        return report


class Place:
    """Two profiles, a configuration file for each, and one place for their collections."""

    def __init__(self, directory: Path, uri: str | None, *, redis: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.uri = uri
        self.redis = redis or {}
        mark = uuid.uuid4().hex[:8]
        self.old_name, self.new_name = f"old_{mark}", f"new_{mark}"
        for name, shape in (("old-model", OLD), ("new-model", NEW)):
            small_bert.write_tokenizer(directory / name)
            small_bert.write_graph(directory / name / "model.onnx", small_bert.weights_of(shape), shape)
        self.old = self.configure("old", self.old_name, OLD)
        self.new = self.configure("new", self.new_name, NEW, pooling="cls", query_prefix="query: ")

    def configure(self, name: str, collection: str, shape: BertShape, **embedding: str) -> Path:
        """Write a configuration file with the model `<name>-model`."""
        settings = {
            "model": f"{name}-bert",
            "dimension": shape.dimension,
            "path": str(self.directory / f"{name}-model"),
            "max_tokens": small_bert.MAX_TOKENS,
            **embedding,
        }
        milvus: dict[str, object] = {"collection": collection, "dimension": shape.dimension}
        if self.uri is not None:
            milvus["uri"] = self.uri
        file = self.directory / f"{collection}.yaml"
        memory_section = {
            "data_dir": str(self.directory / "data"),
            "embedding": settings,
            "milvus": milvus,
            "redis": self.redis,
        }
        file.write_text(yaml.safe_dump({"memory": memory_section}))
        return file

    @contextlib.asynccontextmanager
    async def opened(self, file: Path) -> AsyncIterator[MilvusStore]:
        """The store, as the sidecar with that configuration opens it."""
        config = load(file)
        config.memory.directory.mkdir(exist_ok=True)
        store = MilvusStore(
            config.memory.milvus,
            data_dir=config.memory.directory,
            fingerprint=embedder_of(config).fingerprint,
            observer=StoreObserver().port(),
        )
        await store.start()
        try:
            yield store
        finally:
            await store.close()

    @contextlib.contextmanager
    def turn_log(self) -> Any:
        log = SqliteTurnLog(self.directory / "data" / "turns.db", clock=SystemClock())
        try:
            yield log
        finally:
            log.close()

    async def remember(self, *memories: Memory) -> None:
        """In the old collection."""
        async with self.opened(self.old) as store:
            await write(store, embedder_of(load(self.old)), memories)

    async def everything(self, file: Path) -> dict[tuple[str, str], Memory]:
        async with self.opened(file) as store:
            return {(each.scope.user_id, each.id): each async for batch in store.scan() for each in batch}

    async def start(self, *options: str, file: Path | None = None) -> asyncio.subprocess.Process:
        arguments = ["-m", "semrouter_memory", "memory", "reembed", "--config", str(file or self.new), *options]
        return await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=-1, stderr=-1, env=environment()
        )

    async def run(self, *options: str, file: Path | None = None) -> Ran:
        """As its own process."""
        process = await self.start(*options, file=file)
        output, errors = await process.communicate()
        assert process.returncode is not None
        return Ran(process.returncode, output.decode(), errors.decode())

    async def reembed(self, *options: str, file: Path | None = None) -> Ran:
        """In this process, with a loop of its own."""
        arguments = ["memory", "reembed", "--config", str(file or self.new), *options]
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
        if result.exception is not None and not isinstance(result.exception, MemoryServiceError | SystemExit):
            raise result.exception
        if isinstance(result.exception, MemoryServiceError):
            # As `main` does.
            return Ran(2, result.stdout, f"{result.stderr}{result.exception}")
        return Ran(result.exit_code, result.stdout, result.stderr)


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONWARNINGS": "ignore"}


def embedder_of(config: Config) -> OnnxEmbedder:
    return OnnxEmbedder.load(config.memory.embedding, config.memory.model_directory)


async def write(store: MilvusStore, embedder: OnnxEmbedder, memories: Sequence[Memory]) -> None:
    for user_id in {each.scope.user_id for each in memories}:
        own = [each for each in memories if each.scope.user_id == user_id]
        vectors = await embedder.embed_passages([each.content for each in own])
        rows = [EmbeddedMemory(each, vector) for each, vector in zip(own, vectors, strict=True)]
        await store.upsert(Scope(user_id), rows)


MEMORIES = (
    memory(ALICE, "mem_1", content="user likes tea", metadata={"turn_ids": ["t1"], "nested": {"b": 1.5, "a": None}}),
    replace(memory(ALICE, "mem_0", content="user likes coffee", superseded_at=NOW), superseded_by="mem_1"),
    memory(Scope("alice", "apollo", "agent"), "mem_2", content="budget is $", expires_at=NOW - timedelta(days=400)),
    memory(BOB, "mem_1", content="user lives in berlin"),
)


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Messages are wrapped by nothing; and the command's logging, set up for a process, ends with the test."""
    monkeypatch.setenv("COLUMNS", "500")
    root = logging.getLogger()
    handlers, level, raising = root.handlers[:], root.level, logging.raiseExceptions
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = raising
    structlog.reset_defaults()


@pytest.fixture(params=["lite", "server"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    server: MilvusServer | None = request.getfixturevalue("milvus_server") if request.param == "server" else None
    return Place(tmp_path, server.uri if server else None)


@pytest.fixture
def lite(tmp_path: Path) -> Place:
    return Place(tmp_path, None)


@pytest.fixture
def on_server(tmp_path: Path, milvus_server: MilvusServer) -> Place:
    return Place(tmp_path, milvus_server.uri)


async def test_all_memories_are_found_by_the_new_model_and_the_old_collection_is_as_it_was(place: Place) -> None:
    """And a second run finds nothing to do."""
    await place.remember(*MEMORIES)
    before = await place.everything(place.old)
    ran = await place.reembed("--from-collection", place.old_name)
    assert ran.status == 0, ran.errors
    assert f"{place.new_name} holds all 4 memories of {place.old_name}" in ran.output
    assert f"--drop-source --from-collection {place.old_name}" in ran.output
    assert "berlin" not in ran.output + ran.errors
    assert await place.everything(place.new) == before == await place.everything(place.old)
    embedder = embedder_of(load(place.new))
    async with place.opened(place.new) as store:
        (passage,) = await embedder.embed_passages(["user likes tea"])
        hits = await store.search(ALICE, passage, limit=2, now=NOW, fresh=True)
    assert [(hit.memory.id, round(hit.similarity, 4)) for hit in hits] == [("mem_1", 1.0)]
    again = await place.reembed("--from-collection", place.old_name, "--json")
    assert again.status == 0
    assert (again.report["copied"], again.report["removed"], again.report["memories"]) == (0, 0, 4)


@contextlib.asynccontextmanager
async def generations_of(place: Place) -> AsyncIterator[RedisGenerations]:
    """As another sidecar sees them."""
    connection = RedisConnection(load(place.new).memory.redis)
    yield RedisGenerations(connection, prefix="reembed", patience_seconds=10)
    await connection.aclose()


@pytest.fixture
def shared(tmp_path: Path, own_redis_server: RedisServer) -> Place:
    """On Milvus Lite and Redis."""
    return Place(tmp_path, None, redis={"url": own_redis_server.url, "prefix": "reembed"})


async def test_sidecars_that_use_the_target_already_are_told_of_what_is_written_to_it(shared: Place) -> None:
    """Or they would show for minutes what they have at hand."""
    await shared.remember(*MEMORIES)
    async with generations_of(shared) as generations:
        before = await generations.current(ALICE)
        ran = await shared.reembed("--from-collection", shared.old_name)
        assert ran.status == 0, ran.errors
        assert await generations.current(ALICE) != before


async def test_a_sidecar_that_keeps_nothing_at_hand_tells_the_others_of_its_writes(shared: Place) -> None:
    settings = load(shared.new).memory.model_copy(update={"working_set": WorkingSetConfig(enabled=False)})
    observer = TelemetryObserver(Metrics())
    async with contextlib.AsyncExitStack() as exits:
        adapters = await connect(settings, observer=observer, arrived=lambda _, __: None, on_exit=exits)
        assert adapters.shelves is None
        generations = await exits.enter_async_context(generations_of(shared))
        before = await generations.current(ALICE)
        await adapters.store.upsert(ALICE, [EmbeddedMemory(MEMORIES[0], vector(0, dimension=NEW.dimension))])
        assert await generations.current(ALICE) != before


async def test_a_collection_with_memories_that_do_not_say_whose_they_are_is_not_dropped(place: Place) -> None:
    """Only a digest is stored of a user's id that is so long."""
    await place.remember(*MEMORIES, memory(Scope("x" * 70_000), "mem_1"))
    ran = await place.reembed("--from-collection", place.old_name, "--drop-source", "--yes", "--json")
    assert ran.status == 1, ran.errors
    assert (ran.report["copied"], ran.report["failed"], ran.report["dropped"]) == (4, 1, False)


async def test_what_was_deleted_is_in_neither_and_stays_out(place: Place) -> None:
    """Deleted before with its row left behind, deleted between two runs, and gone from the old collection alone."""
    await place.remember(*MEMORIES, memory(BOB, "mem_7"), memory(BOB, "mem_8"))
    with place.turn_log() as log:
        await log.tombstone(Tombstone(scope=ALICE, at=LATER, memory_id="mem_0"))
    first = await place.reembed("--json", "--from-collection", place.old_name)
    assert (first.status, first.report["copied"], first.report["buried"]) == (0, 5, 1), first.errors
    with place.turn_log() as log:
        await log.tombstone(Tombstone(scope=BOB, at=LATER, memory_id="mem_7"))
    async with place.opened(place.old) as store:
        await store.delete(BOB, ["mem_8"])
    second = await place.reembed("--json", "--from-collection", place.old_name)
    assert (second.status, second.report["copied"], second.report["removed"]) == (0, 0, 2), second.errors
    left = {("alice", "mem_1"), ("alice", "mem_2"), (BOB.user_id, "mem_1")}
    assert set(await place.everything(place.new)) == left


async def test_a_killed_run_goes_on_where_it_was(lite: Place) -> None:
    """The memories that it had written are not embedded again. On Milvus Lite, whose file dies with its process."""
    many = [memory(ALICE, f"mem_{number:04d}", content="user likes tea") for number in range(800)]
    await lite.remember(*many)
    process = await lite.start("--from-collection", lite.old_name)
    async with asyncio.timeout(60):
        noted = 0
        while noted < 100:
            await asyncio.sleep(0.01)
            noted = noted_in(lite.directory / "data" / "reembed.db")
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    ran = await lite.reembed("--from-collection", lite.old_name, "--json")
    assert ran.status == 0, ran.errors
    assert 0 < ran.report["copied"] <= 750
    assert ran.report["memories"] == 800
    assert await lite.everything(lite.new) == await lite.everything(lite.old)


def noted_in(ledger: Path) -> int:
    with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(ledger)) as connection:
        return int(connection.execute("SELECT count(*) FROM copies").fetchone()[0])
    return 0


async def test_on_a_server_the_sidecar_may_go_on_and_another_run_catches_up(on_server: Place) -> None:
    """And the last one, when no sidecar needs it any more, drops what was copied."""
    embedder = embedder_of(load(on_server.old))
    async with on_server.opened(on_server.old) as store:
        await write(store, embedder, MEMORIES)
        assert (await on_server.reembed("--from-collection", on_server.old_name)).status == 0
        changed = replace(MEMORIES[0], content="user likes coffee", updated_at=LATER)
        await write(store, embedder, [changed, memory(ALICE, "mem_9", created_at=LATER)])
        ran = await on_server.reembed("--from-collection", on_server.old_name, "--json")
        assert (ran.status, ran.report["copied"]) == (0, 2), ran.errors
    found = await on_server.everything(on_server.new)
    assert found["alice", "mem_1"] == changed
    assert found == await on_server.everything(on_server.old)
    last = await on_server.reembed("--from-collection", on_server.old_name, "--drop-source", "--yes", "--json")
    assert (last.status, last.report["dropped"]) == (0, True), last.errors
    assert await on_server.everything(on_server.old) == {}
    assert await on_server.everything(on_server.new) == found


async def test_deletions_of_a_shared_log_count_and_without_it_nothing_is_copied(
    tmp_path: Path, own_redis_server: RedisServer
) -> None:
    """Nobody could say then what was deleted."""
    place = Place(tmp_path, None, redis={"url": own_redis_server.url, "prefix": "reembed"})
    await place.remember(*MEMORIES)
    connection = RedisConnection(load(place.old).memory.redis)
    await connection.start()
    log = RedisTurnLog(
        tmp_path / "turns.db",
        connection,
        prefix="reembed",
        clock=SystemClock(),
        shipped=lambda _, __: None,
        on_error=lambda _: None,
    )
    await log.start()
    await log.tombstone(Tombstone(scope=ALICE, at=LATER, memory_id="mem_0"))
    await log.stop()
    await connection.aclose()
    own_redis_server.kill()
    away = await place.reembed()
    assert away.status == 2, away.output
    assert await place.everything(place.new) == {}
    own_redis_server.start()
    ran = await place.reembed("--json")
    assert (ran.status, ran.report["copied"], ran.report["buried"]) == (0, 3, 1), ran.errors


async def test_a_running_sidecar_on_milvus_lite_is_a_clear_refusal(lite: Place) -> None:
    async with lite.opened(lite.old) as store:
        await write(store, embedder_of(load(lite.old)), MEMORIES)
        ran = await lite.run()
    assert ran.status == 2
    assert "Milvus Lite belongs to one process. Stop the other one" in ran.errors
    assert "Traceback" not in ran.errors


async def test_a_configuration_that_still_names_the_old_collection_may_name_the_new_one_beside(lite: Place) -> None:
    """Otherwise it is refused with what to do, and nothing is written."""
    await lite.remember(*MEMORIES)
    same = lite.configure("new", lite.old_name, NEW)
    refused = await lite.reembed(file=same)
    assert refused.status == 2
    assert "--to-collection" in refused.errors
    ran = await lite.reembed("--to-collection", "fresh", file=same)
    assert ran.status == 0, ran.errors
    assert "set memory.milvus.collection to fresh" in ran.output
    fresh = lite.configure("new", "fresh", NEW)
    lite.configure("old", lite.old_name, OLD)
    assert await lite.everything(fresh) == await lite.everything(lite.old)


async def test_the_copied_collection_is_dropped_only_when_that_is_asked_for_and_confirmed(lite: Place) -> None:
    """And then its texts are in the file once, in the new collection. The only other collection need not be named."""
    await lite.remember(*MEMORIES, memory(ALICE, "mem_5", content="gone-XQZJ"))
    with lite.turn_log() as log:
        await log.tombstone(Tombstone(scope=ALICE, at=LATER, memory_id="mem_5"))
    unconfirmed = await lite.reembed("--drop-source")
    assert unconfirmed.status != 0
    assert len(await lite.everything(lite.old)) == 5
    ran = await lite.reembed("--drop-source", "--yes")
    assert ran.status == 0, ran.errors
    assert f"from {lite.old_name} to {lite.new_name} (new-bert/24/" in ran.errors
    assert f"{lite.old_name} is deleted" in ran.output
    assert len(await lite.everything(lite.new)) == 4
    files = [path for path in (lite.directory / "data").rglob("*") if path.is_file() and "milvus.db" in str(path)]
    assert b"gone-XQZJ" not in b"".join(file.read_bytes() for file in files)
    nothing_left = await lite.reembed()
    assert (nothing_left.status, "others here: none" in nothing_left.errors) == (2, True), nothing_left.errors


async def test_a_server_that_is_away_is_said_in_one_line(tmp_path: Path) -> None:
    ran = await Place(tmp_path, "http://127.0.0.1:9").reembed()
    assert ran.status == 2
    assert "Milvus does not answer" in ran.errors.splitlines()[-1]
    assert "Traceback" not in ran.errors


async def test_the_refusal_at_the_sidecars_start_names_the_command(lite: Place) -> None:
    await lite.remember(*MEMORIES)
    with pytest.raises(SchemaMismatchError, match="semrouter-memory memory reembed"):
        async with lite.opened(lite.configure("new", lite.old_name, NEW)):
            pass
