"""English clauses in the first person that are worth remembering, as statements about the user.

Strategy: a clause must begin with a known subject ("I", "we", "my sister ...", "she" when we know who that is), and its
predicate must be of a kind that lasts: a state, a habit, a plan, an event that is tied to a date, number or name.
What matches nothing is not stored.
"""

import re
from collections.abc import Mapping

from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.voice import split_adverbs, third_person

_MAX_SUBJECT_WORDS = 8
_MAX_WORDS = 60

_UNREAL = re.compile(r"\b(?:if|wish|would|could|should|might|whether|unless|hypothetically|dream(?:t|ed|ing)?)\b", re.IGNORECASE)
_WOULD_SAY = re.compile(r"^would (?:rather|prefer|pay|love to (?:visit|learn|move|live|travel)|like to (?:visit|learn|move|become|travel|retire))\b", re.I)
_BOTH = re.compile(r"^(?P<other>(?:my|our)\s[^,]{2,40}?)\s+and I\s+(?P<rest>.+)$", re.IGNORECASE)
_TODAYS_TROUBLE = re.compile(r"\b(?:errors?|bugs?|exceptions?|crash\w*|stack ?trace|traceback|warnings?|vulnerabilit\w+|npm|pip|stuck|line \d+|localhost)\b", re.I)
_ANAPHORIC = re.compile(
    r"^(?:\w+\s+){1,2}?(?:it|that|this|these|those|them|your|you|u|what|how|one of (?:those|these|them)"
    r"|the (?:first|second|third|last|idea|tone|way|one|other|same|above|following|output|result|error|code)\w*)\b"
    r"|^(?:do|did|have done|cannot|will do|do not do) (?:it|this|that|so)\b|^\w+ (?:something|anything|nothing|some help|help)\b",
    re.IGNORECASE,
)
_A_THING_AT_HAND = re.compile(
    r"^have (?:not )?(?:got )?(?:(?:a|an|some|no|any|the|one|two|another|few|many|several|following|little|quick|small|bit of a|more|"
    r"hard|stupid|simple|strange|weird|bad|good|great|python|pandas|sql|json|csv)\s+)*"
    r"(?:question|problem|issue|doubt|idea|clue|request|feeling|time|trouble|error|bug|look|to\b|task|df|dataframe|list|"
    r"string|array|table|function|code|file|script|class|json|csv|column|regex|query|concern|thing|thought|nothing|fun|"
    r"following|matrix|variable|dataset|data|log|exception|component|loop|text|dictionary|dict|object|suspicion|point|luck|screenshot"
    r"|it|that|this|here|mind|plan|day|one)s?\b",
    re.IGNORECASE,
)
_NAMED_PLACE = re.compile(r"^(?:in|from|at|near|based in|originally from)\s+(?:the\s+)?([A-ZÀ-Þ][\w'’-]+|[a-z]+ [A-Z]\w+)")
_NUMBERED_AGE = re.compile(r"^(?:almost |nearly |turning )?\d{1,3}(?:\s+years?\s+old)?(?:\s+and\b.*|\s*,.*)?$")
_ARTICLE = re.compile(r"^(?:an?|the|one of|part of|in charge of|allergic|originally)\s+(?!bit\b|little\b|tad\b|lot\b|few\b|huge fan of (?:it|that|this)|fan of (?:it|that|this)|same|first to|one who|idiot|mess|wreck)")
_FEAR = re.compile(r"^(?:scared|afraid|terrified|fond|proud owner|good|bad|terrible|great) (?:of|at) (?!it|that|this|you)\w")
_REGIME = re.compile(r"^(?:on|off)\s+(?:(?:a|an|the)\s+)?[\w-]+(?:\s+[\w-]+)?\s*(?:diet|medication|meds|pill|\d+)|^on (?:call|[A-Z]\w+|parental|maternity|sick leave|insulin|metformin|statins)")
_INTEREST = re.compile(r"^(?:really |very |also )?(?:into|interested in|passionate about|responsible for|used to|new to|obsessed with)\s+(?!this|that|it|the\b|seeing|knowing|hearing|your)\w")
_TROUBLE = re.compile(r"^(?:not )?(?:broken|slow|down|fine|ready|good|bad|ok|okay|killing|driving|wrong|right|this|that|these|how|why|what|to know|to find|whether|not sure|here|below|attached|as follows|about)\b", re.I)
_LIMIT = re.compile(r"^(?:at (?:least|most)|under|over|max(?:imum)?|no more than|less than|more than|between|up to|only)\s+[\w€$£¥]*\d", re.I)
_GOING = re.compile(r"^(?:go|going|travel|travelling|traveling|fly|flying|move|moving|visit|visiting)\b(?: to)?\s+(?:the\s+|see\s+)?[A-ZÀ-Þ]")
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
_ELIDED = re.compile(r"^(?P<verb>[a-z]+)\s+\S", re.IGNORECASE)
_APPOINTMENT = re.compile(
    r"\b(?:have|have got|got|my|booked)\s+(?:an?\s+|the\s+)?(?P<what>(?:[\w-]+\s){0,2}?(?:appointment|interview|exam|meeting|flight|surgery|operation|wedding|viewing|check-?up|deadline|test|class|party|reservation|booking))\b",
    re.IGNORECASE,
)
_RESCHEDULED = re.compile(r"^it\s+(?P<rest>(?:is|was|has been|got)\s+(?:now\s+)?(?:moved|rescheduled|postponed|cancelled|canceled|changed|pushed|on|at)\b.*)$", re.IGNORECASE)
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
    return _finish(found) if found else ""


def as_it_is(sentence: str) -> str:
    """A sentence that the user asked to remember and that no rule knows, in the third person."""
    return _finish(third_person(_trim(sentence)))


def _about(clause: str, people: Mapping[str, str], *, trusted: bool) -> str:
    if both := _BOTH.match(clause):
        rest = both.group("rest")
        return third_person(f"I and {both.group('other')} {rest}") if _lasts([], rest.split(), trusted=trusted) else ""
    first, *words = clause.split()
    if first in {"I", "we", "We"}:
        adverbs, rest = split_adverbs(words)
        return third_person(clause_of(adverbs, rest)) if rest and _lasts(adverbs, rest, trusted=trusted) else ""
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


def clause_of(adverbs: list[str], rest: list[str]) -> str:
    return " ".join(["I", *adverbs, *("am" if word == "are" and index == 0 else word for index, word in enumerate(rest))])


def _lasts(adverbs: list[str], rest: list[str], *, trusted: bool) -> bool:
    """Whether what "I" do or am is worth remembering."""
    predicate = " ".join(rest)
    if _ANAPHORIC.match(predicate) or (_TODAYS_TROUBLE.search(predicate) and not trusted):
        return False
    if _UNREAL.search(predicate):
        return bool(_WOULD_SAY.match(predicate))
    if trusted:
        return True
    habitual = any(word.lower() in {"always", "never", "usually", "only", "mostly", "rarely"} for word in adverbs)
    return _predicate_lasts(rest, predicate, habitual=habitual)


def _predicate_lasts(rest: list[str], predicate: str, *, habitual: bool) -> bool:
    verb, after = rest[0].lower(), predicate.partition(" ")[2]
    if verb in {"am", "are", "was", "were"}:
        return _being(after) if verb in {"am", "are"} else _has_been(after)
    if verb == "have":
        return _having(predicate, after)
    if verb in {"do", "cannot"} or predicate.startswith("will not"):
        return _negated(verb, after)
    if verb in {"want", "need", "plan", "hope", "intend", "aim", "will", "must"}:
        return _planned(verb, after)
    if verb in lex.STATIVE or verb in lex.EVENT_PAST:
        return bool(after)
    if verb in lex.HABITUAL:
        return habitual or bool(lex.HABIT.search(after)) or _anchored(after)
    return (verb in lex.PAST and (habitual or _anchored(after))) or predicate.startswith(("used to ", "got married", "had surgery", "gave up"))


def _being(after: str) -> bool:
    """"I am ..." """
    after = re.sub(r"^(?:not|also|now|still|currently|originally|just|only|already|a proud|actually)\s+", "", after)
    word = after.split()[0].strip(",.").lower() if after else ""
    if any(pattern.match(after) for pattern in (_NAMED_PLACE, _NUMBERED_AGE, _ARTICLE, _FEAR, _REGIME, _INTEREST)):
        return True
    if word in lex.LASTING:
        return True
    if word in {"going", "thinking", "looking", "trying"}:
        return _intending(after)
    if word in lex.UNDER_WAY or (word.endswith("ing") and word not in lex.PASSING and _anchored(after)):
        return not re.match(r"\w+ (?:a|an|the|this|some) (?:error|issue|problem|bug|weird|strange)|\w+ (?:it|this|that)\b|getting (?:the|an?|some) ", after)
    return after[:1].isupper() and word not in lex.PASSING


def _intending(after: str) -> bool:
    """"thinking of going to the Azores", "going to move", "looking to buy a house"."""
    if re.match(r"looking for (?:(?:a|an|some|new|another|part-time|full-time|bigger|better)\s)*(?:job|work|flat|apartment|house|home|room|position|school)\b", after):
        return True
    verb = re.match(r"^(?:going|trying|looking) to (\w+)|^(?:thinking) (?:of|about) (\w+ing)|^going on (?:a|an)?", after)
    if not verb:
        return bool(_GOING.match(after)) or (after.startswith("going to ") and bool(re.match(r"going to (?:the |a )?[A-Z]", after)))
    word = verb.group(1) or verb.group(2) or "go"
    planned = word in lex.PLANNED or word in lex.UNDER_WAY or word == "going" or _stem(word) in lex.PLANNED
    return planned and not re.match(r"^\w+ \w+ \w+ (?:it|this|that)\b", after)


def _stem(participle: str) -> str:
    stem = participle.removesuffix("ing")
    return next((verb for verb in (stem, stem + "e", stem[:-1]) if verb in lex.PLANNED), stem)


def _has_been(after: str) -> bool:
    return bool(re.match(r"(?:born|raised|diagnosed|promoted|hired|adopted|laid off|fired|named)\b", after)) or (
        bool(re.match(r"(?:an?|in|at) ", after)) and _anchored(after)
    )


def _having(predicate: str, after: str) -> bool:
    """"I have two cats", "I have lived here since 2019", not "I have a question"."""
    if _A_THING_AT_HAND.match(predicate):
        return False
    words = after.split()
    if len(words) > 1 and words[0].lower() in {"been", "never", "always", "just", "already", "not", "recently"}:
        words = words[1:]
    verb = words[0].lower() if words else ""
    if verb == "got":
        return True
    if verb in lex.PAST or verb.endswith("ed") or verb.endswith("ing"):
        return verb in lex.EVENT_PAST or verb == "lived" or _anchored(after) or after.startswith("been diagnosed")
    return bool(words)


def _negated(verb: str, after: str) -> bool:
    """"do not eat meat", "cannot swim"; "cannot find the file" is today's trouble."""
    words = [word.strip(",.").lower() for word in after.split() if word.lower() not in {"not", "really", "even", "usually", "ever"}]
    if not words or (verb == "do" and not after.lower().startswith("not")):
        return False
    if verb == "cannot":
        return words[0] in lex.CANNOT and "it" not in words[1:2]
    return words[0] in (lex.STATIVE | {"have", "want", "do"}) and len(words) > 1 - (words[0] in lex.STATIVE) and not (
        words[0] in {"have", "want", "do"}
        and (len(words) < 2 or words[1] in {"time", "to", "you", "it", "that", "any", "much", "the", "a"} and not _anchored(after))
    )


def _planned(verb: str, after: str) -> bool:
    if verb == "want" and _LIMIT.match(after):
        return True
    goal = re.match(r"^to\s+(\w+)", after) or (re.match(r"^(?:be )?(\w+)", after) if verb in {"will", "must"} else None)
    if not goal:
        return False
    word = goal.group(1).lower()
    if verb in {"need", "must", "will"}:
        return _anchored(after) and word in (lex.PLANNED | {"be", "pick", "attend", "pay", "meet", "submit", "leave", "renew", "turn", "have"})
    return word in lex.PLANNED and not re.search(r"\b(?:this|that|it)\b$", after)


def _possession(words: list[str], *, trusted: bool) -> bool:
    """"my <noun phrase> <finite verb> ...": whether it tells of the user's world."""
    place = next((index for index, word in enumerate(words[: _MAX_SUBJECT_WORDS + 1]) if index and _finite(word)), 0)
    if not place or place + 1 >= len(words):
        return False
    subject, verb, after = words[:place], words[place].lower(), " ".join(words[place + 1 :])
    if any(word.strip(",").lower() in lex.SAYING for word in words[: place + 1]) or _UNREAL.search(after):
        return False
    if trusted:
        return True
    head = re.split(r"\s(?:for|of|in|at|on|with|from|to)\s", " ".join(subject))[0].split()[-1].lower()
    if head in lex.NO_TOPIC or _TROUBLE.match(after):
        return False
    related = any(_singular(word) in lex.RELATIONS for word in subject)
    if verb in lex.THIRD:
        return related or verb not in {"does", "doesn't", "can", "can't", "cannot", "gets", "goes", "go", "work"} or _anchored(after)
    return (related and bool(after)) if verb in lex.EVENT_PAST else _anchored(after)


def _finite(word: str) -> bool:
    bare = word.lower().strip(",")
    return bare in lex.THIRD or bare in lex.PAST


def _singular(word: str) -> str:
    return word.lower().strip(",").removesuffix("'s")


def _of_a_person(match: re.Match[str], people: Mapping[str, str]) -> str:
    """"she gets seasick", once we know that she is the user's sister."""
    who = people.get(match.group("who").lower(), "")
    rest = match.group("rest")
    adverbs, words = split_adverbs(rest.split())
    if not who or len(words) < 2 or words[0].lower() in lex.SAYING or _UNREAL.search(rest) or _ANAPHORIC.match(" ".join(words)):
        return ""
    verb = words[0].lower()
    worth = verb in {"is", "are", "has", "have", "lives", "works", "gets", "does", "cannot", "was"} or (
        verb in lex.THIRD or ((verb in lex.PAST or verb.endswith("ed")) and _anchored(rest))
    )
    passing = verb in {"is", "are"} and (words[1].lower() in lex.PASSING or _TROUBLE.match(" ".join(words[1:])))
    return third_person(f"{who} {rest}") if worth and not passing else ""


def _elided(clause: str) -> str:
    """"finished my first half marathon in Cardiff", "booking flights from Basel tonight": the "I" is left out."""
    match = _ELIDED.match(clause)
    verb = match.group("verb").lower() if match else ""
    after = clause.partition(" ")[2]
    if _UNREAL.search(clause) or _ANAPHORIC.match(clause) or not lex.NAME.search(clause):
        return ""
    if verb in lex.PAST - {"read", "put", "cut", "set", "saw", "was", "were", "had", "made", "left", "born"}:
        return third_person(f"I {verb} {after}") if _anchored(after) else ""
    if verb in lex.UNDER_WAY and not _finite(after.split()[0]):
        return third_person(f"I am {verb} {after}")
    return ""


def introduced(clause: str) -> dict[str, str]:
    """Whom later pronouns may stand for: "my mother ..." -> she is the user's mother."""
    people: dict[str, str] = {}
    for match in re.finditer(r"\b(?:((?i:my|our|the))\s+)?\b([a-z]+(?:-[a-z]+)*)\b(\s+(?:Dr\.?\s|Mrs?\.?\s|Ms\.?\s)?[A-ZÀ-Þ][\w'’-]+)?", clause):
        relation, name = match.group(2), match.group(3) or ""
        mine = (match.group(1) or "").lower() in {"my", "our"} or (relation in lex.REPORTERS and match.start(2) == 0)
        if not mine or relation not in lex.RELATIONS or clause[match.end() : match.end() + 2] == "'s":
            continue
        who = f"User's {relation}{name}"
        if relation in lex.FEMALE:
            people["she"] = who
        elif relation in lex.MALE:
            people["he"] = who
        else:
            people["she"] = people["he"] = people["they"] = who
    if appointment := _APPOINTMENT.search(clause):
        people["it"] = f"User's {appointment.group('what').lower()}"
    return people


def _anchored(text: str) -> bool:
    return bool(lex.ANCHOR.search(text) or lex.NAME.search(" " + text))


def _trim(clause: str) -> str:
    clause = lex.LEAD.sub("", clause.strip(" ,;:-–—\"'"))
    previous = ""
    while clause != previous:
        previous, clause = clause, lex.TAIL.sub("", clause)
    return clause.strip(" ,;:")


def _finish(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip(" ,;:.!")
    return text[:1].upper() + text[1:]

