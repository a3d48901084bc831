"""What an order to the memory names: "my salary and where I live" is two things. Pure.

Strategy: what it is about stands behind the verb, or else before it; the order's own words are left out at both ends. It is cut at
commas and at words that join, and each piece may be a thing of its own. Whether it is one ("my dog, I sold it", "dinner with Leo and
Tom") is decided with the memories (`deletion/meant.py`), from how the piece is joined and how it begins.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from semrouter_memory.language.phrases import MARKS, after, phrases, words_of
from semrouter_memory.language.terms import terms
from semrouter_memory.language.words import spans, tokens

ACTS = ("steering_forget", "steering_remember", "steering_mention")
"""Lists of the words that say what the memory shall do or not do."""
_CLAUSE_ENDS = MARKS | {"so", "please", "pls", "plz"}
_COMMA = ","
_APART = 4
"""Tokens within which a Chinese verb follows what denies it."""
_MOST = 6
"""Subjects of one order."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an order names: all of it, or one of several things.

    Attributes:
        form: of a piece, how it is joined to the one before and how it begins; "" for all of it.
    """

    text: str
    form: str = ""


def subjects(sentence: str) -> tuple[Subject, ...]:
    """What an order is about, and then, where it may be several things, each of these; empty where it only points ("forget it")."""
    text = sentence.strip().replace("\u3001", _COMMA).replace(" & ", f" {_COMMA} ")
    found, places = tokens(text), spans(text)
    begin, end, verb = _whole(found, places, text)
    if begin == end:
        return ()
    whole = Subject(text[places[begin][0] : places[end - 1][1]])
    # What is told of before its verb may begin before it, and what is behind it goes on behind a comma.
    region = (verb, len(found)) if begin > verb else (0, verb or len(found))
    pieces = [
        Subject(piece, f"{joined} {_opening(found, first)}")
        for first, last, joined in _pieces(found, *region)
        if terms(piece := text[places[first][0] : places[last - 1][1]])
    ]
    return (whole, *pieces[:_MOST]) if len(pieces) > 1 else (whole,)


def _whole(found: Sequence[str], places: Sequence[tuple[int, int]], text: str) -> tuple[int, int, int]:
    """Which tokens tell all that an order is about, nothing for none, and where its verb is.

    They stand behind the verb, or else before it, or in the nearest clause before that, or in the one behind.
    """
    verb = _verb(found)
    starts = [0, *(place + 1 for place, token in enumerate(found) if token in _CLAUSE_ENDS)]
    first = max(start for start in starts if start <= verb)
    others = [*(start for start in reversed(starts) if start < first), *(start for start in starts if start > verb)]
    ends = next((place for place in range(verb, len(found)) if found[place] in _CLAUSE_ENDS), len(found))
    parts = ((verb, ends), (first, verb), (verb, len(found)), *((start, len(found)) for start in others))
    for begin, end in (_about(found, *part) for part in parts):
        if begin < end and terms(text[places[begin][0] : places[end - 1][1]]):
            return begin, end, verb
    return 0, 0, verb


def _pieces(found: Sequence[str], first: int, last: int) -> Iterator[tuple[int, int, str]]:
    """Of these tokens, those between commas and words that join, and how each piece is joined to the one before."""
    joins, joined, start, at = phrases("steering_joins"), "first", first, first
    while at <= last:
        is_mark = at == last or found[at] in MARKS
        length = int(is_mark) or joins.length_at(found[:last], at)
        if length:
            begin, end = _about(found, start, at)
            if begin < end:
                yield begin, end, f"{joined}, inner" if joined == "and" and _is_inner(found, start) else joined
                joined = "comma"
            if not is_mark and joined != "first":
                joined = "and"
            start = at + length
        at += length or 1


def _is_inner(found: Sequence[str], place: int) -> bool:
    """Whether what is joined here may belong to a preposition before it: "dinner with Leo and Tom"."""
    for token in reversed(found[:place]):
        if token in MARKS:
            return False
        if token in words_of("subject_inner"):
            return True
    return False


def _opening(found: Sequence[str], place: int) -> str:
    for name in ("own", "clause", "speaker"):
        if found[place] in words_of(f"subject_{name}"):
            return name
    return "other"


def _verb(found: Sequence[str]) -> int:
    """Where the first word of forgetting stands, or else one of not remembering or not mentioning; 0 for none."""
    for name in ACTS:
        for place, token in enumerate(found):
            if token not in words_of(name):
                continue
            if name == ACTS[0] or token.isascii():
                return place
            before = range(max(place - _APART, 0), place)
            if refused := [each for each in before if found[each] in words_of("steering_refuses")]:
                return refused[0]
    return 0


def _about(found: Sequence[str], first: int, last: int) -> tuple[int, int]:
    """Of these tokens up to the clause's end, those without the order's at both ends."""
    opening, closing, telling = (phrases(f"steering_{name}") for name in ("opens", "closes", "tells"))
    first = after(found[:last], opening, first)
    last = next((place for place in range(first, last) if found[place] in _CLAUSE_ENDS), last)
    told = (
        after(found[:last], opening, each + telling.length_at(found, each)) for each in telling.places(found[:last])
    )
    first = max((each for each in told if first < each < last), default=first)
    ends = (place for place in range(first, last) if after(found[:last], closing, place) == last)
    return first, next(ends, last)
