"""The rules by which secrets are found: `secret_rules.toml`, and published shapes of credentials in `key_shapes.toml`. Pure.

Strategy: published shapes first, then values that stand behind a name, then numbers with check digits, last long random
strings. A name is a whole word, and what stands behind it must look like a value: digits for a PIN, for a password no word
that would describe one. Every pattern is linear in the text's length.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from semrouter_memory.language.scripts import WORD_END, WORD_START
from semrouter_memory.retain import secret_values

_NAME = re.compile(r"\{([a-z_]+)\}")
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
class Rule:
    """One shape of a secret.

    Attributes:
        pattern: its group `value` is what is taken out.
        is_secret: whether such a value is one; None: always.
        needs: one of these stands in every text, case-folded, that the pattern matches; (): any text may match. Looking
            for them costs a fraction of the pattern.
        needs_digit: a text without a digit does not match.
    """

    kind: SecretKind
    pattern: re.Pattern[str]
    is_secret: Callable[[str], bool] | None = None
    needs: tuple[str, ...] = ()
    needs_digit: bool = False


_PIECES = {**secret_values.DATA["pieces"], "word_start": WORD_START, "word_end": WORD_END}


def _compiled(pattern: str, flags: str = "i") -> re.Pattern[str]:
    return re.compile(_with_pieces(pattern), _FLAGS[flags])


def _with_pieces(pattern: str) -> str:
    return _NAME.sub(lambda name: _with_pieces(_PIECES[name[1]]), pattern.replace("\n", ""))


def _rules() -> Iterator[Rule]:
    made: Mapping[str, Callable[[], Iterator[Rule]]] = {"vendors": _vendor_rules, "ibans": _iban_rules}
    for group in secret_values.DATA["group"]:
        rules = made[group["made"]]() if "made" in group else map(_rule, group["rules"])
        needs = tuple(group.get("needs", "").split())
        yield from (replace(rule, needs=needs or rule.needs, needs_digit=group.get("digit", False)) for rule in rules)


def _rule(entry: Mapping[str, str]) -> Rule:
    check = getattr(secret_values, entry["check"]) if "check" in entry else None
    return Rule(SecretKind(entry["kind"]), _compiled(entry["pattern"], entry.get("flags", "i")), check)


def _vendor_rules() -> Iterator[Rule]:
    shapes = "|".join(pattern["shape"] for pattern in secret_values.SHAPES["pattern"])
    yield Rule(SecretKind.API_KEY, re.compile(rf"(?<![A-Za-z0-9])(?P<value>{shapes})"))
    for prefix in secret_values.SHAPES["prefix"]:
        longest_first = sorted(prefix["begins"], key=len, reverse=True)
        begins = "|".join(map(re.escape, longest_first))
        pattern = rf"(?<![A-Za-z0-9_])(?P<value>(?:{begins})[{prefix['alphabet']}]{{{prefix['least']},}})"
        is_key = partial(secret_values.is_key_behind, longest_first)
        yield Rule(SecretKind.API_KEY, re.compile(pattern), is_key, tuple(map(str.casefold, prefix["begins"])))


def _iban_rules() -> Iterator[Rule]:
    shapes = "|".join(
        rf"(?:{countries.replace(' ', '|')})\d\d(?:[ ]?[A-Z0-9]){{{int(length) - 4}}}"
        for length, countries in secret_values.SHAPES["iban_lengths"].items()
    )
    pattern = rf"(?<![A-Za-z0-9_])(?=[A-Z]{{2}}\d\d)(?P<value>{shapes})(?![A-Z0-9])"
    yield Rule(SecretKind.IBAN, re.compile(pattern, re.IGNORECASE), secret_values.has_iban_digits)


RULES: tuple[Rule, ...] = tuple(_rules())
"""In the order in which they are applied."""
ASKED = _compiled("{asked}")
"""What a question asks for when the answer is a secret."""
