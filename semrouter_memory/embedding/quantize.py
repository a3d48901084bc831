"""Published weights to an int8 model, with the proof that it still is the same model.

Strategy: two independent comparisons. The float32 graph must reproduce a forward pass written in plain numpy, which
catches a mistake in the graph; the int8 graph must stay near the float32 one, which bounds what quantising costs.
"""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors import SafetensorError
from safetensors.numpy import load
from tokenizers import Tokenizer

from semrouter_memory.embedding.bert import Array, BertShape, Weights, embed
from semrouter_memory.embedding.graph import INPUTS, OUTPUT, build_graph
from semrouter_memory.embedding.weights import Progress, PublishedModel
from semrouter_memory.errors import ConfigurationError

SHAPE = BertShape(dimension=384, layers=6, heads=12)
"""all-MiniLM-L6-v2."""

MAX_GRAPH_ERROR = 1e-5
"""Largest difference of a component between the float32 graph and numpy; measured 2e-7."""

MIN_PARITY = 0.96
"""Smallest cosine between int8 and float32; measured 0.973 for the worst sentence below (nearly all of it unknown to
the vocabulary), 0.989 on average. Recall over a retrieval set was the same as with float32."""

_SENTENCES = (
    "",
    "What's my budget for the trip?",
    "User's budget for the Hawaii trip is $10,000",
    "User is allergic to peanuts and prefers window seats",
    "To deploy the service, run the tests, tag the release and apply the manifest to the cluster",
    "用户住在柏林",
)


@dataclass(frozen=True, slots=True)
class QuantizedModel:
    """An ONNX file, and how near it is to float32.

    Attributes:
        content: the ONNX file.
        parity: worst cosine between int8 and float32 over the sample sentences.
    """

    content: bytes
    parity: float


def quantized(published: PublishedModel, progress: Progress) -> QuantizedModel:
    """Build the graph, quantise it, and check both.

    Raises:
        ConfigurationError: the weights do not fit the graph, or a comparison fails.
    """
    weights = _load(published.weights)
    progress("building the graph")
    graph = build_graph(weights, SHAPE)
    token_ids = _token_ids(published.tokenizer)
    # As one padded batch, so that mask and pooling are part of what is compared.
    floats = _run(_session(graph.SerializeToString()), token_ids)
    progress("comparing it with a forward pass in numpy")
    _check_graph(floats, weights, token_ids)
    progress("quantising it to int8")
    content = _int8(graph)
    progress("comparing int8 with float32")
    return QuantizedModel(content, _parity(floats, content, token_ids))


def _load(weights: bytes) -> Weights:
    try:
        tensors: dict[str, Array] = load(weights)
    except SafetensorError as error:
        raise ConfigurationError(f"the published weights cannot be read: {error}") from None
    return tensors


def _token_ids(tokenizer: bytes) -> list[npt.NDArray[np.int64]]:
    reader = Tokenizer.from_buffer(tokenizer)
    reader.no_padding()
    return [np.array(reader.encode(sentence).ids, dtype=np.int64) for sentence in _SENTENCES]


def _session(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; it warns about its own optimiser otherwise
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _run(session: Any, batch: list[npt.NDArray[np.int64]]) -> Array:
    """Shape (batch, dimension)."""
    longest = max(map(len, batch))
    padded = np.array([np.pad(ids, (0, longest - len(ids))) for ids in batch])
    mask = np.array([[1] * len(ids) + [0] * (longest - len(ids)) for ids in batch])
    feeds = dict(zip(INPUTS, (padded, mask, np.zeros_like(padded)), strict=True))
    vectors: Array = session.run([OUTPUT], feeds)[0]
    return vectors


def _check_graph(vectors: Array, weights: Weights, token_ids: list[npt.NDArray[np.int64]]) -> None:
    expected = np.array([embed(weights, SHAPE, ids) for ids in token_ids])
    error = float(np.abs(vectors - expected).max())
    if not error <= MAX_GRAPH_ERROR:
        raise ConfigurationError(
            f"the float32 graph differs from numpy by {error:.1e}, more than {MAX_GRAPH_ERROR:.0e}"
        )


def _int8(graph: onnx.ModelProto) -> bytes:
    # Says that the graph is already fused; the quantiser warns on the root logger otherwise.
    onnx.helper.set_model_props(graph, {"onnx.quant.pre_process": "onnxruntime.quant"})
    with tempfile.TemporaryDirectory(prefix="semrouter-memory-") as directory:
        path = Path(directory) / "int8.onnx"
        # Seven bits for weights: with eight, processors without VNNI overflow when they add products. On those that
        # have it, retrieval was measured to be the same with either, and the file may move from one to the other.
        quantize_dynamic(graph, path, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
        return path.read_bytes()


def _parity(floats: Array, content: bytes, token_ids: list[npt.NDArray[np.int64]]) -> float:
    """One text at a time, as it is served: int8 scales are chosen per run, so a batch would mix the texts."""
    session = _session(content)
    int8 = np.concatenate([_run(session, [ids]) for ids in token_ids])
    worst = float((floats * int8).sum(axis=1).min())
    if not worst >= MIN_PARITY:
        raise ConfigurationError(f"int8 is too far from float32: cosine {worst:.3f}, at least {MIN_PARITY} wanted")
    return worst
