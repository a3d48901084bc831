"""What is looked for: the user's words, and for a vague question what the conversation was about. Pure."""

import re
from collections.abc import Sequence

from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.third_person import is_personal
from semrouter_memory.language.words import content_words
from semrouter_memory.model import Message, Role

HISTORY_MESSAGES = 3
MAX_SHORT_CHARS = 20
_MAX_TERMS = 24
_CONTEXT_MESSAGES = 2
# A pasted document is not what a conversation is about; its beginning says enough.
_MAX_TERM_SOURCE_CHARS = 600

# Begins as something that was already being talked about goes on.
_FOLLOW_UP = re.compile(
    r"\s*+(?:(?:ok(?:ay)?|yes|yeah|yea|yep|no|nah|right|so|then)?[\s,.!]*+(?:and|or|what\s+about|how\s+about)\b|那|还有|另外|另一|其他|其它)",
    re.IGNORECASE,
)
# Names something by pointing at it.
_POINTER = re.compile(
    r"\b(?:it|this|that|these|those|one|ones|he|she|they|him|her|his|hers|them|their|theirs|there|same|other)\b"
    r"|[他她它]|[这那][个些次种样里]|另一个",
    re.IGNORECASE,
)
_MOST_POINTING_CONTENT = 3
"""A query with more content words than this says enough, whatever it points at."""


def is_vague(query: str) -> bool:
    """Whether the query may refer to something that only the conversation names.

    A short question about the user's own ("What's my budget?") is not vague: what was talked about before would only
    lead away from it.
    """
    if _FOLLOW_UP.match(query):
        return True
    content = content_words(query)
    if not content or (len(content) <= _MOST_POINTING_CONTENT and _POINTER.search(query)):
        return True
    return _is_short(query) and not is_personal(query)


def _is_short(query: str) -> bool:
    """A Chinese character says about as much as three letters."""
    text = query.strip()
    return len(text) + 2 * len(CJK.findall(text)) <= MAX_SHORT_CHARS


def search_text(query: str, history: Sequence[Message], *, max_chars: int) -> str:
    """The text whose meaning is searched for: of a vague question, with the two messages before it.

    Further back where the last user message is vague as well, for then the two do not say what it is about.

    Args:
        query: the last user message.
        history: the conversation before it, oldest first.
        max_chars: bound on the result; the query's own words come last and stay.
    """
    query = " ".join(query[:max_chars].split())
    if not (history and is_vague(query)):
        return query
    before = " ".join(" ".join(message.text[:_MAX_TERM_SOURCE_CHARS].split()) for message in _context(history))
    room = max_chars - len(query) - 1
    return f"{before[-room:]} {query}" if before and room > 0 else query


def _context(history: Sequence[Message]) -> Sequence[Message]:
    """The last messages from the one that says what they are about, two at least."""
    asked = [at for at, message in enumerate(history) if message.role is Role.USER][-HISTORY_MESSAGES:]
    said = next((at for at in reversed(asked) if not is_vague(history[at].text)), len(history))
    return history[max(min(said, len(history) - _CONTEXT_MESSAGES), 0) :]


def search_query(query: str, history: Sequence[Message], *, max_chars: int) -> str:
    """The text whose words are searched for: of a vague question, with the key terms of what was asked before.

    Args:
        query: the last user message.
        history: the conversation before it, oldest first.
        max_chars: bound on the result; the query's own words come first.
    """
    query = " ".join(query[:max_chars].split())
    if is_vague(query) and (terms := key_terms(history)):
        query = f"{query} {' '.join(terms)}"
    return query[:max_chars]


def key_terms(history: Sequence[Message]) -> list[str]:
    """What the last user messages were about: their content words in order, each once, the latest kept when many."""
    asked = [message.text for message in history if message.role is Role.USER][-HISTORY_MESSAGES:]
    terms = [word for text in asked for word in content_words(text[:_MAX_TERM_SOURCE_CHARS])]
    return list(dict.fromkeys(terms))[-_MAX_TERMS:]
