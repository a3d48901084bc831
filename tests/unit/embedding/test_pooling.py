"""A model's output becomes one normalised vector, whether the graph pools or not."""

import numpy as np
import pytest

from semrouter_memory.embedding.onnx import Pooling, to_vector

TOKENS = [[[3.0, 0.0], [0.0, 3.0], [0.0, 9.0]]]


@pytest.mark.parametrize(
    ("output", "pooling", "expected"),
    [
        pytest.param(TOKENS, "mean", [1 / 17**0.5, 4 / 17**0.5], id="mean of the tokens"),
        pytest.param(TOKENS, "cls", [1.0, 0.0], id="the first token"),
        pytest.param([[3.0, 4.0]], "mean", [0.6, 0.8], id="pooled by the graph, not normalised"),
        pytest.param([[0.6, 0.8]], "cls", [0.6, 0.8], id="pooled by the graph, pooling is not asked for"),
    ],
)
def test_output_becomes_a_unit_vector(output: list[object], pooling: Pooling, expected: list[float]) -> None:
    vector = to_vector(np.array(output, dtype=np.float32), pooling)
    assert vector.tolist() == pytest.approx(expected)
    assert vector.dtype == np.float32


def test_double_precision_becomes_single() -> None:
    assert to_vector(np.array([[3.0, 4.0]]), "mean").dtype == np.float32


@pytest.mark.parametrize(
    "shape",
    [(2, 4), (2, 3, 4), (4,), (1, 0, 4), (1, 1, 1, 4)],
    ids=["two texts", "two texts of tokens", "no batch", "no tokens", "rank 4"],
)
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="shape"):
        to_vector(np.ones(shape, dtype=np.float32), "mean")


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_a_vector_without_direction_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="direction"):
        to_vector(np.full((1, 4), value, dtype=np.float32), "mean")
