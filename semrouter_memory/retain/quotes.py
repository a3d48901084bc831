"""What users say of themselves, kept in their own words. Pure.

Strategy: of a message only the user's own text is read, sentence by sentence, and a learned decision says which tell
something that later conversations may need (`keep`). What is kept stays together and as it was typed, because one sentence
explains another ("a studio in Porto", "80 a night at most"); long messages become several quotes. A quote that is too
short to be understood alone carries the question that it answers, or what was said before it, as its context.
"""

import re
from collections.abc import Iterator, Sequence

from semrouter_memory.language.sentences import sentences
from semrouter_memory.model import Candidate, LoggedTurn, MemoryType
from semrouter_memory.retain import remember, unfit
from semrouter_memory.retain.keep import in_message, keep, keep_model
from semrouter_memory.retain.rules.own_words import own_words

EXTRACTOR = "quotes"
_MAX_QUOTE_CHARS = 400
"""A longer message becomes several quotes."""
_MAX_CONTEXT_CHARS = 160
_SHORT_WORDS = 8
"""A quote with fewer words may not tell what it is about."""
_MIN_CHARS = 3
_BESIDE = 0.25
"""A sentence of this probability is kept beside one that is kept for itself."""
_REFERS = re.compile(
    r"^\W*(?:no|yes|actually|scratch|scrap|instead|make|now|sorry|wait|ok|and|also|but)\b|\b(?:it|its|it's|that|them|those|there|one|this|he|she|they|him|her)\b"
    r"|^[不改还也]|[它他她那这]",
    re.IGNORECASE,
)
_HAN = re.compile(r"[\u3400-\u9fff]")
_QUESTION = re.compile(r"[^.!?。！？\n]*[?？]")


def candidates(turns: Sequence[LoggedTurn], context: Sequence[LoggedTurn] = ()) -> tuple[Candidate, ...]:
    """What is worth keeping of the turns, oldest first.

    Args:
        turns: the turns to read, oldest first.
        context: turns before them.
    """
    asked = context[-1].assistant_text if context else ""
    said = ""
    found: list[Candidate] = []
    for turn in turns:
        for content in quoted(turn.user_text, asked):
            about = _context(content, asked, said)
            found.append(_candidate(content, about, turn))
            said = content
        asked = turn.assistant_text
    return tuple(found)


def quoted(message: str, asked: str = "") -> list[str]:
    """The parts of a message that are worth keeping, as typed.

    Args:
        asked: what the assistant said before.
    """
    pieces = [piece for piece in sentences(own_words(message)) if not unfit.reason(piece)]
    probabilities = keep(in_message(pieces, message, asked))
    if not any(map(_told, pieces, probabilities)):
        return []
    # One sentence explains another: beside what is worth keeping, what may be stays as well.
    kept = [piece for piece, probability in zip(pieces, probabilities, strict=True) if probability >= _BESIDE or _told(piece, probability)]
    return [passage for passage in _passages(kept) if len(passage) >= _MIN_CHARS]


def _told(piece: str, probability: float) -> bool:
    return probability >= keep_model().cut or bool(remember.wish(piece))


def _passages(pieces: Sequence[str]) -> Iterator[str]:
    """Sentences together, as many as make a quote."""
    passage = ""
    for piece in pieces:
        if passage and len(passage) + len(piece) > _MAX_QUOTE_CHARS:
            yield " ".join(passage.split())
            passage = ""
        passage += piece if piece[-1:].isspace() or _HAN.search(piece[-2:]) else f"{piece} "
    if passage.strip():
        yield " ".join(passage.split())


def _context(content: str, asked: str, said: str) -> str:
    """What a short quote is about, "" when it tells that itself."""
    if len(content.split()) + len(_HAN.findall(content)) // 2 > _SHORT_WORDS:
        return ""
    questions = _QUESTION.findall(asked.rstrip()[-2 * _MAX_CONTEXT_CHARS :]) if asked.rstrip().endswith(("?", "？")) else []
    if questions:
        return " ".join(questions[-1].split())[-_MAX_CONTEXT_CHARS:]
    return said[:_MAX_CONTEXT_CHARS] if said and _REFERS.search(content) else ""


def _candidate(content: str, about: str, turn: LoggedTurn) -> Candidate:
    return Candidate(
        type=MemoryType.SEMANTIC,
        content=content,
        observed_at=turn.observed_at,
        extractor=EXTRACTOR,
        session_id=turn.session_id,
        turn_ids=(turn.id,),
        model=turn.model,
        form="quote",
        context=about,
    )
