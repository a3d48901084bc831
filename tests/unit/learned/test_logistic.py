"""Logistic models: what weights and features make of each other."""

import math

import pytest

from semrouter_memory.learned import Logistic, Multinomial


def test_the_log_odds_are_the_bias_and_the_known_features() -> None:
    model = Logistic(bias=-1.0, weights={"a": 2.0, "b": 0.5})
    assert model.log_odds({"a": 1.0, "b": 2.0, "unknown": 9.0}) == pytest.approx(2.0)
    assert model.log_odds({}) == -1.0


def test_the_probabilities_of_classes_add_up_and_follow_their_log_odds() -> None:
    meowing, barking, other = Logistic(0.0, {"meow": math.log(6)}), Logistic(0.0, {"woof": 3.0}), Logistic(0.0, {})
    model = Multinomial.of({"cat": meowing, "dog": barking, "cow": other})
    assert model.probabilities({"meow": 1.0}) == pytest.approx({"cat": 0.75, "dog": 0.125, "cow": 0.125})


def test_many_examples_have_the_probabilities_that_each_has_alone() -> None:
    model = Multinomial.of({"cat": Logistic(0.5, {"meow": 2.0}), "dog": Logistic(0.0, {"woof": 3.0, "paw": 0.1})})
    examples = [{}, {"meow": 1.0}, {"unknown": 9.0}, {"woof": 0.5, "paw": 2.0}, {}, {"woof": 1_000.0}]
    together = model.of_each(examples)
    assert together == [pytest.approx(model.probabilities(each)) for each in examples]
    assert together[0] == together[2] == together[4] == pytest.approx({"cat": 0.622459, "dog": 0.377541}, abs=1e-6)


def test_no_examples_have_no_probabilities() -> None:
    assert Multinomial.of({"a": Logistic(0.0, {"b": 1.0})}).of_each([]) == []


def test_large_log_odds_do_not_overflow() -> None:
    model = Multinomial.of({"a": Logistic(2_000.0, {}), "b": Logistic(-2_000.0, {})})
    assert model.probabilities({}) == {"a": 1.0, "b": 0.0}


def test_the_model_of_the_product_is_read_from_its_file() -> None:
    model = Logistic.load("wants")
    assert len(model.weights) > 1_000
    assert 0.2 <= model.cut <= 0.8
