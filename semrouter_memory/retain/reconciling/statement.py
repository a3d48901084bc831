"""A statement taken apart as far as comparing two of them needs: words, values, names, subject, marks. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from semrouter_memory.language.names import capitalised
from semrouter_memory.language.phrases import lists
from semrouter_memory.language.scripts import CJK, CJK_RANGE
from semrouter_memory.language.sentences import sentences
from semrouter_memory.language.signs import Signs, signs
from semrouter_memory.language.terms import terms
from semrouter_memory.language.third_person import to_third_person
from semrouter_memory.language.values import folded, kinds, split

_VOCABULARY = lists("vocabulary", __package__)


def _listed(entry: str) -> list[str]:
    return [word for each in entry.replace("\n", "|").split("|") if (word := each.strip())]


_TOKEN = re.compile(rf"user|[a-z0-9][\w+#.&/-]*[\w+#]|[a-z0-9]|'s\b|n't\b|[{CJK_RANGE}]+")
_CAPITALS = frozenset({"i", "user", "i'm", "i've", "i'd", "i'll", "user's", "ok"})
_PHRASE = r"(?:[^,;:.]|(?<=\d)[:.](?=\d)){2,60}?"
_KEY = re.compile(
    r"^(?:user's|[a-z]+'s) (?P<key>" + _PHRASE + r")"
    r" (?:(?:is|are|was|were|will be|has been|has|gets?|goes|takes?) |[a-z]{3,}(?:s|ed) (?=(?:on|at|in|to|from|until|by) |\W?\d))"
)
_NOW_ZH = "(?:现在|目前|如今|现)?"
_GIVEN = (
    re.compile(rf"^user's (?P<key>{_PHRASE}) (?:is|are) (?:now |called |named )*(?P<value>\S.*)$"),
    re.compile(
        rf"^user(?P<key>的[^是叫]{{1,8}}?(?={_NOW_ZH}(?:是|叫|(?<![因作])为))|住在|是)(?:{_NOW_ZH}(?:是|叫|为))?(?P<value>.+)$"
    ),
)
_HOLDS = tuple(f"user {held} " for held in ("lives in", "works as", "works at", "works for", "reports to"))
_GOAL_OPENINGS = ("how to ", "to ", "for ", "when ")
_GOAL_CHARS = range(3, 81)
_MOMENTS = frozenset({"date", "time", "day", "year", "address", "phone"})
"""Kinds of value that are no size: "by Friday"."""
_CHANGED_KEY = re.compile(
    r"^user (?:\w+ ){0,2}?(?:\w+ed|cut) (?:the |an? |his |her |their |user's )?"
    r"(?P<key>(?!(?:to|from|back|in|out) )[^,;:.]{2,50}?) (?:to|from|until|with|by|into) "
)
_HAN_KEY = re.compile(rf"^user的(?P<key>[{CJK_RANGE}]{{1,8}}?){_NOW_ZH}(?:是|为|改|换|变|涨|降|在|推迟|提前|搬|\s)")
_FOR = re.compile(
    r"\b(?:for|at(?= (?:home|work|school|the office))) (?:the |an? |user's |his |her |their )?(?P<what>[\w-]+(?: (?!(?:is|at|in|on|to|and|the)\b)[\w-]+)?)"
)
_TOPIC_VERBS, _TOPIC_STATES, _TOPIC_CHANGES, _TOPIC_OPENINGS, _TOPIC_ZH = (
    "|".join(map(re.escape, _listed(_VOCABULARY["topic"][name])))
    for name in ("verbs", "states", "changes", "openings", "verbs_zh")
)
_ARTICLE = r"(?:(?:the|an?|this|that|user's|his|her|their) )?"
_TOPICS = tuple(
    re.compile(form)
    for form in (
        (
            rf"\b(?:{_TOPIC_CHANGES}) (?!to )(?:the|user's|his|her|their) (?P<topic>[^,;:.!?]{{2,40}}?)"
            r"(?=$|[,;:.!?]| (?:to|from|by|until|up|back|down|and|for|last|this|next|in|on|at|with) )"
        ),
        (
            rf"^(?:(?:{_TOPIC_OPENINGS})\W+)*{_ARTICLE}(?P<topic>(?!user(?:$|[^']))(?:[^\s,;:.!?]+ ){{0,4}}?[^\s,;:.!?]+?)"
            rf"(?:'s(?= (?:{_TOPIC_STATES}))| (?:{_TOPIC_VERBS}|[a-z]{{3,}}(?:s|ed)(?= (?:on|at|in|to|from|until|by|with) |\W?\d)))\b(?! (?:it|that|this|them)\b)"
        ),
        rf"^(?:user的?)?(?P<topic>[{CJK_RANGE}]{{1,10}}?)(?:{_TOPIC_ZH})(?!了[，,；])",
    )
)
"""What is told of: what changes, else what stands before the verb; not who changes something: "the builder moved it"."""
_OWNER = re.compile(r"\b([A-Z]\w+)['\u2019]s (?!the\b|an?\b)")
_BREAKS = frozenset({"and", "but", "so", "because", "since", "as", "for", "due", "after", "until", "though"})
"""Where a clause ends, as well as at a comma."""
_PARTICLES = frozenset({"off", "up", "out", "down", "back", "over", "away", "forward"})
_APART = 5
"""Tokens within which a verb's particle follows: "called the whole thing off"."""
_NOUNS = 2
"""Words after "new" that name what is new."""
_NOT_ALSO = re.compile(r"^(?:and |oh |ok )?also\b|\btoo (?=[a-z])|又(?=[改换涨降推变搬调延])")
"""Where it goes on with something else ("also we moved ..."), and what is too much or changes once more."""
_LIGHT_HAN = frozenset(_VOCABULARY["topic"]["light_zh"])
_FORMER = re.compile(
    r"\bfrom (?:the |an? )?(?P<former>[^,;.]{1,40}?) to |从(?P<han>.{1,10}?)[改换搬涨降升转]"
    r"|\b(?:instead of|rather than|in place of|got rid of|dropped|ditched|replaced|swapped|traded) (?:the |an? |at |on |in |user's )?(?P<left>[^,;.!]{1,30}?)(?= with | for |$|[,;.!])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a statement says.

    Attributes:
        plain: its text in one spelling, in the third person.
        pieces: English words and Chinese characters as they stand.
        order: stems of its words as they stand.
        words: stems of what carries content, without names, values and words of change or negation.
        names: stems of capitalised words.
        values: numbers, as `class:value`.
        kinds: the same by class.
        content: words, names and values.
        people: persons and animals that it is about, other than the user.
        key: what a value is given to, where the form tells it: "User's (rent) is ...".
        topic: what it tells of, where the form tells it: "(garage rent) went up to 95"; of Chinese the characters.
        owners: names that have something: "Lena's interview".
        purposes: what it is said for: "for the Oslo trip", "with Farah".
        ways: directions: "from Rome", "to Rome".
        former: what it says that was changed: "from Friday to Sunday"; not among its words, names and values.
        given: what a value is given to, as it stands: "(rent) is 780 euros", "User (lives in) Rome".
        value: that value.
        marks: what it says of itself: negated, ended, changed, planned, ...
        over: words of the clauses that end or deny something.
        renewed: words of what is said to be new: "has a new (bike)".
        attributes: attributes that its words may name.
        goal: what a procedure is for; its words are the steps' then.
        signs: of its words and numbers, which `content` lacks.
        is_difference: it tells by how much a value changed and not what it is now: "raised the rent by 50".
    """

    plain: str
    pieces: tuple[str, ...]
    order: tuple[str, ...]
    words: frozenset[str]
    names: frozenset[str]
    values: frozenset[str]
    kinds: Mapping[str, frozenset[str]]
    content: frozenset[str]
    people: frozenset[str]
    key: frozenset[str]
    topic: frozenset[str]
    owners: frozenset[str]
    purposes: frozenset[str]
    ways: frozenset[tuple[str, str]]
    former: frozenset[str]
    given: str
    value: str
    marks: frozenset[str]
    over: frozenset[str]
    renewed: frozenset[str]
    attributes: frozenset[str]
    goal: frozenset[str]
    signs: Signs
    sentences: int
    is_event: bool
    is_difference: bool
    is_chinese: bool
    in_third_person: bool


@lru_cache(4_096)
def statement(content: str, *, procedural: bool = False) -> Statement:
    """Take a statement apart."""
    told = to_third_person(content)
    plain = folded(told).replace("the user", "user").replace("用户", "user")
    values, rest = split(plain)
    goal, steps = _procedure(plain) if procedural else ("", "")
    tokens = tuple(_TOKEN.findall(rest))
    pieces = tuple(piece for token in tokens for piece in (token if CJK.match(token) else (token,)))
    said = f" {' '.join(tokens)} "
    names = _names(content, rest)
    given, value = _given(plain)
    marks = _marks(rest)
    former = _former(plain) if marks & {"changed", "ended"} else frozenset()
    order = tuple(_stems(split(steps)[1] if goal else rest))
    return Statement(
        plain=plain.strip(" .!。！"),
        pieces=pieces,
        words=frozenset(order) - _LIGHT - names - former,
        order=order,
        names=names - former,
        values=values - former,
        kinds=kinds(values - former),
        content=(frozenset(order) - _LIGHT | names | values) - former,
        people=_people(tokens, plain),
        key=_key(plain, marks),
        topic=_topic(plain),
        owners=frozenset(_stems(" ".join(_OWNER.findall(content)))),
        purposes=frozenset(stem for found in _FOR.findall(rest) for stem in _stems(found)),
        ways=frozenset(_ways(_TOKEN.findall(plain))),
        marks=marks,
        over=_over(rest) if marks & {"ended", "negated"} else frozenset(),
        renewed=_renewed(tokens) - names,
        former=former,
        given=given,
        value=value,
        attributes=frozenset(_found(_ATTRIBUTES, said)),
        goal=frozenset(_stems(goal)),
        signs=signs(content),
        sentences=len(sentences(content)) or 1,
        is_event=_is_event(plain),
        is_difference=_is_difference(values, rest),
        is_chinese=bool(CJK.search(content)),
        in_third_person=told == content,
    )


def _names(content: str, rest: str) -> frozenset[str]:
    """Not a month, which is part of a value."""
    found = frozenset(term for name in capitalised(content) if name.lower() not in _CAPITALS for term in _stems(name))
    return (found & frozenset(_stems(rest))) - _LIGHT


def _given(plain: str) -> tuple[str, str]:
    """What a value is given to, as it stands, and the value."""
    if held := next((each for each in _HOLDS if plain.startswith(each) and plain != each), ""):
        return held.removeprefix("user ").strip(), plain.removeprefix(held)
    found = next((found for each in _GIVEN if (found := each.match(plain))), None)
    return (found["key"], found["value"]) if found else ("", "")


def _ways(tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    for at, token in enumerate(tokens):
        if token in {"from", "to"}:
            place = next((each for each in tokens[at + 1 : at + 3] if each != "the"), "")
            if len(place) > 1 and "a" <= place[0] <= "z":
                yield token, place


def _key(plain: str, marks: frozenset[str]) -> frozenset[str]:
    found = _KEY.match(plain) or _HAN_KEY.match(plain) or ("changed" in marks and _CHANGED_KEY.match(plain))
    return frozenset(_stems(split(found["key"])[1])) - _LIGHT if found else frozenset()


def _marks(rest: str) -> frozenset[str]:
    return _marks_of(_TOKEN.findall(_NOT_ALSO.sub(" ", rest)))


def _marks_of(tokens: Sequence[str]) -> frozenset[str]:
    """With verbs whose particle stands behind their object; what one had to do is nothing of the past."""
    said = f" {' '.join([*tokens, *_joined(tokens)])} "
    found = frozenset(_found(_MARKS, said))
    return found - {"past"} if "past" in found and not {*_found(_PAST, said.replace(" had to ", " "))} else found


def _joined(tokens: Sequence[str]) -> Iterator[str]:
    for at, token in enumerate(tokens):
        for particle in _PARTICLES.intersection(tokens[at + 2 : at + 1 + _APART]) if token in _SEPARABLE else ():
            yield f"{token} {particle}"


def _over(rest: str) -> frozenset[str]:
    """What stands in the clauses that end or deny something."""
    clauses: list[list[str]] = [[]]
    for token in _TOKEN.findall(rest.replace(",", " and ").replace(";", " and ").replace(". ", " and ")):
        if token in _BREAKS:
            clauses.append([])
        else:
            clauses[-1].append(token)
    ending = (each for each in clauses if _marks_of(each) & {"ended", "negated"})
    return frozenset(stem for each in ending for stem in _stems(" ".join(each)))


def _renewed(tokens: Sequence[str]) -> frozenset[str]:
    """What "new" says to be new: "has a new bike"."""
    at = next((at + 1 for at, each in enumerate(tokens) if each == "new" and tokens[at - 1] == "a"), len(tokens))
    return frozenset(_stems(" ".join(tokens[at : at + _NOUNS]))) - _LIGHT


def _topic(plain: str) -> frozenset[str]:
    """Without numbers, dates and words of change."""
    found = next((found for each in _TOPICS if (found := each.search(plain))), None)
    if not found:
        return frozenset()
    rest = split(found["topic"])[1]
    return frozenset(CJK.findall(rest)) - _LIGHT_HAN if CJK.search(rest) else frozenset(_stems(rest)) - _LIGHT - {"new"}


def _procedure(plain: str) -> tuple[str, str]:
    """What a procedure is for, and its steps."""
    goal, _, steps = plain.partition(":")
    if not steps[:1].isspace() or not steps.strip():
        return "", ""
    goal = goal.removeprefix(next((each for each in _GOAL_OPENINGS if goal.startswith(each)), ""))
    return (goal, steps.strip()) if len(goal) in _GOAL_CHARS else ("", "")


def _is_event(plain: str) -> bool:
    """Whether it begins with a date: "on 2026-03-20 the user ..."."""
    return plain.startswith("on ") and plain[3:13].replace("-", "").isdigit() and plain[7:8] == plain[10:11] == "-"


def _is_difference(values: frozenset[str], rest: str) -> bool:
    """Whether one of the values is a change's size, and none the total after it. A value is a blank in the rest."""
    if kinds(values).keys() <= _MOMENTS:
        return False
    said = f" {rest} "
    before, behind, total = (_DIFFERENCE[name] for name in ("before", "behind", "total"))
    added = any(f"{each} " in said for each in before) or any(f" {each}" in said for each in behind)
    return added and not any(f"{each} " in said for each in total)


def _former(plain: str) -> frozenset[str]:
    found = _FORMER.search(plain)
    if not found:
        return frozenset()
    values, rest = split(found["former"] or found["han"] or found["left"])
    return values | frozenset(_stems(rest))


def _stems(text: str) -> Iterator[str]:
    """Stems, with synonyms in one spelling; of Chinese, pairs of characters and the single ones that stand alone."""
    for term in terms(text):
        yield _SYNONYMS.get(term, term)


# -- vocabulary --------------------------------------------------------------------------------------------------------


def _entries(table: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """By name, the words as they stand in a text: English ones between blanks."""
    return {
        name: tuple(word if CJK.search(word) else f" {' '.join(_TOKEN.findall(word))} " for word in _listed(listed))
        for name, listed in table.items()
    }


def _found(entries: Mapping[str, Iterable[str]], said: str) -> Iterator[str]:
    return (name for name, words in entries.items() if any(map(said.__contains__, words)))


ONE_VALUED = frozenset(_VOCABULARY["numbers"]["one"].split())
MANY_VALUED_KEYS = frozenset(term for word in _VOCABULARY["numbers"]["several_keys"].split() for term in terms(word))
MANY_VALUED = frozenset(_VOCABULARY["numbers"]["several"].split())
_MARKS = _entries(_VOCABULARY["marks"])
_PAST = {"past": _MARKS["past"]}
_PHRASAL = [word.strip().rpartition(" ") for words in _MARKS.values() for word in words]
_SEPARABLE = frozenset(verb for verb, _, particle in _PHRASAL if particle in _PARTICLES)
_ATTRIBUTES = _entries(_VOCABULARY["attributes"])
_DIFFERENCE = _entries(_VOCABULARY["difference"])
_SYNONYMS = {
    stem: name for name, listed in _VOCABULARY["synonyms"].items() for word in listed.split() for stem in terms(word)
}
_LIGHT = frozenset(
    term
    for name in ("negated", "ended", "changed", "also", "again", "planned", "past")
    for word in _MARKS[name]
    if name == "ended" or len(word.split()) == 1
    for term in terms(word)
)


def _people(tokens: Sequence[str], plain: str) -> frozenset[str]:
    """Persons that are named before the user, or that the user has: "User's sister ...", "User has a sister"."""
    subject = tokens[: _subject_end(tokens)]
    found = {_KIN[word] for token in subject for word in (token, token.removesuffix("s")) if word in _KIN}
    start = plain.removeprefix("user").removeprefix("的")
    han = next((name for word, name in _HAN_KIN if start.startswith(word)), "")
    return frozenset(found | ({han} if han else set()))


def _subject_end(tokens: Sequence[str]) -> int:
    for at, token in enumerate(tokens):
        if token == "user" and tokens[at + 1 : at + 2] != ("'s",):  # noqa: S105 - no password
            return at + _OBJECT if tokens[at + 1 : at + 2] in {("has",), ("have",), ("got",)} else at
    return _OBJECT


_KIN = {word.strip(): name for name, listed in _VOCABULARY["kin"].items() for word in listed.split("|")}
_HAN_KIN = sorted(((word, name) for word, name in _KIN.items() if CJK.match(word)), key=lambda each: -len(each[0]))
_OBJECT = 6
"""Tokens in which a person is looked for, where no other subject stands."""
