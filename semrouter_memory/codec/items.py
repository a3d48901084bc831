"""Items of the Responses API by what may become of them when a conversation's beginning is left out. Pure.

Strategy: only items of a known kind are left out. Unknown items stay in any position, as system messages do.
"""

from typing import Any

from semrouter_memory.codec.responses_answer import CLIENT_CALLS
from semrouter_memory.codec.shape import holds_more, mapping, string

CALLS = CLIENT_CALLS
OUTPUTS = frozenset(f"{call}_output" for call in CLIENT_CALLS)
ATTACHED = frozenset(
    {
        "reasoning",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
    }
)
"""What belongs to the turn that it stands in: the server's own tools, approvals, reasoning."""

_KNOWN = CALLS | OUTPUTS | ATTACHED
_SPEAKERS = ("user", "assistant")


def is_context(item: Any) -> bool:
    """Whether an item belongs to no turn: a system or developer message, a compaction, and all that is not known."""
    kind = string(mapping(item).get("type", "message"))
    return mapping(item).get("role") not in _SPEAKERS if kind == "message" else kind not in _KNOWN


def holds_more_than_text(item: Any) -> bool:
    """Whether it is a message with an image, a file or sound in it, or a picture that was made."""
    found = mapping(item)
    kind = string(found.get("type", "message"))
    return kind == "image_generation_call" or (kind == "message" and holds_more(found.get("content")))
