"""A session's end: which of its turns are summed up, and when that is done with.

Strategy. A session that goes on after its end has one episode, made anew of all its turns, as long as these are kept and
few enough to be told at once. After that only what was said since the last end is summed up, in an episode of its own, so
that episodes do not overlap.

A model that is away does not use the end up: what can be told without it is written, and the end stands until the turns
are read and the model has written it anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from semrouter_memory.errors import LockLostError, ModelAwayError, StoreUnavailableError, TurnLogError
from semrouter_memory.model import Claim, LoggedTurn, TurnState
from semrouter_memory.ports import MemoryReader, Observer, TurnLog
from semrouter_memory.retain import episodes
from semrouter_memory.retain.summing_up import EpisodeWriter
from semrouter_memory.retain.triggers import Trigger

_EPISODE_TURNS = 200
"""The last turns of a session that an episode is made of."""
_TRIES = 3


class SessionEnd:
    """Sums claimed sessions up.

    Args:
        ending: how the session has come to its end, None while it has not.
        episodes: None: sessions are only closed.
    """

    def __init__(
        self,
        *,
        turn_log: TurnLog,
        reader: MemoryReader,
        observer: Observer,
        ending: Callable[[Claim, Sequence[LoggedTurn]], Trigger | None],
        episodes: EpisodeWriter | None,
    ) -> None:
        self._turn_log = turn_log
        self._reader = reader
        self._observer = observer
        self._ending = ending
        self._episodes = episodes

    async def sum_up(self, claim: Claim, *, ask_model: bool) -> bool:
        """Write the session's episode if it is at its end, note that it is summed up, and give the claim back.

        With turns in the claim the end stands: they still wait to be read.

        Args:
            ask_model: False: the episode is written without it.

        Returns:
            Whether the session was at its end, and nothing is left to try.

        Raises:
            ModelAwayError: the episode is written without the model, for now; the claim is held.
        """
        done = False
        turns = await self._turn_log.session_turns(claim, limit=_EPISODE_TURNS + 1)
        if trigger := self._ending(claim, turns):
            done = True
            if self._episodes is not None and turns:
                self._observer.session_due(trigger)
                stretch = await self._stretch(claim, turns)
                done = await self._write(self._episodes, claim, stretch, ask_model=ask_model)
            if done and not claim.turns:
                await self._turn_log.mark_episode(claim, through=turns[-1].sequence if turns else 0)
        await self._turn_log.release(claim)
        return done

    async def _stretch(self, claim: Claim, turns: Sequence[LoggedTurn]) -> Sequence[LoggedTurn]:
        """What one episode tells: all of the session, or what was said since its last end."""
        claimed = {turn.id for turn in claim.turns}
        late = sum(turn.state is TurnState.WAITING and turn.id not in claimed for turn in turns)
        new = turns[max(0, len(turns) - claim.unsummarised - late) :] or turns
        whole = len(turns) <= _EPISODE_TURNS
        if whole and (len(new) == len(turns) or await self._reader.get(claim.scope, episodes.memory_id(claim, turns))):
            return turns
        return new[-_EPISODE_TURNS:]

    async def _lasting(self, claim: Claim, turns: Sequence[LoggedTurn]) -> Sequence[LoggedTurn]:
        """Without turns whose text is erased, or is as soon as they are finished."""
        deletions = await self._turn_log.tombstones(claim.scope)
        waiting = TurnState.WAITING
        return [turn for turn in turns if turn.state is not waiting or not deletions.erases(turn.observed_at)]

    async def _write(
        self, writer: EpisodeWriter, claim: Claim, turns: Sequence[LoggedTurn], *, ask_model: bool
    ) -> bool:
        """Whether there is nothing more to try; when turns were deleted meanwhile the others are summed up at once."""
        left = await self._lasting(claim, turns)
        if not left:
            return True
        for _ in range(_TRIES):
            try:
                if await writer.sum_up(replace(claim, turns=tuple(left)), left, ask_model=ask_model):
                    return True
            except (StoreUnavailableError, LockLostError, TurnLogError, ModelAwayError):
                raise
            except Exception as error:  # noqa: BLE001 - an episode is derived: it is done without rather than tried for ever
                self._observer.work_failed(error)
            kept = {turn.id for turn in await self._turn_log.session_turns(claim, limit=2 * _EPISODE_TURNS)}
            if all(turn.id in kept for turn in left):
                return True
            left = [turn for turn in left if turn.id in kept]
            if not left:
                return False
        return False
