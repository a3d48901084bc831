"""Logistic models: what weights and features make of each other."""

import math

import pytest

from semrouter_memory.learned.logistic import Logistic, Multinomial, present


def test_the_log_odds_are_the_bias_and_the_known_features() -> None:
    model = Logistic(bias=-1.0, weights={"a": 2.0, "b": 0.5})
    assert model.log_odds({"a": 1.0, "b": 2.0, "unknown": 9.0}) == pytest.approx(2.0)
    assert model.log_odds({}) == -1.0


@pytest.mark.parametrize(("bias", "expected"), [(0.0, 0.5), (math.log(3), 0.75), (-math.log(3), 0.25)])
def test_the_probability_is_the_logistic_of_the_log_odds(bias: float, expected: float) -> None:
    assert Logistic(bias, {}).probability({"a": 1.0}) == pytest.approx(expected)


def test_the_probabilities_of_classes_add_up_and_follow_their_log_odds() -> None:
    model = Multinomial(
        {"cat": Logistic(0.0, {"meow": 3.0}), "dog": Logistic(0.0, {"woof": 3.0}), "cow": Logistic(0.0, {})}
    )
    found = model.probabilities(present(["meow"]))
    assert sum(found.values()) == pytest.approx(1.0)
    assert max(found, key=lambda name: found[name]) == "cat"
    assert found["dog"] == pytest.approx(found["cow"])


def test_large_log_odds_do_not_overflow() -> None:
    model = Multinomial({"a": Logistic(2_000.0, {}), "b": Logistic(-2_000.0, {})})
    assert model.probabilities({}) == {"a": 1.0, "b": 0.0}


def test_the_model_of_the_product_is_read_from_its_file() -> None:
    model = Logistic.load("wants")
    assert len(model.weights) > 1_000
    assert 0.2 <= model.cut <= 0.8
