"""Takes secrets out of a text before it is written anywhere. Pure.

Phone numbers, dates, prices, hashes and UUIDs are ordinary text and stay; the name in front of a secret stays too.

Strategy: the rules are data (`secret_rules.toml`, and published shapes of credentials in `key_shapes.toml`), applied in order:
shapes first, then values that stand behind a name, then numbers with check digits, last long random strings. A name is a
whole word, and what stands behind it must look like a value: digits for a PIN, for a password no word that would describe
one (the functions that the rules name). Every pattern is linear in the text's length.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import groupby, pairwise

from semrouter_memory.language.phrases import lists, pieced, word_set
from semrouter_memory.language.scripts import CJK_RANGE, WORD_END, WORD_START, simplified, visible

DATA, SHAPES = lists("secret_rules", __package__), lists("key_shapes", __package__)
_WORDS = {name: word_set(listed) for name, listed in DATA["words"].items()}
_FUNCTION_WORDS, _DESCRIPTIONS, _THINGS = (_WORDS[name] for name in ("function_words", "descriptions", "things"))
_DESCRIBE = {"ed": 3, "ing": 3, "able": 3, "ible": 3, "less": 3, "ously": 3, "ly": 3, "ful": 3, "ous": 4, "ive": 4}
"""Endings of words that describe something, and how many letters stand before them at least."""
_MEASURE = re.compile(
    r"\d{1,6}(?:[.,]\d+)?(?:%|\+|[-\s]?(?:st|nd|rd|th|x|k|m|h|d|s|ms|mm|cm|km|g|kg|lb|lbs|gb|mb|kb|[kmg]?hz|[kmg]?bits?"
    r"|[kmg]bps|byte|bytes|am|pm|min|mins|minutes?|hours?|hrs?|days?|weeks?|months?|years?"
    r"|char|chars|characters?|letters?|digits?|symbols?|words?|numbers?|factor|step|party|times|percent|pages?|steps?|people"
    r"|items?)(?:-\w+)*)|[vV]\d+(?:\.\d+)*|\d{1,2}/7",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{1,2}:\d\d")
_PLACEHOLDER = re.compile(r"[$%{<(\[]|os\.|process\.|env[(.\[]|\*+$|\.{3}|…|x{3,}$|https?://", re.IGNORECASE)
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]")
_TRAILING = ".,;:!?)]}>'\"”’»"
_MIN_RANDOM_DIGITS = 3
_MOST_WORDY = 0.4
_WORD_LETTERS = 4
_MIN_CHANGES = 4
_MIN_CODE_DIGITS = 3
_MIN_KEY_DIGITS = 2
_MIN_SECRET_DIGITS = 6
_MIN_PASSWORD_CHARS = 5
_MIN_LICENCE_DIGITS = 8
_MIN_HEX_DIGITS = 32


# -- whether a value is a secret ---------------------------------------------------------------------------------------


def says_nothing(word: str) -> bool:
    """Whether it is a function word or describes a secret ("expired"), rather than being one."""
    bare = word.strip(_TRAILING + "(“‘").lower()
    return not bare or bare in _FUNCTION_WORDS or bare in _DESCRIPTIONS or (bare not in _THINGS and _describes(bare))


def _describes(word: str) -> bool:
    letters = word.isascii() and word.isalpha()
    return letters and any(word.endswith(end) and len(word) - len(end) >= least for end, least in _DESCRIBE.items())


def is_function_word(word: str) -> bool:
    return word.lower() in _FUNCTION_WORDS


def is_strong(value: str) -> bool:
    """A token that no sentence needs: digits in it, symbols, or capitals behind small letters."""
    bare = value.rstrip(_TRAILING)
    if (
        not bare
        or bare.lower() in _DESCRIPTIONS
        or _PLACEHOLDER.match(value)
        or _MEASURE.fullmatch(bare)
        or _DATE.fullmatch(bare)
    ):
        return False
    if any(char.isdigit() for char in bare):
        return True
    return bool(re.search(r"[!@#$^&*+=~|\\]|\w_\w|[a-z][A-Z]", value.rstrip(".,;:?)"))) and not says_nothing(bare)


def is_mixed_token(value: str) -> bool:
    """Letters and digits in one token, which is neither a measure nor a version: enough where no verb connects it."""
    bare = value.rstrip(_TRAILING)
    return is_strong(bare) and any(char.isdigit() for char in bare) and any(char.isalpha() for char in bare)


def is_passphrase(value: str) -> bool:
    """Plain words, none of which a description of a password would need."""
    parts = re.split(r"[ -]", value)
    return all(len(part) > 1 for part in parts) and not any(map(says_nothing, parts))


def is_quoted_secret(value: str) -> bool:
    """What stands in quotation marks behind a name."""
    return not _PLACEHOLDER.match(value) and not (" " not in value and says_nothing(value))


def is_bare_password(value: str) -> bool:
    """What stands behind a name without a verb: letters and digits mixed, or many digits."""
    bare = value.rstrip(_TRAILING)
    return (
        "=" not in value
        and not value.startswith("-")
        and (
            (len(bare) >= _MIN_PASSWORD_CHARS and is_mixed_token(bare))
            or (bare.isdigit() and len(bare) >= _MIN_SECRET_DIGITS)
        )
    )


def is_assigned(value: str) -> bool:
    """What code or a file of settings assigns to a password: anything but a name, a call, or a state."""
    bare = value.rstrip(".,;)")
    if _PLACEHOLDER.match(bare) or _CALL.match(bare):
        return False
    return is_strong(bare) or not (says_nothing(bare) or "_" in bare or "." in bare)


def is_said_in_chinese(value: str) -> bool:
    return not (_PLACEHOLDER.match(value) or says_nothing(value) or _MEASURE.fullmatch(value))


def is_url_login(value: str) -> bool:
    return not _PLACEHOLDER.match(value.partition(":")[2])


def is_code(value: str) -> bool:
    """A code that is typed in: three digits or more, or letters and digits mixed."""
    bare = value.strip("#*").rstrip(_TRAILING)
    digits = sum(char.isdigit() for char in bare)
    if _MEASURE.fullmatch(bare) or _DATE.fullmatch(bare):
        return False
    return digits >= _MIN_CODE_DIGITS or (digits > 0 and len(bare) >= _MIN_CHANGES and bare.isascii())


def is_licence_key(value: str) -> bool:
    """Groups of letters and digits, or many digits: no year, no count."""
    digits = sum(char.isdigit() for char in value)
    return digits >= _MIN_LICENCE_DIGITS or (is_mixed_token(value) and len(value) >= _MIN_PASSWORD_CHARS)


def is_key(body: str) -> bool:
    """What follows a vendor's prefix: not words and numbers joined by signs."""
    segments = "".join(char if char.isalnum() else " " for char in body).split()
    if all(
        part.isdigit()
        or (part.islower() and part.isalpha())
        or (part.isupper() and part.isalpha())
        or (part.istitle() and part.isalpha())
        for part in segments
    ):
        return False
    return sum(char.isdigit() for char in body) >= _MIN_KEY_DIGITS or _changes(body) >= _MIN_CHANGES


def is_key_behind(prefixes: Sequence[str], value: str) -> bool:
    """Whether a key follows the prefix; the longest ones come first."""
    return is_key(value.removeprefix(next(each for each in prefixes if value.startswith(each))))


def _changes(value: str) -> int:
    """How often small letters, capitals and digits take turns."""
    classes = ["d" if char.isdigit() else "u" if char.isupper() else "l" if char.islower() else "" for char in value]
    return sum(bool(one and other) and one != other for one, other in pairwise(classes))


def is_random(value: str) -> bool:
    """Upper and lower case and digits in one long word: neither a hash, nor a UUID, nor words joined to a name."""
    letters = sum(char.isalpha() for char in value)
    runs = (len(list(run)) for lower, run in groupby(value, str.islower) if lower)
    wordy = sum(length for length in runs if length >= _WORD_LETTERS)
    return (
        any(char.isupper() for char in value)
        and any(char.islower() for char in value)
        and sum(char.isdigit() for char in value) >= _MIN_RANDOM_DIGITS
        and wordy <= _MOST_WORDY * letters
    )


def is_token(value: str) -> bool:
    """A random string, or the hexadecimal digits of one: no name of a column, no UUID."""
    return is_random(value) or (len(value) >= _MIN_HEX_DIGITS and not value.lower().strip("0123456789abcdef"))


def is_credentials(value: str) -> bool:
    """What follows "Bearer" or "Basic": `dXNlcjpwYXNz`, not "Understanding"."""
    return (
        value.endswith("=")
        or (any(char.isdigit() for char in value) and any(char.isalpha() for char in value))
        or _changes(value) >= _MIN_CHANGES
    )


def is_seed_phrase(value: str) -> bool:
    """Words without grammar: of a mnemonic's words few are function words."""
    said = re.split(r"[ ,]+", value)
    return sum(map(is_function_word, said)) * 4 <= len(said)


def has_luhn_digit(digits: str) -> bool:
    """The check digit of a payment card."""
    doubled = [
        int(char) if index % 2 == 0 else sum(divmod(2 * int(char), 10)) for index, char in enumerate(reversed(digits))
    ]
    return sum(doubled) % 10 == 0


def is_citizen_number(value: str) -> bool:
    """The check character of a Chinese identity number."""
    weighted = sum(int(digit) * (1 << (17 - index)) % 11 for index, digit in enumerate(value[:17]))
    return "10X98765432"[weighted % 11] == value[17].upper()


def has_iban_digits(value: str) -> bool:
    """The check digits of an IBAN."""
    compact = value.replace(" ", "")
    return int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def is_account_number(value: str) -> bool:
    return not _DATE.fullmatch(value.strip())


def is_card(value: str) -> bool:
    """A number that an issuer of payment cards may give out, with its check digit."""
    digits = "".join(char for char in value if char.isdigit())
    issued = any(
        len(digits) in card["lengths"]
        and any(low <= int(digits[: len(str(low))]) <= high for low, high in card["first"])
        for card in SHAPES["card"]
    )
    return issued and has_luhn_digit(digits)


# -- rules -------------------------------------------------------------------------------------------------------------


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


_PIECES = {**DATA["pieces"], "word_start": WORD_START, "word_end": WORD_END}


def _compiled(pattern: str, flags: str = "i") -> re.Pattern[str]:
    return re.compile(pieced(pattern, _PIECES), _FLAGS[flags])


def _rules() -> Iterator[SecretRule]:
    made: Mapping[str, Callable[[], Iterator[SecretRule]]] = {"vendors": _vendor_rules, "ibans": _iban_rules}
    for group in DATA["group"]:
        rules = made[group["made"]]() if "made" in group else map(_rule, group["rules"])
        needs = frozenset(group.get("needs", "").split())
        yield from (replace(rule, needs=needs or rule.needs, needs_digit=group.get("digit", False)) for rule in rules)


def _rule(entry: Mapping[str, str]) -> SecretRule:
    check = globals()[entry["check"]] if "check" in entry else None
    return SecretRule(SecretKind(entry["kind"]), _compiled(entry["pattern"], entry.get("flags", "i")), check)


def _vendor_rules() -> Iterator[SecretRule]:
    shapes = "|".join(pattern["shape"] for pattern in SHAPES["pattern"])
    yield SecretRule(SecretKind.API_KEY, re.compile(rf"(?<![A-Za-z0-9])(?P<value>{shapes})"))
    for prefix in SHAPES["prefix"]:
        longest_first = sorted(prefix["begins"], key=len, reverse=True)
        begins = "|".join(map(re.escape, longest_first))
        pattern = rf"(?<![A-Za-z0-9_])(?P<value>(?:{begins})[{prefix['alphabet']}]{{{prefix['least']},}})"
        is_key = partial(is_key_behind, longest_first)
        yield SecretRule(
            SecretKind.API_KEY, re.compile(pattern), is_key, frozenset(map(str.casefold, prefix["begins"]))
        )


def _iban_rules() -> Iterator[SecretRule]:
    shapes = "|".join(
        rf"(?:{countries.replace(' ', '|')})\d\d(?:[ ]?[A-Z0-9]){{{int(length) - 4}}}"
        for length, countries in SHAPES["iban_lengths"].items()
    )
    pattern = rf"(?<![A-Za-z0-9_])(?=[A-Z]{{2}}\d\d)(?P<value>{shapes})(?![A-Z0-9])"
    yield SecretRule(SecretKind.IBAN, re.compile(pattern, re.IGNORECASE), has_iban_digits)


RULES: tuple[SecretRule, ...] = tuple(_rules())
"""In the order in which they are applied."""
_NEEDS = frozenset[str]().union(*(rule.needs for rule in RULES))
ASKED = _compiled("{asked}")
"""What a question asks for when the answer is a secret."""


# -- texts -------------------------------------------------------------------------------------------------------------


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
    """The text with `[redacted]` in place of secrets; where characters hid a secret, without these characters.

    The rules name secrets in simplified Chinese, so what holds one comes out in it.
    """
    plain = simplified(visible(text).translate(_HALF_WIDTH))
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
