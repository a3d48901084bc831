"""The turn log in Redis, shared by replicas.

One Redis server, or one with replicas behind a fixed address; Redis Cluster is not supported, because one transaction
changes keys of an owner and of the whole log. `maxmemory-policy` must be `noeviction`.

Keys. Whatever a client can choose is in them as a digest.

key                      string   the secret of all digests
sequence                 string   the last sequence number
latest                   zset     one member, whose score is the latest time of a turn or deletion (hybrid_clock.py)
totals                   hash     durable counts
turns, dead, finished    zset     all turns by sequence number; dead letters; finished ones by the time they finished
pending                  hash     the pending sessions' states, by session
purges                   set      owners whose deletion is not complete
spool:<run>              string   the last number forwarded of that run of a spool
turn:<n>                 string   a turn's state
key:<digest>             zset     the turns that are found by that lookup key, by when they were learned
owner:<o>:version        string   changes with everything of an owner; what transactions watch
owner:<o>:precedence     string   the replica whose transaction goes first (transaction.py)
owner:<o>:turns          zset     an owner's turns
owner:<o>:deleted        hash     an owner's tombstones
session:<s>              string   a session's state
session:<s>:turns        zset     its turns
session:<s>:content      hash     what was said: of turn <n>, `<n>` by the user, `<n>:answer` by the assistant
changed                  stream   the sessions that changed last (rows.py)
"""


class Keys:
    """Names under one installation's prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def __call__(self, *parts: str | int) -> str:
        return ":".join((self._prefix, *map(str, parts)))
