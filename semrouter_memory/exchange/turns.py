"""What recall is asked for a request, and the turn that a finished exchange becomes. Pure functions."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from semrouter_memory.codec.base import Answer, ParsedRequest, history_hash, transcript_hash
from semrouter_memory.config import IdentityConfig
from semrouter_memory.exchange.events import Headers
from semrouter_memory.model import (
    Message,
    RecallOptions,
    RecallRequest,
    Role,
    Scope,
    SessionHints,
    Signals,
    Turn,
)

_LOOP_KEY_HISTORY = 2
"""Messages before the turn that tell two turns with the same words apart: the last exchange is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What the request headers said that a turn keeps."""

    request_id: str
    idempotency_key: str
    session: str
    received_at: datetime


def request_facts(headers: Headers, config: IdentityConfig, received_at: datetime) -> RequestFacts:
    return RequestFacts(
        request_id=headers.get("x-request-id"),
        idempotency_key=headers.get("idempotency-key"),
        session=headers.get(config.session_header),
        received_at=received_at,
    )


def recall_request(scope: Scope, parsed: ParsedRequest, options: RecallOptions, signals: Signals) -> RecallRequest:
    return RecallRequest(
        scope=scope,
        query=parsed.query,
        options=options,
        history=parsed.history,
        visible=parsed.visible,
        previous_response_id=parsed.previous_response_id,
        signals=signals,
        loop_key=_loop_key(parsed),
        continues_loop=parsed.in_tool_loop,
    )


def _loop_key(parsed: ParsedRequest) -> str:
    if parsed.conversation_id:
        # The steps of its loop repeat nothing; but a conversation is in one turn at a time.
        return hashlib.sha256(b"conversation\0" + parsed.conversation_id.encode("utf-8", "replace")).hexdigest()
    return transcript_hash((*parsed.history[-_LOOP_KEY_HISTORY:], *_user_messages(parsed)))


def turn_of(scope: Scope, facts: RequestFacts, parsed: ParsedRequest, answer: Answer) -> Turn | None:
    """The turn of an exchange that ended well, None when it is none.

    A cut answer is none. An answer of nothing but tool calls is not the turn's end: a chat request will repeat the
    conversation, so nothing is lost; in a stored chain of the Responses API nobody repeats the user's words, so they
    are kept as an incomplete turn.
    """
    if not answer.complete:
        return None
    chained = bool(parsed.previous_response_id or parsed.conversation_id)
    finished = bool(answer.text) and not answer.calls
    if not finished and not (answer.calls and answer.response_id and parsed.stored_by_server):
        return None
    if not parsed.turn_texts and not chained:
        return None
    return Turn(
        scope=scope,
        hints=SessionHints(
            explicit=facts.session,
            conversation_id=parsed.conversation_id,
            previous_response_id=parsed.previous_response_id,
            history_hash=history_hash(parsed.history),
        ),
        user_texts=parsed.turn_texts,
        assistant_text=answer.text if finished else "",
        observed_at=facts.received_at,
        request_id=facts.request_id,
        retry_of=facts.idempotency_key,
        response_id=answer.response_id,
        model=answer.model or parsed.model,
        # A chained request shows only a part of its conversation: the hash of that part would name another one.
        transcript_hashes=_transcripts(parsed, answer) if finished and not chained else (),
        tools=parsed.tools,
        complete=finished,
    )


def _transcripts(parsed: ParsedRequest, answer: Answer) -> tuple[str, ...]:
    """One hash per choice, since the client may go on from any of them."""
    conversation = (*parsed.history, *_user_messages(parsed))
    texts = dict.fromkeys(text for text in answer.texts if text)
    return tuple(transcript_hash((*conversation, Message(Role.ASSISTANT, text))) for text in texts)


def _user_messages(parsed: ParsedRequest) -> tuple[Message, ...]:
    return tuple(Message(Role.USER, text) for text in parsed.turn_texts)
