"""The keys by which turns are found again. Pure.

A turn is the same again when it has the same user texts and the same request id, the same retry key, or the same
*position*: its session and what came before it there (the transcript's hash, or the response that it names). Request ids
alone do not count: where a proxy lets clients choose them, every turn of a client that always sends the same would be a
repetition. In a session whose turns do not say what came before (a session header or a conversation id is all there is),
only a repetition of the newest turn counts: people do say things twice. The first turn of a new transcript session has
no position. Response ids never count, since some servers draw them from a thousand.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from semrouter_memory.model import Scope, Turn
from semrouter_memory.turn_log.digests import Digests


@dataclass(frozen=True, slots=True)
class TurnPlacement:
    """Where a turn goes.

    Attributes:
        session_id: "" for a new transcript session, which gets its id when it is made.
        named: the client names its session, or the chain does: the same turn can come to the same place again.
    """

    session_id: str
    named: bool


class LookupKeys:
    """Makes keys."""

    def __init__(self, digests: Digests) -> None:
        self._digests = digests

    def response(self, scope: Scope, response_id: str) -> str:
        return self._digests.of("response", scope.user_id, response_id).hex()

    def transcript(self, scope: Scope, transcript_hash: str) -> str:
        parts = (scope.user_id, scope.project_id, scope.agent_id, transcript_hash)
        return self._digests.of("transcript", *parts).hex()

    def of_request(self, turn: Turn, fingerprint: Sequence[str]) -> list[str]:
        """Of the request itself, wherever it belongs."""
        names = (("request", turn.request_id), ("retry", turn.retry_of))
        return [self._digests.of(kind, turn.scope.user_id, name, *fingerprint).hex() for kind, name in names if name]

    def of_position(self, turn: Turn, place: TurnPlacement, fingerprint: Sequence[str], after: int) -> list[str]:
        """Of the turn at its position; empty where a position cannot be repeated.

        Args:
            after: stands for what came before, where the turn does not say it: the sequence of the newest turn.
        """
        hints = turn.hints
        if hints.history_hash or hints.previous_response_id:
            before = ("known", hints.history_hash, hints.previous_response_id)
        elif place.named:
            before = ("newest", str(after), "")
        else:
            return []
        return [self._digests.of("place", place.session_id, *before, *fingerprint).hex()]

    def of_answer(self, turn: Turn) -> list[str]:
        """By which later turns continue this one."""
        keys = [self.transcript(turn.scope, each) for each in turn.transcript_hashes] if turn.complete else []
        return [*keys, self.response(turn.scope, turn.response_id)] if turn.response_id else keys
