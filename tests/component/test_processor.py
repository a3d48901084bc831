"""The driver behind a real gRPC server, spoken to by a real channel."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from semrouter_memory.config import MemoryConfig, ServerConfig
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.events import Event, ExchangeBypassed, ExchangeFailed, SettingsUnreadable
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.model import Appended, AppendOutcome, Reason, RecallRequest, RecallResult, Turn
from semrouter_memory.sockets import require_local_or_secret
from semrouter_memory.transport import wire
from semrouter_memory.transport.pb import ext_proc_pb2 as pb
from semrouter_memory.transport.processor import Processor
from semrouter_memory.transport.server import ExtProcServer
from tests.threads_used import threads_of

CHAT = b'{"model":"m","messages":[{"role":"user","content":"What is my budget?"}]}'
ANSWER = b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"$10"},"finish_reason":"stop"}]}'


class Recall:
    """Answers with a block, or as it is told."""

    def __init__(self) -> None:
        self.requests: list[RecallRequest] = []
        self.error: Exception | None = None

    async def recall(self, request: RecallRequest) -> RecallResult:
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return RecallResult(reason=Reason.INJECTED, text="BLOCK")


class Retain:
    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.error: Exception | None = None

    def accept(self, turn: Turn) -> Appended:
        if self.error is not None:
            raise self.error
        self.turns.append(turn)
        return Appended(AppendOutcome.ACCEPTED)


class Recorder:
    """An observer that keeps its events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def observe(self, event: Event) -> None:
        self.events.append(event)


_OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
"""gRPC's channels of one process share the connections to an address, and a closed channel's may outlive it, broken."""


class Now:
    def now(self) -> datetime:
        return datetime(2026, 3, 15, tzinfo=UTC)


class Service:
    def __init__(self) -> None:
        self.recall, self.retain, self.observer = Recall(), Retain(), Recorder()

    @asynccontextmanager
    async def serve(
        self, config: ServerConfig | None = None, secret: str | None = None
    ) -> AsyncIterator[grpc.aio.Channel]:
        processor = Processor(
            settings=ExchangeSettings(MemoryConfig(), max_body_bytes=1 << 26, max_answer_bytes=1 << 20),
            recall=self.recall.recall,
            accept=self.retain.accept,
            observer=self.observer,
            clock=Now(),
            shared_secret=secret,
        )
        server = ExtProcServer(config or ServerConfig(listen="127.0.0.1:0", drain_seconds=0), processor)
        address = await server.start()
        try:
            async with grpc.aio.insecure_channel(address, options=_OWN_CONNECTION) as channel:
                yield channel
        finally:
            await server.stop()


@pytest.fixture
def service() -> Service:
    return Service()


def headers(kind: str, **fields: str) -> pb.HttpHeaders:
    values = (
        {":path": "/v1/chat/completions", ":method": "POST", "x-authz-user-id": "alice"} if kind == "request" else {}
    )
    values |= {
        ":" + name if name in ("path", "status") else name.replace("_", "-"): text for name, text in fields.items()
    }
    return pb.HttpHeaders(
        headers=pb.HeaderMap(
            headers=[pb.HeaderValue(key=key, raw_value=value.encode()) for key, value in values.items()]
        )
    )


def request_side(
    *,
    observing: bool,
    response_mode: pb.ProtocolConfiguration.BodySendMode,
    request_mode: pb.ProtocolConfiguration.BodySendMode = pb.ProtocolConfiguration.BUFFERED,
) -> Iterator[pb.ProcessingRequest]:
    yield pb.ProcessingRequest(
        request_headers=headers("request"),
        observability_mode=observing,
        protocol_config=pb.ProtocolConfiguration(request_body_mode=request_mode, response_body_mode=response_mode),
    )
    yield pb.ProcessingRequest(request_body=pb.HttpBody(body=CHAT, end_of_stream=True))


def response_side() -> Iterator[pb.ProcessingRequest]:
    yield pb.ProcessingRequest(response_headers=headers("response", status="200", content_type="application/json"))
    yield pb.ProcessingRequest(response_body=pb.HttpBody(body=ANSWER, end_of_stream=True))


async def exchange(
    channel: grpc.aio.Channel, messages: list[pb.ProcessingRequest], metadata: tuple[tuple[str, str], ...] = ()
) -> list[pb.ProcessingResponse]:
    """Send the messages, each after the answer to the one before where one comes; return all answers."""
    call = channel.stream_stream(
        f"/{wire.SERVICE}/{wire.METHOD}",
        request_serializer=pb.ProcessingRequest.SerializeToString,
        response_deserializer=pb.ProcessingResponse.FromString,
    )(iter(messages), metadata=metadata)
    return [reply async for reply in call]


RECALL = list(request_side(observing=False, response_mode=pb.ProtocolConfiguration.NONE))
SINGLE = [*request_side(observing=False, response_mode=pb.ProtocolConfiguration.STREAMED), *response_side()]
RETAIN = [*request_side(observing=True, response_mode=pb.ProtocolConfiguration.STREAMED), *response_side()]


async def test_recall_answers_the_request_and_ends_the_stream(service: Service) -> None:
    async with service.serve() as channel:
        replies = await exchange(channel, RECALL)
    assert [reply.WhichOneof("response") for reply in replies] == ["request_headers", "request_body"]
    assert b"BLOCK" in replies[1].request_body.response.body_mutation.body
    assert service.retain.turns == []


async def test_one_filter_handles_both_sides(service: Service) -> None:
    async with service.serve() as channel:
        replies = await exchange(channel, SINGLE)
    kinds = [reply.WhichOneof("response") for reply in replies]
    assert kinds == ["request_headers", "request_body", "response_headers", "response_body"]
    assert [turn.assistant_text for turn in service.retain.turns] == ["$10"]


async def test_an_observer_gets_no_answers_and_keeps_the_turn(service: Service) -> None:
    async with service.serve() as channel:
        assert await exchange(channel, RETAIN) == []
    assert [turn.user_texts for turn in service.retain.turns] == [("What is my budget?",)]
    assert service.recall.requests == []


async def test_a_bug_of_ours_ends_the_stream_cleanly(service: Service) -> None:
    """The request goes on as it came, with the reason; the failure is reported."""
    service.recall.error = RuntimeError("boom")
    async with service.serve() as channel:
        replies = await exchange(channel, RECALL)
    assert [reply.WhichOneof("response") for reply in replies] == ["request_headers", "request_body"]
    assert not replies[1].request_body.HasField("response")
    told = replies[1].dynamic_metadata.fields["semrouter.memory"].struct_value.fields
    assert told["reason"].string_value == Reason.INTERNAL
    assert [type(event) for event in service.observer.events] == [ExchangeFailed]


async def test_a_bug_of_ours_loses_no_piece_of_an_answer(service: Service) -> None:
    """In full duplex Envoy forwards only what it is sent back."""
    duplex = pb.ProtocolConfiguration.FULL_DUPLEX_STREAMED
    service.retain.error = RuntimeError("boom")
    async with service.serve() as channel:
        messages = [*request_side(observing=False, request_mode=duplex, response_mode=duplex), *response_side()]
        replies = await exchange(channel, messages)
    pieces = [
        reply.response_body.response.body_mutation.streamed_response
        for reply in replies
        if reply.WhichOneof("response") == "response_body"
    ]
    assert [(piece.body, piece.end_of_stream) for piece in pieces] == [(ANSWER, True)]
    assert [type(event) for event in service.observer.events] == [ExchangeFailed]


async def test_a_bypass_is_reported_once(service: Service) -> None:
    message = pb.ProcessingRequest(request_headers=headers("request", path="/v1/models"))
    async with service.serve() as channel:
        assert len(await exchange(channel, [message])) == 1
    assert service.observer.events == [ExchangeBypassed(Reason.UNKNOWN_PATH)]


async def test_a_recall_is_reported_once_where_the_answer_is_passed_on_and_not_stored(service: Service) -> None:
    """In full duplex the stream goes on behind it."""
    duplex = pb.ProtocolConfiguration.FULL_DUPLEX_STREAMED
    messages = [*request_side(observing=False, request_mode=duplex, response_mode=duplex), *response_side()]
    async with service.serve() as channel:
        replies = await exchange(channel, messages, metadata=(("x-memory-auto-store", "false"),))
    assert [reply.WhichOneof("response") for reply in replies][-1] == "response_body"
    assert len(service.recall.requests) == 1
    assert (service.observer.events, service.retain.turns) == ([], [])


@pytest.mark.parametrize("observing", [False, True])
async def test_an_answer_of_envoys_own_passes_in_full_duplex_and_is_nothing_to_an_observer(
    service: Service, *, observing: bool
) -> None:
    """Where a filter before ours refuses a request, the answer is the first that we see of it."""
    duplex = pb.ProtocolConfiguration.FULL_DUPLEX_STREAMED
    refused = pb.ProcessingRequest(
        response_headers=headers("response", status="401"),
        observability_mode=observing,
        protocol_config=pb.ProtocolConfiguration(request_body_mode=duplex, response_body_mode=duplex),
    )
    page = pb.ProcessingRequest(response_body=pb.HttpBody(body=b"Who are you?", end_of_stream=True))
    async with service.serve() as channel:
        replies = await exchange(channel, [refused, page])
    pieces = [reply.response_body.response.body_mutation.streamed_response for reply in replies[1:]]
    assert [(piece.body, piece.end_of_stream) for piece in pieces] == ([] if observing else [(b"Who are you?", True)])
    assert service.observer.events == ([] if observing else [ExchangeBypassed(Reason.EARLY_RESPONSE)])


async def test_a_client_that_goes_away_leaves_no_turn_and_no_error(service: Service) -> None:
    async with service.serve() as channel:
        assert len(await exchange(channel, SINGLE[:3])) == 3
    assert service.retain.turns == []
    assert service.observer.events == []


async def test_route_settings_come_with_the_stream(service: Service) -> None:
    async with service.serve() as channel:
        await exchange(channel, RECALL, (("x-memory-limit", "2"), ("x-memory-auto-store", "nope")))
    assert service.recall.requests[0].options.limit == 2
    assert service.observer.events == [SettingsUnreadable(("x-memory-auto-store",))]


@pytest.mark.parametrize(("sent", "recalls"), [("right", 1), ("wrong", 0), (None, 0)])
async def test_the_shared_secret_is_required(service: Service, sent: str | None, recalls: int) -> None:
    metadata = (("x-memory-secret", sent),) if sent else ()
    # Who is not trusted is not listened to: a message may meet a stream that has ended.
    messages = RECALL if recalls else []
    async with service.serve(secret="right") as channel:
        answers = await exchange(channel, messages, metadata)
    assert len(answers) == 2 * recalls
    assert len(service.recall.requests) == recalls


async def test_large_messages_pass(service: Service) -> None:
    """A body of 20 MB is far above gRPC's default of 4 MB."""
    body = CHAT.replace(b"budget", b"b" * 20_000_000)
    messages = [RECALL[0], pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=True))]
    config = ServerConfig(listen="127.0.0.1:0", drain_seconds=0)
    async with service.serve(config) as plain:
        target = plain  # the channel's own limit concerns what it receives
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await exchange(target, messages)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len(service.recall.requests) == 1


@pytest.mark.parametrize(
    ("function", "messages"),
    [
        ("semrouter_memory.codec.api.Codec.parse", SINGLE),
        ("semrouter_memory.codec.api.Codec.rewrite", SINGLE),
        ("semrouter_memory.exchange.turns.transcript_hash", RETAIN),
    ],
)
async def test_a_long_conversation_is_read_and_changed_beside_the_event_loop(
    service: Service, monkeypatch: pytest.MonkeyPatch, function: str, messages: list[pb.ProcessingRequest]
) -> None:
    """Which every other exchange needs: their tokens would wait for it."""
    threads = threads_of(monkeypatch, function)
    said = [{"role": role, "content": "Where is my bike? " * 5} for role in ("user", "assistant")] * 1_500
    asked = {"role": "user", "content": "And now?"}
    long = pb.HttpBody(body=json.dumps({"messages": [*said, asked]}).encode(), end_of_stream=True)
    async with service.serve() as channel:
        await exchange(
            channel,
            [pb.ProcessingRequest(request_body=long) if each.HasField("request_body") else each for each in messages],
        )
    (turn,) = service.retain.turns
    assert turn.user_texts == ("And now?",)
    assert turn.hints.history_hash
    assert threads
    assert threading.get_ident() not in threads


async def test_unix_socket_with_narrow_permissions(service: Service, tmp_path: Path) -> None:
    path = tmp_path / "run" / "memory.sock"
    for _ in range(2):  # the second time over the socket that the first left
        async with service.serve(ServerConfig(listen=f"unix:{path}", drain_seconds=0)) as channel:
            assert path.stat().st_mode & 0o777 == 0o660
            assert len(await exchange(channel, RECALL)) == 2


async def test_a_taken_port_is_a_clear_error(service: Service) -> None:
    async def nobody(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None: ...

    taken = await asyncio.start_server(nobody, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    async with taken:
        with pytest.raises(ConfigurationError, match=rf"server.listen: cannot listen on 127.0.0.1:{port}"):
            async with service.serve(ServerConfig(listen=f"127.0.0.1:{port}")):
                pass


async def test_health_service(service: Service) -> None:
    async with service.serve() as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", wire.SERVICE):
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("listen", ["0.0.0.0:50051", "10.0.0.3:1", "[::]:50051", "memory.example.com:50051"])
def test_a_wide_address_needs_a_secret(listen: str) -> None:
    with pytest.raises(ConfigurationError, match=r"management\.listen is .*SHARED_SECRET"):
        require_local_or_secret("management.listen", listen, None, header="x-memory-secret")
    require_local_or_secret("management.listen", listen, "secret", header="x-memory-secret")


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/run/x.sock"])
def test_a_local_address_needs_none(listen: str) -> None:
    require_local_or_secret("server.listen", listen, None, header="x-memory-secret")
