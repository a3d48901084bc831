"""Asks in the voice in which memories are written: "my budget" is looked for as "user's budget". Pure.

Memories are statements about "the user" in the third person. The embedding model takes "my" and "User's" for different
subjects; saying it the same way raises the cosine by 0.1 to 0.3. What this changes is also what "personal" means.
"""

import re
from functools import lru_cache

from semrouter_memory.language.phrases import word_set
from semrouter_memory.language.words import tokens
from semrouter_memory.model import Candidate, Memory

_Sub = tuple[re.Pattern[str], str]


def _sub(pattern: str, replacement: str) -> _Sub:
    return re.compile(pattern, re.IGNORECASE), replacement


# The word, not an index (a[i], i = 0, i++), an abbreviation (i.e., I/O) or the beginning of a contraction.
_I = r"(?<![\w\[(/.<+-])i(?![\w'’\])/=<+-]|\s*[=<+]|\.\w)"

_ENGLISH: tuple[_Sub, ...] = (
    # Procedures are written without a subject: "To deploy the service: run ...".
    _sub(rf"\bhow\s+(?:do|did|can|could|should)\s+(?:{_I}|we\b(?!['’]))", "how to"),
    _sub(rf"\bam\s+{_I}|\b(?:are|am)\s+we\b(?!['’])", "is user"),
    _sub(rf"\bdo\s+(?:{_I}|we\b(?!['’]))", "does user"),
    _sub(rf"\bhave\s+(?:{_I}|we\b(?!['’]))", "has user"),
    _sub(r"\bwere\s+we\b(?!['’])", "was user"),
    _sub(r"\b(?:i['’]m|im|i\s+am|we['’]re|we\s+are)\b", "user is"),
    _sub(r"\b(?:i['’]ve|ive|i\s+have|we['’]ve|we\s+have)\b", "user has"),
    _sub(r"\bwe\s+were\b", "user was"),
    _sub(r"\b(?:i|we)['’]d\b", "user would"),
    _sub(r"\b(?:i|we)['’]ll\b", "user will"),
    _sub(r"\b(?:my|our)\b", "user's"),
    # The possessive, not the place where gold is found.
    _sub(
        r"(?<!\ba )(?<!\bthe )(?<!\bgold )(?<!\bcoal )(?<!\bdata )\b(?:mine|ours)\b(?!\s+(?:shaft|field|work))",
        "user's",
    ),
    _sub(r"\b(?:me|myself|we|ourselves)\b", "user"),
)
# "US" and "the us" are the country.
_US = re.compile(r"(?<!\bthe )\b[Uu]s\b")
_PRONOUN_I = re.compile(_I, re.IGNORECASE)
# What stands before a Roman numeral ("World War I", "Elizabeth I") or a loop's variable ("for i in").
_NOT_A_SPEAKER = word_set(
    "war part type phase chapter volume book act class stage level grade title article section category tier step appendix figure table model mark factor for variable index elizabeth charles james francis napoleon nicholas wilhelm william george henry peter catherine leopold otto frederick philip ferdinand darius ramses"
)
_LONGEST_NOT_A_SPEAKER = 12
# Not self-introduction (自我), not "our country" (我国).
_CHINESE = re.compile(r"(?<!自)我[们們]?(?!国|國)|咱[们們]?|俺[们們]?|本人")
# What the rules above change, but for "I", in one pattern: to ask whether they would is quicker than to let them.
_FIRST_PERSON = re.compile(
    "|".join((*(f"(?i:{pattern.pattern})" for pattern, _ in _ENGLISH), _US.pattern, _CHINESE.pattern))
)


@lru_cache(64)
def to_third_person(query: str) -> str:
    """The query with the speaker called "user" (Chinese: 用户), as memories call them."""
    for pattern, replacement in _ENGLISH:
        query = pattern.sub(replacement, query)
    query = _US.sub("user", query)
    query = _PRONOUN_I.sub(_speaker, query)
    return _CHINESE.sub("用户", query)


def embedded_text(memory: Memory | Candidate) -> str:
    """What of a memory the model embeds: a statement as it is, a quote or passage with its context, a quote as statements are said."""
    match memory.form:
        case "quote":
            return to_third_person(memory.searched)
        case "passage":
            return memory.searched
        case "statement":
            return memory.content


def is_personal(query: str) -> bool:
    """Whether the text speaks in the first person (English, Chinese)."""
    return bool(_FIRST_PERSON.search(query)) or _PRONOUN_I.sub(_speaker, query) != query


def _speaker(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - _LONGEST_NOT_A_SPEAKER) : match.start()]
    return match.group() if before[-1:].isspace() and _NOT_A_SPEAKER & {*tokens(before)[-1:]} else "user"
