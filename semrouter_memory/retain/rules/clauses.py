"""Cuts a message into sentences and sentences into clauses that each say one thing."""

import re

from semrouter_memory.retain.rules.lexicon import DEGREE, LASTING, PAST, STATIVE

_SENTENCE_END = re.compile(r"(?<=[.!?…])(?<!\b[A-Z]\.)[\"')\]]*\s+|\s*\n\s*|\s*\.\.+\s*|(?<=[!?])(?=[A-Z])|;\s+")
_TITLES = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|St|vs|etc|e\.g|i\.e|approx|No|Nr|Inc|Ltd|Jr|Sr)\.\s")
_ORNAMENT = re.compile(r"^[^\w\s\x21-\x7e€£¥“”‘’«»\u3000-\u303f\uff00-\uffef]+\s*")
"""Pictures that a sentence begins with."""
_HELD = "\x00"

_QUESTION_START = (
    r"(?:what|what's|whats|how|how's|why|when|where|where's|who|who's|which|whose|can|could|would|will|do|does|did|is|are|am"
    r"|was|were|should|shall|may|might|has|have you|any|isn't|aren't|don't you|doesn't|won't|wouldn't)"
)
_ASKED_OF = (
    r"(?:I|you|u|we|they|he|she|it|there|this|that|these|those|the|an?|my|our|your|his|her|any|some|anyone|not|to)\b"
)
_RELATIVE = r"(?!(?:who|which)\s+(?:is|are|was|were|has|have|had|does|can|will|lives|works|makes|means|starts|runs)\b|which\s+(?:I|we|he|she|they|it|my|our)\b)"
_INTERROGATIVE = (
    rf"{_RELATIVE}(?:what|what's|whats|how|how's|why|when|where|where's|who|who's|which|whose|any|have you)"
)
_QUESTION = re.compile(rf"^{_QUESTION_START}\b", re.IGNORECASE)
_QUESTION_CLAUSE = re.compile(
    r"(?:\s*[,:;–—]\s*|\s+-+\s+|\s+(?=(?:and|so|but|or)\b))(?:(?:and|so|but|or|also)\s+)?"
    rf"(?={_INTERROGATIVE}\s+\w|{_RELATIVE}{_QUESTION_START}\s+{_ASKED_OF})",
    re.IGNORECASE,
)

_ADDED = re.compile(
    r",\s+(?P<stated>(?:I\s(?:have|am|live|work|do not|cannot|own|use|need)\b|(?:we|We)\s(?:are|have|live|own|use)\b|(?:my|our)\s[\w-]+(?:\s[\w-]+)?\s(?:is|are|has|have)\b)[^?]*)$",
    re.IGNORECASE,
)
"""A statement behind a question: "what visa do I need, I have a Peruvian passport"."""
_FIRST_PERSON = re.compile(r"^(?:(?:hi|hey|hello|so|ok|and)[\s,!]+)*(?:I|we|my|our)\s", re.IGNORECASE)
_MAX_SHORT_QUESTION = 4
"""As in "we are getting two alpacas, any advice?"."""

_NEW_SUBJECT = r"(?:I|we|my|our|she|he|they|it|(?:her|his|their)(?=(?:\s[\w-]+){1,2}\s(?:is|are|has|have|was)\b)|call me|(?:prod|production|staging) (?:is|runs))\b(?!\s*[,.)]|\s+(?:self|own)\b)"
_JOIN = re.compile(
    r"(?:\s*[,:;–—]\s*|\s+-+\s+|\s+)(?:(?:and|but|so|because|since|as|while|although|though|plus|which is why)\s+)?(?="
    + _NEW_SUBJECT
    + r")",
    re.IGNORECASE,
)
_HARD_JOIN = re.compile(r"[,:;–—]|\s-+\s|\b(?:and|but|so|because|since|as|while|although|though|plus)\b", re.IGNORECASE)
_SECOND_VERB = re.compile(
    r",?\s+(?:and|but)\s+(?!\w+\s(?:is|are|was)\b)(?=(?:(?:also|now|usually|currently|never|always)\s+)?"
    r"(?:cannot|am|have|do not|was|" + "|".join(sorted(STATIVE)) + r")\s+\w)",
    re.IGNORECASE,
)
_SECOND_NEED = re.compile(
    r",\s+(?=(?:also\s|only\s|still\s)?(?:need(?! (?:tips|help|advice|ideas))|want|prefer|have|use|live|work|love|hate|cannot|do not)\s+\w)",
    re.IGNORECASE,
)
_SECOND_PAST = re.compile(r",\s+(?=(?:" + "|".join(sorted(PAST)) + r")\s+\w)", re.IGNORECASE)
_SECOND_STATE = re.compile(
    r",?\s+(?:and|but)\s+(?:also\s+)?(?=(?:" + DEGREE + r")?(?:" + "|".join(sorted(LASTING)) + r")\b)", re.IGNORECASE
)
_TO_THE_ASSISTANT = re.compile(
    r"(?:,?\s+(?:so|and)|,)\s+(?=(?:please|pls|keep|take|make sure|remember|consider|bear|don't|do not|can you|could you|help|suggest|recommend|give me|tell me|show me|write|draft"
    r"|explain|what|how|any (?:ideas?|tips|advice|suggestions?|thoughts|recommendations?)|need (?:tips|help|advice|ideas)|thoughts|ideas|tips|advice|(?:\w+\s){1,2}(?:welcome|appreciated|needed))\b).*$",
    re.IGNORECASE,
)
_JOINT_SUBJECT = re.compile(
    r"^(?!.*\b(?:is|are|was|were|has|have|had|will|can|costs?|needs?|likes?|loves?|hates?|lives?|works?|asks?|asked|says?|said|told|tells|thinks?|wrote|writes|claims?|claimed)\b)(?:\w+\s+){0,2}(?:my|our)\s+(?:[\w'-]+\s+){0,2}[\w'-]+$",
    re.IGNORECASE,
)
_SPLICED = re.compile(
    r",\s+(?:(?:the|my|our)\s)?(?:last|old|previous|current|other|first)\s(?:one|ones|[a-z]+)\s(?:is|was|has|had|[a-z]+ed|left|went|broke|quit|came)\b.*$",
    re.IGNORECASE,
)
"""As in "a new dentist, the last one retired": of something else than the clause before."""
_NOUN_ALONE = re.compile(r"^(?:my|our)\s[a-z-]+(?:\s[A-ZÀ-Þ][\w'’-]*)?$", re.IGNORECASE)
_DO_BOTH = re.compile(
    r"^(?:my|our|her|his)\s[a-z-]+\s(?:[A-Z][\w'’-]*\s)?(?!(?:is|has|was|does|[a-z]+[^s]s)\b)[a-z]+\b"
)
"""A verb in the plural: of this one and the one before."""
_SHARED_VERB = re.compile(r"^(I|we)\s", re.IGNORECASE)
_MIN_CLAUSE_WORDS = 2


def sentences(text: str) -> list[str]:
    """Sentences and lines; "Dr. Amsel" and "St. Mary" do not end one."""
    held = _TITLES.sub(rf"\1{_HELD} ", text)
    return [
        _ORNAMENT.sub("", part.replace(_HELD, ".").strip(" \t-*•"))
        for part in _SENTENCE_END.split(held)
        if part and part.strip()
    ]


def declarative(sentence: str) -> str:
    """What a sentence states before it asks something; "" when all of it asks."""
    if _QUESTION.match(sentence):
        added = _ADDED.search(sentence)
        return added.group("stated") if added else ""
    asks = _QUESTION_CLAUSE.search(sentence)
    if asks:
        return sentence[: asks.start()]
    if not sentence.endswith("?"):
        return sentence
    stated, _, asked = max(
        (sentence.rpartition(link) for link in (", ", " so ", " - ", " — ")), key=lambda parts: len(parts[0])
    )
    return stated if _FIRST_PERSON.match(stated) and len(asked.split()) <= _MAX_SHORT_QUESTION else ""


_REASON = re.compile(
    r"(?:\s*[,;:–—]\s*|\s+-+\s+|\s+)(?:because\s+|since\s+|as\s+|cause\s+|so\s+|but\s+|and\s+)?(?=(?:I|I'm|I've|we|we're|my|our)\s+[a-z])",
    re.IGNORECASE,
)


def with_reason(sentence: str) -> tuple[str, str]:
    """A wish and what the user says of themselves behind it: "use metric units, I'm from Finland"."""
    for join in _REASON.finditer(sentence):
        if _HARD_JOIN.search(join.group()) and join.start():
            return sentence[: join.start()], sentence[join.end() :]
    return sentence, ""


def clauses(sentence: str) -> list[str]:
    """Clauses with a subject of their own; a second verb of "I" gets the subject back."""
    result: list[str] = []
    for part in _joined_subjects(_split_subjects(sentence)):
        result.extend(_split_verbs(_SPLICED.sub("", _TO_THE_ASSISTANT.sub("", part))))
    return [clause for clause in result if len(clause.split()) >= _MIN_CLAUSE_WORDS]


def _split_subjects(sentence: str) -> list[str]:
    parts, start = [], 0
    for join in _JOIN.finditer(sentence):
        if not _HARD_JOIN.search(join.group()) or join.start() == 0:
            continue
        parts.append(sentence[start : join.start()])
        start = join.end()
    return [*parts, sentence[start:]]


def _of_two(before: str, part: str) -> bool:
    """As in "my wife and our dog live in Ulm": what stands before "and" has no verb of its own."""
    return bool(_NOUN_ALONE.match(before) and _DO_BOTH.match(part))


def _joined_subjects(parts: list[str]) -> list[str]:
    """As in "My sister and I are ..." is one clause."""
    result: list[str] = []
    for part in parts:
        with_me = part.lower().startswith(("i are", "i have", "i were", "i live", "i both"))
        if result and ((with_me and _JOINT_SUBJECT.match(result[-1])) or _of_two(result[-1], part)):
            result[-1] = f"{result[-1]} and {part}"
        else:
            result.append(part)
    return result


def _split_verbs(clause: str) -> list[str]:
    subject = _SHARED_VERB.match(clause)
    if not subject:
        return [clause]
    first, *verbs = [
        verb
        for part in _SECOND_VERB.split(clause)
        for needed in _SECOND_NEED.split(part)
        for verb in _SECOND_PAST.split(needed)
    ]
    parts = [first, *(f"{subject.group(1)} {verb}" for verb in verbs)]
    return [state for part in parts for state in _split_states(part)]


def _split_states(clause: str) -> list[str]:
    """As in "I am vegetarian and allergic to nuts"."""
    if not clause.startswith(("I am ", "We are ", "we are ")):
        return [clause]
    first, *states = _SECOND_STATE.split(clause)
    return [first, *(f"I am {state}" for state in states)]
