"""How the facts of statements compare: the same attribute, another value, a text that says no more. Pure."""

import re
import tomllib
from functools import lru_cache
from importlib import resources

from semrouter_memory.language.scripts import CJK, CJK_RANGE
from semrouter_memory.language.terms import terms
from semrouter_memory.language.values import NUMBER_WORDS
from semrouter_memory.language.word_lists import word_set
from semrouter_memory.model import Fact

DATA = tomllib.loads(resources.files(__package__).joinpath("statements.toml").read_text(encoding="utf-8"))
_PEOPLE = word_set(DATA["people"])
_SAME = {
    stem: term
    for entry in DATA["same"].split()
    for stem, term in zip(*(terms(word) for word in entry.split("=")), strict=True)
}
_LIGHT_TERMS = frozenset(term for word in word_set(DATA["light"]) for term in terms(word))
MANY = frozenset({"allergy", "has", "owns", "likes", "dislikes", "preference", "diet", "answers", "birth", "origin"})
"""Attributes of which a user has several, or that do not change."""
_ARTICLES = word_set("a an the about around roughly only at up to")
NUMBER = re.compile(
    rf"\d|\b(?:{'|'.join(NUMBER_WORDS)})\b|[一二两三四五六七八九十百千万]+(?:元|块|万|千|号|月)",
    re.IGNORECASE,
)
_DATE = re.compile(
    r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tues|wednes|thurs|fri|satur|sun)[a-z]*\b|\d(?:[:/]\d|st\b|nd\b|rd\b|th\b)|\d{4}-\d|[月号点周]",
    re.IGNORECASE,
)
_NAME = re.compile(rf"\b(?!I\b)[A-Z][\w'-]*|[{CJK_RANGE}]")


def kind(value: str) -> str:
    """What sort of value it is; only values of one sort are compared."""
    if _DATE.search(value) and (NUMBER.search(value) or not CJK.search(value)):
        return "date"
    first = next((word for word in value.split() if word.lower() not in _ARTICLES), "")
    if NUMBER.search(first):
        return "number"
    return "name" if is_name(value) else "number" if NUMBER.search(value) else "word"


def is_name(value: str) -> bool:
    return bool(_NAME.search(value))


def same_attribute(one: Fact, other: Fact) -> bool:
    """Whether both give a value to the same thing."""
    return _key(one.attribute) == _key(other.attribute)


def is_replaced(old: Fact, new: Fact) -> bool:
    """Whether the newer one gives another value to what has one value at a time."""
    if old.attribute in MANY or {*old.attribute.lower().split()} & _PEOPLE or not same_attribute(old, new):
        return False
    one, other = _terms(old.value), _terms(new.value)
    if one <= other or other <= one:
        return False
    return bool({"favorit"} & _key(old.attribute)) or kind(old.value) == kind(new.value)


def same_value(one: Fact, other: Fact) -> bool:
    return _terms(one.value) == _terms(other.value)


def covers(text: str, content: str) -> bool:
    """Whether a text has every content word of another one."""
    return _terms(content) - _LIGHT_TERMS <= _terms(text)


@lru_cache(1_024)
def _key(attribute: str) -> frozenset[str]:
    return (_terms(attribute) - _LIGHT_TERMS) or _terms(attribute)


@lru_cache(1_024)
def _terms(text: str) -> frozenset[str]:
    return frozenset(_SAME.get(term, term) for term in terms(text))
