"""Whom and what later pronouns stand for."""

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.predicates import unreal

_MENTION = re.compile(
    r"\b(?:((?i:my|our|the))\s+(?:(?:two|three|four|five|six|\d+|little|older|younger|elder|big|oldest|youngest|eldest|best|new|old)\s+)*)?\b([a-z]+(?:-[a-z]+)*)\b(\s+(?:Dr\.?\s|Mrs?\.?\s|Ms\.?\s)?[A-ZÀ-Þ][\w'’-]+)?"
)
_APPOINTMENT = re.compile(
    r"\b(?:have|have got|got|my|booked)\s+(?:an?\s+|the\s+|my\s+|our\s+)?(?P<what>(?:[\w-]+\s){0,2}?(?:appointment|interview|exam|meeting|flight|surgery|operation|wedding|viewing|check-?up|deadline|test|class|party|reservation|booking))\b",
    re.IGNORECASE,
)


_OTHERS = re.compile(r"\s(?:in|on|from|of|at|that|who|which|with|next|here|there)\b")
_HOUSEHOLD = frozenset({"baby", "kids", "twins", "dog", "cat", "puppy", "kitten", "wife", "husband"})
"""Of these "the" means the user's own."""
_SUBJECT = re.compile(
    r"^(?:my|our)\s(?P<what>(?:[a-z-]+\s)?[a-z-]+)\s(?:is|was|takes|took|runs|has|costs|needs|keeps|does|starts|ends|broke|hurts|will|cannot)\b",
    re.IGNORECASE,
)
_THING = re.compile(
    r"^(?:my\s|our\s|(?!the\s))(?P<what>(?:(?!(?:the|an?|I|we|you|he|she|they|it|to|this|that|no|for|in|on|at)\b)[a-z-]+\s)?(?:mortgage|rent|car|bike|house|flat|apartment|garden|boat|van|upstream|backend|frontend|database|cluster|server|app|site|website|shop|lease|contract|oven|kitchen|piano|guitar|laptop|phone|camera))\b",
    re.IGNORECASE,
)
_OBJECT = re.compile(
    r"\b(?:my|our)\s(?P<what>(?:[a-z-]+\s)?(?:mortgage|rent|car|bike|house|flat|apartment|garden|boat|van|upstream|backend|frontend|database|cluster|server|app|site|website|shop|lease|contract|oven|kitchen|piano|guitar|laptop|phone|camera))$",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"\b(?:my|our|My|Our)\s(?P<who>(?:[a-z]+\s)?[a-z]+(?:-[a-z]+)*)\s"
    r"(?P<name>(?:(?:Dr|Prof|Mrs|Mr|Ms)\.?\s)?[A-ZÀ-Þ][a-zà-ÿ]+(?:-[A-ZÀ-Þ][a-zà-ÿ]+)?)\b(?!\s[A-ZÀ-Þ][a-z]+ing\b)"
)
_SUPPOSED = re.compile(
    r"\b(?:if|wish|suppos\w+|imagin\w+|hypothetical\w*|dream\w*|pretend\w*|was|were|did|missed|had)\b", re.IGNORECASE
)
_DATED_EVENT = re.compile(
    r"\b(?:my|our)\s(?P<what>(?:[\w'’-]+\s){0,3}?(?:interview|exams?|wedding|birthday|recital|communion|christening|baptism|graduation|surgery|operation|appointment|funeral|concert|gig|race|marathon|flight|defen[cs]e|viva|audition|viewing|move|trip|party"
    r"|anniversary|presentation|talk|conference|hearing|trial|tournament|match|deadline|test|check-?up|scan|christmas party|housewarming|barbecue|bbq|ceremony|exhibition|performance|review|workshop|visit|meeting))"
    rf"(?P<where>\s(?:at|with|in|for|to|of)\s[\w'’ -]{{2,30}}?)?\s(?P<when>(?:on|in|this|next|by)\s(?:the\s)?(?:\d{{1,2}}(?:st|nd|rd|th)?\b(?:\s(?:of\s)?{lex.MONTH}\b)?|{lex.MONTH}\b(?:\s\d{{1,2}}(?:st|nd|rd|th)?\b)?|{lex.WEEKDAY}\b))",
    re.IGNORECASE,
)
_OWNED = re.compile(r"['’]s\s(?:\w+\s)?([a-z-]+)\b")
_NEW_ANIMAL = re.compile(
    r"\b(?:have|has|had|got|adopted|bought|own|foster(?:ing)?)\s+(?:an?|another|new|our|my)\s+(?P<what>(?:[\w-]+\s){0,2}?"
    r"(?:puppy|kitten|dog|cat|horse|pony|rabbit|parrot|hamster|tortoise|budgie|hound|retriever|terrier|poodle|collie|spaniel|baby|daughter|son))\b",
    re.IGNORECASE,
)
_SOMEBODY_ELSE = re.compile(
    r"(?!.{0,40}\band I\b)(?:(?i:my|our|the|his|her|their|he|she|they)\s|(?!I\b|We\b)[A-ZÀ-Þ][\w'’-]+\s(?:has|got|is)\b)"
)
"""Before "has a puppy": it is not the user's."""


def introduced(clause: str) -> dict[str, str]:
    """Whom and what later pronouns may stand for: "my mother ..." -> she is the user's mother."""
    people: dict[str, str] = {}
    for match in _MENTION.finditer(clause):
        if _is_the_users(clause, match):
            people |= _unless_two(people, _pronouns(match.group(2), match.group(3) or ""))
    subject = _SUBJECT.match(clause)
    if subject and not people and subject.group("what").rpartition(" ")[2].lower() not in lex.NO_TOPIC:
        people["it"] = f"User's {subject.group('what').lower()}"
    if thing := _THING.match(clause):
        people.setdefault("it", f"User's {thing.group('what').lower()}")
    if owned := _OBJECT.search(clause):
        people.setdefault("it", f"User's {owned.group('what').lower()}")
    if animal := _NEW_ANIMAL.search(clause):
        whose = "" if _SOMEBODY_ELSE.match(clause) else f"User's {animal.group('what').lower()}"
        people["she"] = people["he"] = people["it"] = whose
    if appointment := _APPOINTMENT.search(clause):
        people["it"] = f"User's {appointment.group('what').lower()}"
    return people


def others(clause: str, nouns: AbstractSet[str]) -> list[tuple[str, int]]:
    """Those of the nouns for people that a clause names beside the user's own, each with where it stands."""
    return [
        (match.group(2), match.start(2))
        for match in _MENTION.finditer(clause)
        if match.group(2) in nouns and not _is_the_users(clause, match)
    ]


def _unless_two(people: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """As in "my mum called my sister": "she" is neither for certain."""
    return {
        pronoun: "" if pronoun in people and people[pronoun].split()[1:2] != who.split()[1:2] else who
        for pronoun, who in new.items()
    }


def pronouns_of(relation: str) -> Iterable[str]:
    """The pronouns that may stand for such a person."""
    return _pronouns(relation, "").keys()


def names(sentence: str) -> list[str]:
    """As "User's midwife is Annika" for every "my midwife Annika" of a sentence that is meant as it stands."""
    if unreal(sentence):
        return []
    return [
        f"User's {found.group('who')} is {found.group('name')}"
        for found in _NAMED.finditer(sentence)
        if found.group("who").rpartition(" ")[2] in lex.RELATIONS | lex.REPORTERS
        and not lex.DAY.search(found.group("name"))
    ]


def dated(sentence: str) -> list[str]:
    """As "User's daughter's recital is on 4 May" for "our daughter's recital on 4 May", also inside of a question."""
    if _SUPPOSED.search(sentence):
        return []
    return [
        f"User's {found.group('what')}{found.group('where') or ''} is {found.group('when')}"
        for found in _DATED_EVENT.finditer(sentence)
    ]


def _is_the_users(clause: str, match: re.Match[str]) -> bool:
    relation = match.group(2)
    mine = (match.group(1) or "").lower() in {"my", "our"} or (relation in lex.REPORTERS and match.start(2) == 0)
    mine = mine or (
        not _OTHERS.match(clause, match.end()) and (match.group(1) or "").lower() == "the" and relation in _HOUSEHOLD
    )
    if not mine or relation not in lex.RELATIONS:
        return False
    owned = _OWNED.match(clause, match.end())
    return owned is None or owned.group(1) not in lex.RELATIONS


def _pronouns(relation: str, name: str) -> dict[str, str]:
    who = f"User's {relation}{name}"
    named = {name.rpartition(" ")[2].lower(): who} if name else {}
    if (relation.endswith("s") and not relation.endswith("ss")) or relation in {"children", "twins", "kids"}:
        return {"they": who, **named}
    if relation in lex.FEMALE:
        return {"she": who, **named}
    if relation in lex.MALE:
        return {"he": who, **named}
    return {"she": who, "he": who, "they": who, **named}
