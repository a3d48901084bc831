"""Lists of phrases, found token by token (`phrases.toml`), and of short patterns (`word_lists.toml`). Pure.

Strategy: a phrase matches whole words in any case, with any apostrophe, and Chinese characters one by one, so no list needs a
regular expression. A list has phrases between two blanks or line ends; within a phrase `/` separates the words of which
one stands there, `?` follows one that may be missing, and `...` stands for up to eight tokens of the same sentence.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

from semrouter_memory.language.scripts import CJK, WORD_END, WORD_START
from semrouter_memory.language.words import tokens

MARKS = frozenset('?!:.,;"\n')
"""Tokens that are no words."""
_GAP, _GAP_TOKENS = "...", 8
_SENTENCE_ENDS = frozenset(".?!\n")


class Phrases:
    """A list of phrases."""

    def __init__(self, listed: Iterable[str]) -> None:
        self._by_first: dict[str, list[tuple[str, ...]]] = {}
        for phrase in listed:
            for variant in _variants(phrase):
                self._by_first.setdefault(variant[0], []).append(variant)

    def length_at(self, found: Sequence[str], place: int) -> int:
        """How many tokens the longest phrase has that begins at this place, 0 for none."""
        begun = self._by_first.get(found[place]) if place < len(found) else None
        return max((_length(each, found, place) for each in begun), default=0) if begun else 0

    def places(self, found: Sequence[str]) -> Iterator[int]:
        """Where a phrase begins."""
        if self._by_first.keys().isdisjoint(found):
            return iter(())
        return (place for place in range(len(found)) if self.length_at(found, place))

    def occur_in(self, text: str) -> bool:
        """Whether one of the phrases stands in a text."""
        return next(self.places(tokens(text)), None) is not None


@cache
def phrases(name: str) -> Phrases:
    """The list of that name."""
    return Phrases(entries(name))


@cache
def words_of(name: str) -> frozenset[str]:
    """A list of single words, as a set."""
    return frozenset(entries(name))


def begins(found: Sequence[str], listed: Phrases, skipped: Phrases | None = None) -> bool:
    """Whether the first tokens, marks and skipped phrases left out, are one of the phrases."""
    return bool(listed.length_at(found, after(found, skipped)))


def after(found: Sequence[str], skipped: Phrases | None, place: int = 0) -> int:
    """The first place from this one on that is neither a mark nor a part of a skipped phrase."""
    while place < len(found) and (length := _skipped(found, skipped, place)):
        place += length
    return place


def stretch(found: Sequence[str], listed: Phrases, *skipped: Phrases) -> tuple[int, bool]:
    """The first place at which neither a phrase, a skipped one nor a mark stands, and whether a phrase does before it."""
    place, said = 0, False
    while place < len(found):
        if length := listed.length_at(found, place):
            said = True
        else:
            length = found[place] in MARKS or max(each.length_at(found, place) for each in skipped)
        if not length:
            break
        place += length
    return place, said


def tells_failure(outcome: str) -> bool:
    """Whether the beginning of a tool's result says that the tool failed."""
    return phrases("failures").occur_in(outcome) and not phrases("successes").occur_in(outcome)


def _skipped(found: Sequence[str], skipped: Phrases | None, place: int) -> int:
    if found[place] in MARKS:
        return 1
    return skipped.length_at(found, place) if skipped else 0


def _length(phrase: tuple[str, ...], found: Sequence[str], place: int) -> int:
    """How many tokens the phrase takes at this place, 0 where something else stands."""
    if _GAP not in phrase:
        return len(phrase) if tuple(found[place : place + len(phrase)]) == phrase else 0
    at = phrase.index(_GAP)
    begun, rest = phrase[:at], phrase[at + 1 :]
    if tuple(found[place : place + at]) != begun:
        return 0
    for end in range(place + at + 1, min(place + at + _GAP_TOKENS, len(found) - 1) + 1):
        if found[end - 1] in _SENTENCE_ENDS:
            return 0
        if length := _length(rest, found, end):
            return end - place + length
    return 0


def word_set(text: str) -> frozenset[str]:
    """The words of a text, separated by blanks."""
    return frozenset(text.split())


@cache
def lists(name: str, package: str) -> dict[str, Any]:
    """The lists of a package's TOML file."""
    return tomllib.loads(files(package).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _variants(phrase: str) -> Iterator[tuple[str, ...]]:
    places = []
    for word in phrase.split(" "):
        choices = [(_GAP,)] if word == _GAP else [tokens(each) for each in word.removesuffix("?").split("/")]
        places.append([*choices, ()] if word.endswith("?") else choices)
    return (tuple(token for part in parts for token in part) for parts in product(*places))


# -- patterns made of lists ---------------------------------------------------------------------------------------------

_NAME = re.compile(r"\{([a-z_]+)\}")
_FILES = ("phrases", "word_lists")


@cache
def entries(name: str) -> tuple[str, ...]:
    """The words, phrases or patterns of a list. No two lists have one name."""
    (listed,) = (found[name] for file in _FILES if name in (found := lists(file, __package__)))
    return separated(listed)


def separated(listed: str) -> tuple[str, ...]:
    """What a list has between two blanks or line ends."""
    return tuple(each.strip() for line in listed.splitlines() for each in line.split("  ") if each.strip())


@cache
def _any_of(name: str) -> str:
    alternatives = [filled(each, _any_of) for each in entries(name)]
    if name.endswith("_lines"):
        return f"(?:{'|'.join(alternatives)})"
    english = "|".join(each for each in alternatives if not CJK.search(each))
    chinese = [each for each in alternatives if CJK.search(each)]
    return "(?:" + "|".join([f"{WORD_START}(?:{english}){WORD_END}", *chinese]) + ")"


def filled(form: str, piece: Callable[[str], str]) -> str:
    """The form with a piece in place of each `{name}`."""
    return _NAME.sub(lambda name: piece(name[1]), form)


def pieced(form: str, pieces: Mapping[str, str]) -> str:
    """The form on one line, with a piece in place of each `{name}`, and of each in that."""
    return filled(form.replace("\n", ""), lambda name: pieced(pieces[name], pieces))


def pattern(form: str, flags: re.RegexFlag = re.IGNORECASE) -> re.Pattern[str]:
    """A regular expression in which `{name}` stands for any of a list: English words as a whole, Chinese ones anywhere."""
    return re.compile(filled(form, _any_of), flags)
