"""What a state keeps, replaces and lets go."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import orjson
import pytest

from semrouter_memory.compress.state import (
    ConversationState,
    fitting,
    folded,
    learned,
    render,
    shown,
    state_text,
    without,
)

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)


def _after(*turns: tuple[str, str, Sequence[str]]) -> ConversationState:
    state = ConversationState()
    for number, (user, answer, facts) in enumerate(turns):
        state = folded(state, user, answer, facts, NOW + timedelta(minutes=number))
    return state


def _knowing(*facts: str) -> ConversationState:
    return _after(*(("", "", (fact,)) for fact in facts))


@pytest.mark.parametrize(
    ("facts", "values", "user"),
    [
        (["User's budget for the trip is $10"], {"budget for the trip": "$10"}, []),
        (
            ["User's budget for the trip is $10", "User's budget for the trip is $15"],
            {"budget for the trip": "$15"},
            [],
        ),
        (["User's budget for the trip is $10", "User's budget is now $15"], {"budget": "$15"}, []),
        (
            ["User's rental car is red", "User's car is blue"],
            {"rental car": "red", "car": "blue"},
            [],
        ),
        (
            ["User's old car is red", "User's new car is blue", "User's car is now green"],
            {"old car": "red", "new car": "blue", "car": "green"},
            [],
        ),
        (["User lives in Berlin", "User lives in Munich"], {}, ["lives in Munich"]),
        (["User lives in Berlin", "User moved to Munich"], {}, ["moved to Munich"]),
        (["User is allergic to nuts", "User is a nurse"], {}, ["is allergic to nuts", "is a nurse"]),
        (["User is a nurse", "User is a nurse"], {}, ["is a nurse"]),
        (["User works at Acme", "User no longer works at Acme"], {}, ["no longer works at Acme"]),
        (["用户的预算是一万元"], {"预算": "一万元"}, []),
        (["用户住在柏林", "用户住在慕尼黑"], {}, ["住在慕尼黑"]),
        (["To deploy: run make"], {}, ["To deploy: run make"]),
    ],
)
def test_facts_are_known_once_and_the_newest_value_counts(
    facts: list[str], values: dict[str, str], user: list[str]
) -> None:
    known = shown(_knowing(*facts))

    assert known.get("values", {}) == values
    assert known.get("user", []) == user


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("My budget is now $15.", {"budget": "$15"}),
        ("My budget is $15.", {"budget for the trip": "$10", "budget": "$15"}),
        ("It's raining now. My budget is $15.", {"budget for the trip": "$10", "budget": "$15"}),
    ],
)
def test_the_turn_tells_that_a_value_is_a_new_one_where_its_statement_does_not(
    text: str, values: dict[str, str]
) -> None:
    trip = ("My budget for the trip is $10.", "Fine.", ["User's budget for the trip is $10"])
    before = _after(trip)

    assert shown(_after(trip, (text, "Fine.", ["User's budget is $15"])))["values"] == values
    assert shown(learned(before, ["User's budget is $15"], NOW + timedelta(hours=1), text))["values"] == values


def test_what_was_said_earlier_does_not_replace_what_was_said_later() -> None:
    state = learned(ConversationState(), ["User lives in Munich"], NOW)

    assert "lives in Munich" in shown(learned(state, ["User lives in Berlin"], NOW - timedelta(days=1)))["user"]


@pytest.mark.parametrize(
    ("text", "decided"),
    [
        ("Let's go with the Kaimana then.", ["Let's go with the Kaimana then."]),
        ("We'll take the red one. What about lunch?", ["We'll take the red one."]),
        ("Should we go with the Kaimana?", []),
        ("那就选第二个吧。", ["那就选第二个吧。"]),
        ("What a day.", []),
    ],
)
def test_decisions_of_the_user_are_kept(text: str, decided: list[str]) -> None:
    assert shown(_after((text, "Good.", ()))).get("decisions", []) == decided


def test_a_question_stays_open_until_the_user_comes_back_to_it() -> None:
    asked = ("Which vaccinations do we need?", "I'm not sure, please ask a doctor.", ())
    other = ("Tell me a joke.", "Here is one.", ())

    assert shown(_after(asked, other))["open"] == ["Which vaccinations do we need?"]
    assert "open" not in shown(_after(asked, other, ("The vaccinations are settled.", "Good.", ())))
    assert "open" not in shown(_after(("What is a fjord?", "A long inlet.", ())))


def test_figures_that_nobody_made_a_fact_of_are_noted() -> None:
    state = _after(("The flight leaves at 7:45. My budget is $10.", "Fine.", ("User's budget is $10",)))

    assert shown(state)["notes"] == ["The flight leaves at 7:45."]


@pytest.mark.parametrize("text", ["```\nport = 8080\n```", "> the price was 300", "x" * 500 + " 42"])
def test_pasted_texts_are_not_noted(text: str) -> None:
    assert "notes" not in shown(_after((text, "Fine.", ())))


def test_the_topic_is_what_the_user_talks_about_most_lately() -> None:
    old = [("Which printers are quiet?", "Some.", ())] * 3
    new = [("Which beaches in Maui are sandy?", "Most.", ())] * 12

    topic = shown(_after(*old, *new))["topic"].split()
    assert {"beaches", "maui"} <= set(topic)
    assert topic.index("beaches") < (topic.index("printers") if "printers" in topic else len(topic))


def test_numbers_and_names_stay_longest() -> None:
    state = _after(
        ("", "", ("User's flight number is HA 51",)),
        ("It rained in Hilo at 9.", "Oh.", ()),
        ("", "", ("User is fond of quiet evenings",)),
        ("", "", ("User is fond of long walks",)),
    )
    assert shown(fitting(state, lambda smaller: len(smaller.entries) <= 1))["values"] == {"flight number": "HA 51"}
    assert fitting(state, lambda _: False).entries == ()


def test_an_endless_conversation_has_a_bounded_state() -> None:
    state = _after(
        *((f"My room {number} costs {number}.", "", (f"User's code {number} is {number}",)) for number in range(300))
    )

    assert len(state.entries) <= 100
    assert len(state.terms) <= 40


def test_what_was_deleted_is_left_out() -> None:
    state = _knowing("User lives in Berlin", "User is a nurse")

    assert shown(without(state, lambda entry: entry.statement == "User lives in Berlin"))["user"] == ["is a nurse"]


def test_a_state_is_json_between_its_markers() -> None:
    lines = render(_knowing("User's budget is <$10>"), turns=7).split("\n")

    assert lines[0] == "<!-- semrouter-memory:begin -->"
    assert lines[-1] == "<!-- semrouter-memory:end -->"
    assert "7 turns" in lines[2]
    assert orjson.loads(lines[3])["values"] == {"budget": "<$10>"}


def test_the_same_state_is_always_the_same_text() -> None:
    facts = ("User lives in Berlin", "User's budget is $10")
    assert state_text(_knowing(*facts)) == state_text(_knowing(*facts))
