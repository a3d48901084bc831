"""Which words of a text carry content: shared by the query, the rewrite check and the diversity of the ranking. Pure.

English words are separated by the text itself. Chinese is not segmented: a run of characters is cut at function words,
and what lies between them counts as content. That needs no dictionary and is right often enough to tell a vague query
from one that names something.

The learned decisions read a text as words and pairs of neighbouring words (`tokens`, `ngrams`).
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from semrouter_memory.language.scripts import APOSTROPHES, CJK, CJK_RANGE, WORD_START, simplified

_LETTER = rf"[^\W{CJK_RANGE}]"
_WORD = re.compile(rf"[{CJK_RANGE}]+|{_LETTER}+(?:['.,-]{_LETTER}\w*)*")

STOP_WORDS = frozenset(
    """
    a an the this that these those it its it's that's there here one ones thing things stuff
    i me my mine myself i'm im i've ive i'd i'll we us our ours ourselves we're we've we'll
    you your yours you're you've he him his she her hers they them their theirs user user's
    is am are was were be been being isn't aren't wasn't do does did done doing don't doesn't didn't
    have has had having can could will would shall should may might must can't couldn't won't wouldn't
    what what's whats which who who's whom whose when when's where where's why how how's much many long often
    and or but if so as then than too also again still just only even yet now maybe please pls
    of in on at to for from by with about into over after before between up down out off
    not no nor any some all each every both more most other another same else
    ok okay yes yeah yep yea nah nope hi hello hey thanks thank sure well oh um hmm right
    get got give gave tell told say said know think want need like look looking let make remind show go going
    """.split()  # noqa: SIM905 - eighty words read better as text than as a list
)

# Longest first, so that a whole function word goes before its own characters.
_CJK_FUNCTION_WORDS = re.compile(
    "什么时候|为什么|怎么样|多少钱|能不能|是不是|有没有|要不要|可不可以|我们的|他们的|那一个|这一个"
    "|我们|你们|他们|她们|它们|咱们|用户|本人|自己|什么|怎么|多少|多久|多大|多长|多远|哪里|哪儿|哪个|哪些|哪天|几点|几个"
    "|那个|这个|那些|这些|那里|这里|那儿|这儿|那次|这次|那边|这边|那么|这么|另一个|另外|其他|其它|还有|然后|所以|因为|但是"
    "|而且|或者|如果|可以|应该|能够|知道|觉得|一下|一点|一些|来着|告诉|记得|请问|好的|谢谢|再说|现在|已经|正在|关于"
    "|[我你您他她它咱俺的了吗呢吧啊呀嘛哦哈嗯呃是在有和与跟也都就还再又很太那这哪几个之其把被让给对从到向为以及或但若则要想会能说问请谁啥咋"
    "好不没无]"
)
_MIN_CJK_CONTENT = 2
_BEGINNING, _MIN_BEGINNING, _ENDING = 5, 3, 2
"""Letters: of a word's beginning at most and at least, and those in which its forms differ."""


def words(text: str) -> list[str]:
    """The text's words, lower-cased; a run of Chinese characters is one word."""
    return _WORD.findall(text.translate(APOSTROPHES).lower())


def word_count(text: str) -> int:
    """How many words a text has, about: between blanks, and for every two Chinese characters, which have none, one more."""
    return len(text.split()) + len(CJK.findall(text)) // 2


def content_words(text: str) -> list[str]:
    """The words that carry content, in order, repetitions included."""
    content: list[str] = []
    for word in words(text):
        if CJK.match(word):
            content += [part for part in _runs(word) if len(part) >= _MIN_CJK_CONTENT]
        elif word not in STOP_WORDS:
            content.append(word)
    return content


def content_runs(text: str) -> list[str]:
    """The Chinese runs between function words, single characters included."""
    return [part for word in words(text) if CJK.match(word) for part in _runs(word)]


def content_spans(word: str) -> list[tuple[int, int]]:
    """Where the same runs of one Chinese word are."""
    ends = [0, *(place for match in _CJK_FUNCTION_WORDS.finditer(word) for place in match.span()), len(word)]
    return [(first, last) for first, last in zip(ends[::2], ends[1::2], strict=True) if first < last]


def _runs(word: str) -> list[str]:
    return [word[first:last] for first, last in content_spans(word)]


@dataclass(frozen=True, slots=True)
class Stem:
    """What a word and its other forms are likely to begin with, to look for in texts: a number as a whole, Chinese anywhere."""

    text: str
    place: re.Pattern[str] | None

    @classmethod
    def of(cls, word: str) -> "Stem":
        """Of a word as `words` gives it."""
        is_number = word[0].isdigit()
        stem = word if is_number else word[: max(_MIN_BEGINNING, min(_BEGINNING, len(word) - _ENDING))]
        before, behind = (r"(?<!\d[.,])", r"(?![.,]?\d)") if is_number else ("", "")
        place = None if CJK.match(word) else re.compile(f"{WORD_START}{before}{re.escape(stem)}{behind}")
        return cls(stem, place)

    def is_in(self, lowered: str) -> bool:
        """Whether a word that begins with it stands in a text in lower case. Searching for the pattern takes five times as long."""
        at = lowered.find(self.text)
        while at >= 0 and self.place is not None and not self.place.match(lowered, at):
            at = lowered.find(self.text, at + 1)
        return at >= 0


_TOKEN_LETTER = rf"[^\W\d_{CJK_RANGE}]"
_TOKEN = re.compile(rf"{_TOKEN_LETTER}+(?:'{_TOKEN_LETTER}+)?|[{CJK_RANGE}]|\d+|[?!:.,;\"]|\n")
_FULL_WIDTH = str.maketrans("’‘？！：。，；“”", "''?!:.,;\"\"")
_FIRST = 3


# A message is read again for each of its sentences, and for the turn after it.
@lru_cache(64)
def tokens(text: str) -> tuple[str, ...]:
    """Lower-cased words, single Chinese characters, as simplified ones, and marks; every number is one token."""
    found = _TOKEN.findall(simplified(text).translate(_FULL_WIDTH).lower().strip())
    return tuple("0" if token.isdigit() else token for token in found)


def spans(text: str) -> list[tuple[int, int]]:
    """Where in the text each of its tokens begins and ends; a letter behind a dotted capital I, one character later."""
    return [token.span() for token in _TOKEN.finditer(text.translate(_FULL_WIDTH).lower())]


def ngrams(found: Sequence[str]) -> Iterator[str]:
    """Each token, each pair of neighbours with the text's ends, and the first tokens as such."""
    framed = ["^", *found, "$"]
    yield from found
    yield from (f"{one} {other}" for one, other in itertools.pairwise(framed))
    yield from (f"first {token}" for token in found[:_FIRST])
