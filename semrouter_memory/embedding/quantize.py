"""Published weights to an int8 ONNX model, with the proof that it still is the same model.

Strategy: onnxruntime's fused operators (domain com.microsoft) are written down directly, where they are faster than those that they
stand for. An exporter would need PyTorch to make a graph of small operators, which the runtime then tries to fuse into these again. Two comparisons follow: the float32
graph must reproduce vectors that a forward pass in numpy gave for the same weights, which shows a mistake in the graph or in the
runtime's operators; the int8 graph must stay near the float32 graph, which bounds what quantising costs.

The graph takes what every BERT export takes (input_ids, attention_mask, token_type_ids; int64, padded on the right) and
gives `sentence_embedding`, shape (batch, dimension), L2-normalised. Weights carry the names under which BERT checkpoints are
published (`encoder.layer.0.attention.self.query.weight`), with matrices stored as (out, in).
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors import SafetensorError
from safetensors.numpy import load
from tokenizers import Tokenizer

from semrouter_memory.embedding.onnx import open_session
from semrouter_memory.errors import ConfigurationError

Array: TypeAlias = npt.NDArray[np.float32]
Weights: TypeAlias = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class BertShape:
    """What the weights alone do not tell (heads), and what they must agree with."""

    dimension: int
    layers: int
    heads: int

    @property
    def head_dimension(self) -> int:
        return self.dimension // self.heads


SHAPE = BertShape(dimension=384, layers=6, heads=12)
"""all-MiniLM-L6-v2."""

MAX_GRAPH_ERROR = 1e-5
"""Largest difference of a component between the float32 graph and `EXPECTED`; measured 5e-7."""

MIN_PARITY = 0.96
"""Smallest cosine between int8 and float32; measured 0.973 for the worst sentence below (nearly all of it unknown to
the vocabulary), 0.989 on average. Recall over a retrieval set was the same as with float32."""

SENTENCES = (
    "",
    "What's my budget for the trip?",
    "User's budget for the Hawaii trip is $10,000",
    "User is allergic to peanuts and prefers window seats",
    "To deploy the service, run the tests, tag the release and apply the manifest to the cluster",
    "用户住在柏林",
)
EXPECTED = (
    (-0.118838, 0.048299, -0.002548, -0.011011),
    (0.101499, 0.039333, 0.006801, 0.130071),
    (0.090154, 0.034156, 0.013364, 0.088441),
    (0.041843, 0.017670, 0.031668, 0.016877),
    (0.051855, -0.059382, -0.003719, -0.060706),
    (0.035417, 0.096160, 0.025166, 0.010026),
)
"""The first components of these sentences' vectors, computed from the published weights with numpy."""

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "sentence_embedding"
LAYER_NORM_EPSILON = 1e-12

_FUSED = "com.microsoft"
# Every onnxruntime since 1.12 reads opset 17 with IR version 8; nothing newer is needed.
_OPSET, _IR_VERSION = 17, 8


def quantized(weights: bytes, tokenizer: bytes, progress: Callable[[str], None]) -> tuple[bytes, float]:
    """Build the graph, quantise it, and check both.

    Args:
        weights: the published model.safetensors.
        tokenizer: the published tokenizer.json.
        progress: called with each step in words for a person.

    Returns:
        The ONNX file, and its worst cosine to float32 over the sample sentences.

    Raises:
        ConfigurationError: the weights do not fit the graph, or a comparison fails.
    """
    loaded = _load(weights)
    progress("building the graph")
    graph = build_graph(loaded, SHAPE)
    token_ids = _token_ids(tokenizer)
    # As one padded batch, so that mask and pooling are part of what is compared.
    floats = _run(_session(graph.SerializeToString()), token_ids)
    progress("comparing its vectors with the expected ones")
    _check_graph(floats)
    progress("quantising it to int8")
    content = _int8(graph)
    progress("comparing int8 with float32")
    return content, _parity(floats, content, token_ids)


def _load(weights: bytes) -> Weights:
    try:
        tensors: dict[str, Array] = load(weights)
    except SafetensorError as error:
        raise ConfigurationError(f"the published weights cannot be read: {error}") from None
    return tensors


def _token_ids(tokenizer: bytes) -> list[npt.NDArray[np.int64]]:
    reader = Tokenizer.from_buffer(tokenizer)
    reader.no_padding()
    return [np.array(reader.encode(sentence).ids, dtype=np.int64) for sentence in SENTENCES]


def _session(model: bytes) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors; it warns about its own optimiser otherwise
    return open_session(model, options)


def _run(session: Any, batch: list[npt.NDArray[np.int64]]) -> Array:
    """Shape (batch, dimension)."""
    longest = max(map(len, batch))
    padded = np.array([np.pad(ids, (0, longest - len(ids))) for ids in batch])
    mask = np.array([[1] * len(ids) + [0] * (longest - len(ids)) for ids in batch])
    feeds = dict(zip(INPUTS, (padded, mask, np.zeros_like(padded)), strict=True))
    vectors: Array = session.run([OUTPUT], feeds)[0]
    return vectors


def _check_graph(vectors: Array) -> None:
    error = float(np.abs(vectors[:, : len(EXPECTED[0])] - np.array(EXPECTED)).max())
    if not error <= MAX_GRAPH_ERROR:
        raise ConfigurationError(
            f"the float32 graph differs from the expected vectors by {error:.1e}, more than {MAX_GRAPH_ERROR:.0e}"
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


def build_graph(weights: Weights, shape: BertShape) -> onnx.ModelProto:
    """The float32 model."""
    encoder = _Encoder(weights, shape)
    hidden, lengths = encoder.embeddings()
    for layer in range(shape.layers):
        hidden = encoder.layer(f"encoder.layer.{layer}", hidden, lengths)
    encoder.pool(hidden)
    return encoder.model()


class _Encoder:
    """The graph in the making. Values are known by name: each step takes names and returns that of its result."""

    def __init__(self, weights: Weights, shape: BertShape) -> None:
        self._weights = weights
        self._shape = shape
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._types: list[onnx.ValueInfoProto] = []

    def embeddings(self) -> tuple[str, str]:
        """Token vectors, and each text's length: attention masks what is beyond it."""
        ids, mask, segments = (self._add("Cast", [name], f"{name}.int32", to=TensorProto.INT32) for name in INPUTS)
        tables = [self._weight(f"embeddings.{table}_embeddings.weight") for table in ("word", "position", "token_type")]
        norm = self._layer_norm("embeddings.LayerNorm")
        lengths = "embeddings.lengths"
        hidden = self._add_fused(
            "EmbedLayerNormalization",
            [ids, segments, *tables, *norm, mask],
            "embeddings.hidden",
            lengths,
            epsilon=LAYER_NORM_EPSILON,
        )
        return hidden, lengths

    def layer(self, name: str, hidden: str, lengths: str) -> str:
        attended = self._add_fused(
            "Attention",
            [hidden, *self._query_key_value(f"{name}.attention.self"), lengths],
            f"{name}.attended",
            num_heads=self._shape.heads,
        )
        hidden = self._project_and_norm(f"{name}.attention.output", attended, hidden)
        inner = self._dense(f"{name}.intermediate.dense", hidden)
        inner = self._add_fused("Gelu", [inner], f"{name}.activated")
        return self._project_and_norm(f"{name}.output", inner, hidden)

    def pool(self, hidden: str) -> None:
        """The sum over real tokens; its direction is the mean's, and only the direction survives normalisation."""
        mask = self._add("Cast", ["attention_mask"], "attention_mask.float", to=TensorProto.FLOAT)
        axis = self._constant("row_axis", np.array([1]))
        row = self._add("Unsqueeze", [mask, axis], "attention_mask.row")
        total = self._add("MatMul", [row, hidden], "total.row")
        total = self._add("Squeeze", [total, axis], "total")
        self._add("LpNormalization", [total], OUTPUT, axis=-1, p=2)

    def model(self) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in INPUTS]
        output = helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", self._shape.dimension])
        return helper.make_model(
            helper.make_graph(
                self._nodes, "sentence_encoder", inputs, [output], self._constants, value_info=self._types
            ),
            opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(_FUSED, 1)],
            ir_version=_IR_VERSION,
            producer_name="semrouter-memory",
        )

    def _query_key_value(self, name: str) -> tuple[str, str]:
        """Side by side: weight (dimension, 3 * dimension) and bias (3 * dimension,)."""
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self._weights[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self._weights[f"{part}.bias"] for part in parts])
        return self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", bias)

    def _project_and_norm(self, name: str, values: str, residual: str) -> str:
        total = self._add("Add", [self._dense(f"{name}.dense", values), residual], f"{name}.total")
        norm = self._layer_norm(f"{name}.LayerNorm")
        return self._add("LayerNormalization", [total, *norm], f"{name}.hidden", axis=-1, epsilon=LAYER_NORM_EPSILON)

    def _layer_norm(self, name: str) -> tuple[str, str]:
        return self._weight(f"{name}.weight"), self._weight(f"{name}.bias")

    def _dense(self, name: str, values: str) -> str:
        weight = self._constant(f"{name}.weight", self._weights[f"{name}.weight"].T)
        product = self._add("MatMul", [values, weight], f"{name}.product")
        return self._add("Add", [product, self._weight(f"{name}.bias")], f"{name}.biased")

    def _weight(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _constant(self, name: str, values: npt.NDArray[Any]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def _add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def _add_fused(self, operator: str, inputs: list[str], output: str, *more_outputs: str, **attributes: Any) -> str:
        """Declares its type, since ONNX's own inference, which the quantiser uses, does not know these operators."""
        outputs = [output, *more_outputs]
        self._nodes.append(helper.make_node(operator, inputs, outputs, output, domain=_FUSED, **attributes))
        self._types.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", "tokens", None]))
        return output
