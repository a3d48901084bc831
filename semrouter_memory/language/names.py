"""Names in texts: people, places, organisations, products and what the user calls their own. Pure.

Strategy: a name is a run of capitalised words. A capital at the beginning of a sentence says nothing, so such a word counts only
where the owner's texts have it in a capital elsewhere and nowhere in small letters. "My sister Anna" gives Anna the alias
"sister", and the texts that speak of the user's sister are texts of Anna as long as there is no second one; "Anna" is an alias of
"Anna Schmidt" in the same way. Of Chinese names only those are found that a sentence gives ("我妹妹叫小雨").
"""

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from semrouter_memory.language.values import MONTHS, WEEKDAYS
from semrouter_memory.language.words import STOP_WORDS

_CAPITAL = "[A-ZÀ-ÖØ-Þ]"
_WORD = rf"{_CAPITAL}[^\W\d_]*(?:['’-]{_CAPITAL}[^\W\d_]+|\d)*"
_SMALL = re.compile(r"\b[a-z]+\b")
_NAME = re.compile(rf"(?<![\w'’@/.]){_WORD}(?:\s(?:(?:of|the|de|la|van|von|der)\s)?{_WORD})*(?![\w@/])")
_SENTENCE_ENDS = frozenset('.!?:;\n"“(')
_NO_NAMES = frozenset({*MONTHS, *WEEKDAYS, "i", "user", "user's", "ok", "the", "a", "an", "my"})
_OWN = re.compile(
    rf"\b(?:[Mm]y|[Uu]ser['’]s)\s(?P<thing>[a-z]+(?:\s[a-z]+)??)(?:,|\sis\s(?:called|named)|['’]s\sname\sis|,?\s(?:called|named))?"
    rf"\s(?P<name>{_WORD}(?:\s{_WORD})*)"
    r"|我(?:的|家)?(?P<han>[一-鿿]{1,3}?)(?:的名字)?(?:名)?叫(?:做|作)?(?P<called>[一-鿿]{2,3}|[A-Z]\w+)"
)
_OF_THE_USER = re.compile(
    r"(?:\b(?:my|user['’]s)\s|我)"
    r"(?=(?:的|家)?(?P<thing>[a-z]+)\b(?:(?P<second>\s[a-z]+)\b)?|(?P<han>[一-鿿]{1,4}))",
    re.IGNORECASE,
)
"""What the user calls theirs, somewhere: one or two words, or up to three characters."""
_TITLE = re.compile(rf"\b(?:Dr|Mr|Mrs|Ms|Prof)\.?\s(?={_CAPITAL})")
_LONGEST = 100


_CAPITALISED = re.compile(rf"(?:(?<![.!?:]\s)|(?<=[DM][rs]\.\s)|(?<=Mrs\.\s))(?<=[\s(\"'“/-]){_CAPITAL}[\w'’&+-]*")


def capitalised(text: str) -> list[str]:
    """The capitalised words inside sentences: names, as a rule, and "I"."""
    return _CAPITALISED.findall(text)


@dataclass(frozen=True, slots=True)
class Entity:
    """A name with what else stands for it.

    Attributes:
        aliases: shorter forms of it, and what it is of the user's ("sister").
        texts: keys of the texts that speak of it, in their order.
    """

    name: str
    aliases: tuple[str, ...]
    texts: tuple[str, ...]


def entities(texts: Mapping[str, str]) -> list[Entity]:
    """The names in one owner's texts, in the order of the alphabet.

    Args:
        texts: by key.
    """
    # A title is no part of a name, and its stop ends no sentence.
    texts = {key: _TITLE.sub("", text) for key, text in texts.items()}
    small = {word for text in texts.values() for word in _SMALL.findall(text)} | STOP_WORDS
    runs = {key: list(_runs(text)) for key, text in texts.items()}
    sure = {name for each in runs.values() for name, is_first in each if not is_first}
    found: dict[str, list[str]] = {}
    for key, each in runs.items():
        for name, is_first in each:
            if meant := name if not is_first else _at_the_start(name, sure, small):
                found.setdefault(meant, []).append(key)
    own = _own_things(texts.values())
    for name in {*own.values()} - found.keys():
        found[name] = [key for key, text in texts.items() if name in text]
    aliases = _aliases(found, own)
    found |= _spoken_of(texts, own.keys() - found.keys())
    standing_for: dict[str, list[str]] = {}
    for alias, whole in aliases.items():
        standing_for.setdefault(whole, []).append(alias)
    places = {key: place for place, key in enumerate(texts)}
    entities = []
    for name in sorted(found.keys() - aliases.keys()):
        short = sorted(standing_for.get(name, ()))
        keys = {key for each in (name, *short) for key in found.get(each, ())}
        entities.append(Entity(name, tuple(short), tuple(sorted(keys, key=places.__getitem__))))
    return entities


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """Runs of capitalised words, and whether each stands at the beginning of a sentence."""
    for match in _NAME.finditer(text):
        name = match.group()
        if len(name) <= _LONGEST and not all(word.lower() in _NO_NAMES for word in name.split()):
            yield name, _begins_sentence(text, match.start())


def _begins_sentence(text: str, at: int) -> bool:
    """Whether only a sentence's end, or nothing, stands before this place and behind the word before."""
    while at:
        at -= 1
        if text[at] in _SENTENCE_ENDS or text[at].isalnum() or text[at] == "_":
            return text[at] in _SENTENCE_ENDS
    return True


def _at_the_start(run: str, sure: Container[str], small: Container[str]) -> str:
    """The name in a sentence's first words: all of "Anna Schmidt", of "Yesterday Anna" the second word; "" for none."""
    first, _, rest = run.partition(" ")
    if first.lower() in small:
        return "" if rest.lower() in _NO_NAMES else rest
    return run if run in sure or first in sure else ""


def _own_things(texts: Iterable[str]) -> dict[str, str]:
    """What the user calls theirs, and its name; without what has several."""
    own: dict[str, set[str]] = {}
    for text in texts:
        for match in _OWN.finditer(text):
            thing = match["thing"] or match["han"]
            # "My budget for Hawaii" names no budget.
            if thing.rpartition(" ")[2] not in STOP_WORDS:
                own.setdefault(thing, set()).add(match["name"] or match["called"])
    return {thing: next(iter(names)) for thing, names in own.items() if len(names) == 1}


def _aliases(found: Collection[str], own: Mapping[str, str]) -> dict[str, str]:
    """Each alias with the one name that it stands for."""
    by_end: dict[str, list[str]] = {}
    for name in found:
        for word in {name.split()[0], name.split()[-1]} - {name}:
            by_end.setdefault(word, []).append(name)
    aliases = dict(own) | {name: by_end[name][0] for name in found if len(by_end.get(name, ())) == 1}
    return {alias: aliases.get(name, name) for alias, name in aliases.items()}


def _spoken_of(texts: Mapping[str, str], things: set[str]) -> dict[str, list[str]]:
    """Of what the user calls theirs, keys of the texts that speak of it."""
    found: dict[str, list[str]] = {}
    for key, text in texts.items():
        for match in _OF_THE_USER.finditer(text):
            for thing in things & _things(match):
                found.setdefault(thing, []).append(key)
    return found


def _things(match: re.Match[str]) -> set[str]:
    if han := match["han"]:
        starts = (0, 1) if han[0] in "的家" else (0,)
        return {han[start : start + size] for start in starts for size in (1, 2, 3)}
    first = match["thing"].lower()
    return {first, first + (match["second"] or "").lower()}
