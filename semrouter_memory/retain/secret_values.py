"""Tells a secret's value from ordinary words: what stands behind "my password is" may also describe it. Pure."""

import re
from collections.abc import Sequence
from itertools import groupby, pairwise

from semrouter_memory.language.phrases import lists, word_set

DATA, SHAPES = lists("secret_rules", __package__), lists("key_shapes", __package__)
_WORDS = {name: word_set(listed) for name, listed in DATA["words"].items()}
_FUNCTION_WORDS, _DESCRIPTIONS, _THINGS = (_WORDS[name] for name in ("function_words", "descriptions", "things"))
_DESCRIBE = {"ed": 3, "ing": 3, "able": 3, "ible": 3, "less": 3, "ously": 3, "ly": 3, "ful": 3, "ous": 4, "ive": 4}
"""Endings of words that describe something, and how many letters stand before them at least."""
_MEASURE = re.compile(
    r"\d{1,6}(?:[.,]\d+)?(?:%|[-\s]?(?:st|nd|rd|th|x|k|m|h|d|s|ms|mm|cm|km|g|kg|lb|lbs|gb|mb|kb|[kmg]?hz|[kmg]?bits?"
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
    if not bare or _PLACEHOLDER.match(value) or _MEASURE.fullmatch(bare) or _DATE.fullmatch(bare):
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
