"""What leaves, and what comes back: deletion down to the files, export and import, backups, expiry, quotas."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from .client import answers_held_back, behaving, under_way
from .conftest import ALICE, BOB, Installation, all_streams_ended, eventually, installed
from .operator import ENVIRONMENT, command, files_with, listed, of_type, operator, talk, totals

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUOTA = 12
CITY, DOG = "Qaanaaq", "Zanzibarius"
"""In no model's vocabulary and in no log line."""
PLACES = ("Bergen", "Lima", "Osaka", "Perth")
ASKED = f"What's my budget for the {CITY} trip?"

Delete = Callable[[Installation], Awaitable[None]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kept(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    """Everything that keeps text is on."""
    memory = {
        "compression": {"enabled": True, "min_turns": 6},
        "retain": {"tick_seconds": 0.1},
        "ageing": {"usage_seconds": 0.2, "sweep_seconds": 0.5, "max_memories": QUOTA},
    }
    config = {"memory": memory, "telemetry": {"log_level": "DEBUG"}}
    async with installed(
        tmp_path_factory.mktemp("kept"), model_directory, sidecar_config=config, environment=ENVIRONMENT
    ) as on:
        yield on


@pytest_asyncio.fixture(loop_scope="session")
async def empty(kept: Installation) -> Installation:
    await kept.forget_everything()
    return kept


def data_of(on: Installation) -> Path:
    return on.stack.sidecar.log.parent / "data"


async def has_episode(on: Installation, word: str, key: str = ALICE) -> None:
    async def found() -> bool:
        return any(word in content for content in of_type(await listed(on, key), "episodic"))

    await eventually(found, "the session was not summed up")


async def context_of(on: Installation, text: str, fields: Mapping[str, Any] | None = None) -> str:
    """What the LLM is told besides the question."""
    messages = await talk(on, text, fields=fields)
    sent = on.llm.last.json["messages"]
    assert sent[-1] == messages[0]
    return json.dumps(sent[:-1])


async def learned(on: Installation) -> None:
    """Wait until all that was said is read."""
    await all_streams_ended(on)

    async def none_waits() -> bool:
        return (await totals(on))["waiting"] == 0

    await eventually(none_waits, "a turn was not extracted")


async def nothing_of(on: Installation, *words: str) -> None:
    """No read shows them, and after a compaction no file holds them."""
    await learned(on)
    for asked in ({}, {"include": "history"}):
        shown = json.dumps(await listed(on, **asked))
        assert not any(word in shown for word in words), shown
    async with on.http() as http:
        found = await http.post("/v1/memory/search", json={"query": ASKED, "limit": 50})
        exported = await http.get("/v1/memory/export")
    assert not any(word in found.text + exported.text for word in words)
    async with operator(on) as http:
        for turn in (await http.get("/v1/turns", params={"user_id": "alice", "limit": 200})).json()["data"]:
            told = (await http.get(f"/v1/turns/{turn['id']}")).text
            assert not any(word in told for word in words)
        (await http.post("/v1/compact")).raise_for_status()
    assert {word: files_with(on.stack.sidecar.log.parent, word) for word in words} == {word: [] for word in words}


# -- deletion ----------------------------------------------------------------------------------------------------------


async def test_by_its_id_a_memory_leaves_everything_that_told_it(empty: Installation) -> None:
    """Its history, the episodes, its turns, answers that repeated it, a conversation's state, its use."""
    told = (f"My budget for the {CITY} trip is $10,031", "I live in Bergen")
    long = [f"How high is glacier {number}?" for number in range(7)]
    answer = behaving({"text": f"A flight to {CITY} for $10,031 is booked."})
    said = await talk(empty, *told, *long)
    await talk(empty, "Look up flights for it", after=said, tool="flights", last={"x-session-end": "1", **answer})
    await has_episode(empty, "10,031")
    await talk(empty, f"My budget for the {CITY} trip is now $15,047")
    await empty.remembers("15,047")
    assert "15,047" in await context_of(empty, ASKED)
    data = data_of(empty)
    assert all(files_with(data, word) for word in (CITY, "10,031", "15,047"))
    (new,) = [memory for memory in await listed(empty) if "15,047" in memory["content"]]
    async with empty.http() as http:
        history = (await http.get(f"/v1/memory/{new['id']}/history")).json()["data"]
        assert len(history) == 2
        assert (await http.delete(f"/v1/memory/{new['id']}")).status_code == 200
        for memory in history:
            assert (await http.get(f"/v1/memory/{memory['id']}")).status_code == 404
    assert CITY not in await context_of(empty, "What's my budget for the trip?")
    assert await empty.memories() == ["I live in Bergen"]
    await nothing_of(empty, CITY, "10,031", "15,047")


async def test_by_its_id_a_memory_leaves_answers_in_other_words_and_turns_under_way(empty: Installation) -> None:
    """Before the deletion and during it, whatever words the answers take; what the turn says besides is learned."""
    await talk(empty, f"My budget for the {CITY} trip is $10,031")
    await empty.remembers("10,031")
    others = ("ten thousand and thirty-one", "a myriad plus 31")
    await talk(empty, ASKED, last=behaving({"text": f"It is {others[0]} dollars."}))
    (memory,) = await listed(empty)
    how = behaving({"text": f"You can spend {others[1]}, as we say."})
    said = f"I live in Bergen. My budget for the {CITY} trip is $10,031. Is it enough?"
    empty.llm.requests.clear()
    async with answers_held_back(empty):
        talking = asyncio.create_task(talk(empty, said, last=how))
        await under_way(empty, 1)
        async with empty.http() as http:
            assert (await http.delete(f"/v1/memory/{memory['id']}")).status_code == 200
    await talking
    await empty.remembers("Bergen")
    assert await empty.memories() == ["I live in Bergen."]
    await nothing_of(empty, CITY, "10,031", *others)


async def forget_the_user(on: Installation) -> None:
    ran = await command(on, "memory", "forget-all", "--yes", "--api-key", ALICE, "--user", "alice")
    assert (ran.status, ran.err) == (0, "")


async def forget_the_project(on: Installation) -> None:
    async with on.http() as http:
        answer = await http.delete("/v1/memory", params={"user_id": "alice", "project_id": "apollo"})
    assert answer.json()["deleted"] >= 2


@pytest.mark.parametrize("delete", [forget_the_user, forget_the_project])
async def test_by_user_and_by_project_nothing_is_left_in_any_file(empty: Installation, delete: Delete) -> None:
    """And another user's memories stay."""
    apollo = {"memory_context": {"project_id": "apollo"}}
    await talk(empty, "My dog is called Hugo", key=BOB)
    await talk(empty, f"My budget for the {CITY} trip is $10,031", fields=apollo)
    await talk(empty, f"Look up flights to {CITY}", tool="flights", fields=apollo, last={"x-session-end": "yes"})
    await talk(empty, f"My dog is called {DOG}", f"Is {DOG} a good name?", fields=apollo)
    await empty.remembers(DOG)
    await has_episode(empty, CITY)
    assert "10,031" in await context_of(empty, ASKED, apollo)
    await delete(empty)
    assert CITY not in await context_of(empty, "What's my budget for the trip?", apollo)
    assert await empty.memories() == []
    await nothing_of(empty, CITY, DOG, "10,031")
    await empty.remembers("Hugo", BOB)


async def test_what_is_compacted_is_said_to_the_operator(empty: Installation) -> None:
    ran = await command(empty, "compact")
    assert (ran.status, ran.err) == (0, "")
    assert [line.split(":")[0] for line in ran.out.splitlines()] == ["turn_log", "state", "store"]


# -- export, import, backup --------------------------------------------------------------------------------------------


async def test_an_export_brings_everything_back(empty: Installation, tmp_path: Path) -> None:
    """Identical but for its use and the note that it was imported; history and expiry included."""
    await talk(empty, f"My budget for the {CITY} trip is $10,031", "我住在上海")
    await talk(empty, f"Look up flights to {CITY}", tool="flights", last={"x-session-end": "true"})
    await has_episode(empty, CITY)
    await talk(empty, f"My budget for the {CITY} trip is now $15,047")
    await empty.remembers("15,047")
    expires = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    stored = {"content": "User parks on level 3", "expires_at": expires, "metadata": {"seen": [1, "ü"]}}
    async with empty.http() as http:
        (await http.post("/v1/memory", json=stored)).raise_for_status()
    before = await listed(empty, include="history")
    assert len(before) == 5
    exported = await command(empty, "memory", "export", "--api-key", ALICE)
    assert exported.status == 0
    assert {json.loads(line)["id"] for line in exported.out.splitlines()} == {each["id"] for each in before}
    await empty.forget_everything()
    assert await listed(empty) == []
    file = tmp_path / "memories.jsonl"
    file.write_text(exported.out)
    imported = await command(empty, "memory", "import", str(file), "--api-key", ALICE)
    assert (imported.status, imported.out.strip()) == (0, "5 imported, 0 skipped, 0 refused")
    after = [_without_the_note(each) for each in await listed(empty, include="history")]
    assert after == [each | {"access_count": 0, "last_accessed_at": None} for each in before]
    assert "15,047" in await context_of(empty, ASKED)
    again = await command(empty, "memory", "import", "-", "--api-key", ALICE, stdin=exported.out)
    assert again.out.strip() == "0 imported, 5 skipped, 0 refused"


def _without_the_note(memory: dict[str, Any]) -> dict[str, Any]:
    metadata = dict(memory["metadata"])
    assert metadata.pop("imported_at")
    return {**memory, "metadata": metadata}


async def test_a_backup_taken_while_chats_run_is_an_installation(
    empty: Installation, tmp_path: Path, model_directory: Path
) -> None:
    """Its memories and its totals are there, and what still waited when it was taken is learned."""
    stop = asyncio.Event()
    told: list[str] = []

    async def keep_telling() -> None:
        for number in range(1000):
            if stop.is_set():
                return
            # A few facts, and then turns with none: it stays within the quota.
            locker = f"My locker in {PLACES[number]} is {9000 + number}" if number < len(PLACES) else ""
            fact = locker or f"What is {number} plus {number}?"
            await talk(empty, fact, key=BOB)
            told.append(fact[-4:])

    await talk(empty, f"My dog is called {DOG}")
    await empty.remembers(DOG)
    before = (await totals(empty))["accepted"]

    async def some_are_kept() -> bool:
        return len(told) >= 3 and (await totals(empty))["accepted"] >= before + 3

    telling = asyncio.create_task(keep_telling())
    copy = tmp_path / "restored" / "data"
    await eventually(some_are_kept, "nothing was told")
    ran = await command(empty, "backup", str(copy))
    stop.set()
    await telling
    assert (ran.status, ran.err) == (0, "")
    again = await command(empty, "backup", str(copy))
    assert again.status == 2
    assert "is there already; name a new one" in again.err
    config = {"memory": {"retain": {"tick_seconds": 0.1}}}
    async with installed(copy.parent, model_directory, sidecar_config=config, environment=ENVIRONMENT) as restored:
        assert await restored.memories() == [f"My dog is called {DOG}"]

        async def settled() -> bool:
            return (await totals(restored))["waiting"] == 0

        await eventually(settled, "what waited was not learned")
        assert 3 < (await totals(restored))["accepted"] <= (await totals(empty))["accepted"]
        known = " ".join(await restored.memories(BOB))
        assert all(number in known for number in told[:3])
        await talk(restored, "I live in Bergen")
        await restored.remembers("Bergen")


# -- ageing ------------------------------------------------------------------------------------------------------------


async def test_what_has_expired_is_not_recalled_and_really_deleted(empty: Installation) -> None:
    stored = {"content": f"User's budget for the {CITY} trip is $10,031"}
    async with empty.http() as http:
        memory_id = (await http.post("/v1/memory", json=stored)).raise_for_status().json()["id"]
        assert "10,031" in await context_of(empty, ASKED)

        async def expires_soon() -> bool:
            # One that has passed when it arrives is refused.
            changed = {"expires_at": (datetime.now(UTC) + timedelta(seconds=1)).isoformat()}
            return (await http.patch(f"/v1/memory/{memory_id}", json=changed)).is_success

        await eventually(expires_soon, "it has no end")
        await asyncio.sleep(1)
        assert CITY not in await context_of(empty, "What's my budget for the trip?")
        assert await empty.memories() == []

        async def deleted() -> bool:
            return (await http.get(f"/v1/memory/{memory_id}")).status_code == 404

        await eventually(deleted, "no sweep deleted it")
    await learned(empty)
    async with operator(empty) as http:
        (await http.post("/v1/compact")).raise_for_status()
    # The answer that repeated it is in the turn log, for as long as turns are kept.
    assert files_with(data_of(empty), "10,031") == ["turns.db"]


async def test_above_the_quota_the_least_important_leave(empty: Installation) -> None:
    """An owner's quota is about this owner."""
    async with empty.http() as http:
        for number in range(QUOTA + 4):
            importance = 0.0 if number in (2, 5, 7, 11) else 0.9
            stored = {"content": f"User's locker {number} has the code {4000 + number}", "importance": importance}
            (await http.post("/v1/memory", json=stored)).raise_for_status()
    async with empty.http(BOB) as http:
        (await http.post("/v1/memory", json={"content": "User's dog is Hugo", "importance": 0.0})).raise_for_status()

    async def within() -> bool:
        return len(await empty.memories()) <= QUOTA

    await eventually(within, "the quota was not kept")
    left = " ".join(await empty.memories())
    assert len(await empty.memories()) == QUOTA
    assert not any(str(4000 + number) in left for number in (2, 5, 7, 11))
    assert await empty.memories(BOB) == ["User's dog is Hugo"]
