"""The real gRPC server against streams that no Envoy sends: each ends by itself, and the next one is served."""

import asyncio
import random
from contextlib import suppress

import grpc.aio
import pytest

from semrouter_memory.config import ServerConfig
from semrouter_memory.events import ExchangeBypassed, ExchangeFailed
from semrouter_memory.transport import wire
from semrouter_memory.transport.pb import ext_proc_pb2 as pb
from tests.component.test_processor import CHAT, RECALL, Service, exchange, headers
from tests.fuzz.seeds import WIRE_MODES

ENDED = (grpc.StatusCode.OK, grpc.StatusCode.INTERNAL)
"""Envoy goes on without us. (INTERNAL is what this client makes of a message that it could not send any more.)"""

DUPLEX = pb.ProtocolConfiguration.FULL_DUPLEX_STREAMED


def _opening(mode: pb.ProtocolConfiguration.BodySendMode = DUPLEX) -> pb.ProcessingRequest:
    config = pb.ProtocolConfiguration(request_body_mode=mode, response_body_mode=mode)
    return pb.ProcessingRequest(request_headers=headers("request"), protocol_config=config)


def _pieces(*sizes: int) -> list[pb.ProcessingRequest]:
    bodies = [CHAT[start : start + size] for start, size in zip((0, *sizes), sizes, strict=False)]
    return [pb.ProcessingRequest(request_body=pb.HttpBody(body=body)) for body in bodies]


async def _sent(
    channel: grpc.aio.Channel, messages: list[bytes]
) -> tuple[list[pb.ProcessingResponse], grpc.StatusCode]:
    call = channel.stream_stream(
        f"/{wire.SERVICE}/{wire.METHOD}",
        request_serializer=bytes,
        response_deserializer=pb.ProcessingResponse.FromString,
    )(None)
    # A stream that the server has left cannot be written to any more.
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        for message in messages:
            await call.write(message)
        await call.done_writing()
    replies = []
    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
        while isinstance(reply := await call.read(), pb.ProcessingResponse):
            replies.append(reply)
    return replies, await call.code()


def _streamed(replies: list[pb.ProcessingResponse]) -> bytes:
    return b"".join(reply.request_body.response.body_mutation.streamed_response.body for reply in replies)


@pytest.fixture
def service() -> Service:
    return Service()


async def test_bytes_that_are_no_message_end_their_stream_and_no_other(service: Service) -> None:
    chance = random.Random(5)
    opening, body = (message.SerializeToString() for message in RECALL)
    async with service.serve() as channel:
        for garbage in (b"\xff" * 20, b"\x12\xff\xff\xff\xff\x7f", *(chance.randbytes(60) for _ in range(30))):
            for messages in ([garbage], [opening, garbage, body]):
                _, code = await _sent(channel, messages)
                assert code in ENDED
        replies = await exchange(channel, RECALL)
    assert b"BLOCK" in replies[1].request_body.response.body_mutation.body
    assert {type(event) for event in service.observer.events} <= {ExchangeFailed, ExchangeBypassed}


async def test_a_message_over_the_limit_ends_its_stream_and_no_other(service: Service) -> None:
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0, max_message_bytes=4096)
    async with service.serve(config) as channel:
        _, code = await _sent(channel, [b"\0" * 10_000])
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert len(await exchange(channel, RECALL)) == 2


@pytest.mark.parametrize("seed", range(20))
async def test_messages_in_any_order_are_answered_or_let_go(service: Service, seed: int) -> None:
    """The stream ends well, nothing of ours fails, and the next stream is served."""
    chance = random.Random(seed)
    kinds = [
        _opening(chance.choice(WIRE_MODES)),
        *_pieces(20, 30),
        pb.ProcessingRequest(request_body=pb.HttpBody(end_of_stream=True)),
        pb.ProcessingRequest(response_headers=headers("response", status="200", content_type="text/event-stream")),
        pb.ProcessingRequest(response_body=pb.HttpBody(body=b"data: [DONE]\n\n", end_of_stream=True)),
        pb.ProcessingRequest(request_trailers=pb.HttpTrailers()),
        pb.ProcessingRequest(response_trailers=pb.HttpTrailers()),
        pb.ProcessingRequest(),
    ]
    messages = [chance.choice(kinds) for _ in range(12)]
    async with service.serve() as channel:
        _, code = await _sent(channel, [message.SerializeToString() for message in messages])
        assert code in ENDED
        assert len(await exchange(channel, RECALL)) == 2
    assert ExchangeFailed not in {type(event) for event in service.observer.events}


async def test_a_full_duplex_body_survives_a_recall_that_fails(service: Service) -> None:
    service.recall.error = RuntimeError("boom")
    last = pb.ProcessingRequest(request_body=pb.HttpBody(body=CHAT[30:], end_of_stream=True))
    async with service.serve() as channel:
        replies = await exchange(channel, [_opening(), *_pieces(30), last])
    assert _streamed(replies) == CHAT
    assert replies[-1].request_body.response.body_mutation.streamed_response.end_of_stream


async def test_a_full_duplex_body_survives_garbage_behind_it(service: Service) -> None:
    """What was taken in is given back before the stream ends."""
    messages = [message.SerializeToString() for message in (_opening(), *_pieces(10, 20))]
    async with service.serve() as channel:
        replies, code = await _sent(channel, [*messages, b"\xff\xff"])
    assert code is grpc.StatusCode.OK
    assert CHAT.startswith(_streamed(replies))
    assert len(_streamed(replies)) == len(b"".join(piece.request_body.body for piece in _pieces(10, 20)))


async def test_a_number_that_is_none_in_the_metadata_costs_nothing(service: Service) -> None:
    opening, body = RECALL
    odd = pb.ProcessingRequest()
    odd.CopyFrom(opening)
    fields = odd.metadata_context.filter_metadata["envoy.filters.http.jwt_authn"].fields
    fields["n"].number_value = float("nan")
    fields["i"].list_value.values.add().number_value = float("inf")
    fields["nothing"].SetInParent()
    async with service.serve() as channel:
        assert len(await exchange(channel, [odd, body])) == 2
    assert service.observer.events == []
