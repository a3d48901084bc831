"""What rules for secrets are made of: kinds, published shapes, and the pieces of spoken forms. Pure.

Strategy: published shapes first (`key_shapes.toml`), then values that stand behind a name, then numbers with check digits,
last long random strings. A name is a whole word, and what stands behind it must look like a value: digits for a PIN,
for a password no word that would describe one. Every pattern is linear in the text's length.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from typing import Any

from semrouter_memory.retain import secret_values as values

Check = Callable[[str], bool]


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
        words = self.value.replace("_", " ")
        for short in ("api", "jwt", "pin", "iban", "id", "url"):
            words = re.sub(rf"\b{short}\b", short.upper(), words)
        return words if words.endswith("credentials") else f"{'an' if words[0] in 'aAI' else 'a'} {words}"


def _always(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """One shape of a secret.

    Attributes:
        pattern: its group `value` is what is taken out.
        is_secret: whether such a value is one.
        needs: one of these stands in every text, case-folded, that the pattern matches; (): any text may match. Looking
            for them costs a fraction of the pattern.
        needs_digit: a text without a digit does not match.
    """

    kind: SecretKind
    pattern: re.Pattern[str]
    is_secret: Check = _always
    needs: tuple[str, ...] = ()
    needs_digit: bool = False


def rule(kind: SecretKind, pattern: str, is_secret: Check = _always, *, flags: int = re.IGNORECASE) -> Rule:
    return Rule(kind, re.compile(pattern, flags), is_secret)


def needing(needs: str, *rules: Rule, digit: bool = False) -> tuple[Rule, ...]:
    return tuple(replace(rule, needs=tuple(needs.split()), needs_digit=digit) for rule in rules)


def _load() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("key_shapes.toml").read_text(encoding="utf-8"))


_DATA = _load()


def vendor_rules() -> Iterator[Rule]:
    shapes = "|".join(pattern["shape"] for pattern in _DATA["pattern"])
    yield rule(SecretKind.API_KEY, rf"(?<![A-Za-z0-9])(?P<value>{shapes})", flags=0)
    for prefix in _DATA["prefix"]:
        begins = "|".join(map(re.escape, sorted(prefix["begins"], key=len, reverse=True)))
        pattern = rf"(?<![A-Za-z0-9_])(?P<value>(?:{begins})[{prefix['alphabet']}]{{{prefix['least']},}})"
        found = rule(SecretKind.API_KEY, pattern, _behind(tuple(prefix["begins"])), flags=0)
        yield replace(found, needs=tuple(begin.casefold() for begin in prefix["begins"]))


def _behind(prefixes: tuple[str, ...]) -> Check:
    longest_first = sorted(prefixes, key=len, reverse=True)

    def is_key(value: str) -> bool:
        return values.is_key(value.removeprefix(next(each for each in longest_first if value.startswith(each))))

    return is_key


def iban_rule() -> Rule:
    shapes = "|".join(
        rf"(?:{countries.replace(' ', '|')})\d\d(?:[ ]?[A-Z0-9]){{{int(length) - 4}}}"
        for length, countries in _DATA["iban_lengths"].items()
    )
    return rule(
        SecretKind.IBAN, rf"(?<![A-Za-z0-9_])(?=[A-Z]{{2}}\d\d)(?P<value>{shapes})(?![A-Z0-9])", values.has_iban_digits
    )


def is_card(value: str) -> bool:
    digits = "".join(char for char in value if char.isdigit())
    issued = any(
        len(digits) in card["lengths"] and values.first_digits_in(digits, card["first"]) for card in _DATA["card"]
    )
    return issued and values.has_luhn_digit(digits)


# -- the pieces of spoken forms
NOT_IN_WORD = r"(?<![\w'’-])"
FOR = r"(?:\s(?:for|of|to|on|at|in|with|from|that|which|i|you|he|she|it|we|they|für|vom|zum|der|des|meiner|auf|de|del|du|da|para|pour|van|voor)\s(?!(?:\w{1,5}\s)?(?:heart|soul|success|happiness|life|love|wealth|peace|freedom)\b)[^.,;:?!\n\"“「]{1,60}?)?"
IS = r"(?:\s(?:is|are|was|were|remains|ist|lautet|war|est|es|é|是|为|為|=)\s?:?\s|['’]s\s|\s?(?:=|:|：)\s?)(?:(?:now|still|currently|again|actually|simply|just|jetzt)\s)?"
_WAS_SET = r"(?:\s(?:has\sbeen|have\sbeen|was|is|got)?\s?(?:changed|set|reset|updated|switched)\s(?:back\s)?to\s)"
QUOTE, END_QUOTE = r"[\"“‘'`「«]", r"[\"”’'`」»]"
WORD = r"[^\s\"“”‘’'`]{3,64}?(?=[.,;:!?)]*(?:[\s\"”’'`]|\Z))"
CLAUSE_END = r"(?=\s*(?:[.,;:!?)]+(?:\s|\Z)|\n|\Z|[。，；！？])|\s(?:and|but|so|or|please|because|since|which|though|for|on|at|in|if|don['’]?t|can|could|remember|keep|just|not|i|i['’]m)\b)"
NO_UNIT = (
    r"(?![\w.,-]*\d|\w|%|\s?(?:%|°|mm|cm|km|kg|mg|ml|kb|mb|gb|ft|inch(?:es)?|euros?|dollars?|usd|eur|each|times"
    r"|points?|miles?|pages?|people|years?|days?|hours?|minutes?|steps?)\b)"
)
WITH = r"(?:my|our|the|your|his|her|their|user['’]s|this|that)"

PASSWORD = rf"{NOT_IN_WORD}(?:passwords?|passwd|pass\s?phrases?|pass\s?codes?|pwd|pw|wi-?fi\skey|wlan[- ]key)(?!\w)"
PASSWORT = rf"{NOT_IN_WORD}(?:(?:\w{{2,16}}-?)?passwort|kennwort|contrase[ñn]a|mot\sde\spasse|senha|wachtwoord|clave\s(?:del?|de\sla)\s(?:wi-?fi|red|router|alarma|tarjeta)|parola\schiave)(?!\w)"
KEY = rf"{NOT_IN_WORD}(?:(?:api|secret|access|private|encryption|signing|master|ssh|aws)[ _-]?keys?|(?:api|signing|webhook|app|oauth)[ _-]?secrets?|(?:api|access|auth|bearer|refresh|session|bot|personal\saccess)[ _-]?tokens?|client[ _-]?secrets?)(?!\w)"
PIN = rf"{NOT_IN_WORD}(?:pins?(?:[ -]?(?:codes?|numbers?|no\.?|nr\.?|nummer))?|puk|geheimzahl|c[óo]digo\spin|code\spin)(?![\w-])"
ONE_TIME = rf"{NOT_IN_WORD}(?:otps?|totp|(?:one[\s-]time|verification|authentication|authenticator|auth|login|log-in|sign-?in|confirmation|2fa|mfa|sms|two[- ]factor|recovery|backup|activation)\s(?:codes?|passwords?|passcodes?|pins?)|bestätigungscode|code\sde\svérification|c[óo]digo\sde\sverificaci[óo]n)(?!\w)"
ACCESS = rf"{NOT_IN_WORD}(?:(?:front\s|back\s|garage\s)?(?:door|gate|alarm|garage|access|security|entry|entrance|lobby|lock|unlock|safe|locker|keypad|key\s?box|lock\s?box|vault|elevator|gym|lift|phone|tablet)\s(?:codes?|combination|combo|passcodes?)|t[üu]rcode|alarmcode|digicode|combination\s(?:for|of|to)\s(?:the|my|our)\s[\w ]{{1,30}})(?!\w)"
LOCKS = r"(?:door|gate|alarm|safe|lock|locker|garage|entry|entrance|lobby|keypad|key\s?box|lock\s?box|building|house|flat|apartment|cabin|shed|office|vault|mail\s?box|elevator|lift|gym|bike|suitcase|phone|tablet|ipad|iphone|laptop|airbnb|parking|storage|basement|intercom|room)"
CODE = r"[#*]?(?:\d{3,4}[ -]\d{3,4}|\d{1,3}(?:-\d{1,3}){2,4}|[\w#*]{3,12}(?:-[\w#*]{2,8}){0,6})"
DIGITS = rf"[#*]?(?:\d{{3,10}}|\d(?:[ -]\d){{3,9}}|\d{{2,3}}(?:[ -]\d{{2,3}}){{1,3}})[#*]?{NO_UNIT}"
FOUR_DIGITS = rf"[#*]?(?:\d{{4,10}}|\d{{3}}[ -]\d{{3}})[#*]?{NO_UNIT}"
DIGIT_WORD = (
    r"(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|null|eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun)"
)

K = SecretKind

BEFORE = r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,24}[_.-]){0,4}"
PREFIXED = r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,24}[_.-]){1,4}"
NAMED = r"(?:[A-Za-z0-9]{0,16}password|passwords|passwd|passphrase|pwd|pw|pass)"
SECRETS = r"(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|client[_-]?secret|(?:auth|access|refresh|api|bearer)[_-]?token)"
ASSIGNS = r"[\"']?\s{0,3}(?::=?|=>?)\s{0,3}"
QUOTED = r"[\"'](?P<value>[^\"'\n]{3,128})[\"']"
PHRASE = rf"(?P<value>[^\W\d_]{{2,24}}(?:[ -][^\W\d_]{{2,24}}){{0,7}}?){CLAUSE_END}"
SET_TO = rf"(?:{IS}|{_WAS_SET})"
