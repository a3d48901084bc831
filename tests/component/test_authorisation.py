"""Who may do what on which port: one table, which must have a row for every route that the descriptions name."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.management_ports import DESCRIPTION, TOKEN, Ports, descriptions, open_ports

OWNER, OTHER = "alice", "bob"
ABSENT, DENIED = 404, 401
CONTENT = "User's budget for the trip is $10,000"

CALLERS: dict[str, dict[str, str]] = {
    "owner": {"x-authz-user-id": OWNER},
    "other": {"x-authz-user-id": OTHER},
    "operator": {"authorization": f"Bearer {TOKEN}"},
    "none": {},
    "wrong token": {"authorization": f"Bearer {TOKEN}x"},
    "no token": {"authorization": "Bearer"},
    "token without scheme": {"authorization": TOKEN},
    "token as basic": {"authorization": f"Basic {TOKEN}"},
    "operator by name": {"x-authz-user-id": TOKEN},
}
"""Who asks, by what they send; each asks on both ports, for what belongs to the owner."""


@dataclass(frozen=True, slots=True)
class Row:
    """A route and what it answers.

    Attributes:
        done: to whom it belongs: the owner on the users' port, the operator on theirs.
        other: to another user on the users' port; None: as to the owner, of their own.
        public: it answers anybody.
        lines: the body is sent as lines of JSON.
    """

    done: int
    other: int | None = None
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()
    public: bool = False
    lines: bool = False


USER_ROUTES: dict[str, Row] = {
    "GET /v1/memory": Row(200),
    "POST /v1/memory": Row(201, body={"content": "User likes tea"}),
    "DELETE /v1/memory": Row(200, other=ABSENT, query=(("user_id", OWNER),)),
    "POST /v1/memory/search": Row(200, body={"query": "tea"}),
    "GET /v1/memory/export": Row(200),
    "GET /v1/memory/entities": Row(200),
    "POST /v1/memory/import": Row(200, body={"content": "User likes tea"}, lines=True),
    "POST /v1/memory/sessions/{session_id}/end": Row(202, other=ABSENT),
    "GET /v1/memory/{memory_id}": Row(200, other=ABSENT),
    "PATCH /v1/memory/{memory_id}": Row(200, other=ABSENT, body={"content": "User likes coffee"}),
    "DELETE /v1/memory/{memory_id}": Row(200, other=ABSENT),
    "GET /v1/memory/{memory_id}/history": Row(200, other=ABSENT),
}
OPERATOR_ROUTES: dict[str, Row] = {
    **USER_ROUTES,
    "GET /healthz": Row(200, public=True),
    "GET /readyz": Row(200, public=True),
    "GET /metrics": Row(200, public=True),
    "GET /v1/turns": Row(200),
    "GET /v1/turns/totals": Row(200),
    "POST /v1/turns/retry": Row(200),
    "GET /v1/turns/{turn_id}": Row(200),
    "DELETE /v1/turns/{turn_id}": Row(200),
    "POST /v1/turns/{turn_id}/retry": Row(409),
    "GET /v1/collections": Row(200),
    "POST /v1/collections/import": Row(200, body={"content": "User likes tea"}, lines=True),
    "GET /v1/collections/{name}": Row(200),
    "GET /v1/collections/{name}/export": Row(200),
    "DELETE /v1/collections/{name}": Row(400),
    "POST /v1/compact": Row(200),
    "POST /v1/backup": Row(400, body={"directory": "not/absolute"}),
}
TABLES = {"user": USER_ROUTES, "operator": OPERATOR_ROUTES}
MATRIX = [pytest.param(port, route, id=f"{port}: {route}") for port, table in TABLES.items() for route in table]


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    with open_ports(tmp_path_factory.mktemp("ports")) as opened:
        yield opened


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    """One for all requests: making a client takes longer than asking."""
    with httpx.Client(trust_env=False) as client:
        yield client


@dataclass(frozen=True, slots=True)
class Owned:
    """What the owner has."""

    memory_id: str
    turn_id: str


@pytest.fixture
def owned(ports: Ports, http: httpx.Client) -> Owned:
    answer = http.post(f"{ports.user_url}/v1/memory", json={"content": CONTENT}, headers=CALLERS["owner"])
    return Owned(answer.raise_for_status().json()["id"], ports.append(OWNER, "I live in Oslo"))


def expected(port: str, row: Row, caller: str) -> int:
    """What the table says that this caller is answered."""
    if row.public:
        return row.done
    if port == "operator":
        return row.done if caller == "operator" else DENIED
    if caller == "owner":
        return row.done
    if caller in {"other", "operator by name"}:
        return row.done if row.other is None else row.other
    return DENIED


def ask(http: httpx.Client, ports: Ports, port: str, route: str, caller: str, owned: Owned) -> httpx.Response:
    method, path = route.split(" ")
    row = TABLES[port][route]
    query = dict(row.query)
    if port == "operator" and route in USER_ROUTES:
        query["user_id"] = OWNER
    body = None if row.body is None else json.dumps(row.body)
    kind = "application/x-ndjson" if row.lines else "application/json"
    url = ports.user_url if port == "user" else ports.operator_url
    path = path.format(memory_id=owned.memory_id, turn_id=owned.turn_id, session_id="s1", name="memories")
    headers = {**CALLERS[caller], "content-type": kind}
    return http.request(method, url + path, content=body, params=query, headers=headers)


@pytest.mark.parametrize("port", TABLES)
def test_every_route_has_its_row(port: str) -> None:
    paths = descriptions()[port]["paths"]
    described = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert described == set(TABLES[port])


@pytest.mark.parametrize(("port", "route"), MATRIX)
def test_each_caller_is_answered_as_the_table_says(
    http: httpx.Client, ports: Ports, owned: Owned, port: str, route: str
) -> None:
    row = TABLES[port][route]
    for caller in sorted(CALLERS, key=lambda each: each in {"owner", "operator"}):
        answer = ask(http, ports, port, route, caller, owned)
        assert (caller, answer.status_code) == (caller, expected(port, row, caller)), answer.text
        if not row.public and caller not in {"owner", "operator"}:
            assert CONTENT not in answer.text


@pytest.mark.parametrize("caller", [caller for caller in CALLERS if caller != "owner"])
def test_nobody_else_changes_what_the_owner_has(http: httpx.Client, ports: Ports, owned: Owned, caller: str) -> None:
    """Whatever they ask of the users' port: the owner's memory is afterwards as it was."""
    for route in USER_ROUTES:
        ask(http, ports, "user", route, caller, owned)
    kept = http.get(f"{ports.user_url}/v1/memory/{owned.memory_id}", headers=CALLERS["owner"])
    assert kept.raise_for_status().json()["content"] == CONTENT


@pytest.mark.parametrize("route", [route for route in OPERATOR_ROUTES if route not in USER_ROUTES])
def test_the_operators_routes_are_not_on_the_users_port(
    http: httpx.Client, ports: Ports, owned: Owned, route: str
) -> None:
    method, path = route.split(" ")
    path = path.format(turn_id=owned.turn_id, name="memories")
    for headers in CALLERS.values():
        assert http.request(method, ports.user_url + path, headers=headers).status_code == ABSENT


@pytest.mark.parametrize("port", TABLES)
def test_the_description_holds_nothing_of_users(http: httpx.Client, ports: Ports, owned: Owned, port: str) -> None:
    """It is the only thing under /v1/memory that the ports show anybody."""
    url = ports.user_url if port == "user" else ports.operator_url
    answer = http.get(url + DESCRIPTION)
    assert answer.status_code == 200
    assert owned.memory_id not in answer.text


def test_an_identity_that_is_given_twice_is_none(http: httpx.Client, ports: Ports, owned: Owned) -> None:
    given = [("x-authz-user-id", OWNER), ("X-Authz-User-Id", OTHER)]
    answer = http.get(f"{ports.user_url}/v1/memory/{owned.memory_id}", headers=given)
    assert answer.status_code == DENIED
