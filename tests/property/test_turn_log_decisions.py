"""What an append decides, for every turn and whatever is around it: a decision is a function of its arguments."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.databases import micros
from semrouter_memory.model import AppendOutcome, Scope, SessionHints, Turn, TurnState
from semrouter_memory.turn_log.appending import Partial, Surroundings, decide_append
from semrouter_memory.turn_log.bounds import bounded
from semrouter_memory.turn_log.digests import Digests
from semrouter_memory.turn_log.rows import Content, SessionRow, TurnRow
from semrouter_memory.turn_log.spool import dump, load

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
    ends_session=st.booleans(),
)
contents = st.builds(
    Content, user_texts=st.lists(st.text(min_size=1, max_size=40), max_size=2).map(tuple), assistant_text=st.just("")
)
partials = st.builds(
    lambda content, at, ends, remember: Partial(
        row=TurnRow(
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
        content=content,
        leaves_session=True,
    ),
    st.none() | contents,
    st.integers(0, 10**12),
    st.booleans(),
    st.booleans(),
)


@given(turn=turns, remember=st.booleans())
def test_a_spooled_turn_is_the_turn_that_was_accepted(turn: Turn, remember: bool) -> None:
    bound = bounded(turn, remember=remember, max_turn_chars=MAX_CHARS)
    assert load(dump(bound), SCOPE) == bound
    assert bounded(bound.turn, remember=remember, max_turn_chars=MAX_CHARS).turn == bound.turn


@given(turn=turns, remember=st.booleans(), partial=st.none() | partials, waiting=st.integers(0, 3))
def test_an_append_adds_one_turn_and_loses_nothing_of_what_it_merges(
    turn: Turn, remember: bool, partial: Partial | None, waiting: int
) -> None:
    bound = bounded(turn, remember=remember, max_turn_chars=MAX_CHARS)
    session = SessionRow(id="ses_x", scope=SCOPE, waiting=waiting, unsummarised=waiting, newest=waiting)
    around = Surroundings(digests=DIGESTS, sequence=9, session=session, partial=partial)
    changes, appended = decide_append(bound, around, new_id=lambda: "new", max_turn_chars=MAX_CHARS)
    assert (changes, appended) == decide_append(bound, around, new_id=lambda: "new", max_turn_chars=MAX_CHARS)
    ((row, content),) = changes.added
    (after,) = changes.sessions
    counted = int(turn.complete)
    assert appended.outcome is (AppendOutcome.ACCEPTED if counted else AppendOutcome.INCOMPLETE)
    assert (changes.counts["accepted"], changes.counts["waiting"]) == (counted, counted)
    assert (after.waiting, after.unsummarised) == (waiting + counted, waiting + counted)
    assert {key for key, _, _ in changes.keys} == set(row.keys)
    assert {sequence for _, sequence, _ in changes.keys} <= {9}
    assert sum(map(len, content.user_texts)) <= MAX_CHARS
    if partial is not None:
        assert changes.removed == [partial.row]
        assert row.observed_at == min(micros(turn.observed_at), partial.row.observed_at)
        assert (row.ends, row.remember) == (turn.ends_session or partial.row.ends, remember or partial.row.remember)
        assert "ab" in row.keys


@given(turn=turns)
def test_a_turn_that_a_deletion_covers_leaves_no_trace(turn: Turn) -> None:
    bound = bounded(turn, remember=False, max_turn_chars=MAX_CHARS)
    around = Surroundings(digests=DIGESTS, refused=True)
    changes, appended = decide_append(bound, around, new_id=lambda: "new", max_turn_chars=MAX_CHARS)
    assert appended.outcome is AppendOutcome.FORGOTTEN
    assert changes == replace(changes, added=[], updated=[], sessions=[], keys=[])
    assert not changes.counts
