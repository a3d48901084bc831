"""The user is the authenticated user, whatever a client claims."""

import pytest

from .conftest import BOB, Installation

pytestmark = pytest.mark.asyncio(loop_scope="session")

ASKED = b'{"model": "m", "messages": [{"role": "user", "content": "What is my budget for the trip?"}]}'


@pytest.fixture
async def secret(two_filter: Installation) -> Installation:
    async with two_filter.http() as http:
        (await http.post("/v1/memory", json={"content": "User's budget for the trip is $10,000"})).raise_for_status()
    return two_filter


async def test_without_a_key_nobody_gets_in(secret: Installation) -> None:
    async with secret.http() as http:
        http.headers.pop("authorization")
        for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/memory")):
            assert (await http.request(method, path, content=ASKED)).status_code == 401


@pytest.mark.parametrize("name", ["x-authz-user-id", "X-Authz-User-Id", "x_authz_user_id"])
async def test_a_forged_identity_is_replaced(secret: Installation, name: str) -> None:
    async with secret.http(BOB, headers={name: "alice"}) as http:
        await http.post("/v1/chat/completions", content=ASKED)
        assert secret.llm.last.body == ASKED
        assert (await http.get("/v1/memory")).json()["data"] == []


async def test_the_body_cannot_name_another_user(secret: Installation) -> None:
    claiming = ASKED[:-1] + b', "memory_context": {"user_id": "alice"}}'
    async with secret.http(BOB) as http:
        assert (await http.post("/v1/chat/completions", content=claiming)).status_code == 200
        assert secret.llm.last.body == ASKED
        assert (await http.delete("/v1/memory", params={"user_id": "alice"})).status_code == 404
    assert len(await secret.memories()) == 1


async def test_another_users_memory_does_not_exist(secret: Installation) -> None:
    async with secret.http() as http:
        (memory,) = (await http.get("/v1/memory")).json()["data"]
    async with secret.http(BOB) as http:
        path = f"/v1/memory/{memory['id']}"
        for method in ("GET", "DELETE"):
            assert (await http.request(method, path)).status_code == 404
        assert (await http.patch(path, json={"content": "x"})).status_code == 404
        found = (await http.post("/v1/memory/search", json={"query": "budget", "threshold": -1})).json()["data"]
        assert found == []
    assert len(await secret.memories()) == 1


async def test_forged_signals_are_removed(secret: Installation) -> None:
    """A client cannot switch recall off by pretending to be a classifier; it has a header for that."""
    async with secret.http(headers={"x-vsr-requires-tool": "true"}) as http:
        answer = await http.post("/v1/chat/completions", content=ASKED)
    assert "$10,000" in answer.text
