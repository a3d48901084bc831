"""What an append decides, for every turn and whatever is around it: a decision is a function of its arguments."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.databases import micros
from semrouter_memory.model import Appended, AppendOutcome, Scope, SessionHints, Turn, TurnState
from semrouter_memory.turn_log.appending import decide_append
from semrouter_memory.turn_log.client_values import BoundedTurn, Digests, bounded, bounded_name
from semrouter_memory.turn_log.rows import Content, SessionRow, TurnRow
from semrouter_memory.turn_log.spool import dump, load
from semrouter_memory.turn_log.storage import Changes, LogRows, View, completed
from semrouter_memory.turn_log.tombstones import OwnerTombstones

DIGESTS = Digests(b"key")
START = datetime(2026, 3, 1, tzinfo=UTC)
MAX_CHARS = 50
SCOPE = Scope("alice")
NAMES = st.one_of(st.just(""), st.text(max_size=3), st.just("x" * 600))

turns = st.builds(
    Turn,
    scope=st.just(SCOPE),
    hints=st.builds(
        SessionHints, explicit=NAMES, conversation_id=NAMES, previous_response_id=NAMES, history_hash=NAMES
    ),
    user_texts=st.lists(st.text(max_size=40), max_size=3).map(tuple),
    assistant_text=st.text(max_size=80),
    observed_at=st.integers(0, 10**6).map(lambda seconds: START + timedelta(seconds=seconds)),
    request_id=NAMES,
    retry_of=NAMES,
    response_id=NAMES,
    transcript_hashes=st.lists(NAMES, max_size=2).map(tuple),
    complete=st.booleans(),
    looped=st.booleans(),
    ends_session=st.booleans(),
)
contents = st.builds(
    Content, user_texts=st.lists(st.text(min_size=1, max_size=40), max_size=2).map(tuple), assistant_text=st.just("")
)
partials = st.tuples(
    st.builds(
        lambda at, ends, remember: TurnRow(
            sequence=3,
            owner=DIGESTS.owner(SCOPE),
            project_id="",
            session_id="ses_before",
            state=TurnState.INCOMPLETE,
            observed_at=micros(START) + at,
            ends=ends,
            remember=remember,
            keys={"ab": 3},
        ),
        st.integers(0, 10**12),
        st.booleans(),
        st.booleans(),
    ),
    st.none() | contents,
)


class Rows:
    """The rows around a turn: every session exists, with so many waiting turns, and one incomplete turn at most.

    That turn is what the new one continues.
    """

    digests = DIGESTS

    def __init__(self, turn: Turn, partial: tuple[TurnRow, Content | None] | None, waiting: int) -> None:
        self.continued = DIGESTS.response_key(SCOPE, bounded_name(turn.hints.previous_response_id))
        nothing: tuple[TurnRow | None, Content | None] = (None, None)
        self.row, self.content = partial or nothing
        self.waiting = waiting

    async def found_by(self, key: str) -> list[TurnRow]:
        return [self.row] if self.row is not None and key == self.continued else []

    async def sessions(self, session_ids: Sequence[str]) -> dict[str, SessionRow]:
        count = self.waiting
        found = (
            SessionRow(id=each, scope=SCOPE, waiting=count, unsummarised=count, newest=count) for each in session_ids
        )
        return {row.id: row for row in found}

    async def before(self, session_id: str, _sequence: int, _limit: int) -> list[TurnRow]:
        return [self.row] if self.row is not None and session_id == self.row.session_id else []

    async def contents(self, _rows: Sequence[TurnRow]) -> dict[int, Content]:
        return {3: self.content} if self.content is not None else {}

    async def next_sequence(self) -> int:
        return 9


def decided(
    bound: BoundedTurn,
    *,
    partial: tuple[TurnRow, Content | None] | None = None,
    waiting: int = 0,
    deleted: Mapping[bytes, int] = MappingProxyType({}),
) -> tuple[Changes, Appended]:
    rows = cast("LogRows", Rows(bound.turn, partial, waiting))
    view = View(rows, OwnerTombstones(content_hash=DIGESTS.content_hash, fields=deleted))
    return completed(decide_append(view, bound, new_id=lambda: "new", max_turn_chars=MAX_CHARS))


@given(turn=turns, remember=st.booleans())
def test_a_spooled_turn_is_the_turn_that_was_accepted(turn: Turn, remember: bool) -> None:
    bound = bounded(turn, remember=remember, max_turn_chars=MAX_CHARS)
    assert load(dump(bound), SCOPE) == bound
    assert bounded(bound.turn, remember=remember, max_turn_chars=MAX_CHARS).turn == bound.turn


@given(turn=turns, remember=st.booleans(), partial=st.none() | partials, waiting=st.integers(0, 3))
def test_an_append_adds_one_turn_and_loses_nothing_of_what_it_merges(
    turn: Turn, remember: bool, partial: tuple[TurnRow, Content | None] | None, waiting: int
) -> None:
    if partial is not None:
        turn = replace(turn, hints=replace(turn.hints, previous_response_id=turn.hints.previous_response_id or "r"))
    bound = bounded(turn, remember=remember, max_turn_chars=MAX_CHARS)
    changes, appended = decided(bound, partial=partial, waiting=waiting)
    assert (changes, appended) == decided(bound, partial=partial, waiting=waiting)
    ((row, content),) = changes.added
    (after,) = changes.sessions
    counted = int(turn.complete)
    before = waiting if bound.turn.hints != SessionHints(history_hash=bound.turn.hints.history_hash) else 0
    assert appended.outcome is (AppendOutcome.ACCEPTED if counted else AppendOutcome.INCOMPLETE)
    assert (changes.counts["accepted"], changes.counts["waiting"]) == (counted, counted)
    assert (after.waiting, after.unsummarised) == (before + counted, before + counted)
    assert {key for key, _, _ in changes.keys} == set(row.keys)
    assert {sequence for _, sequence, _ in changes.keys} <= {9}
    assert sum(map(len, content.user_texts)) <= MAX_CHARS
    if partial is not None:
        merged, _ = partial
        assert changes.removed == [merged]
        assert row.observed_at == min(micros(turn.observed_at), merged.observed_at)
        assert (row.ends, row.remember) == (turn.ends_session or merged.ends, remember or merged.remember)
        assert "ab" in row.keys


@given(turn=turns)
def test_a_turn_that_a_deletion_covers_leaves_no_trace(turn: Turn) -> None:
    bound = bounded(turn, remember=False, max_turn_chars=MAX_CHARS)
    changes, appended = decided(bound, deleted={b"e": micros(turn.observed_at)})
    assert appended.outcome is AppendOutcome.FORGOTTEN
    assert changes == replace(changes, added=[], updated=[], sessions=[], keys=[])
    assert not changes.counts
