"""Reads parsed JSON of unknown shape: a value of another type counts as absent."""

from typing import Any

# Tuples: a hostile type may be a list, which no set can look up.
_TEXTS = ("text", "input_text", "output_text")
_WORDS = (*_TEXTS, "refusal", "reasoning_text", "summary_text")


def string(value: Any) -> str:
    """The value if it is a string, else ""."""
    return value if isinstance(value, str) else ""


def mapping(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; none if it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def index(value: Any) -> int:
    """The value if it is an integer, else 0: who leaves an index out has one element."""
    return value if isinstance(value, int) else 0


def text_of(content: Any, *, joint: str = "\n") -> str:
    """The text of a message's content: a string, or the text parts of a list. Refusals and media are no text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    return joint.join(text for part in content if (text := _text_of_part(part)))


def _text_of_part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and part.get("type") in _TEXTS:
        return string(part.get("text"))
    return ""


def holds_more(content: Any) -> bool:
    """Whether a message's content holds more than its text: an image, a file, sound, or an unknown part.

    A refusal is only the absence of an answer.
    """
    if isinstance(content, list):
        return any(not isinstance(part, str) and mapping(part).get("type") not in _WORDS for part in content)
    return content is not None and not isinstance(content, str)
