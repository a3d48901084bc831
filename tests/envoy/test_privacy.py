"""What users say stays where it belongs: not in logs, not in metrics, on disk for one reader only, secrets nowhere."""

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR

import pytest
import pytest_asyncio

from semrouter_memory.stack.loopback import LOOPBACK, free_port, local_client

from .client import APIS, CHAT, behaving, streaming, told
from .conftest import Installation, eventually, installed
from .extraction_llm import ExtractionLlm, extracting
from .sidecar_log import lines, logged

pytestmark = pytest.mark.asyncio(loop_scope="session")

CANARY = "Zwickelfritz"
"""A word that nobody says by chance."""
PASSWORD = "hunter2-Zwickelfritz"
SECRET = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY"


async def say_it_everywhere(on: Installation) -> None:
    """The canary in each place where a client can put it, in well-formed requests and in broken ones."""
    system = {"role": "system", "content": f"You are {CANARY}."}
    tool = {"role": "tool", "tool_call_id": "call_1", "content": f"{CANARY} is sunny"}
    call = {"id": "call_1", "type": "function", "function": {"name": CANARY, "arguments": "{}"}}
    user = {"role": "user", "content": f"My dog's name is {CANARY}. Remember that my cat is {CANARY} too."}
    loop = [system, user, {"role": "assistant", "content": None, "tool_calls": [call]}, tool]
    bodies = [
        json.dumps({"model": CANARY, "messages": loop}),
        json.dumps({"model": "m", "messages": [user], "memory_context": {"user_id": CANARY}}),
        json.dumps({"model": "m", "messages": [user], "memory_context": {"project_id": CANARY}}),
        json.dumps({"model": "m", "messages": [user], "memory_config": {"memory_types": [CANARY]}}),
        json.dumps({"model": "m", "input": CANARY, "previous_response_id": CANARY}),
        f'{{"messages": "{CANARY}"',
        f'["{CANARY}"]',
    ]
    odd = {"x-session-id": CANARY, "idempotency-key": CANARY, "x-request-id": CANARY, "user-agent": CANARY}
    for how in ({}, {"garbage": True}, {"status": 500}, {"text": f"So it is {CANARY}"}, {"response_id": CANARY}):
        async with on.http(headers={**behaving(how), **odd}) as http:
            for body in bodies:
                for path in APIS:
                    await http.post(path, content=body)
    for path in APIS:
        async with streaming(on, path, f"hi {CANARY}", text=CANARY) as pieces:
            assert [piece async for piece in pieces]
    async with on.http() as http:
        for method, path, payload in (
            ("POST", "/v1/memory", {"content": f"User's dog is {CANARY}", "metadata": {"dog": CANARY}}),
            ("POST", "/v1/memory", {"content": CANARY, CANARY: CANARY}),
            ("POST", "/v1/memory/search", {"query": CANARY, "types": [CANARY]}),
            ("POST", "/v1/memory/search", {"query": CANARY}),
            ("GET", f"/v1/memory/{CANARY}", None),
            ("GET", f"/v1/memory?type={CANARY}&cursor={CANARY}", None),
            ("PATCH", f"/v1/memory/{CANARY}", {"content": CANARY}),
            ("DELETE", f"/v1/memory?user_id={CANARY}", None),
        ):
            await http.request(method, path, json=payload)
        for version in ("", "2026-07-28"):
            for message in (
                CANARY,
                [CANARY],
                {"jsonrpc": "2.0", "method": CANARY, "params": {CANARY: CANARY}},
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": [CANARY]},
                {"jsonrpc": "2.0", "id": CANARY, "method": CANARY},
                {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"clientInfo": CANARY}},
                *(
                    {
                        "jsonrpc": "2.0",
                        "id": 1,
                        "method": "tools/call",
                        "params": {"name": name, "arguments": arguments},
                    }
                    for name in ("recall", "remember", "forget", CANARY)
                    for arguments in ({CANARY: CANARY}, {"query": CANARY}, {"content": CANARY}, {"id": CANARY}, CANARY)
                ),
            ):
                headers = {"mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": CANARY}
                await http.post("/v1/memory/mcp", json=message, headers=headers if version else {})


async def silent_about_it(on: Installation) -> None:
    log = on.stack.sidecar.log.read_text(encoding="utf-8")
    assert [line for line in log.splitlines() if CANARY.lower() in line.lower()] == []
    async with local_client() as http:
        assert CANARY.lower() not in (await http.get(f"{on.stack.operator_url}/metrics")).text.lower()


async def test_the_log_never_quotes_what_users_say(tmp_path: Path, model_directory: Path) -> None:
    """At DEBUG, with a model that echoes its prompt in errors, answers nonsense, hangs and then works."""
    llm = ExtractionLlm()
    config = extracting(llm, timeout_seconds=3, max_attempts=3, breaker_failures=2)
    async with llm.listening(), installed(tmp_path, model_directory, sidecar_config=config) as on:
        for break_it in ({"status": 500}, {"says": f"The user has a dog, {CANARY}."}, {"hangs": True}):
            llm.works()
            for name, value in break_it.items():
                setattr(llm, name, value)
            before = logged(on, "warning", "Extraction")
            await told(on, CHAT, f"I have a {CANARY} and it {break_it}")

            async def warned(before: int = before) -> bool:
                return logged(on, "warning", "Extraction") > before

            await eventually(warned, f"the model was not asked while {break_it}")
        await say_it_everywhere(on)
        llm.works(f"User likes {CANARY} cake")
        await told(on, CHAT, f"I baked a {CANARY} cake")
        await on.remembers(f"{CANARY} cake")
        assert {line["level"] for line in lines(on)} >= {"debug", "info", "warning"}
        await silent_about_it(on)


async def test_the_log_is_silent_when_the_store_is_away(tmp_path: Path, model_directory: Path) -> None:
    config = {
        "memory": {"milvus": {"address": f"{LOOPBACK}:{free_port()}", "reconnect_seconds": 0.2}},
        "telemetry": {"log_level": "DEBUG"},
    }
    async with installed(tmp_path, model_directory, sidecar_config=config) as on:
        await say_it_everywhere(on)
        assert logged(on, "error", "Milvus unavailable, memory disabled") >= 1
        await silent_about_it(on)


@dataclass(frozen=True, slots=True)
class Data:
    """A data directory after its installation has ended: modes while it ran and afterwards, and what files hold."""

    modes_running: dict[str, int]
    modes: dict[str, int]
    contents: dict[str, bytes]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def data(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> Data:
    """Of an installation that was told secrets, and a fact beside each."""
    directory = tmp_path_factory.mktemp("told")
    async with installed(directory, model_directory) as on:
        for path in APIS:
            await told(on, path, f"My API key is {SECRET}. I live in Bergen")
            await told(on, path, f"I work as a zookeeper. My password is {PASSWORD}")
        async with on.http() as http:
            await http.post("/v1/memory", json={"content": f"User's API key is {SECRET}"})
        await on.remembers("Bergen")
        await on.remembers("zookeeper")
        running = modes(directory / "data")
    files = [path for path in (directory / "data").rglob("*") if path.is_file()]
    return Data(running, modes(directory / "data"), {path.name: path.read_bytes() for path in files})


def modes(directory: Path) -> dict[str, int]:
    """Of the directories and of whatever holds something; Milvus Lite's own lock file is empty."""
    found: dict[str, int] = {}
    for path in [directory, *directory.rglob("*")]:
        with suppress(FileNotFoundError):  # a write in the journal goes when the store has made it
            stat = path.stat()
            if S_ISDIR(stat.st_mode) or stat.st_size:
                found[path.name] = stat.st_mode & 0o777
    return found


async def test_data_is_for_its_owner_only(data: Data) -> None:
    for found in (data.modes_running, data.modes):
        assert {"data", "turns.db", "milvus.db"} <= found.keys()
        assert {name: oct(mode) for name, mode in found.items() if mode & 0o077} == {}


@pytest.mark.parametrize("secret", [SECRET, PASSWORD])
async def test_a_secret_is_in_no_file(data: Data, secret: str) -> None:
    """What was said beside it is: the search finds what there is to find."""
    assert any(b"Bergen" in content for content in data.contents.values())
    assert [name for name, content in data.contents.items() if secret.encode() in content] == []
