"""Questions in Milvus's language, and what stands in a row."""

import random
from datetime import UTC, datetime, timedelta, timezone
from urllib.parse import quote

import pytest

from semrouter_memory.databases import micros, moment
from semrouter_memory.language.terms import terms as all_terms
from semrouter_memory.model import Criteria, MemoryType, Reach, Scope
from semrouter_memory.store import schema
from semrouter_memory.store.schema import Selection
from tests.memories import DIMENSION, NOW, embedded, memory

ALICE = Scope("alice", "hawaii")
DIGEST = "dabd1db8d35ab13106274f61f1bf9778"
"""The first half of `user:alice`'s SHA-256."""
WHOLE = 'type in ["episodic", "procedural", "reflective", "semantic"]'
"""Memories without the passages of long ones."""


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (Selection(Criteria(ALICE)), f'owner == "user:alice" and {WHOLE}'),
        (
            Selection(Criteria(ALICE, reach=Reach.EXACT)),
            f'owner == "user:alice" and project_id == "hawaii" and {WHOLE}',
        ),
        (
            Selection(Criteria(ALICE, reach=Reach.RECALL)),
            f'owner == "user:alice" and project_id in ["", "hawaii"] and {WHOLE}',
        ),
        (
            Selection(Criteria(Scope("alice"), reach=Reach.RECALL)),
            f'owner == "user:alice" and project_id == "" and {WHOLE}',
        ),
        (
            Selection(Criteria(ALICE, active_at=datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))),
            f'owner == "user:alice" and superseded_at == 253402300800000000 and expires_at > 1000000 and {WHOLE}',
        ),
        (
            Selection(Criteria(ALICE, types=frozenset({MemoryType.SEMANTIC, MemoryType.EPISODIC}))),
            'owner == "user:alice" and type in ["episodic", "semantic"]',
        ),
        (
            Selection(Criteria(ALICE), created_until=5),
            f'owner == "user:alice" and {WHOLE} and created_at <= 5',
        ),
        (
            Selection(Criteria(ALICE), ids=["mem_1"]),
            f'owner == "user:alice" and id == "{DIGEST}:mem_1"',
        ),
        (Selection(Criteria(ALICE), passages=True), 'owner == "user:alice"'),
        (
            Selection(Criteria(ALICE), ids=["mem_1"], passages=True),
            f'owner == "user:alice" and (id == "{DIGEST}:mem_1" or session_id == "#mem_1")',
        ),
        (
            Selection(Criteria(Scope('" or 1 == 1 or owner == "'))),
            f'owner == "user:%22 or 1 == 1 or owner == %22" and {WHOLE}',
        ),
    ],
)
def test_a_selection_becomes_an_expression(selection: Selection, expected: str) -> None:
    assert schema.filter_expression(selection) == expected


def test_a_bounded_answer_is_continued_after_its_last_key() -> None:
    expression = schema.filter_expression(Selection(Criteria(ALICE)), after_key="k")
    assert expression == f'owner == "user:alice" and {WHOLE} and id > "k"'


@pytest.mark.parametrize(
    ("plain", "stored"),
    [
        ("alice@example.com", "alice@example.com"),
        ("auth0|12 3", "auth0|12 3"),
        ("50%", "50%25"),
        ("é", "%C3%A9"),
        ("\n\x00", "%0A%00"),
        ("\ud800", "%ED%A0%80"),
        ("x" * 65_535, "x" * 65_535),
    ],
)
def test_usual_ids_are_stored_readably_and_others_safely(plain: str, stored: str) -> None:
    assert schema.stored_id(plain) == stored


def test_an_id_is_encoded_as_in_a_url() -> None:
    """Every code point of two bytes or fewer, alone and beside its neighbours: rows that are stored stay found."""
    for code in range(0x800):
        for text in (chr(code), "".join(map(chr, range(code, code + 5)))):
            assert schema.stored_id(text) == quote(text, safe="-._~:@+/|,= ")


def test_an_id_that_does_not_fit_is_known_by_its_digest() -> None:
    assert schema.stored_id("x" * 65_536).startswith("%sha256%")
    assert schema.stored_id("x" * 65_536) != schema.stored_id("x" * 65_537)


def test_a_row_has_exactly_the_columns_of_the_collection() -> None:
    row = schema.row_from(ALICE, embedded(memory(ALICE)), dimension=DIMENSION)
    assert list(row) == [column.name for column in schema.COLUMNS]


def test_a_time_in_another_zone_is_the_same_time() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=-10)))
    assert micros(elsewhere) == micros(NOW)
    assert moment(micros(elsewhere)).tzinfo is UTC


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("User's budget for the Hawaii trips is $10,000", "budget hawaii trip 10000"),
        ("我的夏威夷旅行", "夏 威 夷 旅 行 夏威 威夷 夷旅 旅行 concepttrip"),
        ("the of and 😀 \x00\ud800", ""),
        ("", ""),
    ],
)
def test_words_are_searched_by_the_terms_of_the_lexical_room(content: str, expected: str) -> None:
    assert schema.indexed_terms(content) == schema.asked_terms(content) == expected


def test_terms_that_do_not_fit_the_column_stand_there_once() -> None:
    """So that the end of a long text is found, too: Chinese terms take four times the bytes of the text."""
    filler = "".join(map(chr, range(0x4E00, 0x4E00 + 500))) * 16
    for whole, end in ((f"{filler}，备用钥匙", ["钥匙", "备用"]), ("budget " * 20_000 + "walrus", ["walrus"])):
        terms = schema.indexed_terms(whole)
        assert len(terms.encode()) <= schema.MAX_VARCHAR_BYTES
        assert set(end) <= set(terms.split(" "))
    assert schema.indexed_terms("x" * 65_536) == "x" * 64


def test_where_even_these_do_not_fit_every_character_is_there() -> None:
    """More different pairs of characters than the column holds: what a bound on a text in bytes allows at the utmost."""
    drawn = random.Random(7)
    characters = [chr(0x4E00 + drawn.randrange(5_000)) for _ in range(20_000)]
    terms = schema.indexed_terms("".join(characters))
    assert schema.MAX_VARCHAR_BYTES - 7 < len(terms.encode()) <= schema.MAX_VARCHAR_BYTES
    assert {term for term in all_terms("".join(characters)) if len(term) == 1} <= set(terms.split(" "))


def test_a_query_is_asked_by_a_bounded_number_of_terms() -> None:
    assert len(schema.asked_terms(" ".join(map(str, range(5_000)))).split()) == 1_000
