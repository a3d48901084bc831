"""Takes secrets out of a text before it is written anywhere.

Strategy: named shapes first (a key's published prefix, a PEM block, a JWT), then values that stand behind a name
("password is ..."), then numbers that prove themselves by a check sum (cards, IBAN), last long random strings. Phone
numbers, dates, prices, hashes and UUIDs are ordinary text and stay. Every pattern is linear in the text's length.
"""

import re
from collections.abc import Callable

from semrouter_memory.retain.wordlist import words

MARK = "[redacted]"
"""Stands where a secret was. A candidate that contains it is not stored."""

_SHAPES = re.compile(
    r"""
      -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z\ ]*PRIVATE\ KEY-----|\Z)
    | \beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?                      # JSON Web Token
    | \b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}                        # OpenAI, Anthropic, Stripe and who imitates them
    | \b(?:gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-|whsec_|dop_v1_|xapp-|xox[abeprs]-)[A-Za-z0-9_-]{10,}
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b
    | \bAIza[\w-]{30,}
    | \bSG\.[\w-]{16,}\.[\w-]{16,}
    """,
    re.VERBOSE | re.DOTALL,
)

_AUTHORIZATION = re.compile(r"\b(bearer|basic)\s+([A-Za-z0-9._~+/-]{12,}=*)", re.IGNORECASE)
_URL_CREDENTIALS = re.compile(r"(://)[^\s/:@]{1,128}:[^\s/@]{1,128}(@)")

_NAMED = (
    r"(?:password|passwd|passphrase|passcode|pwd|pass|secret|secret[_-]?key|(?:auth|access|refresh|api|bearer)?[_-]?token"
    r"|api[_-]?key|access[_-]?key|private[_-]?key|client[_-]?secret|credentials?)"
)
_ASSIGNMENT = re.compile(
    rf"(?<![A-Za-z0-9])((?:[A-Za-z0-9]{{1,24}}[_.-]){{0,4}}{_NAMED}[\"']?\s{{0,3}}(?:=|:=?|=>)\s{{0,3}})"
    r"(\"[^\"\n]{3,}\"|'[^'\n]{3,}'|[^\s\"',;]{4,})",
    re.IGNORECASE,
)
_SPOKEN = re.compile(
    r"\b((?:password|passwd|passphrase|passcode|pass\s?code|pwd|pin(?:\s(?:code|number))?|secret\skey|api[\s-]?key|access\stoken)"
    r"(?:\s(?:for|of|to|on)\s[^.,;:?!\n]{1,60}?)?\s(?:is|was|=)\s(?:now\s)?[\"'“]?)"
    # Up to the full stop behind it, so that the next sentence stays one.
    r"([^\s\"'”]{3,}?)(?=[.,;!?]*(?:[\s\"'”]|\Z))",
    re.IGNORECASE,
)
_SPOKEN_CHINESE = re.compile(
    r"((?:密码|口令|验证码|密钥|令牌|PIN码?)\s?(?:是|为|:|：|=)\s?[“\"]?)([!-~]{3,})", re.IGNORECASE
)
_CARD_CODE = re.compile(r"\b((?:cvv2?|cvc2?|card\ssecurity\scode)\W{0,3}(?:is\s|code\s)?)(\d{3,4})\b", re.IGNORECASE)
_SOCIAL_SECURITY = re.compile(
    r"\b((?:ssn|social\ssecurity(?:\snumber)?)\D{0,12})(\d{3}-?\d{2}-?\d{4})\b", re.IGNORECASE
)

_CARD = re.compile(r"(?<![\w.+-])[2-6]\d{3}(?:[ -]?\d){9,15}(?![\w-])")
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_RANDOM = re.compile(r"(?<![\w/.+=-])[A-Za-z0-9_+=-]{32,}(?![\w/.+=-])")

_NO_SECRET = words(
    "not wrong weak expired incorrect strong long short secure insecure lost gone changed required missing"
    " empty stored the a an my too very still always never being no none null true false invalid case hashed"
    " encrypted used set correct broken rejected denied there here same different easy hard known unknown"
)
_MIN_RANDOM_DIGITS = 3


def redact(text: str) -> str:
    """The text with `[redacted]` in place of secrets; names in front of them stay."""
    text = _SHAPES.sub(MARK, text)
    text = _AUTHORIZATION.sub(_if(_looks_random), text)
    text = _URL_CREDENTIALS.sub(rf"\1{MARK}\2", text)
    text = _ASSIGNMENT.sub(_if(_is_assigned_secret), text)
    text = _SPOKEN.sub(_if(_is_spoken_secret), text)
    text = _SPOKEN_CHINESE.sub(rf"\1{MARK}", text)
    text = _CARD_CODE.sub(rf"\1{MARK}", text)
    text = _SOCIAL_SECURITY.sub(rf"\1{MARK}", text)
    text = _CARD.sub(_if(_is_card), text)
    text = _IBAN.sub(_if(_is_iban), text)
    return _RANDOM.sub(_if(_is_mixed), text)


def is_redacted(text: str) -> bool:
    """Whether something was taken out of this text."""
    return MARK in text


def _if(is_secret: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    """Replace a match's last group (or the whole match) when it is a secret; what stands before it stays."""

    def replace(match: re.Match[str]) -> str:
        value = match.group(match.lastindex or 0)
        return match.group().removesuffix(value) + MARK if is_secret(value) else match.group()

    return replace


def _looks_random(value: str) -> bool:
    return any(char.isdigit() for char in value) or not value.islower()


def _is_assigned_secret(value: str) -> bool:
    bare = value.strip("\"'")
    if bare.lower() in _NO_SECRET or bare.startswith(("$", "<", "os.", "process.", "env(", MARK)):
        return False
    return value != bare or _looks_random(bare)


def _is_spoken_secret(value: str) -> bool:
    bare = value.rstrip(".,;:!?)")
    return bare.lower() not in _NO_SECRET and bare != MARK


def _is_card(value: str) -> bool:
    digits = [int(char) for char in value if char.isdigit()]
    doubled = [digit if index % 2 == 0 else sum(divmod(2 * digit, 10)) for index, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _is_iban(value: str) -> bool:
    compact = value.replace(" ", "")
    rearranged = compact[4:] + compact[:4]
    return int("".join(str(int(char, 36)) for char in rearranged)) % 97 == 1


def _is_mixed(value: str) -> bool:
    """Upper and lower case and digits in one long word: neither a hash, nor a UUID, nor an identifier."""
    return (
        any(char.isupper() for char in value)
        and any(char.islower() for char in value)
        and sum(char.isdigit() for char in value) >= _MIN_RANDOM_DIGITS
    )
