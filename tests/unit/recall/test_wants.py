"""Whether a request asks for all that is known, on people that the fit has not seen."""

import json
from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.recall.wants import is_overview

TRAINING = Path(__file__).parents[3] / "training"


def set_aside(name: str) -> list[Any]:
    aside = set((TRAINING / "held_out.txt").read_text(encoding="utf-8").split())
    people = (json.loads(line) for line in (TRAINING / name).read_text(encoding="utf-8").splitlines())
    return [person for person in people if person["person"] in aside]


def test_people_that_were_set_aside_are_understood() -> None:
    asked = [each for person in set_aside("overviews.jsonl") for each in person["requests"]]
    others = [each["text"] for person in set_aside("requests.jsonl") for each in person["requests"]]
    for_all = [each["text"] for each in asked if each["label"] == "yes"]
    others += [each["text"] for each in asked if each["label"] == "no"]
    assert len(for_all) > 25
    assert sum(map(is_overview, for_all)) >= 0.8 * len(for_all)
    assert len(others) > 1_000
    assert sum(map(is_overview, others)) <= 0.002 * len(others)


@pytest.mark.parametrize(
    "request_text",
    [
        "What do you know about black holes?",
        "what do you know about my sister?",
        "what did we say about the kitchen tiles last time",
        "Tell me about yourself",
        "forget what you know about me",
        "你记得我妹妹住在哪里吗",
        "",
        "What do you know about me? " + "Here is a long text. " * 20,
    ],
)
def test_what_asks_for_something_does_not_ask_for_all(request_text: str) -> None:
    assert not is_overview(request_text)
