"""Takes secrets out of a text before it is written anywhere. Pure.

Phone numbers, dates, prices, hashes and UUIDs are ordinary text and stay; the name in front of a secret stays too.

Strategy: the rules are data (`secret_rules.toml`, and published shapes of credentials in `key_shapes.toml`), applied in order:
shapes first, then values that stand behind a name, then numbers with check digits, last long random strings. A name is a
whole word, and what stands behind it must look like a value: digits for a PIN, for a password no word that would describe
one. Every pattern is linear in the text's length.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from semrouter_memory.language.phrases import filled
from semrouter_memory.language.scripts import CJK_RANGE, WORD_END, WORD_START, visible
from semrouter_memory.retain import secret_values

_FLAGS = {"": 0, "i": re.IGNORECASE, "s": re.DOTALL}


class SecretKind(StrEnum):
    API_KEY = "api_key"
    PRIVATE_KEY = "private_key"
    JWT = "jwt"
    CREDENTIALS = "credentials"
    URL_CREDENTIALS = "url_credentials"
    PASSWORD = "password"  # noqa: S105 - the name of a kind
    PIN = "pin"
    ONE_TIME_CODE = "one_time_code"
    ACCESS_CODE = "access_code"
    LICENCE_KEY = "licence_key"
    SEED_PHRASE = "seed_phrase"
    CARD = "card_number"
    IBAN = "iban"
    BANK_ACCOUNT = "account_number"
    NATIONAL_ID = "national_id"
    RANDOM_STRING = "random_string"

    @property
    def in_words(self) -> str:
        """As messages to users have it: "a password", "an IBAN"."""
        acronyms = {"api", "jwt", "pin", "iban", "id", "url"}
        words = " ".join(word.upper() if word in acronyms else word for word in self.value.split("_"))
        return words if words.endswith("credentials") else f"{'an' if words[0] in 'aAI' else 'a'} {words}"


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One shape of a secret.

    Attributes:
        pattern: its group `value` is what is taken out.
        is_secret: whether such a value is one; None: always.
        needs: one of these stands in every text, case-folded, that the pattern matches; none: any text may match. Looking
            for them costs a fraction of the pattern.
        needs_digit: a text without a digit does not match.
    """

    kind: SecretKind
    pattern: re.Pattern[str]
    is_secret: Callable[[str], bool] | None = None
    needs: frozenset[str] = frozenset()
    needs_digit: bool = False


_PIECES = {**secret_values.DATA["pieces"], "word_start": WORD_START, "word_end": WORD_END}


def _compiled(pattern: str, flags: str = "i") -> re.Pattern[str]:
    return re.compile(_with_pieces(pattern), _FLAGS[flags])


def _with_pieces(pattern: str) -> str:
    return filled(pattern.replace("\n", ""), lambda name: _with_pieces(_PIECES[name]))


def _rules() -> Iterator[SecretRule]:
    made: Mapping[str, Callable[[], Iterator[SecretRule]]] = {"vendors": _vendor_rules, "ibans": _iban_rules}
    for group in secret_values.DATA["group"]:
        rules = made[group["made"]]() if "made" in group else map(_rule, group["rules"])
        needs = frozenset(group.get("needs", "").split())
        yield from (replace(rule, needs=needs or rule.needs, needs_digit=group.get("digit", False)) for rule in rules)


def _rule(entry: Mapping[str, str]) -> SecretRule:
    check = getattr(secret_values, entry["check"]) if "check" in entry else None
    return SecretRule(SecretKind(entry["kind"]), _compiled(entry["pattern"], entry.get("flags", "i")), check)


def _vendor_rules() -> Iterator[SecretRule]:
    shapes = "|".join(pattern["shape"] for pattern in secret_values.SHAPES["pattern"])
    yield SecretRule(SecretKind.API_KEY, re.compile(rf"(?<![A-Za-z0-9])(?P<value>{shapes})"))
    for prefix in secret_values.SHAPES["prefix"]:
        longest_first = sorted(prefix["begins"], key=len, reverse=True)
        begins = "|".join(map(re.escape, longest_first))
        pattern = rf"(?<![A-Za-z0-9_])(?P<value>(?:{begins})[{prefix['alphabet']}]{{{prefix['least']},}})"
        is_key = partial(secret_values.is_key_behind, longest_first)
        yield SecretRule(
            SecretKind.API_KEY, re.compile(pattern), is_key, frozenset(map(str.casefold, prefix["begins"]))
        )


def _iban_rules() -> Iterator[SecretRule]:
    shapes = "|".join(
        rf"(?:{countries.replace(' ', '|')})\d\d(?:[ ]?[A-Z0-9]){{{int(length) - 4}}}"
        for length, countries in secret_values.SHAPES["iban_lengths"].items()
    )
    pattern = rf"(?<![A-Za-z0-9_])(?=[A-Z]{{2}}\d\d)(?P<value>{shapes})(?![A-Z0-9])"
    yield SecretRule(SecretKind.IBAN, re.compile(pattern, re.IGNORECASE), secret_values.has_iban_digits)


RULES: tuple[SecretRule, ...] = tuple(_rules())
"""In the order in which they are applied."""
_NEEDS = frozenset[str]().union(*(rule.needs for rule in RULES))
ASKED = _compiled("{asked}")
"""What a question asks for when the answer is a secret."""


MARK = "[redacted]"
"""Stands where a secret was. A candidate that contains it is not stored."""
_SCRIPTS_MEET = re.compile(rf"(?<=[{CJK_RANGE}])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])(?=[{CJK_RANGE}])")
_APART = "\x1f"
"""A blank that hardly a text has."""
_HALF_WIDTH = {
    code: code - 0xFEE0 for first, last in ("０９", "ＡＺ", "ａｚ") for code in range(ord(first), ord(last) + 1)
}
"""Full-width digits and letters as ASCII ones."""


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
    folded, has_digit = text.casefold(), any(map(str.isdigit, text))
    # Each is looked for once, though many rules need the same.
    found = {each for each in _NEEDS if each in folded}
    for rule in RULES:
        if (has_digit or not rule.needs_digit) and (not rule.needs or not found.isdisjoint(rule.needs)):
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

    rule: SecretRule
    kinds: list[SecretKind]

    def __call__(self, match: re.Match[str]) -> str:
        value = match["value"]
        if MARK in value or not (self.rule.is_secret is None or self.rule.is_secret(value)):
            return match.group()
        self.kinds.append(self.rule.kind)
        start, end = (place - match.start() for place in match.span("value"))
        return match.group()[:start] + MARK + match.group()[end:]
