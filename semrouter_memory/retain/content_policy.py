"""The content policy: what no memory may say. Pure.

Secrets, marks of our own or of prompts, orders to an assistant's memory, and what is only supposed.
"""

import re

from semrouter_memory.codec.base import BLOCK_CLOSE, BLOCK_OPEN
from semrouter_memory.language.sentences import sentences
from semrouter_memory.retain.redact import is_redacted, redact
from semrouter_memory.retain.secret_rules import ASKED
from semrouter_memory.retain.secret_values import is_strong

SECRET = "secret"  # noqa: S105 - the name of a reason
MARKUP = "markup"
ORDER = "order"
SUPPOSED = "supposed"

_REQUEST = re.compile(r"[?？]\W*$|\b(?:please|enter|type|tell|give|send|share|provide)\b|请", re.IGNORECASE)
_REFERS = re.compile(r"\b(?:it|that|this|them|those|one)\b|[它这那]", re.IGNORECASE)
_YES_OR_NO = re.compile(r"\W*(?:is|are|was|were|do|does|did|have|has)\b", re.IGNORECASE)
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
_ORDER = re.compile(
    r"\b(?:ignor|disregard|overrid|bypass)\w*\s(?:(?:all|any|the|your|its|previous|prior|earlier|above"
    r"|system)\s)+(?:instructions?|prompts?|rules|messages?|guidelines)\b"
    r"|\bsystem prompt\b|\b(?:is|as) an? (?:admin(?:istrator)?|superuser|root user|developer mode)\b"
    r"|\bauthori[sz]e[sd]? (?:all|any|every)\b|\bwithout (?:asking|confirmation|review|approval)\b.*\b(?:always|pay|transfer"
    r"|send|delete|execute|run)\b"
    r"|忽略.{0,6}(?:指令|提示|规则)",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:hypothetical(?:ly)?|suppos(?:e|es|ing) that|imagin(?:es|ing) (?:that|being|a)|pretend(?:s|ing)?|role-?play\w*"
    r"|fictional(?:ly)?|in (?:the|a|their) (?:story|novel|game|poem|dream)|if the user (?:were|was|had|won)"
    r"|would be .{1,40} if)\b|假设|如果用户|角色扮演",
    re.IGNORECASE,
)


def reason(content: str, *, asked: str = "") -> str:
    """Why this must not be stored, in a word; "" when nothing speaks against it.

    Args:
        asked: what the assistant said before: behind a question for a secret, the secret stands alone.
    """
    if asked and _is_asked_secret(asked, content):
        return SECRET
    if is_redacted(content) or redact(content).kinds or _SECRET.search(content) or _NUMBERED_PAPER.search(content):
        return SECRET
    if BLOCK_OPEN in content or BLOCK_CLOSE in content or _MARKS.search(content):
        return MARKUP
    if _ORDER.search(content):
        return ORDER
    return SUPPOSED if _SUPPOSED.search(content) else ""


def _is_asked_secret(asked: str, answer: str) -> bool:
    """Whether a message ends by asking for a secret, and this may be one."""
    *before, question = sentences(asked[-_ASKED_CHARS:]) or [""]
    if before and _REFERS.search(question):
        question = before[-1] + question
    if not ASKED.search(question) or not _REQUEST.search(question):
        return False
    found = answer.split()
    return any(map(is_strong, found)) or (len(found) <= _SHORT_WORDS and not _YES_OR_NO.match(question))
