"""What a stream tells of its request, and when: once, with the reply that settles it."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from semrouter_memory.config import MemoryConfig
from semrouter_memory.events import Event
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.model import (
    Compression,
    CompressionReason,
    Hit,
    Reason,
    RecallRequest,
    RecallResult,
    Scope,
    Turn,
)
from semrouter_memory.transport import wire
from semrouter_memory.transport.pb import ext_proc_pb2 as pb
from semrouter_memory.transport.processor import Processor
from tests.memories import memory

NOW = datetime(2026, 3, 15, tzinfo=UTC)
BODY = b'{"model":"m","messages":[{"role":"user","content":"What is my budget?"}]}'
MEMORY = memory(Scope("alice"), "mem_1", content="User's budget is $10", created_at=NOW)
INJECTED = RecallResult(reason=Reason.INJECTED, text="BLOCK", hits=(Hit(MEMORY, 1, 1),), tokens=7)
COMPRESSED = Compression(reason=CompressionReason.COMPRESSED, text="STATE", dropped_turns=3)


class Clock:
    def now(self) -> datetime:
        return NOW


class Recall:
    def __init__(self, result: RecallResult) -> None:
        self.result = result

    async def recall(self, request: RecallRequest) -> RecallResult:
        return self.result


class Retain:
    def accept(self, turn: Turn) -> None: ...


class Quiet:
    """An observer that ignores every event."""

    def observe(self, event: Event) -> None: ...


class Call:
    """What the processor asks of a gRPC call."""

    def __init__(self, metadata: tuple[tuple[str, str], ...] = ()) -> None:
        self.metadata = metadata

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.metadata


def headers(**values: str) -> pb.HttpHeaders:
    fields = {":path": "/v1/chat/completions", ":method": "POST", "x-authz-user-id": "alice", **values}
    return pb.HttpHeaders(
        headers=pb.HeaderMap(headers=[pb.HeaderValue(key=key, raw_value=text.encode()) for key, text in fields.items()])
    )


def request(
    mode: pb.ProtocolConfiguration.BodySendMode, values: dict[str, str] | None = None, *, body: bytes = BODY
) -> list[pb.ProcessingRequest]:
    protocol = pb.ProtocolConfiguration(request_body_mode=pb.ProtocolConfiguration.BUFFERED, response_body_mode=mode)
    return [
        pb.ProcessingRequest(request_headers=headers(**values or {}), protocol_config=protocol),
        pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=True)),
    ]


def answer(status: str) -> list[pb.ProcessingRequest]:
    fields = headers(**{":status": status, "content-type": "text/html"})
    return [
        pb.ProcessingRequest(response_headers=fields),
        pb.ProcessingRequest(response_body=pb.HttpBody(body=b"x", end_of_stream=True)),
    ]


async def outcomes(
    messages: Sequence[pb.ProcessingRequest],
    result: RecallResult = INJECTED,
    metadata: tuple[tuple[str, str], ...] = (),
) -> list[tuple[str, dict[str, Any] | None]]:
    """The replies' kinds, and what they tell."""
    processor = Processor(
        settings=ExchangeSettings(MemoryConfig(), max_body_bytes=1 << 20, max_answer_bytes=1 << 20),
        recall=Recall(result).recall,
        accept=Retain().accept,
        observer=Quiet(),
        clock=Clock(),
    )

    async def stream() -> AsyncIterator[pb.ProcessingRequest]:
        for message in messages:
            yield message

    call: Any = Call(metadata)
    replies = [pb.ProcessingResponse.FromString(reply) async for reply in processor.process(stream(), call)]
    return [(str(reply.WhichOneof("response")), told(reply)) for reply in replies]


def told(reply: pb.ProcessingResponse) -> dict[str, Any] | None:
    if not reply.HasField("dynamic_metadata"):
        return None
    found: dict[str, Any] = MessageToDict(reply.dynamic_metadata)[wire.NAMESPACE]
    return found


RECALL, SINGLE = pb.ProtocolConfiguration.NONE, pb.ProtocolConfiguration.STREAMED


async def test_memories_are_told_with_the_body_and_not_again_with_the_answer() -> None:
    """An answer that is no turn (an error page) is no reason why nothing was used."""
    replies = await outcomes([*request(SINGLE), *answer("500")])
    kinds = ["request_headers", "request_body", "response_headers"]
    assert [kind for kind, _ in replies][:3] == kinds
    first, second, *later = [metadata for _, metadata in replies]
    assert first is None
    assert second is not None
    duration = second.pop("duration_ms")
    assert duration >= 0
    assert second == {
        "reason": "injected",
        "memories_used": 1,
        "memory_ids": "mem_1",
        "memory_scores": "1.000",
        "tokens": 7,
        "compressed_turns": 0,
    }
    assert set(later) == {None}


@pytest.mark.parametrize(
    ("messages", "told_with", "reason"),
    [
        (request(RECALL, {":path": "/v1/models"})[:1], "request_headers", Reason.UNKNOWN_PATH),
        (request(RECALL, {"x-authz-user-id": ""})[:1], "request_headers", Reason.BAD_IDENTITY),
        (request(RECALL, {"content-encoding": "gzip"})[:1], "request_headers", Reason.ENCODED_BODY),
        (request(RECALL, {"x-memory-opt-out": "1"}), "request_body", Reason.OPTED_OUT),
        (request(RECALL, body=b"no JSON"), "request_body", Reason.NOT_JSON),
        ([*request(SINGLE)[:1], *answer("413")], "response_headers", Reason.EARLY_RESPONSE),
    ],
)
async def test_a_refusal_is_told_where_it_is_decided(
    messages: list[pb.ProcessingRequest], told_with: str, reason: Reason
) -> None:
    news = [(kind, metadata) for kind, metadata in await outcomes(messages) if metadata is not None]
    assert news == [(told_with, {"reason": reason.value, "memories_used": 0})]


async def test_what_was_found_but_not_used_is_not_named() -> None:
    result = RecallResult(reason=Reason.TIMEOUT, hits=INJECTED.hits)
    (*_, (_, metadata)) = await outcomes(request(RECALL), result)
    assert metadata is not None
    assert (metadata["memories_used"], metadata.get("memory_ids")) == (0, None)


async def test_turns_that_a_state_stands_for_are_told() -> None:
    result = RecallResult(reason=Reason.BELOW_THRESHOLD, compression=COMPRESSED)
    (*_, (_, metadata)) = await outcomes(request(RECALL), result)
    assert metadata is not None
    assert (metadata["reason"], metadata["compressed_turns"]) == ("below_threshold", 3)


@pytest.mark.parametrize(
    ("fields", "metadata", "reason", "names"),
    [
        ('"memory_config":{"enabled":"false"}', (), "unreadable_setting", "memory_config.enabled"),
        ('"memory_config":{"auto_store":"false"}', (), "injected, unreadable_setting", "memory_config.auto_store"),
        (
            '"memory_context":{"user_id":"bob","a":1}',
            (),
            "identity_mismatch, unreadable_setting",
            "memory_context.unknown",
        ),
        ('"n":1', (("x-memory-enabled", "nope"),), "unreadable_setting", "x-memory-enabled"),
        ('"n":1', (("x-memory-enable", "no"), ("x-memory-secret", "s")), "unreadable_setting", "x-memory-unknown"),
        ('"n":1', (("x-memory-secret", "s"), ("x-other", "s")), "injected", None),
    ],
)
async def test_a_setting_that_cannot_be_read_is_told(
    fields: str, metadata: tuple[tuple[str, str], ...], reason: str, names: str | None
) -> None:
    (*_, (kind, found)) = await outcomes(request(RECALL, body=BODY[:-1] + f",{fields}}}".encode()), metadata=metadata)
    assert kind == "request_body"
    assert found is not None
    assert (found["reason"], found.get("unreadable_settings")) == (reason, names)
