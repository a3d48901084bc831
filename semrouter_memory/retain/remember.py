"""Explicit wishes to remember something."""

import re

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


_WORDS = re.compile(r"remember|mind|note|forget|save|memor|store|reference|record|next time|记|忘", re.IGNORECASE)
"""One of these is in every such wish."""


def may_ask(text: str) -> bool:
    """Whether it is worth looking closer; most texts are none."""
    return bool(_WORDS.search(text))


def wish(sentence: str) -> str:
    """What the user asks to have remembered, "" when they ask no such thing."""
    if sentence.rstrip().endswith(("?", "？")) and not _ASKS_POLITELY.match(sentence.strip()):
        return ""
    for pattern in (_ASKS, _ASKS_CHINESE, _FOR_REFERENCE):
        if found := pattern.match(sentence.strip()):
            return found.group("what").strip(" ?")
    return ""
