"""Turns the first person into the third: "I'm" -> "User is", "my" -> "User's", with the verb in agreement."""

import re
from functools import lru_cache

from semrouter_memory.retain.rules.lexicon import PAST
from semrouter_memory.retain.wordlist import words

_EXPANSIONS = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (r"[’`]", "'"),
        (r"\b(?:im|i m)\b(?= [a-z])", "I am"),
        (r"\bive\b", "I have"),
        (r"\bcant\b", "cannot"),
        (r"\bwont\b", "will not"),
        (r"\b(do|does|did|is|are|was|were|have|has|had|would|should|could)nt\b", r"\1 not"),
        (r"\b(she|he|it|that|what)s\b(?=\s+\w)", r"\1 is"),
        (r"\btheyre\b", "they are"),
        (r"\b(i|we|they)'ve\b", r"\1 have"),
        (r"\bi'm\b", "I am"),
        (r"\b(he|she|it)'s (?=(?:been|got|had)\b)", r"\1 has "),
        (r"\b(he|she|it)'s\b", r"\1 is"),
        (r"\b(that|there|here|who|mine)'s\b", r"\1 is"),
        (r"\b(we|they|you)'re\b", r"\1 are"),
        (r"\b(i|we|they|he|she|it)'ll\b", r"\1 will"),
        (r"\b(i|we)'d (better|been|had|gone|got)\b", r"\1 had \2"),
        (r"\b(i|we|he|she|they)'d\b", r"\1 would"),
        (r"\bcan't\b|\bcan not\b", "cannot"),
        (r"\bwon't\b", "will not"),
        (r"\b(do|does|did|is|are|was|were|have|has|had|would|should|could|must|need)n[’']?t\b", r"\1 not"),
        (r"\blet's\b|\blets\b(?= (?:go|take|do|say|make|use|keep|pick)\b)", "let us"),
        (r"\b(I|we) do (?=(?:want|need|have|like|love|live|work|own|prefer|speak|drive|eat|drink)\b)", r"\1 "),
        (r"\bgonna\b", "going to"),
        (r"\bwanna\b", "want to"),
        (r"\bgotta\b", "have to"),
        (r"\bname's\b", "name is"),
        (r"\bi\b", "I"),
        (
            r"^(mostly|usually|normally|currently|generally|typically|sometimes) (I|we)\b(?! (?:am|are|was|were)\b)",
            r"\2 \1",
        ),
    )
)
_UNCHANGED = words("can cannot will would should could must might may shall ought did had was were got")
_IRREGULAR = {"am": "is", "are": "is", "were": "was", "have": "has", "do": "does", "go": "goes", "'m": "is"}
_ADVERBS = words(
    "always never usually really just also only often still now actually currently mostly rarely hardly"
    " sometimes generally already mainly recently finally personally absolutely strongly typically normally"
    " probably both all regularly mostly occasionally definitely truly honestly basically even seriously"
    " strictly exclusively primarily frequently originally officially almost seldom once ever partially fully"
    " permanently temporarily no longer"
)
_FILLERS = words("really just actually basically honestly definitely truly personally absolutely")
_SIBILANT = ("s", "x", "z", "ch", "sh", "o")
_SUBJECT = re.compile(r"\b(I|[Ww]e)\b((?:\s+[\w'-]+){1,4})")
_THEIR = re.compile(r"\bthe user's\b")
_PRONOUNS = (
    (re.compile(r"\bof us\b"), "of them"),
    (re.compile(r"\b(at|to|from) (?:ours|mine)\b", re.IGNORECASE), r"\1 the user's place"),
    (re.compile(r"\b(?:me|us)\b", re.IGNORECASE), "the user"),
    (re.compile(r"\b(?:my|our)\b", re.IGNORECASE), "the user's"),
    (re.compile(r"(?<!the )(?<!a )(?<!this )(?<!that )\b(?:mine|ours)\b", re.IGNORECASE), "the user's"),
    (re.compile(r"\b(?:myself|ourselves)\b", re.IGNORECASE), "themselves"),
)


@lru_cache(256)
def expand(text: str) -> str:
    """The text with contractions written out and a capital I, so that the grammar meets one spelling only."""
    for pattern, replacement in _EXPANSIONS:
        text = pattern.sub(replacement, text)
    return text


def split_adverbs(words: list[str]) -> tuple[list[str], list[str]]:
    """Adverbs between subject and verb (fillers dropped), and the rest that begins with the verb."""
    count = 0
    while count < len(words) and words[count].lower() in _ADVERBS:
        count += 1
    return [word for word in words[:count] if word.lower() not in _FILLERS], words[count:]


def conjugate(verb: str) -> str:
    """A first-person verb in the third person singular; past tense and modals stay as they are."""
    lower = verb.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if lower in _UNCHANGED or lower in PAST or (lower.endswith("ed") and not lower.endswith("eed")):
        return verb
    if lower.endswith("y") and lower[-2:-1] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + ("es" if lower.endswith(_SIBILANT) else "s")


def third_person(clause: str) -> str:
    """A whole clause about the user; the subject at its beginning becomes "User", later ones "the user"."""
    clause = _SUBJECT.sub(_third_person_subject, clause)
    for pattern, replacement in _PRONOUNS:
        clause = pattern.sub(replacement, clause)
    if clause.lower().startswith("the user"):
        clause = "User" + clause[len("the user") :]
    clause = re.sub(r"\bthe user's own\b", "their own", clause)
    return _THEIR.sub("their", clause) if clause.startswith("User ") else clause


def _third_person_subject(match: re.Match[str]) -> str:
    adverbs, rest = split_adverbs(match.group(2).split())
    if not rest or rest[0] in {"and", "or"}:
        return f"the user{match.group(2)}"
    adverbs, rest = _after_auxiliary(adverbs, rest)
    return " ".join(["the user", *adverbs, conjugate(rest[0]), *rest[1:]])


def _after_auxiliary(adverbs: list[str], rest: list[str]) -> tuple[list[str], list[str]]:
    """As in "also am" reads "is also": an adverb stands after a form of be."""
    if adverbs and rest[0].lower() in {"am", "are"}:
        return [], [rest[0], *adverbs, *rest[1:]]
    return adverbs, rest
