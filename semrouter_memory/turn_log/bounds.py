"""A turn within its bounds, and as bytes for the spool. Pure.

Strategy: texts are cut before anything is derived from them, in the same way on every replica, so that a repetition is
recognised wherever it arrives. A client's names may be anything of any length: a digest replaces a long one.
"""

import json
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from semrouter_memory.model import Scope, SessionHints, ToolUse, Turn
from semrouter_memory.turn_log.columns import (
    dump_items,
    micros,
    moment,
    pack,
    storable,
    storable_texts,
    storable_tools,
)

_MAX_NAME_CHARS = 512
_MAX_MODEL_CHARS = 128


@dataclass(frozen=True, slots=True)
class BoundedTurn:
    """A turn as it is accepted.

    Attributes:
        turn: without items.
        items: JSON.
        remember: the user asks to remember something.
        text_chars: length of the user's texts before they were cut: texts that differ only beyond the cut differ in it.
    """

    turn: Turn
    items: bytes | None
    remember: bool
    text_chars: int

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """What a repetition of the turn has in common with it."""
        return (*self.turn.user_texts, str(self.text_chars))


def bounded(turn: Turn, *, remember: bool, max_turn_chars: int) -> BoundedTurn:
    hints = turn.hints
    cut = replace(
        turn,
        hints=SessionHints(
            explicit=bounded_name(hints.explicit),
            conversation_id=bounded_name(hints.conversation_id),
            previous_response_id=bounded_name(hints.previous_response_id),
            history_hash=bounded_name(hints.history_hash),
        ),
        user_texts=tuple(storable_texts(turn.user_texts, max_turn_chars)),
        assistant_text=storable(turn.assistant_text, max_turn_chars),
        request_id=bounded_name(turn.request_id),
        retry_of=bounded_name(turn.retry_of),
        response_id=bounded_name(turn.response_id),
        model=storable(turn.model, _MAX_MODEL_CHARS),
        transcript_hashes=tuple(bounded_name(each) for each in turn.transcript_hashes),
        tools=tuple(storable_tools(turn.tools)),
        items=None,
    )
    return BoundedTurn(cut, dump_items(turn.items, max_turn_chars), remember, sum(map(len, turn.user_texts)))


def bounded_name(name: str) -> str:
    """A client's name of something: itself, or a digest of a long one."""
    if len(name) <= _MAX_NAME_CHARS:
        return name
    return "long:" + blake2b(pack(name), digest_size=32).hexdigest()


def dump(bound: BoundedTurn) -> bytes:
    """All of the turn but its scope."""
    turn, hints = bound.turn, bound.turn.hints
    values = {
        "names": [
            hints.explicit,
            hints.conversation_id,
            hints.previous_response_id,
            hints.history_hash,
            turn.request_id,
            turn.retry_of,
            turn.response_id,
        ],
        "texts": turn.user_texts,
        "text_chars": bound.text_chars,
        "answer": turn.assistant_text,
        "observed_at": micros(turn.observed_at),
        "model": turn.model,
        "transcripts": turn.transcript_hashes,
        "tools": [(tool.name, tool.outcome) for tool in turn.tools],
        "complete": turn.complete,
        "ends_session": turn.ends_session,
        "items": bound.items.decode() if bound.items is not None else None,
        "remember": bound.remember,
    }
    # Not orjson: names may hold lone surrogates.
    return json.dumps(values, separators=(",", ":")).encode()


def load(payload: bytes, scope: Scope) -> BoundedTurn:
    """The turn again.

    Raises:
        ValueError: it cannot be read; the message says nothing of it.
    """
    try:
        return _load(json.loads(payload), scope)
    except (ValueError, KeyError, TypeError):
        raise ValueError("a spooled turn cannot be read") from None


def _load(values: dict[str, Any], scope: Scope) -> BoundedTurn:
    explicit, conversation, previous, history, request, retry, response = values["names"]
    turn = Turn(
        scope=scope,
        hints=SessionHints(
            explicit=explicit, conversation_id=conversation, previous_response_id=previous, history_hash=history
        ),
        user_texts=tuple(values["texts"]),
        assistant_text=values["answer"],
        observed_at=moment(values["observed_at"]),
        request_id=request,
        retry_of=retry,
        response_id=response,
        model=values["model"],
        transcript_hashes=tuple(values["transcripts"]),
        tools=tuple(ToolUse(name, outcome) for name, outcome in values["tools"]),
        complete=values["complete"],
        ends_session=values["ends_session"],
    )
    items = values["items"]
    return BoundedTurn(turn, items.encode() if items is not None else None, values["remember"], values["text_chars"])
