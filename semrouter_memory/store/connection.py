"""One open connection to Milvus: every pymilvus call is here, and no pymilvus exception leaves this module.

Measured: the asynchronous client costs what the synchronous one in a thread does, and a call that hangs can be cancelled
without a thread staying behind. pymilvus's own retries are off: recall has no time for them, and
other callers decide themselves whether to retry.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import grpc
import numpy as np
from pymilvus import AnnSearchRequest, AsyncMilvusClient, MilvusException, RRFRanker
from pymilvus.client.types import Status
from pymilvus.client.utils import SciPyHelper

from semrouter_memory.errors import StoreUnavailableError
from semrouter_memory.model import Criteria, Scope, Vector
from semrouter_memory.ports import MAX_PINNED
from semrouter_memory.store import collection, schema
from semrouter_memory.store.lite import LiteClock, LiteServer
from semrouter_memory.store.location import LiteFile, Server
from semrouter_memory.store.memory_collection import WINDOW, SearchQuery
from semrouter_memory.store.schema import Row, Selection

for _name in ("pymilvus", "pymilvus.milvus_client"):
    # It logs each failure with its traceback and the filter expression, which names the user. We report failures.
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)

# It loads SciPy where that is installed, which takes 0.7 s, to learn whether a vector is a sparse matrix: none is.
SciPyHelper._checked = True  # noqa: SLF001 - there is no setting for it

CONNECT_SECONDS = 5.0
"""Bound on reaching a server at all."""

PREPARE_SECONDS = 60.0
"""Bound on making, checking and loading the collection: seconds on an idle server, longer on a busy one."""

_LITE_POLL_SECONDS = 0.05
_NEVER_MS = 2**31 - 1
# Rows found by words are a third as many as the nearest ones: each brings its vector, and more of them find nothing better
# (measured: recall among the first five of 786 questions 0.65; with as many 0.64).
_WORDS_PART = 3
_MANY_ROWS = 500
"""Making so many takes longer than a token may wait, so that a thread does it."""
_MIN_EF = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTarget:
    """What to connect to, and what is expected there."""

    location: Server | LiteFile
    token: str
    collection: str
    dimension: int
    fingerprint: str


@dataclass(slots=True, eq=False)
class MilvusConnection:
    """The collection, open and loaded (implements `Rows`). Methods raise `StoreUnavailableError`; none bounds its own time.

    Attributes:
        can_upsert: the place's upsert can be trusted.
        bm25: the place can search words.
        columns: of the collection; without some of them words cannot be searched, or owners are read in more slowly.
    """

    client: Any
    target: StoreTarget
    _: KW_ONLY
    lite: LiteServer | None
    can_upsert: bool
    bm25: bool
    columns: frozenset[str] = frozenset()
    # A word search of Milvus Lite fails before its first row: there is no mean length to divide by.
    _has_rows: bool = field(init=False, default=True)
    # A server gives its times out itself, and never an earlier one.
    _clock: LiteClock | None = field(init=False, default=None)

    @contextlib.asynccontextmanager
    async def trusted(self, operation: str, *, writes: bool) -> AsyncIterator[None]:
        """Around calls whose answer is relied on.

        Raises:
            StoreUnavailableError: the system's clock was set back, so that Milvus Lite may not see all rows.
        """
        if self._clock is None:
            yield
            return
        async with self._clock.steady(operation, writes=writes):
            yield

    async def hides_rows(self) -> bool:
        """Whether Milvus Lite's file holds rows that its process does not see: they were written by a later clock."""
        with _store_errors("query"):
            stored = await self.client.get_collection_stats(self.target.collection)
            seen = await self.client.query(self.target.collection, filter="", output_fields=["count(*)"])
        return bool(seen[0]["count(*)"] < int(stored["row_count"]))

    def watch_clock(self) -> None:
        """From now on, when Milvus Lite sees all of its rows."""
        self._clock = LiteClock()

    async def search(self, query: SearchQuery, vector: Vector) -> list[Row]:
        """Same as the protocol's; none by words where the collection has no words.

        The store's BM25 only selects: its document frequencies are those of all users' memories, and recall computes its own
        over the rows found. On Lite, words are looked up in its file: that fails while the file is locked.
        """
        searches = [_nearest(vector, query.selection, query.limit)]
        if query.pinned:
            searches.append(_nearest(vector, replace(query.selection, pinned=True), MAX_PINNED))
        if query.terms and schema.LEXICAL.name in self.columns and self._has_rows:
            limit = -(-query.limit // _WORDS_PART)
            expression = schema.filter_expression(query.selection)
            searches.append(
                AnnSearchRequest([query.terms], schema.LEXICAL.name, {"metric_type": "BM25"}, limit, expr=expression)
            )
        options: dict[str, Any] = {
            "output_fields": self._readable(query.columns),
            "consistency_level": "Strong" if query.fresh else "Bounded",
            "retry_times": 0,
        }
        with _store_errors("search"):
            if self.lite is not None and len(searches) > 1:
                # A server does so from 2.4 on only. The ranker's order does not count, since the answer has room for all.
                limit = min(sum(each.limit for each in searches), WINDOW)
                found = await self.client.hybrid_search(
                    self.target.collection, searches, RRFRanker(), limit=limit, **options
                )
            else:
                answers = (self._search_once(each, options) for each in searches)
                found = await asyncio.gather(*answers)
        return list({hit["id"]: hit["entity"] for hits in found for hit in hits}.values())

    async def _search_once(self, search: AnnSearchRequest, options: dict[str, Any]) -> list[Any]:
        results = await self.client.search(
            self.target.collection,
            data=search.data,
            filter=search.expr,
            limit=search.limit,
            anns_field=search.anns_field,
            search_params=search.param,
            **options,
        )
        return list(results[0])

    def _readable(self, columns: Iterable[str]) -> list[str]:
        """These columns without the one that an older collection lacks."""
        return [name for name in columns if name != schema.RECORD.name or name in self.columns]

    async def count(self, selection: Selection | None) -> int:
        with _store_errors("query"):
            answer = await self.client.query(
                self.target.collection,
                filter=schema.filter_expression(selection),
                output_fields=["count(*)"],
                consistency_level="Strong",
                retry_times=0,
            )
        return int(answer[0]["count(*)"])

    async def select(
        self, selection: Selection | None, columns: Sequence[str], *, after_key: str = "", limit: int = WINDOW
    ) -> list[Row]:
        """Same as `query`."""
        return await self.query(schema.filter_expression(selection, after_key=after_key), columns, limit=limit)

    async def query(self, expression: str, columns: Sequence[str], *, limit: int = WINDOW) -> list[Row]:
        """The first rows in the order of their keys, vectors as arrays; sees every write that was acknowledged before."""
        with _store_errors("query"):
            rows = await self.client.query(
                self.target.collection,
                filter=expression,
                output_fields=self._readable(columns),
                limit=limit,
                consistency_level="Strong",
                strict_float32=True,
                retry_times=0,
            )
        # They are made from the answer's columns only now.
        return list(rows) if len(rows) < _MANY_ROWS else await asyncio.to_thread(list, rows)

    async def upsert(self, rows: Sequence[Row]) -> None:
        """Write rows, replacing those with the same key.

        On a server that cannot upsert, this deletes and inserts; if it fails in between, the caller's repetition
        completes it.
        """
        with _store_errors("upsert"):
            written = [self._completed(row) for row in rows]
            if self.can_upsert:
                await self.client.upsert(self.target.collection, written, retry_times=0)
            else:
                await self._delete([row["id"] for row in rows])
                await self.client.insert(self.target.collection, written, retry_times=0)
        self._has_rows = True

    def _completed(self, row: Row) -> Row:
        """The row with the collection's own columns."""
        terms = {schema.TERMS.name: schema.indexed_terms(row["content"])} if schema.LEXICAL.name in self.columns else {}
        written = {schema.RECORD.name: ""} | row | terms
        if schema.RECORD.name not in self.columns:
            del written[schema.RECORD.name]
        return written

    async def delete(self, keys: Sequence[str]) -> None:
        with _store_errors("delete"):
            await self._delete(keys)

    async def _delete(self, keys: Sequence[str]) -> None:
        # By primary key alone: a filter with more in it makes the server search, a hundred times slower.
        await self.client.delete(self.target.collection, filter=schema.keys_expression(keys), retry_times=0)

    async def compact(self) -> None:
        """Have a server close its open segments and merge them without their deleted rows."""
        with _store_errors("compact"):
            await self.client.flush(self.target.collection, retry_times=0)
            await self.client.compact(self.target.collection, retry_times=0)

    async def look_for_rows(self) -> None:
        """Learn whether there is something to search the words of."""
        self._has_rows = bool(await self.select(None, [schema.ID.name], limit=1))

    async def probe(self) -> None:
        """See a search answered."""
        vector = np.zeros(self.target.dimension, dtype=np.float32)
        vector[0] = 1.0
        no_row = Selection(Criteria(Scope("")), passages=True)
        query = SearchQuery(terms="", selection=no_row, limit=1, fresh=False, columns=[schema.ID.name])
        await self.search(query, vector)

    def for_collection(self, name: str) -> "MilvusConnection":
        """The same connection, for another collection of the same place; it is not to be closed."""
        return replace(self, target=replace(self.target, collection=name), lite=None, columns=frozenset())

    async def opened(self, name: str, *, make: bool) -> "MilvusConnection | None":
        """The same connection, for a secondary collection for the same embedding, ready to search; it is not to be closed.

        Args:
            make: make the collection if there is none; otherwise it is None then.
        """
        with _store_errors("prepare"):
            if not make and not await self.client.has_collection(name):
                return None
            target = replace(self.target, collection=name)
            columns = await _prepared(self.client, target, self.lite, bm25=self.bm25, secondary=True)
        found = replace(self, target=target, columns=columns)
        if self.lite is not None:
            await found.look_for_rows()
        return found

    async def embeddings(self) -> dict[str, str]:
        """The collections that this service made, by name, with the embedding that each was made for."""
        with _store_errors("describe"):
            return await collection.embeddings(self.client)

    async def load(self) -> None:
        with _store_errors("load"):
            await self.client.load_collection(self.target.collection)

    async def drop(self) -> None:
        """Delete the collection; first those that belong to it, as nothing finds them without it."""
        name = self.target.collection
        with _store_errors("drop"):
            for each in (*await collection.secondaries(self.client, name), name):
                await self.client.drop_collection(each)

    async def close(self) -> None:
        with _store_errors("close"):
            await self.client.close()
        if self.lite is not None:
            await asyncio.to_thread(self.lite.stop)


def _nearest(vector: Vector, selection: Selection, limit: int) -> AnnSearchRequest:
    parameters = {"metric_type": "COSINE", "params": {"ef": max(_MIN_EF, limit)}}
    limit, expression = min(limit, WINDOW), schema.filter_expression(selection)
    return AnnSearchRequest([vector], schema.EMBEDDING.name, parameters, limit, expr=expression)


async def _prepared(
    client: Any, target: StoreTarget, lite: LiteServer | None, *, bm25: bool, secondary: bool = False
) -> frozenset[str]:
    return await collection.prepare(
        client,
        target.collection,
        dimension=target.dimension,
        fingerprint=target.fingerprint,
        lite=lite is not None,
        bm25=bm25,
        secondary=secondary,
    )


async def connect(target: StoreTarget, lite: LiteServer | None) -> MilvusConnection:
    """Reach the server, make the collection ready and see a search answered.

    Raises:
        StoreUnavailableError: the store does not answer, or too slowly.
        ConfigurationError: Milvus Lite cannot be used, or the collection is another one's.
    """
    connection = await _connect(target, lite)
    if lite is not None:
        try:
            hidden = await connection.hides_rows()
        except BaseException:
            await connection.close()
            raise
        if hidden:
            await connection.close()
            connection = await _connect(target, lite, reveal=True)
        connection.watch_clock()
    return connection


async def _connect(target: StoreTarget, lite: LiteServer | None, *, reveal: bool = False) -> MilvusConnection:
    address = target.location.uri if isinstance(target.location, Server) else ""
    if lite is not None:
        address = await asyncio.to_thread(lite.start, reveal=reveal)
    client = await _open_client(address, target.token, patiently=lite is not None)
    try:
        async with _within(PREPARE_SECONDS, "prepare"):
            with _store_errors("prepare"):
                # Lite has all of it, and no answer to the question for its version.
                version = "" if lite is not None else await client.get_server_version()
                bm25 = collection.can_search_words(version)
                columns = await _prepared(client, target, lite, bm25=bm25)
            connection = MilvusConnection(
                client,
                target,
                lite=lite,
                can_upsert=collection.can_upsert_with_key(version),
                bm25=bm25,
                columns=columns,
            )
            if lite is not None:
                # Nothing writes yet.
                await asyncio.to_thread(lite.index_keys)
                await connection.look_for_rows()
            await connection.probe()
    except BaseException:
        with contextlib.suppress(StoreUnavailableError), _store_errors("close"):
            await client.close()
        raise
    return connection


async def _open_client(uri: str, token: str, *, patiently: bool) -> Any:
    """Milvus Lite's process listens a moment after it was started: be patient with it."""
    # It also takes the pings that pymilvus sends while idle for an attack, and closes the connection ("too many pings").
    grpc_options = {"grpc.keepalive_time_ms": _NEVER_MS} if patiently else {}
    async with _within(CONNECT_SECONDS, "connect"):
        while True:
            with _store_errors("connect"):
                client = AsyncMilvusClient(
                    uri, token=token, dedicated=True, timeout=CONNECT_SECONDS, grpc_options=grpc_options
                )
            try:
                with _store_errors("connect"):
                    # Connecting is lazy: any call does it.
                    await client.list_collections(retry_times=0)
            except StoreUnavailableError:
                if not patiently:
                    raise
                await asyncio.sleep(_LITE_POLL_SECONDS)
            else:
                return client


@contextlib.asynccontextmanager
async def _within(seconds: float, operation: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise StoreUnavailableError(f"{operation}: no answer within {seconds:g} s") from None


@contextlib.contextmanager
def _store_errors(operation: str) -> Iterator[None]:
    """Translates pymilvus's exceptions, without their text and context, which may quote ids and content."""
    try:
        yield
    except grpc.RpcError as error:
        raise _ours(operation, error.code()) from None
    except MilvusException as error:
        raise _ours(operation, error.code) from None


def _ours(operation: str, code: Any) -> StoreUnavailableError:
    # pymilvus puts gRPC's own code into its exception when it gives up.
    if code in {grpc.StatusCode.UNAVAILABLE, Status.CONNECT_FAILED}:
        return StoreUnavailableError(f"{operation}: no answer", connection_lost=True)
    if isinstance(code, grpc.StatusCode):
        return StoreUnavailableError(f"{operation}: gRPC {code.name}")
    return StoreUnavailableError(f"{operation}: Milvus error {int(code)}")
