"""The request path of compression: whether a state replaces a conversation's beginning, and how many of its turns.

Strategy: two look-ups and a comparison of hashes; nothing is built here. Without a state that covers a beginning of
this very conversation it goes up whole. A stored chain is rebuilt from the log, and then always: the server never saw
what was left out. That is noted before the request goes up, and without the note nothing is left out.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from semrouter_memory.backends import Backends
from semrouter_memory.compress import record
from semrouter_memory.compress.record import Covered, StoredConversation, is_too_long
from semrouter_memory.compress.state import ConversationState, StateEntry, render, without
from semrouter_memory.config import CompressionConfig
from semrouter_memory.errors import MemoryServiceError, UnavailableError
from semrouter_memory.events import ExchangeFailed
from semrouter_memory.model import Compression, CompressionReason, PastTurn, RecallRequest, Scope
from semrouter_memory.ports import Tombstones

_MAX_CHAIN_TURNS = 5_000
_MARK_TTL = timedelta(days=400)
# The step before may have ended a moment ago: its turn is being written.
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class _CoveringState:
    """A state that covers a conversation's beginning.

    Attributes:
        state: without what was deleted.
        index: how many of the conversation's turns it covers.
    """

    covered: Covered
    state: ConversationState
    index: int


class Compressor:
    """Says what becomes of a long conversation's beginning."""

    def __init__(self, backends: Backends, config: CompressionConfig) -> None:
        self._store, self._turn_log, self._observer = backends.state, backends.turn_log, backends.observer
        self._count = backends.embedder.count_tokens
        self._config = config

    async def compress(
        self, request: RecallRequest, before: Compression | None = None, *, until: float = math.inf
    ) -> Compression:
        """The decision for one compressible request. Never raises (but for cancellation): what fails leaves it as it is.

        Args:
            before: the decision for an earlier step, likely of the same turn; then a later step keeps to it. Its items are
                not needed.
            until: the loop's time at which a stored chain that is known is done without its state.
        """
        try:
            if request.previous_response_id:
                return await self._chain(request, before, until)
            return await self._transcript(request, before)
        except MemoryServiceError:
            return Compression(reason=CompressionReason.UNAVAILABLE)
        except Exception as error:  # noqa: BLE001 - no bug of ours may cost a request
            self._observer.observe(ExchangeFailed(error))
            return Compression(reason=CompressionReason.INTERNAL)

    # -- a request that repeats its conversation -----------------------------------------------------------------------

    async def _transcript(self, request: RecallRequest, before: Compression | None) -> Compression:
        turns = request.turns
        deletions = await self._turn_log.tombstones(request.scope)
        if before is not None and _is_beginning(before, turns) and _still_holds(before, deletions):
            return before
        if len(turns) < self._config.min_turns:
            return Compression(reason=CompressionReason.TOO_SHORT)
        keys = [record.Key.TRANSCRIPT.of(turn.transcript_hash) for turn in turns]
        found = await self._latest(
            request.scope, keys, deletions, lambda covered, at: covered.turns == turns[at - 1].number
        )
        cut = min(found.index, len(turns) - self._config.raw_turns) if found else 0
        if found is None or cut < 1:
            return Compression(reason=CompressionReason.NO_STATE)
        number, proof = turns[cut - 1].number, turns[cut - 1].transcript_hash
        leaving = [turn.chars if at < cut and turn.places else 0 for at, turn in enumerate(turns)]
        shortened = self._compressed(found, number, sum(turn.chars for turn in turns), sum(leaving))
        return replace(shortened, dropped_turns=cut, proof=proof, deletions=deletions)

    # -- a stored chain ------------------------------------------------------------------------------------------------

    async def _chain(self, request: RecallRequest, before: Compression | None, until: float) -> Compression:
        chain = await self._stored(request)
        if not chain.complete:
            return await self._incomplete(request.scope, chain, before)
        try:
            async with asyncio.timeout_at(until if until < math.inf else None):
                return await self._decided(request, chain, before)
        except (UnavailableError, TimeoutError):
            # Whether it was compressed before is not known; the whole history is right in any case.
            return self._whole(chain)

    async def _decided(
        self, request: RecallRequest, chain: StoredConversation, before: Compression | None
    ) -> Compression:
        deletions = await self._turn_log.tombstones(request.scope)
        if before is not None and before.text and _names(before, chain) and _still_holds(before, deletions):
            # A later step of a turn: the same turns have left, and the turn's own items are longer.
            return self._of_items(before, chain)
        marked = await self._is_marked(request.scope, chain)
        if before is not None and not before.text:
            # The turn's first step went up whole, or as the server has it.
            return self._whole(chain) if marked or before.reason is CompressionReason.REBUILT else before
        if not request.retained or deletions.paused_since is not None:
            # The log will lack the turn, so what the server is sent now is all that it will ever have.
            return self._whole(chain) if marked else Compression(reason=CompressionReason.CHAIN_INCOMPLETE)
        if len(chain.answered) < self._config.min_turns:
            return self._whole(chain) if marked else Compression(reason=CompressionReason.TOO_SHORT)
        return await self._shortened(request, chain, deletions, marked=marked)

    def _whole(self, chain: StoredConversation) -> Compression:
        """The whole history, from the log."""
        return self._of_items(Compression(reason=CompressionReason.REBUILT), chain)

    def _of_items(self, decided: Compression, chain: StoredConversation) -> Compression:
        """The decision with the items of the turns that stay."""
        items = chain.items_from(decided.dropped_turns)
        if is_too_long(items):
            return Compression(reason=CompressionReason.CHAIN_LOST)
        return replace(decided, items=items, statements=(*decided.statements, *chain.texts[decided.dropped_turns :]))

    async def _stored(self, request: RecallRequest) -> StoredConversation:
        for _ in range(_ATTEMPTS if request.continues_loop else 1):
            stored = await self._turn_log.chain(request.scope, request.previous_response_id, limit=_MAX_CHAIN_TURNS)
            if stored.turns:
                break
            await asyncio.sleep(_PAUSE_SECONDS)
        return StoredConversation.of(stored)

    async def _incomplete(self, scope: Scope, chain: StoredConversation, before: Compression | None) -> Compression:
        lost = await self._is_marked(scope, chain)
        decided = Compression(reason=CompressionReason.CHAIN_LOST if lost else CompressionReason.CHAIN_INCOMPLETE)
        deletions = await self._turn_log.tombstones(scope)
        if before is not None and _names(before, chain):
            # The server has the turn's first step; what it lacks of it is the state.
            return replace(decided, text=before.text if _still_holds(before, deletions) else "")
        # Of the turns that were left out the server has nothing, and the log not all: the state is what there is.
        found = await self._latest_of(scope, chain, deletions) if lost else None
        if found is None:
            return decided
        return replace(decided, text=render(found.state, turns=found.index), statements=found.state.statements)

    async def _shortened(
        self, request: RecallRequest, chain: StoredConversation, deletions: Tombstones, *, marked: bool
    ) -> Compression:
        found = await self._latest_of(request.scope, chain, deletions)
        most = min(found.index, len(chain.answered) - self._config.raw_turns) if found else 0
        cut = chain.safe_cut(most, request.answers_calls)
        if found is None or cut < 1:
            return self._whole(chain) if marked else Compression(reason=CompressionReason.NO_STATE)
        chars = [len(text) for text in chain.texts]
        shortened = self._compressed(found, cut, sum(chars), sum(chars[:cut]))
        proof = chain.trail_of(cut)
        result = self._of_items(replace(shortened, dropped_turns=cut, proof=proof, deletions=deletions), chain)
        if result.items is None:
            return result if marked else Compression(reason=CompressionReason.NO_STATE)
        if not await self._mark(request.scope, chain) and not marked:
            return Compression(reason=CompressionReason.NOT_MARKED)
        return result

    # -- look-ups ------------------------------------------------------------------------------------------------------

    async def _latest_of(self, scope: Scope, chain: StoredConversation, deletions: Tombstones) -> _CoveringState | None:
        """Same as `_latest`, of a stored chain."""
        keys = [record.Key.TURN.of(turn.id) for turn in chain.answered]
        return await self._latest(
            scope, keys, deletions, lambda covered, at: covered.turns == at and covered.trail == chain.trail_of(at)
        )

    async def _latest(
        self, scope: Scope, keys: Sequence[str], deletions: Tombstones, covers: Callable[[Covered, int], bool]
    ) -> _CoveringState | None:
        """The state that covers most, of those that cover exactly the turns up to their key's; keys are one a turn."""
        first = max(0, len(keys) - self._config.raw_turns - record.LOOK_BACK)
        values = await self._store.get(scope, keys[first:])
        for index in range(len(keys), first, -1):
            covered = next(iter(record.load(values.get(keys[index - 1]))), None)
            if covered is not None and covers(covered, index):
                state = _undeleted(scope, covered.state, deletions)
                return _CoveringState(covered, state, index) if state.entries or not covered.state.entries else None
        return None

    async def _is_marked(self, scope: Scope, chain: StoredConversation) -> bool:
        keys = [record.Key.MARK.of(session_id) for session_id in chain.sessions]
        return bool(keys) and bool(await self._store.get(_marks_of(scope), keys))

    async def _mark(self, scope: Scope, chain: StoredConversation) -> bool:
        try:
            for session_id in chain.sessions:
                await self._store.put(_marks_of(scope), record.Key.MARK.of(session_id), b"1", ttl=_MARK_TTL)
        except UnavailableError:
            return False
        return True

    # -- the decision --------------------------------------------------------------------------------------------------

    def _compressed(self, found: _CoveringState, turns: int, chars: int, leaving: int) -> Compression:
        """The state for the first turns, `turns` of them; of all the characters so many leave with them."""
        ratio = found.covered.tokens / max(found.covered.chars, 1)
        text = render(found.state, turns=turns)
        return Compression(
            reason=CompressionReason.COMPRESSED,
            text=text,
            statements=found.state.statements,
            tokens_before=round(chars * ratio),
            tokens_after=round((chars - leaving) * ratio) + self._count(text),
        )


def _undeleted(scope: Scope, state: ConversationState, deletions: Tombstones) -> ConversationState:
    """The state without what was deleted, on whatever replica; the store may learn of it a little later."""

    def is_deleted(entry: StateEntry) -> bool:
        return deletions.forbids(scope, entry.statement, entry.at)

    return without(state, is_deleted)


def _is_beginning(before: Compression, turns: Sequence[PastTurn]) -> bool:
    """Whether what an earlier step left out is this conversation's beginning; other conversations use the same words."""
    cut = before.dropped_turns
    return cut == 0 or (cut <= len(turns) and turns[cut - 1].transcript_hash == before.proof)


def _names(before: Compression, chain: StoredConversation) -> bool:
    """Same as `_is_beginning`, of a stored chain."""
    cut = before.dropped_turns
    return 0 < cut <= len(chain.answered) and chain.trail_of(cut) == before.proof


def _still_holds(before: Compression, deletions: Tombstones) -> bool:
    """Whether nothing was deleted since; the state may tell what was in other words."""
    return not before.text or before.deletions == deletions


def _marks_of(scope: Scope) -> Scope:
    """A chain may go on in another project, and a deletion there must not take its mark along: it says nothing of anybody.

    No client can name such a project.
    """
    return scope.in_project("\x00marks")
