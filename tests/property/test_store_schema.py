"""Whatever ids are made of: they stay apart, come back whole, and never leave their literal."""

import re
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.databases import micros, moment
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.model import Criteria, MemoryType, Reach, Scope
from semrouter_memory.store import schema
from semrouter_memory.store.listing import ListingPosition, decode_cursor, encode_cursor
from semrouter_memory.store.schema import Selection
from tests.memories import DIMENSION, embedded, memory

ids = st.text(st.characters() | st.sampled_from("\"'\\\n\x00%{}$ \ud800"))
times = st.datetimes(timezones=st.just(UTC))
scopes = st.builds(Scope, ids, ids, ids)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)

_LITERAL = r'"[A-Za-z0-9\-._~:@+/|,= %]*"'
_TERMS = re.compile(
    rf"owner == {_LITERAL}"
    rf"( and project_id (== {_LITERAL}|in \[{_LITERAL}, {_LITERAL}\]))?"
    r"( and superseded_at == \d+ and expires_at > -?\d+)?"
    rf"( and type (== {_LITERAL}|in \[{_LITERAL}(, {_LITERAL})*\]))?"
    r"( and expires_at <= -?\d+)?( and created_at <= -?\d+)?"
    rf"( and id (== {_LITERAL}|in \[{_LITERAL}(, {_LITERAL})*\]))?"
)
"""Every expression there is; no literal holds a quote, a backslash, a brace or anything beyond ASCII."""


@given(
    scope=scopes,
    reach=st.sampled_from(Reach),
    active_at=st.none() | times,
    types=st.none() | st.frozensets(st.sampled_from(MemoryType), min_size=1),
    wanted=st.none() | st.lists(ids, min_size=1, max_size=3),
    expires_by=st.none() | times,
    created_until=st.none() | st.integers(),
)
def test_an_expression_is_only_what_it_is_meant_to_be(
    scope: Scope,
    reach: Reach,
    active_at: datetime | None,
    types: frozenset[MemoryType] | None,
    wanted: list[str] | None,
    expires_by: datetime | None,
    created_until: int | None,
) -> None:
    selection = Selection(
        Criteria(scope, reach=reach, active_at=active_at, types=types, expires_by=expires_by),
        ids=wanted,
        created_until=created_until,
    )
    assert _TERMS.fullmatch(schema.filter_expression(selection))


@given(st.sets(ids, min_size=2, max_size=5))
def test_two_users_share_neither_owner_nor_key(users: set[str]) -> None:
    everybody = [Scope(user) for user in users]
    assert len({schema.stored_owner(scope) for scope in everybody}) == len(users)
    assert len({schema.primary_key(scope, "mem_1") for scope in everybody}) == len(users)


@given(scopes, ids, ids)
def test_ids_come_back_as_they_went_in(scope: Scope, memory_id: str, session_id: str) -> None:
    row = schema.row_from(scope, embedded(memory(scope, memory_id)), dimension=DIMENSION)
    row["session_id"] = schema.stored_id(session_id)
    read = schema.memory_from(scope, row)
    assert (read.id, read.scope, read.session_id) == (memory_id, scope, session_id)


@given(times)
def test_times_come_back_to_the_microsecond(time: datetime) -> None:
    assert moment(micros(time)) == time
    assert micros(time) < schema.NEVER


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_metadata_comes_back_as_json_does(metadata: dict[str, object]) -> None:
    scope = Scope("alice")
    row = schema.row_from(scope, embedded(memory(scope, metadata=metadata)), dimension=DIMENSION)
    assert schema.memory_from(scope, row).metadata == metadata


@given(st.builds(ListingPosition, times.map(micros), ids))
def test_a_cursor_names_its_place(place: ListingPosition) -> None:
    cursor = encode_cursor(place)
    assert decode_cursor(cursor) == place
    assert re.fullmatch(r"[A-Za-z0-9_=-]+", cursor)


@given(st.text() | st.text("ABCabc019_-=", max_size=40))
def test_no_made_up_cursor_does_more_than_be_refused(cursor: str) -> None:
    try:
        place = decode_cursor(cursor)
    except InvalidRequestError:
        return
    assert encode_cursor(place) == cursor
