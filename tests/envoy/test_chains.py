"""The same sidecar behind other filter chains: one filter, JWT, and the body modes that other gateways insist on."""

import base64
import gzip
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import yaml

from .client import APIS, CHAT, RESPONSES, asking, behaving, sent_by_llm, streaming, told
from .conftest import ALICE, BOB, Installation, eventually, installed
from .operator import ENVIRONMENT, operator

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOLD = "My budget for the Hawaii trip is $10,000"
ASKED = "What's my budget for the trip?"
Edit = Callable[[dict[str, Any]], None]


def filters(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The HTTP filters' configurations by name, to be changed in place."""
    manager = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    return {one["name"]: one["typed_config"] for one in manager["http_filters"]}


BLANK = "demo-key-blank"


def blank_user(config: dict[str, Any]) -> None:
    """A key whose user is alice but for a blank."""
    filters(config)["envoy.filters.http.api_key_auth"]["credentials"].append({"key": BLANK, "client": "alice "})


def full_duplex(config: dict[str, Any]) -> None:
    """What gateways without BUFFERED offer; it wants trailers to be sent as well."""
    filters(config)["memory"]["processing_mode"].update(
        request_body_mode="FULL_DUPLEX_STREAMED",
        request_trailer_mode="SEND",
        response_body_mode="FULL_DUPLEX_STREAMED",
        response_trailer_mode="SEND",
    )


def full_duplex_request(config: dict[str, Any]) -> None:
    """The same beside an observer: the answer is none of its business."""
    filters(config)["memory.recall"]["processing_mode"].update(
        request_body_mode="FULL_DUPLEX_STREAMED", request_trailer_mode="SEND"
    )


def partial(config: dict[str, Any]) -> None:
    filters(config)["memory.recall"]["processing_mode"].update(request_body_mode="BUFFERED_PARTIAL")


CHAINS: dict[str, tuple[str, Edit | None]] = {
    "one filter": ("single-filter.yaml", None),
    "one filter, full duplex": ("single-filter.yaml", full_duplex),
    "two filters, full duplex request": ("two-filter.yaml", full_duplex_request),
    "two filters, partially buffered request": ("two-filter.yaml", partial),
}


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=CHAINS)
async def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, model_directory: Path
) -> AsyncIterator[Installation]:
    chain, change = CHAINS[request.param]

    def edit(config: dict[str, Any]) -> None:
        blank_user(config)
        if change is not None:
            change(config)

    async with installed(
        tmp_path_factory.mktemp("chain"), model_directory, chain=chain, edit_envoy=edit
    ) as installation:
        yield installation


@pytest_asyncio.fixture(loop_scope="session")
async def on(running: Installation) -> Installation:
    await running.forget_everything()
    return running


async def post(on: Installation, path: str, body: bytes, **how: Any) -> httpx.Response:
    async with on.http(headers=behaving(how)) as http:
        return await http.post(path, content=body)


async def said_in_a_stream(on: Installation, path: str, text: str) -> str:
    async with streaming(on, path, text) as pieces:
        return b"".join([piece.data async for piece in pieces]).decode()


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_told_is_known(on: Installation, path: str, *, stream: bool) -> None:
    say = said_in_a_stream if stream else told
    await say(on, path, TOLD)
    await on.remembers("$10,000")
    for other in APIS:
        assert "$10,000" in await told(on, other, ASKED)
        assert "$10,000" in await said_in_a_stream(on, other, ASKED)
        assert "$10,000" not in await told(on, other, ASKED, key=BOB)
    assert len(await on.memories()) == 1


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("chunked", [False, True])
async def test_what_needs_no_memory_arrives_as_it_was_sent(on: Installation, path: str, *, chunked: bool) -> None:
    body = asking(path, "Which stripes does a zebra have?")

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 7):
            yield body[start : start + 7]

    async with on.http() as http:
        (await http.post(path, content=pieces() if chunked else body)).raise_for_status()
    assert on.llm.last.body == body


async def test_an_answer_of_envoys_own_arrives_whole(on: Installation) -> None:
    async with on.http("no-key") as http:
        refused = await http.post(CHAT, content=asking(CHAT, "Who am I?"))
    assert (refused.status_code, refused.text) == (401, "Client authentication failed.")


@pytest.mark.parametrize("path", APIS)
async def test_our_fields_do_not_reach_the_model(on: Installation, path: str) -> None:
    body = asking(path, "Which stripes does a zebra have?")
    (await post(on, path, body[:-1] + b', "memory_config": {"retrieval_limit": 3}}')).raise_for_status()
    assert on.llm.last.body == body


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"\xff\xfe\x00", b'{"a": 1}'])
async def test_what_is_not_ours_arrives_as_it_is(on: Installation, path: str, body: bytes) -> None:
    assert (await post(on, path, body)).status_code == 400
    assert on.llm.last.body == body


@pytest.mark.parametrize("path", APIS)
async def test_an_encoded_request_passes_untouched(on: Installation, path: str) -> None:
    packed = gzip.compress(asking(path, ASKED))
    async with on.http(headers={"content-encoding": "gzip"}) as http:
        await http.post(path, content=packed)
    assert on.llm.last.body == packed


@pytest.mark.parametrize("megabytes", [1, 10])
async def test_large_bodies_pass(on: Installation, megabytes: int) -> None:
    body = asking(CHAT, "z" * (megabytes << 20))
    assert (await post(on, CHAT, body)).status_code == 200
    assert on.llm.last.body == body


async def test_a_large_body_with_memory_in_it(on: Installation) -> None:
    await told(on, CHAT, TOLD)
    await on.remembers("$10,000")
    body = asking(CHAT, ASKED, padding="z" * (3 << 20))
    assert "$10,000" in (await post(on, CHAT, body)).text
    assert on.llm.last.json["padding"] == "z" * (3 << 20)


@pytest.mark.parametrize("how", [{"status": 429}, {"status": 500}, {"garbage": True}], ids=str)
async def test_failures_of_the_server_reach_the_client_and_nobodys_memory(
    on: Installation, how: dict[str, Any]
) -> None:
    for path in APIS:
        answer = await post(on, path, asking(path, "I am allergic to peanuts"), **how)
        assert answer.status_code == how.get("status", 200)
        assert ("asked to fail" in answer.text) is ("status" in how)
    await told(on, CHAT, "I live in Bergen")
    await on.remembers("Bergen")
    assert await on.memories() == ["I live in Bergen"]


@pytest.mark.parametrize("path", APIS)
@pytest.mark.parametrize(
    "how",
    [{"split": 3}, {"encoding": "gzip"}, {"encoding": "gzip", "split": 9}, {"text": "word " * 1_000}],
    ids=", ".join,
)
async def test_streams_arrive_as_they_were_sent(on: Installation, path: str, how: dict[str, Any]) -> None:
    async with streaming(on, path, "Hello?", **how) as pieces:
        arrived = b"".join([piece.data async for piece in pieces])
    assert arrived == await sent_by_llm(on, path, "Hello?", **how)


async def test_other_paths_pass(on: Installation) -> None:
    assert (await post(on, "/v1/embeddings", b"\x00raw")).content == b"\x00raw"
    async with on.http() as http:
        assert (await http.get("/v1/models")).status_code == 200
        assert (await http.get(CHAT)).status_code == 200


async def test_the_server_does_not_learn_who_the_user_is(on: Installation) -> None:
    async with on.http(headers={"x-vsr-requires-tool": "true"}) as http:
        for method, path in (("POST", CHAT), ("POST", RESPONSES), ("POST", "/v1/embeddings"), ("GET", CHAT)):
            await http.request(method, path, content=asking(path, ASKED))
            assert on.llm.last.path == path
            told_apart = {"x-authz-user-id", "x-vsr-fact-check-needed", "x-vsr-requires-tool"}
            assert not told_apart & set(on.llm.last.headers)
            assert not [value for value in on.llm.last.headers.values() if "alice" in value]


async def test_a_user_with_a_blank_at_the_end_is_nobody(on: Installation) -> None:
    """On the way to the management API the blank is lost; there, this user would be another one."""
    await told(on, CHAT, TOLD)
    await on.remembers("$10,000")
    async with on.http(BLANK) as http:
        for method, path in (("GET", "/v1/memory"), ("DELETE", "/v1/memory?user_id=alice"), ("POST", CHAT)):
            answer = await http.request(method, path, content=asking(path, ASKED))
            assert answer.status_code == httpx.codes.FORBIDDEN
    assert len(await on.memories()) == 1


# -- JWT ---------------------------------------------------------------------------------------------------------------

_KEY = b"a key of thirty-two bytes, or so"
_ISSUER, _AUDIENCE = "https://idp.example.com", "llm-gateway"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(user: str, *, key: bytes = _KEY, **claims: Any) -> str:
    """A JWT as an identity provider signs it."""
    claims = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": user, "exp": int(time.time()) + 86_400, **claims}
    signed = ".".join(encoded(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return f"{signed}.{encoded(hmac.digest(key, signed.encode(), hashlib.sha256))}"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def jwt_chain(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    directory = tmp_path_factory.mktemp("jwt")
    keys = directory / "jwks.json"
    keys.write_text(json.dumps({"keys": [{"kty": "oct", "alg": "HS256", "k": encoded(_KEY)}]}), encoding="utf-8")

    def own_keys(config: dict[str, Any]) -> None:
        authentication = filters(config)["envoy.filters.http.jwt_authn"]
        for_browsers = _documented()
        authentication["providers"] |= for_browsers["providers"]
        authentication["rules"] = for_browsers["rules"]
        for provider in authentication["providers"].values():
            provider["local_jwks"] = {"filename": str(keys)}

    async with installed(
        directory,
        model_directory,
        chain="jwt.yaml",
        edit_envoy=own_keys,
        environment=ENVIRONMENT,
        sidecar_config={"memory": {"retain": {"agent_lessons": True, "tick_seconds": 0.1}}},
    ) as on:
        yield on


async def test_the_verified_subject_is_the_user(jwt_chain: Installation) -> None:
    await told(jwt_chain, CHAT, TOLD, key=token("alice"))
    await jwt_chain.remembers("$10,000", key=token("alice"))
    assert "$10,000" in await told(jwt_chain, CHAT, ASKED, key=token("alice", jti="another"))
    assert "$10,000" not in await told(jwt_chain, CHAT, ASKED, key=token("bob"))
    headers = jwt_chain.llm.last.headers
    assert not {"authorization", "x-authz-user-id"} & set(headers), "the LLM server does not learn who the user is"


@pytest.mark.parametrize(
    "bearer",
    [
        ALICE,
        token("alice", key=b"another key of thirty-two bytes."),
        token("alice", exp=1),
        token("alice", iss="https://elsewhere.example.com"),
        token("alice", aud="another-service"),
    ],
    ids=["no token", "signed by another", "expired", "another issuer", "another audience"],
)
async def test_who_is_not_verified_does_not_get_in(jwt_chain: Installation, bearer: str) -> None:
    async with jwt_chain.http(bearer) as http:
        assert (await http.post(CHAT, content=asking(CHAT, ASKED))).status_code in {401, 403}
        assert (await http.get("/v1/memory")).status_code in {401, 403}


async def test_a_claim_overwrites_a_forged_header(jwt_chain: Installation) -> None:
    async with jwt_chain.http(token("alice")) as http:
        (await http.post("/v1/memory", json={"content": "User's budget for the trip is $10,000"})).raise_for_status()
    async with jwt_chain.http(token("bob"), headers={"x-authz-user-id": "alice"}) as http:
        assert "$10,000" not in (await http.post(CHAT, content=asking(CHAT, ASKED))).text
        assert (await http.get("/v1/memory")).json()["data"] == []


# -- browsers ----------------------------------------------------------------------------------------------------------

_CONSOLE = "/v1/memory/console"


def _documented() -> Any:
    """What the documentation of the console adds to the chain."""
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text(encoding="utf-8")
    return yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])


@asynccontextmanager
async def _browser(on: Installation, user: str, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    async with on.http(headers={"cookie": f"BearerToken={token(user)}", **headers}) as http:
        http.headers.pop("authorization")
        yield http


async def test_a_browser_with_a_cookie_opens_the_console_and_reaches_the_memories_of_its_user(
    jwt_chain: Installation,
) -> None:
    async with _browser(jwt_chain, "grace", **{"sec-fetch-site": "same-origin"}) as http:
        assert "<title>Memory</title>" in (await http.get(_CONSOLE)).text
        assert (await http.get(f"{_CONSOLE}/console.js")).headers["content-type"].startswith("text/javascript")
        assert (await http.get(f"{_CONSOLE}/viewer")).json() == {"owner": "user:grace"}
        assert (await http.post("/v1/memory", json={"content": "User likes tea"})).status_code == 201
        http.headers.pop("cookie")
        assert (await http.get(_CONSOLE)).status_code == 401


async def test_a_page_of_another_site_does_nothing_with_that_cookie(jwt_chain: Installation) -> None:
    """Neither to the memories nor, in words that would be remembered, to the model."""
    async with _browser(jwt_chain, "heidi", **{"sec-fetch-site": "cross-site"}) as http:
        assert (await http.post("/v1/memory", json={"content": "User likes spam"})).status_code == 403
        assert (await http.delete("/v1/memory?user_id=heidi")).status_code == 403
        assert (await http.post(CHAT, content=asking(CHAT, TOLD))).status_code == 401
        assert (await http.get("/v1/memory")).json()["data"] == []


# -- organisation and agent --------------------------------------------------------------------------------------------

_POLICY = "Hotels above 300 euros a night need the approval of Ms Petrov"
_LESSON = "When booking a hotel for a trip, check the cancellation terms first"
_ASKS = "Who must approve a hotel of 350 euros a night for my trip?"


async def test_members_recall_what_operators_and_administrators_write(jwt_chain: Installation) -> None:
    on, member = jwt_chain, token("dora", org="acme")
    async with operator(on) as http:
        for owner, content in (("org:acme", _POLICY), ("agent:travel-bot", _LESSON)):
            stored = await http.post("/v1/memory", params={"owner": owner}, json={"content": content})
            assert stored.json()["owner"] == owner
    told_member = await told(on, CHAT, _ASKS, key=member)
    assert f"(organisation acme) {_POLICY}" in told_member
    assert not {"x-memory-org", "x-memory-org-admin", "x-memory-agent"} & set(on.llm.last.headers)
    assert "(agent" not in told_member
    assert f"(agent travel-bot) {_LESSON}" in await told(on, CHAT, _ASKS, key=token("dora", agent="travel-bot"))
    for outsider in (token("erin"), token("erin", org="acme2"), token("acme"), token("erin", agent="acme")):
        assert "Petrov" not in await told(on, CHAT, _ASKS, key=outsider)


async def test_what_an_agent_learned_with_one_user_helps_another(jwt_chain: Installation) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "get_version", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Deploy the billing service to the cluster"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "1.29"},
    ]
    answer = {"text": "It is deployed. Next time verify the k8s version before the deployment."}
    async with jwt_chain.http(
        token("dora", agent="ops-bot"), headers={**behaving(answer), "x-session-end": "true"}
    ) as http:
        (await http.post(CHAT, json={"model": "m", "messages": messages})).raise_for_status()
    asks, learned = "How do I deploy a new version to the k8s cluster?", "verify the k8s version before the deployment"
    await eventually(lambda: _is_told(jwt_chain, learned, asks, token("erin", agent="ops-bot")), "no lesson")
    for other in (token("erin"), token("erin", agent="ops-bot2"), token("erin", org="ops-bot"), token("ops-bot")):
        assert not await _is_told(jwt_chain, learned, asks, other)
    async with jwt_chain.http(token("dora", agent="ops-bot")) as http:
        (await http.delete("/v1/memory", params={"user_id": "dora"})).raise_for_status()
        assert (await http.get("/v1/memory", params={"owner": "agent:ops-bot"})).status_code == httpx.codes.NOT_FOUND
    assert await _is_told(jwt_chain, learned, asks, token("erin", agent="ops-bot")), "it tells nothing of the user"
    async with operator(jwt_chain) as http:
        assert (await http.delete("/v1/memory", params={"owner": "agent:ops-bot"})).json()["deleted"] == 1
    assert not await _is_told(jwt_chain, learned, asks, token("erin", agent="ops-bot"))


async def _is_told(on: Installation, words: str, asks: str, key: str) -> bool:
    return words in await told(on, CHAT, asks, key=key)


async def test_only_administrators_reach_an_organisations_memories(jwt_chain: Installation) -> None:
    on, of_acme = jwt_chain, {"owner": "org:acme"}
    async with on.http(token("root", org_admin="acme")) as http:
        stored = (await http.post("/v1/memory", params=of_acme, json={"content": "The office closes at 20:00"})).json()
        path = f"/v1/memory/{stored['id']}"
        assert (await http.get(path)).status_code == httpx.codes.NOT_FOUND, "it is not the user's"
        changed = await http.patch(path, params=of_acme, json={"content": "The office closes at 21:00"})
        assert changed.json()["content"].endswith("21:00")
        assert "21:00" in (await http.get("/v1/memory/export", params=of_acme)).text
    for other in (
        token("dora", org="acme"),
        token("eve", org_admin="acme2"),
        token("acme"),
        token("eve", org_admin=["acme"]),
    ):
        async with on.http(other, headers={"x-memory-org-admin": "acme"}) as http:
            for method, at in (
                ("GET", "/v1/memory"),
                ("GET", path),
                ("GET", "/v1/memory/export"),
                ("DELETE", "/v1/memory"),
                ("DELETE", path),
            ):
                assert (await http.request(method, at, params=of_acme)).status_code == httpx.codes.NOT_FOUND
            assert (
                await http.post("/v1/memory", params=of_acme, json={"content": "x"})
            ).status_code == httpx.codes.NOT_FOUND
    async with on.http(token("root", org_admin="acme")) as http:
        assert (await http.delete("/v1/memory", params=of_acme)).json()["owner"] == "org:acme"
        assert (await http.get("/v1/memory", params=of_acme)).json()["data"] == []


async def test_tools_search_the_documents_of_the_verified_organisation(jwt_chain: Installation) -> None:
    on, at = jwt_chain, {"owner": "org:acme", "source": "travel.md"}
    async with operator(on) as http:
        (await http.post("/v1/knowledge", params=at, content=f"# Travel\n\n{_POLICY}.")).raise_for_status()
    call = {"name": "search_knowledge", "arguments": {"query": _ASKS}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    for key, finds in ((token("dora", org="acme"), True), (token("erin", org="acme2"), False), (token("acme"), False)):
        async with on.http(key, headers={"x-memory-org": "acme"}) as http:
            answer = (await http.post("/v1/memory/mcp", json=message)).raise_for_status()
        assert ("Petrov" in answer.text) is finds
    for key in (token("eve", org="acme "), token("eve", agent="acme ")):
        # On the way to the management API the blank is lost; there, this would be another organisation or agent.
        async with on.http(key) as http:
            answer = await http.post("/v1/memory/mcp", json=message)
        assert answer.status_code == httpx.codes.FORBIDDEN, answer.text


@pytest.mark.parametrize("name", ["x-memory-org", "X-Memory-Org", "x_memory_org"])
async def test_a_client_cannot_name_its_organisation(jwt_chain: Installation, name: str) -> None:
    async with operator(jwt_chain) as http:
        await http.post("/v1/memory", params={"owner": "org:umbrella"}, json={"content": _POLICY})
    async with jwt_chain.http(token("eve"), headers={name: "umbrella"}) as http:
        assert "Petrov" not in (await http.post(CHAT, content=asking(CHAT, _ASKS))).text
    assert "Petrov" in await told(jwt_chain, CHAT, _ASKS, key=token("eve", org="umbrella"))


_HANDBOOK = b"# Handbook\n\n## Leave\n\nEmployees have thirty days of vacation a year.\n"
_DAYS = "How many days of vacation do employees have?"


async def test_members_are_answered_from_their_organisations_documents(jwt_chain: Installation) -> None:
    on, member = jwt_chain, token("dora", org="wayne")
    async with operator(on) as http:
        params = {"owner": "org:wayne", "source": "https://wayne.test/handbook.md"}
        added = (await http.post("/v1/knowledge", params=params, content=_HANDBOOK)).json()
        assert (added["outcome"], added["passages"]) == ("added", 1)
        asked = await told(on, CHAT, _DAYS, key=member)
        assert "Handbook > Leave (" in asked
        assert 'https://wayne.test/handbook.md): "Employees have thirty days of vacation a year."' in asked
        for outsider in (token("dora"), token("erin", org="wayne2"), token("wayne"), token("erin", agent="wayne")):
            assert "thirty days" not in await told(on, CHAT, _DAYS, key=outsider)
        await http.delete(f"/v1/knowledge/{added['id']}", params={"owner": "org:wayne"})
    assert "thirty days" not in await told(on, CHAT, _DAYS, key=member)
