"""Whatever Envoy, clients and upstreams send, in whatever order: no exception leaves, and no body is damaged."""

from datetime import UTC, datetime

import orjson
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.config import MemoryConfig
from semrouter_memory.exchange.events import (
    BodyMode,
    Event,
    Headers,
    Protocol,
    RequestBody,
    RequestHeaders,
    RequestTrailers,
    ResponseBody,
    ResponseHeaders,
    ResponseTrailers,
    UnknownEvent,
)
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.policy import RouteSettings
from semrouter_memory.exchange.replies import Continue, NeedRecall, ReplaceBody, Reply, Silence, StreamBody
from semrouter_memory.exchange.turns import ExchangeSettings
from semrouter_memory.model import Reason, RecallResult

MODES = st.sampled_from([None, *BodyMode])
PROTOCOLS = st.builds(Protocol, observing=st.booleans(), request_body=MODES, response_body=MODES)
TEXTS = st.text(max_size=20)
HEADERS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([":path", ":method", ":status", "content-type", "content-encoding"]), TEXTS),
        st.sampled_from(
            [
                (":path", "/v1/chat/completions"),
                (":path", "/v1/responses"),
                (":method", "POST"),
                (":status", "200"),
                ("content-type", "application/json"),
                ("content-type", "text/event-stream"),
                ("x-authz-user-id", "alice"),
            ]
        ),
        st.tuples(TEXTS, TEXTS),
    ),
    max_size=8,
).map(Headers)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.sampled_from(["messages", "input", "role", "content"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
BODIES = st.one_of(st.binary(max_size=40), JSON.map(orjson.dumps), st.just(b'data: {"choices":[]}\n\ndata: [DONE]\n\n'))
EVENTS = st.one_of(
    st.builds(RequestHeaders, HEADERS, st.booleans(), PROTOCOLS),
    st.builds(RequestBody, BODIES | st.just(b'{"messages":3,"memory_config":{}}'), st.booleans()),
    st.builds(ResponseHeaders, HEADERS, st.booleans()),
    st.builds(ResponseBody, BODIES, st.booleans()),
    st.sampled_from([RequestTrailers(), ResponseTrailers(), UnknownEvent()]),
)

SETTINGS = ExchangeSettings(memory=MemoryConfig(), max_body_bytes=256, max_answer_bytes=256)


def exchange() -> Exchange:
    return Exchange(SETTINGS, RouteSettings(), datetime(2026, 1, 1, tzinfo=UTC))


def step(subject: Exchange, event: Event, found: str) -> Reply:
    reply = subject.receive(event)
    if isinstance(reply, NeedRecall):
        reply = subject.recalled(RecallResult(reason=Reason.INJECTED, text=found))
    return reply


@given(events=st.lists(EVENTS, max_size=8), found=st.sampled_from(["", "BLOCK"]))
def test_no_exception_leaves(events: list[Event], found: str) -> None:
    """Any order of any messages, until the exchange says that it is finished."""
    subject = exchange()
    for event in events:
        assert isinstance(step(subject, event, found), Silence | Continue | ReplaceBody | StreamBody)
        if subject.finished:
            break
    subject.take_turn()
    assert subject.take_turn() is None


ACCEPTED = Headers([(":path", "/v1/chat/completions"), (":method", "POST"), ("x-authz-user-id", "alice")])


@given(data=BODIES, mode=st.sampled_from([BodyMode.BUFFERED, BodyMode.FULL_DUPLEX_STREAMED]), cut=st.integers(0, 40))
def test_a_body_passes_unchanged_when_nothing_is_found(data: bytes, mode: BodyMode, cut: int) -> None:
    subject = exchange()
    protocol = Protocol(request_body=mode, response_body=BodyMode.NONE)
    step(subject, RequestHeaders(ACCEPTED, protocol=protocol), "")
    if mode is BodyMode.BUFFERED:
        assert step(subject, RequestBody(data, end_of_stream=True), "") == Continue()
        return
    replies = [
        step(subject, RequestBody(part, end_of_stream=end), "")
        for part, end in ((data[:cut], False), (data[cut:], True))
    ]
    sent = b"".join(reply.body for reply in replies if isinstance(reply, StreamBody))
    assert sent == data
    assert isinstance(replies[-1], StreamBody)
    assert replies[-1].end_of_stream


@given(events=st.lists(EVENTS, max_size=8))
def test_an_observer_never_answers(events: list[Event]) -> None:
    subject = exchange()
    subject.receive(RequestHeaders(ACCEPTED, protocol=Protocol(observing=True)))
    for event in events:
        if subject.finished or isinstance(event, RequestHeaders):
            break
        assert step(subject, event, "BLOCK") == Silence()
