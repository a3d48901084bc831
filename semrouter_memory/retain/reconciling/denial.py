"""How a statement with a negation stands to one without: what is denied, and whether the other asserts just that. Pure.

Strategy: only what the denying clause itself names counts, without reasons and circumstances; it must be all in the other
statement and under the same act. "Does not like watching football" denies no playing.
"""

import re

from semrouter_memory.retain.reconciling import han
from semrouter_memory.retain.reconciling.attributes import by_attribute, named_former, status
from semrouter_memory.retain.reconciling.forms import NO_DIET
from semrouter_memory.retain.reconciling.meaning import Meaning
from semrouter_memory.retain.reconciling.relation import Relation
from semrouter_memory.retain.reconciling.wording import by_inclusion
from semrouter_memory.retain.reconciling.words import tokens, values

_HOLDING = frozenset({"be", "car", "live", "like", ""})
"""Acts by which a thing is had; what ends is the having."""
_WHEN = frozenset({"date", "month", "year"})
"""When something ended is no part of it."""
_GIVEN_UP = re.compile(r"\b(?:decided|won't|will not|(?:is not|isn't) going to|(?:can't|cannot) \w+ .*after all)\b")
_TASTE = frozenset({"like", "eat", "drink"})
_GOES_ON = re.compile(
    r"(?:a|about|after|again|all|an|and|any\w*|as|at|because|before|but|by|daily|during|each|every|for|from|her|his|if|in|into|most"
    r"|much|near|now|of|often|on|once|or|over|since|so|than|that|the|their|to|too|until|very|weekly|when|where|which|while|who|with"
    r"|without|\W.*)$"
)
"""After these a noun is at its end."""


def opposites(newer: Meaning, older: Meaning) -> Relation:
    """As in "does not like watching football" denies "likes watching football on TV", not "likes playing football"."""
    negative, positive = (newer, older) if newer.negated else (older, newer)
    if newer.diet and newer.diet == older.diet:
        if NO_DIET.search(negative.plain):
            return Relation.CONTRADICTS
        return by_inclusion(newer, older) or Relation.SAME
    if newer.diet and older.diet:
        return Relation.REPLACES
    if named_former(newer, older) or (newer.negated and by_attribute(newer, older) is Relation.REPLACES):
        return Relation.REPLACES
    denied = _denied(negative, positive)
    if not denied:
        return Relation.DISTINCT
    if status(newer, older):
        return Relation.CONTRADICTS
    if not denied <= positive.words or not _same_act(negative, positive, denied):
        return Relation.DISTINCT
    taste = "like" in positive.words and not negative.ended
    partly = _part_of_several(positive.plain, denied) or (taste and _part_of_a_compound(positive.plain, denied))
    return Relation.PARTLY if partly else Relation.CONTRADICTS


def _part_of_a_compound(positive: str, denied: frozenset[str]) -> bool:
    """As in "likes olive oil", which "does not like olives" need not deny: the word belongs to the next one."""
    said = positive.split()
    ends = [at for at, word in enumerate(said) if tokens(word) and tokens(word) <= denied]
    if not ends or ends[-1] + 1 == len(said):
        return False
    return not _GOES_ON.match(said[ends[-1] + 1])


def _denied(negative: Meaning, positive: Meaning) -> frozenset[str]:
    denied = negative.denied
    if "like" not in positive.words:
        denied = denied - {"like"}
    present = values(positive.words)
    when = {word for kind, found in values(denied).items() if kind in _WHEN and kind not in present for word in found}
    denied = denied - when
    if not denied <= positive.words and not re.search(r"\b\w+ing\b|\bto\b", positive.plain):
        denied = denied - (_TASTE - positive.words)
    return denied


def _same_act(negative: Meaning, positive: Meaning, denied: frozenset[str]) -> bool:
    """Whether what is denied is what the other asserts: "has no car" says nothing of "wants to buy a car"."""
    if positive.key and negative.ended and positive.value and positive.value <= denied:
        return True
    if positive.key and positive.key != negative.key and not positive.key <= denied | positive.people:
        return False
    if negative.act == positive.act or denied == positive.words or han.is_chinese(negative.plain):
        return True
    if negative.planned != positive.planned and not negative.ended:
        return bool(_GIVEN_UP.search(negative.plain)) and positive.planned
    return {negative.act, positive.act} <= _HOLDING | _TASTE or (negative.ended and negative.act in {"", "be"})


def _part_of_several(text: str, denied: frozenset[str]) -> bool:
    """As in "likes cats and dogs", of which only dogs are denied."""
    if not re.search(r"\b(?:and|or)\b", text):
        return False  # "a colleague, Tim" names one
    parts = [re.findall(r"[\w'-]+", part) for part in re.split(r",\s(?:and\s|or\s)?|\sand\s|\sor\s", text)]
    members = [parts[0][-1:], *(part[:1] for part in parts[1:])] if len(parts) > 1 and all(parts) else []
    is_denied = [bool(tokens(" ".join(member)) & denied) for member in members]
    return any(is_denied) and not all(is_denied)
