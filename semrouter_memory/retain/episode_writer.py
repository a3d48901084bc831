"""Writes the episodic memory of a session that has ended.

Strategy. A model writes it where one is configured. Without it, or when its answer is no episode, the episode of an agent's
run lists goal and steps; quotes already hold what users said. While the model is unavailable that episode stands, until the
model can be asked again. The memory's id follows from the session, so a second end, a crash in between or a continued
session replaces the same memory.
"""

import asyncio
from collections.abc import Sequence

from semrouter_memory.errors import ChatModelError, ModelUnavailableError
from semrouter_memory.events import EpisodeFinished
from semrouter_memory.model import Candidate, Claim, LoggedTurn, TurnState
from semrouter_memory.ports import ChatModel, Embedder, Observer
from semrouter_memory.retain import episode_llm, episodes, quotes
from semrouter_memory.retain.episode_llm import LlmEpisodes
from semrouter_memory.retain.passages import fitted, reads_all
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter

_MIN_TELLING_TURNS = 2
"""An episode of one turn with content could only repeat its quote."""


class EpisodeWriter:
    """Writes episodes.

    Args:
        keep_quotes: quotes are stored.
    """

    def __init__(
        self,
        *,
        writer: ReconcilingWriter,
        embedder: Embedder,
        chat_model: ChatModel | None,
        observer: Observer,
        keep_quotes: bool,
    ) -> None:
        self._writer = writer
        self._fits = reads_all(embedder)
        self._model = LlmEpisodes(chat_model, observer) if chat_model else None
        self._observer = observer
        self._keep_quotes = keep_quotes

    async def sum_up(self, claim: Claim, turns: Sequence[LoggedTurn], *, ask_model: bool) -> bool:
        """Write the session's episode, if there is anything to say.

        Args:
            turns: the session's turns that are still stored, oldest first; at least one.

        Returns:
            False when there is an episode and it was not written: the claim is lost, a turn was deleted meanwhile, or
            its content must not be stored.

        Raises:
            StoreUnavailableError: it can be written later.
            LockLostError: same.
            ModelUnavailableError: the model can write it later; an episode without the model is written.
        """
        candidate, away = await self._candidate(turns, ask_model=ask_model)
        if candidate is None:
            self._observer.observe(EpisodeFinished(extractor="", turns=len(turns), written=False))
            if away:
                raise away
            return True
        written = await self._writer.replace(claim, candidate, memory_id=episodes.memory_id(claim, turns))
        self._observer.observe(EpisodeFinished(extractor=candidate.extractor, turns=len(turns), written=written))
        if written and away:
            raise away
        return written

    async def _candidate(
        self, turns: Sequence[LoggedTurn], *, ask_model: bool
    ) -> tuple[Candidate | None, ModelUnavailableError | None]:
        """The episode, None when there is none; and why the model could not be asked."""
        content, away = await self._by_model(turns) if ask_model else ("", None)
        if content and self._fits(content):
            model = self._model.name if self._model else ""
            return episodes.as_candidate(content, turns, extractor=episode_llm.EXTRACTOR, model=model), None
        content = fitted(await asyncio.to_thread(episodes.episode, turns), self._fits)
        return episodes.as_candidate(content, turns, extractor=episodes.EXTRACTOR) if content else None, away

    async def _by_model(self, turns: Sequence[LoggedTurn]) -> tuple[str, ModelUnavailableError | None]:
        if self._model is None or not await self._is_worth_it(turns):
            return "", None
        try:
            return await self._model.episode(turns), None
        except ModelUnavailableError as error:
            return "", error
        except ChatModelError:
            return "", None

    async def _is_worth_it(self, turns: Sequence[LoggedTurn]) -> bool:
        """Whether a tool ran, or the session has more content than one quote."""
        if any(turn.tools for turn in turns):
            return True
        telling = {turn.id for turn in turns if turn.state is TurnState.EXTRACTED}
        if self._keep_quotes and len(telling) < _MIN_TELLING_TURNS:
            found = await asyncio.to_thread(quotes.candidates, turns)
            telling |= {turn_id for candidate in found for turn_id in candidate.turn_ids}
        return len(telling) >= _MIN_TELLING_TURNS
