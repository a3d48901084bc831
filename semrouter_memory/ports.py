"""What the pipelines need from the outside world; adapters implement these, `app/` connects them.

Adapters raise the families of `errors.py` only; foreign exceptions end inside them.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from semrouter_memory.events import Event
from semrouter_memory.language.bm25 import TermIndex
from semrouter_memory.model import (
    Appended,
    ChatMessage,
    Claim,
    Criteria,
    EmbeddedMemory,
    Hit,
    LoggedTurn,
    Memory,
    Message,
    Page,
    PendingSession,
    Reach,
    Scope,
    StoredChain,
    Tombstone,
    Turn,
    TurnState,
    TurnTotals,
    Usage,
    Vector,
)


class Clock(Protocol):
    def now(self) -> datetime:
        """The current time, aware, UTC."""


class Embedder(Protocol):
    """Text to vectors. Raises `UnavailableError`."""

    @property
    def dimension(self) -> int: ...

    @property
    def fingerprint(self) -> str:
        """Names the vector space: two embedders with the same fingerprint give comparable vectors."""

    async def embed_query(self, text: str) -> Vector: ...

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]: ...

    def count_tokens(self, text: str) -> int: ...

    @property
    def max_passage_tokens(self) -> int:
        """How many tokens of a passage the model reads. A longer one is cut: its vector says nothing of the rest."""

    def passage_tokens(self, text: str) -> int:
        """Tokens of the whole text, to compare with `max_passage_tokens`."""


MAX_PINNED = 64
"""Pinned memories, or passages of them, of one owner that a search adds."""


class MemoryIndex(Protocol):
    """Memories of one owner as columns. Immutable. Positions count from 0 in the order (created_at, id)."""

    @property
    def keys(self) -> NDArray[np.uint64]:
        """A hash of the id, by position: passages of a long memory share theirs."""

    @property
    def created_at(self) -> NDArray[np.int64]:
        """Microseconds since 1970, by position."""

    @property
    def labels(self) -> NDArray[np.uint16]:
        """The `MemoryCategory` bits of every memory, by position."""

    @property
    def words(self) -> TermIndex:
        """The terms of every memory, by position."""

    def positions(self, criteria: Criteria) -> NDArray[np.intp]:
        """Positions of the memories that the criteria mean; these may say nothing of `observed` and `expires_by`."""

    def similarities(self, vector: Vector) -> NDArray[np.float32]:
        """The cosine with every memory, by position."""

    def memory(self, position: int) -> Memory: ...


class MemoryReader(Protocol):
    """Reads within one owner. Raises `StoreUnavailableError`."""

    @property
    def available(self) -> bool:
        """False while the store is known to be unavailable; calls then fail at once."""

    @property
    def is_local(self) -> bool:
        """Whether the store is this process's alone, as Milvus Lite is: fresh reads take milliseconds, and no other process writes."""

    async def search(
        self,
        criteria: Criteria,
        vector: Vector,
        *,
        limit: int,
        fresh: bool = False,
        text: str = "",
    ) -> list[Hit]:
        """The nearest memories, best first.

        A long memory is found by its passages (`Memory.passage`), and only by them; every other read shows it whole.

        Args:
            text: the query in words. A store that searches words adds the best by BM25, up to `limit` of them, each with its
                cosine. The order is that of the cosines all the same. Other stores, and texts without a word that
                carries content, leave it at the nearest.
            fresh: see every write that was acknowledged before, at the price of waiting for it (a server's strong
                consistency). Recall does not ask for it, reconcile does.
        """

    async def search_index(
        self,
        criteria: Criteria,
        vector: Vector,
        *,
        limit: int,
        fresh: bool = False,
        text: str = "",
        pinned: bool = False,
    ) -> MemoryIndex:
        """The index of what `search` finds, made of what is stored for it: a fifth of the work of making one of the hits.

        Args:
            pinned: also the pinned ones, up to `MAX_PINNED`, however far they are.
        """

    async def get(self, scope: Scope, memory_id: str) -> Memory | None:
        """The owner's memory with that id, in whatever project, superseded ones included; reads fresh."""

    async def page(self, criteria: Criteria, *, limit: int, cursor: str = "", oldest_first: bool = False) -> Page:
        """Memories, newest `created_at` first (ties by id, descending); reads fresh.

        Args:
            oldest_first: the other way round; such a page has no successor.

        Raises:
            InvalidRequestError: the cursor is not one that a listing gave out.
        """

    async def predecessors(self, scope: Scope, memory_ids: Sequence[str]) -> list[Memory]:
        """The owner's memories that these superseded (one step back), in whatever project; reads fresh."""

    async def count(self, scope: Scope) -> int:
        """How many memories the owner has, in all projects, superseded and expired ones included; reads fresh."""

    def scan(self) -> AsyncIterator[Sequence[Memory]]:
        """Every memory of every owner, superseded and expired ones included, in batches and in no order.

        It reads the whole collection.
        """


class MemoryWriter(Protocol):
    """Writes within one owner. Raises `StoreUnavailableError`."""

    async def upsert(self, scope: Scope, rows: Sequence[EmbeddedMemory]) -> None:
        """Write rows whole, replacing those with the same id and passage. Every row's scope has the owner of `scope`."""

    async def delete(self, scope: Scope, memory_ids: Sequence[str]) -> int:
        """Delete the owner's memories with these ids and their passages; returns how many memories there were.

        Other owners' ids have no effect.
        """

    async def delete_all(self, scope: Scope, reach: Reach) -> int:
        """Delete all of the owner's memories (`ALL`) or those of the scope's project (`EXACT`), history included."""

    async def compact(self) -> None:
        """Take what was deleted out of the files too, as far as the store can be told to."""


class OwnerIndexes(Protocol):
    """Indexes of all active memories of those owners whose memories are at hand."""

    async def get(self, scope: Scope, *, until: float) -> MemoryIndex | None:
        """The owner's index, if it is cached or can be loaded by that time of the loop. Never raises.

        None: search the store. The owner has very many memories or they are not at hand, or the version that proves an
        index correct cannot be read.
        """


class Tombstones(Protocol):
    """One owner's deletions and pauses. Two of one owner are equal when nothing was deleted or paused between them."""

    def __bool__(self) -> bool:
        """Whether anything was deleted or paused."""

    @property
    def paused_since(self) -> datetime | None:
        """Since when the user has paused remembering; None: it is not paused."""

    def covers(self, memory: Memory) -> bool:
        """Whether this memory was deleted: by id, or by scope after it was observed."""

    def forbids(self, scope: Scope, content: str, observed_at: datetime) -> bool:
        """Whether writing this statement now would bring back something that was deleted after it was said."""

    def erases(self, observed_at: datetime) -> bool:
        """Whether a turn that began then and is not finished may tell of a memory that was deleted since."""


class TurnLog(Protocol):
    """Finished exchanges, and what was deleted. Raises `TurnLogError`.

    `append` is synchronous and quick (a local commit), and so is `now`; everything else may take a while.
    """

    # -- accepting -----------------------------------------------------------------------------------------------------

    def append(self, turn: Turn, *, remember: bool) -> Appended:
        """Commit a turn, idempotently. The commit is what "accepted" means.

        A shared log commits to its local spool; session and repetition are then resolved when the turn is forwarded.

        Duplicate: the same owner's request id or `retry_of` with the same user texts, or the same (session, history
        hash or previous response, user texts), was accepted before. A duplicate's transcript hashes are still learned, since the
        client continues from the answer that it got last.

        Args:
            remember: the user explicitly asks to remember something: a trigger.
        """

    async def sweep(self, *, finished_before: datetime) -> int:
        """Drop turns that finished before that; returns how many. Tombstones stay."""

    # -- sessions whose turns wait, each under one lease at a time -----------------------------------------------------

    async def pending(self) -> list[PendingSession]:
        """Sessions that are not done with and not under a live lease, longest waiting first."""

    async def claim(self, scope: Scope, session_id: str, *, lease: timedelta, context: int) -> Claim | None:
        """Take the session, or None when another claim is alive or there is nothing to do.

        There is something to do while turns wait, or were accepted since the last episode.
        """

    async def renew(self, claim: Claim, *, lease: timedelta) -> bool:
        """Let the claim's lease end that much after now; returns whether the claim is still current."""

    async def release(self, claim: Claim) -> None:
        """Give the claim back; nothing else changes."""

    async def finish(self, claim: Claim, outcomes: Mapping[str, bool]) -> None:
        """End turns (id -> whether something was stored: extracted, else empty) and give the claim back.

        The text of a turn that had begun when a single memory of the user was deleted is erased: it may tell of it.
        """

    async def fail(self, claim: Claim, error: str, *, retry_at: datetime, max_attempts: int) -> int:
        """Count an attempt for each waiting turn and give the claim back; returns how many were dead-lettered."""

    # -- a session while its claim is held -----------------------------------------------------------------------------

    async def session_turns(self, claim: Claim, *, limit: int) -> tuple[LoggedTurn, ...]:
        """The claimed session's last accepted turns that are still stored, oldest first, whatever their state."""

    async def is_called(self, claim: Claim, name: str) -> bool:
        """Whether a client calls the claimed session by that name (session header, conversation id)."""

    async def surviving(self, claim: Claim) -> frozenset[str]:
        """Ids of the claim's turns that were not deleted since; empty when the claim is no longer current."""

    async def mark_rules_done(self, claim: Claim, outcomes: Mapping[str, bool]) -> None:
        """Turns were read for quotes (id -> whether one was found)."""

    async def mark_episode(self, claim: Claim, *, through: int) -> None:
        """The session is summed up to the turn with that sequence number; an announced end is done with."""

    # -- chains of the Responses API that clients continue by id -------------------------------------------------------

    async def history(self, scope: Scope, previous_response_id: str, *, limit: int) -> list[Message]:
        """The last messages of the chain that ends with that response, oldest first; empty when unknown."""

    async def chain(self, scope: Scope, previous_response_id: str, *, limit: int) -> StoredChain:
        """The last turns of the chain that ends with that response, items included, incomplete turns too."""

    # -- deletions, in one order with what is said ---------------------------------------------------------------------

    async def tombstones(self, scope: Scope) -> Tombstones:
        """What was deleted of this owner, by whatever replica, for checking reads and writes."""

    def now(self) -> datetime:
        """The time of what is said or deleted now: later than every deletion, and not before what was accepted.

        The system's time, unless its clock was set back. What is said is covered by every deletion that comes after it,
        and by none that came before, by these times.
        """

    async def timestamp(self) -> datetime:
        """Same as `now`, for what is not appended: the log remembers that it gave this time out."""

    async def tombstone(self, tombstone: Tombstone, *, turn_ids: Sequence[str] = ()) -> None:
        """Commit a tombstone and delete the turns it covers: the named ones, or for a scope deletion all of them.

        Its time is moved up to that of what was accepted last: the deletion covers all that came before it.
        """

    async def erase_answers(self, scope: Scope, *, since: datetime) -> None:
        """Erase what was answered in this user's turns since then that do not wait, in whatever project; the turns stay.

        What a turn that is not finished says is erased by `finish`, if a memory of the user was deleted since the turn
        began.
        """

    def content_hash(self, content: str) -> str:
        """What a tombstone carries in place of a deleted statement: equal for the same words, however written."""

    # -- what users say about their sessions, as every replica heeds it ------------------------------------------------

    async def end_session(self, scope: Scope, session: str) -> PendingSession | None:
        """Announce a session's end.

        Args:
            session: what the client calls it (session header, conversation id), or the log's own id.

        Returns:
            The session, or None when the owner has none of that name.
        """

    async def set_paused(self, scope: Scope, *, paused: bool) -> None:
        """Pause or resume remembering for the user, in all projects. Again has no effect.

        No exchange of which a part was in the pause is stored, then or later; what was accepted before it is extracted.
        A deletion of everything does not end it. `tombstones` says whether it is paused.
        """

    # -- for its operator ----------------------------------------------------------------------------------------------

    @property
    def damage(self) -> str:
        """What failed first because a local file is damaged, without content; "" as long as nothing did.

        Such a log takes no turns until somebody puts a sound file in its place.
        """

    async def totals(self) -> TurnTotals: ...

    async def compact(self) -> None:
        """Take what was deleted out of the log's files too."""

    async def backup(self, directory: Path) -> None:
        """Write a consistent copy of the log's local files into an existing directory, under the same names."""

    async def list_turns(
        self, *, scope: Scope | None, states: frozenset[TurnState] | None, limit: int, before: int = 0
    ) -> list[LoggedTurn]:
        """Turns, newest first.

        Args:
            scope: only this user's (in whatever project); None: everybody's.
            before: only those with a smaller sequence number; 0: from the newest.
        """

    async def get_turn(self, turn_id: str) -> LoggedTurn | None: ...

    async def retry(self, turn_ids: Sequence[str]) -> int:
        """Let dead letters wait again, with all attempts before them; returns how many. Others are left alone."""

    async def drop(self, turn_ids: Sequence[str]) -> int:
        """Delete dead or waiting turns; they count as deleted. Returns how many."""


class OwnerHold(Protocol):
    """An owner's lock while it is held."""

    async def confirm(self) -> None:
        """Make sure that the lock is still held and will be for a write's time; call it right before writing.

        Raises:
            LockLostError: it is not.
        """


class OwnerLocks(Protocol):
    def hold(self, scope: Scope) -> AbstractAsyncContextManager[OwnerHold]:
        """Serialises every change of one owner's memories, across all replicas: reconcile-and-write, and deletion.

        Raises:
            LockLostError: the lock cannot be acquired because its store is unavailable.
        """


RECEIPTS = "receipts"
"""The key of what the last recalls of an owner did, outside all projects: a line each, the newest first."""


class StateStore(Protocol):
    """Small values that expire (the state of sessions), and how often memories were injected and when last.

    Nothing here is the only record of anything: lost values are computed again or done without. Raises `UnavailableError`.
    """

    async def get(self, scope: Scope, keys: Sequence[str]) -> Mapping[str, bytes]:
        """The values of the scope's keys (user and project); keys without one, or whose value has ended, are left out."""

    async def put(self, scope: Scope, key: str, value: bytes, *, ttl: timedelta) -> None: ...

    async def drop(self, scope: Scope, keys: Sequence[str]) -> None: ...

    async def count_uses(self, scope: Scope, uses: Mapping[str, int], *, at: datetime) -> None:
        """Add to the access counts of the owner's memories (id -> how often)."""

    async def usage(self, scope: Scope, memory_ids: Sequence[str]) -> Mapping[str, Usage]:
        """What is known of these memories' use; ids without any are left out."""

    async def drop_usage(self, scope: Scope, memory_ids: Sequence[str]) -> None: ...

    async def forget(self, scope: Scope, reach: Reach) -> None:
        """Drop every value of the owner (`ALL`) or of the scope's project (`EXACT`), and the receipts; usage goes with `ALL`."""

    async def sweep(self) -> int:
        """Really delete what has ended; returns how many values."""

    async def compact(self) -> None: ...

    async def backup(self, directory: Path) -> None:
        """Same as the turn log's."""


class ChatModel(Protocol):
    """An OpenAI-compatible chat model with one role. Raises `ChatModelError`."""

    @property
    def name(self) -> str: ...

    @property
    def retry_after(self) -> float | None:
        """Seconds until an unavailable model may be asked again; None while it is available."""

    async def complete(self, messages: Sequence[ChatMessage]) -> str: ...

    def late(self) -> None:
        """A caller, whose deadline is shorter than the model's timeout, gave up waiting for an answer."""


class Observer(Protocol):
    def observe(self, event: Event) -> None:
        """Take note of an event. Quick, never raises."""


NewId = Callable[[], str]
"""Draws an id for a memory, for example `mem_018f...`; sortable by time."""
