"""The names in an owner's texts."""

from itertools import product

import pytest

from semrouter_memory.language.names import Entity, entities


def named(*texts: str) -> dict[str, tuple[tuple[str, ...], list[int]]]:
    """By name: its aliases, and the positions of the texts that speak of it."""
    found = entities({str(at): text for at, text in enumerate(texts)})
    return {each.name: (each.aliases, [int(key) for key in each.texts]) for each in found}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("User lives in New York and works at Bosch", ["Bosch", "New York"]),
        ("I flew to Zürich with Air France on Monday in March", ["Air France", "Zürich"]),
        ("we bank at the Bank of America", ["Bank of America"]),
        ("Yesterday was fine. Maybe I'm wrong. OK", []),
        ("see https://Example.com/Page or mail Anna@Example.com", []),
        ("my MacBook Pro M3 runs PostgreSQL", ["MacBook Pro M3", "PostgreSQL"]),
        ("我妹妹叫小雨", ["小雨"]),
        ("", []),
    ],
)
def test_names_are_runs_of_capitalised_words(text: str, names: list[str]) -> None:
    assert [*named(text)] == names


def test_a_capital_at_the_start_of_a_sentence_counts_where_it_is_one_elsewhere() -> None:
    assert named("Rex ate my shoes", "I walk with Rex", "Tea is fine", "I like tea") == {"Rex": ((), [0, 1])}
    assert named("Then Rex barked", "then we ran") == {"Rex": ((), [0])}


def test_what_the_user_calls_theirs_is_an_alias_and_finds_further_texts() -> None:
    texts = ("my sister Anna lives in Porto", "User's sister works at Bosch", "his sister is ill", "Anna is a nurse")
    assert named(*texts)["Anna"] == (("sister",), [0, 1, 3])
    assert named("我妹妹叫小雨", "我妹妹在上海工作") == {"小雨": (("妹妹",), [0, 1])}


def test_a_title_is_no_part_of_a_name() -> None:
    assert named("my boss Dr. Maria Gonzalez likes tea", "I saw Maria", "I wrote to Dr Gonzalez") == {
        "Maria Gonzalez": (("Gonzalez", "Maria", "boss"), [0, 1, 2])
    }
    assert named("we met Mr. Smith and Prof. Braun") == {"Braun": ((), [0]), "Smith": ((), [0])}


def test_what_only_stands_before_a_name_is_no_alias() -> None:
    texts = ("User's budget for Hawaii is $10,000", "my flight to Oslo is at nine", "my budget for the car is $5,000")
    assert named(*texts) == {"Hawaii": ((), [0]), "Oslo": ((), [1])}


def test_of_two_brothers_neither_is_the_brother() -> None:
    found = named("my brother Tom", "my brother is called Ben", "my brother is ill")
    assert found == {"Ben": ((), [1]), "Tom": ((), [0])}


def test_a_short_form_stands_for_the_one_name_that_it_begins_or_ends() -> None:
    assert named("I met Anna Schmidt", "I called Anna") == {"Anna Schmidt": (("Anna",), [0, 1])}
    assert set(named("I met Anna Schmidt", "I met Anna Weber", "I called Anna")) == {
        "Anna",
        "Anna Schmidt",
        "Anna Weber",
    }


@pytest.mark.timeout(30)
def test_a_name_with_a_long_number_takes_no_time() -> None:
    """The digits were tried in every way in which they can be parts: as good as for ever, in which no request is served."""
    assert named(f"Mail goes to A{'1' * 60}@") == {}
    assert named(f"Mail goes to A{'1' * 60}") == {f"A{'1' * 60}": ((), [0])}


@pytest.mark.timeout(30)
def test_many_names_of_many_texts_are_found_in_time() -> None:
    """Each was looked for in all the texts, and held against all the names: it took minutes."""
    words = ["".join(letters) for letters in product("abcdefghijklmnopqrst", repeat=3)]
    texts = [f"User met F{word} and user's friend{word} is called G{word}" for word in words]
    found = named(*texts, "Jan 1 " * 2_000)
    assert len(found) == 2 * len(words) + 1
    assert found["Gabc"] == (("friendabc",), [words.index("abc")])


def test_nothing_is_made_of_nothing() -> None:
    assert entities({}) == []
    assert entities({"a": "I know Rex"}) == [Entity("Rex", (), ("a",))]
