"""The write gate: of what an extractor hands over, only what the user said about themselves passes. Pure.

Strategy. A model that reads a conversation also reads what was pasted into it, what tools returned and what the assistant
said, and may take any of it for a fact, or obey an order in it. So a model's candidate is held against the user's own
words in the batch and its context (`spoken`): every number and name in it must occur there, and most of its other
words. What the assistant suggested passes once the user has taken it up in words of their own. In doubt nothing passes:
what is lost is said again, what is planted stays.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from semrouter_memory.language.sentences import sentences
from semrouter_memory.model import Candidate, LoggedTurn
from semrouter_memory.retain import unfit
from semrouter_memory.retain.spoken import spoken
from semrouter_memory.retain.wordlist import words

NUMBER = "number_not_said"
NAME = "name_not_said"
WORDS = "words_not_said"

_SUPPORT = 0.5
"""At least this part of a candidate's words must be the user's; the rest is how a model puts it."""
_SUPPORT_WITHOUT_USER = 0.8
"""The same of a candidate that does not speak of the user at all (a how-to, somebody close to them)."""
_STEM = 5
"""Words count as the same by so many first letters: "diagnosed", "diagnosis"."""

_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_THOUSANDS = re.compile(r"(\d+(?:\.\d+)?)\s?k\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_NAME = re.compile(r"(?<![.!?:]\s)(?<=[\s(\"'“/-])[A-ZÀ-ÖØ-Þ][\w'’.&+-]*")
_ABOUT_USER = re.compile(r"\busers?\b|用户|\bthe user's\b", re.IGNORECASE)
_SPELLED = {word: str(number) for number, word in enumerate(("zero", "one", "two", "three", "four", "five", "six"))} | {
    word: str(number) for number, word in enumerate(("seven", "eight", "nine", "ten", "eleven", "twelve"), start=7)
}
_TELLING = words(
    "user users the a an is are was were has have had be been being does do did not no never and or but of in on at to for"
    " with from by as about into over under than then that this these those it its they their them he she his her who"
    " which what when where while will would can could should may might must also now currently recently very more most"
    " prefers preference likes wants plans planning needs uses using lives works named called located assistant answers"
    " responses there if because so such each every only s t said says states mentioned asked looking interested going"
)
"""Words that a model tells a fact with, whatever the fact is."""
_CALENDAR = words(
    "january february march april may june july august september october november december monday tuesday wednesday"
    " thursday friday saturday sunday i ok"
)
_HAN_TELLING = frozenset("用户的是了在也和有就都着过得地他她它们这那个")


_NOT_TOLD = re.compile(
    r"^\W*(?:(?:and|so|ok|okay|now|well|please|can you|could you)\W+)*(?:suppos(?:e|ing)|imagine|let'?s say|say (?:i|we)\b|assum(?:e|ing)|what if|hypothetically"
    r"|(?:if|when) (?:i|we|my \w+) (?:were|was|had|won|got|lived|owned|moved|earned)|(?:write|draft|compose|invent|make up)\b)|假设|假如|如果我|要是我|想象",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Gated:
    """What passed, and how often each reason turned something away."""

    candidates: tuple[Candidate, ...]
    turned_away: Counter[str] = field(default_factory=Counter)


def gate(
    candidates: Sequence[Candidate],
    turns: Sequence[LoggedTurn],
    context: Sequence[LoggedTurn] = (),
    *,
    also: Sequence[str] = (),
) -> Gated:
    """Let through what the user themselves said in these turns or, for what is taken up again, in those before.

    Args:
        turns: what the extractor read, oldest first.
        context: turns before them that it saw.
        also: what may be repeated although the user did not say it.
    """
    said = _Said(
        "\n".join((*map(_told, spoken((*context, *turns))), *also)), [turn.observed_at for turn in (*context, *turns)]
    )
    passed: list[Candidate] = []
    turned_away: Counter[str] = Counter()
    for candidate in candidates:
        if why := unfit.reason(candidate.content) or said.misses(candidate.content):
            turned_away[why] += 1
        else:
            passed.append(candidate)
    return Gated(tuple(passed), turned_away)


def _told(own: str) -> str:
    """What of a user's text is said of what is: without suppositions and orders to write something."""
    return "".join(sentence for sentence in sentences(own) if not _NOT_TOLD.search(sentence))


class _Said:
    """The user's own words, to look things up in."""

    def __init__(self, text: str, times: Sequence[datetime]) -> None:
        lowered = text.lower()
        self._text = lowered
        self._words = {_bare(word) for word in _WORD.findall(lowered)}
        self._stems = {word[:_STEM] for word in self._words}
        self._han = set(_bigrams(lowered))
        # A model may write "on 2026-03-15" for "today".
        dates = {str(part) for time in times for part in (time.year, time.month, time.day)}
        self._numbers = _numbers(lowered) | dates | {f"0{part}" for part in dates if len(part) == 1}

    def misses(self, content: str) -> str:
        """What of a statement the user did not say, as a reason; "" when they said it."""
        if not _numbers(content.lower()) <= self._numbers:
            return NUMBER
        if not all(self._knows_name(name) for name in _NAME.findall(content)):
            return NAME
        needed = _SUPPORT if _ABOUT_USER.search(content) else _SUPPORT_WITHOUT_USER
        return "" if self._share(content.lower()) >= needed else WORDS

    def _knows_name(self, name: str) -> bool:
        word = _bare(name.lower().rstrip(".,;:"))
        return word in _TELLING or word in _CALENDAR or word in self._words or (len(word) > 1 and word in self._text)

    def _share(self, content: str) -> float:
        told = [word for each in _WORD.findall(_HAN.sub(" ", content)) if (word := _bare(each)) not in _TELLING]
        pairs = _bigrams(content)
        if not told and not pairs:
            return 1.0 if _numbers(content) else 0.0
        known = sum(word in self._words or (len(word) >= _STEM and word[:_STEM] in self._stems) for word in told)
        return (known + sum(pair in self._han for pair in pairs)) / (len(told) + len(pairs))


def _bare(word: str) -> str:
    """Without an 's, and without a plural's s."""
    word = re.sub(r"['’]s?$", "", word)
    return word[:-1] if len(word) > _STEM and word.endswith("s") and not word.endswith("ss") else word


def _numbers(text: str) -> set[str]:
    """Every number in figures: 2,600 and 2600, 10k and 10000, "five" and 5 are the same."""
    plain = {re.sub(r"[.,]", "", number) for number in _NUMBER.findall(text)}
    thousands = {f"{float(number) * 1000:.0f}" for number in _THOUSANDS.findall(text)}
    spelled = {_SPELLED[word] for word in _WORD.findall(text) if word in _SPELLED}
    if _THOUSANDS.search(text):
        plain -= {re.sub(r"[.,]", "", number) for number in _THOUSANDS.findall(text)} - thousands
    return plain | thousands | spelled


def _bigrams(text: str) -> list[str]:
    return [
        text[at : at + 2]
        for at in range(len(text) - 1)
        if all(_HAN.match(char) and char not in _HAN_TELLING for char in text[at : at + 2])
    ]
