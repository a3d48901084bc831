"""What a user says to the memory through Envoy: forget that, and do not come back to it."""

import json
from typing import Any

import pytest

from .client import CHAT
from .conftest import ALICE, BOB, OTHERS, Installation, eventually
from .operator import listed

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOLD = "My budget for the Hawaii trip is $10,000."
ASKED = "What's my budget for the Hawaii trip?"
ORDER = "Forget what I told you about my budget for the Hawaii trip."


async def post(on: Installation, *texts: str, key: str = ALICE, **fields: Any) -> Any:
    """A conversation's next request: the last text, after the others, each answered."""
    messages = [{"role": "user", "content": texts[0]}]
    for text in texts[1:]:
        messages += [{"role": "assistant", "content": "Noted."}, {"role": "user", "content": text}]
    async with on.http(key) as http:
        return (await http.post(CHAT, json={"model": "m", "messages": messages, **fields})).raise_for_status()


async def receipts(on: Installation, key: str = ALICE) -> list[dict[str, Any]]:
    async with on.http(key) as http:
        found: list[dict[str, Any]] = (await http.get("/v1/memory/receipts")).raise_for_status().json()["data"]
        return found


def sent(on: Installation) -> str:
    return json.dumps(on.llm.last.json["messages"][0])


async def test_what_a_user_says_to_forget_is_forgotten(two_filter: Installation) -> None:
    on = two_filter
    for key in (ALICE, BOB):
        async with on.http(key) as http:
            for content in OTHERS:
                (await http.post("/v1/memory", json={"content": content})).raise_for_status()
        await post(on, TOLD, key=key)
        await on.remembers("$10,000", key)
    known = [memory["id"] for memory in await listed(on) if "$10,000" in memory["content"]]
    assert "$10,000" in (await post(on, ASKED), sent(on))[1]

    kept = await post(on, "Hello.", ORDER, memory_config={"auto_store": False})
    assert "x-memory-forgotten" not in kept.headers
    # The second one may be a retry: it tells what the first one did.
    for _ in range(2):
        obeyed = await post(on, "Hello.", ORDER)
        assert obeyed.headers["x-memory-forgotten"] == str(len(known))
        assert f"({len(known)} deleted)" in sent(on)

    assert "$10,000" not in (await post(on, ASKED), sent(on))[1]
    assert not [content for content in await on.memories() if "budget" in content]
    assert set(OTHERS) <= set(await on.memories())
    assert "$10,000" in (await post(on, ASKED, key=BOB), sent(on))[1]


async def test_the_model_does_not_claim_what_was_not_deleted(two_filter: Installation) -> None:
    on = two_filter
    await post(on, TOLD)
    await on.remembers("$10,000")
    answered = await post(on, "Forget what I told you about my violin lessons.")
    assert answered.headers["x-memory-forgotten"] == "0"
    assert "Nothing is deleted" in sent(on)
    assert [memory for memory in await on.memories() if "$10,000" in memory]


async def test_the_receipt_names_what_was_forgotten(two_filter: Installation) -> None:
    on = two_filter
    await post(on, TOLD)
    await on.remembers("$10,000")
    known = {memory["id"] for memory in await listed(on)}
    await post(on, ORDER)

    async def written() -> bool:
        return any(each["steering"] for each in await receipts(on))

    await eventually(written, "no receipt tells of it")
    (found,) = [each for each in await receipts(on) if each["steering"]]
    assert found["steering"] == "forgotten"
    assert set(found["forgotten"]) <= known
    assert found["forgotten"]
    assert "budget" not in json.dumps(await receipts(on))
    assert not [each for each in await receipts(on, BOB) if each["steering"]]
