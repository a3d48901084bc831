"""How values become columns and back.

Strategy: whatever a client can choose is bounded and storable when it leaves this module. Texts lose what SQLite cannot
encode (lone surrogates); ids of users and projects must stay apart whatever they hold, so they are stored as bytes,
one to one.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import orjson

from semrouter_memory.model import LoggedTurn, Scope, ToolUse, joined

Row: TypeAlias = tuple[Any, ...]

LOGGED_TURN = "sequence, observed_at, model, rules_done, attempts, tools, user_texts, assistant_text"
"""The columns of table `turns` that `logged_turn` reads."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_TOOLS = 64
_MAX_TOOL_NAME_CHARS = 128
_MAX_OUTCOME_CHARS = 512


def micros(moment: datetime) -> int:
    """Microseconds since 1970, exact."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(value: int) -> datetime:
    return _EPOCH + value * _MICROSECOND


def pack(identifier: str) -> bytes:
    return identifier.encode("utf-8", "surrogatepass")


def unpack(identifier: bytes) -> str:
    return identifier.decode("utf-8", "surrogatepass")


def storable(text: str, max_chars: int) -> str:
    """The beginning of the text, with a question mark for what is no character."""
    text = text[:max_chars]
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def storable_texts(texts: Sequence[str], max_chars: int) -> list[str]:
    """One turn's messages, together at most `max_chars`: the last ones are kept, since they are what is asked."""
    kept: list[str] = []
    for text in reversed(texts):
        if not max_chars:
            break
        if text:
            kept.append(storable(text, max_chars))
            max_chars -= len(kept[-1])
    return kept[::-1]


def storable_tools(tools: Sequence[ToolUse]) -> list[ToolUse]:
    return [
        ToolUse(storable(tool.name, _MAX_TOOL_NAME_CHARS), storable(tool.outcome, _MAX_OUTCOME_CHARS))
        for tool in tools[-_MAX_TOOLS:]
    ]


def dump_texts(texts: Sequence[str]) -> bytes:
    return orjson.dumps(texts)


def load_texts(value: bytes) -> list[str]:
    texts: list[str] = orjson.loads(value)
    return texts


def dump_tools(tools: Sequence[ToolUse]) -> bytes:
    return orjson.dumps([(tool.name, tool.outcome) for tool in tools])


def load_tools(value: bytes) -> list[ToolUse]:
    return [ToolUse(name, outcome) for name, outcome in orjson.loads(value)]


def logged_turn(row: Row, turn_id: str, scope: Scope, session_id: str) -> LoggedTurn:
    sequence, observed_at, model, rules_done, attempts, tools, user_texts, assistant_text = row
    return LoggedTurn(
        id=turn_id,
        sequence=sequence,
        scope=scope,
        session_id=session_id,
        user_text=joined(load_texts(user_texts)),
        assistant_text=assistant_text,
        observed_at=moment(observed_at),
        model=model,
        tools=tuple(load_tools(tools)),
        rules_done=bool(rules_done),
        attempts=attempts,
    )
