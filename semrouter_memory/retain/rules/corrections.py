"""One-word corrections: "sorry, may 4th" after "my exam is on may 3rd".

Strategy: a correction is a value alone, led in by a word that takes something back. It replaces the only value of its
kind in what was stated last; where that has none or several of them, nothing is guessed.
"""

import re

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]*"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_KINDS = tuple(
    re.compile(rf"(?<![\w.,:])(?:{pattern})(?![\w:]|[.,]\d)", re.IGNORECASE)
    for pattern in (
        rf"(?:the )?{_DAY}(?: of)? {_MONTH}\b|{_MONTH} (?:the )?{_DAY}",
        r"the \d{1,2}(?:st|nd|rd|th)",
        r"(?:mon|tues|wednes|thurs|fri|satur|sun)days?",
        r"\d{1,2}(?::\d\d)?\s?(?:am|pm)|\d{1,2}:\d\d",
        r"[€$£]\s?\d[\d.,]*k?|\d[\d.,]*\s?(?:k|€|euros?|dollars?|pounds?|quid|bucks)",
    )
)
_CORRECTS = re.compile(
    r"^(?:(?:oh|ah|no|ok|wait|sorry|oops|ups|correction|actually|my bad|my mistake|typo|i mean|i meant|it is|make (?:that|it)|that is|not that)\b[\s,.:;!–—-]*)+(?P<value>[^,;!?]{2,30})$",
    re.IGNORECASE,
)
_TAKES_BACK = re.compile(
    r"\b(?:no|wait|sorry|oops|ups|correction|actually|my bad|mistake|typo|i mean|i meant|make (?:that|it))\b",
    re.IGNORECASE,
)


def tied(content: str) -> bool:
    """Whether a statement has a value that may be corrected."""
    return any(pattern.search(content) for pattern in _KINDS)


def corrected(sentence: str, stated: str) -> str:
    """What was stated last with the value that the sentence puts in its place; "" when it corrects nothing.

    Args:
        sentence: contractions written out.
        stated: the statement before, in the third person; "" when there is none.
    """
    found = _CORRECTS.match(sentence.strip(" .!"))
    if not stated or not found or not _TAKES_BACK.search(sentence[: found.start("value")]):
        return ""
    value = found.group("value").strip(" .")
    value = re.sub(r"^(?:on|at|by|in)\s", "", value, flags=re.IGNORECASE)
    for pattern in _KINDS:
        if pattern.fullmatch(value):
            spans = list(pattern.finditer(stated))
            return f"{stated[: spans[0].start()]}{value}{stated[spans[0].end() :]}" if len(spans) == 1 else ""
    return ""
