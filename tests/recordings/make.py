"""Records the traffic that the integration tests replay: `make recordings`.

The real OpenAI SDK speaks through the real Envoy, with both shipped chains, to the stand-in LLM; the sidecar records. What
differs at each run (times, ids, ports) is made the same, so that recording anew shows only what really changed.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
from openai import APIStatusError, AsyncOpenAI

from semrouter_memory.replay.folder import normalised
from semrouter_memory.replay.pb.recording_pb2 import Header, Record
from semrouter_memory.replay.reading import exchanges_in_file
from semrouter_memory.replay.records import VERSION, written
from tests.envoy.conftest import installed

HERE = Path(__file__).parent
CHAINS = ("two-filter", "single-filter")
STATEMENT = "My budget for the Hawaii trip is $10,000"
QUESTION = "What is my budget for the Hawaii trip?"
_KEY = "demo-key-alice"
_WITHIN_SECONDS = 20.0
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
_IMAGE = [
    {"type": "text", "text": "What is in this picture?"},
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}},
]


def _how(**behaviour: Any) -> dict[str, str]:
    """Headers that make the stand-in answer the same at each run, and pause between the pieces of a stream."""
    return {"x-stand-in": json.dumps({"response_id": "answer-1", "delay_ms": 60, **behaviour})}


def _said(content: Any) -> list[Any]:
    return [{"role": "user", "content": content}]


async def _chat(sdk: AsyncOpenAI, content: Any, how: dict[str, str] | None = None, **fields: Any) -> None:
    try:
        answer = await sdk.chat.completions.create(
            model="stand-in", messages=_said(content), extra_headers=how or _how(), **fields
        )
        if fields.get("stream"):
            async for _ in answer:
                pass
    except APIStatusError:
        return


async def _read_to_the_end(sdk: AsyncOpenAI, content: str, how: dict[str, str]) -> None:
    """Past `[DONE]`, where the SDK's own stream hangs up though compressed bytes are still to come."""
    create = sdk.chat.completions.with_streaming_response.create
    async with create(model="stand-in", messages=_said(content), stream=True, extra_headers=how) as answer:
        async for _ in answer.iter_bytes():
            pass


async def _responses(sdk: AsyncOpenAI, content: Any, how: dict[str, str] | None = None, **fields: Any) -> None:
    answer = await sdk.responses.create(model="stand-in", input=content, extra_headers=how or _how(), **fields)
    if fields.get("stream"):
        async for _ in answer:
            pass


Scenario = Callable[[AsyncOpenAI], Awaitable[None]]

SCENARIOS: dict[str, Scenario] = {
    "01-tell": lambda sdk: _chat(sdk, STATEMENT),
    "02-ask": lambda sdk: _chat(sdk, QUESTION),
    "03-ask-stream": lambda sdk: _chat(sdk, QUESTION, stream=True),
    "04-ask-responses": lambda sdk: _responses(sdk, QUESTION),
    "05-ask-responses-stream": lambda sdk: _responses(sdk, QUESTION, stream=True),
    "06-chat": lambda sdk: _chat(sdk, "Thanks!"),
    "07-chinese-stream": lambda sdk: _chat(sdk, "你好", _how(text="你好 世界 — grüß dich", split=7), stream=True),
    "08-tools": lambda sdk: _chat(sdk, "What is the weather in Berlin?", tools=[_TOOL]),
    "09-tools-stream": lambda sdk: _chat(sdk, "What is the weather in Berlin?", tools=[_TOOL], stream=True),
    "10-image": lambda sdk: _chat(sdk, _IMAGE),
    "11-error": lambda sdk: _chat(sdk, "Thanks!", _how(status=429)),
    "12-gzip": lambda sdk: _chat(sdk, "Thanks!", _how(encoding="gzip")),
    "13-gzip-stream": lambda sdk: _read_to_the_end(sdk, "Thanks!", _how(encoding="gzip", split=60)),
    "14-opt-out": lambda sdk: _chat(sdk, QUESTION, {**_how(), "x-memory-opt-out": "true"}),
    "15-settings": lambda sdk: _chat(sdk, QUESTION, extra_body={"memory_config": {"retrieval_limit": 1}}),
}


async def record_chain(chain: str, *, model: Path, into: Path) -> None:
    """Record all scenarios with one chain."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary)
        taken = directory / "recordings"
        config = {
            "memory": {"recall": {"deadline_ms": 5000}},
            "recording": {"enabled": True, "directory": str(taken), "format": "jsonl", "files": "exchange"},
        }
        async with installed(directory, model, chain=f"{chain}.yaml", sidecar_config=config) as on:
            sdk = AsyncOpenAI(base_url=f"{on.url}/v1", api_key=_KEY, max_retries=0)
            try:
                await _play_all(sdk, on.url, taken, into)
            except SystemExit:
                sys.stderr.write((directory / "sidecar.log").read_text(encoding="utf-8")[-4000:])
                raise


async def _play_all(sdk: AsyncOpenAI, url: str, taken: Path, into: Path) -> None:
    for number, (name, scenario) in enumerate(SCENARIOS.items(), start=1):
        await scenario(sdk)
        source = await _written(taken, number, name)
        _keep(source, into / f"{name}.jsonl", name)
        if number == 1:
            await _remembered(url)


async def _until(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + _WITHIN_SECONDS
    while not await holds():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} within {_WITHIN_SECONDS:.0f} s")
        await asyncio.sleep(0.1)


async def _written(directory: Path, count: int, name: str) -> Path:
    """The recording of the scenario that was just played."""

    async def there() -> bool:
        return len(_files(directory)) >= count

    await _until(f"{name} was not recorded", there)
    return _files(directory)[-1]


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.jsonl"))


async def _remembered(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, headers={"authorization": f"Bearer {_KEY}"}) as http:

        async def known() -> bool:
            return bool((await http.get("/v1/memory")).json().get("data"))

        await _until("nothing was remembered", known)


def _keep(source: Path, target: Path, name: str) -> None:
    records = [Record(header=Header(version=VERSION, made_by="make recordings"))]
    for exchange in exchanges_in_file(source, print):
        records += normalised(exchange, name=name)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(written(records, "jsonl", timed=False))


async def make(model: Path, into: Path = HERE) -> None:
    for chain in CHAINS:
        shutil.rmtree(into / chain, ignore_errors=True)
        await record_chain(chain, model=model, into=into / chain)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, default=Path(".cache/model"))
    asyncio.run(make(parser.parse_args().model))
