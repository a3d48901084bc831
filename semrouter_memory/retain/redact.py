"""Takes secrets out of a text before it is written anywhere. Pure.

Phone numbers, dates, prices, hashes and UUIDs are ordinary text and stay; the name in front of a secret stays too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from semrouter_memory.language.scripts import CJK_RANGE, visible
from semrouter_memory.retain.secret_rules import RULES, Rule, SecretKind

MARK = "[redacted]"
"""Stands where a secret was. A candidate that contains it is not stored."""
_SCRIPTS_MEET = re.compile(rf"(?<=[{CJK_RANGE}])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?=[{CJK_RANGE}])")
_APART = "\x1f"
"""A blank that hardly a text has."""
_HALF_WIDTH = {
    code: code - 0xFEE0 for first, last in ("０９", "ＡＺ", "ａｚ") for code in range(ord(first), ord(last) + 1)
}
"""Full-width digits and letters as ASCII ones."""
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True, slots=True)
class Redaction:
    """A text without its secrets.

    Attributes:
        kinds: one for each secret that was taken out.
    """

    text: str
    kinds: Sequence[SecretKind] = ()


def redact(text: str) -> Redaction:
    """The text with `[redacted]` in place of secrets; where characters hid a secret, without these characters."""
    plain = visible(text).translate(_HALF_WIDTH)
    if plain != text and (found := _found(plain)).kinds:
        return found
    return _found(text)


def _found(text: str) -> Redaction:
    found = _redacted(text)
    if _APART in text or not _SCRIPTS_MEET.search(found.text):
        return found
    # Chinese puts no blanks around foreign words ("我的password is ..."), and rules look for whole words.
    apart = _redacted(_SCRIPTS_MEET.sub(_APART, found.text))
    return Redaction(apart.text.replace(_APART, ""), (*found.kinds, *apart.kinds))


def _redacted(text: str) -> Redaction:
    kinds: list[SecretKind] = []
    folded, has_digit = text.casefold(), _DIGIT.search(text) is not None
    for rule in RULES:
        if (has_digit or not rule.needs_digit) and (not rule.needs or any(each in folded for each in rule.needs)):
            text = rule.pattern.sub(_Replace(rule, kinds), text)
    return Redaction(text, tuple(kinds))


def without_secrets(text: str) -> str:
    """Same as `redact`, but only the text."""
    return redact(text).text


def is_redacted(text: str) -> bool:
    """Whether something was taken out of this text."""
    return MARK in text


@dataclass(frozen=True, slots=True)
class _Replace:
    """Puts the mark in place of a match's value, and notes its kind."""

    rule: Rule
    kinds: list[SecretKind]

    def __call__(self, match: re.Match[str]) -> str:
        value = match["value"]
        if MARK in value or not (self.rule.is_secret is None or self.rule.is_secret(value)):
            return match.group()
        self.kinds.append(self.rule.kind)
        start, end = (place - match.start() for place in match.span("value"))
        return match.group()[:start] + MARK + match.group()[end:]
