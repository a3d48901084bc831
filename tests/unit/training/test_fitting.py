"""The weights of the product are what the labelled data gives; fitting is by person."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from training import keep, overview, steering
from training.fitting import WEIGHTS, Example, fit, left_out, read

UNMOVED = 0.005
"""Of any weight; one example more, less or with another label moves one by 0.02 and more."""
few_steps = pytest.mark.filterwarnings("ignore:lbfgs failed to converge")


def _moved(model: Mapping[str, Any], start: Mapping[str, Any]) -> float:
    """The most that a weight differs by."""
    found, stored = _weights(model), _weights(start)
    return max(abs(found.get(key, 0.0) - stored.get(key, 0.0)) for key in found.keys() | stored.keys())


def _weights(model: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    return {
        (name, feature): weight
        for name, each in model.get("classes", {"yes": model}).items()
        for feature, weight in each["weights"].items()
    }


@few_steps
def test_the_weights_are_what_the_data_gives() -> None:
    """A whole fit takes half a minute of a processor; from its own result the solver hardly moves."""
    stored = json.loads((WEIGHTS / "keep.json").read_text(encoding="utf-8"))
    assert _moved(keep.model(stored), stored) < UNMOVED


@few_steps
def test_the_weights_of_orders_are_what_the_data_gives() -> None:
    stored = json.loads((WEIGHTS / "steering.json").read_text(encoding="utf-8"))
    assert _moved(steering.model(stored), stored) < UNMOVED


@few_steps
def test_the_weights_of_requests_for_all_are_what_the_data_gives() -> None:
    stored = json.loads((WEIGHTS / "overview.json").read_text(encoding="utf-8"))
    assert _moved(overview.model(stored), stored) < UNMOVED


@few_steps
def test_a_fit_leaves_weights_that_its_data_does_not_give() -> None:
    examples = [*_talk(), *(Example({"perhaps": 1.0}, "maybe", f"P{number}") for number in range(20))]
    fitted = fit(examples, strength=0.4)
    assert _moved(fit(examples, strength=0.4, start=fitted), fitted) < UNMOVED
    for others in (examples[1:], [*examples, examples[0]], [replace(examples[0], label="no"), *examples[1:]]):
        assert _moved(fit(others, strength=0.4, start=fitted), fitted) > UNMOVED


def test_the_people_set_aside_are_in_no_fit() -> None:
    fitted, aside = ({person["person"] for person in read("sentences.jsonl", held_out=each)} for each in (False, True))
    assert fitted.isdisjoint(aside)
    assert len(aside) >= 20
    assert {example.person for example in keep.examples()} == fitted


def _talk(people: int = 20) -> list[Example]:
    said = [({"i": 1.0, "live": 1.0}, "yes"), ({"what": 1.0, "is": 1.0}, "no"), ({"rare": 1.0, "is": 1.0}, "no")]
    return [Example(features, label, f"P{number}") for number in range(people) for features, label in said]


def test_a_model_tells_what_it_was_fitted_to_apart() -> None:
    model = fit(_talk(), strength=1.0)
    assert model["weights"]["live"] > 0 > model["weights"]["what"]


def test_a_feature_that_is_too_rare_has_no_weight() -> None:
    examples = [*_talk(), *[Example({"once": 1.0}, "yes", "P0") for _ in range(9)]]
    assert "once" not in fit(examples, strength=1.0, fewest=2)["weights"]


def test_everybody_is_measured_by_a_model_that_was_fitted_without_them() -> None:
    """A word that only one person uses tells nothing of them."""
    examples = [*_talk(), *[Example({"own": 1.0}, "yes", "P0") for _ in range(30)]]
    found = left_out(examples, strength=1.0)
    assert all(each["no"] > 0.4 for each, example in zip(found, examples, strict=True) if "own" in example.features)
    assert all(each["yes"] > 0.6 for each, example in zip(found, examples, strict=True) if "live" in example.features)
