"""From what a sentence encoder puts out to one vector."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from semrouter_memory.model import Vector

Pooling = Literal["mean", "cls"]


def to_vector(output: npt.NDArray[np.floating], pooling: Pooling) -> Vector:
    """One text's L2-normalised vector, from the output for a batch of one.

    Args:
        output: shape (1, dimension) from a graph that pools by itself, or (1, tokens, dimension), one row per token.
        pooling: how token rows become one; not looked at when the graph did it.

    Raises:
        ValueError: another shape, or a vector without a direction (zero, not finite).
    """
    # Half precision would lose digits in the mean.
    pooled = _pooled(output.astype(np.float32, copy=False), pooling)
    length = np.linalg.norm(pooled)
    if not (np.isfinite(length) and length > 0):
        raise ValueError("the model put out a vector without a direction")
    normalised: Vector = pooled / length
    return normalised


def _pooled(output: npt.NDArray[np.float32], pooling: Pooling) -> npt.NDArray[np.float32]:
    match output.shape:
        case (1, _):
            row = output[0]
        case (1, tokens, _) if tokens > 0:
            # The first token is [CLS]. Texts are run one at a time, so every row is a real token: no mask to heed.
            row = output[0, 0] if pooling == "cls" else output[0].mean(axis=0)
        case shape:
            raise ValueError(
                f"the model's first output has shape {shape}, not (1, dimension) or (1, tokens, dimension)"
            )
    pooled: npt.NDArray[np.float32] = row
    return pooled
