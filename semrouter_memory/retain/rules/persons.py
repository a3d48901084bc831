"""Statements about people, animals and things close to the user: "my sister gets seasick", "she lives with me".

Strategy: what stands behind "my <relation> <Name>" must be its verb, whatever verb it is; for other things ("my rent",
"our cluster") the verb must be a known one.
"""

import re
from collections.abc import Mapping

from semrouter_memory.retain.rules import lexicon as lex
from semrouter_memory.retain.rules.conditions import without_degree
from semrouter_memory.retain.rules.predicates import anaphoric, substantial, troubled, unreal
from semrouter_memory.retain.rules.voice import split_adverbs, third_person

_MAX_SUBJECT_WORDS = 8
_MIN_PREDICATE_WORDS = 2

_TROUBLE = re.compile(
    r"^(?:not )?(?:broken|real\b|true\b|fake|serious\b|a joke|made up|invented|imaginary|fictional|slow|down|fine|ready|good|bad|ok|okay|killing|driving|wrong|right|this|that|these|how|why|what|to know|to find|whether|not sure|here|below|attached|as follows|about)\b",
    re.IGNORECASE,
)
_RELATION = re.compile(
    r"^(?:(?:[\w-]+\s){0,2}?)(?P<relation>[a-z]+(?:-[a-z]+)*)"
    r"(?P<name>(?:\s(?:(?:Dr|Mrs?|Ms|Prof)\.?\s)?[A-ZÀ-Þ][\w'’-]*){0,3})"
    r"(?P<aside>,\s(?:who\s(?:is|has|was)\s)?(?:aged?\s)?[^,]{1,40},)?\s(?P<rest>(?!(?:of|in|at|on|with|from|for|and|or|about|who|that|when|to)\b)\S.*)$"
)
_ON_A_REGIME = re.compile(
    r"^(?:on|off)\s(?:a|an|low|high|no|strict|insulin|dialysis|chemo\w*|\w+\s(?:diet|medication|meds|leave|pills?|tablets))\b",
    re.IGNORECASE,
)
_HAS = re.compile(
    r"^(?P<subject>(?:my|our)\s(?:[\w-]+\s){0,2}?(?P<head>[\w-]+)(?:\s[A-ZÀ-Þ][\w-]*)?)['’]s\s(?P<rest>.+)$",
    re.IGNORECASE,
)
_CALLED = re.compile(
    r"^(?P<subject>(?:my|our)\s(?:[\w-]+\s){0,2}?[\w-]+)['’]s\s(?P<rest>(?:called|named)\s.+)$", re.IGNORECASE
)
_FINDING = re.compile(
    r"^(?:my|our)\s(?:[\w-]+\s){0,2}?(?:mri|scan|ct|x-?ray|biopsy|ultrasound|blood (?:test|work)s?|bloods|ecg|colonoscopy|endoscopy|mammogram)\s(?:says?|shows?|showed|came back|found)\s\S+",
    re.IGNORECASE,
)
_BEARS_A_NAME = re.compile(
    r"^(?:[Mm]y|[Oo]ur)\s(?:[a-z-]+\s){0,2}?(?P<what>[a-z-]+)\s[A-ZÀ-Þ][a-zà-ÿ'’-]+\s(?!is\b|has\b|was\b|does\b|says\b|thinks\b|tells\b|claims\b|wants\b)[a-z]{2,}[^\Ws]s\s\S+"
)
"""As in "our greyhound Biscuit panics on the tram": what bears a name is known to the user, whatever it is."""
_OF_A_BODY = frozenset({"weighs", "eats", "sleeps", "barks", "limps", "drinks", "sheds", "chews"})
_AFTER_IS = re.compile(
    r"^(?:an?|the|on|in|at|not|always|never|allergic|afraid|called|named|been|got|getting|coming|turning|going|moving|starting|vegan"
    r"|vegetarian|pregnant|diabetic|really|very|pretty|so|too|\d+|[a-z]+ing)\b",
    re.IGNORECASE,
)
_THEY_DO = re.compile(r"^(?P<who>[\w'-]+)\s+(?P<rest>.+)$")
_THEIR = re.compile(
    r"^(?P<who>her|his|their)\s+(?P<rest>[\w-]+(?:\s[\w-]+)?\s(?:is|are|has|have|was)\b.+)$", re.IGNORECASE
)
_OF_WHOM = {"her": "she", "his": "he", "their": "they"}
_MEMBER = re.compile(
    r"^(?P<name>[A-ZÀ-Þ][\w'’-]+)\s(?P<rest>(?:is|has|hates|loves|likes|needs|wants|plays|goes|eats|prefers|cannot|does not|will|speaks|goes|starts|was)\s.+)$"
)
_COMPANION = re.compile(
    r"^[A-ZÀ-Þ][\w'’-]+\s(?:(?:uses|needs|hates|loves|prefers|eats|wants|cannot|does not|will not)\s\S+"
    r"|is\s(?:allergic|vegan|vegetarian|coeliac|celiac|diabetic|pregnant|scared|afraid|lactose|intolerant|\d)).*$"
)
_PLURALS = (
    "kids",
    "children",
    "twins",
    "cats",
    "dogs",
    "sons",
    "daughters",
    "sisters",
    "brothers",
    "parents",
    "friends",
    "nieces",
    "nephews",
    "cousins",
    "grandkids",
    "puppies",
    "kittens",
    "roommates",
    "flatmates",
)
_NEVER_BARE = {
    "family",
    "baby",
    "friend",
    "team",
    "customer",
    "client",
    "nurse",
    "mate",
    "buddy",
    "pet",
    "dog",
    "cat",
    "horse",
    "rabbit",
    "child",
    "children",
    "people",
}
_A_STRANGER = re.compile(
    r"^(?:my|our)\s(?:[\w-]+\s)?[\w-]+['’]s\s(?:\w+\s)?(?:friend|colleague|coworker|co-worker|boss|neighbou?r|buddy|teacher|roommate|flatmate|client|landlord)s?\b",
    re.IGNORECASE,
)
"""As in "my aunt's friend": nobody of the user's own."""
_NO_VERB = re.compile(r"^(?:and|or|but|if|because|please|,)", re.IGNORECASE)


def possession(clause: str, *, trusted: bool) -> str:
    """As in "my <noun phrase> <finite verb> ..." when it tells of the user's world, else ""."""
    clause = written_out(clause)
    if _A_STRANGER.match(clause) and not trusted:
        return ""
    told = _FINDING.match(clause) or (
        (named := _BEARS_A_NAME.match(clause)) and named.group("what") not in lex.NO_TOPIC
    )
    if told and not unreal(clause) and not troubled(clause):
        return clause
    words = clause.split()[1:]
    return clause if _of_a_relation(" ".join(words)) or _of_a_thing(words, trusted=trusted) else ""


def of_someone_known(clause: str, people: Mapping[str, str]) -> str:
    """As in "she gets seasick", "her teacher is called ...", once we know whom that is."""
    if their := _THEIR.match(clause):
        who = people.get(_OF_WHOM[their.group("who").lower()], "")
        return third_person(f"{who}'s {their.group('rest')}") if who and not unreal(clause) else ""
    match = _THEY_DO.match(clause)
    if not match:
        return ""
    who, rest = people.get(match.group("who").lower().removesuffix("'s"), ""), match.group("rest")
    if match.group("who").lower().endswith("'s"):
        rest = f"is {rest}"
    words = split_adverbs(rest.split())[1]
    if not who or len(words) < _MIN_PREDICATE_WORDS or unreal(rest) or anaphoric(" ".join(words)):
        return ""
    if words[0].lower() in _OF_A_BODY and who.rpartition(" ")[2] in lex.REPORTERS:
        # As in "vet suggested a diet, he weighs 29 kilos": of the patient.
        return ""
    if match.group("who").lower().startswith("it") and words[0].lower() == "is" and not lex.anchored(rest):
        # As in "it's weird": of whatever was spoken of last.
        return ""
    return third_person(f"{who} {rest}") if _tells(words, rest) else ""


def bare_relation(clause: str) -> str:
    """As in "boss gave me 15k for it", "wife hates olives": with the "my" that chat leaves out; "" when it is none."""
    head = clause.partition(" ")[0].lower().removesuffix("'s")
    known = head in lex.RELATIONS and not head.endswith("s") and head not in _NEVER_BARE
    return f"my {clause[:1].lower()}{clause[1:]}" if known else ""


def of_a_group(clause: str, people: Mapping[str, str]) -> str:
    """As in "Ida hates mushrooms" after "my kids ..."."""
    member, group = _MEMBER.match(clause), people.get("they", "")
    if (
        not member
        or not group.startswith("User's ")
        or not group.endswith(_PLURALS)
        or member.group("name").lower() in people
    ):
        return ""
    words = member.group("rest").split()
    if unreal(clause) or not _tells(words, member.group("rest")):
        return ""
    return f"{member.group('name')}, one of the u{group[1:]}, {third_person(member.group('rest'))}"


def of_a_companion(clause: str) -> str:
    """As in "Marga uses a wheelchair" while a trip is planned: somebody who is part of it."""
    return third_person(clause) if _COMPANION.match(clause) and not unreal(clause) else ""


def _reported(words: list[str], relation: str) -> bool:
    """As in "my doctor thinks it is the L5 disc"."""
    said = " ".join(words[1:])
    return (
        relation in lex.REPORTERS
        and words[0].lower() in {"says", "thinks", "said", "confirmed", "suspects", "found"}
        and lex.anchored(said)
    )


def in_passing(after: str) -> bool:
    """What somebody is just now, not in general."""
    if _ON_A_REGIME.match(after) or without_degree(after) != after:
        return False
    return bool(_TROUBLE.match(after)) or (
        after.split(maxsplit=1)[0].lower() in lex.PASSING and not lex.anchored(after)
    )


def written_out(clause: str) -> str:
    """As in "my partner's on a diet": "is"."""
    if named := _CALLED.match(clause):
        return f"{named.group('subject')} is {named.group('rest')}"
    found = _HAS.match(clause)
    if (
        not found
        or found.group("head").lower() not in lex.RELATIONS
        or not (_AFTER_IS.match(found.group("rest")) or found.group("rest").partition(" ")[0].lower() in lex.LASTING)
    ):
        return clause
    return f"{found.group('subject')} {'has' if found.group('rest').startswith(('got', 'been')) else 'is'} {found.group('rest')}"


def _tells(words: list[str], rest: str) -> bool:
    verb, after = words[0].lower(), " ".join(words[1:])
    if verb == "sent" and re.match(r"(?:me|us) (?:to|for|home)\b", after):
        return lex.anchored(after)
    if verb in lex.SAYING or (verb in {"is", "are"} and in_passing(after)):
        return False
    if verb in lex.PAST or verb.endswith("ed"):
        return verb in lex.EVENT_PAST or lex.anchored(rest) or verb in {"was", "were", "had"}
    return verb in lex.THIRD or ((verb.endswith("s") or verb in lex.WILL) and substantial(after))


def _of_a_relation(phrase: str) -> bool:
    found = _RELATION.match(phrase)
    if not found or found.group("relation").lower() not in lex.RELATIONS or unreal(found.group("rest")):
        return False
    words = split_adverbs(found.group("rest").split())[1]
    if words and _reported(words, found.group("relation").lower()):
        return True
    if len(words) < _MIN_PREDICATE_WORDS or _NO_VERB.match(words[0]):
        return len(words) == 1 and words[0].lower() in lex.THIRD_ALONE
    if words[0].lower() in lex.SAYING:
        return _tells(words, found.group("rest"))
    verb, after = words[0].lower(), " ".join(words[1:])
    if verb in {"is", "are"} and in_passing(after):
        return False
    if verb in {"wants", "want"} and after.startswith(("me ", "us ", "to know")):
        return False
    return _tells(words, found.group("rest")) or (verb.isalpha() and not verb.endswith("ing") and substantial(after))


def _of_a_thing(words: list[str], *, trusted: bool) -> bool:
    place = next((index for index, word in enumerate(words[: _MAX_SUBJECT_WORDS + 1]) if index and finite(word)), 0)
    if not place or place + 1 >= len(words):
        return False
    subject, verb, after = words[:place], words[place].lower(), " ".join(words[place + 1 :])
    if any(word.strip(",").lower() in lex.SAYING for word in words[: place + 1]) or unreal(after):
        return False
    if trusted:
        return True
    head = re.split(r"\s(?:for|of|in|at|on|with|from|to)\s", " ".join(subject))[0].split()[-1].lower()
    if any(_singular(word) in lex.RELATIONS for word in subject[:1]) and len(subject) == 1:
        # Decided above: nothing that lasts is said of them.
        return False
    if head in lex.NO_TOPIC or _TROUBLE.match(after):
        return False
    if words[place - 1].endswith("s") and verb in lex.STATIVE | {
        "run",
        "start",
        "cost",
        "need",
        "grow",
        "arrive",
        "take",
    }:
        return lex.anchored(after)
    if verb in lex.THIRD:
        return verb not in {"does", "doesn't", "can", "can't", "cannot", "gets", "goes", "go", "work"} or lex.anchored(
            after
        )
    return verb in lex.EVENT_PAST or lex.anchored(after)


def finite(word: str) -> bool:
    bare = word.lower().strip(",")
    return bare in lex.THIRD or bare in lex.PAST or bare in {"run", "cost", "arrive"}


def _singular(word: str) -> str:
    return word.lower().strip(",").removesuffix("'s")
