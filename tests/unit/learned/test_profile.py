"""Weights that were fitted for another embedding model replace the package's in the models that are loaded."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.learned import PROFILE_DIRECTORY, PROFILE_FILE, Logistic, Multinomial, use_profile

FINGERPRINT = "bge-small-en-v1.5/384/0123456789ab"
WANTS = {"bias": 0.25, "weights": {"#0": 1.0, "#3": -2.0}, "cut": 0.5}
RELATION = {
    "classes": {"same": {"bias": 1.0, "weights": {}}, "unrelated": {"bias": 0.0, "weights": {"similarity": -3.0}}}
}


@pytest.fixture
def fitted(tmp_path: Path) -> Iterator[Path]:
    """A model's directory with two decisions of its own. Afterwards the package's weights are in use again."""
    own = tmp_path / "model" / PROFILE_DIRECTORY
    own.mkdir(parents=True)
    for name, content in {
        PROFILE_FILE: {"fingerprint": FINGERPRINT},
        "wants.json": WANTS,
        "relation.json": RELATION,
    }.items():
        (own / name).write_text(json.dumps(content))
    yield own.parent
    use_profile(tmp_path, "")


def test_a_profiles_weights_replace_the_packages_and_the_others_stay(fitted: Path, tmp_path: Path) -> None:
    wants, relation, passages = Logistic.load("wants"), Multinomial.load("relation"), Logistic.load("passages")
    of_package = (len(wants.weights), wants.cut, len(relation.classes), dict(passages.weights))
    assert wants.of_components(4).any()

    assert use_profile(fitted, FINGERPRINT)
    assert (wants.bias, wants.log_cut) == (0.25, 0.0)
    assert np.array_equal(wants.of_components(4), np.array([2.0, 0, 0, -4.0], np.float32))
    assert relation.classes == ("same", "unrelated")
    assert relation.probabilities({"similarity": 1.0})["same"] > 0.9
    assert dict(passages.weights) == of_package[3]
    assert Logistic.load("wants") is wants

    assert not use_profile(tmp_path, "default")
    assert (len(wants.weights), wants.cut, len(relation.classes), dict(passages.weights)) == of_package


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (PROFILE_FILE, '{"fingerprint": "bge-small-en-v1.5/384/another"}'),
        (PROFILE_FILE, "[]"),
        ("wants.json", '{"bias": 1'),
        ("wants.json", '{"bias": 1}'),
        ("relation.json", '{"classes": []}'),
    ],
)
def test_weights_of_another_model_and_damaged_ones_are_refused(fitted: Path, name: str, content: str) -> None:
    Logistic.load("wants")
    Multinomial.load("relation")
    (fitted / PROFILE_DIRECTORY / name).write_text(content)

    with pytest.raises(ConfigurationError, match="make fit PROFILE"):
        use_profile(fitted, FINGERPRINT)


def test_a_profile_without_its_fingerprint_is_refused(fitted: Path) -> None:
    (fitted / PROFILE_DIRECTORY / PROFILE_FILE).unlink()

    with pytest.raises(ConfigurationError, match="damaged"):
        use_profile(fitted, FINGERPRINT)
