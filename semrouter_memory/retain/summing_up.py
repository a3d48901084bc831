"""Writes the episodic memory of a session that has come to its end.

Strategy. A model writes it where there is one; whatever it answers or fails with, the rule can. While the model is away the
rule's episode stands, until the model can be asked again. The memory's id follows from the session, so a second end, a
crash in between or a continued session writes the same memory anew.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from semrouter_memory.errors import ChatModelError, ModelAwayError
from semrouter_memory.model import (
    Candidate,
    Claim,
    Hit,
    LoggedTurn,
    Memory,
    ReconcileAction,
    Scope,
    TurnState,
    Vector,
)
from semrouter_memory.ports import ChatModel, Embedder, Observer
from semrouter_memory.retain import episode_llm, episodes, rules
from semrouter_memory.retain.episode_llm import LlmEpisodes
from semrouter_memory.retain.passages import beginning, fitted, reads_all
from semrouter_memory.retain.reconciling.reconcile import reconcile
from semrouter_memory.retain.reconciling.writing import ReconcilingWriter

_MAX_STATEMENTS = 60
"""The last ones; a session that says more is summed up by its end."""
_OBSOLETE = frozenset({ReconcileAction.UPDATE, ReconcileAction.REFINE, ReconcileAction.RETRACT})


class EpisodeWriter:
    """Sums sessions up.

    Args:
        use_rules: the rule extractor is on.
    """

    def __init__(
        self,
        *,
        writer: ReconcilingWriter,
        embedder: Embedder,
        chat_model: ChatModel | None,
        observer: Observer,
        use_rules: bool,
    ) -> None:
        self._writer = writer
        self._embedder = embedder
        self._fits = reads_all(embedder)
        self._model = LlmEpisodes(chat_model, observer) if chat_model else None
        self._observer = observer
        self._use_rules = use_rules

    async def sum_up(self, claim: Claim, turns: Sequence[LoggedTurn], *, ask_model: bool) -> bool:
        """Write the session's episode, if there is anything to tell.

        Args:
            turns: the session's turns that are still kept, oldest first; at least one.

        Returns:
            False when there is an episode and it was not written: the claim is lost, a turn was deleted meanwhile, or
            it says what must not be stored.

        Raises:
            StoreUnavailableError: it can be written later.
            LockLostError: same.
            ModelAwayError: the rule's episode is written; the model can write it later.
        """
        found = await asyncio.to_thread(rules.candidates, turns) if self._use_rules else ()
        statements = await self._at_the_end(found[-_MAX_STATEMENTS:])
        candidate, away = await self._candidate(turns, statements, ask_model=ask_model)
        if candidate is None:
            self._observer.episode_finished("", turns=len(turns), written=False)
            if away:
                raise away
            return True
        written = await self._writer.replace(claim, candidate, memory_id=episodes.memory_id(claim, turns))
        self._observer.episode_finished(candidate.extractor, turns=len(turns), written=written)
        if written and away:
            raise away
        return written

    async def _candidate(
        self, turns: Sequence[LoggedTurn], statements: Sequence[Candidate], *, ask_model: bool
    ) -> tuple[Candidate | None, ModelAwayError | None]:
        """The episode, None when there is nothing to tell; and why the model could not be asked."""
        if not _is_worth_it(turns, statements):
            return None, None
        content, away = await self._by_model(turns) if ask_model else ("", None)
        if content and self._fits(content):
            model = self._model.name if self._model else ""
            return episodes.as_candidate(content, turns, extractor=episode_llm.EXTRACTOR, model=model), None
        content = fitted(episodes.episode(turns, statements, self._fits), self._fits)
        return episodes.as_candidate(content, turns, extractor=episodes.EXTRACTOR) if content else None, away

    async def _by_model(self, turns: Sequence[LoggedTurn]) -> tuple[str, ModelAwayError | None]:
        if self._model is None:
            return "", None
        try:
            return await self._model.episode(turns), None
        except ModelAwayError as error:
            return "", error
        except ChatModelError:
            return "", None

    async def _at_the_end(self, statements: Sequence[Candidate]) -> list[Candidate]:
        """The statements without those that a later one of the session repeats, corrects or takes back."""
        texts = [beginning(each.content, self._fits) for each in statements]
        vectors = await self._embedder.embed_passages(texts) if texts else []
        kept: list[_Statement] = []
        for place, (candidate, vector) in enumerate(zip(statements, vectors, strict=True)):
            decision = reconcile(candidate, _neighbours(vector, kept))
            if decision.action is ReconcileAction.SKIP:
                continue
            if decision.action in _OBSOLETE:
                gone = {target.id for target in decision.targets}
                kept = [each for each in kept if each.memory.id not in gone]
            kept.append(_Statement(candidate, vector, _as_memory(candidate, place)))
        return [each.candidate for each in kept]


@dataclass(frozen=True, slots=True)
class _Statement:
    candidate: Candidate
    vector: Vector
    memory: Memory


def _is_worth_it(turns: Sequence[LoggedTurn], statements: Sequence[Candidate]) -> bool:
    """Whether anything about the user was said, or a tool ran."""
    return bool(statements) or any(turn.tools or turn.state is TurnState.EXTRACTED for turn in turns)


def _neighbours(vector: Vector, kept: Sequence[_Statement]) -> list[Hit]:
    hits = [Hit(each.memory, similarity, similarity) for each in kept for similarity in [float(each.vector @ vector)]]
    return sorted(hits, key=lambda hit: -hit.similarity)


def _as_memory(candidate: Candidate, place: int) -> Memory:
    """A statement as if it had been written, to compare later ones with."""
    return Memory(
        id=str(place),
        scope=Scope(""),
        type=candidate.type,
        content=candidate.content,
        source="conversation",
        observed_at=candidate.observed_at,
        created_at=candidate.observed_at,
        updated_at=candidate.observed_at,
        session_id=candidate.session_id,
        metadata={"turn_ids": list(candidate.turn_ids)},
    )
