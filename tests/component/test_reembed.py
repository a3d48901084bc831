"""`semrouter-memory memory reembed`: the memories of another collection, embedded again by the sidecar that runs."""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from semrouter_memory.cli import app as command_line
from semrouter_memory.config import ManagementConfig, MilvusConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.errors import ConfigurationError, InvalidRequestError
from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.model import Criteria, EmbeddedMemory, Memory, Scope, Tombstone
from semrouter_memory.ports import MemoryWriter
from semrouter_memory.retain.redact import Redaction
from semrouter_memory.state.local import SqliteStateStore
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.store.schema import row_from
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.hashed import HashedEmbedder
from tests.memories import NOW, memory
from tests.memory_service import access_to, backends_of, memory_service, operator_api
from tests.milvus_server import MilvusServer
from tests.store_observer import StoreObserver
from tests.unit.maintenance.parts import SteppingClock

pytest_plugins = ("tests.milvus_server",)

on_both = pytest.mark.parametrize("place", ["server", "lite"], indirect=True)
"""Of the tests that read or drop whole collections; each one that is opened takes a server seconds."""
ALICE, BOB = Scope("alice"), Scope("bob (用户)")
OLD, NEW = HashedEmbedder(dimension=16), HashedEmbedder(dimension=24)
LATER = NOW + timedelta(hours=1)

MEMORIES = (
    memory(ALICE, "mem_1", content="user likes tea", metadata={"turn_ids": ["t1"], "nested": {"b": 1.5, "a": None}}),
    replace(memory(ALICE, "mem_0", content="user likes coffee", superseded_at=NOW), superseded_by="mem_1"),
    memory(Scope("alice", "apollo"), "mem_2", content="budget\u2028is\x85$", expires_at=NOW - timedelta(days=400)),
    memory(BOB, "mem_1", content="user lives in berlin", metadata={"asserted_at": LATER.isoformat()}),
)


@dataclass
class Place:
    """One place for two collections, and a turn log that both share."""

    directory: Path
    uri: str | None
    log: SqliteTurnLog
    old_name: str
    new_name: str

    @contextlib.asynccontextmanager
    async def opened(self, name: str, embedder: HashedEmbedder) -> AsyncIterator[MilvusStore]:
        config: dict[str, Any] = {"collection": name, "dimension": embedder.dimension}
        store = MilvusStore(
            MilvusConfig(**config, timeout_ms=30_000, **({"uri": self.uri} if self.uri else {})),
            data_dir=self.directory,
            fingerprint=embedder.fingerprint,
            observer=StoreObserver(),
        )
        await store.start()
        try:
            yield store
        finally:
            await store.close()

    async def remember(self, *memories: Memory) -> None:
        """In the old collection."""
        async with self.opened(self.old_name, OLD) as store:
            await write(store, *memories)

    @contextlib.asynccontextmanager
    async def sidecar(self) -> AsyncIterator[MilvusStore]:
        """With the new collection; its operator's port is a socket in the directory."""
        state = SqliteStateStore(self.directory / "state.db", clock=SteppingClock())
        async with self.opened(self.new_name, NEW) as store:
            backends = backends_of(store=store, embedder=NEW, turn_log=self.log, state=state, clock=SteppingClock())
            deletion = DeletionService(backends)
            service = memory_service(backends, deletion=deletion, redact=Redaction, config=ManagementConfig())
            access, collections = access_to(service), store.collections
            api = operator_api(access, backends=backends, deletion=deletion, collections=collections)
            server = await serve_http(api, f"unix:{self.directory}/o.sock")
            try:
                yield store
            finally:
                await server.stop()
                state.close()

    async def reembed(self, *options: str) -> Result:
        (self.directory / "token").write_text("operator-token")
        connection = ["--url", f"unix:{self.directory}/o.sock", "--operator-token-file", str(self.directory / "token")]
        return await asyncio.to_thread(CliRunner().invoke, command_line, ["memory", "reembed", *connection, *options])

    async def copied(self, *options: str) -> dict[str, Any]:
        result = await self.reembed("--json", "--from-collection", self.old_name, *options)
        assert result.exit_code == 0, (result.output, result.exception)
        report: dict[str, Any] = json.loads(result.stdout)
        return report


async def write(store: MemoryWriter, *memories: Memory) -> None:
    for each in memories:
        (vector,) = await OLD.embed_passages([each.content])
        await store.upsert(each.scope, [EmbeddedMemory(each, vector)])


async def everything(store: MilvusStore, name: str) -> dict[tuple[str, str], Memory]:
    return {(each.scope.owner, each.id): each async for batch in store.collections.scan(name) for each in batch}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Milvus Lite's, unless a test says otherwise."""
    on_server = getattr(request, "param", "lite") == "server"
    server: MilvusServer | None = request.getfixturevalue("milvus_server") if on_server else None
    log = SqliteTurnLog(tmp_path / "turns.db", clock=SteppingClock())
    mark = uuid.uuid4().hex[:8]
    yield Place(tmp_path, server.uri if server else None, log, f"old_{mark}", f"new_{mark}")
    log.close()


@on_both
async def test_every_memory_is_copied_as_it_was_and_found_by_the_new_embedding(place: Place) -> None:
    """History, metadata and expired ones included; repeating it changes nothing."""
    await place.remember(*MEMORIES)
    async with place.sidecar() as store:
        report = await place.copied()
        assert (report["imported"], report["skipped"], report["refused"]) == (4, 0, 0)
        expected = {(each.scope.owner, each.id): each for each in MEMORIES}
        assert await everything(store, place.new_name) == expected == await everything(store, place.old_name)
        (query,) = await NEW.embed_passages(["user likes tea"])
        hits = await store.search(Criteria(ALICE, active_at=NOW), query, limit=1, fresh=True)
        assert [(hit.memory.id, round(hit.similarity, 4)) for hit in hits] == [("mem_1", 1.0)]
        assert (await place.copied())["skipped"] == 4


async def test_deleted_memories_stay_deleted_and_newer_versions_win(place: Place) -> None:
    await place.remember(*MEMORIES)
    await place.log.tombstone(Tombstone(scope=ALICE, at=LATER, memory_id="mem_0"))
    async with place.sidecar() as store:
        assert (await place.copied())["imported"] == 3
        assert ("user:alice", "mem_0") not in await everything(store, place.new_name)
        (vector,) = await NEW.embed_passages(["x"])
        newer = replace(MEMORIES[0], content="user likes rye", updated_at=LATER)
        await store.upsert(ALICE, [EmbeddedMemory(newer, vector)])
    # Meanwhile another sidecar still wrote to the old collection.
    changed = replace(MEMORIES[3], content="user lives in bergen", updated_at=LATER)
    await place.remember(changed)
    async with place.sidecar() as store:
        assert (await place.copied())["imported"] == 1
        found = await everything(store, place.new_name)
        assert (found["user:alice", "mem_1"], found[BOB.owner, "mem_1"]) == (newer, changed)


async def test_an_interrupted_copy_is_repeated(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored is not embedded again."""
    await place.remember(*(memory(ALICE, f"mem_{number}", content=f"fact {number}") for number in range(5)))
    monkeypatch.setattr("semrouter_memory.cli.importing.PART_LINES", 2)
    async with place.sidecar() as store:
        await place.copied()
        await store.delete(ALICE, ["mem_3"])
        report = await place.copied()
        assert (report["imported"], report["skipped"]) == (1, 4)
        assert len(await everything(store, place.new_name)) == 5


async def test_what_a_killed_process_was_writing_is_copied_and_leaves_with_the_collection(place: Place) -> None:
    """Milvus Lite deletes a row before it writes it anew: then the row is in the journal alone."""
    killed = memory(ALICE, "mem_1", content="user likes tea")
    async with place.opened(place.old_name, OLD) as store:
        await write(store, memory(ALICE, "mem_2", content="user likes coffee"))
        (vector,) = await OLD.embed_passages([killed.content])
        journal = store._ahead.journal
        journal.add([row_from(ALICE, EmbeddedMemory(killed, vector), dimension=OLD.dimension)])
    async with place.sidecar() as store:
        await place.copied()
        assert {key[1] for key in await everything(store, place.new_name)} == {"mem_1", "mem_2"}
        await place.copied("--drop-source", "--yes")
        assert journal.is_empty()


async def test_the_copied_collection_is_dropped_only_when_asked_and_confirmed(place: Place) -> None:
    """Its texts are then in no file of Milvus Lite."""
    await place.remember(*MEMORIES, memory(ALICE, "mem_9", content="gone-XQZJ"))
    await place.log.tombstone(Tombstone(scope=ALICE, at=LATER, memory_id="mem_9"))
    async with place.sidecar() as store:
        refused = await place.reembed("--from-collection", place.old_name, "--drop-source")
        assert refused.exit_code != 0
        assert place.old_name in await store.collections.embeddings()
        assert (await place.copied("--drop-source", "--yes"))["dropped"] is True
        assert place.old_name not in await store.collections.embeddings()
        assert len(await everything(store, place.new_name)) == 4
    if place.uri is None:
        files = [path for path in place.directory.rglob("*") if path.is_file() and "milvus" in str(path)]
        assert b"gone-XQZJ" not in b"".join(file.read_bytes() for file in files)


@on_both
async def test_the_documents_of_a_dropped_collection_are_dropped_with_it(place: Place) -> None:
    """Those of other collections stay, also where a name begins with the dropped one's."""
    await place.remember(*MEMORIES)
    another = f"{place.old_name}_2"
    for name in (place.old_name, another):
        async with place.opened(name, OLD) as store:
            await write(store.secondary("knowledge"), memory(ALICE, "doc_1", content=f"page of {name}."))
    async with place.sidecar():
        assert (await place.copied("--drop-source", "--yes"))["dropped"] is True
    if place.uri is None:
        files = [path for path in place.directory.rglob("*") if path.is_file() and "milvus" in str(path)]
        assert f"page of {place.old_name}.".encode() not in b"".join(file.read_bytes() for file in files)
    for name, left in ((place.old_name, 0), (another, 1)):
        async with place.opened(name, OLD) as store:
            documents = await store.secondary("knowledge").page(Criteria(ALICE), limit=10)
            assert len(documents.memories) == left


async def test_a_source_that_does_not_exist_is_refused_with_those_that_do(place: Place) -> None:
    """The collection in use is no source, and the refusal at the start names the command."""
    await place.remember(*MEMORIES)
    async with place.sidecar():
        for name in ("nowhere", place.new_name):
            result = await place.reembed("--from-collection", name)
            assert isinstance(result.exception, InvalidRequestError)
            assert f"{place.old_name} (" in str(result.exception)
    with pytest.raises(ConfigurationError, match="semrouter-memory memory reembed"):
        async with place.opened(place.old_name, NEW):
            pass
