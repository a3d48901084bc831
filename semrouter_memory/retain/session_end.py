"""A session's end: which of its turns an episode covers, and when the end is processed.

Strategy. A session that goes on after its end has one episode, rewritten from all its turns, as long as these are stored and
few enough for one episode. After that an episode of its own covers the turns since the last end, so that episodes do not
overlap.

An unavailable model does not consume the end: an episode that needs no model is written, and the end stays pending until
the turns are read and the model has rewritten the episode.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from semrouter_memory.errors import LockLostError, ModelUnavailableError, StoreUnavailableError, TurnLogError
from semrouter_memory.events import SessionDue, WorkFailed
from semrouter_memory.model import Claim, LoggedTurn, TurnState
from semrouter_memory.ports import MemoryReader, Observer, TurnLog
from semrouter_memory.retain import episodes
from semrouter_memory.retain.episode_writer import EpisodeWriter
from semrouter_memory.retain.triggers import Trigger

_EPISODE_TURNS = 200
"""The last turns of a session that an episode is made of."""
_TRIES = 3


class SessionEndHandler:
    """Processes the ends of claimed sessions.

    Args:
        end_trigger: why the session has ended, None while it has not.
        episodes: None: sessions are closed without an episode.
    """

    def __init__(
        self,
        *,
        turn_log: TurnLog,
        reader: MemoryReader,
        observer: Observer,
        end_trigger: Callable[[Claim, Sequence[LoggedTurn]], Trigger | None],
        episodes: EpisodeWriter | None,
    ) -> None:
        self._turn_log = turn_log
        self._reader = reader
        self._observer = observer
        self._end_trigger = end_trigger
        self._episodes = episodes

    async def sum_up(self, claim: Claim, *, ask_model: bool) -> bool:
        """Write the session's episode if it has ended, record that, and release the claim.

        With turns in the claim the end stays pending, because they are not read yet.

        Args:
            ask_model: False: the episode is written without the model.

        Returns:
            Whether the session had ended, and nothing is left to try.

        Raises:
            ModelUnavailableError: the episode is written without the model, for now; the claim is still held.
        """
        done = False
        turns = await self._turn_log.session_turns(claim, limit=_EPISODE_TURNS + 1)
        if trigger := self._end_trigger(claim, turns):
            done = True
            if self._episodes is not None and turns:
                self._observer.observe(SessionDue(trigger))
                stretch = await self._stretch(claim, turns)
                done = await self._write(self._episodes, claim, stretch, ask_model=ask_model)
            if done and not claim.turns:
                await self._turn_log.mark_episode(claim, through=turns[-1].sequence if turns else 0)
        await self._turn_log.release(claim)
        return done

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

    async def _write(
        self, writer: EpisodeWriter, claim: Claim, turns: Sequence[LoggedTurn], *, ask_model: bool
    ) -> bool:
        """Whether nothing is left to try; when turns were deleted meanwhile, the episode covers the others at once."""
        left = await self._lasting(claim, turns)
        if not left:
            return True
        for _ in range(_TRIES):
            try:
                if await writer.sum_up(replace(claim, turns=tuple(left)), left, ask_model=ask_model):
                    return True
            except (StoreUnavailableError, LockLostError, TurnLogError, ModelUnavailableError):
                raise
            except Exception as error:  # noqa: BLE001 - an episode is derived: it is dropped rather than retried forever
                self._observer.observe(WorkFailed(error))
            stored = {turn.id for turn in await self._turn_log.session_turns(claim, limit=2 * _EPISODE_TURNS)}
            if all(turn.id in stored for turn in left):
                return True
            left = [turn for turn in left if turn.id in stored]
            if not left:
                return False
        return False
