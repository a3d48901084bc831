"""Nothing that a client sends makes it somebody else, or lets it reach what is the operator's: the shipped YAML, real Envoy."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from semrouter_memory.stack.envoy import SHIPPED

from .client import CHAT, RESPONSES, asking
from .conftest import ALICE, BOB, Installation, installed
from .raw_http import Answer, http1, http2

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECRET = "Quorndale"
"""A word in alice's memory that nobody else knows."""
ASKED = asking(CHAT, "What is my budget for the trip?")
BOBS = f"authorization: Bearer {BOB}".encode()

FORGED = {
    "the header": [b"x-authz-user-id: alice"],
    "capitals": [b"X-AUTHZ-USER-ID: alice"],
    "mixed": [b"X-Authz-User-Id:alice"],
    "twice": [b"x-authz-user-id: alice", b"x-authz-user-id: alice"],
    "both": [b"x-authz-user-id: bob", b"x-authz-user-id: alice"],
    "a list": [b"x-authz-user-id: alice, bob"],
    "underscores": [b"x_authz_user_id: alice"],
    "some underscores": [b"x-authz_user-id: alice"],
    "blank before the colon": [b"x-authz-user-id : alice"],
    "tab before the colon": [b"x-authz-user-id\t: alice"],
    "a continued line": [b"x-other: a\r\n x-authz-user-id: alice"],
    "a bare line feed": [b"x-other: a\nx-authz-user-id: alice"],
    "a bare carriage return": [b"x-other: a\rx-authz-user-id: alice"],
    "a NUL": [b"x-authz-user-id: alice\x00"],
    "a NUL in the name": [b"x-authz-user-id\x00: alice"],
    "blanks around": [b"x-authz-user-id:   alice   "],
    "named by connection": [b"x-authz-user-id: alice", b"connection: x-authz-user-id"],
    "connection only": [b"connection: x-authz-user-id, authorization"],
    "look-alike": ["x-аuthz-user-id: alice".encode()],
    "an internal request": [b"x-envoy-internal: true", b"x-forwarded-for: 127.0.0.1", b"x-authz-user-id: alice"],
    "original path": [b"x-envoy-original-path: /v1/memory", b"x-original-url: /v1/turns", b"x-rewrite-url: /metrics"],
    "other names": [b"x-user-id: alice", b"x-forwarded-user: alice", b"remote-user: alice", b"x-auth-request-user: alice"],
    "method override": [b"x-http-method-override: DELETE", b"x-method-override: DELETE"],
    "secret": [b"x-memory-secret: x", b"x-memory-user: alice", b"x-memory-types: semantic", b"x-memory-limit: 100"],
    "internal metadata": [b"x-envoy-peer-metadata: YWxpY2U=", b"x-envoy-dynamic-metadata: sub=alice", b"grpc-metadata-x-authz-user-id: alice"],
    "another's request id": [b"x-request-id: 11111111-1111-4111-8111-111111111111"],
    "another's session": [b"x-session-id: alices", b"idempotency-key: alices"],
    "a second key": [b"authorization: Bearer wrong"],
    "a key in the query": [b"x-api-key: " + ALICE.encode()[:5]],
}  # fmt: skip
"""Beside bob's own key."""


@pytest_asyncio.fixture(loop_scope="session")
async def kept(two_filter: Installation) -> Installation:
    """Alice has a memory and bob has none."""
    await told_of_the_trip(two_filter)
    return two_filter


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def standing(shared: Installation) -> Installation:
    """Same as `kept`, made once: for those after which alice is as before, whatever bob was told."""
    await shared.forget_everything()
    await told_of_the_trip(shared)
    return shared


async def told_of_the_trip(on: Installation) -> None:
    async with on.http() as http:
        content = f"User's budget for the {SECRET} trip is $10,000"
        (await http.post("/v1/memory", json={"content": content})).raise_for_status()


async def nothing_of_alice(on: Installation, answer: Answer) -> None:
    assert SECRET not in answer.text
    assert answer.status < 500 or "invalid header value" in answer.text, answer.text


async def alice_is_as_before(on: Installation, **options: Any) -> None:
    """And what bob told in her name is not hers."""
    contents = await on.memories(**options)
    assert [content for content in contents if SECRET in content]
    assert [content for content in contents if "Zorvik" in content] == []


@pytest.mark.parametrize("how", FORGED)
async def test_a_forged_header_makes_nobody_alice(standing: Installation, how: str) -> None:
    port, fields = standing.stack.port, [BOBS, *FORGED[how]]
    for line, body in (
        ("GET /v1/memory", b""),
        ("GET /v1/memory/export", b""),
        ("DELETE /v1/memory?user_id=alice", b""),
        ("POST /v1/memory/search", b'{"query": "budget"}'),
        (f"POST {CHAT}", ASKED),
        (f"POST {CHAT}", asking(CHAT, "I live in Zorvik")),
    ):
        await nothing_of_alice(standing, await http1(port, line, fields, body))
    assert SECRET not in str([seen.body for seen in standing.llm.requests if BOB in str(seen.headers)])
    await alice_is_as_before(standing)


@pytest.mark.parametrize("how", FORGED)
async def test_a_forged_header_replaces_no_key(standing: Installation, how: str) -> None:
    for line in ("GET /v1/memory", "DELETE /v1/memory?user_id=alice", f"POST {CHAT}"):
        answer = await http1(standing.stack.port, line, FORGED[how], ASKED if "POST" in line else b"")
        assert answer.status in {400, 401}, answer.text
    await alice_is_as_before(standing)


async def test_a_trailer_is_no_header(kept: Installation) -> None:
    port = kept.stack.port
    line, trailer = f"POST {CHAT}", b"x-authz-user-id: alice\r\n"
    await nothing_of_alice(kept, await http1(port, line, [BOBS, b"trailer: x-authz-user-id"], ASKED, end=trailer))
    fields = [
        (":method", "POST"),
        (":path", CHAT),
        (":scheme", "http"),
        (":authority", "x"),
        ("content-type", "application/json"),
        ("authorization", f"Bearer {BOB}"),
    ]
    for body in (ASKED, asking(CHAT, "I live in Zorvik")):
        answer = await http2(port, fields, body, trailers=[("x-authz-user-id", "alice")])
        assert answer.status == 200
        await nothing_of_alice(kept, answer)
    # A key that comes behind the body opens nothing.
    answer = await http2(port, fields[:-1], ASKED, trailers=[("authorization", f"Bearer {BOB}")])
    assert answer.status == 401
    await kept.remembers("Zorvik", key=BOB)
    await alice_is_as_before(kept)


@pytest.mark.parametrize(
    "forged",
    [
        [("x-authz-user-id", "alice")],
        [("X-Authz-User-Id", "alice")],
        [("x-authz-user-id", "bob"), ("x-authz-user-id", "alice")],
        [("x-authz-user-id ", "alice")],
        [("x-other", "a\r\nx-authz-user-id: alice")],
        [("x-other", "a\x00")],
        [(":x-authz-user-id", "alice")],
        [(":path", "/v1/turns")],
        [(":authority", "127.0.0.1:9090")],
        [("host", "127.0.0.1:9090")],
        [("connection", "x-authz-user-id")],
        [("transfer-encoding", "chunked")],
        [("content-length", "0")],
    ],
    ids=str,
)
async def test_http2_offers_no_other_way(standing: Installation, forged: list[tuple[str, str]]) -> None:
    for method, path, body in (("GET", "/v1/memory", b""), ("POST", CHAT, ASKED)):
        own = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "x")]
        fields = [*own, ("content-type", "application/json"), ("authorization", f"Bearer {BOB}"), *forged]
        await nothing_of_alice(standing, await http2(standing.stack.port, fields, body))
    await alice_is_as_before(standing)


PATHS = [
    "/v1/memory/../turns",
    "/v1/memory/../../metrics",
    "/v1/memory/%2e%2e/turns",
    "/v1/memory/..%2fturns",
    "/v1/memory/..%5cturns",
    "/v1/memory\\..\\turns",
    "/v1/memory/%2e%2e%2f%2e%2e%2fmetrics",
    "/v1/memory/..;/turns",
    "/v1/memory;/../turns",
    "/v1/memory/%252e%252e/turns",
    "/v1/memory//v1/turns",
    "/v1/memory/./../turns",
    "//v1/memory",
    "/v1//memory",
    "/V1/MEMORY",
    "/v1/memory;user_id=alice",
    "/v1/memory%3fuser_id=alice",
    "/v1/memory?user_id=alice",
    "/v1/memory#/../turns",
    "/v1/memory%00",
    "/v1%2fmemory",
    "/v1/memor%79",
    "/v1/memory/",
    "/v1/memory/export?user_id=alice",
    "/v1/memory/export?user=alice",
    "/./v1/memory",
    "/x/../v1/memory",
    "http://x/v1/memory",
    "http://127.0.0.1:9090/v1/turns",
    "http://alice@x/v1/memory",
    "/v1/turns",
    "/v1/turns/totals",
    "/v1/compact",
    "/v1/backup",
    "/metrics",
    "/healthz",
    "/readyz",
    "/config_dump",
    "/v1/memory/turns",
    "/v1/memory/backup",
    "*",
]


@pytest.mark.parametrize("path", PATHS)
async def test_no_path_leads_to_alice_or_to_the_operator(standing: Installation, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        answer = await http1(standing.stack.port, f"{method} {path}", [BOBS, b"x-authz-user-id: alice"])
        await nothing_of_alice(standing, answer)
        for operators in ("semrouter_memory_", "next_before", "dead_lettered", "maintenance", '"store"', "bootstrap"):
            assert operators not in answer.text
        without = await http1(standing.stack.port, f"{method} {path}")
        assert without.status in {400, 401, 404}, without.text
    await alice_is_as_before(standing)


@pytest.mark.parametrize(
    "claim",
    [
        '"memory_context": {"user_id": "alice"}',
        '"memory_context": {"user_id": "bob"}, "memory_context": {"user_id": "alice"}',
        '"memory_context": {"user_id": "alice"}, "memory_context": {"user_id": "bob"}',
        '"memory_context": {"user_id": "bob", "user_id": "alice"}',
        r'"memory_cont\u0065xt": {"user_\u0069d": "alice"}',
        '"memory_context": {"user_id": ["alice"]}',
        '"memory_context": {"user_id": {"$ne": ""}}',
        '"memory_context": {"project_id": "\\" or owner == \\"user:alice"}',
        '"memory_context": {"agent_id": "alice", "owner": "user:alice"}',
        '"memory_config": {"user_id": "alice", "owner": "user:alice", "similarity_threshold": -1, "retrieval_limit": 100}',
        '"user": "alice", "metadata": {"user_id": "alice"}, "safety_identifier": "alice"',
        '"conversation": "alices"',
        '"previous_response_id": "alices"',
    ],
)
@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_no_body_makes_bob_alice(standing: Installation, path: str, claim: str) -> None:
    async with standing.http(headers={"x-stand-in": '{"response_id": "alices"}', "x-session-id": "alices"}) as http:
        await http.post(path, content=asking(path, "hello there"))
    for text in ("What is my budget for the trip?", "I live in Zorvik"):
        body = asking(path, text)[:-1] + f", {claim}}}".encode()
        await nothing_of_alice(
            standing, await http1(standing.stack.port, f"POST {path}", [BOBS, *FORGED["another's session"]], body)
        )
        assert SECRET.encode() not in standing.llm.last.body
    await alice_is_as_before(standing)


async def test_a_forged_request_id_suppresses_nobodys_turn(kept: Installation) -> None:
    """Bob was first to use the ids that alice's request has."""
    fields = [b"x-request-id: 22222222-2222-4222-8222-222222222222", b"idempotency-key: same", b"x-session-id: same"]
    alices = f"authorization: Bearer {ALICE}".encode()
    await http1(kept.stack.port, f"POST {CHAT}", [BOBS, *fields], asking(CHAT, "I live in Zorvik"))
    await kept.remembers("Zorvik", key=BOB)
    await http1(kept.stack.port, f"POST {CHAT}", [alices, *fields], asking(CHAT, "I live in Bergen"))
    await kept.remembers("Bergen")
    await alice_is_as_before(kept)


async def test_forged_settings_change_nothing(standing: Installation) -> None:
    """Settings of a route come from Envoy alone."""
    forged = [b"x-memory-enabled: false", b"x-memory-limit: 0", b"x-memory-threshold: 1", b"x-memory-auto-store: false",
              b"x-memory-position: user_tail", b"x-vsr-requires-tool: true", b"x-vsr-fact-check-needed: true"]  # fmt: skip
    alices = f"authorization: Bearer {ALICE}".encode()
    answer = await http1(standing.stack.port, f"POST {CHAT}", [alices, *forged], ASKED)
    assert SECRET in answer.text
    assert standing.llm.last.json["messages"][0]["role"] == "system"


async def test_every_chain_strips_and_routes_alike() -> None:
    """What is shown here of one file holds for all: they differ in who authenticates, and in the filters for memory."""
    managers = []
    for chain in ("two-filter.yaml", "single-filter.yaml", "jwt.yaml"):
        config = yaml.safe_load((SHIPPED / chain).read_text(encoding="utf-8"))
        manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
        names = [each["name"] for each in manager.pop("http_filters")]
        assert names[0].rpartition(".")[2] in {"api_key_auth", "jwt_authn"}, "somebody authenticates before all others"
        for route in manager["route_config"]["virtual_hosts"][0]["routes"]:
            route.pop("typed_per_filter_config", None)
        managers.append(manager)
    assert managers[0] == managers[1] == managers[2]


# -- JWT ---------------------------------------------------------------------------------------------------------------

_KEY = b"a key of thirty-two bytes, or so"
_ISSUER, _AUDIENCE = "https://idp.example.com", "llm-gateway"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(
    user: Any, *, alg: str = "HS256", key: bytes = _KEY, header: dict[str, Any] | None = None, **claims: Any
) -> str:
    """A JWT; a claim that is None is left out."""
    claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": user, "exp": int(time.time()) + 86_400, **claims}
    payload = {name: value for name, value in claims.items() if value is not None}
    signed = ".".join(
        encoded(json.dumps(part).encode()) for part in ({"alg": alg, "typ": "JWT", **(header or {})}, payload)
    )
    signature = "" if alg == "none" else encoded(hmac.digest(key, signed.encode(), hashlib.sha256))
    return f"{signed}.{signature}"


def tampered(bobs: str) -> str:
    """Bob's signature below alice's claims."""
    head, _, signature = bobs.split(".")
    return f"{head}.{token('alice').split('.')[1]}.{signature}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def jwt(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    directory = tmp_path_factory.mktemp("jwt")
    keys = directory / "jwks.json"
    keys.write_text(json.dumps({"keys": [{"kty": "oct", "alg": "HS256", "k": encoded(_KEY)}]}), encoding="utf-8")

    def own_keys(config: dict[str, Any]) -> None:
        manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
        provider = manager["http_filters"][0]["typed_config"]["providers"]["users"]
        provider["local_jwks"] = {"filename": str(keys)}

    async with installed(directory, model_directory, chain="jwt.yaml", edit_envoy=own_keys) as on:
        async with on.http(token("alice")) as http:
            content = f"User's budget for the {SECRET} trip is $10,000"
            (await http.post("/v1/memory", json={"content": content})).raise_for_status()
        yield on


REFUSED = {
    "alg none": token("alice", alg="none"),
    "alg None": token("alice", alg="None"),
    "alg none, signed": token("alice", alg="nOnE") + "x",
    "no signature": token("alice").rpartition(".")[0] + ".",
    "no third part": token("alice").rpartition(".")[0],
    "another key": token("alice", key=b"another key of thirty-two bytes."),
    "an empty key": token("alice", key=b""),
    "another issuer": token("alice", iss="https://idp.example.com.evil.example"),
    "no issuer": token("alice", iss=None),
    "another audience": token("alice", aud="llm"),
    "no audience": token("alice", aud=None),
    "expired": token("alice", exp=1),
    "not yet": token("alice", nbf=int(time.time()) + 3600),
    "another algorithm": token("alice", alg="HS512"),
    "a key of its own": token("alice", key=b"x" * 32, header={"jwk": {"kty": "oct", "k": encoded(b"x" * 32)}}),
    "a key's address": token("alice", key=b"x" * 32, header={"jku": "https://evil.example", "kid": "../../dev/null"}),
    "tampered": tampered(token("bob")),
    "nothing": "",
    "not a token": "alice",
}


@pytest.mark.parametrize("how", REFUSED)
async def test_a_token_that_is_not_verified_opens_nothing(jwt: Installation, how: str) -> None:
    fields = [f"authorization: Bearer {REFUSED[how]}".encode(), b"x-authz-user-id: alice"]
    for line in ("GET /v1/memory", "DELETE /v1/memory?user_id=alice", f"POST {CHAT}"):
        answer = await http1(jwt.stack.port, line, fields, ASKED if "POST" in line else b"")
        assert answer.status in {401, 403}, answer.text
    # The same in the place where tokens may stand, too.
    answer = await http1(jwt.stack.port, f"GET /v1/memory?access_token={REFUSED[how]}", [b"x-authz-user-id: alice"])
    assert answer.status in {401, 403}, answer.text
    await alice_is_as_before(jwt, key=token("alice"))


@pytest.mark.parametrize("how", REFUSED)
async def test_a_second_token_makes_nobody_alice(jwt: Installation, how: str) -> None:
    """Bob's own token stands before, behind or beside one that claims to be alice's."""
    bobs, alices = f"authorization: Bearer {token('bob')}".encode(), f"authorization: Bearer {REFUSED[how]}".encode()
    port = jwt.stack.port
    for fields, query in (
        ([bobs, alices], ""),
        ([alices, bobs], ""),
        ([bobs + b", Bearer " + REFUSED[how].encode()], ""),
        ([bobs], f"?access_token={REFUSED[how]}"),
    ):
        await nothing_of_alice(jwt, await http1(port, f"GET /v1/memory{query}", fields))
        await nothing_of_alice(jwt, await http1(port, f"DELETE /v1/memory{query or '?'}&user_id=alice", fields))
        await nothing_of_alice(jwt, await http1(port, f"POST {CHAT}{query}", fields, ASKED))
    await alice_is_as_before(jwt, key=token("alice"))


@pytest.mark.parametrize(
    "subject",
    [None, "", " alice", "alice ", "\talice", "alice\r\nx-authz-user-id: alice", "alice\x00", "ALICE", "alice,bob", ["alice"], {"a": "alice"}, "аlice", "alice\u200b"],
    ids=repr,
)  # fmt: skip
async def test_a_subject_that_is_not_exactly_alice_is_not_alice(jwt: Installation, subject: Any) -> None:
    fields = [f"authorization: Bearer {token(subject)}".encode(), b"x-authz-user-id: alice"]
    for line in ("GET /v1/memory", "DELETE /v1/memory?user_id=alice", f"POST {CHAT}"):
        answer = await http1(jwt.stack.port, line, fields, ASKED if "POST" in line else b"")
        await nothing_of_alice(jwt, answer)
    await alice_is_as_before(jwt, key=token("alice"))


@pytest.mark.parametrize("how", FORGED)
async def test_the_claim_wins_over_any_header(jwt: Installation, how: str) -> None:
    fields = [f"authorization: Bearer {token('bob')}".encode(), *FORGED[how]]
    for line, body in (("GET /v1/memory", b""), ("DELETE /v1/memory?user_id=alice", b""), (f"POST {CHAT}", ASKED)):
        await nothing_of_alice(jwt, await http1(jwt.stack.port, line, fields, body))
    await alice_is_as_before(jwt, key=token("alice"))
