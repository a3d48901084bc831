"""How the facts of statements compare: the same attribute, another value, a text that says no more. Pure."""

from functools import lru_cache

from semrouter_memory.language.phrases import lists, word_set
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.signs import signs
from semrouter_memory.language.terms import terms
from semrouter_memory.language.values import kinds, values
from semrouter_memory.model import Fact

DATA = lists("statements", __package__)
_PEOPLE = word_set(DATA["people"])
_SAME = {
    stem: term
    for entry in DATA["same"].split()
    for stem, term in zip(*(terms(word) for word in entry.split("=")), strict=True)
}
_LIGHT_TERMS = frozenset(term for word in word_set(DATA["light"]) for term in terms(word))
MANY = frozenset({"allergy", "has", "owns", "likes", "dislikes", "preference", "diet", "answers", "birth", "origin"})
"""Attributes of which a user has several, or that do not change."""
_PRONOUNS = word_set("I I'm I've I'd I'll")
_ARTICLES = word_set("a an the about around roughly only at up to")
_DATES = frozenset({"date", "month", "day", "time"})
_NO_NUMBERS = frozenset({"ordinal", "address", "month", "day"})


def kind(value: str) -> str:
    """What sort of value it is; only values of one sort are compared."""
    found = kinds(values(value)).keys()
    if found & _DATES or ("ordinal" in found and any(map(str.isdigit, value))):
        return "date"
    first = next((word for word in value.split() if word.lower() not in _ARTICLES), "")
    if has_number(first):
        return "number"
    return "name" if is_name(value) else "number" if has_number(value) else "word"


def has_number(value: str) -> bool:
    return any(map(str.isdigit, value)) or bool(kinds(values(value)).keys() - _NO_NUMBERS)


def is_name(value: str) -> bool:
    words = value.replace("-", " ").replace("/", " ").split()
    return any(word.lstrip("\"'“(")[:1].isupper() and word not in _PRONOUNS for word in words) or bool(
        CJK.search(value)
    )


def same_attribute(one: Fact, other: Fact) -> bool:
    """Whether both give a value to the same thing."""
    return _key(one.attribute) == _key(other.attribute)


def is_replaced(old: Fact, new: Fact) -> bool:
    """Whether the newer one gives another value to what has one value at a time."""
    if old.attribute in MANY or {*old.attribute.lower().split()} & _PEOPLE or not same_attribute(old, new):
        return False
    one, other = _terms(old.value), _terms(new.value)
    if not _other_signs(old, new) and (one <= other or other <= one):
        return False
    return bool({"favorit"} & _key(old.attribute)) or kind(old.value) == kind(new.value)


def same_value(one: Fact, other: Fact) -> bool:
    return _terms(one.value) == _terms(other.value) and not _other_signs(one, other)


def _other_signs(one: Fact, other: Fact) -> bool:
    return signs(one.value).differ(signs(other.value))


def covers(text: str, content: str) -> bool:
    """Whether a text has every content word of another one."""
    return _terms(content) - _LIGHT_TERMS <= _terms(text)


@lru_cache(1_024)
def _key(attribute: str) -> frozenset[str]:
    return (_terms(attribute) - _LIGHT_TERMS) or _terms(attribute)


@lru_cache(1_024)
def _terms(text: str) -> frozenset[str]:
    return frozenset(_SAME.get(term, term) for term in terms(text))
