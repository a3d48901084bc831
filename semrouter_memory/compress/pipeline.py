"""The request path: whether a state stands for a conversation's beginning, and for how many of its turns.

Strategy: two look-ups and a comparison of hashes; nothing is built here. Without a state that covers a beginning of
this very conversation it goes up whole. A stored chain is rebuilt from the log, and then always: the server never saw
what was left out. That is noted before the request goes up, and without the note nothing is left out.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from semrouter_memory.compress import record
from semrouter_memory.compress.block import render
from semrouter_memory.compress.chain import Chain, rebuilt
from semrouter_memory.compress.record import Covered
from semrouter_memory.compress.state import Entry, State, without
from semrouter_memory.config import CompressionConfig
from semrouter_memory.errors import MemoryServiceError, StateStoreError
from semrouter_memory.model import Compression, CompressionReason, RecallRequest, Scope
from semrouter_memory.ports import Embedder, Observer, StateStore, TurnLog

_MAX_CHAIN_TURNS = 5_000
_MARK_TTL = timedelta(days=400)
# The step before may have ended a moment ago: its turn is being written.
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class _Found:
    """A state that covers a conversation's beginning.

    Attributes:
        state: without what was deleted.
        index: how many of the conversation's turns it covers.
    """

    covered: Covered
    state: State
    index: int


class Compressor:
    """Same as `ContextCompressor`."""

    def __init__(
        self,
        *,
        store: StateStore,
        turn_log: TurnLog,
        embedder: Embedder,
        observer: Observer,
        config: CompressionConfig,
    ) -> None:
        self._store = store
        self._turn_log = turn_log
        self._count = embedder.count_tokens
        self._observer = observer
        self._config = config

    async def compress(self, request: RecallRequest, before: Compression | None = None) -> Compression:
        """The decision for one request. Never raises (but for cancellation): what fails leaves it as it is."""
        try:
            if request.previous_response_id:
                return await self._chain(request, before)
            return before or await self._transcript(request)
        except MemoryServiceError:
            return Compression(reason=CompressionReason.UNAVAILABLE)
        except Exception as error:  # noqa: BLE001 - no bug of ours may cost a request
            self._observer.exchange_failed(error)
            return Compression(reason=CompressionReason.INTERNAL)

    # -- a request that repeats its conversation -----------------------------------------------------------------------

    async def _transcript(self, request: RecallRequest) -> Compression:
        turns = request.turns
        if len(turns) < self._config.min_turns:
            return Compression(reason=CompressionReason.TOO_SHORT)
        keys = [record.transcript_key(turn.transcript_hash) for turn in turns]
        found = await self._latest(request.scope, keys, lambda covered, at: covered.turns == turns[at - 1].number)
        cut = min(found.index, len(turns) - self._config.raw_turns) if found else 0
        if found is None or cut < 1:
            return Compression(reason=CompressionReason.NO_STATE)
        chars = [turn.chars for turn in turns]
        return self._compressed(found, cut, turns[cut - 1].number, chars)

    # -- a stored chain ------------------------------------------------------------------------------------------------

    async def _chain(self, request: RecallRequest, before: Compression | None) -> Compression:
        chain = await self._stored(request)
        if not chain.complete:
            return await self._incomplete(request.scope, chain, before)
        if before is not None:
            return before if before.items is None else _continued(before, chain)
        if len(chain.answered) < self._config.min_turns:
            marked = await self._is_marked(request.scope, chain)
            return rebuilt(chain) if marked else Compression(reason=CompressionReason.TOO_SHORT)
        try:
            return await self._shortened(request, chain)
        except StateStoreError:
            # Whether it was compressed before is not known; the whole history is right in any case.
            return rebuilt(chain)

    async def _stored(self, request: RecallRequest) -> Chain:
        for _ in range(_ATTEMPTS if request.continues_loop else 1):
            stored = await self._turn_log.chain(request.scope, request.previous_response_id, limit=_MAX_CHAIN_TURNS)
            if stored.turns:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        return Chain.of(stored)

    async def _incomplete(self, scope: Scope, chain: Chain, before: Compression | None) -> Compression:
        lost = await self._is_marked(scope, chain)
        reason = CompressionReason.CHAIN_LOST if lost else CompressionReason.CHAIN_INCOMPLETE
        # The server has the turn's first step; what it lacks of it is the state.
        return Compression(reason=reason, text=before.text if before else "")

    async def _shortened(self, request: RecallRequest, chain: Chain) -> Compression:
        marked = await self._is_marked(request.scope, chain)
        ids = [turn.id for turn in chain.answered]
        found = await self._latest(
            request.scope,
            [record.turn_key(turn_id) for turn_id in ids],
            lambda covered, at: covered.turns == at and covered.trail == record.trail_of(ids[:at]),
        )
        cut = min(found.index, len(ids) - self._config.raw_turns) if found else 0
        cut = chain.safe_cut(cut, request.answers_calls)
        if found is None or cut < 1:
            return rebuilt(chain) if marked else Compression(reason=CompressionReason.NO_STATE)
        if not await self._mark(request.scope, chain) and not marked:
            return Compression(reason=CompressionReason.NOT_MARKED)
        shortened = self._compressed(found, cut, cut, [len(text) for text in chain.texts])
        return replace(shortened, items=chain.items_from(cut), statements=(*shortened.statements, *chain.texts[cut:]))

    # -- look-ups ------------------------------------------------------------------------------------------------------

    async def _latest(self, scope: Scope, keys: Sequence[str], covers: Callable[[Covered, int], bool]) -> _Found | None:
        """The state that covers most, of those that cover exactly the turns up to their key's; keys are one a turn."""
        first = max(0, len(keys) - self._config.raw_turns - record.LOOK_BACK)
        values = await self._store.get(scope, keys[first:])
        for index in range(len(keys), first, -1):
            covered = record.load(values.get(keys[index - 1]))
            if covered is not None and covers(covered, index):
                state = await self._undeleted(scope, covered.state)
                return _Found(covered, state, index) if state.entries or not covered.state.entries else None
        return None

    async def _undeleted(self, scope: Scope, state: State) -> State:
        """The state without what was deleted, on whatever replica; the store may learn of it a little later."""
        tombstones = await self._turn_log.tombstones(scope)

        def is_deleted(entry: Entry) -> bool:
            return tombstones.forbids(scope, entry.statement, entry.at)

        return without(state, is_deleted)

    async def _is_marked(self, scope: Scope, chain: Chain) -> bool:
        keys = [record.mark_key(session_id) for session_id in chain.sessions]
        return bool(keys) and bool(await self._store.get(_marks_of(scope), keys))

    async def _mark(self, scope: Scope, chain: Chain) -> bool:
        try:
            for session_id in chain.sessions:
                await self._store.put(_marks_of(scope), record.mark_key(session_id), b"1", ttl=_MARK_TTL)
        except StateStoreError:
            return False
        return True

    # -- the decision --------------------------------------------------------------------------------------------------

    def _compressed(self, found: _Found, cut: int, turns: int, chars: Sequence[int]) -> Compression:
        """The first `cut` turns leave; `turns` is what they are called in the text."""
        ratio = found.covered.tokens / max(found.covered.chars, 1)
        text = render(found.state, turns=turns)
        return Compression(
            reason=CompressionReason.COMPRESSED,
            text=text,
            dropped_turns=cut,
            statements=found.state.statements,
            tokens_before=round(sum(chars) * ratio),
            tokens_after=round(sum(chars[cut:]) * ratio) + self._count(text),
        )


def _continued(before: Compression, chain: Chain) -> Compression:
    """A later step of a turn: the same turns have left, and the turn's own items are longer."""
    return replace(before, items=chain.items_from(before.dropped_turns))


def _marks_of(scope: Scope) -> Scope:
    """A chain may go on in another project, and a deletion there must not take its mark along: it says nothing of anybody.

    No client can name such a project.
    """
    return Scope(scope.user_id, "\x00marks")
