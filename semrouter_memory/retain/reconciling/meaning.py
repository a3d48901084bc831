"""What a statement is about (subject, attribute) and what it says of it (value, negation). Pure."""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from semrouter_memory.retain.reconciling import forms, han
from semrouter_memory.retain.reconciling.synonyms import CHANGE
from semrouter_memory.retain.reconciling.words import plain, tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """A statement, taken apart as far as comparing needs.

    Attributes:
        words: content tokens, without words of negation.
        people: relations that the subject names (mother, dog); two statements about different people are distinct.
        subject: tokens before the verb.
        entity: names among them: whose or what of several it is.
        bound: in which direction the subject goes: "flight to Rome", "flight from Rome".
        stranger: a name that the statement begins with, in the user's place.
        key: what a value is given to ("budget kitchen worktop"); empty when the form is another.
        verb: how it is given: `be`, `name` or the verb itself.
        value: tokens of the value.
        changing: says that something is no longer as it was.
        event: tells of something that happened once.
        act: what the subject does, in one word; "be" for having and being.
        denied: content words of the clauses that hold a negation.
        ended: says that something came to its end.
        planned: speaks of what may come to be.
        former: speaks of how it used to be.
        used: what is used or preferred, and for what.
        becomes: the noun that ends what something was changed to ("moved to Roosevelt Middle School").
        head: the last noun before any circumstances.
        attends: the kind of a school, gym or the like that one belongs to, and its name.
        replaced: a former value that the statement itself names.
    """

    plain: str
    words: frozenset[str]
    names: frozenset[str]
    people: frozenset[str]
    subject: frozenset[str]
    entity: frozenset[str]
    stranger: frozenset[str]
    bound: frozenset[str]
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
    attends: tuple[str, frozenset[str]] | None = None
    goal: frozenset[str] = frozenset()
    act: str = ""
    denied: frozenset[str] = frozenset()
    ended: bool = False
    planned: bool = False
    former: bool = False
    ranked: tuple[frozenset[str], ...] = ()
    preferred: tuple[str, ...] = ()
    context: frozenset[str] = frozenset()
    used: tuple[frozenset[str], frozenset[str]] | None = None
    becomes: str = ""
    head: str = ""
    replaced: frozenset[str] = field(default=frozenset())


# It takes a millisecond, and a candidate's neighbours are mostly those of the candidate before it.
@lru_cache(2_048)
def meaning(content: str, *, procedural: bool = False) -> Meaning:
    """Take a statement apart. Unknown forms keep their words only."""
    text = plain(content)
    negated = bool(forms.NEGATION.search(text))
    words = _words(content, text, negated=negated)
    changing = _changing(content, text)
    key, verb, value = _attribute(text)
    names = frozenset(plain(name) for name in re.findall(r"(?<=\s)[A-Z][\w'’-]+", content)) - {"user", "user's"}
    role, employer = _job(text, tokens(" ".join(names)))
    preferred, context = _preferred(text)
    return Meaning(
        plain=text,
        words=words,
        names=names,
        people=_people(text),
        subject=_subject(text),
        entity=_subject(text) & tokens(" ".join(names)),
        bound=frozenset(forms.BOUND.findall(_head(text))) if text.startswith("user's") else frozenset(),
        stranger=_stranger(content),
        negated=negated,
        changing=changing,
        event=bool(forms.DATED.match(text)) or (bool(forms.EVENT.match(text)) and not changing),
        key=key,
        verb=verb,
        value=value,
        home=_home(content, text),
        role=role,
        employer=employer,
        diet=words & forms.DIETS,
        relationship=_relationship(text),
        attends=_attends(text),
        goal=_goal(text) if procedural else frozenset(),
        act=_act(text),
        denied=_denied(text) if negated else frozenset(),
        ended=bool(forms.ENDED.search(text)),
        planned=bool(forms.PLANNED.search(text)),
        former=bool(forms.FORMER.search(text)) and not changing,
        ranked=_ranked(text),
        preferred=preferred,
        context=context,
        used=_used(text),
        becomes=_becomes(text),
        head=_last_noun(text),
        replaced=_replaced(text) if changing or negated else frozenset(),
    )


def _words(content: str, text: str, *, negated: bool) -> frozenset[str]:
    found = tokens(content)
    if not negated:
        return found
    return (found | {"like"} if forms.AVERSION.search(text) else found) - _negations(text)


def _negations(text: str) -> frozenset[str]:
    """Tokens of the words that negate."""
    return forms.NEGATION_TOKENS.union(*(tokens(found) for found in forms.NEGATION.findall(text)))


def _ranked(text: str) -> tuple[frozenset[str], ...]:
    found = forms.RANKED.search(text)
    return (tokens(found.group("first")), tokens(found.group("second"))) if found else ()


def _preferred(text: str) -> tuple[tuple[str, ...], frozenset[str]]:
    """What is preferred, word by word, and where or what for."""
    found = None if forms.RANKED.search(text) else forms.PREFERENCE.search(text)
    return (tuple(found.group("what").split()), tokens(found.group("context") or "")) if found else ((), frozenset())


def _relationship(text: str) -> str:
    return next((stage for stage, pattern in forms.RELATIONSHIPS.items() if pattern.search(text)), "")


def _attends(text: str) -> tuple[str, frozenset[str]] | None:
    found = forms.ATTENDED.search(text)
    if not found:
        return None
    name = tokens(found.group("name")) - tokens(" ".join(forms.INSTITUTIONS))
    return (forms.INSTITUTIONS[found.group("kind")], name) if name else None


def _used(text: str) -> tuple[frozenset[str], frozenset[str]] | None:
    found = forms.USED.search(text)
    return (tokens(found.group("what")), tokens(found.group("context"))) if found else None


def _replaced(text: str) -> frozenset[str]:
    found = forms.OLD_VALUE.search(text)
    return tokens(next(part for part in found.groups() if part)) if found else frozenset()


def _stranger(content: str) -> frozenset[str]:
    found = forms.STRANGER.search(content)
    return tokens(found.group().casefold()) if found else frozenset()


def _changing(content: str, text: str) -> bool:
    return bool(forms.CHANGE.search(text) or (han.is_chinese(content) and han.CHANGE.search(content)))


def _becomes(text: str) -> str:
    found = forms.BECOMES.search(text)
    return _last_noun(found.group("what")) if found else ""


def _last_noun(text: str) -> str:
    found = forms.PREPOSITION.sub("", text).split()
    return next(iter(tokens(found[-1])), "") if found else ""


def _denied(text: str) -> frozenset[str]:
    """What the clauses with a negation deny, without the circumstances of its end."""
    clauses = [forms.ADJUNCT.sub("", clause) for clause in forms.CLAUSE.split(text) if forms.NEGATION.search(clause)]
    found = tokens(" ".join(clauses)) - _negations(text)
    return found | {"like"} if forms.AVERSION.search(text) else found


def _act(text: str) -> str:
    """The first word after the subject that is neither helping verb nor adverb, when a user does something."""
    found = re.search(r"(?:^|\s)user\s(?P<rest>.+)$", text)
    if not found:
        return "be"
    rest = found.group("rest")
    for word in re.findall(r"[a-z'-]+", rest)[:6]:
        if word in CHANGE:
            return ""
        if forms.AVERSION.search(word):
            return "like"
        if word not in forms.AUXILIARY:
            return next(iter(tokens(word)), "be") if _is_verb(word) else "be"
    return "be"


def _is_verb(word: str) -> bool:
    return (
        word in forms.VERBS
        or word.endswith("ing")
        or word.removesuffix("s") in forms.VERBS
        or word.removesuffix("es") in forms.VERBS
    )


def _job(text: str, names: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Role and employer. An employer has a name or an article: "works at night" names none."""
    if found := forms.EMPLOYER_CHINESE.search(text):
        return frozenset(), tokens(found.group("employer") or found.group("employer2") or found.group("employer3"))
    if forms.JOB.search(text):
        role, employer = _part(forms.ROLE, "role", text), forms.EMPLOYER.search(text)
        joined = employer and employer.group().startswith("joined") and not (role or forms.NEGATION.search(text))
        who = employer.group("employer") if employer and not joined else ""
        return role, tokens(who) if who.startswith(("a ", "an ")) or tokens(who) & names else frozenset()
    title = forms.JOB_TITLE.search(text)
    if not title or not tokens(title.group("employer")) & names or set(title.group("role").split()) & forms.NO_JOB:
        return frozenset(), frozenset()
    return tokens(title.group("role")), tokens(title.group("employer"))


def _attribute(text: str) -> tuple[frozenset[str], str, frozenset[str]]:
    if (found := forms.COPULAR_CHINESE.match(text)) and not frozenset(found.group("key")) & (
        forms.VERBS_CHINESE - (forms.SUPERLATIVE if "最" in found.group("key") else frozenset())
    ):
        return frozenset(found.group("key")), "be", tokens(found.group("value"))
    if setting := forms.SETTING.match(text):
        return tokens(setting.group("key")), "be", tokens(setting.group("value"))
    found = forms.COPULAR.match(text)
    if not found:
        return frozenset(), "", frozenset()
    key, value, verb = found.group("key"), found.group("value"), found.group("verb")
    if verb == "has" and forms.LED_TO.match(value):
        verb = "be"
    verb = (
        "name"
        if forms.NAMING.search(value)
        else "be"
        if verb in forms.BEING or verb.split()[-1] in {"to", "until"}
        else verb
    )
    if circumstance := forms.CIRCUMSTANCE.match(value):
        verb = f"{verb} {circumstance.group()}"
    return tokens(key) or frozenset(key.split()), verb, tokens(value)


def _subject(text: str) -> frozenset[str]:
    return tokens(_head(text))


def _head(text: str) -> str:
    """What stands before the verb; "" where there is no verb that is known."""
    verb = forms.VERB.search(text)
    return text[: verb.start()] if verb else ""


def _people(text: str) -> frozenset[str]:
    """Relations in the subject, or in "User has a sister, ..."."""
    has = re.match(r"^user has (?:an? |two |three )?(?:[\w-]+ )?(?P<who>[\w-]+)", text)
    verb = forms.VERB.search(text)
    head = "user" if re.match(r"user (?!and\b)", text) else text[: verb.start()] if verb else text
    found = {word for word in re.findall(r"[\w-]+", forms.NOBODY.sub("", head)) if word in forms.KIN}
    if has and has.group("who").rstrip(",") in forms.KIN and head.strip() == "user":
        found.add(has.group("who"))
    return frozenset({next(iter(tokens(word)), word) for word in found} | set(forms.KIN_CHINESE.findall(text)))


def _home(content: str, text: str) -> frozenset[str]:
    if forms.OTHER_ADDRESS.search(content) or (forms.THING.match(text) and not _people(text)):
        return frozenset()
    found = None if forms.TOOLS.search(text) else forms.HOME.search(content)
    return tokens(found.group("place") or found.group("place_cn")) if found else frozenset()


def _part(pattern: re.Pattern[str], name: str, text: str) -> frozenset[str]:
    found = pattern.search(text)
    return tokens(found.group(name)) if found else frozenset()


def _goal(text: str) -> frozenset[str]:
    """What a how-to is for: "to X", "for X-ing", "how to X", before the colon."""
    found = forms.PROCEDURE.match(text)
    return (
        tokens(re.sub(r"^(?:how to|steps to|in order to|to|for|when)\s", "", found.group("goal")))
        if found
        else frozenset()
    )
