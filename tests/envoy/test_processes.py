"""Several processes behind one address: they share the load and what they know, and none of them is missed when it dies."""

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from bench import accounting
from semrouter_memory.stack.loopback import local_client
from tests.milvus_server import MilvusServer
from tests.redis_server import RedisServer

from .client import CHAT
from .conftest import ALICE, BOB, Installation, all_streams_ended, eventually, installed
from .replicas import OPERATOR, accepted_in, on_redis, settings

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

PROCESSES = ("process-0", "process-1")
TOLD = "My budget for the Hawaii trip is $10,000"
ASKED = "What's my budget for the Hawaii trip?"
LEAST_SHARE = 0.25
CONNECTION_SECONDS = 0.5
"""Short, so that a process that was restarted is soon given connections."""
SAMPLE = re.compile(r'^semrouter_memory_recalls_total\{process="([^"]+)",reason="([^"]+)"\} (\S+)$', re.MULTILINE)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def running(
    tmp_path_factory: pytest.TempPathFactory,
    model_directory: Path,
    milvus_server: MilvusServer,
    redis_server: RedisServer,
) -> AsyncIterator[Installation]:
    """Both processes behind the shipped chain."""
    config = settings(milvus_server, **on_redis(redis_server, prefix="processes"))
    config["server"] = {"processes": len(PROCESSES), "max_connection_seconds": CONNECTION_SECONDS}
    async with installed(
        tmp_path_factory.mktemp("processes"),
        model_directory,
        sidecar_config=config,
        environment={"SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN": OPERATOR},
    ) as installation:
        yield installation


async def test_requests_are_shared_out_also_beside_long_streams(running: Installation) -> None:
    at_first = await recalls(running)
    streams = [asyncio.create_task(streamed(running, delay_ms=300)) for _ in range(12)]
    beside = at_first + await recalls_since(running, at_first, count=12)
    # As many as need several of Envoy's connections: it fills the first one before it takes another.
    await ask(running, 96, connections=16)
    shares = await recalls_since(running, beside, count=96)
    by_process = {name: sum(shares[name, reason] for _, reason in shares if _ == name) for name in PROCESSES}
    assert min(by_process.values()) >= 96 * LEAST_SHARE, by_process
    assert all([(await stream).endswith("data: [DONE]\n\n") for stream in streams])


async def test_what_one_process_learned_the_others_recall(running: Installation) -> None:
    await ask(running, 1, text=TOLD)
    await running.remembers("$10,000")

    async def recalled_by_both() -> bool:
        before = await recalls(running)
        await ask(running, 16, connections=8)
        gained = await recalls(running) - before
        return all(gained[name, "injected"] for name in PROCESSES)

    await eventually(recalled_by_both, "one of them does not recall it")


async def test_a_process_that_is_killed_costs_no_request_and_comes_back(running: Installation) -> None:
    async with local_client(base_url=running.stack.operator_url) as http:
        victim = children(running)[0]
        load = asyncio.create_task(ask(running, 150, connections=6, pause_seconds=0.02))
        await asyncio.sleep(0.3)
        os.kill(victim, signal.SIGKILL)

        async def missed() -> bool:
            return (await http.get("/readyz")).status_code == 503 and (await http.get("/healthz")).status_code == 503

        async def back() -> bool:
            return (await http.get("/readyz")).status_code == 200

        try:
            await eventually(missed, "its death does not show")
            await load  # every answer is there, as `ask` checks
        finally:
            # The next test is not about a process that is missing.
            await eventually(back, "it was not started again")
    assert victim not in children(running)
    assert len(children(running)) == len(PROCESSES)

    async def given_requests() -> bool:
        await ask(running, 16, connections=8)
        counted = await recalls(running)
        return all(any(count for (name, _), count in counted.items() if name == each) for each in PROCESSES)

    await eventually(given_requests, "no request reaches it again")


async def test_the_operators_port_speaks_for_all_of_them(running: Installation, tmp_path: Path) -> None:
    headers = {"authorization": f"Bearer {OPERATOR}"}
    async with local_client(base_url=running.stack.operator_url, headers=headers, timeout=60) as http:
        assert (await http.get("/readyz")).json() == {
            "status": "ready",
            "model": "loaded",
            "store": "available",
            "turn_log": "available",
        }
        metrics = (await http.get("/metrics")).text
        assert metrics.count("# TYPE semrouter_memory_recalls_total counter") == 1
        for name in PROCESSES:
            assert re.search(rf'semrouter_memory_build_info{{process="{name}",version="[^"]+"}} 1.0', metrics)
        assert (await http.get("/v1/turns/totals")).json()["accepted"] >= 1
        compacted = (await http.post("/v1/compact")).raise_for_status().json()
        assert {part["part"].partition(":")[0] for part in compacted["data"]} == set(PROCESSES)
        copied = await http.post("/v1/backup", json={"directory": str(tmp_path / "copy")})
        assert copied.status_code == 200, copied.text
        assert sorted(each.name for each in (tmp_path / "copy").iterdir()) == list(PROCESSES)
        again = await http.post("/v1/backup", json={"directory": str(tmp_path / "copy")})
        assert again.status_code == 400, again.text
        assert (await http.get("/v1/memory", params={"user_id": "alice"})).status_code == 200
    async with local_client(base_url=running.stack.operator_url) as http:
        assert (await http.post("/v1/compact")).status_code == 401


async def test_sigterm_waits_for_running_streams_and_what_they_teach(running: Installation) -> None:
    await all_streams_ended(running)
    before, at_first = accepted(running), await recalls(running)
    streams = [asyncio.create_task(streamed(running, delay_ms=400)) for _ in range(12)]
    # One that no process has begun with is nobody's loss.
    await recalls_since(running, at_first, count=len(streams))
    pids = children(running)
    assert await running.stack.sidecar.stop() == 0
    assert all([(await stream).endswith("data: [DONE]\n\n") for stream in streams])
    assert [pid for pid in pids if runs(pid)] == []
    assert accepted(running) == before + len(streams)


async def test_the_processes_end_with_the_one_that_started_them(running: Installation) -> None:
    await running.stack.start_sidecar()
    pids = children(running)
    await running.stack.sidecar.stop(kill=True)

    async def ended() -> bool:
        return not any(map(runs, pids))

    await eventually(ended, "they go on alone")


def accepted(on: Installation) -> int:
    """How many turns the processes have accepted, by their own files."""
    data = Path(on.stack.sidecar.log).parent / "data"
    return sum(accepted_in(data / name) for name in PROCESSES)


async def ask(
    on: Installation, count: int, *, text: str = ASKED, connections: int = 1, pause_seconds: float = 0.0
) -> None:
    """So many requests, each answered."""

    async def some(key: str) -> None:
        async with on.http(key) as http:
            for _ in range(count // connections):
                body = {"model": "m", "messages": [{"role": "user", "content": text}]}
                (await http.post(CHAT, json=body)).raise_for_status()
                await asyncio.sleep(pause_seconds)

    await asyncio.gather(*(some(ALICE) for _ in range(connections)))


async def streamed(on: Installation, *, delay_ms: int) -> str:
    """A whole answer that takes its time."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hello there"}]}
    async with on.http(BOB, headers={"x-stand-in": f'{{"delay_ms": {delay_ms}}}'}) as http:
        return (await http.post(CHAT, json=body)).raise_for_status().text


async def recalls(on: Installation) -> Counter[tuple[str, str]]:
    """How many requests recall decided about, by process and outcome."""
    async with local_client() as http:
        text = (await http.get(f"{on.stack.operator_url}/metrics")).text
    return Counter({(name, reason): int(float(count)) for name, reason, count in SAMPLE.findall(text)})


async def recalls_since(on: Installation, before: Counter[tuple[str, str]], *, count: int) -> Counter[tuple[str, str]]:
    """What was added, once it is so much: a recall is counted a moment after its answer."""

    async def counted() -> bool:
        return (await recalls(on) - before).total() == count

    await eventually(counted, f"{count} requests are not counted, or some twice")
    return await recalls(on) - before


def children(on: Installation) -> list[int]:
    return sorted(accounting.children(on.stack.sidecar.pid))


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
