"""What was deleted of an owner: one hash, and what this process last saw of it.

    v                        a random version, new with each deletion
    e                        when everything was deleted last
    p:<project>              when all of the project was deleted last
    m:<memory id>            when that memory was deleted
    c:<hash>:<project>       when that statement was deleted last

Strategy. Recall asks once per request, and waits for one short round trip at most: the server answers with the whole
hash only when the version is another than the one that is kept here. While Redis is away or slow, what is kept here is
taken at once. No deletion can be completed while Redis is away; one that another replica completed in the last moments
before may be missing here, and its rows are gone from the store by then.
"""

from collections.abc import Callable, Mapping

from semrouter_memory.model import Scope, Tombstone, Turn
from semrouter_memory.sessions.columns import micros, pack, unpack
from semrouter_memory.sessions.hybrid_clock import HybridClock
from semrouter_memory.sessions.redis.connection import RedisConnection, RedisFailedError
from semrouter_memory.sessions.redis.ledger import Ledger
from semrouter_memory.sessions.redis.transaction import Changes, pairs
from semrouter_memory.sessions.tombstones import OwnerTombstones

_MAX_CACHED_OWNERS = 1024
_PATIENCE_SECONDS = 0.025
"""Half of recall's usual deadline. A server in the same zone answers within a millisecond."""

_READ = """
local version = redis.call('HGET', KEYS[1], 'v')
if not version then return {} end
if version == ARGV[1] then return {version} end
return {version, redis.call('HGETALL', KEYS[1])}
"""

_VERSION, _EVERYTHING, _PROJECT, _MEMORY, _CONTENT = b"v", b"e", b"p:", b"m:", b"c:"


class DeletedReader:
    """Reads deletions, and keeps those of recent owners."""

    def __init__(self, connection: RedisConnection, ledger: Ledger, times: HybridClock) -> None:
        self._connection = connection
        self._ledger = ledger
        self._times = times
        self._script = connection.script(_READ)
        self._none = OwnerTombstones(content_hash=ledger.digests.content_hash)
        self._kept: dict[str, tuple[bytes, OwnerTombstones]] = {}

    async def of(self, scope: Scope) -> OwnerTombstones:
        """For recall: quickly, from what is kept where Redis does not answer at once."""
        owner = self._ledger.owner(scope)
        try:
            async with self._connection.within(_PATIENCE_SECONDS):
                return await self._read(owner)
        except RedisFailedError:
            return self._kept[owner][1] if owner in self._kept else self._none

    async def current(self, owner: str) -> OwnerTombstones:
        """Within a transaction on the owner, or to act on it."""
        return await self._read(owner)

    async def forgotten(self, turn: Turn) -> bool:
        """Whether the turn's scope was deleted after the turn had begun."""
        deleted = await self._read(self._ledger.owner(turn.scope))
        return deleted_since(deleted, turn.scope, micros(turn.observed_at))

    async def _read(self, owner: str) -> OwnerTombstones:
        version, kept = self._kept.pop(owner, (b"", self._none))
        try:
            answer = await self._connection.run(self._script, [self._ledger.keys.owner_deleted(owner)], [version])
            if not answer:
                version, kept = b"", self._none
            elif answer[0] != version:
                fields = pairs(answer[1])
                version, kept = answer[0], _parsed(fields, self._ledger.digests.content_hash)
                self._times.pass_deletion(max(int(at) for name, at in fields.items() if name != _VERSION))
        finally:
            if version:
                self._keep(owner, version, kept)
        return kept

    def _keep(self, owner: str, version: bytes, kept: OwnerTombstones) -> None:
        self._kept[owner] = (version, kept)
        if len(self._kept) > _MAX_CACHED_OWNERS:
            del self._kept[next(iter(self._kept))]


def deleted_since(deleted: OwnerTombstones, scope: Scope, said: int) -> bool:
    """Whether a deletion of a scope covers what was said at that moment."""
    moments = (deleted.everything, deleted.projects.get(scope.project_id))
    return any(moment is not None and said <= moment for moment in moments)


def write(changes: Changes, key: str, tombstone: Tombstone, known: Mapping[bytes, bytes], *, version: str) -> None:
    """Add a tombstone to an owner's. One of everything takes the place of the earlier ones, which it covers."""
    at = micros(tombstone.at)
    if tombstone.memory_id:
        fields = [_MEMORY + pack(tombstone.memory_id)]
        if tombstone.content_hash:
            fields.append(_CONTENT + tombstone.content_hash.encode() + b":" + pack(tombstone.scope.project_id))
    elif tombstone.reach == "exact":
        fields = [_PROJECT + pack(tombstone.scope.project_id)]
    else:
        fields = [_EVERYTHING]
        covered = [name for name, value in known.items() if name != _VERSION and int(value) <= at]
        if covered:
            changes.add("HDEL", key, *covered)
    for field in fields:
        changes.add("HSET", key, field, max(at, int(known.get(field, 0))))
    changes.add("HSET", key, _VERSION, version)


def _parsed(fields: Mapping[bytes, bytes], content_hash: Callable[[str], str]) -> OwnerTombstones:
    projects: dict[str, int] = {}
    memory_ids: dict[str, int] = {}
    contents: dict[tuple[str, str], int] = {}
    for name, value in fields.items():
        kind, rest = name[:2], name[2:]
        if kind == _PROJECT:
            projects[unpack(rest)] = int(value)
        elif kind == _MEMORY:
            memory_ids[unpack(rest)] = int(value)
        elif kind == _CONTENT:
            hashed, _, project = rest.partition(b":")
            contents[unpack(project), hashed.decode()] = int(value)
    everything = fields.get(_EVERYTHING)
    return OwnerTombstones(
        content_hash=content_hash,
        everything=None if everything is None else int(everything),
        projects=projects,
        memory_ids=frozenset(memory_ids),
        contents=contents,
        last_memory=max(memory_ids.values(), default=None),
    )
