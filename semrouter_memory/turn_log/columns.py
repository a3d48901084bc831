"""How values become columns and back.

Strategy: whatever a client can choose is bounded and storable when it leaves this module. Texts lose what SQLite cannot
encode (lone surrogates); ids of users and projects must stay apart whatever they hold, so they are stored as bytes,
one to one.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import orjson

from semrouter_memory.model import Json, ToolUse

Row: TypeAlias = tuple[Any, ...]

MAX_SESSION_ID_CHARS = 128

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_TOOLS = 64
_MAX_TOOL_NAME_CHARS = 128
_MAX_OUTCOME_CHARS = 512
_MAX_TRANSCRIPTS = 32
_MAX_TRANSCRIPT_CHARS = 128
_ITEMS_PER_TEXT = 4
"""Items hold both sides of a turn and what its tools returned; a text is bounded to one of these parts."""


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
    """One turn's messages, together at most `max_chars`: the first ones are dropped, since the last ones are what is asked."""
    last: list[str] = []
    for text in reversed(texts):
        if not max_chars:
            break
        if text:
            last.append(storable(text, max_chars))
            max_chars -= len(last[-1])
    return last[::-1]


def storable_tools(tools: Sequence[ToolUse]) -> list[ToolUse]:
    return [
        ToolUse(storable(tool.name, _MAX_TOOL_NAME_CHARS), storable(tool.outcome, _MAX_OUTCOME_CHARS))
        for tool in tools[-_MAX_TOOLS:]
    ]


def bounded_transcripts(hashes: Sequence[str]) -> tuple[str, ...]:
    """The last ones; what is no hash of this program is left out."""
    found = [each for each in dict.fromkeys(hashes) if each.isascii() and 0 < len(each) <= _MAX_TRANSCRIPT_CHARS]
    return tuple(found[-_MAX_TRANSCRIPTS:])


def dump_items(items: Sequence[Json] | None, max_text_chars: int) -> bytes | None:
    """None where they are not known, too long together, or no JSON that can be stored.

    Args:
        max_text_chars: the bound on one of a turn's texts.
    """
    if items is None:
        return None
    try:
        value = orjson.dumps(items)
    except TypeError:
        return None
    return value if len(value) <= _ITEMS_PER_TEXT * max_text_chars else None


def load_items(value: bytes | None) -> tuple[Json, ...] | None:
    return None if value is None else tuple(orjson.loads(value))
