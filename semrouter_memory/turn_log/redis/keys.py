"""The names of all keys. Whatever a client can choose is in them as a digest.

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
owner:<o>:turns          zset     an owner's turns
owner:<o>:deleted        hash     an owner's tombstones
session:<s>              string   a session's state
session:<s>:turns        zset     its turns
session:<s>:content      hash     what was said: of turn <n>, `<n>` by the user, `<n>:answer` by the assistant
changed                  stream   the sessions that changed last (pending.py)
"""


class Keys:
    """Names under one installation's prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.digest_key = self._of("key")
        self.sequence = self._of("sequence")
        self.latest = self._of("latest")
        self.totals = self._of("totals")
        self.turns = self._of("turns")
        self.dead = self._of("dead")
        self.finished = self._of("finished")
        self.pending = self._of("pending")
        self.changed = self._of("changed")
        self.purges = self._of("purges")

    def spool(self, run: str) -> str:
        return self._of("spool", run)

    def turn(self, sequence: int) -> str:
        return self._of("turn", str(sequence))

    def lookup(self, digest: str) -> str:
        return self._of("key", digest)

    def owner_version(self, owner: str) -> str:
        return self._of("owner", owner, "version")

    def owner_precedence(self, owner: str) -> str:
        return self._of("owner", owner, "precedence")

    def owner_turns(self, owner: str) -> str:
        return self._of("owner", owner, "turns")

    def owner_deleted(self, owner: str) -> str:
        return self._of("owner", owner, "deleted")

    def session(self, session_id: str) -> str:
        return self._of("session", session_id)

    def session_turns(self, session_id: str) -> str:
        return self._of("session", session_id, "turns")

    def session_content(self, session_id: str) -> str:
        return self._of("session", session_id, "content")

    def of_session(self, session_id: str) -> tuple[str, ...]:
        """All keys of a session."""
        return self.session(session_id), self.session_turns(session_id), self.session_content(session_id)

    def _of(self, *parts: str) -> str:
        return ":".join((self._prefix, *parts))
