"""The forward pass of a BERT encoder in plain numpy: what graphs must compute, and sharing nothing with them."""

import math

import numpy as np
import numpy.typing as npt

from semrouter_memory.embedding.quantize import LAYER_NORM_EPSILON, Array, BertShape, Weights


def embed(weights: Weights, shape: BertShape, token_ids: npt.NDArray[np.int64]) -> Array:
    """One text's embedding: the mean over its tokens, L2-normalised.

    Args:
        token_ids: shape (tokens,), special tokens included, no padding.
    """
    hidden = _embeddings(weights, token_ids)
    for layer in range(shape.layers):
        hidden = _layer(weights, f"encoder.layer.{layer}", shape, hidden)
    mean = hidden.mean(axis=0)
    normalised: Array = mean / np.linalg.norm(mean)
    return normalised


def _embeddings(weights: Weights, token_ids: npt.NDArray[np.int64]) -> Array:
    words = weights["embeddings.word_embeddings.weight"][token_ids]
    positions = weights["embeddings.position_embeddings.weight"][: len(token_ids)]
    segment = weights["embeddings.token_type_embeddings.weight"][0]
    return _layer_norm(weights, "embeddings.LayerNorm", words + positions + segment)


def _layer(weights: Weights, name: str, shape: BertShape, hidden: Array) -> Array:
    attended = _linear(weights, f"{name}.attention.output.dense", _attention(weights, name, shape, hidden))
    hidden = _layer_norm(weights, f"{name}.attention.output.LayerNorm", attended + hidden)
    inner = _gelu(_linear(weights, f"{name}.intermediate.dense", hidden))
    outer = _linear(weights, f"{name}.output.dense", inner)
    return _layer_norm(weights, f"{name}.output.LayerNorm", outer + hidden)


def _attention(weights: Weights, name: str, shape: BertShape, hidden: Array) -> Array:
    query, key, value = (
        _linear(weights, f"{name}.attention.self.{part}", hidden)
        .reshape(-1, shape.heads, shape.head_dimension)
        .transpose(1, 0, 2)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 2, 1) / math.sqrt(shape.head_dimension)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    mixed: Array = (shares @ value).transpose(1, 0, 2).reshape(len(hidden), shape.dimension)
    return mixed


def _linear(weights: Weights, name: str, values: Array) -> Array:
    return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _layer_norm(weights: Weights, name: str, values: Array) -> Array:
    centred = values - values.mean(axis=-1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + LAYER_NORM_EPSILON)
    normed: Array = centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return normed


_erf = np.vectorize(math.erf, otypes=[np.float32])


def _gelu(values: Array) -> Array:
    half: Array = values * np.float32(0.5)
    activated: Array = half * (1 + _erf(values / math.sqrt(2)))
    return activated
