"""A session's end: its episode, the lessons of its agents, and the end of what holds within it.

Strategy. A session that goes on after its end has one episode, rewritten from all its turns, as long as these are stored and
few enough for one episode. After that an episode of its own covers the turns since the last end, so that episodes do not
overlap.

A model writes it where one is configured. Without one, or when its answer is no episode, the episode of an agent's run lists
goal and steps; quotes already hold what users said. While the model is unavailable that episode stands, and the end stays
pending until the turns are read and the model has rewritten the episode. The memory's id follows from the session, so a
second end, a crash in between or a continued session replaces the same memory.

`run` raises `StoreUnavailableError` or `LockLostError` when it can be done later.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from semrouter_memory.errors import (
    ChatModelError,
    LockLostError,
    ModelUnavailableError,
    StoreUnavailableError,
    TurnLogError,
)
from semrouter_memory.events import EpisodeFinished, SessionDue, WorkFailed
from semrouter_memory.lineage import pages
from semrouter_memory.model import (
    Claim,
    Criteria,
    LoggedTurn,
    MemoryType,
    OwnerKind,
    Reach,
    Scope,
    TurnState,
)
from semrouter_memory.retain import episodes, lessons, quotes
from semrouter_memory.retain.failures import FailurePolicy, RetainParts
from semrouter_memory.retain.passages import fitted, reads_all
from semrouter_memory.retain.scheduling import ExtractionScheduler

_MIN_TELLING_TURNS = 2
"""An episode of one turn with content could only repeat its quote."""
_ABOUT_USERS = frozenset(MemoryType) - {MemoryType.EPISODIC}
_EPISODE_TURNS = 200
"""The last turns of a session that an episode is made of."""
_TRIES = 3


class SessionEndHandler:
    """Processes the ends of claimed sessions."""

    def __init__(self, parts: RetainParts, *, scheduler: ExtractionScheduler, failures: FailurePolicy) -> None:
        self._parts = parts
        self._turn_log, self._reader, self._writer = parts.backends.turn_log, parts.backends.store, parts.writer
        self._scheduler, self._failures = scheduler, failures
        self._fits = reads_all(parts.backends.embedder)

    async def run(self, claim: Claim) -> None:
        """Write the session's episode if it has ended, record that, and release the claim.

        With turns in the claim the end stays pending, because they are not read yet. So it does while the model is
        unavailable: the episode is written without it, until the attempts are used up.
        """
        failures = self._scheduler.failures(claim.key)
        try:
            done = await self._sum_up(claim, ask_model=not claim.turns and failures < self._parts.config.max_attempts)
        except ModelUnavailableError as error:
            if not error.circuit_open:
                self._scheduler.not_served(claim.key)
            await self._failures.back_off(claim, error, failures=failures)
            return
        await self._turn_log.release(claim)
        if done:
            self._scheduler.summed_up(claim)

    async def _sum_up(self, claim: Claim, *, ask_model: bool) -> bool:
        """Whether the session had ended, and nothing is left to try."""
        config = self._parts.config
        turns = await self._turn_log.session_turns(claim, limit=_EPISODE_TURNS + 1)
        trigger = self._scheduler.end_trigger(claim, turns, self._parts.backends.clock.now())
        if trigger is None:
            return False
        if turns and (config.episodes or config.agent_lessons):
            self._parts.backends.observer.observe(SessionDue(trigger))
            stretch = await self._stretch(claim, turns)
            if config.episodes and not await self._write_episode(claim, stretch, ask_model=ask_model):
                return False
            if config.agent_lessons and not claim.turns:
                await self._write_lessons(claim, await self._lasting(claim, stretch))
        if not claim.turns:
            await self._end_memories(claim)
            await self._turn_log.mark_episode(claim, through=turns[-1].sequence if turns else 0)
        return True

    async def _stretch(self, claim: Claim, turns: Sequence[LoggedTurn]) -> Sequence[LoggedTurn]:
        """The turns of one episode: the whole session, or those since its last end."""
        claimed = {turn.id for turn in claim.turns}
        late = sum(turn.state is TurnState.WAITING and turn.id not in claimed for turn in turns)
        new = turns[max(0, len(turns) - claim.unsummarised - late) :] or turns
        whole = len(turns) <= _EPISODE_TURNS
        if whole and (len(new) == len(turns) or await self._reader.get(claim.scope, episodes.memory_id(claim, turns))):
            return turns
        return new[-_EPISODE_TURNS:]

    async def _lasting(self, claim: Claim, turns: Sequence[LoggedTurn]) -> Sequence[LoggedTurn]:
        """Without turns whose text is erased, or will be when they are finished."""
        deletions = await self._turn_log.tombstones(claim.scope)
        waiting = TurnState.WAITING
        return [turn for turn in turns if turn.state is not waiting or not deletions.erases(turn.observed_at)]

    # -- the episode ---------------------------------------------------------------------------------------------------

    async def _write_episode(self, claim: Claim, turns: Sequence[LoggedTurn], *, ask_model: bool) -> bool:
        """Whether nothing is left to try; when turns were deleted meanwhile, the episode covers the others at once."""
        left = await self._lasting(claim, turns)
        if not left:
            return True
        for _ in range(_TRIES):
            try:
                if await self._written(replace(claim, turns=tuple(left)), left, ask_model=ask_model):
                    return True
            except (StoreUnavailableError, LockLostError, TurnLogError, ModelUnavailableError):
                raise
            except Exception as error:  # noqa: BLE001 - an episode is derived: it is dropped rather than retried forever
                self._parts.backends.observer.observe(WorkFailed(error))
            stored = {turn.id for turn in await self._turn_log.session_turns(claim, limit=2 * _EPISODE_TURNS)}
            if all(turn.id in stored for turn in left):
                return True
            left = [turn for turn in left if turn.id in stored]
            if not left:
                return False
        return False

    async def _written(self, claim: Claim, turns: Sequence[LoggedTurn], *, ask_model: bool) -> bool:
        """Write the episode of these turns, if there is anything to say.

        Returns:
            False when there is an episode and it was not written: the claim is lost, a turn was deleted meanwhile, or
            its content must not be stored.

        Raises:
            ModelUnavailableError: the model can write it later; an episode without the model is written.
        """
        content, unavailable = await self._by_model(turns) if ask_model else ("", None)
        extractor, model = episodes.BY_MODEL, self._parts.chat_model.name if self._parts.chat_model else ""
        if not content or not self._fits(content):
            extractor, model = episodes.EXTRACTOR, ""
            content = fitted(await asyncio.to_thread(episodes.episode, turns), self._fits)
        candidate = None
        if content:
            candidate = await asyncio.to_thread(episodes.as_candidate, content, turns, extractor=extractor, model=model)
        written = candidate is not None and await self._writer.replace(
            claim, candidate, memory_id=episodes.memory_id(claim, turns)
        )
        extractor = candidate.extractor if candidate else ""
        self._parts.backends.observer.observe(EpisodeFinished(extractor=extractor, turns=len(turns), written=written))
        done = written or candidate is None
        if done and unavailable:
            raise unavailable
        return done

    async def _by_model(self, turns: Sequence[LoggedTurn]) -> tuple[str, ModelUnavailableError | None]:
        """What a model says of the session, "" for nothing that counts; and why it could not be asked."""
        model = self._parts.chat_model
        if model is None or not await self._is_worth_it(turns):
            return "", None
        try:
            return await episodes.summed_up(turns, model, self._parts.backends.observer), None
        except ModelUnavailableError as error:
            return "", error
        except ChatModelError:
            return "", None

    async def _is_worth_it(self, turns: Sequence[LoggedTurn]) -> bool:
        """Whether a tool ran, or the session has more content than one quote."""
        if any(turn.tools for turn in turns):
            return True
        telling = {turn.id for turn in turns if turn.state is TurnState.EXTRACTED}
        if self._parts.config.quotes and len(telling) < _MIN_TELLING_TURNS:
            found = await asyncio.to_thread(quotes.candidates, turns)
            telling |= {turn_id for candidate in found for turn_id in candidate.turn_ids}
        return len(telling) >= _MIN_TELLING_TURNS

    # -- lessons and memories of the session ---------------------------------------------------------------------------

    async def _write_lessons(self, claim: Claim, turns: Sequence[LoggedTurn]) -> None:
        """Write to each agent what it learned in the session, unless it is among what is known of the user."""
        for agent in dict.fromkeys(turn.agent for turn in turns if turn.agent):
            run = await asyncio.to_thread(lessons.learned, turns, agent)
            if not run.lessons:
                continue
            found = lessons.candidates(run, await self._known(claim.scope), turns[-1].observed_at)
            if found:
                await self._writer.share(claim, turns, Scope(agent, kind=OwnerKind.AGENT), found)

    async def _known(self, user: Scope) -> frozenset[str]:
        """Terms of what is known of the user. Episodes are left out: they tell of the run itself."""
        found: set[str] = set()
        async for page in pages(self._reader, Criteria(user, types=_ABOUT_USERS)):
            found |= await asyncio.to_thread(lessons.known_terms, page)
        return frozenset(found)

    async def _end_memories(self, claim: Claim) -> None:
        """Promote or delete what holds within the session. Doing it again changes nothing.

        Such a memory expires after `retain.session_memory_hours` at the latest, so only memories that expire by then are
        read: few users have any, and many sessions end.
        """
        latest = self._parts.backends.clock.now() + timedelta(hours=self._parts.config.session_memory_hours)
        passing = pages(self._reader, Criteria(claim.scope, reach=Reach.RECALL, expires_by=latest))
        limited = [each async for page in passing for each in page if each.within_session]
        found = [each for each in limited if await self._turn_log.is_called(claim, each.within_session)]
        if found:
            await self._writer.settle(claim.scope, found)
