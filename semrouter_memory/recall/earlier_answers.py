"""What the assistant answered in earlier conversations, for a request that speaks of it ("the tent you recommended").

Strategy: answers are no memories; the turn log holds them for a while anyway. The newest are looked through for the beginnings of the
request's words, by plain search in the text: to take four hundred answers apart into terms would take longer than a request may wait.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from semrouter_memory.language.phrases import phrases
from semrouter_memory.language.scripts import one_line
from semrouter_memory.language.sentences import sentences
from semrouter_memory.language.words import Stem, content_words, spans, tokens
from semrouter_memory.model import EarlierAnswer, LoggedTurn, RecallRequest, Role, TurnState
from semrouter_memory.ports import Tombstones, TurnLog
from semrouter_memory.recall.query import Query

_ANSWERED_TURNS = 400
"""The newest turns whose answers are looked through."""
_ANSWERS, _FIRST = 2, 2 / 3
_AS_GOOD = 0.75
"""Part of the best answer's worth from which on a second one is given."""
_WORDS = 2
_TOLD = 0.4
"""Part of what the request's words weigh that an answer must have."""
_ASKED_CHARS = 160
_PIECE_CHARS = 320
"""A longer line is taken apart into sentences."""


class EarlierAnswers:
    """Finds what the assistant answered in earlier conversations, for a request that speaks of it ("the tent you recommended").

    The turn log holds answers for `retain.turn_retention_days` anyway: nothing more is stored, and what erases them there
    erases them here.
    """

    def __init__(self, turn_log: TurnLog) -> None:
        self._turn_log = turn_log
        self._one_at_a_time = asyncio.Semaphore(1)

    async def found(self, request: RecallRequest, query: Query) -> Sequence[EarlierAnswer]:
        """The answers it may mean, whole, the best first.

        It takes a tenth of a second of a processor where there are many, so requests that ask for it wait for one another.

        Raises:
            TurnLogError: the log is unavailable.
        """
        async with self._one_at_a_time:
            scope = request.scope.in_project("")
            turns = await self._turn_log.list_turns(scope=scope, states=None, limit=_ANSWERED_TURNS)
            deletions = await self._turn_log.tombstones(request.scope)
            reached = {"", request.scope.project_id}
            near = [turn for turn in turns if turn.scope.project_id in reached]
            return await asyncio.to_thread(_matching, near, deletions, query.asked)


def means_earlier_answers(request: RecallRequest, query: Query) -> bool:
    """Whether it speaks of what the assistant said, and the conversation itself shows nothing that this could be."""
    if request.previous_response_id or any(each.role is Role.ASSISTANT for each in request.before):
        return False
    restricted = request.options.types is not None or bool(request.options.memory_filter)
    return not restricted and _means_answers(query.asked)


def _means_answers(text: str) -> bool:
    return phrases("earlier_answers").occur_in(text)


def _is_told(turn: LoggedTurn, deletions: Tombstones) -> bool:
    """Whether it has an answer of which nothing was deleted; a finished turn's answer is erased with what it may tell."""
    if not turn.assistant_text or turn.state is TurnState.DEAD:
        return False
    if turn.state is TurnState.WAITING and deletions.erases(turn.observed_at):
        return False
    return not deletions.forbids(turn.scope, turn.assistant_text, turn.observed_at)


def _matching(turns: Sequence[LoggedTurn], deletions: Tombstones, asked: str) -> list[EarlierAnswer]:
    return matching_answers([turn for turn in turns if _is_told(turn, deletions)], asked)


def matching_answers(turns: Sequence[LoggedTurn], asked: str) -> list[EarlierAnswer]:
    """The answers of these turns that have most of the words of a request, the rare ones above all. The best first."""
    stems = _stems(asked)
    held = [(_held(stems, turn.user_text), _held(stems, turn.assistant_text)) for turn in turns]
    worth = [_rarity(sum(column), len(turns)) for column in zip(*chain.from_iterable(held), strict=True)]
    weights = [_weight(worth, *each) for each in held]
    least = _TOLD * sum(worth)
    ranked = sorted(zip(weights, turns, strict=True), key=lambda each: (-each[0], -each[1].sequence))
    # What was answered to such a request repeats an answer. Few texts are looked at for it: it takes a millisecond or more each.
    own = (each for each in ranked if each[0] and each[0] >= least and not _means_answers(each[1].user_text))
    best = [*islice(own, _ANSWERS)]
    return [
        EarlierAnswer(one_line(turn.user_text[:_ASKED_CHARS]), turn.assistant_text, turn.observed_at)
        for weight, turn in best
        if weight >= _AS_GOOD * best[0][0]
    ]


def _held(stems: Sequence[Stem], text: str) -> list[bool]:
    lowered = text.lower()
    return [stem.is_in(lowered) for stem in stems]


def _weight(worth: Sequence[float], user: Sequence[bool], answer: Sequence[bool]) -> float:
    """What the words weigh that stand in a turn: half as much again in the user's message, which tells what it was about.

    One of several words is enough only where it stands in both: any answer has one.
    """
    found = [each for each in zip(worth, user, answer, strict=True) if any(each[1:])]
    if len(found) < min(_WORDS, len(worth)) and not any(asked and told for _, asked, told in found):
        return 0.0
    return sum(weight * (1.5 if asked else 1.0) for weight, asked, _ in found)


def _rarity(count: int, turns: int) -> float:
    return math.log1p(turns / (count + 1))


def _stems(asked: str) -> tuple[Stem, ...]:
    """Those of the words that tell what was spoken of, without those that say that it was."""
    asked = asked.strip()
    found, listed = tokens(asked), phrases("earlier_answers")
    said = {at for place in listed.places(found) for at in range(place, place + listed.length_at(found, place))}
    # The text itself, not its tokens, has the numbers, and Chinese characters side by side.
    told, end = list[str](), 0
    for first, last in (place for at, place in enumerate(spans(asked)) if at in said):
        told.append(asked[end:first])
        end = last
    words = content_words(" ".join((*told, asked[end:])))
    return tuple(dict.fromkeys(map(Stem.of, words)))


def fitting(
    found: Sequence[EarlierAnswer],
    asked: str,
    *,
    cost: Callable[[EarlierAnswer], int],
    count: Callable[[str], int],
    budget: int,
) -> tuple[EarlierAnswer, ...]:
    """The answers, cut to what fits into the budget; of two, the better one takes two thirds of it at most."""
    shown: list[EarlierAnswer] = []
    for at, answer in enumerate(found):
        room = budget - cost(replace(answer, text=""))
        most = room if at + 1 == len(found) else int(room * _FIRST)
        if text := excerpt(answer.text, asked, cost=count, budget=most):
            shown.append(replace(answer, text=text))
            budget -= cost(shown[-1])
    return tuple(shown)


def excerpt(text: str, asked: str, *, cost: Callable[[str], int], budget: int) -> str:
    """The parts of an answer that a request is most likely to mean, in their order; all of it where that fits."""
    stems, pieces = _stems(asked), [*_pieces(text)]
    weights = [sum(_held(stems, each)) for each in pieces]
    left, chosen = budget, set[int]()
    for at in sorted(range(len(pieces)), key=lambda at: (-_around(weights, at), at)):
        if left <= 0:
            break  # To count the tokens of a piece takes longer than all else.
        if (needed := cost(pieces[at])) <= left:
            left -= needed
            chosen.add(at)
    gaps = ("" if at - 1 in chosen or not at else "… " for at in sorted(chosen))
    shown = " ".join(gap + pieces[at] for gap, at in zip(gaps, sorted(chosen), strict=True))
    return f"{shown} …" if chosen and len(pieces) - 1 not in chosen else shown


def _around(weights: Sequence[int], at: int) -> float:
    """What a piece is worth with its neighbours: an item of a list belongs to what stands above it."""
    return weights[at] + sum(weights[max(at - 2, 0) : at + 2]) / 3


def _pieces(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from filter(None, map(one_line, [line] if len(line) <= _PIECE_CHARS else sentences(line)))
