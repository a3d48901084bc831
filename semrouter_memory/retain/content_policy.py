"""The content policy: what no memory may say. Pure.

Secrets, marks of our own or of prompts, orders to an assistant's memory, and what is only supposed.
"""

import re
from functools import lru_cache

from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN
from semrouter_memory.language.phrases import after, begins, phrases
from semrouter_memory.language.scripts import simplified
from semrouter_memory.language.sentences import QUESTION_MARKS, sentences
from semrouter_memory.language.words import tokens
from semrouter_memory.retain.redact import ASKED, is_redacted, is_strong, redact

SECRET = "secret"  # noqa: S105 - the name of a reason
MARKUP = "markup"
ORDER = "order"
SUPPOSED = "supposed"

_ASKED_CHARS = 320
"""Of what the assistant said last."""
_SHORT_WORDS = 8
"""Behind a question for a secret, so few words are the secret; of more, what holds a value is."""
_SECRET = re.compile(
    r"\b(?:passwords?|passcodes?|passphrases?|pin codes?|otps?|seed phrase|recovery phrase)\b(?:\s(?:for|of|to|on"
    r"|at)\s[^.,;\n]{1,60}?)?(?:\s(?:is|are|was|contains)\b|\s?[=:])"
    r"|\bsecurity (?:questions?|answers?)\b|\b(?:mother|mum|mom)['’]?s maiden name\b"
    r"|(?:密码|口令|验证码)(?:是|为|：|:)",
    re.IGNORECASE,
)
"""A password in plain words looks like any other words, so no memory says what one is, or what resets one."""
_NUMBERED_PAPER = re.compile(
    r"\b(?:passport|identity card|id card|id|driving licen[cs]e|insurance|policy|tax|member(?:ship)?|account|patient"
    r"|customer|licen[cs]e|serial|card|visa|permit)"
    r"\s(?:numbers?|no\b\.?|nr\b\.?|id\b|#)\W{0,3}(?:(?:is|was|ends in|starts with)\W{1,3})?(?=[\w/-]*\d)[\w/-]{4,}|卡号(?:是|为|：|:)?\s?[A-Za-z0-9]{5,}",
    re.IGNORECASE,
)
"""Numbers that identify a person to an office. Those that prove an identity are secrets, and redacted."""
_MARKS = re.compile(
    r"[<\uff1c][|\uff5c]?[/\w][^<>\n]{0,80}[>\uff1e]|<!--|-->|\[/?(?:INST|SYS)\]|(?-i:\[[/|]?[A-Z]{3,}[A-Z_]*[|]?\])|```"
    r"|\bsemrouter-memory\b|^\s*(?:system|assistant|user|human|tool|developer)\s?:|\"(?:type|content|role)\"\s?:",
    re.IGNORECASE,
)


@lru_cache(64)
def reason(content: str, question: str = "") -> str:
    """Why this must not be stored, in a word; "" when nothing speaks against it.

    Args:
        question: asks for a secret, and this may be the answer (`secret_question`).
    """
    content = simplified(content)
    if question and _is_the_secret(question, content):
        return SECRET
    if is_redacted(content) or redact(content).kinds or _SECRET.search(content) or _NUMBERED_PAPER.search(content):
        return SECRET
    if BLOCK_OPEN in content or BLOCK_CLOSE in content or _MARKS.search(content):
        return MARKUP
    if phrases("orders").occur_in(content) or _overrules(content):
        return ORDER
    return SUPPOSED if phrases("supposed").occur_in(content) else ""


def _overrules(content: str) -> bool:
    """Whether it tells to ignore instructions: "disregard all previous rules"."""
    found, overruled = tokens(content), phrases("overruled")
    behind = [place + 1 for place in phrases("overrules").places(found)]
    return any(
        (end := after(found, phrases("overruled_by"), at)) > at and overruled.length_at(found, end) for at in behind
    )


@lru_cache(64)
def secret_question(asked: str) -> str:
    """The question for a secret with which a message ends, "" for none: behind it, the secret stands alone."""
    *before, question = sentences(simplified(asked[-_ASKED_CHARS:])) or [""]
    if before and phrases("refers_back").occur_in(question):
        question = before[-1] + question
    asks = question.rstrip().endswith(QUESTION_MARKS) or phrases("asks_for").occur_in(question)
    return question if asks and ASKED.search(question) else ""


def _is_the_secret(question: str, answer: str) -> bool:
    found = answer.split()
    return any(map(is_strong, found)) or (
        len(found) <= _SHORT_WORDS and not begins(tokens(question), phrases("yes_or_no"))
    )
