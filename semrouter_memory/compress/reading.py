"""What a turn's text adds to a conversation's state: its content words, and decisions, open questions, figures. Pure.

Strategy: the user's own short sentences only, in English and Chinese, without a dictionary. Pasted texts are long, quoted or fenced,
and what an assistant says can be asked of it again; the one thing looked for in an answer is whether it answers.
"""

import re
from collections.abc import Iterator

from semrouter_memory.language.scripts import CJK, CJK_RANGE

MAX_SENTENCE_CHARS = 160
_MIN_SENTENCE_CHARS = 4
_MAX_TEXT_CHARS = 2_000
"""A longer message is a document; its beginning may be the user's own words."""
_MAX_SENTENCES = 12

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"^\s*>.*$", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_QUESTION = re.compile(r"[?？]\s*$|[吗呢]\s*[。？]?$")
_DECISION = re.compile(
    r"\blet['’]?s\s+(?:go\s+(?:with|for)|take|use|book|pick|choose|stick|keep|do)\b"
    r"|\b(?:we|i)(?:['’]ll|\s+will|\s+have|['’]ve)?\s+(?:go(?:ing)?\s+with|take|decided|settled|chosen|chose|picked|booked)\b"
    r"|\b(?:decided|settled|agreed)\s+(?:on|to|for)\b|^\s*(?:ok(?:ay)?[,.]?\s+)?go(?:ing)?\s+with\b"
    r"|决定|选定|敲定|定下来|就(?:选|用|定|买|订)",
    re.IGNORECASE,
)
_OWN = re.compile(r"\b(?:i|i['’]m|i['’]ve|my|we|our|mine)\b|[我咱]", re.IGNORECASE)
_UNANSWERED = re.compile(
    r"\bi\s+(?:do\s*n['’]t|do\s+not|cannot|can['’]t|could\s*n['’]t)\s+(?:know|tell|say|find|access|look|check)|\bnot\s+sure\b"
    r"|\bi['’]?m\s+(?:unable|not\s+able)\b|\b(?:could|can)\s+you\s+(?:tell|share|give|clarify)|\blet\s+me\s+know\b"
    r"|不知道|不确定|无法|请告诉|请提供",
    re.IGNORECASE,
)
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


def sentences(text: str) -> Iterator[str]:
    """The user's own short sentences."""
    own = _QUOTED.sub("", _FENCED.sub("", text[:_MAX_TEXT_CHARS]))
    found = (" ".join(part.split()) for part in _SENTENCE_END.split(own))
    short = [part for part in found if _MIN_SENTENCE_CHARS <= len(part) <= MAX_SENTENCE_CHARS]
    yield from short[:_MAX_SENTENCES]


def is_question(sentence: str) -> bool:
    return bool(_QUESTION.search(sentence))


def is_decision(sentence: str) -> bool:
    """Whether the user settles something."""
    return not is_question(sentence) and bool(_DECISION.search(sentence))


def is_figure(sentence: str) -> bool:
    """Whether a statement has a number or a name worth keeping."""
    return not is_question(sentence) and is_telling(sentence)


def is_own(sentence: str) -> bool:
    """Whether the user speaks of themselves or of what is theirs."""
    return bool(_OWN.search(sentence))


def leaves_open(answer: str) -> bool:
    """Whether an answer does not answer, or asks back."""
    return bool(_UNANSWERED.search(answer)) or is_question(answer.rstrip())


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
