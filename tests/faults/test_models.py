"""The models: those that the sidecar asks are away for long, and the one behind Envoy errs, hangs and dies."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from semrouter_memory.stack.loopback import local_client
from tests.envoy.client import APIS, CHAT, asking
from tests.envoy.conftest import ALICE, Installation, eventually, installed
from tests.envoy.extraction_llm import ExtractionLlm, extracting
from tests.envoy.talk import PLACES, told

from .conftest import Figures, sized
from .parts import none_waits, tell, turn_totals

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(sized(180, 600))]

AWAY_SECONDS = sized(0.8, 20)
"""Of each way of being away; a back-off lasts 0.2 to 0.5 s here, so that this is many of them."""
INFERRED = "User enjoys harbour walks"
Way = Callable[[ExtractionLlm], object]


def errs(llm: ExtractionLlm) -> None:
    llm.status = 500


def refuses_the_key(llm: ExtractionLlm) -> None:
    llm.status = 401


def hangs(llm: ExtractionLlm) -> None:
    llm.status, llm.hangs = 200, True


# -- models of ours ----------------------------------------------------------------------------------------------------


async def test_extraction_and_rewriting_are_away_for_long(
    tmp_path: Path, model_directory: Path, figures: Figures
) -> None:
    """First nobody listens, then the server errs, refuses and hangs. Rules go on; when it is back, every turn is read."""
    llm = ExtractionLlm()
    config = extracting(llm, timeout_seconds=2, max_attempts=5)
    (extraction,) = config["external_models"]
    config["external_models"] = [extraction, {**extraction, "model_role": "memory_rewrite"}]
    config["memory"]["recall"] = {"rewrite": "always", "rewrite_deadline_ms": 100}
    places = iter(PLACES)
    slowest, said = 0.0, 0
    async with installed(tmp_path, model_directory, sidecar_config=config) as on:
        async with AsyncExitStack() as listening:
            for way in (None, errs, refuses_the_key, hangs):
                if way is errs:
                    await listening.enter_async_context(llm.listening())
                if way is not None:
                    way(llm)
                until = time.monotonic() + AWAY_SECONDS
                for _ in range(sized(3, 12)):
                    began = time.monotonic()
                    await tell(on, told(next(places)))
                    slowest, said = max(slowest, time.monotonic() - began), said + 1
                await asyncio.sleep(max(0.0, until - time.monotonic()))
            await waits(on, said)
            attempted = len(llm.asked)
            llm.works(INFERRED)
            began = time.monotonic()
            totals = await none_waits(on, accepted=said, seconds=60)
            took = time.monotonic() - began
        memories = await on.memories()
    figures(
        away_s=4 * AWAY_SECONDS,
        requests=said,
        failed=0,
        slowest_request_s=slowest,
        asked_in_vain=attempted,
        turns_accepted=totals["accepted"],
        turns_ended=totals["extracted"] + totals["empty"],
        dead_letters=totals["dead_lettered"],
        memories=len(memories),
        read_after_s=took,
    )
    assert totals == {"accepted": said, "extracted": said, "empty": 0, "dead_lettered": 0, "deleted": 0, "waiting": 0}
    assert all(sum(place in each for each in memories) == 1 for place in PLACES[:said])
    assert len(memories) == len(set(memories)) <= said + 1


async def waits(on: Installation, said: int) -> None:
    """All turns were accepted, the rules have stored what they found, and no turn has ended."""

    async def stored() -> bool:
        totals = turn_totals(on)
        return totals["accepted"] == totals["waiting"] == said and len(await on.memories()) == said

    await eventually(stored, f"not {said} waiting turns and memories: {turn_totals(on)}")


# -- the model behind Envoy --------------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def on(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> AsyncIterator[Installation]:
    async with installed(tmp_path_factory.mktemp("upstream"), model_directory) as installation:
        yield installation


async def test_what_the_server_answers_is_what_the_client_gets(on: Installation, figures: Figures) -> None:
    """Errors, nonsense and streams that break off, byte for byte; only what succeeded is a turn."""
    behaviours: list[dict[str, Any]] = [{"status": status} for status in (400, 401, 404, 408, 429, 500, 502, 503, 504)]
    behaviours += [{"garbage": True}, {"cut": 3}, {"cut": 2, "split": 40, "encoding": "gzip"}, {"split": 3}]
    before = turn_totals(on)["accepted"]
    same = 0
    for path in APIS:
        for how in behaviours:
            for stream in (False, True):
                text = f"Is {json.dumps(how)} fine?"
                got, sent = [await answered(url, path, text, stream, how) for url in (on.url, direct(on))]
                assert got == sent, (path, how, stream)
                same += 1
    succeeded = 2 * (3 + 1)  # whole JSON of the last three, and the only stream that ends as it should
    totals = await none_waits(on, accepted=before + succeeded)
    figures(answers=same, alike=same, turns=totals["accepted"] - before)
    assert totals["accepted"] == before + succeeded


def direct(on: Installation) -> str:
    return on.stack._options.llm.removesuffix("/v1")


async def answered(url: str, path: str, text: str, stream: bool, how: dict[str, Any]) -> tuple[int, bytes, str]:
    headers = {
        "authorization": f"Bearer {ALICE}",
        "content-type": "application/json",
        "x-stand-in": json.dumps({"response_id": "same", **how}),
    }
    body = asking(path, text, stream=stream)
    async with (
        local_client(base_url=url, timeout=30) as http,
        http.stream("POST", path, content=body, headers=headers) as answer,
    ):
        data = b"".join([piece async for piece in answer.aiter_raw()])
    return answer.status_code, data, answer.headers.get("content-type", "")


async def test_a_server_that_hangs_is_the_clients_to_give_up(on: Installation, figures: Figures) -> None:
    """Neither Envoy nor the sidecar ends it before, and others are served meanwhile."""
    before = turn_totals(on)["accepted"]
    seconds = sized(2.5, 20.0)

    async def given_up() -> float:
        began = time.monotonic()
        headers = {"x-stand-in": json.dumps({"delay_ms": 1000 * (seconds + 60)})}
        async with on.http(headers=headers) as http:
            with pytest.raises(httpx.ReadTimeout):
                await http.post(CHAT, content=asking(CHAT, "Still there?"), timeout=seconds)
        return time.monotonic() - began

    waiting = [asyncio.create_task(given_up()) for _ in range(20)]
    times = []
    for number in range(10):
        began = time.monotonic()
        await tell(on, f"And {number}?")
        times.append(time.monotonic() - began)
    given = await asyncio.gather(*waiting)
    totals = await none_waits(on, accepted=before + len(times))
    figures(hanging=len(given), given_up_after_s=min(given), others_s_at_most=max(times))
    assert min(given) > 0.9 * seconds
    assert totals["accepted"] == before + len(times)
