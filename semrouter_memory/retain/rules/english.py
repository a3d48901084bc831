"""English clauses in the first person that are worth remembering, as statements about the user.

Strategy: a clause must begin with a known subject ("I", "we", "my sister ...", "she" when we know who that is), and its
predicate must be of a kind that lasts: a state, a habit, a plan, an event that is tied to a date, number or name.
What matches nothing is not stored.
"""

import re
from collections.abc import Mapping

from semrouter_memory.retain.rules import doubts, fragments, howto
from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.persons import (
    bare_relation,
    finite,
    of_a_companion,
    of_a_group,
    of_someone_known,
    possession,
)
from semrouter_memory.retain.rules.predicates import anaphoric, lasts, troubled, unreal
from semrouter_memory.retain.rules.voice import split_adverbs, third_person

_MAX_WORDS = 60
_MAX_GERUND_SUBJECT = 4
"""A finite verb so close behind "learning German" makes it the subject of another sentence."""

_BOTH = re.compile(r"^(?P<other>(?:my|our)\s[^,]{2,40}?)\s+and I\s+(?P<rest>.+)$", re.IGNORECASE)
_REPORTED = re.compile(
    r"^(?:my |our |the |his |her )?(?P<who>[\w-]+)(?:\s+[A-Z]\w+)?\s+(?:just\s+|now\s+)?(?:told me|told us|says|said|thinks|confirmed|found|diagnosed)\s+(?:that\s+)?(?P<what>(?:I|we|she|he|they|my|our)\s.+)$",
    re.IGNORECASE,
)
_OUR_PLACES = re.compile(
    r"^(?:(?:the|our)\s+)?(?P<what>staging|prod|production|dev|ci|backend|frontend|database|db|servers?|cluster|repo|website|app|api)\s+"
    r"(?:runs?|is hosted|is deployed|lives?|is|sits?|are)\s+(?:on|in|at|with)\s+[A-Z][\w.]+",
    re.IGNORECASE,
)
_SHORT_NAME = re.compile(
    r"^(?i:(?:please |just |simply )*(?:you (?:can|may|should) )?(?:just |simply )?call me|(?:everyone|everybody|people|most people|(?:all )?my (?:friends|family|colleagues)) calls? me|I go by)\s+"
    rf"(?!(?i:{lex.WEEKDAY}|{lex.MONTH}|I|ASAP|Crazy|Old|Back|Later|Maybe|When|If|At|On|By|Sir|Stupid|Tomorrow)\b)((?:(?:Dr|Prof|Mrs|Mr|Ms)\.?\s)?[A-ZÀ-Þ][\w'’-]+(?:\s[A-ZÀ-Þ][\w'’-]+)?)\b(?!\s(?:at|back|on|when|if|in|tomorrow|later|tonight|today|next)\b)"
)
_CAUSE_FIRST = re.compile(
    r"^(?:and |but |so |well |hi |hey )?(?P<cause>(?:next (?:one|race|time)|(?:since|after|before|because of|due to|with|for|on|during|in) (?:my|our|the|a|an|\d|next|last|every|each|this|[A-Z])(?:[^,;:?!]{1,60}?))),?\s(?P<stated>(?:I|we)\s.+)$",
    re.IGNORECASE,
)
_BARE_POSSESSION = re.compile(
    r"^(?P<whose>my|our)\s(?P<what>\w+)\s(?P<rest>(?:is|are|was|would be)\s.+)$", re.IGNORECASE
)
_AT_YOUR_LEISURE = re.compile(
    r",?\s+if (?:you|u) (?:want|wanna|like|must|need|care|know|wonder|ask|are (?:curious|interested|wondering))\b.*$",
    re.IGNORECASE,
)
_THAT = re.compile(r"^that\s+(?=(?:my|our|I|we|[A-Z][a-z]+)\s)")
_OPERATING = frozenset({"host", "deploy", "run", "serve"})
"""What is done with a piece of software that the conversation is about."""
_BROKEN_OFF = re.compile(
    r"\b(?:to|and|the|an?|of|but|or|with|the user's|because|than|for|from|about|into|of|at|like)\W*$", re.IGNORECASE
)
_ELIDED = re.compile(r"^(?P<verb>[a-z]+)\s+\S", re.IGNORECASE)
_RESCHEDULED = re.compile(
    r"^it\s+(?P<rest>(?:is|was|has been|got)\s+(?:now\s+)?(?:moved|rescheduled|postponed|cancelled|canceled|changed|pushed|on|at)\b.*)$",
    re.IGNORECASE,
)


def statement(clause: str, people: Mapping[str, str], *, topic: str = "", trusted: bool = False) -> str:
    """The clause in the third person when it is worth remembering, else "".

    Args:
        clause: one clause, contractions written out.
        people: whom "she", "he", "they" stand for.
        topic: what the thread is about; completes what does not stand alone.
        trusted: the user asked to remember it, so that any statement counts.
    """
    clause = _turned(_trim(_turned(clause.strip())))
    if not clause or len(clause.split()) > _MAX_WORDS:
        return ""
    if short_name := _SHORT_NAME.match(clause):
        return f"User is called {short_name.group(1)}"
    if reported := _REPORTED.match(clause):
        if reported.group("who").lower() not in lex.REPORTERS:
            return ""
        clause = reported.group("what")
    found = _about(clause, people, topic, trusted=trusted)
    return _finish(found) if found and not _BROKEN_OFF.search(found) else ""


def as_it_is(sentence: str) -> str:
    """A sentence that the user asked to remember and that no rule knows, in the third person."""
    plain = _trim(sentence)
    if wish := howto.standing_instruction(f"from now on {plain}") if howto.orders(plain) else "":
        return wish
    return _finish(third_person(plain))


def _turned(clause: str) -> str:
    """As in "since my operation I cannot lift anything": the statement first."""
    cause = _CAUSE_FIRST.match(clause)
    if not cause:
        return clause
    link = "in the " if cause.group("cause").lower() in {"next one", "next race"} else ""
    return f"{cause.group('stated').rstrip(' .!')} {link}{cause.group('cause')}"


def _about(clause: str, people: Mapping[str, str], topic: str, *, trusted: bool) -> str:
    if both := _BOTH.match(clause):
        rest = both.group("rest")
        shared = rest.split()[0].lower() in lex.HABITUAL and not anaphoric(rest) and not unreal(rest)
        return (
            third_person(f"I and {both.group('other')} {rest}")
            if shared or lasts([], rest.split(), trusted=trusted)
            else ""
        )
    if chosen := fragments.decision(clause, topic):
        return chosen
    first, *words = clause.split()
    if first in {"I", "we", "We"}:
        adverbs, rest = split_adverbs(_with_what(words, people))
        rest = doubts.named(" ".join(rest), people).split()
        return third_person(_clause(adverbs, rest)) if rest and lasts(adverbs, rest, trusted=trusted) else ""
    if first.lower() in {"my", "our"}:
        stated = possession(clause, trusted=trusted)
        return third_person(_completed(stated, topic)) if stated else ""
    if known := _of_others(clause, people, topic, trusted=trusted):
        return known
    if (moved := _RESCHEDULED.match(clause)) and people.get("it"):
        return f"{people['it']} {moved.group('rest')}"
    if _OUR_PLACES.match(clause):
        place = re.sub(r"^(?:the|our)\s+", "", clause, flags=re.IGNORECASE)
        return f"User's {place if place[1:2].isupper() else place[:1].lower() + place[1:]}"
    return _elided(clause) or fragments.statement(clause, people, topic)


def _of_others(clause: str, people: Mapping[str, str], topic: str, *, trusted: bool) -> str:
    known = of_someone_known(clause, people) or of_a_group(clause, people) or (topic and of_a_companion(clause))
    if known:
        return known
    relation = bare_relation(clause)
    return third_person(relation) if relation and possession(relation, trusted=trusted) else ""


def _with_what(words: list[str], people: Mapping[str, str]) -> list[str]:
    """As in "we run it with systemd on Debian": "it" with its name, where it is known and the rest ties it down."""
    if (
        words[1:2] == ["it"]
        and not people.get("it")
        and words[0].lower() in _OPERATING
        and lex.anchored(" ".join(words))
    ):
        return [words[0], "the", "project", *words[2:]]
    if not people.get("it") or words[1:2] != ["it"] or not lex.anchored(" ".join(words[2:])):
        return words
    return [words[0], *f"the u{people['it'][1:]}".split(), *words[2:]]


def _completed(clause: str, topic: str) -> str:
    """As in "my budget is 900" while a bike is looked for: "my budget for a bike is 900"."""
    bare = _BARE_POSSESSION.match(clause)
    if not bare or not topic or bare.group("what").lower() not in lex.INCOMPLETE:
        return clause
    return f"{bare.group('whose')} {bare.group('what')} for {topic} {bare.group('rest')}"


def _clause(adverbs: list[str], rest: list[str]) -> str:
    return " ".join(
        ["I", *adverbs, *("am" if word == "are" and index == 0 else word for index, word in enumerate(rest))]
    )


def _elided(clause: str) -> str:
    """As in "finished my first half marathon in Cardiff", "booking flights from Basel tonight": the "I" is left out."""
    match = _ELIDED.match(clause)
    verb = match.group("verb").lower() if match else ""
    after = clause.partition(" ")[2]
    named = lex.NAME.search(clause) or verb in lex.LIFE_PAST or lex.AMOUNT.search(after)
    if unreal(clause) or anaphoric(clause) or troubled(clause) or not named or not doubts.named(clause, {}):
        return ""
    if verb in lex.PAST - {"read", "put", "cut", "set", "saw", "was", "were", "had", "made", "left", "born"}:
        return third_person(f"I {verb} {after}") if lex.anchored(after) else ""
    if verb in lex.UNDER_WAY and not any(map(finite, after.split()[:_MAX_GERUND_SUBJECT])):
        return third_person(f"I am {verb} {after}")
    return ""


def _trim(clause: str) -> str:
    clause = _THAT.sub("", lex.LEAD.sub("", _AT_YOUR_LEISURE.sub("", clause).strip(" ,;:-–—\"'")))
    previous = ""
    while clause != previous:
        previous, clause = clause, lex.TAIL.sub("", clause)
    return clause.strip(" ,;:")


def _finish(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,;:.!")
    return text[:1].upper() + text[1:]
