"""The rows of the log in Redis: read for the rules, and written as they decide (implements `LogRows`).

The texts of a session that is neither pending nor has dead letters have a TTL: they expire when no sweep removes them.

Recall asks for an owner's tombstones once per request: one short round trip at most, in which the server answers with the
whole hash only when its version differs from the cached one. While Redis is unavailable or slow, the cache is used at once.
No deletion can be completed meanwhile.

There may be thousands of pending sessions, and triggers look once a second. So they are read whole once, and after that only
those that changed: every change of a session leaves its id in a short stream. Where the stream no longer reaches back to the
last look, they are read whole again, a few at a time, since the event loop has other things to do in between.

One Redis server, or one with replicas behind a fixed address; Redis Cluster is not supported, because one transaction
changes keys of an owner and of the whole log. `maxmemory-policy` must be `noeviction`.

Keys. Whatever a client can choose is in them as a digest.

key                      string   the secret of all digests
format                   string   `FORMAT` of the version that was first
sequence                 string   the last sequence number; after a loss of all it goes on from the microseconds since 1970
latest                   zset     one member, whose score is the latest time of a turn or deletion (log.py)
totals                   hash     durable counts
turns, dead, finished    zset     all turns by sequence number; dead letters; finished ones by the time they finished
pending                  hash     the pending sessions' states, by session
purges                   set      owners whose deletion is not complete
spool:<run>              string   the last number forwarded of that run of a spool
turn:<n>                 string   a turn's state
key:<digest>             zset     the turns that are found by that lookup key, by when they were learned
owner:<o>:version        string   changes with everything of an owner; what transactions watch
owner:<o>:precedence     string   the replica whose transaction goes first (redis_log.py)
owner:<o>:turns          zset     an owner's turns
owner:<o>:deleted        hash     an owner's tombstones
session:<s>              string   a session's state
session:<s>:turns        zset     its turns
session:<s>:content      hash     what was said: of turn <n>, `<n>` by the user, `<n>:answer` by the assistant
changed                  stream   the sessions that changed last (`PendingSessions`)
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from cachetools import LRUCache

from semrouter_memory.databases.redis_connection import Argument, Command, RedisConnection, pairs
from semrouter_memory.errors import UnavailableError
from semrouter_memory.model import Scope, TurnState
from semrouter_memory.turn_log.client_values import Digests
from semrouter_memory.turn_log.rows import ERASED, Content, SessionRow, TurnRow
from semrouter_memory.turn_log.storage import BATCH, MAX_SHARED, Changes
from semrouter_memory.turn_log.tombstones import CACHED_OWNERS, OwnerTombstones, TombstoneCache, TombstoneChange

FORMAT = 2
"""Of all keys and values below the prefix, the sessions' state included; another one is refused."""

_BATCH = 200


class Keys:
    """Names under one installation's prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __call__(self, *parts: str | int) -> str:
        return ":".join((self._prefix, *map(str, parts)))


class PendingSessions:
    """Reads the hash of pending sessions."""

    def __init__(self, connection: RedisConnection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys
        self._known: dict[str, SessionRow] = {}
        self._seen = b""
        self._one_at_a_time = asyncio.Lock()

    async def rows(self) -> list[SessionRow]:
        """All of them, in no order.

        Raises:
            UnavailableError: they could not be read.
        """
        async with self._one_at_a_time:
            if not self._seen:
                await self._read_whole()
            while await self._read_changed():
                pass
            return list(self._known.values())

    async def _read_changed(self) -> bool:
        """Read some that changed since the last look; returns whether there may be more."""
        if not self._seen:
            return False
        entries = await self._connection.execute("XRANGE", self._keys("changed"), self._seen, "+", "COUNT", _BATCH)
        if not entries or entries[0][0] != self._seen:
            await self._read_whole()
        elif len(entries) > 1:
            await self._read([fields[b"session"].decode() for _, fields in entries[1:]])
            self._seen = entries[-1][0]
        return len(entries) == _BATCH

    async def _read(self, session_ids: list[str]) -> None:
        wanted = list(dict.fromkeys(session_ids))
        values = await self._connection.execute("HMGET", self._keys("pending"), *wanted)
        for session_id, value in zip(wanted, values, strict=True):
            self._put(session_id, value)

    async def _read_whole(self) -> None:
        # The stream's end first: what changes while the hash is read is read again.
        newest = await self._connection.execute("XREVRANGE", self._keys("changed"), "+", "-", "COUNT", 1)
        self._known.clear()
        async for session_id, value in self._connection.scan_hash(self._keys("pending"), _BATCH):
            self._put(session_id.decode(), value)
        self._seen = bytes(newest[0][0]) if newest else b""

    def _put(self, session_id: str, value: bytes | None) -> None:
        if value is None:
            self._known.pop(session_id, None)
        else:
            self._known[session_id] = SessionRow.of_value(value)


_PATIENCE_SECONDS = 0.025
"""Half of recall's usual deadline. A server in the same zone answers within a millisecond."""
_LATEST = "time"
_KEPT_CHANGES = 10_000
"""Many more than there are between two looks at the pending sessions."""
_VERSION = b"v"

_READ_TOMBSTONES = """
local version = redis.call('HGET', KEYS[1], 'v')
if not version then return {} end
if version == ARGV[1] then return {version} end
return {version, redis.call('HGETALL', KEYS[1])}
"""


class RedisRows:
    """Rows behind one connection, under one shared key.

    Args:
        deleted: told the time of every deletion that is read.
        keep: the TTL of the texts of such a session.
    """

    def __init__(
        self,
        connection: RedisConnection,
        keys: Keys,
        digests: Digests,
        *,
        deleted: Callable[[int], None],
        keep: timedelta,
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._deleted = deleted
        self._keep_ms = int(keep.total_seconds() * 1000)
        self._pending = PendingSessions(connection, keys)
        self._read_tombstones = connection.script(_READ_TOMBSTONES)
        self._none = None, OwnerTombstones(content_hash=digests.content_hash)
        self._tombstones: TombstoneCache = LRUCache(CACHED_OWNERS)
        self.digests = digests

    # -- reading -------------------------------------------------------------------------------------------------------

    async def turns(self, sequences: Iterable[int]) -> dict[int, TurnRow]:
        wanted = list(dict.fromkeys(sequences))
        answers = await self._connection.execute_all(("GET", self._keys("turn", each)) for each in wanted)
        rows = (TurnRow.of_value(answer) for answer in answers if answer is not None)
        return {row.sequence: row for row in rows}

    async def sessions(self, session_ids: Iterable[str]) -> dict[str, SessionRow]:
        wanted = list(dict.fromkeys(session_ids))
        answers = await self._connection.execute_all(("GET", self._keys("session", each)) for each in wanted)
        rows = (SessionRow.of_value(answer) for answer in answers if answer is not None)
        return {row.id: row for row in rows}

    async def before(self, session_id: str, sequence: int, limit: int) -> list[TurnRow]:
        return await self._below(self._keys("session", session_id, "turns"), f"({sequence}", limit)

    async def after(self, session_id: str, sequence: int) -> list[TurnRow]:
        return await self._named("ZRANGEBYSCORE", self._keys("session", session_id, "turns"), f"({sequence}", "+inf")

    async def found_by(self, key: str) -> list[TurnRow]:
        return await self._named("ZREVRANGE", self._keys("key", key), 0, MAX_SHARED - 1)

    async def contents(self, rows: Sequence[TurnRow]) -> dict[int, Content]:
        answers = await self._connection.execute_all(
            ("HMGET", self._keys("session", row.session_id, "content"), row.sequence, _answer_field(row))
            for row in rows
        )
        values = ((row.sequence, *values) for row, values in zip(rows, answers, strict=True))
        return {sequence: Content.of_values(user, answer) for sequence, user, answer in values if user is not None}

    async def listed(
        self, owner: str | None, states: frozenset[TurnState] | None, *, before: int, limit: int
    ) -> list[TurnRow]:
        index = self._keys("owner", owner, "turns") if owner is not None else self._keys("turns")
        if owner is None and states == frozenset({TurnState.DEAD}):
            index = self._keys("dead")
        return await self._below(index, f"({before}" if before > 0 else "+inf", limit, states)

    async def finished_before(self, time: int, limit: int) -> list[TurnRow]:
        return await self._named("ZRANGEBYSCORE", self._keys("finished"), "-inf", f"({time}", "LIMIT", 0, limit)

    async def pending(self) -> list[SessionRow]:
        return await self._pending.rows()

    async def pending_purges(self) -> frozenset[str]:
        return frozenset(owner.decode() for owner in await self._connection.execute("SMEMBERS", self._keys("purges")))

    async def next_sequence(self) -> int:
        # Drawn while the owner is watched: of two transactions that succeed, the later one has the higher number.
        return int(await self._connection.execute("INCR", self._keys("sequence")))

    async def latest_time(self) -> int:
        return int(await self._connection.execute("ZSCORE", self._keys("latest"), _LATEST) or 0)

    async def counts(self) -> dict[str, int]:
        counted = pairs(await self._connection.execute("HGETALL", self._keys("totals")))
        return {name.decode(): int(value) for name, value in counted.items()}

    async def _named(self, *command: str | int) -> list[TurnRow]:
        """The turns that a sorted set names, in its order."""
        members = await self._connection.execute(*command)
        return list((await self.turns(int(member) for member in members)).values())

    async def _below(
        self, index: str, highest: str, limit: int, states: frozenset[TurnState] | None = None
    ) -> list[TurnRow]:
        """Turns of an index, newest first; fewer than the limit only at its end, though some may be removed meanwhile."""
        found: list[TurnRow] = []
        at_once = limit if states is None else BATCH
        while len(found) < limit:
            members = await self._connection.execute("ZREVRANGEBYSCORE", index, highest, "-inf", "LIMIT", 0, at_once)
            rows = (await self.turns(int(member) for member in members)).values()
            found += [row for row in rows if states is None or row.state in states]
            if len(members) < at_once:
                break
            highest = f"({int(members[-1])}"
        return found[: max(limit, 0)]

    # -- deletions -----------------------------------------------------------------------------------------------------

    async def tombstones(self, owner: str) -> OwnerTombstones:
        # The cache holds the entry while Redis is asked: recall may need it meanwhile.
        version, known = entry = self._tombstones.get(owner, self._none)
        key = self._keys("owner", owner, "deleted")
        answer = await self._connection.run(self._read_tombstones, [key], [version or b""])
        # Not over a deletion of this process that came meanwhile: the answer may be of before it.
        is_newest = self._tombstones.get(owner, self._none) is entry
        if not answer:
            if is_newest:
                self._tombstones.pop(owner, None)
            return self._none[1]
        if answer[0] != version:
            fields = {name: int(at) for name, at in pairs(answer[1]).items() if name != _VERSION}
            self._deleted(max(fields.values()))
            known = replace(known, fields=fields)
            if is_newest:
                self._tombstones[owner] = answer[0], known
        return known

    async def tombstones_at_once(self, scope: Scope) -> OwnerTombstones:
        """For recall: quickly, from the cache where Redis does not answer at once."""
        owner = self.digests.owner(scope)
        try:
            async with self._connection.within(_PATIENCE_SECONDS):
                return await self.tombstones(owner)
        except UnavailableError:
            return self._tombstones.get(owner, self._none)[1]

    def deleted_here(self, change: TombstoneChange) -> None:
        """Have a deletion of this process at hand: Redis may be slow when recall asks next."""
        version, known = self._tombstones.get(change.owner, self._none)
        fields = {name: at for name, at in known.fields.items() if name not in change.drop} | dict(change.put)
        # With the version of what was read last, so that others' deletions since are read yet.
        self._tombstones[change.owner] = version or b"", replace(known, fields=fields)

    # -- writing -------------------------------------------------------------------------------------------------------

    def commands(self, changes: Changes) -> list[Command]:
        """What makes the changes."""
        made: list[Command] = []
        for row in changes.removed:
            made += self._remove_turn(row)
        for row, content in changes.added:
            made += self._add_turn(row, content)
        for row in changes.updated:
            made += self._put_turn(row)
        made += [("ZADD", self._keys("key", each), learned, sequence) for each, sequence, learned in changes.keys]
        for row, content in changes.answered:
            key = self._keys("session", row.session_id, "content")
            made.append(("HSET", key, _answer_field(row), content.answer_value()))
        for row in changes.answers_erased:
            made.append(("HDEL", self._keys("session", row.session_id, "content"), _answer_field(row)))
        for row in changes.contents_erased:
            key = self._keys("session", row.session_id, "content")
            made += [("HSET", key, row.sequence, ERASED), ("HDEL", key, _answer_field(row))]
        for session in changes.sessions:
            made += self._put_session(session)
        for session_id in changes.sessions_removed:
            made += self._remove_session(session_id)
        made += [("HINCRBY", self._keys("totals"), name, amount) for name, amount in changes.counts.items() if amount]
        if changes.latest:
            # A score is a double, which holds microseconds exactly for centuries.
            made.append(("ZADD", self._keys("latest"), "GT", changes.latest, _LATEST))
        return made + self._delete(changes)

    def _delete(self, changes: Changes) -> list[Command]:
        made: list[Command] = []
        if (deletion := changes.tombstone) is not None:
            key = self._keys("owner", deletion.owner, "deleted")
            if deletion.drop:
                made.append(("HDEL", key, *deletion.drop))
            fields: dict[bytes, Argument] = {**deletion.put, _VERSION: uuid.uuid4().hex}
            made.append(("HSET", key, *(item for pair in fields.items() for item in pair)))
            if deletion.purges:
                made.append(("SADD", self._keys("purges"), deletion.owner))
        if changes.purged:
            made.append(("SREM", self._keys("purges"), changes.purged))
        return made

    def _add_turn(self, row: TurnRow, content: Content) -> list[Command]:
        values = (row.sequence, content.user_value(), _answer_field(row), content.answer_value())
        return [
            ("HSET", self._keys("session", row.session_id, "content"), *values),
            *(("ZADD", index, row.sequence, row.sequence) for index in self._indexes(row)),
            *self._put_turn(row),
        ]

    def _put_turn(self, row: TurnRow) -> list[Command]:
        dead = (
            ("ZADD", self._keys("dead"), row.sequence) if row.state is TurnState.DEAD else ("ZREM", self._keys("dead"))
        )
        made: list[Command] = [("SET", self._keys("turn", row.sequence), row.value()), (*dead, row.sequence)]
        if row.kept_since is not None:
            made.append(("ZADD", self._keys("finished"), row.kept_since, row.sequence))
        return made

    def _remove_turn(self, row: TurnRow) -> list[Command]:
        indexes = (self._keys("dead"), self._keys("finished"), *(self._keys("key", key) for key in row.keys))
        return [
            ("DEL", self._keys("turn", row.sequence)),
            ("HDEL", self._keys("session", row.session_id, "content"), row.sequence, _answer_field(row)),
            *(("ZREM", index, row.sequence) for index in (*self._indexes(row), *indexes)),
        ]

    def _indexes(self, row: TurnRow) -> tuple[str, ...]:
        of_owner, of_session = self._keys("owner", row.owner, "turns"), self._keys("session", row.session_id, "turns")
        return self._keys("turns"), of_owner, of_session

    def _put_session(self, row: SessionRow) -> list[Command]:
        value, content = row.value(), self._keys("session", row.id, "content")
        is_open = row.is_pending or row.dead
        return [
            ("SET", self._keys("session", row.id), value),
            ("HSET", self._keys("pending"), row.id, value)
            if row.is_pending
            else ("HDEL", self._keys("pending"), row.id),
            self._note_change(row.id),
            ("PERSIST", content) if is_open else ("PEXPIRE", content, self._keep_ms),
        ]

    def _remove_session(self, session_id: str) -> list[Command]:
        return [
            ("DEL", *(self._keys("session", session_id, *part) for part in ((), ("turns",), ("content",)))),
            ("HDEL", self._keys("pending"), session_id),
            self._note_change(session_id),
        ]

    def _note_change(self, session_id: str) -> Command:
        return "XADD", self._keys("changed"), "MAXLEN", "~", _KEPT_CHANGES, "*", "session", session_id


def _answer_field(row: TurnRow) -> str:
    return f"{row.sequence}:answer"
