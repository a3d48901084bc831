"""What of a turn may be written down. Pure."""

from collections.abc import Iterator
from dataclasses import replace

from semrouter_memory.codec.base import strip_block
from semrouter_memory.model import Json, Turn
from semrouter_memory.retain.redact import redact

_MARGIN_CHARS = 4096
"""Read beyond the cut, so that a secret which the cut would halve is seen whole."""
_NAMES = frozenset({"id", "call_id", "encrypted_content"})
"""Random by nature; long ones would be taken for keys."""


def cleaned(turn: Turn, *, max_chars: int) -> Turn:
    """The turn without our injected block and without secrets, its texts cut to `max_chars` each."""
    return replace(
        turn,
        user_texts=tuple(_clean(text, max_chars) for text in turn.user_texts),
        assistant_text=_clean(turn.assistant_text, max_chars),
        tools=tuple(replace(tool, outcome=_clean(tool.outcome, max_chars)) for tool in turn.tools),
        # Kept whole or not at all: a chain that is rebuilt must say what was said.
        items=turn.items if all(redact(text) == text for text in _texts(turn.items)) else None,
    )


def _texts(value: Json) -> Iterator[str]:
    """Every text in items, but for what names or seals them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in _NAMES:
                yield from _texts(item)


def _clean(text: str, max_chars: int) -> str:
    return redact(strip_block(text)[: max_chars + _MARGIN_CHARS])[:max_chars]
