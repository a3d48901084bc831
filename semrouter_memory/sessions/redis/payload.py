"""A turn as bytes for the spool, and back.

Strategy: bounded and cut before it is written, in the same way on every replica, so that a repetition is recognised
wherever it is shipped. What a client calls things may be anything of any length: beyond a bound a digest stands for it.
"""

import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from semrouter_memory.model import Scope, SessionHints, ToolUse, Turn
from semrouter_memory.sessions.columns import (
    dump_items,
    load_items,
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
class Spooled:
    """A turn that waits to be shipped.

    Attributes:
        said_chars: length of the user's texts before they were cut: texts that differ only beyond the cut differ in it.
    """

    turn: Turn
    remember: bool
    said_chars: int

    @property
    def said(self) -> tuple[str, ...]:
        """What a repetition says too."""
        return (*self.turn.user_texts, str(self.said_chars))


def dump(turn: Turn, *, remember: bool, max_turn_chars: int) -> bytes:
    """All of the turn but its scope."""
    hints = turn.hints
    names = (
        hints.explicit,
        hints.conversation_id,
        hints.previous_response_id,
        hints.history_hash,
        turn.request_id,
        turn.retry_of,
        turn.response_id,
    )
    items = dump_items(turn.items, max_turn_chars)
    values = {
        "names": [bounded(name) for name in names],
        "texts": storable_texts(turn.user_texts, max_turn_chars),
        "said_chars": sum(map(len, turn.user_texts)),
        "answer": storable(turn.assistant_text, max_turn_chars),
        "observed_at": micros(turn.observed_at),
        "model": storable(turn.model, _MAX_MODEL_CHARS),
        "transcripts": [bounded(value) for value in turn.transcript_hashes],
        "tools": [(tool.name, tool.outcome) for tool in storable_tools(turn.tools)],
        "complete": turn.complete,
        "ends_session": turn.ends_session,
        "items": items.decode() if items is not None else None,
        "remember": remember,
    }
    # Not orjson: names may hold what is no character.
    return json.dumps(values, separators=(",", ":")).encode()


def load(payload: bytes, scope: Scope) -> Spooled:
    """The turn again.

    Raises:
        ValueError: it cannot be read; the message says nothing of it.
    """
    try:
        return _load(json.loads(payload), scope)
    except (ValueError, KeyError, TypeError):
        raise ValueError("a spooled turn cannot be read") from None


def _load(values: dict[str, Any], scope: Scope) -> Spooled:
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
        items=load_items(values["items"].encode() if values["items"] is not None else None),
    )
    return Spooled(turn, values["remember"], values["said_chars"])


def bounded(name: str) -> str:
    """What stands for a client's name of something: itself, or a digest of a long one."""
    if len(name) <= _MAX_NAME_CHARS:
        return name
    return "long:" + blake2b(pack(name), digest_size=32).hexdigest()
