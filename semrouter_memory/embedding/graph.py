"""A BERT sentence encoder as an ONNX graph, from its published weights; pooling and normalisation are part of it.

Strategy: onnxruntime's fused operators (domain com.microsoft) are written down directly. An exporter would need PyTorch
to make a graph of small operators, which the runtime then tries to fuse into these again.

The graph takes what every BERT export takes (input_ids, attention_mask, token_type_ids; int64, padded on the right) and
gives `sentence_embedding`, shape (batch, dimension), L2-normalised.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from semrouter_memory.embedding.bert import LAYER_NORM_EPSILON, BertShape, Weights

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "sentence_embedding"

_FUSED = "com.microsoft"
# Every onnxruntime since 1.12 reads opset 17 with IR version 8; nothing newer is needed.
_OPSET, _IR_VERSION = 17, 8


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
        inner = self._matmul(f"{name}.intermediate.dense", hidden)
        bias = self._weight(f"{name}.intermediate.dense.bias")
        inner = self._add_fused("BiasGelu", [inner, bias], f"{name}.activated")
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
        product = self._matmul(f"{name}.dense", values)
        norm = self._layer_norm(f"{name}.LayerNorm")
        return self._add_fused(
            "SkipLayerNormalization",
            [product, residual, *norm, self._weight(f"{name}.dense.bias")],
            f"{name}.hidden",
            epsilon=LAYER_NORM_EPSILON,
        )

    def _layer_norm(self, name: str) -> tuple[str, str]:
        return self._weight(f"{name}.weight"), self._weight(f"{name}.bias")

    def _matmul(self, name: str, values: str) -> str:
        """Without the bias: the fused operator that follows adds it."""
        weight = self._constant(f"{name}.weight", self._weights[f"{name}.weight"].T)
        return self._add("MatMul", [values, weight], f"{name}.product")

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
