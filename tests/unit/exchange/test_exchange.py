"""The exchange, event by event, as each of the filters sees it."""

import gzip
from dataclasses import replace
from typing import Any

import orjson
import pytest

from semrouter_memory.exchange.events import (
    BodyMode,
    Headers,
    Protocol,
    RequestBody,
    RequestHeaders,
    RequestTrailers,
    ResponseBody,
    ResponseTrailers,
    UnknownEvent,
)
from semrouter_memory.exchange.exchange import Exchange
from semrouter_memory.exchange.policy import RouteSettings, route_settings
from semrouter_memory.exchange.replies import Continue, NeedRecall, ReplaceBody, Silence, StreamBody
from semrouter_memory.model import (
    MemoryType,
    OtherOwner,
    OwnerKind,
    Position,
    Reason,
    RecallResult,
    Scope,
    Signals,
    ToolUse,
    Turn,
    parse_filter,
)

from .conftest import (
    DUPLEX,
    NOW,
    OLD_ENVOY,
    RECALL,
    RETAIN,
    SINGLE,
    MakeExchange,
    answer,
    body,
    chat,
    request_headers,
    response_headers,
)

FOUND = RecallResult(reason=Reason.INJECTED, text="BLOCK")
NOTHING = RecallResult(reason=Reason.BELOW_THRESHOLD)


def recall_step(
    exchange: Exchange, protocol: Protocol, data: bytes, *extra: tuple[str, str], **fields: str
) -> NeedRecall:
    assert exchange.receive(request_headers(protocol, *extra, **fields)) == Continue()
    step = exchange.receive(body(data))
    assert isinstance(step, NeedRecall)
    return step


def is_finished(exchange: Exchange) -> bool:
    """A call, because a type checker takes a property for a constant."""
    return exchange.finished


class TestRecallFilter:
    def test_asks_for_recall_and_leaves(self, make_exchange: MakeExchange) -> None:
        """The request is all that this filter handles: after its body the exchange is finished."""
        exchange = make_exchange()
        step = recall_step(exchange, RECALL, chat("What's my budget?"))
        assert step.request.query == "What's my budget?"
        assert step.request.scope == Scope("alice")
        assert not is_finished(exchange)
        reply = exchange.recalled(FOUND)
        assert isinstance(reply, ReplaceBody)
        assert orjson.loads(reply.body)["messages"][0] == {"role": "system", "content": "BLOCK"}
        assert exchange.finished
        assert exchange.refusal is None
        assert exchange.take_turn() is None

    def test_asks_with_all_that_was_said_before_the_last_message(self, make_exchange: MakeExchange) -> None:
        said = [("user", "Hi"), ("assistant", "Hello!"), ("user", "I'm off to mum's"), ("user", "Which room?")]
        data = orjson.dumps({"messages": [{"role": role, "content": text} for role, text in said]})
        request = recall_step(make_exchange(), RECALL, data).request
        assert request.query == "Which room?"
        assert [(message.role, message.text) for message in request.before] == said[:-1]

    def test_leaves_the_body_alone_when_nothing_is_found(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        recall_step(exchange, RECALL, b'{"messages" : [{"role":"user","content":"x"}], "n": 1.0e2}')
        assert exchange.recalled(NOTHING) == Continue()

    def test_position_of_the_route_is_used(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange(route=RouteSettings(position=Position.USER_TAIL))
        recall_step(exchange, RECALL, chat("hello there, what is my budget"))
        reply = exchange.recalled(FOUND)
        assert isinstance(reply, ReplaceBody)
        assert orjson.loads(reply.body)["messages"][-1]["content"].endswith("BLOCK")

    @pytest.mark.parametrize(
        ("event", "reason"),
        [
            (request_headers(RECALL, path="/v1/models"), Reason.UNKNOWN_PATH),
            (request_headers(RECALL, method="GET"), Reason.NOT_POST),
            (replace(request_headers(RECALL), end_of_stream=True), Reason.NOT_JSON),
            (request_headers(RECALL, ("content-encoding", "gzip")), Reason.ENCODED_BODY),
            (request_headers(RECALL, user=""), Reason.NO_IDENTITY),
            (request_headers(RECALL, ("x-authz-user-id", "mallory")), Reason.BAD_IDENTITY),
            (request_headers(RECALL, user="a\x00b"), Reason.BAD_IDENTITY),
            (request_headers(RECALL, user="x" * 300), Reason.BAD_IDENTITY),
            (request_headers(Protocol(request_body=BodyMode.STREAMED)), Reason.UNSUITABLE_BODY_MODE),
        ],
    )
    def test_what_is_not_ours_ends_at_the_headers(
        self, make_exchange: MakeExchange, event: RequestHeaders, reason: Reason
    ) -> None:
        exchange = make_exchange()
        assert exchange.receive(event) == Continue()
        assert exchange.refusal is reason
        assert exchange.finished

    @pytest.mark.parametrize("data", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"messages": 3}', b"NaN"])
    def test_a_body_that_is_not_json_passes(self, make_exchange: MakeExchange, data: bytes) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(RECALL))
        assert exchange.receive(body(data)) == Continue()
        assert exchange.refusal is Reason.NOT_JSON
        assert exchange.finished

    @pytest.mark.parametrize(
        "data",
        [
            b'\xef\xbb\xbf{"messages":[],"memory_config":{"enabled":false},"n":1}',
            b'{"messages":[],"memory_config":{"enabled":false},"n":1e400}',
            b'{"messages":[],"memory_config":{"enabled":false},"n":-Infinity}',
            b'{"messages":[],"memory_config":{"enabled":false},"n":"\\ud83d"}',
            b'{"messages":3,"memory_config":{"enabled":true},"n":1}',
        ],
    )
    def test_our_fields_leave_whatever_can_be_parsed(self, make_exchange: MakeExchange, data: bytes) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(RECALL))
        reply = exchange.receive(body(data))
        assert isinstance(reply, ReplaceBody)
        start = data.index(b',"memory_config"')
        assert reply.body == data[:start] + data[data.index(b',"n"') :]

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-be"])
    def test_our_fields_in_a_body_that_cannot_be_parsed_have_a_reason(
        self, make_exchange: MakeExchange, encoding: str
    ) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(RECALL))
        data = '{"messages":[],"memory_context":{"user_id":"bob"},}'.encode(encoding)
        assert exchange.receive(body(data)) == Continue()
        assert exchange.refusal is Reason.UNREAD_FIELDS

    @pytest.mark.parametrize(
        ("path", "data", "has_place"),
        [
            (
                "/v1/chat/completions",
                b'{"messages":[{"role":"system","content":7},{"role":"user","content":"a"}]}',
                False,
            ),
            ("/v1/chat/completions", b'{"messages":[{"role":"system","content":{}}]}', False),
            ("/v1/chat/completions", b'{"messages":[{"role":"system","content":null}]}', True),
            ("/v1/chat/completions", b'{"messages":[{"role":"system","content":[]}]}', True),
            ("/v1/responses", b'{"input":"a","instructions":[{"role":"user"}]}', False),
            ("/v1/responses", b'{"input":"a","instructions":null}', True),
            ("/v1/responses", b'{"input":"a"}', True),
        ],
    )
    def test_recall_is_told_whether_there_is_a_place(
        self, make_exchange: MakeExchange, path: str, data: bytes, has_place: bool
    ) -> None:
        assert recall_step(make_exchange(), RECALL, data, path=path).request.has_place is has_place

    def test_a_body_over_the_bound_passes(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange(max_body_bytes=100)
        exchange.receive(request_headers(RECALL))
        assert exchange.receive(body(chat("x" * 200))) == Continue()
        assert exchange.refusal is Reason.BODY_TOO_LARGE

    def test_a_body_of_exactly_the_bound_is_read(self, make_exchange: MakeExchange) -> None:
        data = chat("What is my budget?")
        recall_step(make_exchange(max_body_bytes=len(data)), RECALL, data)

    def test_a_partial_body_passes(self, make_exchange: MakeExchange) -> None:
        """BUFFERED_PARTIAL over Envoy's limit: the beginning is all we get."""
        exchange = make_exchange()
        exchange.receive(request_headers(Protocol(request_body=BodyMode.BUFFERED_PARTIAL, response_body=BodyMode.NONE)))
        assert exchange.receive(RequestBody(b'{"messages": [', end_of_stream=False)) == Continue()
        assert exchange.refusal is Reason.BODY_TOO_LARGE
        assert exchange.finished

    def test_a_buffered_body_before_trailers_is_whole(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(RECALL))
        assert isinstance(exchange.receive(RequestBody(chat("my budget?"), end_of_stream=False)), NeedRecall)

    def test_signals_come_from_headers(self, make_exchange: MakeExchange) -> None:
        marks = (("x-vsr-fact-check-needed", "TRUE"), ("x-vsr-requires-tool", "no"))
        step = recall_step(make_exchange(), RECALL, chat("hello world"), *marks)
        assert step.request.signals == Signals(is_fact=True, requires_tool=False)


class TestSwitches:
    @pytest.mark.parametrize(
        ("memory", "route", "fields", "extra", "reason"),
        [
            ({"enabled": False}, None, {}, (), Reason.DISABLED),
            ({}, RouteSettings(enabled=False), {"memory_config": {"enabled": True}}, (), Reason.DISABLED),
            ({}, None, {"memory_config": {"enabled": False}}, (), Reason.DISABLED),
            ({}, None, {}, (("x-memory-opt-out", "true"),), Reason.OPTED_OUT),
        ],
    )
    def test_off_anywhere_is_off_for_reading_and_writing(
        self,
        make_exchange: MakeExchange,
        memory: dict[str, Any],
        route: RouteSettings | None,
        fields: dict[str, Any],
        extra: tuple[tuple[str, str], ...],
        reason: Reason,
    ) -> None:
        for protocol in (RECALL, SINGLE, RETAIN):
            exchange = make_exchange(memory, route)
            exchange.receive(request_headers(protocol, *extra))
            assert not isinstance(exchange.receive(body(chat("What's my budget?", **fields))), NeedRecall)
            assert exchange.refusal is reason
            assert exchange.finished
            assert exchange.take_turn() is None

    def test_our_fields_are_taken_out_even_when_memory_is_off(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(RECALL))
        reply = exchange.receive(
            body(chat("hi", memory_config={"enabled": False}, memory_context={"user_id": "alice"}))
        )
        assert reply == ReplaceBody(chat("hi"))

    def test_another_users_id_in_the_body_disables_memory(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(RECALL))
        reply = exchange.receive(body(chat("my budget?", memory_context={"user_id": "bob"})))
        assert reply == ReplaceBody(chat("my budget?"))
        assert exchange.refusal is Reason.IDENTITY_MISMATCH

    def test_the_body_is_believed_only_where_that_is_configured(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange({"identity": {"trust_body": True}})
        step = recall_step(exchange, RECALL, chat("budget?", memory_context={"user_id": "bob"}), user="")
        assert step.request.scope == Scope("bob")

    def test_project_and_request_settings(self, make_exchange: MakeExchange) -> None:
        fields = {
            "memory_context": {"user_id": "alice", "project_id": "apollo"},
            "memory_config": {"retrieval_limit": 2, "similarity_threshold": 0.3, "memory_types": ["procedural"]},
        }
        step = recall_step(
            make_exchange(route=RouteSettings(retrieval_limit=9, similarity_threshold=0.9)),
            RECALL,
            chat("deploy?", **fields),
        )
        options = step.request.options
        assert step.request.scope == Scope("alice", "apollo")
        assert (options.limit, options.threshold) == (2, 0.3)
        assert options.types == frozenset({MemoryType.PROCEDURAL})

    @pytest.mark.parametrize(
        ("of_route", "of_request", "both"),
        [
            ("", "", ""),
            ("category=work", "", "category=work"),
            ("", "category=work", "category=work"),
            ("category=work", "metadata.team=core", "category=work,metadata.team=core"),
            ("category=work", "category=home", "category=work,category=home"),
            ("min_importance=0.7", "min_importance=0.2", "min_importance=0.7"),
            ("min_importance=0.2", "min_importance=0.7", "min_importance=0.7"),
        ],
    )
    def test_a_request_only_narrows_the_filter_of_its_route(
        self, make_exchange: MakeExchange, of_route: str, of_request: str, both: str
    ) -> None:
        route = route_settings({"x-memory-filter": of_route})
        fields = {"memory_config": {"filter": of_request}}
        step = recall_step(make_exchange(route=route), RECALL, chat("deploy?", **fields))
        assert step.request.options.memory_filter == parse_filter(both)

    @pytest.mark.parametrize("level", ["file", "route", "body"])
    def test_the_limit_is_bounded_wherever_it_is_set(self, make_exchange: MakeExchange, level: str) -> None:
        limit = 1_000_000
        memory: dict[str, Any] = {"recall": {"max_limit": 21}}
        memory |= {"default_retrieval_limit": limit} if level == "file" else {}
        route = RouteSettings(retrieval_limit=limit) if level == "route" else None
        fields = {"memory_config": {"retrieval_limit": limit}} if level == "body" else {}
        step = recall_step(make_exchange(memory, route=route), RECALL, chat("deploy?", **fields))
        assert step.request.options.limit == 21

    @pytest.mark.parametrize(("route", "asked", "limit"), [(None, None, 20), (9, None, 9), (9, 2, 2), (None, 21, 20)])
    @pytest.mark.parametrize("of_route", [True, False])
    def test_keywords_give_all_up_to_their_own_bound_unless_fewer_are_asked_for(
        self, make_exchange: MakeExchange, route: int | None, asked: int | None, limit: int, *, of_route: bool
    ) -> None:
        memory = {} if of_route else {"recall": {"strategy": "keywords"}}
        settings = RouteSettings(retrieval_limit=route, strategy="keywords" if of_route else None)
        fields = {"memory_config": {"retrieval_limit": asked}}
        step = recall_step(make_exchange(memory, route=settings), RECALL, chat("deploy?", **fields))
        assert step.request.options.limit == limit

    def test_a_verified_claim_wins_over_the_header(self, make_exchange: MakeExchange) -> None:
        config = {"identity": {"jwt_claim": "sub"}}
        metadata = {"envoy.filters.http.jwt_authn": {"payload": {"sub": "carol"}}}
        exchange = make_exchange(config)
        exchange.receive(replace(request_headers(RECALL), metadata=metadata))
        step = exchange.receive(body(chat("my budget?")))
        assert isinstance(step, NeedRecall)
        assert step.request.scope == Scope("carol")


@pytest.mark.parametrize(
    ("headers", "fields", "session"),
    [
        ((), {}, ""),
        ((("x-session-id", "s 1"),), {}, "s 1"),
        ((), {"conversation": "conv_1"}, "conv_1"),
        ((("x-session-id", "s1"),), {"conversation": {"id": "conv_1"}}, "s1"),
    ],
)
def test_recall_knows_what_the_client_calls_its_session(
    make_exchange: MakeExchange, headers: tuple[tuple[str, str], ...], fields: dict[str, Any], session: str
) -> None:
    exchange = make_exchange()
    exchange.receive(request_headers(RECALL, *headers, path="/v1/responses"))
    step = exchange.receive(body(orjson.dumps({"input": "my budget?", **fields})))
    assert isinstance(step, NeedRecall)
    assert step.request.options.session == session


ACME, OTHER_ORG = Scope("Acme", kind=OwnerKind.ORGANISATION), Scope("other", kind=OwnerKind.ORGANISATION)
BOT = Scope("bot", kind=OwnerKind.AGENT)


class TestOtherOwners:
    """The organisation and the agent of a request, and how much of their memories it may see."""

    def others(self, exchange: Exchange, *headers: tuple[str, str], **settings: Any) -> tuple[OtherOwner, ...] | Reason:
        exchange.receive(request_headers(RECALL, *headers))
        fields = {"memory_config": settings} if settings else {}
        step = exchange.receive(body(chat("my budget?", **fields)))
        if exchange.refusal is not None:
            return exchange.refusal
        assert isinstance(step, NeedRecall)
        return step.request.others

    def test_without_them_there_are_none(self, make_exchange: MakeExchange) -> None:
        assert self.others(make_exchange()) == ()

    def test_verified_headers_name_them(self, make_exchange: MakeExchange) -> None:
        headers = (("x-memory-org", "Acme"), ("x-memory-agent", "bot"))
        assert self.others(make_exchange(), *headers) == (OtherOwner(ACME, 3, 0.4), OtherOwner(BOT, 3, 0.4))

    def test_a_verified_claim_wins_over_the_header(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange({"identity": {"organisation_claim": "org"}})
        metadata = {"envoy.filters.http.jwt_authn": {"payload": {"org": "Acme"}}}
        exchange.receive(replace(request_headers(RECALL, ("x-memory-org", "other")), metadata=metadata))
        step = exchange.receive(body(chat("my budget?")))
        assert isinstance(step, NeedRecall)
        assert [other.scope for other in step.request.others] == [ACME]

    def test_a_route_names_them_where_the_request_does_not(self, make_exchange: MakeExchange) -> None:
        route = route_settings({"x-memory-org": "Acme", "x-memory-agent": "bot"})
        assert self.others(make_exchange(route=route)) == (OtherOwner(ACME, 3, 0.4), OtherOwner(BOT, 3, 0.4))
        named = self.others(make_exchange(route=route), ("x-memory-org", "other"))
        assert [other.scope for other in named] == [OTHER_ORG, BOT]  # type: ignore[union-attr]

    @pytest.mark.parametrize("value", ["", " ", "a\x00b", "x" * 300, "\ud800"])
    def test_an_id_that_cannot_be_one_is_refused(self, make_exchange: MakeExchange, value: str) -> None:
        assert self.others(make_exchange(), ("x-memory-org", value)) in (Reason.BAD_IDENTITY, ())
        assert self.others(make_exchange(), ("x-memory-org", "Acme"), ("x-memory-org", value)) is Reason.BAD_IDENTITY

    def test_a_route_says_how_much_and_a_request_only_less(self, make_exchange: MakeExchange) -> None:
        names = {"x-memory-org": "Acme", "x-memory-org-limit": "8", "x-memory-org-share": "0.8"}
        route = route_settings(names)
        assert self.others(make_exchange(route=route)) == (OtherOwner(ACME, 8, 0.8),)
        assert self.others(make_exchange(route=route), org_limit=99, org_share=1) == (OtherOwner(ACME, 8, 0.8),)
        assert self.others(make_exchange(route=route), org_limit=2, org_share=0.1) == (OtherOwner(ACME, 2, 0.1),)
        assert self.others(make_exchange(route=route), org_limit=0) == ()


class TestSeveralSpeakers:
    """The `name` of a message tells participants of the same role apart; the key is one user's."""

    @pytest.mark.parametrize(
        ("messages", "own"),
        [
            ((("alice", "A"), ("carol", "B")), ("A",)),
            ((("", "A"), ("carol", "B")), ("A",)),
            ((("Ally", "A"), ("carol", "B")), None),
            ((("Ally", "A"), ("Ally", "B")), ("A", "B")),
            ((("", "A"), ("", "B")), ("A", "B")),
        ],
    )
    def test_only_the_users_own_words_are_learned(
        self, make_exchange: MakeExchange, messages: tuple[tuple[str, str], ...], own: tuple[str, ...] | None
    ) -> None:
        exchange = make_exchange()
        recall_step(exchange, SINGLE, spoken(*messages))
        exchange.recalled(NOTHING)
        exchange.receive(response_headers())
        exchange.receive(answer("Nice."))
        turn = exchange.take_turn()
        assert (turn and turn.user_texts) == own

    @pytest.mark.parametrize(("last", "obeyed"), [("alice", True), ("carol", False)])
    def test_an_order_to_the_memory_is_the_users_alone(
        self, make_exchange: MakeExchange, last: str, obeyed: bool
    ) -> None:
        sent = spoken(("carol", "Hello"), ("alice", "Hi"), (last, "Forget my allergy"))
        assert recall_step(make_exchange(), RECALL, sent).request.retained is obeyed

    def test_who_spoke_before_counts(self, make_exchange: MakeExchange) -> None:
        sent = spoken(("", "A"), ("carol", "B"), answered=True)
        assert not recall_step(make_exchange(), RECALL, sent).request.retained


def spoken(*messages: tuple[str, str], answered: bool = False) -> bytes:
    """A chat request with named user messages, each but the last followed by an answer if they are answered."""
    said = [{"role": "user", "content": text} | ({"name": name} if name else {}) for name, text in messages]
    if answered:
        said = [each for message in said for each in (message, {"role": "assistant", "content": "Nice."})][:-1]
    return orjson.dumps({"model": "m", "messages": said})


class TestRetainFilter:
    def observe(self, exchange: Exchange, data: bytes, *events: Any) -> None:
        """Feed a request in two chunks, then the events of the answer; nothing may be answered."""
        middle = len(data) // 2
        steps = [
            exchange.receive(request_headers(RETAIN)),
            exchange.receive(RequestBody(data[:middle], end_of_stream=False)),
            exchange.receive(RequestBody(data[middle:], end_of_stream=True)),
            *(exchange.receive(event) for event in events),
        ]
        assert steps == [Silence()] * len(steps)

    def test_a_json_answer_becomes_a_turn(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        self.observe(exchange, chat("I live in Berlin"), response_headers(), answer("Nice."))
        assert exchange.finished
        turn = exchange.take_turn()
        assert turn is not None
        assert (turn.user_texts, turn.assistant_text) == (("I live in Berlin",), "Nice.")
        assert (turn.scope, turn.request_id, turn.observed_at) == (Scope("alice"), "req-1", NOW)
        assert turn.agent == ""
        assert exchange.take_turn() is None, "a turn is given out once"

    @pytest.mark.parametrize("protocol", [RETAIN, SINGLE])
    def test_a_turn_names_the_agent_that_it_came_from(self, make_exchange: MakeExchange, protocol: Any) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(protocol, ("x-memory-agent", "bot"), ("x-memory-org", "Acme")))
        exchange.receive(body(chat("Deploy it")))
        if protocol is SINGLE:
            exchange.recalled(NOTHING)
        exchange.receive(response_headers())
        exchange.receive(answer("Done."))
        turn = exchange.take_turn()
        assert turn is not None
        assert (turn.agent, turn.scope) == ("bot", Scope("alice"))

    def test_the_next_turn_finds_the_transcript_of_the_first(self, make_exchange: MakeExchange) -> None:
        first, second = make_exchange(), make_exchange()
        self.observe(first, chat("hi"), response_headers(), answer("Hello! "))
        self.observe(second, chat("hi", "Hello!", "and now?"), response_headers(), answer("Yes."))
        turn, following = first.take_turn(), second.take_turn()
        assert turn is not None
        assert following is not None
        assert turn.hints.history_hash == ""
        assert turn.transcript_hashes == (following.hints.history_hash,)

    @pytest.mark.parametrize("status", ["400", "413", "500", "503", "302"])
    def test_an_error_is_no_turn(self, make_exchange: MakeExchange, status: str) -> None:
        exchange = make_exchange()
        self.observe(exchange, chat("I live in Berlin"), response_headers(status))
        assert exchange.finished
        assert exchange.take_turn() is None

    def test_an_image_is_an_answer(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        recall_step(exchange, SINGLE, orjson.dumps({"input": "Draw my dog Rex."}), path="/v1/responses")
        exchange.recalled(NOTHING)
        exchange.receive(response_headers())
        output = [{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"}]
        data = {"id": "resp_1", "object": "response", "status": "completed", "output": output}
        exchange.receive(ResponseBody(orjson.dumps(data), end_of_stream=True))
        turn = exchange.take_turn()
        assert turn is not None
        assert (turn.user_texts, turn.complete) == (("Draw my dog Rex.",), True)

    def test_what_is_answered_in_the_background_is_a_turn_without_an_answer(self, make_exchange: MakeExchange) -> None:
        """The client fetches the answer by its id, and its next request may name it."""
        exchange = make_exchange()
        recall_step(
            exchange, SINGLE, orjson.dumps({"input": "I live in Oslo", "background": True}), path="/v1/responses"
        )
        exchange.recalled(NOTHING)
        exchange.receive(response_headers())
        data = {"id": "resp_1", "object": "response", "status": "queued", "background": True, "output": []}
        exchange.receive(ResponseBody(orjson.dumps(data), end_of_stream=True))
        turn = exchange.take_turn()
        assert turn is not None
        assert (turn.user_texts, turn.assistant_text, turn.complete) == (("I live in Oslo",), "", True)
        assert (turn.response_id, turn.items) == ("resp_1", None)

    def test_a_page_is_no_turn(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        self.observe(
            exchange, chat("x y"), response_headers("200", "text/html"), ResponseBody(b"<p>", end_of_stream=True)
        )
        assert exchange.take_turn() is None

    @pytest.mark.parametrize(
        ("delta", "is_turn"),
        [
            (b'{"content":"Half"}', True),
            (b'{"content":"Let me look.","tool_calls":[{"index":0,"id":"1","function":{"name":"look"}}]}', True),
            (b'{"role":"assistant","content":""}', False),
            (b'{"content":"<think>They live in"}', False),
            (b'{"tool_calls":[{"index":0,"id":"1","function":{"name":"look","arguments":"{"}}]}', False),
        ],
    )
    def test_a_stream_that_is_cut_is_a_turn_without_an_answer(
        self, make_exchange: MakeExchange, delta: bytes, is_turn: bool
    ) -> None:
        """Where it has begun: the user stopped reading, and has said all the same what they said."""
        exchange = make_exchange()
        frame = b'data: {"id":"c","choices":[{"index":0,"delta":%b}]}\n\n' % delta
        self.observe(
            exchange,
            chat("I live"),
            response_headers("200", "text/event-stream"),
            ResponseBody(frame, end_of_stream=False),
        )
        assert not exchange.finished
        turn = exchange.take_turn()
        assert (turn is not None) is is_turn
        if turn is not None:
            assert (turn.user_texts, turn.assistant_text) == (("I live",), "")
            assert (turn.complete, turn.looped) == (True, True)

    def test_a_conversation_goes_on_behind_a_cut_answer(self, make_exchange: MakeExchange) -> None:
        """By what the client has of its text."""
        cut, following = make_exchange(), make_exchange()
        frame = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n'
        headers = response_headers("200", "text/event-stream")
        self.observe(cut, chat("I live in Oslo"), headers, ResponseBody(frame, end_of_stream=False))
        self.observe(following, chat("I live in Oslo", "Half", "And Rex?"), response_headers(), answer("Rex."))
        turn, next_turn = cut.take_turn(), following.take_turn()
        assert turn is not None
        assert next_turn is not None
        assert turn.transcript_hashes == (next_turn.hints.history_hash,)

    def test_a_cut_answer_of_a_stored_chain_can_be_continued(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        data = orjson.dumps({"input": "I live in Oslo", "previous_response_id": "r0", "stream": True})
        recall_step(exchange, SINGLE, data, path="/v1/responses")
        exchange.recalled(NOTHING)
        exchange.receive(response_headers("200", "text/event-stream"))
        events = (
            b'data: {"type":"response.created","response":{"id":"r1","status":"in_progress"}}\n\n'
            b'data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Half"}\n\n'
        )
        exchange.receive(ResponseBody(events, end_of_stream=False))
        turn = exchange.take_turn()
        assert turn is not None
        assert (turn.user_texts, turn.complete, turn.assistant_text) == (("I live in Oslo",), True, "")
        assert (turn.hints.previous_response_id, turn.response_id) == ("r0", "r1")

    def test_a_stream_that_said_done_is_a_turn_even_without_an_end(self, make_exchange: MakeExchange) -> None:
        """A client that closes after [DONE] looks like a dying upstream."""
        exchange = make_exchange()
        frames = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Whole"}}]}\n\ndata: [DONE]\n\n'
        self.observe(
            exchange,
            chat("I live"),
            response_headers("200", "text/event-stream"),
            ResponseBody(frames, end_of_stream=False),
        )
        assert exchange.answered, "for a minute the proxy may not say that the client is gone"
        turn = exchange.take_turn()
        assert turn is not None
        assert turn.assistant_text == "Whole"

    def test_an_encoded_answer_is_decoded(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        packed = gzip.compress(answer("Packed").data)
        self.observe(
            exchange,
            chat("I live"),
            response_headers("200", "application/json", ("content-encoding", "gzip")),
            *(ResponseBody(bytes([byte]), end_of_stream=False) for byte in packed),
            ResponseBody(b"", end_of_stream=True),
        )
        turn = exchange.take_turn()
        assert turn is not None
        assert turn.assistant_text == "Packed"

    def test_an_answer_over_the_bound_is_no_turn(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange(max_answer_bytes=64)
        self.observe(exchange, chat("I live"), response_headers(), answer("x" * 100))
        assert exchange.take_turn() is None
        assert exchange.lost_answer == (Reason.ANSWER_TOO_LARGE, "")

    def test_a_stream_over_the_bound_is_no_turn(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange(max_answer_bytes=64)
        frame = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%b"}}]}\n\n' % (b"x" * 100)
        headers = response_headers("200", "text/event-stream")
        self.observe(exchange, chat("I live"), headers, ResponseBody(frame, end_of_stream=True))
        assert exchange.take_turn() is None
        assert exchange.lost_answer == (Reason.ANSWER_TOO_LARGE, "")

    def test_response_trailers_end_the_answer(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        whole = ResponseBody(answer("Fine.").data, end_of_stream=False)
        self.observe(exchange, chat("I live"), response_headers(), whole, ResponseTrailers())
        assert exchange.finished
        assert exchange.take_turn() is not None

    def test_a_request_that_ends_with_trailers_is_whole(self, make_exchange: MakeExchange) -> None:
        """The filter skips trailers, so no message says that the body has ended, but the answer that follows it."""
        exchange = make_exchange()
        exchange.receive(request_headers(RETAIN))
        exchange.receive(RequestBody(chat("I live in Berlin"), end_of_stream=False))
        assert exchange.receive(response_headers()) == Silence()
        assert exchange.receive(answer("Nice.")) == Silence()
        turn = exchange.take_turn()
        assert turn is not None
        assert turn.user_texts == ("I live in Berlin",)

    def test_an_answer_in_the_middle_of_the_request_is_no_turn(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(RETAIN))
        exchange.receive(RequestBody(chat("I live in Berlin")[:-5], end_of_stream=False))
        assert exchange.receive(response_headers()) == Silence()
        assert exchange.finished
        assert exchange.refusal is Reason.NOT_JSON
        assert exchange.take_turn() is None

    def test_without_auto_store_nothing_is_kept(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange({"auto_store": False})
        self.observe(exchange, chat("I live in Berlin"))
        assert exchange.finished
        assert exchange.take_turn() is None

    def test_an_early_answer_is_let_go(self, make_exchange: MakeExchange) -> None:
        """Envoy's own 413 comes before the request body ended."""
        exchange = make_exchange()
        exchange.receive(request_headers(RETAIN))
        assert exchange.receive(response_headers("413")) == Silence()
        assert exchange.refusal is Reason.EARLY_RESPONSE
        assert exchange.finished


class TestToolLoop:
    LOOP = (
        {"role": "user", "content": "What's the weather where I live?"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    )  # fmt: skip

    def test_the_loop_is_one_turn_with_the_final_answer(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(SINGLE))
        step = exchange.receive(body(orjson.dumps({"messages": self.LOOP})))
        assert isinstance(step, NeedRecall)
        assert step.request.continues_loop
        exchange.recalled(NOTHING)
        exchange.receive(response_headers())
        exchange.receive(answer("It is sunny."))
        turn = exchange.take_turn()
        assert turn is not None
        assert turn.user_texts == ("What's the weather where I live?",)
        assert [tool.name for tool in turn.tools] == ["weather"]

    def test_all_steps_carry_the_same_loop_key(self, make_exchange: MakeExchange) -> None:
        first = recall_step(make_exchange(), RECALL, orjson.dumps({"messages": self.LOOP[:1]}))
        later = recall_step(make_exchange(), RECALL, orjson.dumps({"messages": self.LOOP}))
        assert first.request.loop_key == later.request.loop_key != ""
        assert (first.request.continues_loop, later.request.continues_loop) == (False, True)

    @pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
    def test_all_steps_in_a_conversation_of_the_server_carry_its_key(
        self, make_exchange: MakeExchange, conversation: Any
    ) -> None:
        """The later ones hold a tool's result and nothing else."""
        keys = []
        for given in ("What's my budget?", [{"type": "function_call_output", "call_id": "c", "output": "sunny"}]):
            sent = orjson.dumps({"input": given, "conversation": conversation})
            keys.append(recall_step(make_exchange(), RECALL, sent, path="/v1/responses").request.loop_key)
        other = orjson.dumps({"input": "What's my budget?", "conversation": "conv_2"})
        keys.append(recall_step(make_exchange(), RECALL, other, path="/v1/responses").request.loop_key)
        assert keys[0] == keys[1] != keys[2]

    REPLY = ({"type": "function", "function": {"name": "reply", "parameters": {}}},)
    NAMED = ({"type": "function", "function": {"name": "reply"}},)

    def reply(self, exchange: Exchange, *messages: dict[str, Any], **fields: Any) -> Turn | None:
        """What becomes of a chat that is answered by a call."""
        recall_step(exchange, SINGLE, orjson.dumps({"messages": messages, **fields}))
        exchange.recalled(NOTHING)
        exchange.receive(response_headers())
        message = {"role": "assistant", "content": None, "tool_calls": [self.said(1)]}
        data = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        exchange.receive(ResponseBody(orjson.dumps(data), end_of_stream=True))
        return exchange.take_turn()

    def said(self, number: int) -> dict[str, Any]:
        function = {"name": "reply", "arguments": '{"answer":"Noted"}'}
        return {"id": f"c{number}", "type": "function", "function": function}

    @pytest.mark.parametrize("choice", ["required", *NAMED])
    def test_a_call_that_the_request_forces_is_the_answer(self, make_exchange: MakeExchange, choice: Any) -> None:
        """As clients do that want a structured answer; what they send of it later belongs to the turn before."""
        forced = {"tools": self.REPLY, "tool_choice": choice}
        first = self.reply(make_exchange(), {"role": "user", "content": "I moved to Graz."}, **forced)
        assert first is not None
        assert (first.user_texts, first.assistant_text, first.complete) == (
            ("I moved to Graz.",),
            '{"answer":"Noted"}',
            True,
        )
        second = self.reply(
            make_exchange(),
            {"role": "user", "content": "I moved to Graz."},
            {"role": "assistant", "content": None, "tool_calls": [self.said(1)]},
            {"role": "tool", "tool_call_id": "c1", "content": "Final result processed."},
            {"role": "user", "content": "I work as a nurse."},
            **forced,
        )
        assert second is not None
        assert second.user_texts == ("I work as a nurse.",)
        assert second.hints.history_hash in first.transcript_hashes

    @pytest.mark.parametrize(
        "fields",
        [
            {"tools": REPLY},
            {"tools": REPLY, "tool_choice": "auto"},
            {"tools": REPLY * 2, "tool_choice": "required"},
            {"tools": REPLY * 2, "tool_choice": NAMED[0]},
            {"tools": [{"type": "mcp"}], "tool_choice": "required"},
            {"tools": 7, "tool_choice": ["required"]},
        ],
    )
    def test_a_call_that_may_be_a_step_is_no_answer(self, make_exchange: MakeExchange, fields: dict[str, Any]) -> None:
        turn = self.reply(make_exchange(), {"role": "user", "content": "I moved to Graz."}, **fields)
        assert turn is not None
        assert (turn.user_texts, turn.assistant_text, turn.tools) == (("I moved to Graz.",), "", ())
        assert (turn.complete, turn.looped) == (True, True)

    def test_the_steps_between_the_first_and_the_last_are_no_turns(self, make_exchange: MakeExchange) -> None:
        assert self.reply(make_exchange(), *self.LOOP, tools=self.REPLY) is None

    def test_what_the_user_says_behind_calls_goes_on_from_them(self, make_exchange: MakeExchange) -> None:
        """As a client does whose every answer is a call."""
        said: list[dict[str, Any]] = []
        turns = []
        for number, text in enumerate(("I moved to Graz.", "I work as a nurse.", "I have a dog.")):
            said.append({"role": "user", "content": text})
            turns.append(self.reply(make_exchange(), *said, tools=self.REPLY))
            said.append({"role": "assistant", "content": None, "tool_calls": [self.said(number)]})
            said.append({"role": "tool", "tool_call_id": f"c{number}", "content": "Final result processed."})
        first, second, third = filter(None, turns)
        assert [turn.user_texts for turn in (first, second, third)] == [
            ("I moved to Graz.",),
            ("I work as a nurse.",),
            ("I have a dog.",),
        ]
        assert first.hints.history_hash == ""
        assert (second.hints.history_hash,) == first.transcript_hashes
        assert (third.hints.history_hash,) == second.transcript_hashes

    def test_a_text_behind_such_an_answer_is_continued_as_any_other(self, make_exchange: MakeExchange) -> None:
        def answered(*messages: dict[str, Any]) -> Turn:
            exchange = make_exchange()
            recall_step(exchange, SINGLE, orjson.dumps({"messages": messages}))
            exchange.recalled(NOTHING)
            exchange.receive(response_headers())
            exchange.receive(answer("Noted."))
            turn = exchange.take_turn()
            assert turn is not None
            return turn

        said: list[dict[str, Any]] = [*self.LOOP, {"role": "user", "content": "And I work as a nurse."}]
        second = answered(*said)
        assert (second.user_texts, second.tools) == (("And I work as a nurse.",), ())
        said += [{"role": "assistant", "content": "Noted."}, {"role": "user", "content": "I have a dog."}]
        assert answered(*said).hints.history_hash in second.transcript_hashes

    def test_a_forced_call_behind_a_loop_ends_it(self, make_exchange: MakeExchange) -> None:
        turn = self.reply(make_exchange(), *self.LOOP, tools=self.REPLY, tool_choice="required")
        assert turn is not None
        assert turn.user_texts == ("What's the weather where I live?",)
        assert [tool.name for tool in turn.tools] == ["weather"]

    @pytest.mark.parametrize(
        ("call", "tool"),
        [
            ({"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}, "weather"),
            ({"type": "mcp_approval_request", "id": "mcpr_1", "name": "book", "arguments": "{}"}, "book"),
            ({"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {}}, "tool_search"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_tool_call_in_a_stored_chain_is_kept_as_incomplete(
        self, make_exchange: MakeExchange, call: dict[str, Any], tool: str
    ) -> None:
        exchange = make_exchange()
        recall_step(exchange, SINGLE, orjson.dumps({"input": "weather where I live?"}), path="/v1/responses")
        exchange.recalled(NOTHING)
        exchange.receive(response_headers())
        data = {"id": "resp_1", "object": "response", "status": "completed", "output": [call]}
        exchange.receive(ResponseBody(orjson.dumps(data), end_of_stream=True))
        turn = exchange.take_turn()
        assert turn is not None
        assert turn.tools == (ToolUse(tool),)
        assert not turn.complete
        assert turn.user_texts == ("weather where I live?",)


class TestUnreadAnswers:
    @pytest.mark.parametrize("coding", ["compress", "dcz"])
    def test_an_unknown_encoding_is_told(self, make_exchange: MakeExchange, coding: str) -> None:
        exchange = make_exchange()
        recall_step(exchange, SINGLE, chat("I live in Berlin"))
        exchange.recalled(NOTHING)
        exchange.receive(response_headers("200", "application/json", ("content-encoding", coding)))
        assert exchange.refusal is Reason.ENCODED_ANSWER
        assert exchange.lost_answer == (Reason.ENCODED_ANSWER, coding)

    def test_what_is_logged_of_an_encoding_is_bounded(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        recall_step(exchange, SINGLE, chat("I live in Berlin"))
        exchange.recalled(NOTHING)
        exchange.receive(response_headers("200", "application/json", ("content-encoding", 'x\n"' + "y" * 1_000)))
        assert exchange.lost_answer == (Reason.ENCODED_ANSWER, "x??" + "y" * 29)

    @pytest.mark.parametrize("coding", ["gzip", "zstd"])
    def test_damaged_data_is_told(self, make_exchange: MakeExchange, coding: str) -> None:
        exchange = make_exchange()
        recall_step(exchange, SINGLE, chat("I live in Berlin"))
        exchange.recalled(NOTHING)
        exchange.receive(response_headers("200", "application/json", ("content-encoding", coding)))
        exchange.receive(answer("Nice."))
        assert exchange.take_turn() is None
        assert exchange.lost_answer == (Reason.DAMAGED_ANSWER, "")

    @pytest.mark.parametrize("headers", [("503", "application/json"), ("200", "text/html")])
    def test_what_is_no_answer_is_none_in_any_encoding(
        self, make_exchange: MakeExchange, headers: tuple[str, str]
    ) -> None:
        exchange = make_exchange()
        recall_step(exchange, SINGLE, chat("I live in Berlin"))
        exchange.recalled(NOTHING)
        exchange.receive(response_headers(*headers, ("content-encoding", "compress")))
        assert (exchange.refusal, exchange.lost_answer) == (Reason.NO_ANSWER, None)


class TestSingleFilter:
    @pytest.mark.parametrize("protocol", [SINGLE, OLD_ENVOY])
    def test_request_and_answer_in_one_stream(self, make_exchange: MakeExchange, protocol: Protocol) -> None:
        exchange = make_exchange()
        recall_step(exchange, protocol, chat("I live in Berlin"))
        assert isinstance(exchange.recalled(FOUND), ReplaceBody)
        assert not is_finished(exchange)
        assert exchange.receive(response_headers()) == Continue()
        assert exchange.receive(answer("Nice.")) == Continue()
        assert exchange.finished
        assert exchange.take_turn() is not None

    def test_leaves_after_the_request_when_nothing_is_to_be_kept(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange({"auto_store": False})
        recall_step(exchange, SINGLE, chat("I live in Berlin"))
        exchange.recalled(NOTHING)
        assert exchange.finished


class TestFullDuplex:
    """Envoy forwards only what we send, so everything is sent back, ours or not."""

    def test_the_body_is_held_until_it_is_whole(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        data = chat("What's my budget?")
        assert exchange.receive(request_headers(DUPLEX)) == Continue()
        assert exchange.receive(RequestBody(data[:9], end_of_stream=False)) == Silence()
        assert isinstance(exchange.receive(RequestBody(data[9:], end_of_stream=True)), NeedRecall)
        assert exchange.recalled(NOTHING) == StreamBody(data, end_of_stream=True)
        exchange.receive(response_headers())
        part = answer("Nice.").data
        assert exchange.receive(ResponseBody(part, end_of_stream=False)) == StreamBody(part, end_of_stream=False)
        assert exchange.receive(ResponseBody(b"", end_of_stream=True)) == StreamBody(b"", end_of_stream=True)
        assert exchange.take_turn() is not None

    def test_what_is_not_ours_is_echoed(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(DUPLEX, path="/v1/embeddings"))
        assert not exchange.finished
        assert exchange.receive(RequestBody(b"abc", end_of_stream=True)) == StreamBody(b"abc", end_of_stream=True)
        exchange.receive(response_headers())
        assert exchange.receive(ResponseBody(b"x", end_of_stream=True)) == StreamBody(b"x", end_of_stream=True)

    def test_a_body_over_the_bound_is_let_go_whole(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange(max_body_bytes=4)
        exchange.receive(request_headers(DUPLEX))
        assert exchange.receive(RequestBody(b"abc", end_of_stream=False)) == Silence()
        assert exchange.receive(RequestBody(b"def", end_of_stream=False)) == StreamBody(b"abcdef", end_of_stream=False)
        assert exchange.receive(RequestBody(b"g", end_of_stream=True)) == StreamBody(b"g", end_of_stream=True)

    def test_trailers_end_the_body(self, make_exchange: MakeExchange) -> None:
        exchange = make_exchange()
        exchange.receive(request_headers(DUPLEX))
        exchange.receive(RequestBody(chat("my budget?"), end_of_stream=False))
        assert isinstance(exchange.receive(RequestTrailers()), NeedRecall)
        assert exchange.recalled(NOTHING) == StreamBody(chat("my budget?"), end_of_stream=False)


def test_an_unknown_message_changes_nothing(make_exchange: MakeExchange) -> None:
    exchange = make_exchange()
    assert exchange.receive(UnknownEvent()) == Continue()
    recall_step(exchange, RECALL, chat("my budget?"))


def test_header_names_and_repeated_fields() -> None:
    headers = Headers([("X-A", "1"), ("x-a", "2")])
    assert headers.get("x-a") == "1"
    assert headers.all("x-a") == ("1", "2")
    assert headers.get("x-b") == ""
