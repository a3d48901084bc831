"""What users say of themselves, kept in their own words. Pure.

Strategy: of a message only the user's own text is read, sentence by sentence, and a learned decision says which tell
something that later conversations may need (`keep`). What is kept stays together and as it was typed, because one sentence
explains another ("a studio in Porto", "80 a night at most"); long messages become several quotes. A quote that is too
short to be understood alone carries the question that it answers, or what was said before it, as its context.
"""

import re
from collections.abc import Iterator, Sequence

from semrouter_memory.language.sentences import sentences
from semrouter_memory.model import Candidate, Fact, LoggedTurn, MemoryType
from semrouter_memory.retain import remember, statements, unfit
from semrouter_memory.retain.keep import in_message, keep, keep_model
from semrouter_memory.retain.rules.own_words import own_words

EXTRACTOR = "quotes"
_MAX_QUOTE_CHARS = 400
"""A longer message becomes several quotes."""
_MAX_CONTEXT_CHARS = 160
_SHORT_WORDS = 8
"""A quote with fewer words may not tell what it is about."""
_MIN_CHARS = 3
_LOOK_BACK = 3
"""Earlier turns in which it is looked for what a short quote is about."""
_FACT_CUT = 0.1
"""A sentence that is a fact and nothing else is kept from this probability on; role-play and pasted texts lie below."""
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
    said: str | None = None
    found: list[Candidate] = []
    for turn in turns:
        kept = quoted(turn.user_text, asked)
        for content in kept:
            if said is None and _REFERS.search(content):
                said = _last_said(context[-_LOOK_BACK:])
            about = _context(content, asked, said or "")
            facts, about, said = statements.in_context(content, about, said or "")
            found.append(_candidate(content, about, facts, turn))
        if not kept and statements.mentioned(turn.user_text):
            said = turn.user_text
        asked = turn.assistant_text
    return tuple(found)


def _last_said(turns: Sequence[LoggedTurn]) -> str:
    """What the user told last in these turns, or asked in the last one, as far as it tells what "it" means."""
    if turns and statements.mentioned(turns[-1].user_text):
        return turns[-1].user_text
    earlier = candidates(turns)
    return statements.told(earlier[-1]) if earlier else ""


def quoted(message: str, asked: str = "") -> list[str]:
    """The parts of a message that are worth keeping, as typed.

    Args:
        asked: what the assistant said before.
    """
    pieces = [piece for piece in sentences(own_words(message)) if not unfit.reason(piece)]
    judged = zip(pieces, keep(in_message(pieces, message, asked)), strict=True)
    cut = keep_model().cut
    kept = [
        piece
        for piece, probability in judged
        if probability >= (_FACT_CUT if statements.is_fact(piece) else cut) or remember.wish(piece)
    ]
    return [passage for passage in _passages(kept) if len(passage) >= _MIN_CHARS]


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
    questions = (
        _QUESTION.findall(asked.rstrip()[-2 * _MAX_CONTEXT_CHARS :]) if asked.rstrip().endswith(("?", "？")) else []
    )
    if questions:
        return " ".join(questions[-1].split())[-_MAX_CONTEXT_CHARS:]
    return said[:_MAX_CONTEXT_CHARS] if said and _REFERS.search(content) else ""


def _candidate(content: str, about: str, facts: tuple[Fact, ...], turn: LoggedTurn) -> Candidate:
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
        facts=facts,
    )
