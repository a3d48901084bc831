"""Several processes behind one address: how connections reach them, what is refused, and what the operator reads."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from semrouter_memory.app import preflight
from semrouter_memory.app.adapters import SystemClock
from semrouter_memory.app.relay import Relay
from semrouter_memory.config import Config
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.manage.processes import merged_metrics
from semrouter_memory.model import Scope, SessionHints, Turn
from semrouter_memory.stack.loopback import LOOPBACK, free_port
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from semrouter_memory.turn_log.sqlite_rows import SHARED_KEY
from tests.replicas import until

LARGE = 48 * 1024 * 1024
"""More than the buffers on the way hold."""


class Greeting(asyncio.Protocol):
    """A process that says its name before anything else, and then all that it is told, no faster than it is read.

    Args:
        connections: those of the process that are open.
    """

    def __init__(self, name: bytes, connections: "set[Greeting]") -> None:
        self._name = name
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)
        transport.write(self._name)

    def connection_lost(self, _: Exception | None) -> None:
        self._connections.remove(self)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)

    def pause_writing(self) -> None:
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._transport.resume_reading()


Connections = set[Greeting]


@asynccontextmanager
async def greeting(path: Path, name: bytes) -> AsyncIterator[Connections]:
    """Yields the connections that are open; in the end all of them are closed."""
    connections = Connections()
    async with await asyncio.get_running_loop().create_unix_server(lambda: Greeting(name, connections), path):
        yield connections
        await left(connections, 0)


async def left(connections: Connections, count: int) -> None:
    """Wait until so many are open: the other end of one that was closed is closed a moment later."""

    async def reached() -> bool:
        return len(connections) == count

    await until(reached)


Connect = Callable[[], Awaitable[tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]]]


@asynccontextmanager
async def relayed(*targets: Path) -> AsyncIterator[Connect]:
    """Yields what opens a connection, and returns the name of the process at its other end first."""
    relay, opened = Relay(f"{LOOPBACK}:0", targets), list[asyncio.StreamWriter]()
    relay.start()

    async def connect() -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(LOOPBACK, relay.port)
        opened.append(writer)
        return await reader.readexactly(1), reader, writer

    try:
        yield connect
    finally:
        await relay.stop()
        for writer in opened:
            writer.close()


async def test_connections_go_to_the_process_that_has_the_fewest(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    async with greeting(one, b"1") as ones, greeting(two, b"2"), relayed(one, two) as connect:
        opened = await asyncio.gather(*(connect() for _ in range(10)))
        assert sorted(name for name, _, _ in opened) == [b"1"] * 5 + [b"2"] * 5
        for _, _, writer in [each for each in opened if each[0] == b"1"][:2]:
            writer.close()
        await left(ones, 3)
        assert [(await connect())[0] for _ in range(2)] == [b"1", b"1"]


async def test_a_process_that_does_not_accept_is_passed_over(tmp_path: Path) -> None:
    async with greeting(tmp_path / "two", b"2"), relayed(tmp_path / "one", tmp_path / "two") as connect:
        assert [(await connect())[0] for _ in range(3)] == [b"2"] * 3


async def test_with_no_process_a_connection_is_closed(tmp_path: Path) -> None:
    async with relayed(tmp_path / "one") as connect:
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await connect()


async def test_all_bytes_arrive_however_slowly_they_are_read(tmp_path: Path) -> None:
    """What is not read yet waits with its sender, not here."""
    sent = os.urandom(LARGE)
    async with greeting(tmp_path / "one", b"1"), relayed(tmp_path / "one") as connect:
        _, reader, writer = await connect()
        writing = asyncio.create_task(_write(writer, sent))
        await asyncio.sleep(0.3)
        assert not writing.done()
        assert await reader.readexactly(LARGE) == sent
        await writing


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    for start in range(0, len(data), 65_536):
        writer.write(data[start : start + 65_536])
        await writer.drain()


def test_metrics_carry_their_process_and_each_family_is_there_once() -> None:
    text = (
        '# HELP a_total Of {this}.\n# TYPE a_total counter\na_total{x="{y}"} 1.0\n# HELP b B.\n# TYPE b gauge\nb 2.0\n'
    )
    assert merged_metrics({"process-0": text, "process-1": text}) == (
        "# HELP a_total Of {this}.\n# TYPE a_total counter\n"
        'a_total{process="process-0",x="{y}"} 1.0\na_total{process="process-1",x="{y}"} 1.0\n'
        '# HELP b B.\n# TYPE b gauge\nb{process="process-0"} 2.0\nb{process="process-1"} 2.0\n'
    )


REDIS, MILVUS = {"redis": {"url": "redis://127.0.0.1:1"}}, {"milvus": {"uri": "http://127.0.0.1:1"}}


@pytest.mark.parametrize(
    ("memory", "named", "not_named"),
    [
        ({}, ["memory.redis.url", "memory.milvus.uri"], []),
        (REDIS, ["memory.milvus.uri"], ["memory.redis.url"]),
        (REDIS | {"milvus": {"uri": "here.db"}}, ["memory.milvus.uri"], ["memory.redis.url"]),
        (MILVUS, ["memory.redis.url"], ["memory.milvus.uri"]),
    ],
)
def test_several_processes_need_a_redis_and_a_milvus_server(
    memory: dict[str, Any], named: list[str], not_named: list[str]
) -> None:
    with pytest.raises(ConfigurationError, match=r"server\.processes is 2") as refused:
        preflight.check_file(Config(server={"processes": 2}, memory=memory))
    assert all(name in str(refused.value) for name in named)
    assert not any(name in str(refused.value) for name in not_named)
    preflight.check_file(Config(server={"processes": 2}, memory=REDIS | MILVUS))


@pytest.mark.parametrize(("directory", "processes"), [("", 2), ("process-2", 2), ("process-0", 1)])
async def test_turns_that_no_process_would_forward_are_named(tmp_path: Path, directory: str, processes: int) -> None:
    config = Config(
        server={"processes": processes}, memory=REDIS | MILVUS | {"data_dir": str(tmp_path)}, management=free_ports()
    )
    path = tmp_path / directory / "turns.db"
    path.parent.mkdir(exist_ok=True)
    turn_log = SqliteTurnLog(path, clock=SystemClock())
    turn_log.close()
    preflight.check(config)
    with closing(sqlite3.connect(path)) as spool:
        spool.execute("INSERT INTO spool (run, complete, observed_at, owner, project_id) VALUES ('', 1, 0, '', '')")
        spool.commit()
    with pytest.raises(ConfigurationError, match="wait in") as refused:
        preflight.check(config)
    assert str(path.parent) in str(refused.value)


async def test_a_log_that_was_kept_without_redis_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    """Its waiting turns, deletions and pauses are in no Redis. Once it is used with one, it is the spool alone."""
    path, alice = tmp_path / "turns.db", Scope("alice")
    turn_log = SqliteTurnLog(path, clock=SystemClock())
    config = Config(memory=REDIS | MILVUS | {"data_dir": str(tmp_path)}, management=free_ports())
    preflight.check(config)
    said = Turn(scope=alice, hints=SessionHints(), user_texts=("x",), assistant_text="y", observed_at=datetime.now(UTC))
    turn_log.append(said, remember=False)
    with pytest.raises(ConfigurationError, match="1 turns that wait or are dead letters, and what 0 users"):
        preflight.check(config)
    await turn_log.set_paused(alice, paused=True)
    turn_log.close()
    for processes in (1, 2):
        config = Config(
            server={"processes": processes},
            memory=REDIS | MILVUS | {"data_dir": str(tmp_path)},
            management=free_ports(),
        )
        with pytest.raises(ConfigurationError, match="what 1 users") as refused:
            preflight.check(config)
        assert str(path) in str(refused.value)
    preflight.check(Config(memory=MILVUS | {"data_dir": str(tmp_path)}, management=free_ports()))
    with closing(sqlite3.connect(path)) as shared:
        shared.execute("INSERT INTO settings VALUES (?, x'00')", (SHARED_KEY,))
        shared.commit()
    preflight.check(config)


async def test_turns_on_their_way_to_redis_are_not_left_there(tmp_path: Path) -> None:
    path = tmp_path / "turns.db"
    turn_log = SqliteTurnLog(path, clock=SystemClock())
    turn_log.close()
    with closing(sqlite3.connect(path)) as spool:
        spool.execute("INSERT INTO spool (run, complete, observed_at, owner, project_id) VALUES ('', 1, 0, '', '')")
        spool.commit()
    preflight.check(Config(memory=REDIS | MILVUS | {"data_dir": str(tmp_path)}, management=free_ports()))
    with pytest.raises(ConfigurationError, match=r"memory\.redis\.url is not set, and 1 turns") as refused:
        preflight.check(Config(memory=MILVUS | {"data_dir": str(tmp_path)}, management=free_ports()))
    assert str(path) in str(refused.value)


def free_ports() -> dict[str, str]:
    return {"listen": f"{LOOPBACK}:{free_port()}", "operator_listen": f"{LOOPBACK}:{free_port()}"}


@pytest.mark.parametrize(
    ("memory", "arguments", "why"),
    [
        ({}, ["--processes", "2"], "server.processes is 2"),
        (REDIS | MILVUS, ["--processes", "2"], "2 of 2 processes did not start"),
    ],
    ids=["refused", "children end"],
)
def test_serve_ends_with_an_error_when_its_processes_cannot_serve(
    tmp_path: Path, memory: dict[str, Any], arguments: list[str], why: str
) -> None:
    """Here the embedding model is missing, which each of them finds."""
    memory = {**memory, "data_dir": str(tmp_path / "data"), "embedding": {"path": str(tmp_path / "none")}}
    values = {"memory": memory, "server": {"listen": f"{LOOPBACK}:{free_port()}"}, "management": free_ports()}
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    command = [sys.executable, "-m", "semrouter_memory", "serve", "--config", str(file), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert why in ended.stderr
    assert "Traceback" not in ended.stderr
