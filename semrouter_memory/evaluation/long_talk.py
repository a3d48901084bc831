"""A long conversation with facts planted at known turns, the same in every run.

Strategy: somebody plans a journey with an assistant. Between the facts they talk as people do: questions, remarks,
half-sentences, answers with figures in them that are not needed later. About fifty tokens a turn.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from semrouter_memory.evaluation.cases import CaseTurn, LowerCased, Text

_SEED = 7


@dataclass(frozen=True, slots=True)
class PlantedFact:
    """Something the user says once.

    Attributes:
        any_of: one of these must be in what the model is given.
        question: what the user asks when they need it.
    """

    about: str
    any_of: tuple[LowerCased, ...]
    said: Text = ""
    question: Text = ""


@dataclass(frozen=True, slots=True)
class Talk:
    """A conversation and what must not get lost in it; one line of a file."""

    id: str
    turns: tuple[CaseTurn, ...]
    should_remember: tuple[PlantedFact, ...] = ()


_FACTS = (
    PlantedFact(
        "budget", ("12,500",), "My budget for the Hawaii trip is $12,500.", "What's my budget for the Hawaii trip?"
    ),
    PlantedFact("allergy", ("peanut",), "By the way, I'm allergic to peanuts.", "What am I allergic to?"),
    PlantedFact(
        "home", ("rotterdam",), "I live in Rotterdam, so flights from there would be best.", "Where do I live?"
    ),
    PlantedFact(
        "sister", ("marijke",), "My sister's name is Marijke and she is coming along.", "What's my sister's name?"
    ),
    PlantedFact("hotel", ("kaimana",), "Let's go with the Kaimana hotel then.", "Which hotel did we choose?"),
    PlantedFact("work", ("physiotherapist",), "I work as a physiotherapist.", "What do I work as?"),
    PlantedFact("dates", ("14 june",), "Our departure date is 14 June.", "What is our departure date?"),
    PlantedFact("car", ("jeep",), "We decided to rent a Jeep for the whole stay.", "What kind of car do we rent?"),
    PlantedFact("seat", ("aisle",), "I prefer aisle seats on long flights.", "Which seats do I prefer?"),
    PlantedFact("dog", ("biscuit",), "My dog's name is Biscuit, my neighbour takes him.", "What's my dog's name?"),
)
_PLACES = ("Maui", "Kauai", "Hilo", "Lanai", "Waikiki", "Kona", "Hana", "Molokai", "Lahaina", "Kailua")
_THINGS = (
    "beaches",
    "hiking trails",
    "food trucks",
    "museums",
    "snorkelling spots",
    "viewpoints",
    "markets",
    "gardens",
)
_TIMES = ("in the morning", "after lunch", "at the weekend", "when it rains", "on the first day", "in the evening")
_ASKED = (
    "What are the best {thing} around {place}?",
    "Is {place} worth a visit {time}, or is it too crowded?",
    "How long does it take to get to {place} by bus?",
    "Hmm, and what about {thing} near {place}?",
    "Can you compare {place} and {other} for families?",
    "Do people usually go to {place} {time}?",
    "ok and is it expensive there?",
    "Sounds nice. Tell me more about the {thing}.",
    "What is the weather like in {place} {time}?",
    "Are the {thing} in {place} open on Sundays?",
)
_ANSWERED = (
    "{place} is known for its {thing}, and most visitors spend around {n} hours there. It gets busy {time}.",
    "Most people combine {place} with {other}. The drive takes about {n}0 minutes and there are several {thing} on the way.",
    "It depends on the season: {place} is quieter {time}, and entry to most {thing} costs about {n} dollars per person.",
    "For families {place} is the easier choice, because the {thing} are close together; {other} needs more driving.",
    "There are {n} well-known {thing} near {place}. The ones towards {other} are less crowded {time}.",
)
_ADDED = (
    "If you like, I can look up the {thing} in {other} as well.",
    "Many travellers book {n} days ahead, and it is worth it.",
    "Bring sun protection and enough water when you go to {other}.",
    "The local buses to {other} run every {n}0 minutes.",
    "It is one of the quieter corners of the islands {time}.",
    "I would plan the {thing} there for another day.",
)


def long_talk(turns: int) -> Talk:
    """A conversation of so many turns; the facts are spread over its first four fifths."""
    draw = random.Random(_SEED)  # noqa: S311 - the same words in every run are wanted
    facts = _FACTS[: max(1, min(len(_FACTS), turns // 2))]
    planted = {2 + round(at * 0.8 * turns / len(facts)): fact for at, fact in enumerate(facts)}
    return Talk(
        id=f"long-{turns}",
        turns=tuple(_turn(draw, planted.get(number)) for number in range(1, turns + 1)),
        should_remember=tuple(fact for number, fact in sorted(planted.items()) if number <= turns),
    )


def _turn(draw: random.Random, fact: PlantedFact | None) -> CaseTurn:
    asked = _said(draw, _ASKED)
    user = f"{fact.said} {asked}" if fact else asked
    return CaseTurn(user, f"{_said(draw, _ANSWERED)} {_said(draw, _ADDED)}")


def _said(draw: random.Random, templates: Sequence[str]) -> str:
    place, other = draw.sample(_PLACES, 2)
    return draw.choice(templates).format(
        place=place, other=other, thing=draw.choice(_THINGS), time=draw.choice(_TIMES), n=draw.randint(2, 9)
    )
