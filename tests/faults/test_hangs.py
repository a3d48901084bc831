"""The sidecar hangs while answers are streamed: how long the client of each chain waits for the next piece."""

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.envoy.client import APIS, gaps, sent_by_llm, streamed, under_way
from tests.envoy.conftest import Installation, installed

from .conftest import Figures, sized

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(sized(120, 300))]

DELAY_SECONDS = 0.05
LASTING_SECONDS = sized(4, 20)
"""Longer than any wait that is allowed: an answer that is held until its end shows."""
STREAMS = sized(2, 20)
"""Of each API."""
SLACK_SECONDS = 0.8
BEFORE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Hang:
    """A chain, and how long it may keep a client waiting once.

    Attributes:
        longest_seconds: of the single filter: `connection_keepalive`, its interval and its timeout.
    """

    chain: str
    longest_seconds: float


@pytest.fixture(params=[Hang("two-filter.yaml", 0.0), Hang("single-filter.yaml", 1.5)], ids=lambda hang: hang.chain)
def hang(request: pytest.FixtureRequest) -> Hang:
    chosen: Hang = request.param
    return chosen


@pytest_asyncio.fixture(loop_scope="session")
async def on(hang: Hang, tmp_path: Path, model_directory: Path) -> AsyncIterator[Installation]:
    async with installed(tmp_path, model_directory, chain=hang.chain, shipped_timeouts=True) as installation:
        yield installation


async def test_a_sidecar_that_hangs_in_mid_stream(on: Installation, hang: Hang, figures: Figures) -> None:
    """Pieces keep coming from the LLM all the while. The longest gap counts: many short ones and one long one differ."""
    how: dict[str, Any] = {
        "text": "word " * round(LASTING_SECONDS / DELAY_SECONDS),
        "delay_ms": DELAY_SECONDS * 1000,
    }
    paths = APIS * STREAMS
    on.llm.requests.clear()
    reading = [asyncio.create_task(streamed(on, path, "Hello?", **how)) for path in paths]
    await under_way(on, len(paths))
    await asyncio.sleep(BEFORE_SECONDS)
    on.stack.sidecar.send(signal.SIGSTOP)
    try:
        answers = await asyncio.gather(*reading)
    finally:
        on.stack.sidecar.send(signal.SIGCONT)
    sent = {path: await sent_by_llm(on, path, "Hello?", **how) for path in APIS}
    assert [b"".join(piece.data for piece in answer) for answer in answers] == [sent[path] for path in paths]
    longest = [max(gaps(answer)) for answer in answers]
    second = [sorted(gaps(answer))[-2] for answer in answers]
    figures(streams=len(paths), seconds=LASTING_SECONDS, longest_gap_s=max(longest), second_longest_gap_s=max(second))
    assert max(longest) < hang.longest_seconds + DELAY_SECONDS + SLACK_SECONDS
    assert max(second) < DELAY_SECONDS + SLACK_SECONDS
