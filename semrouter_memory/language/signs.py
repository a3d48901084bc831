"""What tells "A+" from "A-", "C++" from "C#", "$500" from "€500" and "-5" from "5", where words and numbers are the same. Pure."""

import re
from dataclasses import dataclass
from functools import lru_cache

from semrouter_memory.language.values import CURRENCIES, folded, units

_MINUS = re.compile(r"\u2212|\b(?:minus|negative) (?=\d)|(?:零下|负)(?=\d)")
_SIGNED = re.compile(
    r"(?<![a-z0-9])(?:[a-z][a-z0-9]{0,15}[+#]{1,3}(?![a-z0-9+#])|[a-z]{1,2}-(?![a-z0-9-])"
    r"|[a-z0-9]{1,32}(?:_[a-z0-9]{1,32}){1,4}|-\d{1,15}(?:[.,]\d{1,15}){0,4})"
)
"""C++, A-, foo_bar, -5."""


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of a text.

    Attributes:
        signed: words and numbers of which a sign is a part.
    """

    signed: frozenset[str]
    currencies: frozenset[str]

    def differ(self, other: "Signs") -> bool:
        """Whether the signs tell the texts apart. An amount without a currency may be of any."""
        return self.signed != other.signed or bool(
            self.currencies and other.currencies and self.currencies.isdisjoint(other.currencies)
        )

    def covers(self, other: "Signs") -> bool:
        """Whether the other text has no sign that this one lacks."""
        known = not self.currencies or other.currencies <= self.currencies
        return known and other.signed <= self.signed


@lru_cache(4_096)
def signs(text: str) -> Signs:
    """The signs of a text."""
    return Signs(frozenset(_SIGNED.findall(_MINUS.sub("-", folded(text)))), units(text) & CURRENCIES)
