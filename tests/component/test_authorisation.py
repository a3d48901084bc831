"""Who may do what on which port: one table, which must have a row for every route that the descriptions name."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import httpx
import pytest

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage import portable
from semrouter_memory.model import OwnerKind
from tests.management_ports import DESCRIPTION, TOKEN, Ports, descriptions, open_ports

OWNER, OTHER = "alice", "bob"
ABSENT, DENIED = 404, 401
CONTENT = "User's budget for the trip is $10,000"

OF_ACME = "org:acme"

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

OF_MEMBERS: dict[str, dict[str, str]] = {
    "administrator": {"x-authz-user-id": OTHER, "x-memory-org-admin": "acme"},
    "member": {"x-authz-user-id": OTHER, "x-memory-org": "acme"},
    "administrator of another": {"x-authz-user-id": OTHER, "x-memory-org-admin": "acme2"},
    "administrator by case": {"x-authz-user-id": OTHER, "x-memory-org-admin": "ACME"},
    "administrator by kind": {"x-authz-user-id": OTHER, "x-memory-org-admin": "org:acme"},
    "user of that name": {"x-authz-user-id": "acme"},
    "user of that name and kind": {"x-authz-user-id": OF_ACME},
    "nobody who administers": {"x-memory-org-admin": "acme"},
}
"""The same, for what belongs to an organisation."""


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
    "POST /v1/memory/reflect": Row(200, body={"question": "What is known of the budget?"}),
    "GET /v1/memory/export": Row(200),
    "GET /v1/memory/entities": Row(200),
    "GET /v1/memory/receipts": Row(200),
    "GET /v1/memory/settings": Row(200),
    "PUT /v1/memory/settings": Row(200, body={"paused": False}),
    "POST /v1/memory/import": Row(200, body={"content": "User likes tea"}, lines=True),
    "POST /v1/memory/mcp": Row(
        200,
        body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "list_memories", "arguments": {}}},
    ),
    "POST /v1/memory/sessions/{session_id}/end": Row(202, other=ABSENT),
    "GET /v1/memory/{memory_id}": Row(200, other=ABSENT),
    "PATCH /v1/memory/{memory_id}": Row(200, other=ABSENT, body={"content": "User likes coffee"}),
    "DELETE /v1/memory/{memory_id}": Row(200, other=ABSENT),
    "GET /v1/memory/{memory_id}/history": Row(200, other=ABSENT),
    "GET /v1/knowledge": Row(200),
    "POST /v1/knowledge": Row(200, body="Lunch is at noon.", query=(("source", "lunch.txt"),)),
    "GET /v1/knowledge/{document_id}": Row(404),
    "DELETE /v1/knowledge/{document_id}": Row(404),
}
OF_ANOTHER_PROTOCOL = {"POST /v1/memory/mcp"}
"""Routes whose messages the descriptions do not have."""
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
    with httpx.Client(trust_env=False, verify=False) as client:
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


def ask(
    http: httpx.Client, ports: Ports, port: str, route: str, caller: str, owned: Owned, *, owner: str = ""
) -> httpx.Response:
    """Args: owner: for whom, where it is not the user of the table."""
    method, path = route.split(" ")
    row = TABLES[port][route]
    query = dict(row.query)
    if owner:
        query = {name: value for name, value in query.items() if name != "user_id"} | {"owner": owner}
    if port == "operator" and route in USER_ROUTES and not owner:
        query["user_id"] = OWNER
    body = None if row.body is None else json.dumps(row.body)
    kind = "application/x-ndjson" if row.lines else "application/json"
    url = ports.user_url if port == "user" else ports.operator_url
    path = path.format(
        memory_id=owned.memory_id, turn_id=owned.turn_id, session_id="s1", name="memories", document_id="doc_none"
    )
    headers = {**(CALLERS | OF_MEMBERS)[caller], "content-type": kind}
    return http.request(method, url + path, content=body, params=query, headers=headers)


@pytest.mark.parametrize("port", TABLES)
def test_every_route_has_its_row(port: str) -> None:
    paths = descriptions()[port]["paths"]
    described = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert described | OF_ANOTHER_PROTOCOL == set(TABLES[port])


def test_no_memory_is_imported_under_the_name_of_a_route() -> None:
    """By its id it could be neither shown nor forgotten."""
    names = {path.split("/")[3] for route in TABLES["user"] if (path := route.split(" ")[1]).count("/") > 2}
    names.discard("{memory_id}")
    assert {"mcp", "settings"} <= names
    for name in names:
        with pytest.raises(InvalidRequestError, match="must be 1 to 128"):
            portable.parse(json.dumps({"content": "User likes tea", "id": name}).encode())


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
    path = path.format(turn_id=owned.turn_id, name="memories", document_id="doc_none")
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


# -- owners of other kinds ---------------------------------------------------------------------------------------------


def _stored_for(http: httpx.Client, ports: Ports, owner: str) -> Owned:
    body, headers = {"content": CONTENT}, CALLERS["operator"]
    answer = http.post(f"{ports.operator_url}/v1/memory", json=body, params={"owner": owner}, headers=headers)
    assert answer.raise_for_status().json()["owner"] == owner
    return Owned(answer.json()["id"], ports.append(OWNER, "I live in Oslo"))


def _shown(http: httpx.Client, ports: Ports, owner: str) -> list[str]:
    parameters, headers = {"owner": owner}, CALLERS["operator"]
    answer = http.get(f"{ports.operator_url}/v1/memory/export", params=parameters, headers=headers)
    return [json.loads(line)["id"] for line in answer.raise_for_status().text.splitlines()]


@pytest.mark.parametrize(("one", "other"), [*permutations(OwnerKind, 2)])
def test_owners_of_one_name_and_two_kinds_never_meet(
    http: httpx.Client, ports: Ports, one: OwnerKind, other: OwnerKind
) -> None:
    """Whatever is asked for one, deletion and import included: the other's memory is afterwards as it was."""
    resident, intruder = f"{one}:{one}-{other}", f"{other}:{one}-{other}"
    owned = _stored_for(http, ports, resident)
    for route in USER_ROUTES:
        answer = ask(http, ports, "operator", route, "operator", owned, owner=intruder)
        assert CONTENT not in answer.text
        assert answer.status_code in {200, 201, 202, ABSENT}
    assert owned.memory_id in _shown(http, ports, resident)
    assert owned.memory_id not in _shown(http, ports, intruder)


def test_documents_of_two_owners_never_meet(http: httpx.Client, ports: Ports) -> None:
    """Their ids are the same: they follow from the source."""
    owners = ["user:twin", "org:twin", "user:org:twin", "org:user:twin", "user:other"]

    def ask_for(owner: str, method: str, path: str = "", **query: str) -> httpx.Response:
        url, headers = f"{ports.operator_url}/v1/knowledge{path}", CALLERS["operator"]
        return http.request(method, url, params={"owner": owner, **query}, content=f"Of {owner}.", headers=headers)

    (document,) = {ask_for(owner, "POST", source="rules.txt").raise_for_status().json()["id"] for owner in owners}
    while owners:
        for owner in owners:
            assert [each["id"] for each in ask_for(owner, "GET").json()["data"]] == [document]
            (passage,) = ask_for(owner, "GET", f"/{document}").json()["text"]
            assert passage["content"] == f"Of {owner}."
        removed, *owners = owners
        assert ask_for(removed, "DELETE", f"/{document}").json()["passages"] == 1
        assert ask_for(removed, "GET", f"/{document}").status_code == ABSENT
    assert ask_for("agent:twin", "POST", source="rules.txt").status_code == ABSENT


@pytest.mark.parametrize("caller", ["owner", "operator", *OF_MEMBERS])
def test_only_administrators_act_for_an_organisation(http: httpx.Client, ports: Ports, caller: str) -> None:
    owned = _stored_for(http, ports, OF_ACME)
    for route, row in USER_ROUTES.items():
        if caller == "administrator" and route not in {"DELETE /v1/memory", "DELETE /v1/memory/{memory_id}"}:
            done = ABSENT if "session" in route or "settings" in route else row.done
        elif caller == "administrator":
            continue
        else:
            named = "x-authz-user-id" in (CALLERS | OF_MEMBERS)[caller]
            done = ABSENT if named else DENIED
        answer = ask(http, ports, "user", route, caller, owned, owner=OF_ACME)
        assert (route, answer.status_code) == (route, done), answer.text
    assert owned.memory_id in _shown(http, ports, OF_ACME)


@pytest.mark.parametrize(
    "owner", ["acme", "org", "org:", "organisation:acme", ":", "user", "org: acme", "org:a\x00b", "*:acme"]
)
def test_an_owner_that_is_none_is_refused(http: httpx.Client, ports: Ports, owned: Owned, owner: str) -> None:
    for caller, port, status in (("operator", "operator", 400), ("administrator", "user", ABSENT)):
        assert ask(http, ports, port, "DELETE /v1/memory", caller, owned, owner=owner).status_code == status
    kept = http.get(f"{ports.user_url}/v1/memory/{owned.memory_id}", headers=CALLERS["owner"])
    assert kept.raise_for_status().json()["content"] == CONTENT
