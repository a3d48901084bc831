"""What the owner of an installation does and sees: commands, totals, and what its files hold."""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from semrouter_memory.stack.loopback import local_client

from .client import CHAT
from .conftest import ALICE, Installation

OPERATOR = "operator-token"
TOKEN_VARIABLE = "SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN"
ENVIRONMENT = {TOKEN_VARIABLE: OPERATOR}
PARTS = ("extracted", "empty", "dead_lettered", "deleted", "waiting")


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str


async def command(on: Installation, *words: str, stdin: str = "", **variables: str) -> Ran:
    """`semrouter-memory ...` as somebody types it who has told their shell where the sidecar is."""
    known = {**ENVIRONMENT, "SEMROUTER_MEMORY_OPERATOR_URL": on.stack.operator_url, "SEMROUTER_MEMORY_URL": on.url}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "semrouter_memory", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **known, "NO_COLOR": "1", **variables},
    )
    out, err = await program.communicate(stdin.encode())
    return Ran(program.returncode or 0, out.decode(), err.decode())


def operator(on: Installation) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {OPERATOR}"}
    return local_client(base_url=on.stack.operator_url, headers=headers, timeout=60)


async def totals(on: Installation) -> dict[str, int]:
    """What became of all turns; they always add up."""
    async with operator(on) as http:
        found: dict[str, int] = (await http.get("/v1/turns/totals")).raise_for_status().json()
    assert found["accepted"] == sum(found[part] for part in PARTS)
    return found


async def listed(on: Installation, key: str = ALICE, **asked: str) -> list[dict[str, Any]]:
    """The user's memories as the API shows them, oldest first."""
    async with on.http(key) as http:
        answer = (await http.get("/v1/memory", params={"limit": 200, **asked})).raise_for_status()
    return sorted(answer.json()["data"], key=lambda memory: (memory["observed_at"], memory["id"]))


def of_type(memories: list[dict[str, Any]], kind: str) -> list[str]:
    return [memory["content"] for memory in memories if memory["type"] == kind]


async def talk(
    on: Installation,
    *texts: str,
    key: str = ALICE,
    after: list[dict[str, Any]] | None = None,
    last: Mapping[str, str] | None = None,
    fields: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    tool: str = "",
) -> list[dict[str, Any]]:
    """A conversation as a chat client holds it: each request repeats what was said before.

    Args:
        after: what was said before.
        last: further headers of the last request; `headers` are of all.
        fields: further fields of the bodies.
        tool: was called, and returned something, before each answer.
    """
    messages = list(after or ())
    call = {"id": "call_1", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    used = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "ok"},
    ]
    for number, text in enumerate(texts, 1):
        messages += [{"role": "user", "content": text}, *(used if tool else ())]
        ends = number == len(texts)
        async with on.http(key, headers={**(headers or {}), **(last or {} if ends else {})}) as http:
            body = {"model": "m", "messages": messages, **(fields or {})}
            answer = (await http.post(CHAT, json=body)).raise_for_status().json()
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
    return messages


def files_with(directory: Path, text: str) -> list[str]:
    """The files below that hold the text, in one of the ways in which it could be written."""
    spelled = [text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be")]
    found = (path for path in directory.rglob("*") if path.is_file())
    return [path.name for path in found if any(each in path.read_bytes() for each in spelled)]
