"""What looks like a statement about the user and is none: what others say of them, and what a pronoun hides. Pure.

Strategy: what somebody says of the user is that person's view, so the sentence ends where it begins; only people whose
word counts as a finding (doctors, lawyers) are excepted. A pronoun as object needs something that it stands for, in the
clause or among the people spoken of; without it the clause says nothing a week later. In doubt nothing is stored.
"""

import re
from collections.abc import Mapping

from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.predicates import substantial

_SAYS = (
    r"(?:asks|asked|say|says|said|saying|tell|tells|told|telling|claim|claims|claimed|claiming|think|thinks|thought|believe|believes|believed|assume|assumes"
    r"|assumed|insist|insists|insisted|joke|jokes|joked|complain|complains|complained|argue|argues|argued|write|writes|wrote|hint|hints|hinted"
    r"|reckon|reckons|swear|swears|swore|suspect|suspects|suspected|imply|implies|implied|spread|spreads|heard|pretend|pretends|pretended)"
)
_HEARSAY = re.compile(
    rf"(?P<who>[\w'’-]+)\s(?:(?!I\b|we\b)[\w'’-]+\s){{0,3}}?{_SAYS}\b(?!\s(?:you|u)\b)[^.!?;]{{0,80}}?\b(?:I|we|me (?:as|an?)|my [\w-]+)\s+[\w']+",
    re.IGNORECASE,
)
_ANYBODY_SAYS = re.compile(rf"\s{_SAYS}\b", re.IGNORECASE)
"""In every hearsay, and found in a tenth of its time."""
_LABELLED = re.compile(
    r"\b(?:calls?|called|calling|accus(?:e|es|ed|ing)|describ(?:e|es|ed|ing)|consider(?:s|ed)?|label(?:s|led|ed)?|mistook|mistakes?|mistaken)\s(?:me|us)\b(?!\s(?:back|at|on|in|to|every|again|about|when|after|(?-i:[A-ZÀ-Þ])))",
    re.IGNORECASE,
)
_SAID_BEHIND = re.compile(
    r",\s(?:or so\s)?(?:(?P<who>(?:my|our|the|some)\s[\w'’-]+(?:\s[A-Z][\w'’-]+)?|he|she|they|people|everyone|[A-ZÀ-Þ][\w'’-]+)\s(?:(?:always|just|once|also)\s)?"
    r"(?:says?|said|claims?|claimed|thinks?|thought|reckons?|insists?|insisted|tells me|told me|keeps? saying|wrote|writes)|(?:says|said|writes|wrote)\s(?P<who2>[\w'’ -]{2,30}))\W*$",
    re.IGNORECASE,
)
_ACCORDING = re.compile(
    r"\b(?:according to|if you (?:ask|believe)|in the eyes of|rumou?r has it|word is|legend has it)\s(?:my |our |the )?(?P<who>[\w-]+)",
    re.IGNORECASE,
)
_EXPERTS = lex.REPORTERS - {"teacher"}
"""Teachers judge, doctors find."""
_CLAUSE_START = re.compile(r"(?:[,;:–—]|\s-+\s|\b(?:and|but|so|because|while)\b)\s*", re.IGNORECASE)
_PERSON = re.compile(r"\b(?P<pronoun>him|her|his)\b(?!self)", re.IGNORECASE)
_PRONOUN = re.compile(
    r"\b(?:he|she|him|her|his|hers|them|theirs|their|those(?!\s[a-z]+s\b)|these(?!\s[a-z]+s\b))\b", re.IGNORECASE
)
_OF_WHOM = {"him": "he", "his": "he", "her": "she"}
_PARTICLES = re.compile(
    r"\b(?:up|back|down|away|together|along|around|after|half|each|both|none|neither|either|several|enough|plenty|a few|a couple|all|even|always|never)\b",
    re.IGNORECASE,
)


def without_hearsay(sentence: str) -> str:
    """The part of a sentence, contractions written out, in which nobody else speaks of the user."""
    for behind in (_SAID_BEHIND, _ACCORDING):
        found = behind.search(sentence)
        if found and not _of_experts(" ".join(filter(None, found.groups()))):
            return ""
    for reported in (_HEARSAY, _LABELLED) if _ANYBODY_SAYS.search(sentence) else (_LABELLED,):
        found = reported.search(sentence)
        if found and not _of_experts(sentence[_clause_start(sentence, found.start()) : found.end()]):
            return sentence[: _clause_start(sentence, found.start())].strip(" ,;:-–—")
    return sentence


def named(predicate: str, people: Mapping[str, str]) -> str:
    """What "I" do, with "(their aunt)" behind a "her" that is known; "" when a pronoun stands for nothing known."""
    found = _PRONOUN.search(predicate)
    if not found or _has_antecedent(predicate[: found.start()]):
        return predicate
    person = _PERSON.match(predicate, found.start())
    who = people.get(_OF_WHOM[person.group("pronoun").lower()], "") if person else ""
    if not who.startswith("User's "):
        return ""
    known = who.removeprefix("User's ")
    return f"{predicate[: found.end()]} (their {known}){predicate[found.end() :]}"


def _has_antecedent(before: str) -> bool:
    """Whether what stands between the verb and a pronoun names anything."""
    between = before.partition(" ")[2]
    return substantial(_PARTICLES.sub(" ", between)) or bool(lex.NAME.search(f" {between}"))


def _clause_start(sentence: str, position: int) -> int:
    starts = [found.end() for found in _CLAUSE_START.finditer(sentence, 0, position)]
    return starts[-1] if starts else 0


def _of_experts(text: str) -> bool:
    return any(word in _EXPERTS for word in re.findall(r"[a-z-]+", text.lower()))
