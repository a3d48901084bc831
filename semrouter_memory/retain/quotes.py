"""What users say of themselves, kept in their own words. Pure.

Strategy: of a message only the user's own text is read, sentence by sentence, and a learned decision says which tell
something that later conversations may need (`keep`). What is kept stays together and as it was typed, because one sentence
explains another ("a studio in Porto", "80 a night at most"); long messages become several quotes. A quote that is too
short to be understood alone carries the question that it answers, or what was said before it, as its context.
"""

import re
from collections.abc import Iterator, Sequence

from semrouter_memory.language.sentences import sentences
from semrouter_memory.lexical.words import CJK
from semrouter_memory.model import Candidate, Fact, LoggedTurn, MemoryType
from semrouter_memory.retain import remember, statements, unfit
from semrouter_memory.retain.keep import in_message, keep, keep_model
from semrouter_memory.retain.rules.own_words import own_words

EXTRACTOR = "quotes"
_MAX_QUOTE_CHARS = 400
"""A longer message becomes several quotes."""
_MAX_CONTEXT_CHARS = 160
_CONTEXT_TURNS = 4
"""Earlier turns in which it is looked for what "it" means."""
_SHORT_WORDS = 8
"""A quote with fewer words may not tell what it is about."""
_MIN_CHARS = 3
_FACT_CUT = 0.1
"""A sentence that is a fact and nothing else is kept from this probability on; role-play and pasted texts lie below."""
_REFERS = re.compile(
    r"^\W*(?:no|yes|actually|scratch|scrap|instead|make|now|sorry|wait|ok|and|also|but)\b|\b(?:it|its|it's|that|them|those|there|one|this|he|she|they|him|her)\b"
    r"|^[不改还也]|[它他她那这]",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[^.!?。！？\n]*[?？]")


def candidates(turns: Sequence[LoggedTurn], context: Sequence[LoggedTurn] = ()) -> tuple[Candidate, ...]:
    """What is worth keeping of the turns, oldest first.

    Args:
        turns: the turns to read, oldest first.
        context: turns before them.
    """
    scene = _Scene(context)
    return tuple(candidate for turn in turns for candidate in scene.read(turn))


class _Scene:
    """A conversation as far as it was read: what the assistant asked, and what the user told or asked last."""

    def __init__(self, context: Sequence[LoggedTurn]) -> None:
        self._asked = context[-1].assistant_text if context else ""
        self._before: Sequence[LoggedTurn] = context[-_CONTEXT_TURNS:]
        self._said = ""

    def read(self, turn: LoggedTurn) -> Iterator[Candidate]:
        """What is worth keeping of the next turn."""
        kept = quoted(turn.user_text, self._asked)
        for content in kept:
            about, said = "", ""
            if len(content.split()) + len(CJK.findall(content)) // 2 <= _SHORT_WORDS:
                said = self._said_before() if _REFERS.search(content) else ""
                about = _question(self._asked) or said[:_MAX_CONTEXT_CHARS]
            facts = statements.facts(content, said)
            self._said = content
            if corrected := next((fact for fact in facts if said and fact not in statements.facts(content)), None):
                about = statements.subject(corrected)
                self._said = f"{about} is {corrected.value}"
            yield _candidate(content, about, facts, turn)
        if not kept and statements.mentioned(turn.user_text):
            self._said = turn.user_text
        self._asked = turn.assistant_text

    def _said_before(self) -> str:
        """Reads the turns before only where they matter: that takes as long as reading the new ones."""
        if not self._said and self._before:
            scene = _Scene(())
            for turn in self._before:
                list(scene.read(turn))
            self._said, self._before = scene._said, ()
        return self._said


def _question(asked: str) -> str:
    """The question that the assistant's message ends with, "" for none."""
    if not asked.rstrip().endswith(("?", "？")):
        return ""
    questions = _QUESTION.findall(asked.rstrip()[-2 * _MAX_CONTEXT_CHARS :])
    return " ".join(questions[-1].split())[-_MAX_CONTEXT_CHARS:] if questions else ""


def quoted(message: str, asked: str = "") -> list[str]:
    """The parts of a message that are worth keeping, as typed.

    Args:
        asked: what the assistant said before.
    """
    pieces = [piece for piece in sentences(own_words(message)) if not unfit.reason(piece)]
    judged = zip(pieces, keep(in_message(pieces, message, asked)), strict=True)
    kept = [
        piece
        for piece, probability in judged
        if probability >= keep_model().cut
        or remember.wish(piece)
        or (probability >= _FACT_CUT and statements.is_fact(piece))
    ]
    return [passage for passage in _passages(kept) if len(passage) >= _MIN_CHARS]


def _passages(pieces: Sequence[str]) -> Iterator[str]:
    """Sentences together, as many as make a quote."""
    passage = ""
    for piece in pieces:
        if passage and len(passage) + len(piece) > _MAX_QUOTE_CHARS:
            yield " ".join(passage.split())
            passage = ""
        passage += piece if piece[-1:].isspace() or CJK.search(piece[-2:]) else f"{piece} "
    if passage.strip():
        yield " ".join(passage.split())


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
