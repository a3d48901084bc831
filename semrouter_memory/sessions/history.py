"""The conversation behind a stored response: what the body of a chained request does not repeat."""

import sqlite3
from collections.abc import Sequence

from semrouter_memory.model import Message, Role, Scope, StoredChain
from semrouter_memory.sessions.columns import Row, load_texts
from semrouter_memory.sessions.contents import JOIN
from semrouter_memory.sessions.digests import Digests
from semrouter_memory.sessions.identify import Identification
from semrouter_memory.sessions.turns import TurnReader

_CHAIN = """WITH RECURSIVE chain (sequence, depth) AS (
               VALUES (?, 1)
               UNION ALL
               SELECT turns.parent, depth + 1 FROM chain JOIN turns ON turns.sequence = chain.sequence
               WHERE turns.parent IS NOT NULL AND depth < ?) """


class History:
    """Follows chains of stored responses through one connection."""

    def __init__(self, connection: sqlite3.Connection, digests: Digests, identification: Identification) -> None:
        self._connection = connection
        self._identification = identification
        self._turns = TurnReader(connection, digests)

    def messages(self, scope: Scope, response_id: str, *, limit: int) -> list[Message]:
        """The last messages of the chain that ends with that response, oldest first; incomplete turns are part of it."""
        end = self._identification.parent(scope, response_id)
        if end is None or limit < 1:
            return []
        rows = self._connection.execute(
            # A turn has a message at least (but for one that lost its beginning), so `limit` turns are enough.
            f"""{_CHAIN} SELECT coalesce(one.user_texts, other.user_texts),
                               coalesce(one.assistant_text, other.assistant_text)
                FROM chain JOIN turns ON turns.sequence = chain.sequence
                JOIN sessions ON sessions.key = turns.session {JOIN}
                WHERE turns.observed_at > sessions.buried ORDER BY depth DESC""",  # noqa: S608 - constants
            (end.sequence, limit),
        ).fetchall()
        messages = [message for row in rows for message in _messages(load_texts(row[0]), row[1])]
        return messages[-limit:]

    def chain(self, scope: Scope, response_id: str, *, limit: int) -> StoredChain:
        """The last turns of the chain that ends with that response, oldest first."""
        end = self._identification.parent(scope, response_id)
        if end is None or limit < 1:
            return StoredChain()
        links = self._connection.execute(
            f"""{_CHAIN} SELECT turns.sequence, turns.response, turns.previous
                FROM chain JOIN turns ON turns.sequence = chain.sequence ORDER BY depth""",  # noqa: S608 - constants
            (end.sequence, limit),
        ).fetchall()
        turns = [turn for turn in (self._turns.by_sequence(sequence) for sequence, _, _ in links) if turn is not None]
        whole = (
            len(turns) == len(links)
            and all(turn.items is not None for turn in turns)
            and _reaches_its_beginning(links, self._identification.response(scope, response_id))
        )
        return StoredChain(turns=tuple(turns[::-1]), complete=whole)


def _reaches_its_beginning(links: Sequence[Row], response: bytes) -> bool:
    """Whether each turn, newest first, ends with the very response that the next one continues, and the oldest begins.

    A turn is found by every response that its repetitions had; its items end with one of them.
    """
    for _, own, previous in links:
        if own != response:
            return False
        response = previous
    return response == b""


def _messages(user_texts: Sequence[str], assistant_text: str) -> list[Message]:
    messages = [Message(Role.USER, text) for text in user_texts]
    if assistant_text:
        messages.append(Message(Role.ASSISTANT, assistant_text))
    return messages
