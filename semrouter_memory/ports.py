"""What the pipelines need from the outside world; adapters implement these, `app.py` connects them.

Adapters raise the families of `errors.py` only; foreign exceptions end inside them.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from typing import Protocol

from semrouter_memory.model import (
    Appended,
    ChatMessage,
    Claim,
    EmbeddedMemory,
    ExtractionReport,
    Hit,
    Memory,
    MemoryType,
    Message,
    Page,
    PendingSession,
    Reach,
    Reason,
    RecallResult,
    Scope,
    Tombstone,
    Turn,
    TurnTotals,
    Vector,
)


class Clock(Protocol):
    def now(self) -> datetime:
        """The current time, aware, UTC."""
        ...


class Embedder(Protocol):
    """Text to vectors. Raises `EmbeddingError`."""

    @property
    def dimension(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Names the vector space: two embedders with the same fingerprint give comparable vectors."""
        ...

    async def embed_query(self, text: str) -> Vector: ...

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]: ...

    def count_tokens(self, text: str) -> int: ...


class MemoryReader(Protocol):
    """Reads within one owner. Raises `StoreUnavailableError`."""

    @property
    def available(self) -> bool:
        """False while the store is known to be away; calls then fail at once."""
        ...

    async def search(
        self,
        scope: Scope,
        vector: Vector,
        *,
        limit: int,
        now: datetime,
        types: frozenset[MemoryType] | None = None,
        reach: Reach = Reach.RECALL,
        fresh: bool = False,
    ) -> list[Hit]:
        """The nearest active memories: neither superseded nor expired at `now`, best first.

        Args:
            fresh: see every write that was acknowledged before, at the price of waiting for it (a server's strong
                consistency). Recall does not ask for it, reconcile does.
        """
        ...

    async def get(self, scope: Scope, memory_id: str) -> Memory | None:
        """The owner's memory with that id, in whatever project, superseded ones included; reads fresh."""
        ...

    async def page(
        self,
        scope: Scope,
        *,
        limit: int,
        cursor: str = "",
        types: frozenset[MemoryType] | None = None,
        reach: Reach = Reach.ALL,
        now: datetime,
    ) -> Page:
        """Active memories, newest `created_at` first (ties by id, descending); reads fresh.

        Raises:
            InvalidRequestError: the cursor is not one that a listing gave out.
        """
        ...


class MemoryWriter(Protocol):
    """Writes within one owner. Raises `StoreUnavailableError`."""

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        """Write rows whole, replacing those with the same id. Every row's scope has the owner of `scope`."""
        ...

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        """Delete the owner's memories with these ids; returns how many there were. Foreign ids are left alone."""
        ...

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        """Delete all of the owner's memories (`ALL`) or those of the scope's project (`EXACT`), history included."""
        ...


class TurnLog(Protocol):
    """Accepted turns, durable, until they are extracted. Raises `TurnLogError`.

    `append` and `tombstones` are synchronous and quick (a local commit, a local read); the rest may take a while.
    """

    def append(self, turn: Turn, *, remember: bool) -> Appended:
        """Resolve the turn's session, commit it, idempotently. The commit is what "accepted" means.

        Duplicate: the same owner's request id or `retry_of` with the same user texts, or the same (session, history
        hash or previous response, user texts), was accepted before. A duplicate's transcript hashes are still learned, since the
        client continues from the answer that it got last.

        Args:
            remember: the user explicitly asks to remember something: a trigger.
        """
        ...

    async def history(self, scope: Scope, previous_response_id: str, *, limit: int) -> list[Message]:
        """The last messages of the chain that ends with that response, oldest first; empty when unknown."""
        ...

    async def pending(self) -> list[PendingSession]:
        """Sessions with waiting turns that are not under a live lease, longest waiting first."""
        ...

    async def claim(self, scope: Scope, session_id: str, *, lease: timedelta, context: int) -> Claim | None:
        """Take the session's waiting turns, or None when another claim is alive or nothing waits."""
        ...

    async def surviving(self, claim: Claim) -> frozenset[str]:
        """Ids of the claim's turns that were not deleted since; empty when the claim is no longer current."""
        ...

    async def mark_rules_done(self, claim: Claim, turn_ids: Sequence[str]) -> None: ...

    async def finish(self, claim: Claim, outcomes: Mapping[str, bool]) -> None:
        """End turns (id -> whether something was stored: extracted, else empty) and give the claim back."""
        ...

    async def fail(self, claim: Claim, error: str, *, retry_at: datetime, max_attempts: int) -> int:
        """Count an attempt for each waiting turn and give the claim back; returns how many were dead-lettered."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give the claim back; nothing else changes."""
        ...

    async def bury(self, tombstone: Tombstone, *, turn_ids: Sequence[str] = ()) -> None:
        """Commit a tombstone and delete the turns it covers: the named ones, or for a scope deletion all of them."""
        ...

    def content_hash(self, content: str) -> str:
        """What a tombstone carries in place of a deleted statement: equal for the same words, however written."""
        ...

    def tombstones(self, scope: Scope) -> "Tombstones":
        """What was deleted of this owner, for checking reads and writes."""
        ...

    async def sweep(self, *, finished_before: datetime) -> int:
        """Drop turns that finished before that; returns how many. Tombstones stay."""
        ...

    async def totals(self) -> TurnTotals: ...

    def close(self) -> None: ...


class Tombstones(Protocol):
    """One owner's deletions."""

    def covers(self, memory: Memory) -> bool:
        """Whether this memory was deleted: by id, or by scope after it was observed."""
        ...

    def forbids(self, scope: Scope, content: str, observed_at: datetime) -> bool:
        """Whether writing this statement now would bring back something that was deleted after it was said."""
        ...


class OwnerLocks(Protocol):
    def hold(self, scope: Scope) -> AbstractAsyncContextManager[None]:
        """Serialises every change of one owner's memories: reconcile-and-write, and deletion."""
        ...


class ChatModel(Protocol):
    """An OpenAI-compatible chat model with one role. Raises `ChatModelError`."""

    @property
    def name(self) -> str: ...

    async def complete(self, messages: Sequence[ChatMessage]) -> str: ...


class Observer(Protocol):
    """Learns what happened, once per event, at the edge. Never raises, never sees content."""

    def exchange_bypassed(self, reason: Reason) -> None: ...

    def exchange_failed(self, error: BaseException) -> None: ...

    def setting_ignored(self, name: str) -> None:
        """A route's setting has a value that does not fit and has no effect."""
        ...

    def recall_finished(self, result: RecallResult) -> None: ...

    def turn_appended(self, appended: Appended) -> None: ...

    def turn_dropped(self, reason: str) -> None:
        """A finished exchange that could not be accepted (`log_failed`, `internal_error`)."""
        ...

    def extraction_finished(self, report: ExtractionReport) -> None: ...

    def work_failed(self, error: BaseException) -> None:
        """Background work ended in an error that is nobody's outage: a bug of ours."""
        ...

    def store_failed(self, operation: str, error: BaseException) -> None: ...

    def store_state_changed(self, *, available: bool, detail: str) -> None: ...

    def work_queued(self, *, depth: int, oldest_seconds: float) -> None: ...


NewId = Callable[[], str]
"""Draws an id for a memory, for example `mem_018f...`; sortable by time."""
