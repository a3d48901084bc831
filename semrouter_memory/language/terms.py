"""What a text is indexed under: the terms that a query and a memory are compared by. Pure.

Strategy: the same terms however something is written. Case, inflection and typographic variants go (Snowball's English
stemmer, Porter 2); numbers stay whole and lose their thousands separators, dates are terms and name their month; names
are words like others. Chinese has no spaces: pairs of neighbouring characters are the terms, as most words have two;
traditional characters are read as simplified ones.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache

import Stemmer

from semrouter_memory.language.phrases import lists
from semrouter_memory.language.scripts import CJK, CJK_RANGE, in_form, simplified
from semrouter_memory.language.values import MONTHS, folded
from semrouter_memory.language.words import STOP_WORDS, content_runs, content_spans, words

_TOKEN = re.compile(
    rf"""
      (?P<date>\d{{4}}-\d{{2}}(?:-\d{{2}})?(?!\d))
    | (?P<number>\d+(?:,\d{{3}})*(?:\.\d+)?)(?P<unit>[^\W\d_{CJK_RANGE}]*)
    | [{CJK_RANGE}]+
    | [^\W_{CJK_RANGE}]+(?:'[^\W_{CJK_RANGE}][^\W_]*)*
    """,
    re.VERBOSE,
)
_THOUSAND = "k"
# The month, not the verb, which says nothing.
_MAY = re.compile(
    r"(?:(?<=\bin )|(?<=\bsince )|(?<=\blast )|(?<=\bby )|(?<=\bof )|(?<=\bthis )|(?<=\d )|(?<=th ))may\b|\bmay(?= \d)"
)
_PAIR = 2
# What is longer is no word (base64, hexadecimal numbers), and would only fill the caches.
_LONGEST = 64

# Not safe for several threads at a time; but the interpreter's lock is held throughout a call.
_STEMMER = Stemmer.Stemmer("english")
_MAY_MONTH = "maymonth"
_MONTHS = tuple(_MAY_MONTH if name == "may" else _STEMMER.stemWord(name) for name in MONTHS)


def terms(text: str) -> list[str]:
    """The text's terms in order, repetitions included; words that carry no content are left out."""
    text = folded(text)
    return list(_terms(_MAY.sub(_MAY_MONTH, text) if "may" in text else text))


def shared_terms(one: str, other: str) -> set[str]:
    """The terms by which one text finds the other."""
    return {*search_terms(one)} & {*search_terms(other)}


def search_terms(text: str) -> list[str]:
    """The terms by which memories are searched: the text's own, and those of the concepts that its Chinese words name.

    A question seldom uses the word that the answer was given in ("妻子" and "老婆"), and short words share no pair.
    """
    found = terms(text)
    if CJK.search(text):
        found += dict.fromkeys(_concepts()[match.group()] for match in _concept_words().finditer(simplified(text)))
    return found


def word_terms(text: str) -> list[tuple[str, ...]]:
    """Of each Chinese character and each other word that carries content, the terms of the words that it may be part of.

    Chinese is not segmented: which of the pairs is a word, the memories tell that hold it.
    """
    found = list[tuple[str, ...]]()
    for word in words(simplified(in_form("NFKC", text))):
        if not CJK.match(word):
            found += [(term,) for term in terms(word)]
            continue
        named = [(match.span(), _concepts()[match.group()]) for match in _concept_words().finditer(word)]
        for run in content_spans(word):
            for at in range(*run):
                pairs = [word[first : first + _PAIR] for first in (at - 1, at) if run[0] <= first < run[1] - 1]
                concepts = [concept for (first, last), concept in named if first <= at < last]
                found.append((*(pairs or [word[at]]), *concepts))
    return found


@cache
def _concepts() -> Mapping[str, str]:
    """Word -> the term of its concept; of a word in several, the first."""
    listed = lists("concepts_zh", __package__)
    return {word: f"concept{name}" for name in reversed(listed) for word in listed[name].split()}


@cache
def _concept_words() -> re.Pattern[str]:
    """Any of them, longer ones first: "家住" is one word."""
    return re.compile("|".join(map(re.escape, sorted(_concepts(), key=len, reverse=True))))


def _terms(text: str) -> Iterator[str]:
    for match in _TOKEN.finditer(text):
        token = match.group()
        if match["date"]:
            yield from _date_terms(token)
        elif match["number"]:
            yield from _number_terms(match["number"][:_LONGEST], match["unit"][:_LONGEST])
        elif CJK.match(token):
            yield from _chinese_terms(token)
        elif stem := _stem(token[:_LONGEST]):
            yield stem


def _date_terms(date: str) -> Iterator[str]:
    year, month, *_ = date.split("-")
    yield date
    yield year
    if 1 <= int(month) <= len(_MONTHS):
        yield _MONTHS[int(month) - 1]


def _number_terms(number: str, unit: str) -> Iterator[str]:
    """A number as it is compared: "$10K" and "$10,000" are one; "5km" is a number and its unit."""
    plain = number.replace(",", "")
    if unit == _THOUSAND:
        yield f"{float(plain) * 1000:.0f}"
        return
    yield plain
    if unit and (stem := _stem(unit)):
        yield stem


def _chinese_terms(run: str) -> Iterator[str]:
    for part in content_runs(run):
        yield from part
        yield from (part[at : at + _PAIR] for at in range(len(part) - 1))


@lru_cache(16_384)
def _stem(word: str) -> str:
    """The stem, or "" for a word without content."""
    if word in STOP_WORDS:
        return ""
    word = word.removesuffix("'s") if word.endswith("'s") else word.removesuffix("'")
    return "" if word in STOP_WORDS else str(_STEMMER.stemWord(word))
