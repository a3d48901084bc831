"""Statements in the third person, derived from a user's own words where that is certain. Pure.

Strategy: a small grammar over clauses that begin with the user ("I live in ...") or with something of theirs ("my budget
for ... is ..."). It reads nothing that supposes, doubts, negates, asks, or that somebody else is said to have said, and
takes the words as they are: a statement has no content word that its quote or the quote's context lacks. When in doubt
there is no statement, because the quote is stored anyway. The grammar reads statements, too, so that a fact from the API or
a model is compared with one that was quoted.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from semrouter_memory.language.phrases import after, phrases, word_set, words_of
from semrouter_memory.language.scripts import CJK, simplified
from semrouter_memory.language.sentences import sentences
from semrouter_memory.language.words import spans, tokens
from semrouter_memory.model import Candidate, Fact
from semrouter_memory.retain.directives import wish
from semrouter_memory.retain.facts import DATA, MANY, covers, has_number, is_name, kind

_SINGLE, _ROLES, _DIETS, _HAD, _DOUBT, _PETS_ZH, _CLAUSE, _STOP, _ANSWERING = (
    word_set(DATA[name])
    for name in ("single", "role", "diet", "had", "doubt", "pets_zh", "clause", "stop", "answering")
)
_SINGLE_ZH, _ROLES_ZH, _DOUBT_ZH, _ADVERBS_ZH = (
    tuple(DATA[name].split()) for name in ("single_zh", "role_zh", "doubt_zh", "adverbs_zh")
)

_MAX_CHARS = 300
"""A longer sentence tells a story."""
_MAX_VALUE_WORDS = 10
_MAX_ANY_WORDS = 5
_MAX_ANSWER_CHARS = 80
_MAX_CHARS_ZH = 30
_MENTION_WORDS = 12
_AGE_WORDS = 3
_CLAUSES = re.compile(r"(?:[,;]|\s+-|\s+and|,\s*and)\s+(?=(?:i|i'm|i've|my|our|we)\b)|[，；]", re.IGNORECASE)
_OWN = re.compile(
    r"^(?:the user's|user's|my|our|the) (?P<attribute>[^,;:?]{2,60}?)"
    r"(?P<verb>'s| is| are| has changed to| changed to| went up to| was (?:moved|changed|raised) to|:)(?: now)? (?P<value>.+)$",
    re.IGNORECASE,
)
_HAS_OF = re.compile(
    r"^an? (?P<head>[\w -]{2,30}?) of (?P<value>[^;?]{1,40}?)(?P<what> for [\w' -]{2,40})?[.!]*$", re.IGNORECASE
)
_CORRECTION = re.compile(
    r"^(?P<sign>(?:(?:actually|no|sorry|wait|correction|update|make)[,.:!]? )*)(?:it's|its|it is|it|that|that's|should be)"
    r"(?: now)? (?P<value>(?:[^,;?]|,(?=\d)){1,40}?)(?P<now> now| instead| these days)?[.!]*$",
    re.IGNORECASE,
)
_CORRECTION_ZH = re.compile(
    r"^(?P<sign>不对|不|更正|其实|现在)?[，, ]*(?:改成|改为|现在是|是|变成)了?(?P<value>[^，。？?]{1,15}?)(?P<now>了)?[。！]*$"
)
_OWN_ZH = re.compile(
    r"^(?:我们?|用户)的?(?P<attribute>[^，。？?是叫的]{1,8}?|最喜欢的[^，。是]{1,6}?)(?:现在|目前|如今|现)?"
    r"(?P<verb>是|叫|为|改成|改为|变成|变为|涨到|降到)了?(?P<value>[^，。？?]{1,20}?)[。！]*$"
)
_AFTER = re.compile(r"[,:](?!\d)|[;(–—。，；？?!]|\.(?=\s|$)|\s-\s")
_SUBJECTS = {
    prefix: begun
    for begun, prefixes in {
        "'m ": ("i'm ", "i am ", "im ", "we're ", "we are ", "user is ", "the user is "),
        "'ve got ": ("i've got ", "i have got ", "we've got ", "user has got "),
        "have ": ("i have ", "we have ", "user has ", "the user has "),
        "": ("i've ", "we've ", "i ", "we ", "user ", "the user "),
    }.items()
    for prefix in prefixes
}
_CALLS = (" is now called ", " is now named ", " is called ", " is named ")
_TAILS = tuple(f" {each.strip()}" for each in DATA["tails"].split("|"))
_MARKS = '.,;:!?()"“”-–'
_VAGUE = word_set("to the it that this these those them there one you your like a an who new and,")
_ADVERBS = word_set("just now recently currently really also actually already")
_PREDICATES = {
    form: (attribute, third, wanted)
    for base, (attribute, third, wanted) in DATA["predicates"].items()
    for form in (base, third)
}
_PREDICATES_ZH: dict[str, tuple[str, str]] = {form: tuple(each) for form, each in DATA["predicates_zh"].items()}


# -- deriving ----------------------------------------------------------------------------------------------------------


@lru_cache(1_024)
def facts(text: str, context: str = "") -> tuple[Fact, ...]:
    """What a quote, or a statement, says for certain of its user; Chinese in simplified characters.

    Args:
        context: what the quote was said about, where its own words do not tell.
    """
    known = facts(context) if context else ()
    found: dict[str, Fact] = {}
    for sentence in sentences(simplified(text)):
        for clause in _clauses(sentence):
            if (fact := _fact(clause)) or (fact := _corrected(clause, known or mentioned(context))):
                found[fact.text] = fact
    return tuple(found.values())


def in_context(content: str, about: str, said: str) -> tuple[tuple[Fact, ...], str]:
    """The facts of a quote, and what it is about.

    Args:
        about: the quote's context, "" where its own words tell.
        said: what the user said before it.
    """
    found = facts(content, said) if about else facts(content)
    corrected = next((fact for fact in found if fact not in facts(content)), None)
    return found, about if corrected is None else subject(corrected)


def told(quote: Candidate) -> str:
    """What a quote tells the next one."""
    about = quote.context
    corrected = next((fact for fact in quote.facts if about and fact not in facts(quote.content)), None)
    if corrected is None:
        return quote.content
    return f"{about}是{corrected.value}" if CJK.search(about) else f"{about} is {corrected.value}"


def is_fact(sentence: str) -> bool:
    """Whether a sentence says a fact and nothing else."""
    found = facts(sentence)
    return bool(found) and covers(" ".join(fact.text for fact in found), sentence)


def mentioned(text: str) -> tuple[Fact, ...]:
    """An attribute that a text names without a value for certain: "what's my budget for the trip?"."""
    said = text.split()
    for at, word in enumerate(said):
        if word.lower() in {"my", "our"}:
            found = list(_unbroken(said[at + 1 : at + 1 + _MENTION_WORDS]))
            head = next((at for at, word in enumerate(found[:4]) if word.lower() in _SINGLE), None)
            if head is not None:
                about = found[: head + 4] if found[head + 1 : head + 2] == ["for"] else found[: head + 1]
                return (Fact(" ".join(about), "", f"User's {' '.join(about)}"),)
    return ()


def _unbroken(said: Sequence[str]) -> Iterator[str]:
    """The words up to the first that a mark ends."""
    for word in said:
        yield word.strip(_MARKS)
        if word[-1] in _MARKS:
            return


def subject(fact: Fact) -> str:
    """What has the value, in the user's own voice."""
    own = next((each for each in ("用户的", "用户", "User's ") if fact.text.startswith(each)), "")
    if not own:
        return fact.text.removesuffix(f" {fact.value}").replace("User ", "I ", 1)
    return f"{'我的' if own.startswith('用') else 'my '}{fact.attribute}"


def _clauses(sentence: str) -> Iterator[str]:
    """The parts of a sentence with subjects of their own; none of one that may not be meant."""
    if len(sentence) > _MAX_CHARS or words_of("may_state").isdisjoint(tokens(sentence)):
        return
    sentence = " ".join((wish(sentence) or sentence).replace("\u2019", "'").split())
    # "May" is a month.
    lowered = {*_words(sentence.replace("May", ""))}
    doubtful = lowered & _DOUBT or any(word.endswith("n't") and word != "can't" for word in lowered)
    if sentence.endswith(("?", "\uff1f")) or doubtful or any(map(sentence.__contains__, _DOUBT_ZH)):
        return
    for clause in _CLAUSES.split(sentence):
        if clause := clause.strip(" ,;"):
            yield clause


def _fact(clause: str) -> Fact | None:
    opened = after(tokens(clause), phrases("openings"))
    bare = clause[spans(clause)[opened][0] :] if 0 < opened < len(spans(clause)) else clause
    if CJK.search(bare[:2]):
        return _chinese(bare)
    return _own(bare) or _named(bare) or _predicated(bare) or _answered(bare)


def _own(clause: str) -> Fact | None:
    match = _OWN.match(clause)
    if not match:
        return None
    attribute, value = match["attribute"].strip(), _value(match["value"])
    head = re.split(r" (?:for|in|of|at|with|on) ", attribute)[0].split()
    plain = [word.lower() for word in head]
    favourite = len(plain) > 1 and bool({"favourite", "favorite"} & {*plain})
    if not value or not plain or {word.lower() for word in attribute.split()} & _CLAUSE:
        return None
    if not (favourite or plain[-1] in _SINGLE) or (
        clause[:4].lower() == "the " and plain[-1] not in {"deadline", "appointment"}
    ):
        return None
    if len(value.split()) > _MAX_ANY_WORDS if favourite else kind(value) == "word":
        return None
    return Fact(attribute, value, f"User's {attribute} is {value}")


def _named(clause: str) -> Fact | None:
    """What somebody or an animal is called."""
    bare = _without_politeness(clause)
    if bare.lower().startswith("call me "):
        value = _value(bare[len("call me ") :])
        return Fact("name", value, f"User wants to be called {value}") if is_name(value) else None
    verb = next((each for each in (*_CALLS, "'s name is ") if each in clause.lower()), "")
    if not verb:
        return None
    at = clause.lower().index(verb)
    owner, _, what = clause[:at].partition(" ")
    value = _value(clause[at + len(verb) :])
    owners = {"my", "our", "user's", *(["the"] if what.lower() in _HAD else [])}
    if owner.lower() not in owners or not what or not is_name(value) or {*_words(what)} & _CLAUSE:
        return None
    named = f"User's {what} is called {value}" if verb in _CALLS else f"User's {what}'s name is {value}"
    return Fact(f"{what}'s name", value, named)


def _without_politeness(clause: str) -> str:
    first, _, rest = clause.partition(" ")
    return rest if first.lower() in {"please", "pls", "just"} else clause


def _predicated(clause: str) -> Fact | None:
    """What the user is, has or does."""
    prefix = next((each for each in _SUBJECTS if clause.lower().startswith(each)), None)
    if prefix is None:
        return None
    begun = _SUBJECTS[prefix] + clause[len(prefix) :]
    found = begun.split()
    found = [word for word in found[:2] if word not in _ADVERBS] + found[2:] or found
    if found[0] == "have" and found[1:2] and found[1] in {"moved", "relocated", "started", "switched"}:
        del found[0]
    if old := _age(found):
        return Fact("age", found[1], f"User is {old}")
    for count in range(min(5, len(found)), 0, -1):
        if predicate := _PREDICATES.get(" ".join(found[:count]).lower()):
            attribute, third, wanted = predicate
            value = _value(" ".join(found[count:]), listed=wanted in {"any", "had"})
            return _checked(attribute, third, wanted, value)
    return None


def _age(found: Sequence[str]) -> str:
    """As in "'m 34 years old"; "" for none."""
    if len(found) < _AGE_WORDS or found[0] != "'m" or not (found[1].isdigit() and len(found[1]) <= len("100")):
        return ""
    behind = [word.strip(_MARKS).lower() for word in found[2:4]]
    old = "years old" if behind == ["years", "old"] else behind[0]
    return f"{found[1]} {old}" if old in {"years old", "yo", "y/o"} else ""


def _checked(attribute: str, third: str, wanted: str, value: str) -> Fact | None:
    plain = _words(value)
    if not plain or plain[0] in _CLAUSE or (wanted == "any" and {*plain} & _VAGUE):
        return None
    if wanted == "had" and (match := _HAS_OF.match(value)):
        return _amount(match, third, value)
    if wanted == "diet":
        return Fact("diet", value, f"User is {value}") if plain[0] in _DIETS and len(plain) == 1 else None
    fits = {
        "name": is_name(value),
        "number": has_number(value),
        "role": bool({*plain[:4]} & _ROLES) and not {*plain} & {"who", "your"},
        "had": bool({word.removesuffix("s") for word in plain[:4]} & _HAD or {*plain[:4]} & _HAD),
        "any": len(plain) <= _MAX_ANY_WORDS,
    }
    if not fits[wanted]:
        return None
    return Fact(attribute, value, f"User {third} {value}")


def _amount(match: re.Match[str], third: str, whole: str) -> Fact | None:
    """As in "a budget of $10,000 for the trip"."""
    value, known = _value(match["value"]), match["head"].lower().split()[-1] in _SINGLE
    about = f"{match['head']}{match['what'] or ''}"
    return Fact(about, value, f"User {third} {whole}") if known and kind(value) != "word" else None


def _answered(clause: str) -> Fact | None:
    wanted = _without_politeness(clause)
    begins = wanted.lower().split()[:2]
    if len(begins) < len(("always", "answer")) or begins[0] not in {"always", "never"} or begins[1] not in _ANSWERING:
        return None
    value = _without_tail(wanted.rstrip(" .!"))
    told = f"User wants the assistant to {value[0].lower()}{value[1:]}"
    return Fact("answers", value, told) if 0 < len(value) - len(" ".join(begins)) <= _MAX_ANSWER_CHARS else None


def _chinese(clause: str) -> Fact | None:
    if (match := _OWN_ZH.match(clause)) and not {*"我你他她"} & {*match["value"]}:
        attribute, verb, value = match["attribute"], match["verb"], match["value"].removesuffix("了")
        if attribute.endswith(_SINGLE_ZH) or attribute.startswith("最"):
            return Fact(attribute, value, f"用户{'' if attribute[0] == '最' else '的'}{attribute}是{value}")
        is_pet = verb == "叫" and attribute in _PETS_ZH
        return Fact(f"{attribute}的名字", value, f"用户的{attribute}叫{value}") if is_pet else None
    subject = next((each for each in ("我", "用户") if clause.startswith(each)), "")
    rest = clause.removeprefix(subject).rstrip("。！") if subject else ""
    adverb = next((each for each in _ADVERBS_ZH if rest.startswith(each)), "")
    rest = rest.removeprefix(adverb).removesuffix("了")
    if len(rest) > _MAX_CHARS_ZH or any(mark in rest for mark in "，。？?"):
        return None
    found = max((form for form in _PREDICATES_ZH if _form_value(form, rest) is not None), key=len, default="")
    if not found:
        return None
    attribute, wanted = _PREDICATES_ZH[found]
    value = _form_value(found, rest) or ""
    fits = {
        "nothing": not value,
        "role": value.endswith(_ROLES_ZH),
        "age": value.isdigit() or {*value} <= {*"一二三四五六七八九十"},
    }
    if not fits.get(wanted, True) or (wanted != "nothing" and not value):
        return None
    return Fact(attribute, value or found, f"用户{found.replace('…', value) if '…' in found else found + value}")


def _form_value(form: str, rest: str) -> str | None:
    """What stands where the form has "…", or behind it; None where something else is said."""
    before, _, behind = form.partition("…")
    fits = rest.startswith(before) and rest.endswith(behind) and len(rest) >= len(before + behind)
    return rest[len(before) : len(rest) - len(behind)] if fits else None


def _corrected(clause: str, known: Sequence[Fact]) -> Fact | None:
    """A new value for the attribute that was spoken of just before."""
    match = _CORRECTION.match(clause) or _CORRECTION_ZH.match(clause)
    value = _value(match["value"]) if match and (match["sign"] or match["now"]) else ""
    sort = kind(value)
    alike = [
        each
        for each in known
        if each.attribute not in MANY and (kind(each.value) == sort if each.value else sort != "word")
    ]
    if not value or len(alike) != 1:
        return None
    (before,) = alike
    if not before.value or before.value not in before.text:
        return Fact(before.attribute, value, f"{before.text} is {value}")
    return Fact(before.attribute, value, value.join(before.text.rsplit(before.value, 1)))


def _value(text: str, *, listed: bool = False) -> str:
    """What is said, without what explains it; "" when it is too long.

    Args:
        listed: it may be several things.
    """
    text = _AFTER.split(text, maxsplit=1)[0]
    found = text.split()
    stop = _STOP if listed else _STOP | {"and"}
    end = next((at for at, word in enumerate(found) if at and word.lower() in stop), len(found))
    value = _without_tail(" ".join(found[:end])).removeprefix("now ").strip(" .!。！\"'")
    return value if 0 < len(value.split()) <= _MAX_VALUE_WORDS else ""


def _without_tail(value: str) -> str:
    while tail := next((each for each in _TAILS if value.lower().endswith(each)), ""):
        value = value[: -len(tail)]
    return value


def _words(text: str) -> list[str]:
    """Lower-cased, without marks around them."""
    return [bare for word in text.lower().split() if (bare := word.strip(_MARKS))]
