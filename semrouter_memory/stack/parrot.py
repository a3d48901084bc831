"""What the stand-in LLM says: the line of its context that has most words in common with the question."""

import re
from typing import Any

_WORD = re.compile(r"[^\W_]{3,}")
_BULLET = re.compile(r"^\s*(?:[-*]\s+|<memory[^>]*>)(?P<text>.+?)(?:</memory>)?\s*$", re.MULTILINE)
_QUESTION = re.compile(r"\?|^(?:what|how|who|where|when|which|suggest|recommend|tell|write)\b", re.IGNORECASE)


def answer_from_context(messages: list[Any]) -> str:
    """Answer the last user message from the bullet points that stand anywhere in the messages."""
    texts = [
        (message.get("role"), text_of(message.get("content"))) for message in messages if isinstance(message, dict)
    ]
    question = next((text for role, text in reversed(texts) if role == "user"), "")
    asked = question.split("\n")[0]
    if not _QUESTION.search(asked):
        return "Noted."
    known = [match["text"] for _, text in texts for match in _BULLET.finditer(text)]
    if not known:
        return "I do not know that: nothing in my context says so."
    words = _words(asked)
    best = max(known, key=lambda line: len(words & _words(line)))
    return f"As far as I know: {best}."


def text_of(content: Any) -> str:
    """The text of a message's content, string or parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return ""


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)}
