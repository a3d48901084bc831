"""The operator's office over real parts: turns one by one, compaction, backup; by HTTP and by command.

Turn log and state in SQLite, memories in Milvus Lite, both ports on Unix sockets in one data directory.
"""

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner, Result

from semrouter_memory.cli import app as command_line
from semrouter_memory.config import ManagementConfig, MilvusConfig
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.errors import InvalidRequestError, MemoryServiceError, NotFoundError
from semrouter_memory.manage.http import create_user_api
from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import Claim, Scope, SessionHints, Turn
from semrouter_memory.retain.redact import Redaction
from semrouter_memory.state.local import SqliteStateStore
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.hashed import HashedEmbedder
from tests.memory_service import access_to, backends_of, knowledge_service, memory_service, operator_api
from tests.store_observer import StoreObserver

ALICE = Scope("alice")
TOKEN = "operator-token"


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


@dataclass
class House:
    directory: Path
    log: SqliteTurnLog
    state: SqliteStateStore
    store: MilvusStore
    service: MemoryService
    sockets: Path

    def http(self, user: str | None = None, token: str | None = None) -> httpx.AsyncClient:
        headers = {"x-authz-user-id": user} if user else {"authorization": f"Bearer {token}"} if token else {}
        socket = "api.sock" if user else "operator.sock"
        transport = httpx.AsyncHTTPTransport(uds=str(self.sockets / socket))
        return httpx.AsyncClient(base_url="http://test", transport=transport, headers=headers, timeout=60)

    def append(self, text: str, *, user: str = "alice", session: str = "s1") -> str:
        turn = Turn(
            scope=Scope(user),
            hints=SessionHints(explicit=session),
            user_texts=(text,),
            assistant_text="answer",
            observed_at=datetime.now(UTC),
            request_id=uuid.uuid4().hex,
        )
        return self.log.append(turn, remember=False).turn_id

    async def claim(self, scope: Scope) -> Claim:
        (session,) = [each for each in await self.log.pending() if each.scope == scope]
        claim = await self.log.claim(scope, session.session_id, lease=timedelta(minutes=1), context=0)
        assert claim is not None
        return claim

    async def kill(self, scope: Scope) -> None:
        """Make dead letters of the user's waiting turns."""
        await self.log.fail(await self.claim(scope), "model_away", retry_at=datetime.now(UTC), max_attempts=1)


def _prepare(sockets: Path) -> None:
    sockets.mkdir(exist_ok=True)
    (sockets / "token").write_text(TOKEN)


@contextlib.asynccontextmanager
async def living_in(directory: Path, sockets: Path) -> AsyncIterator[House]:
    embedder, clock = HashedEmbedder(), SystemClock()
    log = SqliteTurnLog(directory / "turns.db", clock=clock)
    state = SqliteStateStore(directory / "state.db", clock=clock)
    store = MilvusStore(
        MilvusConfig(dimension=embedder.dimension),
        data_dir=directory,
        fingerprint="test",
        observer=StoreObserver(),
    )
    await store.start()
    config = ManagementConfig()
    backends = backends_of(store=store, embedder=embedder, turn_log=log, state=state, clock=clock)
    deletion = DeletionService(backends)
    service = memory_service(backends, deletion=deletion, redact=Redaction, config=config)
    knowledge = knowledge_service(backends, store.secondary("knowledge"))
    _prepare(sockets)
    users = await serve_http(create_user_api(access_to(service), config=config), f"unix:{sockets}/api.sock")
    access, collections = access_to(service, knowledge=knowledge), store.collections
    app = operator_api(access, backends=backends, deletion=deletion, collections=collections, token=TOKEN)
    operators = await serve_http(app, f"unix:{sockets}/operator.sock")
    try:
        yield House(directory, log, state, store, service, sockets)
    finally:
        await asyncio.gather(users.stop(), operators.stop())
        await store.close()
        state.close()
        log.close()


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with living_in(tmp_path / "data", tmp_path / "run") as opened:
        yield opened


Run = Callable[..., Awaitable[Result]]


@pytest.fixture
def run(house: House) -> Run:
    """An operator's command."""

    async def invoke(*arguments: str) -> Result:
        connection = ["--url", f"unix:{house.sockets}/operator.sock", "--operator-token-file", f"{house.sockets}/token"]
        return await asyncio.to_thread(CliRunner().invoke, command_line, [*arguments, *connection])

    return invoke


async def printed(run: Run, *arguments: str) -> Any:
    result = await run(*arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


def files_hold(directory: Path, *texts: str) -> set[str]:
    """Which of the texts any file holds. Not the lock file of Milvus Lite: closing it would give up the lock."""
    files = [path for path in directory.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    data = b"".join(path.read_bytes() for path in files)
    return {text for text in texts if text.encode() in data}


# -- turns -------------------------------------------------------------------------------------------------------------


async def test_a_dead_letter_is_found_read_retried_and_dropped(house: House, run: Run) -> None:
    """A listing never shows what was said, `show` does; only dead letters are retried."""
    dead = house.append("my cat is called Tom")
    await house.kill(ALICE)
    waiting = house.append("and my dog Rex", user="bob")

    turns = (await printed(run, "turns", "list"))["data"]
    assert [(turn["id"], turn["user_id"], turn["state"]) for turn in turns] == [
        (waiting, "bob", "waiting"),
        (dead, "alice", "dead"),
    ]
    assert (turns[1]["error"], turns[1]["attempts"]) == ("model_away", 1)
    table = await run("turns", "list")
    assert dead in table.stdout
    assert "Tom" not in json.dumps(turns) + table.stdout
    assert [turn["id"] for turn in (await printed(run, "turns", "list", "--state", "dead"))["data"]] == [dead]
    assert [turn["id"] for turn in (await printed(run, "turns", "list", "--user", "bob"))["data"]] == [waiting]
    page = await printed(run, "turns", "list", "--limit", "1")
    further = await printed(run, "turns", "list", "--before", str(page["next_before"]))
    assert [turn["id"] for turn in further["data"]] == [dead]
    for last in (further, await printed(run, "turns", "list", "--limit", "2")):
        assert last["next_before"] is None
    further = await printed(run, "turns", "list", "--limit", "1", "--before", str(page["next_before"]))
    assert (len(further["data"]), further["next_before"]) == (1, None)

    shown = json.loads((await run("turns", "show", dead)).stdout)
    assert (shown["user_text"], shown["assistant_text"]) == ("my cat is called Tom", "answer")

    with pytest.raises(InvalidRequestError, match="this turn is waiting"):
        raise (await run("turns", "retry", waiting)).exception or AssertionError
    assert await printed(run, "turns", "retry", dead) == {"retried": 1}
    assert [turn.id for turn in (await house.claim(ALICE)).turns] == [dead]
    assert "dropped" in (await run("turns", "drop", waiting)).stdout
    with pytest.raises(NotFoundError, match="no such turn"):
        raise (await run("turns", "show", waiting)).exception or AssertionError
    totals = await printed(run, "turns", "totals")
    assert (totals["accepted"], totals["waiting"], totals["deleted"], totals["dead_lettered"]) == (2, 1, 1, 0)
    assert "2  turns accepted" in (await run("turns", "totals")).stdout


async def test_all_dead_letters_are_retried_at_once_or_those_of_one_user(house: House, run: Run) -> None:
    for user in ("alice", "bob"):
        for number in range(3):
            house.append(f"fact {number}", user=user)
        await house.kill(Scope(user))
    assert await printed(run, "turns", "retry", "--all", "--user", "bob") == {"retried": 3}
    assert await printed(run, "turns", "retry", "--all") == {"retried": 3}
    assert (await house.log.totals()).waiting == 6
    for wrong in (["turns", "retry"], ["turns", "retry", "id", "--all"], ["turns", "retry", "id", "--user", "bob"]):
        with pytest.raises(InvalidRequestError, match="say which"):
            raise (await run(*wrong)).exception or AssertionError


async def test_turns_and_files_are_the_operators_alone(house: House) -> None:
    """Not on the users' port at all, and not without the token."""
    turn = house.append("my cat is called Tom")
    paths = [
        ("GET", "/v1/turns"),
        ("GET", f"/v1/turns/{turn}"),
        ("POST", "/v1/turns/retry"),
        ("GET", "/v1/turns/totals"),
    ]
    paths += [("DELETE", f"/v1/turns/{turn}"), ("POST", "/v1/compact"), ("POST", "/v1/backup")]
    async with house.http("alice") as user, house.http() as nobody, house.http(token="wrong") as stranger:
        for method, path in paths:
            assert (await user.request(method, path)).status_code == 404
            for client in (nobody, stranger):
                assert (await client.request(method, path)).status_code == 401
    async with house.http(token=TOKEN) as operator:
        described = (await operator.get("/v1/memory/openapi.json")).json()
        assert {"/v1/turns", "/v1/turns/{turn_id}/retry", "/v1/compact", "/v1/backup"} <= described["paths"].keys()
        for path in ("/v1/turns?state=odd", "/v1/turns?limit=0", "/v1/turns?before=-1"):
            answer = (await operator.get(path)).json()["error"]
            assert (answer["type"], answer["param"] in {"state.0", "limit", "before"}) == (
                "invalid_request_error",
                True,
            )


async def test_a_mistyped_parameter_widens_nothing(house: House) -> None:
    """What is not known is refused; `state` alone may be repeated."""
    for user in ("alice", "bob"):
        house.append("my cat is called Tom", user=user)
        await house.kill(Scope(user))
    turn = house.append("my cat is called Tom", user="carol")
    async with house.http(token=TOKEN) as operator:
        for method, path, param in (
            ("POST", "/v1/turns/retry?user=alice", "user"),
            ("POST", "/v1/turns/retry?user_id=alice&user_id=bob", "user_id"),
            ("GET", "/v1/turns?user=alice", "user"),
            ("GET", "/v1/turns/totals?user_id=alice", "user_id"),
            ("GET", f"/v1/turns/{turn}?user_id=alice", "user_id"),
            ("POST", f"/v1/turns/{turn}/retry?all=1", "all"),
            ("DELETE", f"/v1/turns/{turn}?dry_run=1", "dry_run"),
            ("POST", "/v1/compact?dry_run=1", "dry_run"),
            ("POST", "/v1/backup?directory=/tmp/x", "directory"),
        ):
            answer = await operator.request(method, path)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, param), path
        totals = await house.log.totals()
        assert (totals.dead_lettered, totals.waiting) == (2, 1)
        listed = await operator.get("/v1/turns?state=dead&state=waiting&user_id=alice&limit=5&before=0")
        assert len(listed.json()["data"]) == 1
        assert (await operator.post("/v1/turns/retry?user_id=alice")).json()["retried"] == 1


# -- sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", ["plain", "a/b", "a b%2F?#&", "ümlaut/end", "..", "对话"])
async def test_a_session_is_ended_by_the_name_that_its_client_gave_it(house: House, session: str) -> None:
    """Percent-encoded, whatever characters it has; another user's sessions are unknown ones."""
    house.append("my cat is called Tom", session=session)
    path = f"/v1/memory/sessions/{''.join(f'%{byte:02X}' for byte in session.encode())}/end"
    async with house.http("alice") as alice, house.http("bob") as bob, house.http(token=TOKEN) as operator:
        unknown = await bob.post(path)
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "session_not_found")
        assert not (await house.log.pending())[0].ended
        answer = await alice.post(path)
        assert (answer.status_code, answer.json()["waiting"]) == (202, 1)
        (pending,) = await house.log.pending()
        assert (pending.ended, pending.session_id) == (True, answer.json()["session_id"])
        again = await operator.post(f"/v1/memory/sessions/{pending.session_id}/end", params={"user_id": "alice"})
        assert again.json() == answer.json()


# -- files -------------------------------------------------------------------------------------------------------------


async def test_after_forgetting_and_compacting_nothing_said_is_in_any_file(house: House, run: Run) -> None:
    """A memory with its history and turns, state, a whole project and a whole user; what others said stays."""
    house.append("PRIVATE-TURN and more")
    await house.state.put(ALICE, "session", b"SECRET-STATE", ttl=timedelta(hours=1))
    async with house.http("alice") as alice, house.http("bob") as bob:
        for client, text in ((alice, "SECRET-MEMORY"), (alice, "SECRET-OTHER"), (bob, "OTHERS-MEMORY")):
            assert (await client.post("/v1/memory", json={"content": text})).status_code == 201
        written = ("PRIVATE-TURN", "SECRET-STATE", "SECRET-MEMORY", "SECRET-OTHER", "OTHERS-MEMORY")
        await printed(run, "compact")
        assert files_hold(house.directory, *written) == set(written)
        memory = (await alice.get("/v1/memory")).json()["data"][0]
        assert (await alice.delete(f"/v1/memory/{memory['id']}")).is_success
        await printed(run, "compact")
        assert files_hold(house.directory, *written) == set(written) - {memory["content"], "SECRET-STATE"}
        assert (await alice.delete("/v1/memory", params={"user_id": "alice"})).is_success
    shares = await printed(run, "compact")
    assert [share["part"] for share in shares] == ["turn_log", "state", "store"]
    assert files_hold(house.directory, *written) == {"OTHERS-MEMORY"}
    assert "store: 0." in (await run("compact")).stdout


async def test_a_backup_taken_under_load_is_a_data_directory(house: House, run: Run, tmp_path: Path) -> None:
    """The log's totals add up, every memory that was there before can be read, and life goes on there."""
    target = tmp_path / "backups" / "today"
    writing = True

    async def write() -> int:
        count = 0
        while writing:
            house.append(f"turn {count}", session=f"s{count % 5}")
            async with house.http("alice") as alice:
                assert (await alice.post("/v1/memory", json={"content": f"fact {count}"})).status_code == 201
            count += 1
        return count

    async with house.http("alice") as alice:
        await alice.post("/v1/memory", json={"content": "before"})
    house.append("my cat is called Tom")
    busy = [asyncio.create_task(write()) for _ in range(3)]
    shares = await printed(run, "backup", str(target))
    writing = False
    assert min(await asyncio.gather(*busy)) > 0
    assert [share["part"] for share in shares] == ["turn_log", "state", "store"]
    assert target.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in target.iterdir()} >= {"turns.db", "state.db", "milvus.db"}
    assert [path.name for path in target.parent.iterdir()] == ["today"]

    async with living_in(target, tmp_path / "restored") as restored, restored.http("alice") as alice:
        totals = await restored.log.totals()
        assert totals.accepted >= 1
        assert totals.accepted == totals.waiting
        lines = (await alice.get("/v1/memory/export")).text.splitlines()
        assert "before" in {json.loads(line)["content"] for line in lines}
        assert (await alice.post("/v1/memory", json={"content": "after"})).status_code == 201


async def test_a_backup_goes_nowhere_else_than_told(house: House, run: Run, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("x")
    for place, message in (("there", "is there already"), ("file/below", "cannot be made")):
        with pytest.raises(InvalidRequestError, match=message):
            raise (await run("backup", str(tmp_path / place))).exception or AssertionError
    async with house.http(token=TOKEN) as operator:
        for body in ({"directory": "relative"}, {"directory": ""}, {"directory": "/a\x00b"}, {"directory": "/"}, {}):
            answer = await operator.post("/v1/backup", json=body)
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, "directory")


async def test_a_part_that_fails_is_named_and_leaves_no_half_of_a_backup(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house.store, "_lite", None)
    monkeypatch.setattr(house.log, "backup", failing)
    async with house.http(token=TOKEN) as operator:
        answer = await operator.post("/v1/backup", json={"directory": str(tmp_path / "b" / "one")})
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "maintenance_failed"
    assert "turn_log: no space" in answer.json()["error"]["message"]
    assert list((tmp_path / "b").iterdir()) == []


async def failing(_directory: Path) -> None:
    raise MemoryServiceError("no space")


async def test_without_a_token_no_command_asks_anybody(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"unix:{house.sockets}/operator.sock"
    invoke = CliRunner().invoke
    result = await asyncio.to_thread(invoke, command_line, ["turns", "totals", "--url", url])
    assert isinstance(result.exception, InvalidRequestError)
    monkeypatch.setenv("SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN", TOKEN)
    assert (await asyncio.to_thread(invoke, command_line, ["turns", "totals", "--url", url])).exit_code == 0
