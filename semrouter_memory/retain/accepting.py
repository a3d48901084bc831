"""What of a turn may be written down. Pure."""

from dataclasses import replace

from semrouter_memory.codec.base import strip_block
from semrouter_memory.model import Turn
from semrouter_memory.retain.redact import redact

_MARGIN_CHARS = 4096
"""Read beyond the cut, so that a secret which the cut would halve is seen whole."""


def cleaned(turn: Turn, *, max_chars: int) -> Turn:
    """The turn without our injected block and without secrets, its texts cut to `max_chars` each."""
    return replace(
        turn,
        user_texts=tuple(_clean(text, max_chars) for text in turn.user_texts),
        assistant_text=_clean(turn.assistant_text, max_chars),
        tools=tuple(replace(tool, outcome=_clean(tool.outcome, max_chars)) for tool in turn.tools),
    )


def _clean(text: str, max_chars: int) -> str:
    return redact(strip_block(text)[: max_chars + _MARGIN_CHARS])[:max_chars]
