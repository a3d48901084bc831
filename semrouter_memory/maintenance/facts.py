"""What a text states that must not be lost or made up when texts are merged: values, units and names. Pure.

Strategy: sets that can be compared. Merging by rule must keep them; a model's summary must keep them and add none.
"""

import re
from collections.abc import Sequence

from semrouter_memory.language.scripts import CJK, CJK_RANGE
from semrouter_memory.language.terms import terms
from semrouter_memory.language.values import folded, split
from semrouter_memory.language.word_lists import word_set
from semrouter_memory.retain.reconciling.statement import statement

_UNIT = re.compile(
    rf"[$€£¥₹%°]|\d\s?(?P<unit>(?:[^\W\d_]|[{CJK_RANGE}]){{1,8}})|\b(?:dollars?|euros?|pounds?|bucks|usd|eur|gbp|chf|cny|rmb|jpy|yen|crowns?|pesos?)\b"
)
_SPELT = {
    "dollar": "$",
    "dollars": "$",
    "bucks": "$",
    "usd": "$",
    "euro": "€",
    "euros": "€",
    "eur": "€",
    "pound": "£",
    "pounds": "£",
    "gbp": "£",
    "yen": "¥",
    "jpy": "¥",
}
_CURRENCY = frozenset("$€£¥₹%°") | frozenset(_SPELT)
_NAME = re.compile(r"(?<=[\s(\"'“/-])[A-Z\u00c0-\u00de][\w'’-]*")
_FIRST_NAME = re.compile(r"^([A-Z\u00c0-\u00de][\w-]*)(?:['’]s)?\s(?=(?:[a-z]+s|had|and|or|will)\b)")
_DIGITS = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NO_NAMES = frozenset({"user", "i", "the", "a", "an", "on", "in", "to", "final", "added"})
_MONTHS = word_set(
    "jan january feb february mar march apr april may jun june jul july aug august sep sept september oct october nov"
    " november dec december"
)
_PAST = re.compile(r"\b(?:was|were|used to|former|formerly|previously|ex|had)\b|以前|曾经|过去")


def values_of(text: str) -> frozenset[str]:
    """Amounts, dates, times and whatever else has digits in it, in one spelling."""
    values, rest = split(text)
    return values | {term for term in terms(rest) if any(char.isdigit() for char in term)}


def units_of(text: str) -> frozenset[str]:
    """Currencies and per cent; "$" and "dollars" are one, "$" and "€" are two."""
    found = (match.group() for match in _UNIT.finditer(folded(text)))
    return frozenset(_SPELT.get(unit, unit) for unit in found if unit in _CURRENCY)


def names_of(text: str) -> frozenset[str]:
    """Capitalised words, but for the first one where it need not be a name."""
    found = [*_NAME.findall(text), *_FIRST_NAME.findall(text)]
    return frozenset(bare for name in found if (bare := _bare(name)) not in _NO_NAMES)


def digits_of(text: str) -> frozenset[str]:
    """Every number as it is written, without separators of thousands."""
    return frozenset(found.replace(",", "") for found in _DIGITS.findall(text))


def is_past(text: str) -> bool:
    """Tells how it was, not how it is; the tokens of both are the same."""
    return bool(_PAST.search(folded(text)))


def is_han(text: str) -> bool:
    return bool(CJK.search(text))


def keeps_everything(summary: str, originals: Sequence[str]) -> bool:
    """Whether every number, date, unit and name of the originals is in the summary."""
    said = _words(summary)
    values, units, digits = values_of(summary), units_of(summary), digits_of(summary)
    return all(
        values_of(text) <= values
        and units_of(text) <= units
        # A number that became a value may be written otherwise: $10,000 and $10k.
        and (digits_of(text) <= digits or len(digits_of(text)) <= len(values_of(text)))
        and names_of(text) <= said
        and frozenset(CJK.findall(text)) - _FUNCTION_CHARS <= frozenset(CJK.findall(summary))
        for text in originals
    )


def adds_nothing(summary: str, originals: Sequence[str]) -> bool:
    """Whether every number, date, unit and name of the summary is in an original, and it denies as they do."""
    together = " ; ".join(originals)
    return (
        values_of(summary) <= values_of(together)
        and units_of(summary) <= units_of(together)
        # A month is part of a date, which is compared as a value.
        and names_of(summary) - _MONTHS <= _words(together)
        and _denies(summary) == any(_denies(text) for text in originals)
    )


_FUNCTION_CHARS = frozenset("用户的是了在也和有就都着过得地")


def _denies(text: str) -> bool:
    return bool({"negated", "ended"} & statement(text).marks)


def _words(text: str) -> frozenset[str]:
    return frozenset(_bare(word) for word in re.findall(r"[\w'’-]+", text))


def _bare(word: str) -> str:
    word = word.casefold().replace("’", "'")
    return word.removesuffix("'s").strip("'-")
