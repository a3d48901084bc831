"""Who is served first: Envoy opens the streams of both filters at once, and waits for one of them only."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from semrouter_memory.config import MemoryConfig
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.model import RecallRequest, RecallResult
from semrouter_memory.transport import processor
from semrouter_memory.transport.pb import ext_proc_pb2 as pb

from .test_outcomes import INJECTED, SINGLE, Call, Clock, Quiet, Recall, Retain, request


class Recalling(Recall):
    def __init__(self, done: list[str]) -> None:
        super().__init__(INJECTED)
        self.done = done

    async def recall(self, request: RecallRequest) -> RecallResult:
        await asyncio.sleep(0)
        self.done.append("recalled")
        return await super().recall(request)


async def test_copies_give_way_to_the_request_that_they_are_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_ASIDE_SECONDS", 0.2)
    done: list[str] = []
    serving = processor.Processor(
        settings=ExchangeSettings(MemoryConfig(), max_body_bytes=1 << 20, max_answer_bytes=1 << 20),
        recall=Recalling(done).recall,
        accept=Retain().accept,
        observer=Quiet(),
        clock=Clock(),
    )
    call: Any = Call()

    async def played(messages: Sequence[pb.ProcessingRequest], name: str) -> None:
        async def stream() -> AsyncIterator[pb.ProcessingRequest]:
            for message in messages:
                yield message
            done.append(name)

        async for _ in serving.process(stream(), call):
            pass

    copies = [pb.ProcessingRequest.FromString(each.SerializeToString()) for each in request(SINGLE)]
    for copy in copies:
        copy.observability_mode = True
    async with asyncio.TaskGroup() as group:
        group.create_task(played(copies, "copies read"))
        group.create_task(played(request(SINGLE), "request answered"))
    assert done == ["recalled", "request answered", "copies read"]
