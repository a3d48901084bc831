"""The two ways to read a claimed session's turns: for quotes, and by a model.

Strategy. Quotes are taken from turns that were not read yet, with a few turns before them as context. A model reads the first
waiting turns, outside the owner's lock. After a failure both read fewer turns at a time, so that a turn which cannot be
processed is isolated, and only that one is dead-lettered.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from semrouter_memory.backends import Backends
from semrouter_memory.config import RetainConfig
from semrouter_memory.errors import ChatModelError, ModelUnavailableError
from semrouter_memory.events import CandidatesRefused, SessionDue
from semrouter_memory.model import Candidate, ChatMessage, Claim, LoggedTurn, TurnState, Vector
from semrouter_memory.ports import ChatModel
from semrouter_memory.retain import quotes
from semrouter_memory.retain.directives import withdrawn
from semrouter_memory.retain.extract_llm import EXTRACTOR, LlmExtractor, batch_of
from semrouter_memory.retain.failures import FailurePolicy, RetainParts
from semrouter_memory.retain.grounding import Grounded
from semrouter_memory.retain.reconciling.writing import Written
from semrouter_memory.retain.scheduling import ExtractionScheduler, Trigger

_SCENE_TURNS = 20
"""Earlier turns that say what a short quote is about, and whether a role-play is in progress."""
_AT_ONCE_CHARS = 120
"""User text that is read without a thread: two milliseconds at most, about what a thread costs a concurrent recall."""
_QUOTED_TURNS = 100
"""Turns that are read for quotes at a time; an eighth of that after each failure."""
_PROBE = (ChatMessage("user", "Answer with [] and nothing else."),)
"""A prompt that any available model can answer."""


def scene_turns(config: RetainConfig) -> int:
    """How many turns before the waiting ones a claim includes."""
    return max(_SCENE_TURNS, config.context_turns)


class QuoteStep:
    """Takes quotes from turns. Without a model nothing reads the turns afterwards, so the caller finishes them at once."""

    def __init__(self, parts: RetainParts) -> None:
        self._parts = parts
        self._turn_log, self._last = parts.backends.turn_log, parts.chat_model is None

    async def run(self, claim: Claim, part: Sequence[LoggedTurn]) -> set[str] | None:
        """Store the quotes of these turns of the claim.

        Returns:
            The turns with a quote; None when the claim is lost.

        Raises:
            UnavailableError: words alone do not tell what to keep, and the model does not answer.
        """
        new = {turn.id for turn in part}
        first, last = (claim.turns.index(turn) for turn in (part[0], part[-1]))
        scene = _scene((*claim.context, *claim.turns[:first]))
        found = await read(claim.turns[first : last + 1], scene, self._parts.backends)
        candidates = [candidate for candidate in found if candidate.turn_ids[0] in new]
        self._parts.backends.observer.observe(SessionDue(Trigger.QUOTES))
        before = claim.turns[first - 1 : first] or claim.context[-1:]
        written = await self._written(claim, candidates, new, withdrawn((*before, *claim.turns[first : last + 1])))
        if written is None:
            return None
        await self._parts.turns_read(claim, part, candidates, quotes.EXTRACTOR, written)
        if not self._last:
            outcomes = {turn.id: turn.id in written.sources for turn in part if turn.id in written.alive}
            await self._turn_log.mark_rules_done(claim, outcomes)
        return written.sources

    async def _written(
        self, claim: Claim, candidates: Sequence[Candidate], new: set[str], taken_back: Sequence[LoggedTurn]
    ) -> Written | None:
        """Many turns have no quote; then the owner's lock is not taken."""
        if candidates or taken_back:
            return await self._parts.writer.write(claim, candidates, withdrawn=taken_back)
        if self._last:
            # `finish` checks that the claim holds.
            return Written(frozenset(new))
        alive = await self._turn_log.surviving(claim)
        return Written(alive) if alive else None


async def read(turns: Sequence[LoggedTurn], scene: Sequence[LoggedTurn], backends: Backends) -> tuple[Candidate, ...]:
    """The quotes of the turns.

    Args:
        scene: turns before them.

    Raises:
        UnavailableError: sentences are in doubt, and the model does not answer.
    """
    await backends.priority.pause()
    if sum(len(turn.user_text) for turn in (*scene, *turns)) <= _AT_ONCE_CHARS:
        reading = quotes.Reading(turns, scene)
        return reading.candidates(await _vectors(reading, backends))
    # In a thread: a long conversation takes a quarter of a second, too long for the event loop.
    reading = await asyncio.to_thread(quotes.Reading, turns, scene)
    return await asyncio.to_thread(reading.candidates, await _vectors(reading, backends))


async def _vectors(reading: quotes.Reading, backends: Backends) -> dict[str, Vector]:
    texts = reading.in_doubt
    await backends.priority.pause()
    vectors = await backends.embedder.embed_passages(texts) if texts else ()
    await backends.priority.pause()
    return dict(zip(texts, vectors, strict=True))


def unread(claim: Claim) -> list[LoggedTurn]:
    """The turns that were not read for quotes."""
    return [turn for turn in claim.turns if not turn.rules_done]


def quoted_part(turns: Sequence[LoggedTurn]) -> Sequence[LoggedTurn]:
    """Of the unread turns those that are read at once."""
    return turns[: max(1, _QUOTED_TURNS >> 3 * max(turn.attempts for turn in turns))]


def with_quotes(turns: Sequence[LoggedTurn]) -> set[str]:
    """Ids of the turns that were read before and have a quote."""
    return {turn.id for turn in turns if turn.rules_found}


def _scene(before: Sequence[LoggedTurn]) -> Sequence[LoggedTurn]:
    return _alive(before)[-_SCENE_TURNS:]


def _alive(turns: Sequence[LoggedTurn]) -> list[LoggedTurn]:
    """Without dead-lettered turns: a turn that fails as input fails its successors as context too."""
    return [turn for turn in turns if turn.state is not TurnState.DEAD]


class ModelStep:
    """Reads turns by a model with the role `memory_extraction`."""

    def __init__(
        self,
        model: ChatModel,
        parts: RetainParts,
        *,
        scheduler: ExtractionScheduler,
        failures: FailurePolicy,
    ) -> None:
        self._parts = parts
        self._model = model
        self._extractor = LlmExtractor(model, parts.backends.embedder)
        self._turn_log = parts.backends.turn_log
        self._scheduler = scheduler
        self._failures = failures

    def batch(self, claim: Claim) -> tuple[LoggedTurn, ...]:
        """The turns that one prompt carries now."""
        failures = claim.turns[0].attempts + self._scheduler.failures(claim.key)
        return batch_of(claim.turns, limit=max(1, self._parts.batch_size >> failures))

    async def run(self, claim: Claim, batch: Sequence[LoggedTurn], known: set[str]) -> bool:
        """Ask the model about these turns of the claim, store what it finds, and finish them.

        Args:
            known: turns with quotes that were stored just now.

        Returns:
            False when nothing was finished; the claim is released in any case.
        """
        grounded = await self._asked(replace(claim, turns=tuple(batch)))
        if grounded is None:
            return False
        taken_back = withdrawn((*claim.context[-1:], *claim.turns))
        ids = {turn.id for turn in taken_back}
        candidates = [each for each in grounded.candidates if ids.isdisjoint(each.turn_ids)]
        needed = frozenset(turn.id for turn in batch)
        written = await self._parts.writer.write(claim, candidates, needed=needed, withdrawn=taken_back)
        if written is None:
            await self._turn_log.release(claim)
            return False
        await self._parts.turns_read(claim, batch, candidates, EXTRACTOR, written)
        sources = known | written.sources | with_quotes(batch)
        await self._turn_log.finish(claim, {turn.id: turn.id in sources for turn in batch})
        return True

    async def _asked(self, claim: Claim) -> Grounded | None:
        """What the model finds in the claim's turns; None when it failed, and the claim is released."""
        try:
            if self._scheduler.is_suspect(claim.key):
                await self._probe()
            grounded = await self._extractor.extract(claim.turns, self._context_of(claim))
        except ModelUnavailableError as error:
            await self._not_served(claim, error)
            return None
        except ChatModelError as error:
            self._scheduler.answered(claim.key)
            await self._failures.fail(claim, error)
            return None
        self._scheduler.answered(claim.key)
        if grounded.turned_away:
            self._parts.backends.observer.observe(CandidatesRefused(EXTRACTOR, grounded.turned_away))
        return grounded

    async def _probe(self) -> None:
        """Find out whether the model is available; if so, the prompt that failed twice is at fault."""
        try:
            await self._model.complete(_PROBE)
        except ModelUnavailableError:
            raise
        except ChatModelError:
            pass  # It refused these words: it is available.
        self._scheduler.answered()

    async def _not_served(self, claim: Claim, error: ModelUnavailableError) -> None:
        # With an open circuit the prompt was not sent, or only as the circuit's probe: it is not at fault.
        at_fault = self._scheduler.not_served(claim.key) and not error.circuit_open
        failures = self._scheduler.failures(claim.key) - 1
        pause = timedelta(seconds=error.wait_seconds) or self._failures.pause(failures)
        if at_fault:
            await self._failures.fail(claim, error)
            pause = timedelta(seconds=error.wait_seconds)
        elif not error.circuit_open:
            self._failures.report(claim, error)
        self._scheduler.cool_down(claim.key, pause, self._parts.backends.clock.now())
        if not at_fault:
            await self._turn_log.release(claim)

    def _context_of(self, claim: Claim) -> Sequence[LoggedTurn]:
        """Earlier turns for the model."""
        count = self._parts.config.context_turns
        return _alive(claim.context)[-count:] if count else ()
