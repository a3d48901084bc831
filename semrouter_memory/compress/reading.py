"""What a turn's text adds to a conversation's state: its content words, and decisions, open questions, figures. Pure.

Strategy: the user's own short sentences only, in English and Chinese, without a dictionary. Pasted texts are long, quoted or fenced,
and what an assistant says can be asked of it again; the one thing looked for in an answer is whether it answers.
"""

import re
from collections.abc import Iterator

from semrouter_memory.language import sentences as language
from semrouter_memory.language.scripts import CJK, CJK_RANGE
from semrouter_memory.language.words import content_words

MAX_SENTENCE_CHARS = 160
_MIN_SENTENCE_CHARS = 4
_MAX_TEXT_CHARS = 2_000
"""A longer message is a document; its beginning may be the user's own words."""
_MAX_SENTENCES = 12

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED = re.compile(r"^\s*>.*$", re.MULTILINE)
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
_MIN_LETTERS = 4


def sentences(text: str) -> Iterator[str]:
    """The user's own short sentences."""
    own = _QUOTED.sub("", _FENCED.sub("", text[:_MAX_TEXT_CHARS]))
    found = (" ".join(part.split()) for part in language.sentences(own))
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


def content_terms(text: str) -> list[str]:
    """Words that say what a text is about, in order."""
    return [
        word for word in content_words(text) if CJK.match(word) or (len(word) >= _MIN_LETTERS and not word[0].isdigit())
    ]


def is_telling(text: str) -> bool:
    """Whether the text has a number, or a name inside a sentence."""
    return any(char.isdigit() for char in text) or bool(_NAME.search(text))


def checkable(text: str) -> set[str]:
    """The parts of a text that can be looked for elsewhere: numbers, names and Chinese words, lower-cased."""
    numbers = {word for word in words(text) if any(char.isdigit() for char in word)}
    chinese = {word for word in content_terms(text) if CJK.match(word)}
    return numbers | chinese | {name.lower() for name in _NAME.findall(text)}
