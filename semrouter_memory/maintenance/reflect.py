"""Writes insights: what several of a user's episodes and quotes show together, as a model says it.

Strategy: each project of a user by itself, once there are enough new memories since the last time. The model reads them; each
insight is held against the memories that it cites (`reflect`) and names them, so that it is deleted with any of them. Under the
owner's lock the sources are read again, and nothing is written that is known already.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from semrouter_memory.backends import Backends
from semrouter_memory.config import MaintenanceConfig
from semrouter_memory.errors import ChatModelError, ModelFault, ModelUnavailableError, failure_of
from semrouter_memory.events import CandidatesRefused, ExtractionFinished
from semrouter_memory.lineage import may_derive
from semrouter_memory.maintenance.eviction import is_flagged
from semrouter_memory.maintenance.sweep import note_time, noted_time
from semrouter_memory.model import (
    DERIVED_FROM,
    REFLECTION_SOURCE,
    Criteria,
    EmbeddedMemory,
    MaintenanceReport,
    Memory,
    MemoryType,
    OwnerKind,
    Reach,
    Scope,
    derived_id,
)
from semrouter_memory.ports import ChatModel
from semrouter_memory.reflect import MAX_INSIGHTS, Insight, insight_prompt, parse_insights, within
from semrouter_memory.retain.passages import embedded

EXTRACTOR = "reflection"
MAX_READ = 500
"""Newest memories of an owner that are looked at."""
_TTL = timedelta(days=365)
_NEIGHBOURS = 5
_SAME_SIMILARITY = 0.9
"""From this cosine on a memory says what an insight says."""


class InsightWriter:
    """Reflects on one user at a time.

    Args:
        token_budget: bound on the memories in one prompt.
    """

    def __init__(
        self, backends: Backends, *, chat_model: ChatModel, config: MaintenanceConfig, token_budget: int
    ) -> None:
        self._reader, self._writer, self._embedder = backends.store, backends.writer, backends.embedder
        self._turn_log, self._state, self._locks = backends.turn_log, backends.state, backends.locks
        self._clock, self._observer = backends.clock, backends.observer
        self._model = chat_model
        self._least, self._token_budget = config.reflect_at, token_budget

    def wants(self, owner: Scope, active: int) -> bool:
        """Whether an owner with so many active memories may have something to reflect on."""
        return owner.kind is OwnerKind.USER and active >= self._least and self._model.retry_after is None

    async def reflect(self, owner: Scope, report: MaintenanceReport) -> bool:
        """Write at most three insights; returns whether the model was asked.

        Raises:
            UnavailableError: a part other than the model is unavailable.
        """
        left, asked, read_at = MAX_INSIGHTS, False, self._clock.now()
        for scope, memories in (await self._told(owner)).items():
            new = await self._new(scope, memories) if left else ()
            if not new:
                continue
            asked = True
            insights = await self._asked(new)
            if insights is None:
                break
            written = await self._write(scope, insights[:left])
            report.insights += written
            left -= written
            await note_time(self._state, _key(scope), read_at, ttl=_TTL)
        return asked

    async def _told(self, owner: Scope) -> Mapping[Scope, list[Memory]]:
        """The newest episodes and quotes of each project, newest first; none while the user has paused remembering."""
        page = await self._reader.page(Criteria(owner, active_at=self._clock.now()), limit=MAX_READ)
        deleted = await self._turn_log.tombstones(owner)
        found: dict[Scope, list[Memory]] = {}
        for memory in page.memories if deleted.paused_since is None else ():
            if _is_told(memory) and not deleted.covers(memory):
                found.setdefault(memory.scope, []).append(memory)
        return found

    async def _new(self, scope: Scope, memories: Sequence[Memory]) -> Sequence[Memory]:
        """Those that were not read before, oldest first, as many as a prompt may have; none when they are too few."""
        since = await noted_time(self._state, _key(scope))
        new = [memory for memory in memories if since is None or memory.created_at > since]
        if len(new) < self._least:
            return ()
        return within(new, self._token_budget, self._embedder.count_tokens)[::-1]

    async def _asked(self, memories: Sequence[Memory]) -> list[Insight] | None:
        """What the model says that stands in the memories; None: ask again another time."""
        refused = Counter[str]()
        try:
            insights = parse_insights(await self._model.complete(insight_prompt(memories)), memories, refused)
        except ChatModelError as error:
            self._observer.observe(
                ExtractionFinished(
                    extractor=EXTRACTOR, turns=0, failure=failure_of(error), status=error.status, cause=error.cause
                )
            )
            again = isinstance(error, ModelUnavailableError) or error.fault is ModelFault.REFUSED
            return None if again else []
        if refused:
            self._observer.observe(CandidatesRefused(EXTRACTOR, refused))
        return insights

    async def _write(self, scope: Scope, insights: Sequence[Insight]) -> int:
        memories = [self._memory(scope, insight) for insight in insights]
        rows = await embedded(self._embedder, memories)
        written = 0
        async with self._locks.hold(scope) as hold:
            for row, insight in zip(rows, insights, strict=True):
                if not await may_derive(self._reader, self._turn_log, scope, row.memory, insight.sources):
                    continue
                if not await self._is_known(scope, row):
                    await hold.confirm()
                    await self._writer.upsert(scope, [row])
                    written += 1
        self._observer.observe(
            ExtractionFinished(extractor=EXTRACTOR, turns=0, candidates=len(insights), actions={"add": written})
        )
        return written

    async def _is_known(self, scope: Scope, row: EmbeddedMemory) -> bool:
        criteria = Criteria(scope, reach=Reach.RECALL, active_at=self._clock.now())
        hits = await self._reader.search(criteria, row.vector, limit=_NEIGHBOURS, fresh=True)
        return any(hit.similarity >= _SAME_SIMILARITY for hit in hits)

    def _memory(self, scope: Scope, insight: Insight) -> Memory:
        """As said when the newest of its sources was said; it lasts as long as they all do."""
        now, newest = self._clock.now(), max(insight.sources, key=lambda source: source.said_at)
        ids = [source.id for source in insight.sources]
        return Memory(
            id=derived_id("insight", insight.content, *ids),
            scope=scope,
            type=MemoryType.REFLECTIVE,
            content=insight.content,
            source=REFLECTION_SOURCE,
            observed_at=newest.observed_at,
            created_at=now,
            updated_at=now,
            expires_at=min((each.expires_at for each in insight.sources if each.expires_at), default=None),
            metadata={DERIVED_FROM: ids, "extractor": EXTRACTOR, "model": self._model.name},
        ).asserted(newest.said_at, now=newest.observed_at)


def _key(scope: Scope) -> str:
    """Where the time is stored up to which a project's memories were read; a user's own state ends with every deletion."""
    return derived_id("reflected", scope.owner, scope.project_id)


def _is_told(memory: Memory) -> bool:
    """Whether insights may be drawn from it: what the user said or did, which holds beyond a session."""
    told = memory.form == "quote" or memory.type is MemoryType.EPISODIC
    return told and not memory.within_session and not is_flagged(memory)
