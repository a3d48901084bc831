"""Asks in the voice in which memories are written: "my budget" is looked for as "user's budget". Pure.

Memories are statements about "the user" in the third person. The embedding model takes "my" and "User's" for different
subjects; saying it the same way raises the cosine by 0.1 to 0.3. What this changes is also what "personal" means.
"""

import re
from functools import lru_cache

from semrouter_memory.language.phrases import word_set
from semrouter_memory.language.scripts import simplified
from semrouter_memory.language.words import tokens
from semrouter_memory.model import Candidate, Memory

# The word, not an index (a[i], i = 0, i++), an abbreviation (i.e., I/O) or the beginning of a contraction.
_I = r"(?<![\w\[(/.<+-])i(?![\w'’\])/=<+-]|\s*[=<+]|\.\w)"

_ENGLISH = (
    # Procedures are written without a subject: "To deploy the service: run ...".
    (rf"how\s+(?:do|did|can|could|should)\s+(?:{_I}|we\b(?!['’]))", "how to"),
    (rf"am\s+{_I}|(?:are|am)\s+we\b(?!['’])", "is user"),
    (rf"do\s+(?:{_I}|we\b(?!['’]))", "does user"),
    (rf"have\s+(?:{_I}|we\b(?!['’]))", "has user"),
    (r"were\s+we\b(?!['’])", "was user"),
    (r"(?:i['’]m|im|i\s+am|we['’]re|we\s+are)\b", "user is"),
    (r"(?:i['’]ve|ive|i\s+have|we['’]ve|we\s+have)\b", "user has"),
    (r"we\s+were\b", "user was"),
    (r"(?:i|we)['’]d\b", "user would"),
    (r"(?:i|we)['’]ll\b", "user will"),
    (r"(?:my|our)\b", "user's"),
    # The possessive, not the place where gold is found.
    (r"(?<!\ba )(?<!\bthe )(?<!\bgold )(?<!\bcoal )(?<!\bdata )(?:mine|ours)\b(?!\s+(?:shaft|field|work))", "user's"),
    (r"(?:me|myself|we|ourselves)\b", "user"),
    # "US" and "the us" are the country.
    (r"(?<!\bthe )(?-i:[Uu]s)\b", "user"),
    (_I, "user"),
)
# Not self-introduction (自我), not "our country" (我国).
_CHINESE = r"(?<!自)我[们們]?(?!国|國)|咱[们們]?|俺[们們]?|本人"
# One pass, and most characters begin no word that begins a rule: a third of the time that one pass a rule takes.
_FIRST_PERSON = re.compile(
    rf"(?<!\w)(?=[ahimouwd])(?:{'|'.join(f'({pattern})' for pattern, _ in _ENGLISH)})|{_CHINESE}", re.IGNORECASE
)
_IS_I = len(_ENGLISH)
# What stands before a Roman numeral ("World War I", "Elizabeth I") or a loop's variable ("for i in").
_NOT_A_SPEAKER = word_set(
    "war part type phase chapter volume book act class stage level grade title article section category tier step appendix figure table model mark factor for variable index elizabeth charles james francis napoleon nicholas wilhelm william george henry peter catherine leopold otto frederick philip ferdinand darius ramses"
)
_LONGEST_NOT_A_SPEAKER = 12


@lru_cache(64)
def to_third_person(query: str) -> str:
    """The query with the speaker called "user" (Chinese: 用户), as memories call them."""
    return _FIRST_PERSON.sub(_said, query)


def embedded_text(memory: Memory | Candidate) -> str:
    """What of a memory the model embeds: a statement as it is, a quote or passage with its context, a quote as statements are said.

    In simplified characters, as questions are: the same words have one vector.
    """
    match memory.form:
        case "quote":
            return to_third_person(simplified(memory.searched))
        case "passage":
            return simplified(memory.searched)
        case "statement":
            return simplified(memory.content)


def is_personal(query: str) -> bool:
    """Whether the text speaks in the first person (English, Chinese)."""
    return any(_said(match) != match.group() for match in _FIRST_PERSON.finditer(query))


def _said(match: re.Match[str]) -> str:
    """What stands for the speaker in the third person."""
    if match.lastindex is None:
        return "用户"
    if match.lastindex == _IS_I:
        before = match.string[max(0, match.start() - _LONGEST_NOT_A_SPEAKER) : match.start()]
        if before[-1:].isspace() and _NOT_A_SPEAKER & {*tokens(before)[-1:]}:
            return match.group()
    return _ENGLISH[match.lastindex - 1][1]
