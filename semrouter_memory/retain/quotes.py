"""What users say of themselves, kept in their own words. Pure.

Strategy: of a message only the user's own text is read, sentence by sentence, and a learned decision says which tell
something that later conversations may need (`keep`). What is kept stays together and as it was typed, because one sentence
explains another ("a studio in Porto", "80 a night at most"); long messages become several quotes. A quote that is too
short to be understood alone carries the question that it answers, or what was said before it, as its context.
"""

import re
from collections.abc import Iterator, Sequence

from semrouter_memory.language.moods import QUESTION_MARKS
from semrouter_memory.language.sentences import sentences
from semrouter_memory.language.wordlists import HAN
from semrouter_memory.model import Candidate, Fact, LoggedTurn, MemoryType
from semrouter_memory.retain import remember, statements, unfit
from semrouter_memory.retain.keep import CUT, in_message, keep
from semrouter_memory.retain.spoken import spoken, withdraws

EXTRACTOR = "quotes"
_MAX_QUOTE_CHARS = 400
"""A longer message becomes several quotes."""
_MAX_CONTEXT_CHARS = 160
_SHORT_WORDS = 8
"""A quote with fewer words may not tell what it is about."""
_BESIDE = 0.1
"""A sentence of this probability is kept beside one that is kept for itself."""
_MIN_PART_CHARS = 120
"""Of a sentence that is cut because it is longer than a quote."""
_LOOK_BACK = 3
"""Turns before those that are read in which a short quote's context is looked for."""
_FACT_CUT = 0.05
"""A sentence that is a fact and nothing else is kept from this probability on; role-play and pasted texts lie below."""
_REFERS = re.compile(
    r"^\W*(?:no|yes|actually|scratch|scrap|instead|make|now|sorry|wait|ok|and|also|but)\b|\b(?:it|its|it's|that|them|those|there|one|this|he|she|they|him|her)\b"
    r"|^[不改还也]|[它他她那这]",
    re.IGNORECASE,
)
_STEERS = re.compile(
    r"\b(?:remember|memor\w+|note|from now on|always|never|trust\w*|instruct\w*|recommend\w*)\b|记[住得忆]|以后|总是|推荐",
    re.IGNORECASE,
)
"""In an assistant's question: what a page or a tool's result may have put there to be kept."""
_QUESTION = re.compile(r"[^.!?。！？\n]*[?？]")


def candidates(turns: Sequence[LoggedTurn], context: Sequence[LoggedTurn] = ()) -> tuple[Candidate, ...]:
    """What is worth keeping of the turns, oldest first, each text once.

    Args:
        turns: the turns to read, oldest first.
        context: turns before them.
    """
    owns = spoken((*context, *turns))
    asked = ["", *(turn.assistant_text for turn in (*context, *turns))]
    first = len(context)
    found: dict[str, Candidate] = {}
    said: str | None = None
    for place, turn in enumerate(turns, start=first):
        kept = quoted(owns[place], asked[place])
        for content in kept:
            if said is None and _REFERS.search(content):
                said = _last_told(context[-_LOOK_BACK:])
            about = _about(content, asked[place], said or "")
            facts, about, said = statements.in_context(content, about, said or "")
            found.setdefault(content.casefold(), _candidate(content, about, facts, turn))
        if not kept and statements.mentioned(turn.user_text):
            said = turn.user_text
    return tuple(found.values())


def quoted(own: str, asked: str = "") -> list[str]:
    """The parts of a user's own text that are worth keeping, as typed.

    Args:
        asked: what the assistant said before.
    """
    pieces = [piece for whole in sentences(own) if not withdraws(whole) for piece in _readable(whole)]
    wished, probabilities = remember.wished(pieces), keep(in_message(pieces, own, asked))
    judged = zip(wished, pieces, probabilities, strict=True)
    tells = [wish or _tells(piece, probability) for wish, piece, probability in judged]
    # One sentence explains another: beside one that is worth keeping, what may be stays as well.
    kept = [
        piece
        for piece, probability, telling in zip(pieces, probabilities, tells, strict=True)
        if any(tells) and (telling or probability >= _BESIDE) and not unfit.reason(piece)
    ]
    return [each for each in _passages(kept) if any(map(str.isalnum, each)) and not unfit.reason(each)]


def _tells(piece: str, probability: float) -> bool:
    return probability >= CUT or (probability >= _FACT_CUT and statements.is_fact(piece))


def _last_told(turns: Sequence[LoggedTurn]) -> str:
    """What the user told last in these turns, or asked in the last one, as far as it tells what "it" means."""
    if turns and statements.mentioned(turns[-1].user_text):
        return turns[-1].user_text
    earlier = candidates(turns)
    return statements.told(earlier[-1]) if earlier else ""


def _readable(sentence: str) -> Iterator[str]:
    """The sentence; one that goes on without an end, in parts of a quote's length."""
    while len(sentence) > _MAX_QUOTE_CHARS:
        end = max(sentence.rfind(mark, _MIN_PART_CHARS, _MAX_QUOTE_CHARS) for mark in ("\n", "; ", ", ", "，", "；"))
        end = end if end > 0 else sentence.rfind(" ", _MIN_PART_CHARS, _MAX_QUOTE_CHARS)
        end = end + 1 if end > 0 else _MAX_QUOTE_CHARS
        yield sentence[:end]
        sentence = sentence[end:]
    if sentence.strip():
        yield sentence


def _passages(pieces: Sequence[str]) -> Iterator[str]:
    """Sentences together, as many as make a quote."""
    passage = ""
    for piece in pieces:
        if passage and len(passage) + len(piece) > _MAX_QUOTE_CHARS:
            yield " ".join(passage.split())
            passage = ""
        passage += piece if piece[-1:].isspace() or HAN.search(piece[-2:]) else f"{piece} "
    if passage.strip():
        yield " ".join(passage.split())


def _about(content: str, asked: str, said: str) -> str:
    """What a short quote is about, "" when it tells that itself."""
    if len(content.split()) + len(HAN.findall(content)) // 2 > _SHORT_WORDS:
        return ""
    questions = (
        _QUESTION.findall(asked.rstrip()[-2 * _MAX_CONTEXT_CHARS :]) if asked.rstrip().endswith(QUESTION_MARKS) else []
    )
    if questions:
        about = " ".join(questions[-1].split())[-_MAX_CONTEXT_CHARS:]
    else:
        about = said[:_MAX_CONTEXT_CHARS] if _REFERS.search(content) else ""
    return "" if _STEERS.search(about) or unfit.reason(about) else about


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
