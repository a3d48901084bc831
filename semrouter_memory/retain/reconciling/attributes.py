"""Attributes of which somebody has one: home, job, diet, a named key; and when a statement gives one a new value. Pure.

Strategy: the same key ("user's gym"), an attribute of which there is one (home, job, name), or a former value that the
statement itself names ("switched from A to B").
"""

import re

from semrouter_memory.retain.reconciling.meaning import Meaning
from semrouter_memory.retain.reconciling.relation import Relation
from semrouter_memory.retain.reconciling.stages import moved_on
from semrouter_memory.retain.reconciling.wording import included
from semrouter_memory.retain.reconciling.words import tokens, values
from semrouter_memory.retain.rules.lexicon import RELATIONS
from semrouter_memory.retain.wordlist import words

_ALONE = frozenset({"single", "broke up", "divorced", "widowed"})
"""Stages that go together."""
_NOW = re.compile(r"\b(?:from now on|now|instead|currently|going forward)\b")
_SLOT_WORDS = 3
_SLOT_CONTEXT = 2
"""One place of at most so many words differs, and so many words that say something are the same."""
_FORMS = words(
    "user user's is are was has have a an the in on at to of for with by from as and or his her their takes uses likes"
    " named called be been having also"
)
_ONLY_ONE = frozenset({"name"}).union(
    *(tokens(word) for word in ("email", "phone", "address", "username", "nickname", "age"))
)
"""Attributes of which there is one, whatever the value looks like."""
_ONE_AT_A_TIME = words(
    "landlord boss manager wife husband spouse partner girlfriend boyfriend dentist therapist doctor"
)
_MULTIPLE = (
    frozenset()
    .union(
        *(tokens(word) for word in RELATIONS),
        tokens(
            "hobby hobbies allergy interest skill language goal dream project instrument sport medication book song food"
        ),
    )
    .difference(*(tokens(word) for word in _ONE_AT_A_TIME))
)
"""Attributes of which a person has several."""
_BESIDES = words("also part-time weekends weekend side second freelance additionally too volunteer volunteers")
"""Words that put a job beside another."""


def by_attribute(newer: Meaning, older: Meaning) -> Relation | None:
    """A new value for an attribute of which there is one."""
    if status(newer, older):
        return Relation.REPLACES
    if newer.diet and older.diet:
        return Relation.COVERED if newer.diet == older.diet and newer.words <= older.words else Relation.REPLACES
    if _another_home(newer, older) or _another_job(newer, older) or _another_preference(newer, older):
        return Relation.REPLACES
    if _another_use(newer, older) or _another_institution(newer, older) or moved_on(newer, older):
        return Relation.REPLACES
    if named_former(newer, older):
        return Relation.REPLACES
    return _another_value(newer, older)


def _same_subject(newer: Meaning, older: Meaning) -> bool:
    return included(newer.subject, older.subject)


def _another_home(newer: Meaning, older: Meaning) -> bool:
    if not newer.home or not older.home or newer.planned or older.planned or newer.people != older.people:
        return False
    # A street and a city are two views of one home.
    alike = bool(values(newer.home)) == bool(values(older.home)) or newer.changing
    return alike and not included(newer.home, older.home)


def _another_job(newer: Meaning, older: Meaning) -> bool:
    if (
        newer.planned
        or older.planned
        or not _same_subject(newer, older)
        or _BESIDES & {*newer.plain.split(), *older.plain.split()}
    ):
        return False
    another_role = bool(newer.role and older.role and not newer.role <= older.role and not older.role <= newer.role)
    another_employer = bool(newer.employer and older.employer and not newer.employer & older.employer)
    promoted = another_role or bool(newer.role and older.role and newer.changing and newer.role != older.role)
    return promoted or (
        another_employer and not (newer.role and older.role and newer.role == older.role and not newer.changing)
    )


def _another_preference(newer: Meaning, older: Meaning) -> bool:
    """As in "prefers dark mode" and "prefers light mode", in the same place; or now another one for the same purpose."""
    new, old = newer.preferred, older.preferred
    if not new or not old or new == old or newer.context != older.context or not _same_subject(newer, older):
        return False
    return (len(new) > 1 and len(old) > 1 and new[-1] == old[-1]) or bool(newer.changing and newer.context)


def _another_use(newer: Meaning, older: Meaning) -> bool:
    """As in "uses Notion for notes" and "switched to Obsidian for notes"; or to another of the same noun."""
    if newer.planned != older.planned or not newer.changing or not _same_subject(newer, older):
        return False
    if newer.used and older.used and newer.used[1] and newer.used[1] == older.used[1]:
        return not included(newer.used[0], older.used[0])
    if "commute" in newer.words & older.words:
        return not included(newer.words, older.words)
    if _one_slot(newer.plain, older.plain):
        return True
    named = not older.entity - newer.words
    return named and bool(newer.becomes) and newer.becomes == older.head and newer.becomes not in newer.people


def _another_institution(newer: Meaning, older: Meaning) -> bool:
    """As in "goes to Maple School" and "switched to Oak Hill Academy": one school at a time."""
    if not newer.attends or not older.attends or not newer.changing or newer.planned or older.planned:
        return False
    if older.entity - newer.words:
        return False  # "the daughter" may be another than Mina
    return newer.attends[0] == older.attends[0] and not newer.attends[1] & older.attends[1]


def _one_slot(newer: str, older: str) -> bool:
    """As in "now wants replies in German": all words of "wants replies in English" but for one place."""
    if not _NOW.search(newer):
        return False
    new, old = (_NOW.sub(" ", text).split() for text in (newer, older))
    start = next((at for at, pair in enumerate(zip(new, old, strict=False)) if pair[0] != pair[1]), 0)
    end = next((at for at, pair in enumerate(zip(new[::-1], old[::-1], strict=False)) if pair[0] != pair[1]), 0)
    changed = max(len(new), len(old)) - start - end
    same = [*new[:start], *new[len(new) - end :]]
    return 0 < changed <= _SLOT_WORDS and len([word for word in same if word not in _FORMS]) >= _SLOT_CONTEXT


def named_former(newer: Meaning, older: Meaning) -> bool:
    """The statement names the former value, and that is what the older says: "replaced the Yaris with a Kia"."""
    former = newer.replaced - older.key
    if not former or not former <= older.words or older.planned != newer.planned:
        return False
    rest = older.words - newer.replaced
    if older.key:
        return older.value <= former | older.key
    if older.used and older.used[0] == former and former <= tokens(" ".join(older.names)):
        return True  # "uses Evernote for notes", "replaced Evernote with Obsidian"
    return rest <= newer.words | {"car"} or bool(rest & (newer.words - newer.replaced))


def _another_value(newer: Meaning, older: Meaning) -> Relation | None:
    """The same key gets another value of the same class."""
    if (older.key | newer.key) & _MULTIPLE:
        return None
    if "name" in {older.verb, newer.verb} and not (newer.changing and newer.key and newer.key == older.key):
        return None
    if _gives_key(newer, older):
        return Relation.REPLACES
    if newer.planned != older.planned and not newer.changing:
        return None
    if newer.key and newer.key < older.key and newer.changing and newer.verb == older.verb:
        return Relation.REPLACES_ONE if _shared_values(newer.value, older.value) else None
    if newer.changing and not newer.key and older.key and older.verb == "be" and older.key <= newer.words:
        return Relation.REPLACES if _same_class(newer, older, newer.words - older.key, older.value) else None
    return None


def _gives_key(newer: Meaning, older: Meaning) -> bool:
    if newer.key and newer.key == older.key and (newer.verb == older.verb or "name" in {newer.verb, older.verb}):
        if included(newer.value, older.value):
            return False
        return bool(older.key & _ONLY_ONE) or newer.changing or _same_class(newer, older, newer.value, older.value)
    if newer.key and newer.changing and newer.verb == "be" and not older.key and newer.key <= older.words:
        return _shared_values(newer.value, older.words)
    return False


def _same_class(newer: Meaning, older: Meaning, new: frozenset[str], old: frozenset[str]) -> bool:
    if _shared_values(new, old):
        return new != old
    named = newer.verb in {"be", ""} and bool(newer.names and older.names)
    return (named or "favorite" in older.key) and not included(new, old)


def _shared_values(new: frozenset[str], old: frozenset[str]) -> bool:
    """A class of values that both have, with different ones."""
    ours, theirs = values(new), values(old)
    return any(ours[kind] != theirs[kind] for kind in ours.keys() & theirs.keys())


def status(newer: Meaning, older: Meaning) -> bool:
    """Two steps of one relationship: engaged to Tomasz, married Tomasz."""
    if not newer.relationship or not older.relationship or newer.relationship == older.relationship:
        return False
    if {newer.relationship, older.relationship} <= _ALONE:
        return False
    return bool((newer.names & older.names) or not newer.names or not older.names)
