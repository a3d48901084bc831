"""What a clause leaves of the things and people that pronouns stand for. Pure.

Strategy: a clause may bring in somebody or something of the user's (`mentions`), and it may name others that a later
"it" or "she" could just as well mean. These rivals win: the pronoun then stands for nothing known ("" in the table)
until the user names something of their own again. Better nothing is stored than something of the wrong thing.
"""

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules import mentions
from semrouter_memory.retain.rules.persons import finite
from semrouter_memory.retain.wordlist import words

_PRONOUNS = ("it", "she", "he", "they")
_MAX_NOUN_WORDS = 4
_NOUN_PHRASE = re.compile(
    r"\b(?:(?P<one>an?|another|one|this|that)|the|my|our|your|his|her|their|its|some)\s(?P<what>[a-zA-ZÀ-ÿ][^,;:.!?()]*)",
    re.IGNORECASE,
)
_ENDS_A_NOUN_PHRASE = words(
    "of in on at to for from with by about near and or but that which who whose where when while as than so if because"
    " i we you he she it they me us him them my our your his her their its the a an this will would can cannot could"
    " should may must am be been being not"
)
_NO_SUBJECT = words(
    "i we you he she it they this that these those there here what which who whose how why when where if and but or so"
    " because since as while although though after before during in on at to for from with by about of near under until"
    " yes no not never always also maybe please then now today tomorrow tonight yesterday everything nothing something"
    " everyone nobody someone let thanks thank sorry"
)
_NEVER_IT = words(
    "day days night week weekend month year years hour minute morning evening afternoon moment while time times end way"
    " lot bit few little couple person head spring summer autumn fall winter fact kind sort rest same other first second"
    " third last next one name order middle beginning"
)
"""Measures and manners: no "it" stands for them."""
_OTHERS = words(
    "woman man lady guy person nurse waiter waitress guide host hostess driver clerk agent receptionist assistant owner"
    " seller buyer student officer stranger builder plumber electrician journalist author actor actress singer chef"
    " consultant recruiter interviewer pharmacist psychologist instructor lecturer guest visitor kid youngster"
)
_NOBODY = words("team family pet pets")
_IS_A = re.compile(
    r"\b(?:am|is|are|was|were|be|been|become|became|as|like|called)\s(?:(?:an?|the|my|our|also|just|not)\s)?(?:[\w-]+\s)?$",
    re.IGNORECASE,
)
"""Before what somebody is, which is nobody else: "she is a nurse"."""
_COMPANY = re.compile(
    r"\b(?:with|met|meet|saw|see|phoned|visited|know|knows|told|asked|hired|invited|(?:talk|talked|talking|spoke|speak|wrote|married|engaged) (?:to|with))\s(?P<name>[A-ZÀ-Þ][\w'’-]+)"
)


def followed(people: Mapping[str, str], clause: str, topic: str = "") -> dict[str, str]:
    """The table of pronouns after a clause.

    Args:
        people: the table before it; "" behind a pronoun means something, but nothing that is known.
        clause: contractions written out.
        topic: what the thread is about; naming it again brings in nothing else.
    """
    own = mentions.introduced(clause)
    known = {**people, **own}
    rivals = _other_people(clause, known) | (
        {"it"} if _other_thing(clause, own.get("it", ""), f"{known.get('it', '')} {topic}") else set()
    )
    return known | dict.fromkeys(rivals, "")


def renewed(people: Mapping[str, str]) -> dict[str, str]:
    """The table at a new topic: an "it" of which nothing is known may mean the topic again."""
    return {pronoun: who for pronoun, who in people.items() if who or pronoun != "it"}


def forgotten(people: Mapping[str, str]) -> dict[str, str]:
    """The table after words that are not read: whatever they named may be what a pronoun means."""
    return dict(people) | dict.fromkeys((pronoun for pronoun in _PRONOUNS if pronoun in people), "")


def _other_thing(clause: str, own: str, same: str) -> bool:
    first = clause.partition(" ")[0].lower()
    if first == "it":
        return False
    known = set(re.findall(r"[\w'’-]+", same.lower()))
    if subject := _subject(clause):
        return _may_be_it(subject, known) or (not own and _names_a_thing(clause, known))
    return not own and _names_a_thing(clause, known)


def _names_a_thing(clause: str, known: AbstractSet[str]) -> bool:
    return any(
        _may_be_it(_noun(found.group("what")), known, one=bool(found.group("one")))
        for found in _NOUN_PHRASE.finditer(clause)
    )


def _subject(clause: str) -> list[str]:
    """The words before the verb, without an article, when they are a noun; else none."""
    found = clause.replace(",", " ,").split()
    if not found or found[0].lower() in _NO_SUBJECT - {"this", "that"}:
        return []
    place = next((at for at, word in enumerate(found[: _MAX_NOUN_WORDS + 2]) if at and finite(word)), 0)
    return _noun(" ".join(found[:place])) if place else []


def _noun(text: str) -> list[str]:
    """The noun phrase that a text begins with, in lower case."""
    text = re.sub(r"^(?:the|an?|this|that|my|our|his|her|their)\s", "", text, flags=re.IGNORECASE)
    taken: list[str] = []
    for word in text.lower().split()[:_MAX_NOUN_WORDS]:
        if word in _ENDS_A_NOUN_PHRASE or (taken and finite(word)):
            break
        taken.append(word)
    return taken


def _may_be_it(noun: list[str], known: AbstractSet[str], *, one: bool = False) -> bool:
    if not noun or known & set(noun):
        return False
    head = noun[-1]
    plural = not one and head.endswith("s") and not head.endswith("ss")
    return not plural and head not in _NEVER_IT | lex.RELATIONS | lex.REPORTERS | _OTHERS and not head[0].isdigit()


def _other_people(clause: str, known: Mapping[str, str]) -> set[str]:
    rivals = {
        pronoun
        for relation, start in mentions.others(clause, lex.RELATIONS | lex.REPORTERS | _OTHERS)
        if relation not in _NOBODY and not _IS_A.search(clause[:start])
        for pronoun in mentions.pronouns_of(relation)
    }
    names = [found.group("name").lower() for found in _COMPANY.finditer(clause)]
    subject = _subject(clause)
    if subject and clause[0].isupper() and clause.partition(" ")[0].lower() == subject[0]:
        names.append(subject[0])
    return rivals | ({"she", "he"} if any(name not in known for name in names) else set())
