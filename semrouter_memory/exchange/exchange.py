"""One HTTP exchange, from request headers to the end of the answer, without any I/O.

Strategy: `receive` turns every event into exactly one step, and only `_move` changes the state. Whatever is not ours
(another path, no identity, a body we cannot read) ends in BYPASS, where everything is answered with "continue"; nothing
that a client or an upstream sends makes this class raise.

Three filters use it; Envoy's messages tell which one it is:
recall: request only, changes the body and is finished;  retain: sees copies of the whole exchange and answers nothing;
single: both in one stream.
"""

from datetime import datetime

from semrouter_memory.codec import codec_for
from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.base import Outline, ParsedRequest
from semrouter_memory.codec.edit import names_our_fields
from semrouter_memory.errors import BodyError
from semrouter_memory.exchange.answer import AnswerPipeline, open_answer, unknown_coding
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
)
from semrouter_memory.exchange.identity import Requester, requester_of, scope_of
from semrouter_memory.exchange.policy import RouteSettings, opted_out, other_owners, policy_for, signals
from semrouter_memory.exchange.replies import Continue, NeedRecall, ReplaceBody, Reply, Silence, Step, StreamBody
from semrouter_memory.exchange.states import State, StateTrigger, follow
from semrouter_memory.exchange.tool_results import shortened
from semrouter_memory.exchange.turns import (
    ExchangeSettings,
    TurnSource,
    compressible,
    may_be_compressed,
    recall_request,
    turn_of,
    turn_source,
)
from semrouter_memory.model import Compression, Position, Reason, RecallResult, Scope, Turn

_PIECE_BYTES = 64 * 1024
"""Chunks of a body are joined to pieces of about this size."""


class Exchange:
    """The state machine of one stream.

    Args:
        route: settings from the stream's gRPC metadata.
        received_at: when the stream was opened; the time of the turn.

    Attributes:
        body_bytes: how much of the request's body has come.
        refusal: why the exchange is not (or no longer) ours; None while it is.
        lost_answer: why an answer that came well cannot be read, and its content encoding if that is unknown; None: it can.
        unreadable: names of the settings, of the route and the body, that cannot be read.
    """

    def __init__(self, settings: ExchangeSettings, route: RouteSettings, received_at: datetime) -> None:
        self._settings = settings
        self._route = route
        self._received_at = received_at
        self._state = State.IDLE
        self._protocol = Protocol()
        self._headers = Headers([])
        self._codec: Codec | None = None
        self._requester = Requester("")
        self._chunks: list[bytes] = []
        self.body_bytes = 0
        self._body_ended = False
        self._position = Position.SYSTEM
        self._parsed: ParsedRequest | None = None
        self._outline = Outline()
        self._shortened: bytes | None = None
        self._source: TurnSource | None = None
        self._answer: AnswerPipeline | None = None
        self.refusal: Reason | None = None
        self.lost_answer: tuple[Reason, str] | None = None
        self.unreadable = route.unreadable

    # -- what the driver calls -----------------------------------------------------------------------------------------

    def receive(self, event: Event) -> Step:
        """Take the next event; exactly one step answers it."""
        match event:
            case RequestHeaders():
                return self._request_headers(event)
            case RequestBody():
                return self._request_body(event)
            case RequestTrailers():
                return self._request_trailers()
            case ResponseHeaders():
                return self._response_headers(event)
            case ResponseBody():
                return self._response_body(event)
            case ResponseTrailers() if self._state is State.ANSWER:
                self._move(StateTrigger.END)
        return self._go_on()

    def recalled(self, result: RecallResult) -> Reply:
        """Continue after `NeedRecall`: put the text into the body, and take out what it stands for."""
        self._request_answered()
        return self._release_body(result.text, result.compression)

    def abandon(self, event: Event | None = None) -> Reply:
        """After a failure of ours: the body goes on as it came, with what is held of it. Then leave the exchange.

        Args:
            event: what was received last and not answered.
        """
        if not self._duplex:
            return self._go_on()
        if isinstance(event, ResponseBody) and self._duplex_response:
            return StreamBody(event.data, event.end_of_stream)
        held = self._duplex_request and bool(self._chunks)
        return self._pass_on(b"", ended=self._body_ended) if held else Silence()

    def take_turn(self) -> Turn | None:
        """The turn, once; None before the answer has ended well, and ever after."""
        if self._answer is None or self._source is None:
            return None
        stream, self._answer = self._answer, None
        if stream.lost is not None:
            self.lost_answer = (stream.lost, "")
        answer = stream.finish()
        return turn_of(self._source, answer) if answer is not None else None

    @property
    def finished(self) -> bool:
        """Nothing more to do: returning from the RPC now makes Envoy go on without us."""
        if self._state is State.BYPASS:
            # In full duplex Envoy forwards only what we send, so we stay and echo.
            return not self._duplex
        return self._state is State.DONE

    @property
    def answered(self) -> bool:
        """The turn can be taken: nothing more comes, or the answer says so, though the body may go on.

        Clients may go away right behind the end of an answer, and Envoy keeps the observer's stream for a minute then.
        """
        return self.finished or (self.observing and self._answer is not None and self._answer.ended)

    @property
    def observing(self) -> bool:
        """Envoy shows copies and takes no answers."""
        return self._protocol.observing

    # -- request -------------------------------------------------------------------------------------------------------

    def _request_headers(self, event: RequestHeaders) -> Step:
        if self._state is not State.IDLE:
            # An exchange is opened once; what a second opening says must not change how held bytes are let go.
            return self._go_on()
        self._protocol = event.protocol
        self._headers = event.headers
        reason = self._why_not_ours(event)
        if reason is not None:
            self._refuse(reason)
        else:
            self._move(StateTrigger.ACCEPT)
        return self._go_on()

    def _why_not_ours(self, event: RequestHeaders) -> Reason | None:
        headers, identity = event.headers, self._settings.memory.identity
        self._codec = codec_for(headers.get(":path"))
        if self._codec is None:
            return Reason.UNKNOWN_PATH
        if (method := headers.get(":method")) != "POST" or event.end_of_stream:
            return Reason.NOT_JSON if method == "POST" else Reason.NOT_POST
        if headers.get("content-encoding").strip().lower() not in ("", "identity"):
            return Reason.ENCODED_BODY
        if event.protocol.request_body is BodyMode.STREAMED and not event.protocol.observing:
            # Each chunk would have to be let go before the body is whole.
            return Reason.UNSUITABLE_BODY_MODE
        requester = requester_of(headers, event.metadata, identity, self._route.owners)
        if isinstance(requester, Reason):
            return requester
        self._requester = requester
        return None

    def _request_body(self, event: RequestBody) -> Step:
        if self._state is not State.REQUEST:
            return self._pass_on(event.data, ended=event.end_of_stream)
        self._hold(event.data)
        if self.body_bytes > self._settings.max_body_bytes:
            return self._give_up(Reason.BODY_TOO_LARGE, ended=event.end_of_stream)
        if self._protocol.request_body is BodyMode.BUFFERED or event.end_of_stream:
            return self._body_complete(ended=event.end_of_stream)
        if self._protocol.observing or self._duplex_request:
            self._move(StateTrigger.CHUNK)
            return Silence()
        # BUFFERED_PARTIAL over its limit: the rest goes past us.
        return self._give_up(Reason.BODY_TOO_LARGE, ended=False)

    def _request_trailers(self) -> Step:
        if self._state is State.REQUEST:
            return self._body_complete(ended=False)
        return self._pass_on(b"", ended=False) if self._chunks else self._go_on()

    def _body_complete(self, *, ended: bool) -> Step:
        self._body_ended = ended
        self._move(StateTrigger.BODY_COMPLETE)
        try:
            self._parsed = parsed = self._required_codec.parse(self._collected())
        except BodyError:
            return self._unparsed(ended=ended)
        self.unreadable += parsed.settings.unreadable
        scope = scope_of(self._requester.user, parsed.settings, self._settings.memory.identity)
        if isinstance(scope, Reason):
            return self._go_without(scope)
        return self._decided(scope, parsed)

    def _unparsed(self, *, ended: bool) -> Step:
        """The body is not this API's. If it is a JSON object all the same, our fields are taken out."""
        original = self._collected()
        try:
            body = self._required_codec.rewrite(original, block="", position=self._position)
        except BodyError:
            return self._give_up(Reason.UNREAD_FIELDS if names_our_fields(original) else Reason.NOT_JSON, ended=ended)
        self._refuse(Reason.NOT_JSON)
        return Silence() if self._protocol.observing else self._send(body, changed=body is not original)

    def _decided(self, scope: Scope, parsed: ParsedRequest) -> Step:
        memory, compression = self._settings.memory, self._settings.memory.compression
        policy = policy_for(memory, self._route, parsed.settings, opted_out=opted_out(self._headers, memory.identity))
        self._position = policy.options.position
        if policy.refusal is not None:
            return self._go_without(policy.refusal)
        items = self._required_codec.items(parsed) if compression.enabled else None
        if policy.retain and self._handles_response:
            self._source = turn_source(
                scope, parsed, items, memory, headers=self._headers, agent=self._requester.agent, at=self._received_at
            )
        if self._protocol.observing:
            self._chunks.clear()
            self._parsed = None
            self._request_answered()
            return Silence()
        if found := shortened(self._required_codec, self._collected(), parsed, policy.options, compression):
            self._shortened, self._parsed = found.body, (parsed := found.parsed)
        request = recall_request(
            scope,
            parsed,
            policy.options,
            signals(self._headers, memory.signals),
            session=self._headers.get(memory.identity.session_header),
            has_place=self._required_codec.has_place(parsed, self._position),
            shortened=found.results if found else None,
            others=other_owners(self._requester.others, memory.recall, self._route, parsed.settings),
            retained=policy.retain and parsed.said_by(scope.owner_id)[-1:] == parsed.turn_texts[-1:],
        )
        if may_be_compressed(parsed, items, compression) and self._has_place_for_state(parsed):
            self._outline = self._required_codec.outline(parsed)
            request = compressible(request, parsed, self._outline)
        return NeedRecall(request)

    def _has_place_for_state(self, parsed: ParsedRequest) -> bool:
        position = Position.SYSTEM if parsed.previous_response_id else self._position
        return self._required_codec.has_place(parsed, position)

    def _request_answered(self) -> None:
        if self._handles_response and self._source is not None:
            self._move(StateTrigger.RECALLED)
        else:
            self._move(StateTrigger.REFUSE if self._duplex else StateTrigger.DETACHED)

    def _go_without(self, reason: Reason) -> Reply:
        """No memory for this request; our own fields are taken out all the same."""
        self._refuse(reason)
        return self._release_body("", None)

    def _pass_on(self, data: bytes, *, ended: bool) -> Reply:
        """What is not, or no longer, ours goes on as it came, behind what was held before an answer came early."""
        if not self._duplex_request:
            return self._go_on()
        self._chunks.append(data)
        self._body_ended = ended
        return self._send(self._collected(), changed=False)

    def _hold(self, data: bytes) -> None:
        """Keep a piece of the body. A client may send it byte by byte, and each piece of its own would take 50."""
        self.body_bytes += len(data)
        if self._chunks and len(self._chunks[-1]) < _PIECE_BYTES:
            self._chunks[-1] += data
        else:
            self._chunks.append(data)

    def _collected(self) -> bytes:
        """The body so far. What came in one piece, as most bodies do, is never copied."""
        body = b"".join(self._chunks)
        self._chunks = [body]
        return body

    def _give_up(self, reason: Reason, *, ended: bool) -> Reply:
        """The body is none that we can read: let it go as it came."""
        self._body_ended = ended
        self._refuse(reason)
        return self._send(self._collected(), changed=False)

    def _release_body(self, block: str, compression: Compression | None) -> Reply:
        parsed, self._parsed = self._parsed, None
        if self._protocol.observing:
            return Silence()
        original = self._collected()
        source, self._shortened = self._shortened or original, None
        leaving = self._outline.turns[: compression.dropped_turns] if compression else ()
        body = self._required_codec.rewrite(
            source,
            block=block,
            position=self._position,
            parsed=parsed,
            dropped=frozenset(place for turn in leaving for place in turn.places),
            items=compression.items if compression else None,
        )
        return self._send(body, changed=body is not original and body != original)

    def _send(self, body: bytes, *, changed: bool) -> Reply:
        self._chunks.clear()
        if self._duplex_request:
            return StreamBody(body, self._body_ended)
        return ReplaceBody(body) if changed else self._go_on()

    # -- response ------------------------------------------------------------------------------------------------------

    def _response_headers(self, event: ResponseHeaders) -> Step:
        if self._state is State.REQUEST and self._protocol.observing and self.body_bytes:
            # The request ended with trailers, which the shipped filter does not send.
            self._body_complete(ended=True)
        if self._state is State.IDLE:
            self._protocol = event.protocol
        if self._state is not State.RESPONSE:
            if self._state is not State.BYPASS:
                # An answer before we answered the request: a local reply.
                self._refuse(Reason.EARLY_RESPONSE)
            return self._go_on()
        opened = open_answer(self._required_codec, event.headers, max_bytes=self._settings.max_answer_bytes)
        if opened is Reason.ENCODED_ANSWER:
            self.lost_answer = (opened, unknown_coding(event.headers))
        if isinstance(opened, Reason) or event.end_of_stream:
            self._refuse(opened if isinstance(opened, Reason) else Reason.NO_ANSWER)
        else:
            self._answer = opened
            self._move(StateTrigger.ANSWERED)
        return self._go_on()

    def _response_body(self, event: ResponseBody) -> Step:
        if self._state is State.ANSWER:
            if self._answer is not None:
                self._answer.feed(event.data)
            self._move(StateTrigger.CHUNK)
            if event.end_of_stream:
                self._move(StateTrigger.END)
        return StreamBody(event.data, event.end_of_stream) if self._duplex_response else self._go_on()

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def _handles_response(self) -> bool:
        return self._protocol.observing or self._protocol.response_body is not BodyMode.NONE

    @property
    def _duplex_request(self) -> bool:
        return self._protocol.request_body is BodyMode.FULL_DUPLEX_STREAMED and not self._protocol.observing

    @property
    def _duplex_response(self) -> bool:
        return self._protocol.response_body is BodyMode.FULL_DUPLEX_STREAMED and not self._protocol.observing

    @property
    def _duplex(self) -> bool:
        return self._duplex_request or self._duplex_response

    @property
    def _required_codec(self) -> Codec:
        assert self._codec is not None, "headers come first"
        return self._codec

    def _refuse(self, reason: Reason) -> None:
        self.refusal = reason
        self._answer = None
        self._source = None
        self._move(StateTrigger.REFUSE)

    def _move(self, trigger: StateTrigger) -> None:
        self._state = follow(self._state, trigger)

    def _go_on(self) -> Reply:
        return Silence() if self._protocol.observing else Continue()
