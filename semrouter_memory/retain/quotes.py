"""What users say of themselves, in their own words. Pure.

Strategy: of a message only the user's own text is read, sentence by sentence, and a learned decision says which tell
something that later conversations may need (`keep`). A quote stays together and as it was typed, because one sentence
explains another ("a studio in Porto", "80 a night at most"); long messages become several quotes. A quote that is too
short to be understood alone carries the question that it answers, or what was said before it, as its context.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from semrouter_memory.language.layouts import is_item, list_in_line
from semrouter_memory.language.own_text import LEFT_OUT
from semrouter_memory.language.phrases import begins, phrases
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.sentences import QUESTION_MARKS, is_small_talk, orders, sentences
from semrouter_memory.language.words import tokens, word_count
from semrouter_memory.model import Candidate, Fact, LoggedTurn, MemoryType, Vector
from semrouter_memory.retain import content_policy, directives, statements
from semrouter_memory.retain.directives import spoken
from semrouter_memory.retain.keep import CUT, SentenceScore, judge

EXTRACTOR = "quotes"
_MAX_QUOTE_CHARS = 400
"""A longer message becomes several quotes."""
_MAX_CONTEXT_CHARS = 160
_SHORT_WORDS = 8
"""A quote with fewer words may not tell what it is about."""
_LEAD_WORDS = 7
_LEAD_WORDS_TO_COLON = 10
"""In front of a text that was cut, fewer words only introduce it."""
_MIN_PART_CHARS = 120
"""Of a sentence that is cut because it is longer than a quote."""
_LOOK_BACK = 3
"""Turns before those that are read in which a short quote's context is looked for."""
_INTRODUCES = re.compile(r"[:：]\s*(?:1[.)]\s*)?$")
_FACT_CUT = 0.05
"""From this probability on a sentence that is a fact and nothing else is stored; role-play and pasted texts lie below."""


@dataclass(frozen=True, slots=True)
class _Message:
    """A user's message, sentence by sentence.

    Attributes:
        asked: what the assistant said before.
        pieces: the sentences of the user's own text, as typed.
        wished: which of them the user asks to have remembered, or tells as a lesson.
        judged: what their words tell.
    """

    turn: LoggedTurn
    asked: str
    pieces: Sequence[str]
    wished: Sequence[bool]
    judged: Sequence[SentenceScore]

    @property
    def in_doubt(self) -> list[str]:
        """Sentences whose vectors decide what is stored.

        Together with a sentence that is stored anyway, one that explains it is stored whatever it tells by itself.
        """
        doubtful = [each for each in self.judged if each.in_doubt]
        if doubtful and sum(map(len, self.pieces)) <= _MAX_QUOTE_CHARS and self._is_sure():
            doubtful = [each for each in doubtful if not each.explains]
        return [each.text for each in doubtful]

    def _is_sure(self) -> bool:
        read = zip(self.wished, self.pieces, self.judged, strict=True)
        sure = (piece for wish, piece, each in read if wish or (not each.in_doubt and _tells(piece, each.worth())))
        return any(self._may_be_stored(piece) for piece in sure)

    def _may_be_stored(self, piece: str) -> bool:
        # Users type the mark, too.
        if is_small_talk(piece) or (LEFT_OUT not in self.turn.user_text and _is_hollow(piece)):
            return False
        return not content_policy.reason(_in_line(piece), content_policy.secret_question(self.asked))

    @property
    def corrects(self) -> bool:
        """Whether it may correct what was told before it."""
        return any(map(directives.may_correct, self.pieces))

    def quotes(self, vectors: Mapping[str, Vector], before: Sequence[str] = ()) -> list[str]:
        """What is worth keeping of it, as typed.

        Args:
            before: what is remembered of the message before, where this one may correct that.
        """
        worth = [each.worth(vectors.get(each.text)) for each in self.judged]
        read = zip(self.wished, self.pieces, worth, strict=True)
        tells = [wish or _tells(piece, probability) for wish, piece, probability in read]
        told = [*before]
        for place, piece in enumerate(self.pieces):
            tells[place] = tells[place] or (directives.gives_value(piece) and bool(_corrected(piece, told, self.asked)))
            told += [piece] if tells[place] else []
        if not any(tells):
            return []
        # One sentence explains another, so a passage stays together when one of its sentences is worth storing.
        together = [
            (piece, telling)
            for piece, telling, each in zip(self.pieces, tells, self.judged, strict=True)
            if (telling or each.explains) and self._may_be_stored(piece)
        ]
        passages = [passage for alike in _apart(together) for passage in _passages(alike)]
        return [each for each in passages if any(map(str.isalnum, each)) and not content_policy.reason(each)]


class Reading:
    """Turns that are read for quotes.

    Args:
        turns: the turns to read, oldest first.
        context: turns before them.
    """

    def __init__(self, turns: Sequence[LoggedTurn], context: Sequence[LoggedTurn] = ()) -> None:
        owns = spoken((*context, *turns))[len(context) :]
        before = context[-1].assistant_text if context else ""
        asked = (before, *(turn.assistant_text for turn in turns))
        self._context = context
        read = zip(turns, owns, asked, strict=False)
        self._messages = [_Message(turn, before, *_read(own, before)) for turn, own, before in read]

    @property
    def in_doubt(self) -> list[str]:
        """Sentences of which the words do not tell whether they are worth keeping."""
        return list(dict.fromkeys(text for message in self._messages for text in message.in_doubt))

    def candidates(self, vectors: Mapping[str, Vector] = MappingProxyType({})) -> tuple[Candidate, ...]:
        """What is worth keeping of the turns, oldest first, each text of a turn once.

        Args:
            vectors: of the sentences in doubt; where one is missing, the words decide.
        """
        found: dict[tuple[str, str], Candidate] = {}
        said: str | None = None
        told: list[str] | None = None
        for message in self._messages:
            before: Sequence[str] = ()
            if message.corrects:
                before = _told_in_last(self._context[-_LOOK_BACK:]) if told is None else told
            contents, told = message.quotes(vectors, before), []
            for content in contents:
                if said is None and _refers(content):
                    said = _last_told(self._context[-_LOOK_BACK:])
                if corrected := _corrected(content, before, message.asked):
                    about, said = _harmless(corrected[:_MAX_CONTEXT_CHARS]), corrected
                else:
                    about = _about(content, message.asked, said or "")
                if not about and not any(map(str.isalpha, content)):
                    continue  # A number tells nothing without what it is about.
                facts, about = statements.in_context(content, about, said or "")
                asked = "" if about or _is_short(content) else _asked(message.asked)
                candidate = _candidate(content, about, asked, facts, message.turn)
                found.setdefault((message.turn.id, content.casefold()), candidate)
                said = statements.told(candidate)
                told.append(said)
            if not contents and statements.mentioned(message.turn.user_text):
                said = message.turn.user_text
        return tuple(found.values())


def candidates(turns: Sequence[LoggedTurn], context: Sequence[LoggedTurn] = ()) -> tuple[Candidate, ...]:
    """What is worth keeping of the turns, as far as words tell."""
    return Reading(turns, context).candidates()


# A turn is read again where a later one refers to it.
@lru_cache(64)
def _read(own: str, asked: str) -> tuple[Sequence[str], Sequence[bool], Sequence[SentenceScore]]:
    """The sentences of a message, which of them are to be remembered, and what their words tell.

    These are what the user asks to have remembered, lessons for the next time, and in which form they want to be answered.
    """
    pieces = [piece for whole in _with_lists(sentences(own)) for piece in _readable(whole)]
    wished = [
        wish or directives.is_lesson(piece) or directives.is_criticism(piece)
        for wish, piece in zip(directives.wished(pieces), pieces, strict=True)
    ]
    return pieces, wished, judge([*map(list_in_line, pieces)], own, asked)


def _with_lists(pieces: Sequence[str]) -> Iterator[str]:
    """The sentences; what introduces a list with its items, which tell nothing alone: "My tools:", "- Procreate"; "Steps: 1.", "test 2."."""
    lead = ""
    for piece in pieces:
        if lead and (is_item(piece) or _ends_with_number(lead)):
            lead += piece
            continue
        if lead:
            yield lead
        introduces = bool(_INTRODUCES.search(piece)) and not (orders(piece) or any(directives.wished([piece])))
        lead = piece if introduces else ""
        if not introduces:
            yield piece
    if lead:
        yield lead


def _ends_with_number(text: str) -> bool:
    """Whether an item of a list within a line follows: "Steps: 1.", "test 2)"."""
    number = text.rsplit(maxsplit=1)[-1]
    return number[:-1].isdecimal() and number[-1] in ".)"


def _is_hollow(piece: str) -> bool:
    """Whether it only introduced what was cut out of it: "My physio told me, …"."""
    lead, cut, rest = piece.partition(LEFT_OUT)
    least = _LEAD_WORDS_TO_COLON if lead.rstrip().endswith((":", "：")) else _LEAD_WORDS
    return bool(cut) and len(lead.split()) < least and not any(map(str.isalnum, rest))


def _is_procedural(sentence: str) -> bool:
    """Whether it tells how something is done, or is to be done the next time."""
    return directives.is_lesson(sentence) or directives.is_procedure(sentence)


def _apart(pieces: Sequence[tuple[str, bool]]) -> list[list[tuple[str, bool]]]:
    """The pieces in quotes: lessons apart from the rest, and a procedure with what follows it apart from what was told before."""
    found: list[list[tuple[str, bool]]] = []
    lesson_before = procedure_before = False
    for piece in pieces:
        lesson, procedure = directives.is_lesson(piece[0]), _is_procedural(piece[0])
        if not found or lesson != lesson_before or (procedure and not procedure_before):
            found.append([])
        found[-1].append(piece)
        lesson_before, procedure_before = lesson, procedure
    return found


def _tells(piece: str, probability: float) -> bool:
    return probability >= CUT or (probability >= _FACT_CUT and statements.is_fact(piece))


def _told_in_last(turns: Sequence[LoggedTurn]) -> list[str]:
    """What the last turn told, as far as words tell."""
    return [statements.told(each) for each in candidates(turns) if each.turn_ids[0] == turns[-1].id]


def _corrected(content: str, before: Sequence[str], asked: str) -> str:
    """What it corrects: of what was told before it, the last that it has something in common with; "" for nothing."""
    surely = directives.surely_corrects(content)
    if asked.rstrip().endswith(QUESTION_MARKS) and not (surely or directives.names_wrong(content)):
        return ""  # "No, 45" answers.
    sure = before[-1] if before and surely else ""
    return next((each for each in reversed(before) if directives.corrects(content, each)), sure)


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


def _passages(pieces: Sequence[tuple[str, bool]]) -> Iterator[str]:
    """Sentences together, as many as make a quote.

    Args:
        pieces: each sentence, and whether it is worth keeping by itself; a passage without such a sentence is left out.
    """
    passage, worth = "", False
    for piece, telling in (*pieces, ("", False)):
        if not piece or len(passage) + len(piece) > _MAX_QUOTE_CHARS:
            if worth:
                yield _in_line(passage)
            passage, worth = "", False
        passage += piece if piece[-1:].isspace() or CJK.search(piece[-2:]) else f"{piece} "
        worth |= telling


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _is_short(content: str) -> bool:
    return word_count(content) <= _SHORT_WORDS


def _about(content: str, asked: str, said: str) -> str:
    """What a short quote is about, "" when it tells that itself."""
    if not _is_short(content):
        return ""
    if asked.rstrip().endswith(QUESTION_MARKS):
        return _asked(asked)
    return _harmless(said[:_MAX_CONTEXT_CHARS]) if _refers(content) else ""


def _asked(answer: str) -> str:
    """The last question in an assistant's answer."""
    parts = sentences(answer.rstrip()[-2 * _MAX_CONTEXT_CHARS :])
    question = next((part for part in reversed(parts) if part.rstrip().endswith(QUESTION_MARKS)), "")
    return _harmless(" ".join(question.split())[-_MAX_CONTEXT_CHARS:])


def _refers(content: str) -> bool:
    """Whether it goes on with something said before, or points to it."""
    return begins(tokens(content), phrases("goes_on")) or phrases("pronouns").occur_in(content)


def _harmless(about: str) -> str:
    return "" if phrases("steers").occur_in(about) or content_policy.reason(about) else about


def _candidate(content: str, about: str, asked: str, facts: tuple[Fact, ...], turn: LoggedTurn) -> Candidate:
    return Candidate(
        type=MemoryType.PROCEDURAL if _is_procedural(sentences(content)[0]) else MemoryType.SEMANTIC,
        content=content,
        observed_at=turn.observed_at,
        extractor=EXTRACTOR,
        session_id=turn.session_id,
        turn_ids=(turn.id,),
        model=turn.model,
        form="quote",
        context=about,
        asked=asked,
        facts=facts,
    )
