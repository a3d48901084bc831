"""English clauses in the first person that are worth remembering, as statements about the user.

Strategy: a clause must begin with a known subject ("I", "we", "my sister ...", "she" when we know who that is), and its
predicate must be of a kind that lasts: a state, a habit, a plan, an event that is tied to a date, number or name.
What matches nothing is not stored.
"""

import re
from collections.abc import Mapping

from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.predicates import anaphoric, lasts, unreal
from semrouter_memory.retain.rules.voice import split_adverbs, third_person

_MAX_SUBJECT_WORDS = 8
_MAX_WORDS = 60
_MIN_PREDICATE_WORDS = 2
_MAX_GERUND_SUBJECT = 4
"""A finite verb so close behind "learning German" makes it the subject of another sentence."""

_BOTH = re.compile(r"^(?P<other>(?:my|our)\s[^,]{2,40}?)\s+and I\s+(?P<rest>.+)$", re.IGNORECASE)
_TROUBLE = re.compile(
    r"^(?:not )?(?:broken|slow|down|fine|ready|good|bad|ok|okay|killing|driving|wrong|right|this|that|these|how|why|what|to know|to find|whether|not sure|here|below|attached|as follows|about)\b",
    re.IGNORECASE,
)
_REPORTED = re.compile(
    r"^(?:my |our |the )?(?P<who>[\w-]+)(?:\s+[A-Z]\w+)?\s+(?:just\s+|now\s+)?(?:told me|says|said|thinks|confirmed|found|diagnosed)\s+(?:that\s+)?(?P<what>I\s.+)$",
    re.IGNORECASE,
)
_OUR_PLACES = re.compile(
    r"^(?:(?:the|our)\s+)?(?P<what>staging|prod|production|dev|ci|backend|frontend|database|db|servers?|cluster|repo|website|app|api)\s+"
    r"(?:runs?|is hosted|is deployed|lives?|is|sits?|are)\s+(?:on|in|at|with)\s+[A-Z][\w.]+",
    re.IGNORECASE,
)
_SHORT_NAME = re.compile(r"^(?:please |just )?(?:you can )?call me\s+([A-ZÀ-Þ][\w'’-]+(?:\s[A-ZÀ-Þ][\w'’-]+)?)\b")
_BROKEN_OFF = re.compile(r"\b(?:to|and|the|an?|of|but|or|with|the user's|because|than)\W*$", re.IGNORECASE)
_ELIDED = re.compile(r"^(?P<verb>[a-z]+)\s+\S", re.IGNORECASE)
_RESCHEDULED = re.compile(
    r"^it\s+(?P<rest>(?:is|was|has been|got)\s+(?:now\s+)?(?:moved|rescheduled|postponed|cancelled|canceled|changed|pushed|on|at)\b.*)$",
    re.IGNORECASE,
)
_THEY_DO = re.compile(r"^(?P<who>she|he|they)\s+(?P<rest>.+)$", re.IGNORECASE)


def statement(clause: str, people: Mapping[str, str], *, trusted: bool = False) -> str:
    """The clause in the third person when it is worth remembering, else "".

    Args:
        clause: one clause, contractions written out.
        people: whom "she", "he", "they" stand for.
        trusted: the user asked to remember it, so that any statement counts.
    """
    clause = _trim(clause)
    if not clause or len(clause.split()) > _MAX_WORDS:
        return ""
    if short_name := _SHORT_NAME.match(clause):
        return f"User is called {short_name.group(1)}"
    if reported := _REPORTED.match(clause):
        if reported.group("who").lower() not in lex.REPORTERS:
            return ""
        clause = reported.group("what")
    found = _about(clause, people, trusted=trusted)
    return _finish(found) if found and not _BROKEN_OFF.search(found) else ""


def as_it_is(sentence: str) -> str:
    """A sentence that the user asked to remember and that no rule knows, in the third person."""
    return _finish(third_person(_trim(sentence)))


def _about(clause: str, people: Mapping[str, str], *, trusted: bool) -> str:
    if both := _BOTH.match(clause):
        rest = both.group("rest")
        return third_person(f"I and {both.group('other')} {rest}") if lasts([], rest.split(), trusted=trusted) else ""
    first, *words = clause.split()
    if first in {"I", "we", "We"}:
        adverbs, rest = split_adverbs(words)
        return third_person(_clause(adverbs, rest)) if rest and lasts(adverbs, rest, trusted=trusted) else ""
    if first.lower() in {"my", "our"}:
        return third_person(clause) if _possession(words, trusted=trusted) else ""
    if third := _THEY_DO.match(clause):
        return _of_a_person(third, people)
    if (moved := _RESCHEDULED.match(clause)) and "it" in people:
        return f"{people['it']} {moved.group('rest')}"
    if _OUR_PLACES.match(clause):
        place = re.sub(r"^(?:the|our)\s+", "", clause, flags=re.IGNORECASE)
        return f"User's {place[:1].lower()}{place[1:]}"
    return _elided(clause)


def _clause(adverbs: list[str], rest: list[str]) -> str:
    return " ".join(
        ["I", *adverbs, *("am" if word == "are" and index == 0 else word for index, word in enumerate(rest))]
    )


def _possession(words: list[str], *, trusted: bool) -> bool:
    """As in "my <noun phrase> <finite verb> ...": whether it tells of the user's world."""
    place = next((index for index, word in enumerate(words[: _MAX_SUBJECT_WORDS + 1]) if index and _finite(word)), 0)
    if not place or place + 1 >= len(words):
        return False
    subject, verb, after = words[:place], words[place].lower(), " ".join(words[place + 1 :])
    if any(word.strip(",").lower() in lex.SAYING for word in words[: place + 1]) or unreal(after):
        return False
    if trusted:
        return True
    head = re.split(r"\s(?:for|of|in|at|on|with|from|to)\s", " ".join(subject))[0].split()[-1].lower()
    related = any(_singular(word) in lex.RELATIONS for word in subject)
    if head in lex.NO_TOPIC or _TROUBLE.match(after) or (related and verb in {"is", "are"} and _in_passing(after)):
        return False
    if verb in lex.THIRD:
        return (
            related
            or verb not in {"does", "doesn't", "can", "can't", "cannot", "gets", "goes", "go", "work"}
            or lex.anchored(after)
        )
    return (related and bool(after)) if verb in lex.EVENT_PAST else lex.anchored(after)


def _finite(word: str) -> bool:
    bare = word.lower().strip(",")
    return bare in lex.THIRD or bare in lex.PAST


def _singular(word: str) -> str:
    return word.lower().strip(",").removesuffix("'s")


def _of_a_person(match: re.Match[str], people: Mapping[str, str]) -> str:
    """As in "she gets seasick", once we know that she is the user's sister."""
    who, rest = people.get(match.group("who").lower(), ""), match.group("rest")
    words = split_adverbs(rest.split())[1]
    if not who or len(words) < _MIN_PREDICATE_WORDS or unreal(rest) or anaphoric(" ".join(words)):
        return ""
    verb, after = words[0].lower(), " ".join(words[1:])
    if verb in {"is", "are"} and _in_passing(after):
        return ""
    worth = verb in lex.THIRD or ((verb in lex.PAST or verb.endswith("ed")) and lex.anchored(rest))
    return third_person(f"{who} {rest}") if worth and verb not in lex.SAYING else ""


def _in_passing(after: str) -> bool:
    return bool(_TROUBLE.match(after)) or (
        after.split(maxsplit=1)[0].lower() in lex.PASSING and not lex.anchored(after)
    )


def _elided(clause: str) -> str:
    """As in "finished my first half marathon in Cardiff", "booking flights from Basel tonight": the "I" is left out."""
    match = _ELIDED.match(clause)
    verb = match.group("verb").lower() if match else ""
    after = clause.partition(" ")[2]
    if unreal(clause) or anaphoric(clause) or not lex.NAME.search(clause):
        return ""
    if verb in lex.PAST - {"read", "put", "cut", "set", "saw", "was", "were", "had", "made", "left", "born"}:
        return third_person(f"I {verb} {after}") if lex.anchored(after) else ""
    if verb in lex.UNDER_WAY and not any(map(_finite, after.split()[:_MAX_GERUND_SUBJECT])):
        return third_person(f"I am {verb} {after}")
    return ""


def _trim(clause: str) -> str:
    clause = lex.LEAD.sub("", clause.strip(" ,;:-–—\"'"))
    previous = ""
    while clause != previous:
        previous, clause = clause, lex.TAIL.sub("", clause)
    return clause.strip(" ,;:")


def _finish(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,;:.!")
    return text[:1].upper() + text[1:]
