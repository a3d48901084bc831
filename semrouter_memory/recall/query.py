"""What is looked for: the user's words, and for a vague question what the conversation was about."""

import re
from collections.abc import Sequence

from semrouter_memory.model import Message, Role
from semrouter_memory.recall.words import content_words

HISTORY_MESSAGES = 3
MAX_SHORT_CHARS = 20
_MAX_TERMS = 24
# A pasted document is not what a conversation is about; its beginning says enough.
_MAX_TERM_SOURCE_CHARS = 600

_FOLLOW_UP = re.compile(
    r"""
    \s*
    (?: (?:and|or|but|so|then|ok(?:ay)?|yes|yeah|no|nah)?[\s,.!]*
        (?: (?:what|how)\s+about\b
          | (?:and|or)\s+(?:that|this|those|these|it|the\s+other|another)\b
          | (?:that|this|the\s+other|the\s+same|the\s+first|the\s+second|the\s+last)\s+(?:one|thing)\b
          | how\s+(?:much|many|long|often)\s*(?:is|was|are|were)?\s*(?:it|that|this|they)?\s*[?.!]*\s*$
        )
      | (?:那|那么|还有|另外|另一个|然后|这个|那个|其他|其它)
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)


def is_vague(query: str) -> bool:
    """Whether the query refers to something that only the conversation names."""
    if _FOLLOW_UP.match(query):
        return True
    return len(query.strip()) <= MAX_SHORT_CHARS and not content_words(query)


def search_query(query: str, history: Sequence[Message], *, max_chars: int) -> str:
    """The text to search with.

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
