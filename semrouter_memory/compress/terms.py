"""Which words of a text carry content, and which can be checked. English and Chinese, without a dictionary. Pure."""

import re
from collections.abc import Iterator

from semrouter_memory.language.scripts import CJK, CJK_RANGE

_WORD = re.compile(rf"[{CJK_RANGE}]+|(?:(?![{CJK_RANGE}])[^\W_])+(?:['’.,:/-](?![{CJK_RANGE}])[^\W_]+)*")
_NAME = re.compile(r"(?<!^)(?<![.!?:。！？] )\b[A-Z][a-z]+|\b[A-Z]{2,}\b")
# Chinese is not segmented: what lies between these characters counts as a word.
_CHINESE_JOINTS = re.compile(
    "[我你您他她它咱们的了吗呢吧啊呀嘛哦嗯是在有和与跟也都就还再又很太那这哪几个之被把让给对从到向以及或但若则要想会能说问请谁不好没]"
)
_MIN_LETTERS = 4
_MIN_CHARACTERS = 2
_STOP_WORDS = frozenset(
    """
    about after again also another anything around back been before being better between both came come could didn't
    does doesn't doing don't done down each else even ever every everything find first from give going good great have
    haven't having hello help here into isn't it's just keep kind know last less let's like little look looks make many
    maybe mean might more most much must need never next nice nothing only other over please pretty quite rather really
    right said same should show since some something soon still such sure take tell than thank thanks that that's their
    them then there these they they're thing things think this those though time today tomorrow tonight under until
    upon user user's used using very want wants we'll we're well were what what's when where which while will with
    without won't would yeah year you'd you'll you're your yours
    """.split()  # noqa: SIM905 - a hundred words read better as text than as a list
)


def words(text: str) -> list[str]:
    """Every word, lower-cased; a run of Chinese characters is one word."""
    return [word.lower() for word in _WORD.findall(text)]


def content_terms(text: str) -> Iterator[str]:
    """Words that say what a text is about, in order."""
    for word in words(text):
        if CJK.match(word):
            yield from (part for part in _CHINESE_JOINTS.split(word) if len(part) >= _MIN_CHARACTERS)
        elif len(word) >= _MIN_LETTERS and word not in _STOP_WORDS and not word[0].isdigit():
            yield word


def is_telling(text: str) -> bool:
    """Whether the text has a number, or a name inside a sentence."""
    return any(char.isdigit() for char in text) or bool(_NAME.search(text))


def checkable(text: str) -> set[str]:
    """The parts of a text that can be looked for elsewhere: numbers, names and Chinese words, lower-cased."""
    numbers = {word for word in words(text) if any(char.isdigit() for char in word)}
    chinese = {word for word in content_terms(text) if CJK.match(word)}
    return numbers | chinese | {name.lower() for name in _NAME.findall(text)}
