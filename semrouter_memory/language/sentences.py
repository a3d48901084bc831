"""Cuts a text into sentences, and tells by its form whether one asks, orders or is a courtesy. Pure."""

import re
from collections.abc import Sequence
from functools import cache

from semrouter_memory.language.phrases import MARKS, Phrases, pattern, phrases, stretch, words_of
from semrouter_memory.language.scripts import simplified
from semrouter_memory.language.words import tokens

# After a full stop only before a blank or the end ("3.5", "e.g. this" stay whole); Chinese needs none.
_END = re.compile(r"(?:(?<![.!?…])[.!?…]++[\"')\]”’]*(?=\s|$)|[。！？!?][”」』）]*|\n)\s*")
_ABBREVIATION = re.compile(
    r"\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|a\.m|p\.m|no|approx|inc|ltd|u\.s|u\.k|[A-Z])\.\Z", re.IGNORECASE
)
_ABBREVIATION_CHARS = 7
"""The longest, with its full stop."""
_NUMBER = re.compile(r"\s{0,40}\d{1,2}\.")


def sentences(text: str) -> list[str]:
    """The sentences in order, each with the blanks behind it: joined, they are the text."""
    found: list[str] = []
    start = 0
    for end in _END.finditer(text):
        mark = end.group()
        if "\n" not in mark and mark.rstrip() == "." and _goes_on(text, start, end.start() + 1):
            continue
        piece = text[start : end.end()]
        if piece.strip():
            found.append(piece)
        elif found:
            found[-1] += piece
        else:
            continue
        start = end.end()
    if text[start:].strip():
        found.append(text[start:])
    return found


def _goes_on(text: str, start: int, stop: int) -> bool:
    """Whether the full stop before `stop` ends an abbreviation, or the number of a sentence that begins at `start`.

    Few characters are looked at: a sentence may have thousands of abbreviations.
    """
    behind = max(start, stop - _ABBREVIATION_CHARS)
    return bool(_ABBREVIATION.search(text, behind, stop) or _NUMBER.fullmatch(text, start, stop))


# -- questions and orders

QUESTION_MARKS = ("?", "？")
_ASKS = re.compile(r"[?？]\W*$")
_WORD = re.compile(r"[\w'’]+")


def asks(sentence: str) -> bool:
    """Whether it has the form of a question, with its mark or without."""
    sentence = simplified(sentence)
    found = [word.lower().replace("’", "'") for word in _WORD.findall(sentence)[:4]]
    found = [word for word in found if word not in words_of("politeness")]
    if _ASKS.search(sentence) or any(each in sentence for each in words_of("question_words_zh")):
        return True
    if not found or found[0] not in words_of("question_words"):
        return False
    # "When I was six ..." and "What I want is ..." tell, and so does what leaves "I" out: "Had surgery in May", "Don't eat pork".
    if found[1:2] in (["i"], ["we"]):
        return found[0] in words_of("inverting")
    return found[1:2] != ["my"] and not _leaves_subject_out().match(" ".join(found))


@cache
def _leaves_subject_out() -> re.Pattern[str]:
    return pattern(r"^{subject_left_out}")


def orders(sentence: str) -> bool:
    """Whether it begins as an order does: "could you find ...", "list ...", "make it ...", "请帮我写 ..."."""
    return bool(_order().match(simplified(sentence).replace("’", "'")))


@cache
def _order() -> re.Pattern[str]:
    return pattern(
        r"^\W*(?:{politeness}\W+)*{commands}(?![\w'])(?!\W*(?:is|are|was|were)\b)|^\W*(?:那|请|麻烦|再|可以)*(?:帮|给我|写|翻译|解释|列|改|推荐|生成|告诉我|总结|继续|扮演)"
    )


PARTS = re.compile(
    r"[,;:(]\s+|\s\(|\s[-–—]+\s|[，；：（]|\s(?=(?:because|cause|cos|cuz|since|as|so|but|and)\s+(?:i|i'm|im|we|we're|my|our)\b)",
    re.IGNORECASE,
)
QUOTATION_MARKS = frozenset('"“”„«»「」『』')


def tells_besides(sentence: str) -> bool:
    """Whether a part of a question or an order tells of the user: "I do everything on a Chromebook, can I run it there?"."""
    if not QUOTATION_MARKS.isdisjoint(sentence):
        return False
    # Its mark is that of the whole.
    parts = PARTS.split(simplified(sentence).replace("’", "'").rstrip(" ?？!！)）"))
    return len(parts) > 1 and any(_telling().match(part) and not asks(part) for part in parts)


@cache
def _telling() -> re.Pattern[str]:
    return pattern(
        r"^\W*(?:{goes_on_telling}\W+)*(?:{first_person_subjects} (?!{of_the_moment})\w|(?:my|our) (?:[\w'-]+ ){1,3}?{having}\W)"
        r"|^\s*(?:因为|但是?|不过|另外|而且)?(?:我|咱)(?!们?(?:想|要|该|应该|需要|可以|刚|试|觉得|看))"
    )


# -- courtesies

_MOST_NAMED = 2
"""Words behind a greeting that say who is greeted."""
_LONGEST_COURTESY = 14
"""In words."""


def is_small_talk(sentence: str) -> bool:
    """Whether it is a greeting, thanks or a farewell, and nothing else: it answers no question."""
    found = tokens(sentence)
    return _small_talk(found) == (len(found), True)


def is_courtesy(sentence: str) -> bool:
    """Whether it greets, thanks or wishes well, and says nothing else: "Hi there, hope you are well.", "Thanks, that helped!"."""
    found = tokens(sentence)
    place, greets = _small_talk(found)
    rest = [token for token in found[place:] if token not in MARKS]
    if not rest:
        return True
    if len(rest) > _LONGEST_COURTESY or asks(sentence) or orders(sentence):
        return False
    # Thanks are both.
    for begun in range(place + 1):
        if length := phrases("courtesies").length_at(found, begun):
            return words_of("oneself").isdisjoint(found[begun + length :])
    return greets and len(rest) <= _MOST_NAMED


def is_greeting(text: str) -> bool:
    """Whether it is small talk, or a bare answer, and nothing else: "thanks!", "ok", an emoji."""
    found = tokens(text)
    return _small_talk(found, phrases("bare_answers"))[0] == len(found)


def _small_talk(found: Sequence[str], *skipped: Phrases) -> tuple[int, bool]:
    """Where the small talk that a sentence begins with ends, and whether it is more than fillers."""
    return stretch(found, phrases("small_talk"), phrases("small_talk_fillers"), *skipped)
