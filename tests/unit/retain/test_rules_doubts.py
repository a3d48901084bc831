"""What only looks like a statement of the user about themselves is not stored; what is told by the way is."""

import pytest

from semrouter_memory.retain import rules

from .conftest import MakeTurn


def contents(said: str) -> list[str]:
    return [statement.content for statement in rules.read(said)[0]]


@pytest.mark.parametrize(
    "said",
    [
        "my ex tells people I was a gambler and that I had been fired from Arvo",
        "everyone at work thinks I'm from Finland",
        "my brother calls me a hoarder",
        "I'm a bad father, my ex says",
        "according to my cousin I have two farms in Peru",
        "my tracker claims I slept 9 hours on Monday",
        "I told my landlord I have three cats",
    ],
)
def test_what_others_say_of_the_user_is_not_a_fact(said: str) -> None:
    assert contents(said) == []


def test_what_a_doctor_says_is_a_fact() -> None:
    assert contents("my doctor says I have high blood pressure") == ["User has high blood pressure"]


@pytest.mark.parametrize(
    "said",
    [
        "I bought some of them at the market",
        "I met her in Rome in 2011",
        "I took him to the clinic in Ulm on Monday",
        "I hate when he does that on Sundays",
        "I won't raise it then, whatever",
        "I have two of those in Bern",
    ],
)
def test_a_pronoun_that_stands_for_nothing_known_is_not_stored(said: str) -> None:
    assert contents(said) == []


def test_a_pronoun_is_completed_by_whom_it_stands_for() -> None:
    assert contents("my aunt Rhea is ill. I drive her to Ulm on Mondays")[-1] == (
        "User drives her (their aunt Rhea) to Ulm on Mondays"
    )


def test_a_description_in_passing_is_no_wish() -> None:
    assert not any("wants" in content for content in contents("it's just me and vim, no plugins"))


@pytest.mark.parametrize(
    "said",
    [
        "Paste from the forum: I'm 44, on lithium since 2010",
        "reddit post: we have two kids in Oslo",
        "my friend asked: I have a cold, what helps?",
        "my friend asked, I have a cold, what helps?",
        "Guess my profession: I carry knives",
        "I drew the Tower and the Fool in my tarot reading in Lyon",
        "my half-elf bard is called Lorrin and I was raised in Bree",
    ],
)
def test_what_is_led_in_as_somebody_elses_or_as_a_game_is_not_read(said: str) -> None:
    assert contents(said) == []


def test_a_made_up_figure_goes_on_and_the_table_it_is_played_at_does_not(make_turn: MakeTurn) -> None:
    said = ("a flaw for my rpg character sheet?", "also I owe the guild 300 gold", "we play every Thursday in Kassel")
    turns = [make_turn(text, number=number) for number, text in enumerate(said)]
    assert [candidate.content for candidate in rules.candidates(turns)] == ["User plays every Thursday in Kassel"]


@pytest.mark.parametrize(
    ("said", "stored"),
    [
        ("what do I wear to my interview at Vestmark on tuesday?", "User's interview at Vestmark is on tuesday"),
        ("my midwife Annika says same", "User's midwife is Annika"),
        ("our greyhound Biscuit panics on the tram", "User's greyhound Biscuit panics on the tram"),
        ("divorce hearing's on 8 July in Rouen", "User's divorce hearing is on 8 July in Rouen"),
        ("my comic's called Moth Parade if you wanna look", "User's comic is called Moth Parade"),
        ("my knee MRI says grade 2 tear", "User's knee MRI says grade 2 tear"),
        ("I do want to quit my job at the tax office", "User wants to quit their job at the tax office"),
    ],
)
def test_what_is_told_by_the_way_is_remembered(said: str, stored: str) -> None:
    assert contents(said) == [stored]


def test_a_list_answers_what_somebody_likes(make_turn: MakeTurn) -> None:
    turns = [
        make_turn("a present for my niece Paloma", number=1, assistant_text="What does she like?"),
        make_turn("horses, slime, anything purple. thanks", number=2),
    ]
    assert "User's niece Paloma likes horses, slime, anything purple" in [
        candidate.content for candidate in rules.candidates(turns)
    ]


def test_a_list_that_speaks_of_another_is_no_answer(make_turn: MakeTurn) -> None:
    turns = [
        make_turn("a hobby for me please", number=1, assistant_text="What do you enjoy?"),
        make_turn("gardening, hates perfume... no wait that's my wife", number=2),
    ]
    assert not any("perfume" in candidate.content for candidate in rules.candidates(turns))


@pytest.mark.parametrize("said", ["my passport number is X1234567", "the security answer is Rex, my first dog"])
def test_numbers_of_papers_and_security_answers_are_not_stored(said: str) -> None:
    assert contents(f"remember that {said}") == []
