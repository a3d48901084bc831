"""The management API as its users and operators meet it: real HTTP over the service and a real turn log.

`house` runs both ports; the store can be made to fail.
"""

import asyncio
import json
import threading
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from semrouter_memory.cli.connection import MEMORY, TURNS, ApiClient, ApiEndpoint
from semrouter_memory.config import ManagementConfig, TelemetryConfig
from semrouter_memory.errors import NotFoundError, Service, StoreUnavailableError, UnavailableError
from semrouter_memory.manage.http import Readiness, create_user_api
from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import EmbeddedMemory, Memory, MemoryType, Reach, Scope, SessionHints, Turn, Usage
from semrouter_memory.retain.passages import SplittingWriter
from semrouter_memory.retain.redact import redact
from semrouter_memory.stack.loopback import local_client
from semrouter_memory.state.local import SqliteStateStore
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.telemetry import logs
from semrouter_memory.telemetry.metrics import Metrics
from semrouter_memory.turn_log.sqlite_log import SqliteTurnLog
from tests.hashed import HashedEmbedder
from tests.memory_service import access_to, backends_of, memory_service, operator_api
from tests.threads_used import threads_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOKEN = "operator-token"
HOSTILE_IDS = [
    'alice" or owner != "',
    "x' OR '1'='1",
    "user:alice",
    "alice\\",
    "ålice",
    "%61lice",
    "*",
    "Alice",
    "ａlice",
    "alicе",
    "a\u0301lice",
    "alice%20",
    "alice,bob",
    "_lice",
]


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class FailingStore(InMemoryStore):
    """The in-memory store, with calls that can be made to fail as an outage does."""

    failing: frozenset[str] = frozenset()

    async def get(self, scope: Scope, memory_id: str) -> Memory | None:
        self._fail("get")
        return await super().get(scope, memory_id)

    async def search(self, *args: Any, **options: Any) -> Any:
        self._fail("search")
        return await super().search(*args, **options)

    async def search_index(self, *args: Any, **options: Any) -> Any:
        self._fail("search")
        return await super().search_index(*args, **options)

    async def page(self, *args: Any, **options: Any) -> Any:
        self._fail("page")
        return await super().page(*args, **options)

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        self._fail("upsert")
        await super().upsert(scope, rows)

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        self._fail("delete")
        return await super().delete(scope, memory_ids)

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        self._fail("delete_all")
        return await super().delete_all(scope, reach)

    def _fail(self, call: str) -> None:
        if call in self.failing:
            raise StoreUnavailableError("away")


class CountedState(SqliteStateStore):
    """A state store that counts how often it is asked for usage, and can be away."""

    asked = 0
    away = False

    async def usage(self, scope: Scope, memory_ids: Sequence[str]) -> Mapping[str, Usage]:
        self.asked += 1
        if self.away:
            raise UnavailableError("away", service=Service.STATE)
        return await super().usage(scope, memory_ids)


@dataclass
class House:
    store: FailingStore
    log: SqliteTurnLog
    state: CountedState
    embedder: HashedEmbedder
    url: str
    operator_url: str
    ready: dict[str, bool]
    service: MemoryService

    def user(self, name: str | None) -> httpx.AsyncClient:
        headers = [] if name is None else [(b"x-authz-user-id", name.encode())]
        return local_client(base_url=self.url, headers=headers)

    def operator(self, token: str | None = TOKEN) -> httpx.AsyncClient:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return local_client(base_url=self.operator_url, headers=headers)

    async def remember(self, user: str, content: str, *, project: str = "", **changes: Any) -> Memory:
        """Put a memory into the store as the background does."""
        now = datetime.now(UTC)
        memory = Memory(
            id=f"mem_{uuid.uuid4().hex}",
            scope=Scope(user, project),
            type=MemoryType.SEMANTIC,
            content=content,
            source="conversation",
            observed_at=now,
            created_at=now,
            updated_at=now,
        )
        memory = replace(memory, **changes)
        vector = (await self.embedder.embed_passages([content]))[0]
        await self.store.upsert(memory.scope, [EmbeddedMemory(memory, vector)])
        return memory


class Switch:
    """An application that can be exchanged behind a running server."""

    app: ASGIApp

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


@dataclass
class Port:
    switch: Switch
    url: str


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ports() -> AsyncIterator[list[Port]]:
    """The users' and the operator's; started once, because stopping takes its time."""
    switches = [Switch(), Switch()]
    servers = [await serve_http(switch, "127.0.0.1:0") for switch in switches]
    yield [Port(switch, f"http://127.0.0.1:{server.port}") for switch, server in zip(switches, servers, strict=True)]
    await asyncio.gather(*(server.stop() for server in servers))


@pytest.fixture
def house(ports: list[Port], tmp_path: Path) -> Iterator[House]:
    users, operators = ports
    embedder = HashedEmbedder(max_passage_tokens=30)
    store = FailingStore(dimension=embedder.dimension)
    log = SqliteTurnLog(tmp_path / "turns.db", clock=SystemClock())
    state = CountedState(tmp_path / "state.db", clock=SystemClock())
    config = ManagementConfig(max_content_chars=200, max_body_bytes=4096, max_metadata_bytes=1024)
    writer = SplittingWriter(store, embedder)
    backends = backends_of(
        store=store, writer=writer, embedder=embedder, turn_log=log, state=state, clock=SystemClock()
    )
    service = memory_service(backends, redact=redact, config=config, ttl_days={MemoryType.EPISODIC: 30})
    ready = {"model": True, "store": True}
    users.switch.app = create_user_api(access_to(service), config=config)
    operators.switch.app = operator_api(
        access_to(service),
        config=config,
        token=TOKEN,
        readiness=lambda: Readiness(serving=ready["model"], store_available=ready["store"]),
        metrics=Metrics().exposition,
    )
    yield House(store, log, state, embedder, users.url, operators.url, ready, service)
    state.close()
    log.close()


def error_of(response: httpx.Response) -> dict[str, Any]:
    """The error, which has the one shape that errors have."""
    body = response.json()
    assert list(body) == ["error"]
    assert set(body["error"]) == {"message", "type", "param", "code"}
    error: dict[str, Any] = body["error"]
    return error


async def test_a_secret_is_refused_by_its_kind_and_everyday_words_are_stored(house: House) -> None:
    async with house.user("alice") as alice:
        for content in ("User is allergic to spinach", "User's passport expires in May", "User's passion is Chopin"):
            assert (await alice.post("/v1/memory", json={"content": content})).status_code == 201
        for content, kind in (("User's password is hunter2", "a password"), ("my pin: 4711", "a PIN")):
            refused = await alice.post("/v1/memory", json={"content": content})
            assert refused.status_code == 400
            assert error_of(refused)["param"] == "content"
            assert f"content seems to hold {kind};" in error_of(refused)["message"]


# -- what users do -----------------------------------------------------------------------------------------------------


async def test_a_memory_from_its_beginning_to_its_end(house: House) -> None:
    async with house.user("alice") as alice:
        body = {"content": "User likes green tea", "type": "procedural", "metadata": {"origin": "crm"}}
        stored = await alice.post("/v1/memory", json=body)
        assert stored.status_code == 201
        memory = stored.json()
        assert memory["owner"] == "user:alice"
        assert memory["source"] == "api"
        one = f"/v1/memory/{memory['id']}"
        assert (await alice.get(one)).json() == memory

        changed = (await alice.patch(one, json={"content": "User likes black tea", "importance": 0.9})).json()
        assert changed["content"] == "User likes black tea"
        assert (changed["created_at"], changed["metadata"]) == (memory["created_at"], {"origin": "crm"})
        assert changed["observed_at"] == changed["updated_at"] > memory["updated_at"]
        found = (await alice.post("/v1/memory/search", json={"query": "do I like black tea?", "threshold": 0.3})).json()
        assert [hit["id"] for hit in found["data"]] == [memory["id"]]
        assert 0.5 < found["data"][0]["similarity"] < 0.6
        assert 0.9 < found["data"][0]["relevance"] < 1

        deleted = await alice.delete(one)
        assert deleted.json() == {"id": memory["id"], "object": "memory.deleted", "deleted": True}
        for again in (await alice.get(one), await alice.patch(one, json={"importance": 1}), await alice.delete(one)):
            assert (again.status_code, error_of(again)["code"]) == (404, "memory_not_found")


async def test_every_memory_shows_its_use_read_at_once(house: House) -> None:
    """The list, one, its history and a search; null while the counts cannot be read, and the memories come all the same."""
    used = datetime(2026, 3, 1, 12, tzinfo=UTC)
    async with house.user("alice") as alice:
        ids = [
            (await alice.post("/v1/memory", json={"content": content})).json()["id"]
            for content in ("User likes green tea", "User's dog is called Rex", "User lives in Bergen")
        ]
        await house.state.count_uses(Scope("alice"), {ids[0]: 3}, at=used)
        await house.state.count_uses(Scope("bob"), {ids[1]: 9}, at=used)
        house.state.asked = 0

        async def shown() -> list[list[dict[str, Any]]]:
            search = alice.post("/v1/memory/search", json={"query": "green tea"})
            answers = [
                await alice.get("/v1/memory"),
                await search,
                await alice.get(f"/v1/memory/{ids[0]}"),
                await alice.get(f"/v1/memory/{ids[0]}/history"),
                await alice.patch(f"/v1/memory/{ids[0]}", json={"importance": 1}),
            ]
            return [body.get("data", [body]) for body in (answer.raise_for_status().json() for answer in answers)]

        usage = {ids[0]: (3, "2026-03-01T12:00:00Z")}
        for memories in await shown():
            assert {ids[0]} <= {memory["id"] for memory in memories}
            for memory in memories:
                assert (memory["access_count"], memory["last_accessed_at"]) == usage.get(memory["id"], (0, None))
        assert house.state.asked == 5
        house.state.away = True
        for memories in await shown():
            assert {(memory["access_count"], memory["last_accessed_at"]) for memory in memories} == {(None, None)}
        exported = (await alice.get("/v1/memory/export")).text.splitlines()
        assert all("access_count" not in line for line in exported)
        again = (await alice.get("/v1/memory")).json()["data"][0] | {"access_count": 4, "id": "mem_again"}
        imported = (await alice.post("/v1/memory/import", content=json.dumps(again))).json()
        assert (imported["imported"], imported["errors"]) == (1, [])


async def test_listing_by_page_type_and_project(house: House) -> None:
    for number in range(5):
        await house.remember("alice", f"fact {number}", created_at=datetime(2026, 1, 1 + number, tzinfo=UTC))
    await house.remember("alice", "how to deploy", type=MemoryType.PROCEDURAL)
    await house.remember("alice", "in a project", project="trip", type=MemoryType.EPISODIC)
    async with house.user("alice") as alice:

        async def contents(**query: Any) -> list[str]:
            response = await alice.get("/v1/memory", params=query)
            return [memory["content"] for memory in response.json()["data"]]

        assert await contents(type="procedural") == ["how to deploy"]
        assert sorted(await contents(type=["procedural", "episodic"])) == ["how to deploy", "in a project"]
        assert await contents(project_id="trip") == ["in a project"]
        assert len(await contents(project_id="")) == 6
        assert len(await contents()) == 7
        seen, cursor = [], ""
        while True:
            page = (await alice.get("/v1/memory", params={"limit": 2, "type": "semantic", "cursor": cursor})).json()
            seen += [memory["content"] for memory in page["data"]]
            if (cursor := page["next_cursor"]) is None:
                break
        assert seen == [f"fact {number}" for number in reversed(range(5))]
        assert error_of(await alice.get("/v1/memory", params={"cursor": "made up"}))["code"] == "invalid_value"


async def test_quotes_and_statements_can_be_listed_by_themselves(house: House) -> None:
    quote = await house.remember("alice", "I like tea", metadata={"form": "quote"})
    statement = await house.remember("alice", "User likes tea", metadata={"quote": quote.id})
    async with house.user("alice") as alice:
        for form, memory in (("quote", quote), ("statement", statement)):
            listed = (await alice.get("/v1/memory", params={"form": form})).json()["data"]
            assert [each["id"] for each in listed] == [memory.id]


async def test_a_listing_is_of_one_source_where_one_is_asked_for(house: House) -> None:
    async with house.user("alice") as alice:
        await alice.post("/v1/memory", json={"content": "I like tea"})
        await alice.post("/v1/memory/import", content='{"content": "I like jam"}')
        for source, expected in (("api", ["I like tea"]), ("import", ["I like jam"]), ("conversation", [])):
            listed = (await alice.get("/v1/memory", params={"source": source})).json()["data"]
            assert [each["content"] for each in listed] == expected


async def test_searching_by_type_and_project(house: House) -> None:
    await house.remember("alice", "tea one")
    await house.remember("alice", "tea two", type=MemoryType.EPISODIC)
    await house.remember("alice", "tea three", project="trip")
    async with house.user("alice") as alice:

        async def found(**body: Any) -> set[str]:
            response = await alice.post("/v1/memory/search", json={"query": "tea", **body})
            return {hit["content"] for hit in response.json()["data"]}

        assert await found() == {"tea one", "tea two", "tea three"}
        assert await found(types=["episodic"]) == {"tea two"}
        assert await found(project_id="trip") == {"tea three"}
        assert await found(project_id="") == {"tea one", "tea two"}
        assert len(await found(limit=1)) == 1
        assert await found(threshold=1.0) == set()


async def test_the_pages_of_a_search_hold_every_memory_once(house: House) -> None:
    """Those that a filter leaves, too; further pages search more, which changes how relevant each is."""
    tea = [await house.remember("alice", f"tea number {number}") for number in range(50)]
    other = await house.remember("alice", "a suitcase", metadata={"form": "quote", "pinned": True}, source="api")
    every = {each.id for each in (*tea, other)}
    async with house.user("alice") as alice:

        async def pages(**body: Any) -> list[list[str]]:
            cursor: str | None = ""
            found: list[list[str]] = []
            while cursor is not None:
                asked = {"query": "tea number 7", "limit": 4, "cursor": cursor, **body}
                page = (await alice.post("/v1/memory/search", json=asked)).json()
                found.append([each["id"] for each in page["data"]])
                cursor = page["next_cursor"]
            return found

        found = await pages()
        assert [len(page) for page in found] == [4] * 12 + [3]
        assert {name for page in found for name in page} == every
        for narrowed in ({"form": "quote"}, {"pinned": True}, {"source": "api"}):
            assert await pages(**narrowed) == [[other.id]]
        for narrowed in ({"form": "statement"}, {"pinned": False}):
            assert {name for page in await pages(**narrowed) for name in page} == every - {other.id}
        wrong = await alice.post("/v1/memory/search", json={"query": "tea", "cursor": "-1"})
        assert (wrong.status_code, error_of(wrong)["param"]) == (400, "cursor")


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ({"since": "2026-03-02"}, {2, 3}),
        ({"until": "2026-03-02"}, {1, 2}),
        ({"since": "2026-03-02", "until": "2026-03-02"}, {2}),
        ({"since": "2026-03-02T12:00:00Z", "until": "2026-03-03T13:00:00+01:00"}, {2}),
        ({"since": "2026-03-02t12:00:00.000001z"}, {3}),
        ({"since": "2026-04-01"}, set[int]()),
    ],
)
async def test_a_period_selects_by_when_it_was_said(house: House, query: dict[str, str], days: set[int]) -> None:
    """In a listing, a search and an export alike; what counts is when it was said, not when it was written."""
    for day in (1, 2, 3):
        await house.remember("alice", f"tea {day}", observed_at=datetime(2026, 3, day, 12, tzinfo=UTC))
    expected = {f"tea {day}" for day in days}
    async with house.user("alice") as alice:
        for answer in (
            await alice.get("/v1/memory", params=query),
            await alice.post("/v1/memory/search", json={"query": "tea", **query}),
        ):
            assert {each["content"] for each in answer.json()["data"]} == expected
        lines = (await alice.get("/v1/memory/export", params=query)).text.splitlines()
        assert {json.loads(line)["content"] for line in lines} == expected


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("since", "yesterday", "must be a date"),
        ("since", "2026-03-01T10:00:00", "with its offset"),
        ("since", "2026-13-01", "month must be in"),
        ("until", "1772000000", "must be a date"),
        ("until", "0001-01-01T00:00:00+01:00", "outside the years"),
        ("until", "9999-12-31", "outside the years"),
        ("until", "2026-03-01", "later than since"),
    ],
)
async def test_a_period_that_is_none_is_refused(house: House, name: str, value: str, message: str) -> None:
    query = {"since": "2026-03-02", name: value}
    async with house.user("alice") as alice:
        for answer in (
            await alice.get("/v1/memory", params=query),
            await alice.get("/v1/memory/export", params=query),
            await alice.post("/v1/memory/search", json={"query": "tea", **query}),
        ):
            assert answer.status_code == 400
            assert error_of(answer)["param"] == name
            assert message in error_of(answer)["message"]
            assert "Value error" not in error_of(answer)["message"]


async def test_names_are_listed_by_page_with_the_memories_that_speak_of_them(house: House) -> None:
    sister = await house.remember("alice", "my sister Anna lives in Porto")
    work = await house.remember("alice", "User's sister works at Bosch")
    gone = await house.remember("alice", "User met Ben")
    await house.remember("alice", "User met Carl", superseded_at=datetime.now(UTC))
    await house.remember("bob", "User met Dora")
    async with house.user("alice") as alice:
        await alice.delete(f"/v1/memory/{gone.id}")
        whole = (await alice.get("/v1/memory/entities")).json()
        assert {each["name"]: (each["aliases"], {*each["memory_ids"]}) for each in whole["data"]} == {
            "Anna": (["sister"], {sister.id, work.id}),
            "Bosch": ([], {work.id}),
            "Porto": ([], {sister.id}),
        }
        assert whole["next_after"] is None
        page = (await alice.get("/v1/memory/entities", params={"limit": 2})).json()
        rest = (await alice.get("/v1/memory/entities", params={"limit": 2, "after": page["next_after"]})).json()
        assert [*page["data"], *rest["data"]] == whole["data"]
        assert rest["next_after"] is None
    async with house.user("carol") as carol:
        assert (await carol.get("/v1/memory/entities")).json()["data"] == []


async def test_an_export_is_json_by_line(house: House) -> None:
    await house.remember("alice", "first\nline")
    await house.remember("bob", "not alice's")
    async with house.user("alice") as alice:
        response = await alice.get("/v1/memory/export")
        assert response.headers["content-type"] == "application/x-ndjson"
        assert [httpx.Response(200, content=line).json()["content"] for line in response.iter_lines()] == [
            "first\nline"
        ]
        house.store.failing = frozenset({"page"})
        assert (await alice.get("/v1/memory/export")).status_code == 503


# -- isolation ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intruder", ["bob", *HOSTILE_IDS])
async def test_another_user_reaches_nothing(house: House, intruder: str) -> None:
    memory = await house.remember("alice", "User's budget is $10,000")
    async with house.user(intruder) as bob:
        one = f"/v1/memory/{memory.id}"
        for answer in (
            await bob.get(one),
            await bob.patch(one, json={"content": "mine"}),
            await bob.delete(one),
            await bob.delete("/v1/memory", params={"user_id": "alice"}),
        ):
            assert answer.status_code == 404
        assert (await bob.get("/v1/memory")).json()["data"] == []
        assert (await bob.post("/v1/memory/search", json={"query": "budget"})).json()["data"] == []
        deleted = await bob.delete("/v1/memory", params={"user_id": intruder})
        assert deleted.json()["deleted"] == 0
    async with house.user("alice") as alice:
        assert (await alice.get(one)).status_code == 200


async def test_nobody_is_nobody(house: House) -> None:
    await house.remember("alice", "User's budget is $10,000")
    for name in (None, "", "x" * 257):
        async with house.user(name) as nobody:
            for answer in (
                await nobody.get("/v1/memory"),
                await nobody.get("/v1/memory/some"),
                await nobody.post("/v1/memory", json={"content": "x"}),
                await nobody.post("/v1/memory/search", json={"query": "x"}),
                await nobody.patch("/v1/memory/some", json={"content": "x"}),
                await nobody.delete("/v1/memory/some"),
                await nobody.delete("/v1/memory", params={"user_id": "alice"}),
                await nobody.get("/v1/memory/export"),
            ):
                assert answer.status_code == 401
                assert error_of(answer)["type"] == "invalid_request_error"


async def test_two_identities_are_none(house: House) -> None:
    headers = [("x-authz-user-id", "alice"), ("x-authz-user-id", "bob")]
    async with house.user(None) as client:
        answer = await client.get("/v1/memory", headers=headers)
    assert (answer.status_code, error_of(answer)["code"]) == (401, "bad_identity")


# -- deletion ----------------------------------------------------------------------------------------------------------


async def test_deleting_by_user_and_by_project(house: House) -> None:
    """The three forms of DELETE; each reaches what it names and nothing else."""
    single = await house.remember("alice", "one")
    for project in ("trip", "trip", "work", ""):
        await house.remember("alice", "more", project=project)
    await house.remember("bob", "bob's", project="trip")
    async with house.user("alice") as alice, house.user("bob") as bob:

        async def left() -> list[str]:
            return sorted(memory["project_id"] for memory in (await alice.get("/v1/memory")).json()["data"])

        await alice.delete(f"/v1/memory/{single.id}")
        assert await left() == ["", "trip", "trip", "work"]
        answer = await alice.delete("/v1/memory", params={"user_id": "alice", "project_id": "trip"})
        expected = {"object": "memory.deleted", "owner": "user:alice", "project_id": "trip", "deleted": 2}
        assert answer.json() == expected
        assert await left() == ["", "work"]
        answer = await alice.delete("/v1/memory", params={"user_id": "alice"})
        assert answer.json() == {**expected, "project_id": None}
        assert await left() == []
        assert len((await bob.get("/v1/memory")).json()["data"]) == 1


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("", "user_id"),
        ("?user_id=", "user_id"),
        ("?project_id=trip", "user_id"),
        ("?user_id=alice&project_id=", "project_id"),
        ("?user_id=alice&projectid=trip", "projectid"),
        ("?user_id=alice&project_id=a&project_id=b", "project_id"),
        ("?user_id=alice&user_id=alice", "user_id"),
    ],
)
async def test_a_vague_deletion_deletes_nothing(house: House, query: str, param: str) -> None:
    memory = await house.remember("alice", "one", project="trip")
    async with house.user("alice") as alice:
        answer = await alice.delete(f"/v1/memory{query}")
        assert (answer.status_code, error_of(answer)["param"]) == (400, param)
        assert (await alice.get(f"/v1/memory/{memory.id}")).status_code == 200


async def test_a_deleted_memory_is_gone_for_every_search_that_begins_later(house: House) -> None:
    """Under concurrent searches, and with rows that the store still shows because deleting them is late."""
    memories = [await house.remember("alice", f"tea number {number}") for number in range(20)]
    gone: set[str] = set()
    stop = asyncio.Event()

    async def searching() -> int:
        rounds = 0
        async with house.user("alice") as alice:
            while not stop.is_set():
                before = set(gone)
                hits = (await alice.post("/v1/memory/search", json={"query": "tea number", "limit": 50})).json()["data"]
                assert not before & {hit["id"] for hit in hits}
                rounds += 1
        return rounds

    searches = [asyncio.create_task(searching()) for _ in range(4)]
    async with house.user("alice") as alice:
        for number, memory in enumerate(memories):
            house.store.failing = frozenset({"delete"} if number % 2 else ())
            answer = await alice.delete(f"/v1/memory/{memory.id}")
            assert answer.status_code == (503 if number % 2 else 200)
            gone.add(memory.id)
        stop.set()
        assert sum(await asyncio.gather(*searches)) > 20
        assert (await alice.get("/v1/memory")).json()["data"] == []


async def test_the_turns_a_memory_came_from_go_with_it(house: House) -> None:
    """So that an extraction that is still waiting cannot bring it back; nor may the same words, said before."""
    said_at = datetime.now(UTC) - timedelta(seconds=1)
    turn = Turn(
        scope=Scope("alice"),
        hints=SessionHints(explicit="s1"),
        user_texts=("My budget is $10,000",),
        assistant_text="Noted.",
        observed_at=said_at,
        request_id="r1",
    )
    appended = house.log.append(turn, remember=False)
    memory = await house.remember("alice", "User's budget is $10,000", metadata={"turn_ids": [appended.turn_id]})
    assert (await house.log.totals()).waiting == 1
    async with house.user("alice") as alice:
        await alice.delete(f"/v1/memory/{memory.id}")
    totals = await house.log.totals()
    assert (totals.waiting, totals.deleted) == (0, 1)
    deleted = await house.log.tombstones(Scope("alice"))
    assert deleted.forbids(Scope("alice"), "user's budget is  $10,000.", said_at)
    assert not deleted.forbids(Scope("alice"), "User's budget is $10,000", datetime.now(UTC))


async def test_waiting_turns_go_when_everything_goes(house: House) -> None:
    turn = Turn(
        scope=Scope("alice"),
        hints=SessionHints(explicit="s1"),
        user_texts=("My budget is $10,000",),
        assistant_text="Noted.",
        observed_at=datetime.now(UTC),
        request_id="r1",
    )
    house.log.append(turn, remember=False)
    async with house.user("alice") as alice:
        await alice.delete("/v1/memory", params={"user_id": "alice"})
    assert (await house.log.totals()).waiting == 0


async def test_a_deletion_without_the_store_says_so_hides_at_once_and_can_be_repeated(house: House) -> None:
    memory = await house.remember("alice", "User's budget is $10,000")
    one = f"/v1/memory/{memory.id}"
    async with house.user("alice") as alice:
        for failing, path in (("delete", one), ("delete_all", "/v1/memory?user_id=alice")):
            house.store.failing = frozenset({failing})
            answer = await alice.delete(path)
            assert (answer.status_code, error_of(answer)["code"]) == (503, "deletion_unfinished")
            assert answer.headers["retry-after"] == "5"
            assert (await alice.get(one)).status_code == 404
            assert (await alice.get("/v1/memory")).json()["data"] == []
        house.store.failing = frozenset()
        assert (await alice.delete(one)).status_code == 200
        assert await house.store.get(Scope("alice"), memory.id) is None


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/memories", 404, "not_found"),
        ("GET", "/", 404, "not_found"),
        ("GET", "/v1/memory/", 404, "not_found"),
        ("PUT", "/v1/memory", 405, "method_not_allowed"),
        ("POST", "/v1/memory/some", 405, "method_not_allowed"),
        ("GET", "/v1/memory?limit=0", 400, "invalid_value"),
        ("GET", "/v1/memory?limit=201", 400, "invalid_value"),
        ("GET", "/v1/memory?type=wish", 400, "invalid_value"),
        ("GET", "/v1/memory?what=ever", 400, "invalid_value"),
        ("GET", f"/v1/memory?project_id={'x' * 257}", 400, "invalid_value"),
        ("GET", "/v1/memory/a%00b", 404, "memory_not_found"),
        ("GET", f"/v1/memory/{'x' * 5000}", 404, "memory_not_found"),
        ("GET", "/v1/memory/..%2f..", 404, "not_found"),
        ("GET", "/v1/memory?owner=org:acme", 404, "owner_not_found"),
        ("DELETE", "/v1/memory?user_id=bob", 404, "user_not_found"),
    ],
)
async def test_requests_that_lead_nowhere(house: House, method: str, path: str, status: int, code: str) -> None:
    async with house.user("alice") as alice:
        answer = await alice.request(method, path)
    assert (answer.status_code, error_of(answer)["code"]) == (status, code)


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/memory", "DELETE, GET, POST"),
        ("/v1/memory/some", "DELETE, GET, PATCH"),
        ("/v1/memory/sessions/a/b/end", "POST"),
        ("/v1/knowledge", "GET, POST"),
    ],
)
async def test_a_method_that_a_path_does_not_take_is_told_which_it_does(house: House, path: str, methods: str) -> None:
    async with house.user("alice") as alice:
        answer = await alice.options(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)


@pytest.mark.parametrize(
    ("body", "status", "code", "param"),
    [
        (b"", 400, "invalid_json", None),
        (b"{", 400, "invalid_json", None),
        (b"[]", 400, "invalid_json", None),
        (b"\xff\xfe", 400, "invalid_json", None),
        (b'{"content": "M\xfcnchen"}', 400, "invalid_json", None),
        (b"[" * 2000, 400, "invalid_json", None),
        (b"{}", 400, "invalid_value", "content"),
        (b'{"content": "x", "id": "mem_1"}', 400, "invalid_value", "id"),
        (b'{"content": "x", "project_id": "a\\nb"}', 400, "invalid_value", "project_id"),
        (b'{"content": "\\ud800"}', 400, "invalid_value", "content"),
        (b'{"content": "x", "importance": NaN}', 400, "invalid_value", "importance"),
        (b'{"content": "x", "metadata": {"a": NaN}}', 400, "invalid_value", "metadata"),
        (b'{"content": "x", "metadata": {"a": "\\ud800"}}', 400, "invalid_value", "metadata"),
        (b'{"content": "my card is 4111 1111 1111 1111"}', 400, "invalid_value", "content"),
        (b'{"content": "%s"}' % (b"x" * 201), 400, "invalid_value", "content"),
        (b'{"content": "%s"}' % (b"x " * 101), 400, "invalid_value", "content"),
        (b'{"content": "%s"}' % (b"x" * 4096), 413, "request_too_large", None),
    ],
)
async def test_bodies_that_are_not_stored(house: House, body: bytes, status: int, code: str, param: str | None) -> None:
    async with house.user("alice") as alice:
        answer = await alice.post("/v1/memory", content=body, headers={"content-type": "application/json"})
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["param"]) == (status, code, param)
        assert (await alice.get("/v1/memory")).json()["data"] == []


async def test_what_is_longer_than_the_embedding_model_reads_is_one_memory_found_by_its_end(house: House) -> None:
    """Stored, changed and imported: nothing shows how it is kept."""
    long = "Tea was served. " * 10 + "Zeppelin landed."
    imported, changed = long.replace("Zeppelin", "Balloon"), long.replace("Zeppelin", "Glider")
    async with house.user("alice") as alice:
        memory = (await alice.post("/v1/memory", json={"content": long})).json()
        assert (memory["content"], memory["metadata"]) == (long, {})
        line = json.dumps({"content": imported, "metadata": {"passage_count": 7}}).encode()
        assert (await alice.post("/v1/memory/import", content=line)).json()["imported"] == 1
        for content, end in ((long, "Zeppelin landed"), (imported, "Balloon landed")):
            best, *_ = (await alice.post("/v1/memory/search", json={"query": end})).json()["data"]
            assert (best["content"], best["metadata"].get("passage_count")) == (content, None)
        shown = await alice.patch(f"/v1/memory/{memory['id']}", json={"content": changed})
        assert shown.json()["content"] == changed
        assert {each["content"] for each in (await alice.get("/v1/memory")).json()["data"]} == {changed, imported}
        assert (await alice.delete("/v1/memory", params={"user_id": "alice"})).json()["deleted"] == 2


async def test_a_longer_memory_of_earlier_times_can_still_be_changed(house: House) -> None:
    memory = await house.remember("alice", "one")
    house.embedder._max_passage_tokens = 0
    async with house.user("alice") as alice:
        answer = await alice.patch(f"/v1/memory/{memory.id}", json={"importance": 0.9})
        assert (answer.status_code, answer.json()["content"]) == (200, "one")


async def test_an_update_must_change_something(house: House) -> None:
    memory = await house.remember("alice", "one")
    async with house.user("alice") as alice:
        assert (await alice.patch(f"/v1/memory/{memory.id}", json={})).status_code == 400
        assert (await alice.patch(f"/v1/memory/{memory.id}", json={"project_id": "a\nb"})).status_code == 400


async def test_a_store_that_is_away_is_503(house: House) -> None:
    house.store.failing = frozenset({"get", "page", "search", "upsert"})
    async with house.user("alice") as alice:
        for answer in (
            await alice.get("/v1/memory"),
            await alice.get("/v1/memory/some"),
            await alice.post("/v1/memory", json={"content": "x"}),
            await alice.post("/v1/memory/search", json={"query": "x"}),
        ):
            assert (answer.status_code, error_of(answer)["code"]) == (503, "store_unavailable")


# -- the operator's port -----------------------------------------------------------------------------------------------


async def test_an_operator_acts_for_a_user_whom_they_name(house: House) -> None:
    memory = await house.remember("alice", "User likes tea")
    async with house.operator() as operator:
        as_alice, as_bob = {"user_id": "alice"}, {"user_id": "bob"}
        listed = (await operator.get("/v1/memory", params=as_alice)).json()["data"]
        assert [row["id"] for row in listed] == [memory.id]
        assert (await operator.get(f"/v1/memory/{memory.id}", params=as_bob)).status_code == 404
        stored = await operator.post("/v1/memory", params=as_bob, json={"content": "User likes coffee"})
        assert stored.json()["owner"] == "user:bob"
        assert (await operator.delete("/v1/memory", params=as_alice)).json()["deleted"] == 1
        for answer in (
            await operator.get("/v1/memory"),
            await operator.get("/v1/memory", headers={"x-authz-user-id": "bob"}),
            await operator.delete("/v1/memory"),
        ):
            assert (answer.status_code, error_of(answer)["param"]) == (400, "user_id")


@pytest.mark.parametrize("token", [None, "wrong", f"{TOKEN}x", "ø"])
async def test_without_the_token_nobody_is_an_operator(house: House, token: str | None) -> None:
    await house.remember("alice", "User likes tea")
    async with local_client(base_url=house.operator_url) as client:
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        answer = await client.get("/v1/memory", params={"user_id": "alice"}, headers=headers)
    assert (answer.status_code, error_of(answer)["code"]) == (401, "bad_operator_token")


@pytest.mark.parametrize(
    ("function", "method", "path"),
    [
        ("semrouter_memory.store.memory_collection.listed", "GET", ""),
        ("semrouter_memory.manage.portable.export_line", "GET", "/export"),
        ("semrouter_memory.manage.portable.parse", "POST", "/import"),
        ("fastapi.FastAPI.openapi", "GET", "/openapi.json"),
    ],
)
async def test_what_takes_long_for_thousands_runs_beside_the_event_loop(
    house: House, monkeypatch: pytest.MonkeyPatch, function: str, method: str, path: str
) -> None:
    """Which every exchange needs: their tokens would wait for it."""
    await house.remember("alice", "User lives in Oslo")
    threads = threads_of(monkeypatch, function)
    async with house.user("alice") as alice:
        (await alice.request(method, f"/v1/memory{path}", content=b'{"content": "User has a cat"}')).raise_for_status()
    assert threads
    assert threading.get_ident() not in threads


async def test_a_client_says_what_may_be_missing_where_there_is_no_route(house: House, ports: list[Port]) -> None:
    """Without an operator's token there are no operator's routes; another 404 says what was not found."""
    operators = ports[1]
    operators.switch.app = operator_api(access_to(house.service), token=None)

    def ask() -> None:
        with ApiClient(ApiEndpoint(url=operators.url)) as client:
            client.ask("GET", TURNS, "totals", holding="accepted")

    with pytest.raises(NotFoundError, match=r"^/v1/turns/totals: there is no such route.*management\.operator_token"):
        await asyncio.to_thread(ask)

    def get() -> None:
        with ApiClient(ApiEndpoint(url=house.url, headers={"x-authz-user-id": "alice"})) as client:
            client.ask("GET", MEMORY, "unknown", holding="id")

    with pytest.raises(NotFoundError, match="no such memory"):
        await asyncio.to_thread(get)


async def test_the_users_port_knows_no_operator(house: House) -> None:
    await house.remember("alice", "User likes tea")
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with house.user(None) as client:
        assert (await client.get("/v1/memory?user_id=alice", headers=headers)).status_code in {400, 401}
        assert (await client.delete("/v1/memory?user_id=alice", headers=headers)).status_code == 401
        assert (await client.get("/metrics")).status_code == 404
    async with house.user("bob") as client:
        assert (await client.get("/v1/memory?user_id=alice", headers=headers)).status_code == 400


async def test_health_needs_no_token_and_readiness_needs_the_model_only(house: House) -> None:
    async with house.operator(token=None) as probe:
        assert (await probe.get("/healthz")).json() == {"status": "ok"}
        house.ready["store"] = False
        answer = await probe.get("/readyz")
        assert (answer.status_code, answer.json()["store"]) == (200, "unavailable")
        house.ready["model"] = False
        answer = await probe.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "not ready")
        metrics = await probe.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=")
        assert "semrouter_memory_build_info" in metrics.text


# -- the rest ----------------------------------------------------------------------------------------------------------


async def test_the_description_is_true_to_the_routes(house: House) -> None:
    async with house.user(None) as client:
        described = (await client.get("/v1/memory/openapi.json")).json()
    operations = {(method, path) for path, methods in described["paths"].items() for method in methods}
    assert operations == {
        ("get", "/v1/memory"),
        ("post", "/v1/memory"),
        ("delete", "/v1/memory"),
        ("post", "/v1/memory/search"),
        ("post", "/v1/memory/reflect"),
        ("get", "/v1/memory/export"),
        ("get", "/v1/memory/entities"),
        ("get", "/v1/memory/receipts"),
        ("get", "/v1/memory/settings"),
        ("put", "/v1/memory/settings"),
        ("post", "/v1/memory/import"),
        ("post", "/v1/memory/sessions/{session_id}/end"),
        ("get", "/v1/memory/{memory_id}"),
        ("get", "/v1/memory/{memory_id}/history"),
        ("patch", "/v1/memory/{memory_id}"),
        ("delete", "/v1/memory/{memory_id}"),
        ("get", "/v1/knowledge"),
        ("post", "/v1/knowledge"),
        ("get", "/v1/knowledge/{document_id}"),
        ("delete", "/v1/knowledge/{document_id}"),
    }
    for path, method in ((path, method) for method, path in operations):
        operation = described["paths"][path][method]
        assert operation["summary"]
        assert "422" not in operation["responses"]
        assert operation["responses"]["default"]["content"]["application/json"]["schema"]["$ref"].endswith("ErrorJson")


async def test_a_shared_secret_keeps_everybody_else_out(house: House) -> None:
    service: Any = None
    app = create_user_api(access_to(service), config=ManagementConfig(), shared_secret="s3cret")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        for headers in ([], [("x-memory-secret", "wrong")], [("x-memory-secret", "s3cret")] * 2):
            answer = await client.get("/v1/memory/openapi.json", headers=headers)
            assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated_proxy")
        assert (await client.get("/v1/memory/openapi.json", headers={"x-memory-secret": "s3cret"})).is_success


@pytest.fixture
def log_text() -> StringIO:
    """Everything that the process logs, at the most talkative level."""
    stream = StringIO()
    logs.configure(TelemetryConfig(log_level="DEBUG"), stream=stream)
    return stream


async def test_no_content_reaches_the_log(log_text: StringIO, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even through an error that nobody expected."""
    canary = "canary-in-a-coal-mine"

    async def explode(*_: Any, **__: Any) -> None:
        raise RuntimeError(canary)

    async with house.user("alice") as alice:
        memory = (await alice.post("/v1/memory", json={"content": canary, "metadata": {"a": canary}})).json()
        await alice.post("/v1/memory/search", json={"query": canary})
        await alice.patch(f"/v1/memory/{memory['id']}", json={"content": canary, "wrong": canary})
        await alice.post("/v1/memory", json={"content": f"password: {canary}"})
        monkeypatch.setattr(house.store, "upsert", explode)
        failed = await alice.post("/v1/memory", json={"content": canary})
        await alice.delete(f"/v1/memory/{memory['id']}")
    assert (failed.status_code, error_of(failed)["code"]) == (500, "internal_error")
    assert canary not in failed.text
    assert "Management request failed" in log_text.getvalue()
    assert canary not in log_text.getvalue()


async def test_a_memory_is_pinned(house: House) -> None:
    async with house.user("alice") as alice:

        async def pinned(value: str = "true") -> list[str]:
            page = (await alice.get("/v1/memory", params={"pinned": value})).raise_for_status().json()
            return [each["content"] for each in page["data"]]

        tea, trip = "User likes green tea", "User went to Oslo in May"
        stored = (await alice.post("/v1/memory", json={"content": trip, "type": "episodic"})).json()
        assert (stored["pinned"], stored["expires_at"] is None) == (False, False)
        assert (await alice.post("/v1/memory", json={"content": tea, "type": "episodic", "pinned": True})).is_success
        one = f"/v1/memory/{stored['id']}"
        changed = (await alice.patch(one, json={"pinned": True})).json()
        assert (changed["pinned"], changed["expires_at"]) == (True, None)
        # Nothing was said.
        assert changed["observed_at"] == stored["observed_at"]
        assert await pinned() == [tea, trip]
        # Neither its age nor other changes end it; storing it again does not either.
        assert (await alice.patch(one, json={"importance": 0.9, "metadata": {"a": 1}})).json()["pinned"] is True
        assert (await alice.post("/v1/memory", json={"content": trip, "type": "episodic"})).json()["pinned"] is True
        lines = (await alice.get("/v1/memory/export")).content
        await alice.delete("/v1/memory", params={"user_id": "alice"})
        assert (await alice.post("/v1/memory/import", content=lines)).json()["imported"] == 2
        assert await pinned() == [tea, trip]

        one = f"/v1/memory/{(await alice.get('/v1/memory')).json()['data'][0]['id']}"
        later = {"expires_at": "2100-01-01T00:00:00Z"}
        refused = (
            await alice.patch(one, json=later),
            await alice.post("/v1/memory", json={"content": "User has a cold", "pinned": True, **later}),
            await alice.post("/v1/memory", json={"content": "User is ill", "pinned": True, "within_session": "s"}),
            await alice.patch(one, json={"pinned": None}),
            await alice.patch(one, json={"metadata": {"pinned": False}}),
        )
        assert [answer.status_code for answer in refused] == [400] * 5
        assert (await alice.patch(one, json={"pinned": False})).json()["pinned"] is False
        assert await pinned("false") == [tea]
        assert (await alice.patch(one, json=later)).is_success


async def test_remembering_is_paused_and_resumed(house: House) -> None:
    settings = "/v1/memory/settings"
    async with house.user("alice") as alice, house.user("bob") as bob, house.operator() as operator:
        assert (await alice.get(settings)).json() == {"object": "memory.settings", "paused": False, "paused_at": None}
        paused = (await alice.put(settings, json={"paused": True})).json()
        assert paused["paused"] is True
        assert abs(datetime.fromisoformat(paused["paused_at"]) - datetime.now(UTC)) < timedelta(minutes=1)
        assert (await alice.put(settings, json={"paused": True})).json() == paused
        assert (await alice.get(settings)).json() == paused
        assert (await bob.get(settings)).json()["paused"] is False
        assert (await operator.get(settings, params={"owner": "user:alice"})).json() == paused
        assert (await operator.get(settings, params={"owner": "org:acme"})).status_code == 404

        # What the user does by hand goes on, and deleting everything does not end the pause.
        assert (await alice.post("/v1/memory", json={"content": "User likes green tea"})).status_code == 201
        assert [each["content"] for each in (await alice.get("/v1/memory")).json()["data"]] == ["User likes green tea"]
        assert (await alice.delete("/v1/memory", params={"user_id": "alice"})).json()["deleted"] == 1
        assert (await alice.get(settings)).json() == paused

        for wrong in ({}, {"paused": None}, {"paused": "true"}, {"paused": 1}, {"paused": True, "more": 1}):
            assert (await alice.put(settings, json=wrong)).status_code == 400
        resumed = await operator.put(settings, params={"user_id": "alice"}, json={"paused": False})
        assert resumed.json() == (await alice.get(settings)).json()
        assert resumed.json()["paused_at"] is None


# -- what was said before ----------------------------------------------------------------------------------------------


async def remembered_chain(house: House) -> list[Memory]:
    """Berlin, then Munich, then Kiel; of one user."""
    said = datetime(2026, 1, 1, tzinfo=UTC)
    rows = []
    for number, city in enumerate(("Berlin", "Munich", "Kiel")):
        moved: dict[str, Any] = {
            "superseded_at": said + timedelta(days=number + 1),
            "superseded_by": f"mem_{number + 1}",
        }
        rows.append(
            await house.remember(
                "alice",
                f"User lives in {city}",
                id=f"mem_{number}",
                observed_at=said + timedelta(days=number),
                created_at=said + timedelta(days=number),
                **(moved if number < 2 else {}),
            )
        )
    return rows


async def test_the_history_tells_what_was_said_before_and_when_it_changed(house: House) -> None:
    rows = await remembered_chain(house)
    async with house.user("alice") as alice, house.user("bob") as bob:
        for memory_id in ("mem_0", "mem_1", "mem_2"):
            members = (await alice.get(f"/v1/memory/{memory_id}/history")).json()["data"]
            assert [each["content"] for each in members] == [row.content for row in rows]
            assert [each["superseded_by"] for each in members] == ["mem_1", "mem_2", None]
            assert [each["superseded_at"] is None for each in members] == [False, False, True]
        listed = (await alice.get("/v1/memory")).json()["data"]
        assert [each["id"] for each in listed] == ["mem_2"]
        listed = (await alice.get("/v1/memory", params={"include": "history"})).json()["data"]
        assert [each["id"] for each in listed] == ["mem_2", "mem_1", "mem_0"]
        found = (await alice.post("/v1/memory/search", json={"query": "Where does the user live?"})).json()["data"]
        assert [each["id"] for each in found] == ["mem_2"]
        foreign = await bob.get("/v1/memory/mem_2/history")
        assert (foreign.status_code, error_of(foreign)["code"]) == (404, "memory_not_found")
        wrong = await alice.get("/v1/memory", params={"include": "everything"})
        assert (wrong.status_code, error_of(wrong)["param"]) == (400, "include")


async def test_a_forgotten_memory_takes_what_it_replaced_along(house: House) -> None:
    await remembered_chain(house)
    async with house.user("alice") as alice:
        assert (await alice.delete("/v1/memory/mem_1")).is_success
        assert (await alice.get("/v1/memory/mem_0")).status_code == 404
        members = (await alice.get("/v1/memory/mem_2/history")).json()["data"]
        assert [each["id"] for each in members] == ["mem_2"]
        assert len((await alice.get("/v1/memory/export")).text.splitlines()) == 1


async def test_contradictions_that_nobody_could_decide_are_shown(house: House) -> None:
    memory = await house.remember("alice", "User is 40", metadata={"flagged": True, "contradicts": ["mem_9"]})
    async with house.user("alice") as alice:
        shown = (await alice.get(f"/v1/memory/{memory.id}")).json()
        assert (shown["flagged"], shown["contradicts"]) == (True, ["mem_9"])
        refused = await alice.post("/v1/memory", json={"content": "x", "metadata": {"flagged": True}})
        assert (refused.status_code, error_of(refused)["param"]) == (400, "metadata.flagged")


# -- an end of its own -------------------------------------------------------------------------------------------------


async def test_a_memory_may_be_given_a_time_of_expiry_and_lose_it_again(house: House) -> None:
    async with house.user("alice") as alice:
        body = {"content": "User is in Rome", "expires_at": "2096-01-01T01:00:00+01:00"}
        memory = (await alice.post("/v1/memory", json=body)).json()
        assert memory["expires_at"] == "2096-01-01T00:00:00Z"
        one = f"/v1/memory/{memory['id']}"
        assert (await alice.patch(one, json={"importance": 1})).json()["expires_at"] == memory["expires_at"]
        changed = (await alice.patch(one, json={"expires_at": "2097-01-01T00:00:00Z"})).json()
        assert changed["expires_at"] == "2097-01-01T00:00:00Z"
        assert (await alice.patch(one, json={"expires_at": None})).json()["expires_at"] is None


async def test_a_null_time_of_expiry_is_never_and_none_is_as_its_type_lives(house: House) -> None:
    async with house.user("alice") as alice:
        body = {"content": "User was in Rome", "type": "episodic"}
        memory = (await alice.post("/v1/memory", json=body)).json()
        lives = datetime.fromisoformat(memory["expires_at"]) - datetime.fromisoformat(memory["observed_at"])
        assert lives == timedelta(days=30)
        assert (await alice.post("/v1/memory", json={**body, "expires_at": None})).json()["expires_at"] is None


@pytest.mark.parametrize(
    "wrong", ["2020-01-01T00:00:00Z", "2096-01-01T00:00:00", "9999-12-31T23:30:00-01:00", "soon", "", [], True]
)
async def test_a_time_of_expiry_must_be_one_and_lie_in_the_future(house: House, wrong: Any) -> None:
    memory = await house.remember("alice", "User is in Rome")
    async with house.user("alice") as alice:
        for answer in (
            await alice.post("/v1/memory", json={"content": "x", "expires_at": wrong}),
            await alice.patch(f"/v1/memory/{memory.id}", json={"expires_at": wrong}),
        ):
            assert (answer.status_code, error_of(answer)["param"]) == (400, "expires_at")


# -- out and in again --------------------------------------------------------------------------------------------------


async def test_everything_exported_and_forgotten_comes_back_by_an_import(house: House) -> None:
    """The export after it is the export before it, history included; what is found is found as before."""
    await remembered_chain(house)
    await house.remember("alice", "in a project", project="trip", importance=0.25, session_id="ses 1")
    async with house.user("alice") as alice:
        before = (await alice.get("/v1/memory/export")).text
        assert len(before.splitlines()) == 4
        active = (await alice.get("/v1/memory/export", params={"history": "false"})).text
        assert len(active.splitlines()) == 2
        assert (await alice.delete("/v1/memory", params={"user_id": "alice"})).json()["deleted"] == 4
        assert (await alice.get("/v1/memory/export")).text == ""
        done = await alice.post("/v1/memory/import", content=before.encode())
        assert done.json() == {
            "object": "memory.import",
            "lines": 4,
            "imported": 4,
            "skipped": 0,
            "refused": 0,
            "errors": [],
        }
        assert (await alice.get("/v1/memory/export")).text == before
        again = (await alice.post("/v1/memory/import", content=before.encode())).json()
        assert (again["imported"], again["skipped"]) == (0, 4)
        found = (await alice.post("/v1/memory/search", json={"query": "User lives in Kiel"})).json()["data"]
        assert found[0]["id"] == "mem_2"
        assert [each["id"] for each in (await alice.get("/v1/memory/mem_0/history")).json()["data"]] == [
            "mem_0",
            "mem_1",
            "mem_2",
        ]


async def test_what_is_known_takes_the_type_and_the_parts_that_it_is_stored_again_with(house: House) -> None:
    async with house.user("alice") as alice:
        statement = {"content": "Rode a horse"}
        known = (await alice.post("/v1/memory", json={**statement, "type": "procedural"})).json()
        untold = (await alice.post("/v1/memory", json=statement)).json()
        assert (untold["id"], untold["type"]) == (known["id"], "procedural")
        episode = (await alice.post("/v1/memory", json={**statement, "type": "episodic", "goal": "ride"})).json()
        assert (episode["id"], episode["type"], episode["goal"]) == (known["id"], "episodic", "ride")
        plain = (await alice.post("/v1/memory", json={**statement, "type": "semantic"})).json()
        assert (plain["id"], plain["type"], plain["goal"], plain["metadata"]) == (known["id"], "semantic", "", {})
        assert (await alice.get(f"/v1/memory/{known['id']}")).json()["type"] == "semantic"


async def test_a_memory_of_a_session_is_the_users_in_every_other_way(house: House) -> None:
    async with house.user("alice") as alice, house.user("bob") as bob:
        new = {"content": "The draft is in folder A", "within_session": "s 1", "promote": True}
        noted = (await alice.post("/v1/memory", json=new)).json()
        assert (noted["owner"], noted["within_session"], noted["promote"]) == ("user:alice", "s 1", True)
        assert datetime.fromisoformat(noted["expires_at"]) - datetime.fromisoformat(noted["created_at"]) == timedelta(1)
        again = (await alice.post("/v1/memory", json={**new, "promote": False})).json()
        assert (again["id"], again["promote"]) == (noted["id"], False)
        elsewhere = (await alice.post("/v1/memory", json={**new, "within_session": "s 2"})).json()
        assert elsewhere["id"] != noted["id"]
        exported = (await alice.get("/v1/memory/export")).text
        assert {each["id"] for each in (await alice.get("/v1/memory")).json()["data"]} == {noted["id"], elsewhere["id"]}
        assert (await bob.get("/v1/memory")).json()["data"] == []
        assert (await bob.get(f"/v1/memory/{noted['id']}")).status_code == 404
        assert (await alice.delete("/v1/memory", params={"user_id": "alice"})).json()["deleted"] == 2
        assert (await alice.post("/v1/memory/import", content=exported.encode())).json()["imported"] == 2
        assert (await alice.get("/v1/memory/export")).text == exported
        for wrong in ({"promote": True}, {"within_session": "x" * 257}, {"within_session": 7}):
            assert (await alice.post("/v1/memory", json={"content": "x", **wrong})).status_code == 400
        reserved = {"content": "x", "metadata": {"within": {"session": "s"}}}
        assert error_of(await alice.post("/v1/memory", json=reserved))["param"] == "metadata.within"
        secret = {"content": "x", "within_session": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"}
        assert (await alice.post("/v1/memory", json=secret)).status_code == 400


async def test_a_memory_forgotten_by_its_id_comes_back_by_an_import(house: House) -> None:
    await remembered_chain(house)
    async with house.user("alice") as alice:
        lines = (await alice.get("/v1/memory/export")).content
        assert (await alice.delete("/v1/memory/mem_2")).is_success
        assert (await alice.post("/v1/memory/import", content=lines)).json()["imported"] == 3
        (back,) = (await alice.get("/v1/memory")).json()["data"]
        assert back["content"] == "User lives in Kiel"
        assert back["id"] != "mem_2"
        members = (await alice.get(f"/v1/memory/{back['id']}/history")).json()["data"]
        assert [each["content"][-4:] for each in members] == ["rlin", "nich", "Kiel"]


async def test_an_import_tells_each_line_that_it_refuses_and_why(house: House) -> None:
    lines = (
        b'{"content": "fine"}\n\n{"content": "my key is AKIAIOSFODNN7EXAMPLE"}\nnonsense\n{"content":"x","type":"odd"}'
    )
    async with house.user("alice") as alice:
        answer = (await alice.post("/v1/memory/import", content=lines)).json()
        assert (answer["lines"], answer["imported"], answer["refused"]) == (4, 1, 3)
        assert [(each["line"], each["param"]) for each in answer["errors"]] == [(3, "content"), (4, None), (5, "type")]
        assert "AKIA" not in str(answer)
        unknown = await alice.post("/v1/memory/import", params={"from": "bob"}, content=lines)
        assert (unknown.status_code, error_of(unknown)["param"]) == (400, "from")


async def test_an_import_crosses_users_only_when_both_are_named(house: House) -> None:
    """The user comes from the authentication; a line of somebody else's file is refused unless that is wanted."""
    await house.remember("alice", "User likes tea")
    async with house.user("alice") as alice, house.user("bob") as bob, house.operator() as operator:
        lines = (await alice.get("/v1/memory/export")).content
        for refused in (
            await bob.post("/v1/memory/import", content=lines),
            await operator.post("/v1/memory/import", params={"user_id": "bob"}, content=lines),
        ):
            assert [each["param"] for each in refused.json()["errors"]] == ["owner"]
        assert (await bob.get("/v1/memory")).json()["data"] == []
        taken = await bob.post("/v1/memory/import", params={"from_user": "alice"}, content=lines)
        assert taken.json()["imported"] == 1
        assert [each["owner"] for each in (await bob.get("/v1/memory")).json()["data"]] == ["user:bob"]
        assert len((await alice.get("/v1/memory")).json()["data"]) == 1


async def test_an_import_has_bounds_of_its_own(house: House) -> None:
    """Larger than any other body, smaller than its own bound; one that breaks off says how far it came."""
    lines = b"".join(b'{"content": "fact %d"}\n' % number for number in range(400))

    async def chunks() -> AsyncIterator[bytes]:
        yield lines
        for _ in range(1100):
            yield b"x" * 65_536

    async with house.user("alice") as alice:
        answer = await alice.post("/v1/memory/import", content=lines)
        assert (len(lines) > 4096, answer.json()["imported"]) == (True, 400)
        large = await alice.post("/v1/memory/import", content=chunks())
        assert (large.status_code, error_of(large)["code"]) == (413, "request_too_large")
        blank = await alice.post("/v1/memory/import", content=b"\n" * 1_000_000)
        assert (blank.status_code, error_of(blank)["code"]) == (413, "too_many_lines")
        house.store.failing = frozenset({"upsert"})
        away = await alice.post("/v1/memory/import", content=b'{"content": "new"}')
        assert (away.status_code, error_of(away)["code"]) == (503, "import_unfinished")
        assert "0 imported" in error_of(away)["message"]


async def test_an_unknown_session_cannot_be_ended(house: House) -> None:
    async with house.user("alice") as alice:
        for path in ("unknown", "%2F", "a%2Fb", "", "%FF%FE"):
            answer = await alice.post(f"/v1/memory/sessions/{path}/end")
            assert (answer.status_code, error_of(answer)["code"]) == (404, "session_not_found"), path


async def test_a_session_of_a_project_ends_by_its_name(house: House) -> None:
    turn = Turn(
        scope=Scope("alice", "trip"),
        hints=SessionHints(explicit="s-1"),
        user_texts=("I land at noon",),
        assistant_text="Noted.",
        observed_at=datetime.now(UTC),
        request_id="r-1",
    )
    session_id = house.log.append(turn, remember=False).session_id
    async with house.user("alice") as alice:
        assert (await alice.post("/v1/memory/sessions/s-1/end")).status_code == 404
        ended = await alice.post("/v1/memory/sessions/s-1/end", params={"project_id": "trip"})
    assert (ended.status_code, ended.json()["session_id"]) == (202, session_id)


RUN = {
    "goal": "Deploy the billing service",
    "steps": ["helm upgrade", "smoke test"],
    "outcome": "Rolled back: the cluster was too old",
    "lessons": ["Verify the k8s version first"],
}


async def stored_run(alice: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    response = await alice.post("/v1/memory", json={"type": "episodic", **RUN, **fields})
    assert response.status_code == 201, response.text
    stored: dict[str, Any] = response.json()
    return stored


async def test_an_episode_is_stored_by_its_parts_and_its_content_follows_them(house: House) -> None:
    async with house.user("alice") as alice:
        stored = await stored_run(alice)
        assert {name: stored[name] for name in RUN} == RUN
        assert stored["content"] == (
            "Goal: Deploy the billing service. Steps: helm upgrade, smoke test."
            " Outcome: Rolled back: the cluster was too old. Lesson: Verify the k8s version first."
        )
        path = f"/v1/memory/{stored['id']}"
        changed = (await alice.patch(path, json={"outcome": " Done ", "lessons": []})).json()
        assert changed["content"] == (
            "Goal: Deploy the billing service. Steps: helm upgrade, smoke test. Outcome: Done."
        )
        assert (changed["outcome"], changed["lessons"], changed["goal"]) == ("Done", [], RUN["goal"])
        worded = (await alice.patch(path, json={"content": "User deployed billing", "goal": "Billing"})).json()
        assert (worded["content"], worded["goal"], worded["steps"]) == ("User deployed billing", "Billing", [])
        kept = (await alice.patch(path, json={"outcome": "Works"})).json()
        assert (kept["content"], kept["goal"], kept["outcome"]) == ("User deployed billing", "Billing", "Works")
        retyped = (await alice.patch(path, json={"type": "semantic"})).json()
        assert (retyped["goal"], retyped["metadata"]) == ("", {})


async def test_a_chinese_episode_is_told_in_chinese(house: House) -> None:
    async with house.user("alice") as alice:
        stored = await stored_run(alice, goal="部署计费服务", steps=["升级"], outcome="成功", lessons=["先检查版本"])
        assert stored["content"] == "目标：部署计费服务。步骤：升级。结果：成功。教训：先检查版本。"


async def test_episodes_are_listed_by_goal_and_outcome(house: House) -> None:
    async with house.user("alice") as alice:
        failed = await stored_run(alice)
        done = await stored_run(alice, outcome="Done after an update")
        await house.remember("alice", "User deploys the billing service")

        async def ids(**query: str) -> set[str]:
            return {memory["id"] for memory in (await alice.get("/v1/memory", params=query)).json()["data"]}

        assert await ids(goal="BILLING") == {failed["id"], done["id"]}
        assert await ids(outcome="rolled back") == {failed["id"]}
        assert await ids(goal="billing", outcome="update") == {done["id"]}
        assert await ids(goal="invoice") == set()


async def test_an_export_brings_episodes_back_and_takes_their_parts_from_hand_made_lines(house: House) -> None:
    async with house.user("alice") as alice:
        await stored_run(alice, content="User tried to deploy billing")
        before = (await alice.get("/v1/memory/export")).text
        assert (await alice.delete("/v1/memory", params={"user_id": "alice"})).json()["deleted"] == 1
        made = json.dumps({"type": "episodic", "goal": "Book a room", "outcome": "Booked"})
        done = (await alice.post("/v1/memory/import", content=f"{before}{made}\n".encode())).json()
        assert (done["imported"], done["errors"]) == (2, [])
        (booked,) = (await alice.get("/v1/memory", params={"goal": "room"})).json()["data"]
        assert booked["content"] == "Goal: Book a room. Outcome: Booked."
        exported = (await alice.get("/v1/memory/export")).text.splitlines(keepends=True)
        assert before in exported


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"type": "semantic", "content": "x", "goal": "y"}, "type"),
        ({"goal": "y"}, "type"),
        ({}, "content"),
        ({"type": "episodic"}, "content"),
        ({"type": "episodic", "goal": " ", "steps": [""]}, "content"),
        ({"type": "episodic", "goal": "use the key AKIAIOSFODNN7EXAMPLE", "content": "x"}, "goal"),
        ({"type": "episodic", "goal": "x", "lessons": ["a\x00b"], "content": "x"}, "lessons"),
        ({"type": "episodic", "goal": "x", "steps": ["长" * 200] * 2, "content": "x"}, "steps"),
        ({"type": "episodic", "goal": "x", "metadata": {"episode": {}}}, "metadata.episode"),
    ],
)
async def test_parts_that_are_not_stored(house: House, body: dict[str, Any], param: str) -> None:
    async with house.user("alice") as alice:
        response = await alice.post("/v1/memory", json=body)
        assert (response.status_code, error_of(response)["param"]) == (400, param)
        line = await alice.post("/v1/memory/import", content=json.dumps(body).encode())
        assert line.json()["refused"] == 1
        assert (await alice.get("/v1/memory")).json()["data"] == []


# -- categories and filters --------------------------------------------------------------------------------------------


async def test_a_category_is_set_changed_exported_and_filtered_by(house: House) -> None:
    async with house.user("alice") as alice:
        body = {"content": "User runs the billing service", "category": " work ", "metadata": {"team": "core"}}
        stored = (await alice.post("/v1/memory", json=body)).json()
        await alice.post("/v1/memory", json={"content": "User keeps bees", "metadata": {"category": "hobby"}})
        await alice.post("/v1/memory", json={"content": "User lives in Rome", "importance": 0.9})
        assert (stored["category"], stored["metadata"]) == ("work", {"team": "core", "category": "work"})

        async def found(wanted: str) -> list[set[str]]:
            listed = await alice.get("/v1/memory", params={"filter": wanted})
            searched = await alice.post("/v1/memory/search", json={"query": "User", "filter": wanted})
            return [{each["content"] for each in answer.json()["data"]} for answer in (listed, searched)]

        assert await found("category=work") == [{"User runs the billing service"}] * 2
        assert await found("metadata.team=core,category=work") == [{"User runs the billing service"}] * 2
        assert await found("category=hobby") == [{"User keeps bees"}] * 2
        assert await found("min_importance=0.6") == [{"User lives in Rome"}] * 2
        assert await found("category=work,min_importance=0.6") == [set()] * 2

        exported = (await alice.get("/v1/memory/export")).text
        one = f"/v1/memory/{stored['id']}"
        assert (await alice.patch(one, json={"content": "User ran it"})).json()["category"] == "work"
        assert (await alice.patch(one, json={"category": "past"})).json()["metadata"]["category"] == "past"
        assert (await alice.patch(one, json={"metadata": {"team": None}})).json()["category"] == "past"
        changed = (await alice.patch(one, json={"category": ""})).json()
        assert (changed["category"], changed["metadata"]) == ("", {})
        await alice.delete("/v1/memory", params={"user_id": "alice"})
        lines = exported.encode() + b'{"content": "User sings", "category": "hobby"}'
        assert (await alice.post("/v1/memory/import", content=lines)).json()["imported"] == 4
        assert await found("category=hobby") == [{"User keeps bees", "User sings"}] * 2
        assert await found("category=work") == [{"User runs the billing service"}] * 2


async def test_a_new_value_keeps_the_category_of_the_newest_that_it_replaces(house: House) -> None:
    async with house.user("alice") as alice:
        for place, category in (("Kiel", "home"), ("Rome", ""), ("Oslo", "away"), ("Bern", "")):
            body = {"content": f"User lives in {place}", "category": category}
            stored = (await alice.post("/v1/memory", json=body)).json()
            assert stored["category"] == (category or {"Rome": "home", "Bern": "away"}[place])


@pytest.mark.parametrize("wrong", ['a"b', "a\\b", "{a}", "a\nb", "x" * 129, 7, None, ["work"]])
async def test_a_category_that_no_filter_could_name_is_refused(house: House, wrong: Any) -> None:
    memory = await house.remember("alice", "User is in Rome")
    async with house.user("alice") as alice:
        for answer in (
            await alice.post("/v1/memory", json={"content": "x", "category": wrong}),
            await alice.patch(f"/v1/memory/{memory.id}", json={"category": wrong}),
        ):
            assert (answer.status_code, error_of(answer)["param"]) == (400, "category")


@pytest.mark.parametrize(
    "wrong", ["wörk", "zzz=core", 'category=a"b', "metadata.form=quote", "min_importance=2", "x" * 2_001]
)
async def test_a_filter_that_cannot_be_read_is_refused_with_what_to_write(house: House, wrong: str) -> None:
    async with house.user("alice") as alice:
        for answer in (
            await alice.get("/v1/memory", params={"filter": wrong}),
            await alice.post("/v1/memory/search", json={"query": "x", "filter": wrong}),
            await alice.post("/v1/memory/search", json={"query": "x", "filter": wrong, "as": "recall"}),
        ):
            assert (answer.status_code, error_of(answer)["param"]) == (400, "filter")
            assert wrong not in answer.text
