"""The conversation behind a stored response: what the body of a chained request does not repeat."""

import sqlite3
from collections.abc import Sequence

from semrouter_memory.model import Message, Role, Scope
from semrouter_memory.sessions.columns import load_texts
from semrouter_memory.sessions.identify import Identification


def chain_messages(
    connection: sqlite3.Connection, identification: Identification, scope: Scope, response_id: str, *, limit: int
) -> list[Message]:
    """The last messages of the chain that ends with that response, oldest first; incomplete turns are part of it."""
    end = identification.parent(scope, response_id)
    if end is None or limit < 1:
        return []
    rows = connection.execute(
        # A turn has a message at least (but for one that lost its beginning), so `limit` turns are enough.
        """WITH RECURSIVE chain (sequence, depth) AS (
               VALUES (?, 1)
               UNION ALL
               SELECT turns.parent, depth + 1 FROM chain JOIN turns ON turns.sequence = chain.sequence
               WHERE turns.parent IS NOT NULL AND depth < ?)
           SELECT turns.user_texts, turns.assistant_text FROM chain JOIN turns ON turns.sequence = chain.sequence
           ORDER BY depth DESC""",
        (end.sequence, limit),
    ).fetchall()
    messages = [message for row in rows for message in _messages(load_texts(row[0]), row[1])]
    return messages[-limit:]


def _messages(user_texts: Sequence[str], assistant_text: str) -> list[Message]:
    messages = [Message(Role.USER, text) for text in user_texts]
    if assistant_text:
        messages.append(Message(Role.ASSISTANT, assistant_text))
    return messages
