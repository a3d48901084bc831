"""Explicit wishes to remember something. Pure."""

import re
from collections.abc import Sequence

from semrouter_memory.language.own_text import own_text
from semrouter_memory.language.question_form import QUESTION_MARKS
from semrouter_memory.language.sentences import sentences

_ASKS = re.compile(
    r"^(?:(?:ok|okay|oh|also|and|so|hey|hi|btw|yes|no|thanks|great)[\s,.!]+)*(?:please\s+|pls\s+|plz\s+|can you\s+|could you\s+|you (?:should|must|can)\s+|i(?:'d like| want| need) you to\s+)*"
    r"(?:also\s+)?(?:remember|keep in mind|bear in mind|make a note|take note|note|don't forget|do not forget|never forget|save|memori[sz]e|store)"
    r"(?:\s+(?:this|to memory|in memory|for (?:later|next time|the future|future reference)|please))*"
    r"\s*(?::|,|\bthat\b|(?=\b(?:my|our|I|I'm|I've|we|we're|the|to always|to never|never|always)\b))\s*:?\s*(?P<what>\S.*)$",
    re.IGNORECASE,
)
_ASKS_CHINESE = re.compile(
    r"^(?:请|麻烦|你?要|帮我)*(?:记住|记得|记一下|记下来?|别忘了?|不要忘记)(?:一下|哦|了)?[，,：:\s]*(?P<what>\S.*)$"
)
_ASKS_POLITELY = re.compile(
    r"^(?:can|could|will|would) you (?:please )?(?:remember|note|keep in mind) that\b", re.IGNORECASE
)
_FOR_REFERENCE = re.compile(
    r"^(?:for (?:future reference|the record|next time|your memory))\s*[,:]\s*(?P<what>\S.*)$", re.IGNORECASE
)
_ANNOUNCES = re.compile(
    r"^(?:please\s+|pls\s+)?(?:remember|keep in mind|bear in mind|make a note|take note|note|don't forget|do not forget|save|memori[sz]e|store)"
    r"(?: (?:this|these|the following|it|that|please|for (?:later|next time|the future)|(?:some|a few|these) (?:things|facts)(?: about (?:me|us))?))*\s*[:：]\s*$"
    r"|^(?:for (?:future reference|the record|next time|your memory))\s*:\s*$|^(?:请|麻烦)?(?:记住|记得|记一下|记下来?|别忘了?)(?:这些?|以下|下面)?[^，。]{0,4}[：:]\s*$",
    re.IGNORECASE,
)
_WORDS = re.compile(r"remember|mind|note|forget|save|memor|store|reference|record|next time|记|忘", re.IGNORECASE)
"""One of these is in every such wish."""


def asks_to_remember(message: str) -> bool:
    """Whether the user, in their own words, asks to have something remembered."""
    return bool(_WORDS.search(message)) and any(wished(sentences(own_text(message))))


def wished(pieces: Sequence[str]) -> list[bool]:
    """Which sentences of a message the user asks to have remembered.

    Those that ask it, and all that follow an announcement ("remember:") up to an empty line or a question.
    """
    found: list[bool] = []
    announced = False
    for piece in pieces:
        opens = bool(_ANNOUNCES.match(piece.strip()))
        announced = opens or (announced and not piece.rstrip().endswith(QUESTION_MARKS))
        found.append(announced or bool(wish(piece)))
        announced = announced and "\n\n" not in piece
    return found


def wish(sentence: str) -> str:
    """What the user asks to have remembered, "" when they ask no such thing."""
    if not _WORDS.search(sentence) or (
        sentence.rstrip().endswith(QUESTION_MARKS) and not _ASKS_POLITELY.match(sentence.strip())
    ):
        return ""
    for pattern in (_ASKS, _ASKS_CHINESE, _FOR_REFERENCE):
        if found := pattern.match(sentence.strip()):
            return found.group("what").strip(" ?")
    return ""
