"""Turns one by one for the operator, and the conversations behind stored responses."""

from collections.abc import Sequence

from semrouter_memory.model import LoggedTurn, Message, Role, Scope, StoredChain, TurnState
from semrouter_memory.sessions.redis.identify import Identification
from semrouter_memory.sessions.redis.ledger import Ledger
from semrouter_memory.sessions.redis.rows import Content, TurnRow

_BATCH = 200


class Records:
    """Reads turns, whole."""

    def __init__(self, ledger: Ledger, identification: Identification) -> None:
        self._ledger = ledger
        self._keys = ledger.keys
        self._identification = identification

    # -- the operator --------------------------------------------------------------------------------------------------

    async def list_turns(
        self, scope: Scope | None, states: frozenset[TurnState] | None, *, limit: int, before: int
    ) -> list[LoggedTurn]:
        index = self._index(scope, states)
        found: list[LoggedTurn] = []
        highest = f"({before}" if before > 0 else "+inf"
        while len(found) < limit:
            batch = await self._ledger.sequences("ZREVRANGEBYSCORE", index, highest, "-inf", "LIMIT", 0, _BATCH)
            if not batch:
                break
            rows = await self._ledger.turns(batch)
            wanted = [row for row in rows.values() if states is None or row.state in states]
            found += await self._whole(wanted[: limit - len(found)])
            highest = f"({batch[-1]}"
        return found

    def _index(self, scope: Scope | None, states: frozenset[TurnState] | None) -> str:
        if scope is not None:
            return self._keys.owner_turns(self._ledger.owner(scope))
        return self._keys.dead if states == frozenset({TurnState.DEAD}) else self._keys.turns

    async def get_turn(self, turn_id: str) -> LoggedTurn | None:
        sequence = self._ledger.digests.sequence(turn_id)
        row = await self._ledger.turn(sequence) if sequence is not None else None
        found = await self._whole([row]) if row is not None else []
        return found[0] if found else None

    async def _whole(self, rows: Sequence[TurnRow]) -> list[LoggedTurn]:
        sessions = await self._ledger.sessions(row.session_id for row in rows)
        return await self._ledger.logged(rows, {session.id: session.scope for session in sessions.values()})

    # -- chains --------------------------------------------------------------------------------------------------------

    async def history(self, scope: Scope, response_id: str, *, limit: int) -> list[Message]:
        """The last messages of the chain that ends with that response, oldest first; incomplete turns are part of it."""
        # A turn has a message at least (but for one that lost its beginning), so `limit` turns are enough.
        rows = await self._links(scope, response_id, limit)
        contents = await self._ledger.contents(rows)
        known = [contents[row.sequence] for row in reversed(rows) if row.sequence in contents]
        messages = [message for content in known for message in _messages(content)]
        return messages[-limit:] if limit > 0 else []

    async def chain(self, scope: Scope, response_id: str, *, limit: int) -> StoredChain:
        """The last turns of the chain that ends with that response, oldest first."""
        rows = await self._links(scope, response_id, limit)
        turns = await self._whole(rows)
        whole = (
            bool(rows)
            and len(turns) == len(rows)
            and all(turn.items is not None for turn in turns)
            and _reaches_its_beginning(rows, self._identification.response(scope, response_id))
        )
        return StoredChain(turns=tuple(turns[::-1]), complete=whole)

    async def _links(self, scope: Scope, response_id: str, limit: int) -> list[TurnRow]:
        """The chain's turns, newest first."""
        end = await self._identification.parent(scope, response_id)
        if end is None or limit < 1:
            return []
        known = await self._nearby(end.session_id, end.sequence, limit)
        links: list[TurnRow] = []
        sequence: int | None = end.sequence
        while sequence is not None and len(links) < limit:
            row = known.get(sequence) or await self._ledger.turn(sequence)
            if row is None:
                break
            links.append(row)
            sequence = row.parent
        return links

    async def _nearby(self, session_id: str, sequence: int, limit: int) -> dict[int, TurnRow]:
        """The turns before that one in its session: nearly always the chain, in two round trips."""
        key = self._keys.session_turns(session_id)
        return await self._ledger.turns(
            await self._ledger.sequences("ZREVRANGEBYSCORE", key, sequence, "-inf", "LIMIT", 0, min(limit, _BATCH))
        )


def _reaches_its_beginning(rows: Sequence[TurnRow], response: str) -> bool:
    """Whether each turn, newest first, ends with the very response that the next one continues, and the oldest begins."""
    expected: str | None = response
    for row in rows:
        if row.response != expected:
            return False
        expected = row.previous
    return expected == ""


def _messages(content: Content) -> list[Message]:
    messages = [Message(Role.USER, text) for text in content.user_texts]
    if content.assistant_text:
        messages.append(Message(Role.ASSISTANT, content.assistant_text))
    return messages
