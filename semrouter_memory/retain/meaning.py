"""What a statement is about (subject, attribute) and what it says of it (value, negation). Pure."""

import re
from dataclasses import dataclass, field

from semrouter_memory.retain.rules.lexicon import RELATIONS
from semrouter_memory.retain.wordlist import words
from semrouter_memory.retain.words import plain, tokens

_KIN = RELATIONS | words("grandmother grandfather brother-in-law sister-in-law")
_KIN_CHINESE = re.compile(
    r"用户的?(妈妈|母亲|爸爸|父亲|爷爷|奶奶|外公|外婆|姥姥|姥爷|哥哥|弟弟|姐姐|妹妹|老婆|妻子|太太|老公|丈夫|女儿|儿子|孩子|女朋友|男朋友|女友|男友|叔叔|阿姨|朋友|同事|狗|猫)"
)
_NEGATION = re.compile(
    r"\b(?:not|n't|never|no longer|no|cannot|can't|don't|doesn't|didn't|isn't|aren't|won't|without|stopped|quit|cancelled|canceled|gave up"
    r"|broke up|ended|left|dropped|avoids?|hates?|dislikes?|detests?|hated|disliked|anymore|any more|any longer|unable|refuses?)\b|不|没|讨厌|停止|取消|再也",
    re.IGNORECASE,
)
_NEGATION_TOKENS = words(
    "not never no cannot can can't don't doesn't didn't isn't aren't won stopp stop quit cancell cancel gave"
    " broke brok left dropp hat hate dislik detest avoid stand how unabl refus end doe t don doesn didn isn 不 没"
    " 再 讨 厌"
)
_AVERSION = re.compile(r"\b(?:hates?|dislikes?|detests?|hated|disliked|cannot stand|can't stand)\b|讨厌", re.IGNORECASE)
_CHANGE = re.compile(
    r"\b(?:now|new|switched|moved|raised|increased|lowered|reduced|cut|changed|again|instead|goes up|went up|updated|no longer|any ?more"
    r"|rescheduled|postponed|after all|became|replaced|upgraded)\b|搬|换|改|现在|已经",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\s(?P<verb>is|are|was|were|has|have|had|lives?|living|works?|will|moved|goes|costs?|pays?|runs?|plays?|likes?|loves?|hates?|prefers?"
    r"|starts?|ends?|departs?|leaves?|arrives?|renews?|uses?|takes?|weighs?|speaks?|studies|owns?|turns?|does|doesn't|cannot|can't|never|eats?|drinks?"
    r"|wants?|needs?|drives?|opens?|closes?|got|gets|kept|told|teaches|enjoys?|suffers?|expires?)\s"
)
_COPULAR = re.compile(
    r"^(?:user's|user has an?)\s(?P<key>.+?)\s(?P<verb>is|are|was|were|will be|has been|has|costs?|pays?|moved|goes|went|starts?|ends?|departs?|leaves?|renews?|runs?|turns?|expires?)"
    r"\s(?P<value>.+)$"
)
_COPULAR_CHINESE = re.compile(r"^用户的?(?P<key>[^是为叫，]{0,6})(?:是|为|叫)(?P<value>.+)$")
_CIRCUMSTANCE = re.compile(r"(?:in|with|from|by|near|for)\b")
_BEING = words("is are was were moved goes went costs cost") | {"will be", "has been"}
_NAMING = re.compile(r"\b(?:called|named)\b")
_HOME = re.compile(
    r"\b(?:lives?|living|resides?|moved|relocated|based)\s(?:now\s|back\s)?(?:with\s(?:[\w']+\s){1,4})?(?:in|to|at|near)\s(?:the\s)?(?P<place>[A-ZÀ-Þ].*)$|(?:住在|搬到了?|搬去了?|定居|家在)(?P<place_cn>.+)$"
)
_JOB = re.compile(r"\b(?:works?|working|employed|job is|a job)\b\s(?:now\s)?(?:(?:as|for|at)\b)")
_ROLE = re.compile(r"\bas\s(?:an?\s|the\s)?(?P<role>.+?)(?:\s(?:at|for|in|with)\s|$)")
_EMPLOYER = re.compile(r"\b(?:at|for)\s(?P<employer>.+?)(?:\sas\s|$)")
_DIETS = words("vegetarian vegan pescatarian omnivor omnivore carnivor carnivore flexitarian")
_RELATIONSHIP = re.compile(r"\b(?:single|dating|engaged|married|divorced|separated|widowed|broke up)\b")
_PREFERENCE = re.compile(
    r"\bprefers?\s(?P<what>.+?)(?:\s(?:in|on|for|at|when|while|with|during|as)\s(?P<context>.+))?$"
)
_RANKED = re.compile(
    r"\b(?:prefers?|likes?|loves?|enjoys?)\s(?P<first>.+?)\s(?:over|to|more than|better than|rather than)\s(?P<second>.+)$"
)
_FROM_TO = re.compile(r"\bfrom\s(?P<old>.+?)\sto\s(?P<new>.+)$")
_PROCEDURE = re.compile(r"^(?P<goal>[^:：]{3,120}?)\s?[:：]\s?(?P<steps>.+)$")
_EVENT = re.compile(
    r"^(?:on\s[\w-]+\s)?user\s(?:\w+ed|ran|went|bought|saw|had|met|won|lost|got|did|flew|drove|took|made|swam|rode|visited)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """A statement, taken apart as far as comparing needs.

    Attributes:
        words: content tokens, without words of negation.
        people: relations that the subject names (mother, dog); two statements about different people are distinct.
        subject: tokens before the verb.
        key: what a value is given to ("budget kitchen worktop"); empty when the form is another.
        verb: how it is given: `be`, `name` or the verb itself.
        value: tokens of the value.
        changing: says that something is no longer as it was.
        event: tells of something that happened once.
    """

    plain: str
    words: frozenset[str]
    names: frozenset[str]
    people: frozenset[str]
    subject: frozenset[str]
    negated: bool
    changing: bool
    event: bool
    key: frozenset[str] = frozenset()
    verb: str = ""
    value: frozenset[str] = frozenset()
    home: frozenset[str] = frozenset()
    role: frozenset[str] = frozenset()
    employer: frozenset[str] = frozenset()
    diet: frozenset[str] = frozenset()
    relationship: str = ""
    goal: frozenset[str] = frozenset()
    ranked: tuple[frozenset[str], ...] = ()
    preferred: tuple[str, ...] = ()
    context: frozenset[str] = frozenset()
    replaced: frozenset[str] = field(default=frozenset())


def meaning(content: str, *, procedural: bool = False) -> Meaning:
    """Take a statement apart. Unknown forms keep their words only."""
    text = plain(content)
    negated = bool(_NEGATION.search(text))
    words = tokens(content)
    if negated:
        words = (words | {"like"} if _AVERSION.search(text) else words) - _NEGATION_TOKENS
    procedure = _PROCEDURE.match(text) if procedural else None
    ranked, preferred = _RANKED.search(text), _PREFERENCE.search(text)
    moved = _FROM_TO.search(text) if _CHANGE.search(text) else None
    key, verb, value = _attribute(text)
    return Meaning(
        plain=text,
        words=words,
        names=frozenset(name.casefold() for name in re.findall(r"(?<=\s)[A-Z][\w'’-]+", content)),
        people=_people(text),
        subject=_subject(text),
        negated=negated,
        changing=bool(_CHANGE.search(text)),
        event=bool(_EVENT.match(text)) and not _CHANGE.search(text),
        key=key,
        verb=verb,
        value=value,
        home=_home(content),
        role=_part(_ROLE, "role", text) if _JOB.search(text) else frozenset(),
        employer=_part(_EMPLOYER, "employer", text) if _JOB.search(text) else frozenset(),
        diet=words & _DIETS,
        relationship=found.group() if (found := _RELATIONSHIP.search(text)) else "",
        goal=_goal(procedure.group("goal")) if procedure else frozenset(),
        ranked=(tokens(ranked.group("first")), tokens(ranked.group("second"))) if ranked else (),
        preferred=tuple(preferred.group("what").split()) if preferred and not ranked else (),
        context=tokens(preferred.group("context") or "") if preferred else frozenset(),
        replaced=tokens(moved.group("old")) if moved else frozenset(),
    )


def _attribute(text: str) -> tuple[frozenset[str], str, frozenset[str]]:
    if found := _COPULAR_CHINESE.match(text):
        return frozenset(found.group("key")) or frozenset({"name"}), "be", tokens(found.group("value"))
    found = _COPULAR.match(text)
    if not found:
        return frozenset(), "", frozenset()
    key, value, verb = found.group("key"), found.group("value"), found.group("verb")
    verb = "name" if _NAMING.search(value) else "be" if verb in _BEING else verb
    if circumstance := _CIRCUMSTANCE.match(value):
        verb = f"{verb} {circumstance.group()}"
    return tokens(key) or frozenset(key.split()), verb, tokens(value)


def _subject(text: str) -> frozenset[str]:
    verb = _VERB.search(text)
    return tokens(text[: verb.start()]) if verb else frozenset()


def _people(text: str) -> frozenset[str]:
    """Relations in the subject, or in "User has a sister, ..."."""
    has = re.match(r"^user has (?:an? |two |three )?(?:[\w-]+ )?(?P<who>[\w-]+)", text)
    verb = _VERB.search(text)
    head = text[: verb.start()] if verb else text
    found = {word for word in re.findall(r"[\w-]+", head) if word in _KIN}
    if has and has.group("who").rstrip(",") in _KIN and head.strip() == "user":
        found.add(has.group("who"))
    return frozenset({next(iter(tokens(word)), word) for word in found} | set(_KIN_CHINESE.findall(text)))


def _home(content: str) -> frozenset[str]:
    found = _HOME.search(content)
    return tokens(found.group("place") or found.group("place_cn")) if found else frozenset()


def _part(pattern: re.Pattern[str], name: str, text: str) -> frozenset[str]:
    found = pattern.search(text)
    return tokens(found.group(name)) if found else frozenset()


def _goal(text: str) -> frozenset[str]:
    return tokens(re.sub(r"^to\s", "", text))
