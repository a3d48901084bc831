"""The recall request of a parsed body, and the turn of a finished exchange. Pure functions."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime

import orjson

from semrouter_memory.codec.base import (
    CALLS,
    Answer,
    Outline,
    ParsedRequest,
    continued_hash,
    transcript_hash,
    transcript_hashes,
)
from semrouter_memory.config import CompressionConfig, MemoryConfig
from semrouter_memory.exchange.events import Headers
from semrouter_memory.exchange.policy import ends_session
from semrouter_memory.model import (
    Json,
    Message,
    OtherOwner,
    RecallOptions,
    RecallRequest,
    Role,
    Scope,
    SessionHints,
    ShortenedResults,
    Signals,
    ToolUse,
    Turn,
)

MAX_ITEMS_BYTES = 256 * 1024
"""Of one turn's items; larger ones (images) are not stored, and their chain is never shortened."""

_LOOP_KEY_HISTORY = 2
"""Messages before the turn that tell two turns with the same words apart: the last exchange is enough."""


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """What every exchange of this process shares.

    Attributes:
        max_body_bytes: bound on a request body, also while it is collected from chunks.
        max_answer_bytes: bound on an answer, decoded.
    """

    memory: MemoryConfig
    max_body_bytes: int
    max_answer_bytes: int


@dataclass(frozen=True, slots=True)
class TurnSource:
    """A request whose exchange becomes a turn when it is answered.

    Attributes:
        asked: the turn as far as the request tells it; its items are what the request adds to a stored chain, None when they
            are not stored.
        parsed: the request without its body and without the conversation before this turn.
        history: transcript hash of that conversation.
    """

    asked: Turn
    parsed: ParsedRequest
    history: str


def recall_request(
    scope: Scope,
    parsed: ParsedRequest,
    options: RecallOptions,
    signals: Signals,
    *,
    session: str = "",
    has_place: bool = True,
    shortened: ShortenedResults | None = None,
    others: tuple[OtherOwner, ...] = (),
    retained: bool = False,
) -> RecallRequest:
    return RecallRequest(
        scope=scope,
        query=parsed.query,
        options=replace(options, session=session or parsed.conversation_id),
        history=parsed.history,
        unanswered=parsed.turn_texts[:-1],
        visible=parsed.visible,
        previous_response_id=parsed.previous_response_id,
        signals=signals,
        loop_key=_loop_key(parsed),
        continues_loop=parsed.in_tool_loop,
        model=parsed.model,
        has_place=has_place,
        shortened=shortened,
        others=others,
        retained=retained,
    )


def _loop_key(parsed: ParsedRequest) -> str:
    if parsed.conversation_id:
        # The steps of its loop repeat nothing; but a conversation is in one turn at a time.
        return hashlib.sha256(b"conversation\0" + parsed.conversation_id.encode("utf-8", "replace")).hexdigest()
    return transcript_hash((*parsed.history[-_LOOP_KEY_HISTORY:], *_user_messages(parsed)))


def may_be_compressed(parsed: ParsedRequest, items: tuple[Json, ...] | None, config: CompressionConfig) -> bool:
    """Whether it is worth looking at a request's conversation more closely.

    A `conversation` of the Responses API never is: what is in it is the server's own affair.

    Args:
        items: what the request adds to a stored chain.
    """
    if not config.enabled or parsed.conversation_id:
        return False
    if parsed.previous_response_id:
        return items is not None
    return sum(message.role is Role.ASSISTANT for message in parsed.history) >= config.min_turns


def compressible(request: RecallRequest, parsed: ParsedRequest, outline: Outline) -> RecallRequest:
    """The request with what compression needs to know of its conversation."""
    if parsed.previous_response_id:
        return replace(request, compressible=True, answers_calls=outline.answers_calls)
    hashes = transcript_hashes(parsed.history, [turn.messages for turn in outline.turns])
    turns = (replace(turn, transcript_hash=value) for turn, value in zip(outline.turns, hashes, strict=True))
    return replace(request, compressible=True, turns=tuple(turns))


def turn_source(
    scope: Scope,
    parsed: ParsedRequest,
    items: tuple[Json, ...] | None,
    config: MemoryConfig,
    *,
    headers: Headers,
    agent: str,
    at: datetime,
) -> TurnSource:
    """The parts of a request that are held until its answer has come; neither its body nor its conversation is.

    Items are held of stored chains only, and not of a request that brings earlier answers along: one that repeats its
    conversation each time would be stored again and again.
    """
    chained = parsed.stored_by_server and not parsed.conversation_id
    fresh = all(message.role is not Role.ASSISTANT for message in parsed.history)
    history = transcript_hash(parsed.history)
    asked = Turn(
        scope=scope,
        hints=SessionHints(
            explicit=headers.get(config.identity.session_header),
            conversation_id=parsed.conversation_id,
            previous_response_id=parsed.previous_response_id,
            history_hash=continued_hash(history, parsed.steps_before) if parsed.steps_before or not fresh else "",
        ),
        user_texts=parsed.said_by(scope.owner_id),
        assistant_text="",
        observed_at=at,
        request_id=headers.get("x-request-id"),
        retry_of=headers.get("idempotency-key"),
        model=parsed.model,
        tools=parsed.tools,
        agent=agent,
        ends_session=ends_session(headers, parsed.settings, config.identity, config.signals),
        items=items if chained and fresh else None,
    )
    return TurnSource(asked, replace(parsed, body=None, entries=(), history=(), visible=()), history)


def turn_of(source: TurnSource, answer: Answer) -> Turn | None:
    """The turn of an exchange, None when it is none.

    An answer that was cut, because the user stopped it or the server broke off, makes a turn without an answer: the user has
    said what they said, and a second attempt brings the answer. Cut before its first word, it is none, but where it is made in
    the background.

    A call that the request forces is the answer, and its arguments are the text. Any other answer of nothing but tool calls
    may be the turn's end or a step on the way, and nothing in it tells which. Where clients repeat the conversation, the first
    step of a loop is a turn without an answer, which the loop's end brings; the steps between are none. In a stored chain of
    the Responses API no request repeats the user's words, so they are stored as an incomplete turn.
    """
    asked, parsed = source.asked, source.parsed
    if parsed.forces_call and answer.arguments:
        answer = replace(answer, texts=(answer.text + answer.arguments,), calls=())
    if is_cut := not answer.complete:
        answer = replace(answer, calls=())
    chained = bool(parsed.previous_response_id or parsed.conversation_id)
    ends_turn = (bool(answer.text) or answer.depicts or answer.is_later) and not answer.calls
    if not ends_turn and not (answer.calls and _may_be_kept(parsed, answer)):
        return None
    if not asked.user_texts and (is_cut or not chained):
        return None
    kept_aside = not ends_turn and parsed.stored_by_server
    return replace(
        asked,
        assistant_text=answer.text if ends_turn and not is_cut else "",
        response_id=answer.response_id,
        model=answer.model or asked.model,
        # A chained request shows only a part of its conversation: the hash of that part would name another one.
        transcript_hashes=() if chained else _transcripts(source.history, parsed, answer if ends_turn else None),
        tools=(*asked.tools, *_called(answer)) if kept_aside else asked.tools,
        complete=not kept_aside,
        looped=not chained and (is_cut or (not parsed.stored_by_server and (bool(asked.tools) or not ends_turn))),
        items=_items(asked, answer),
    )


def _may_be_kept(parsed: ParsedRequest, answer: Answer) -> bool:
    """Whether an answer of calls makes a turn: in a stored chain each, elsewhere the first after what the user said."""
    if parsed.stored_by_server:
        return bool(answer.response_id)
    return not (parsed.in_tool_loop or parsed.previous_response_id or parsed.conversation_id)


def _called(answer: Answer) -> tuple[ToolUse, ...]:
    """The tools that a step calls. The step after it, in a stored chain, brings their results without their names."""
    return tuple(ToolUse(name) for name in answer.calls if name)


def _items(asked: Turn, answer: Answer) -> tuple[Json, ...] | None:
    if asked.items is None or answer.items is None:
        return None
    items = (*asked.items, *answer.items)
    try:
        return items if len(orjson.dumps(items)) <= MAX_ITEMS_BYTES else None
    except TypeError:
        # Nested deeper, or a number longer, than is written again, though it was read.
        return None


def _transcripts(history: str, parsed: ParsedRequest, answer: Answer | None) -> tuple[str, ...]:
    """One hash per choice, since the client may go on from any of them; the conversation before it is hashed once.

    A later request has a text's conversation without the calls on the way, and that of calls (None) with the steps before.
    """
    if answer is None:
        last = (Message(Role.USER, text) for text in parsed.last_texts)
        return (continued_hash(history, (*parsed.steps_before, *last, CALLS)),)
    asked = continued_hash(history, _user_messages(parsed))
    texts = dict.fromkeys(text for text in answer.texts if text)
    return tuple(continued_hash(asked, (Message(Role.ASSISTANT, text),)) for text in texts)


def _user_messages(parsed: ParsedRequest) -> tuple[Message, ...]:
    return tuple(Message(Role.USER, text) for text in parsed.turn_texts)
