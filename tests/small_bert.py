"""A small BERT with random weights, exported as people's tools do: plain operators, and the usual names and layouts.

Its vectors mean nothing, but they depend on every token, on its place and on its neighbours, as real ones do. What they
must be is computed by the forward pass in numpy (`numpy_bert`), which shares nothing with the graph.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from semrouter_memory.embedding.quantize import LAYER_NORM_EPSILON, Array, BertShape, Weights
from tests import numpy_bert

WORDS = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "user", "'", "s", "what", "is", "my", "the", "trip", "budget", "lives", "in"),
    *(
        "berlin",
        "munich",
        "likes",
        "tea",
        "coffee",
        "query",
        "passage",
        ":",
        "represent",
        "this",
        "a",
        "$",
        "cat",
        "dog",
    ),
)
MAX_TOKENS = 32

SENTENCE = "sentence_embedding"
TOKENS = "last_hidden_state"
TOKENS_AND_SENTENCE = "token_embeddings"
"""Outputs: pooled alone; rows and a useless `pooler_output`; rows, then pooled."""


def weights_of(shape: BertShape, *, seed: int = 0) -> Weights:
    """Random ones, under the names of published checkpoints."""
    draw = np.random.default_rng(seed)
    sizes = {"word": len(WORDS), "position": MAX_TOKENS, "token_type": 2}
    made = {
        f"embeddings.{table}_embeddings.weight": draw.normal(size=(size, shape.dimension))
        for table, size in sizes.items()
    }
    inner = 2 * shape.dimension
    _add_norm(made, "embeddings.LayerNorm", shape, draw)
    for layer in (f"encoder.layer.{number}" for number in range(shape.layers)):
        for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            _add_linear(made, f"{layer}.{part}", (shape.dimension, shape.dimension), draw)
        _add_linear(made, f"{layer}.intermediate.dense", (inner, shape.dimension), draw)
        _add_linear(made, f"{layer}.output.dense", (shape.dimension, inner), draw)
        _add_norm(made, f"{layer}.attention.output.LayerNorm", shape, draw)
        _add_norm(made, f"{layer}.output.LayerNorm", shape, draw)
    return {name: values.astype(np.float32) for name, values in made.items()}


def hidden(weights: Weights, shape: BertShape, ids: Sequence[int]) -> Array:
    """The last hidden state of one text, shape (tokens, dimension), computed in numpy."""
    values = numpy_bert._embeddings(weights, np.array(ids, dtype=np.int64))
    for layer in range(shape.layers):
        values = numpy_bert._layer(weights, f"encoder.layer.{layer}", shape, values)
    return values


def write_tokenizer(directory: Path) -> Tokenizer:
    """Write tokenizer.json with padding and truncation of its own, as published ones have, and return it without."""
    tokenizer = Tokenizer(models.WordPiece({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", WORDS.index("[CLS]")), ("[SEP]", WORDS.index("[SEP]"))]
    )
    tokenizer.add_special_tokens(list(WORDS[:4]))
    tokenizer.enable_padding(length=MAX_TOKENS)
    tokenizer.enable_truncation(6)
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def write_graph(
    path: Path,
    weights: Weights,
    shape: BertShape,
    *,
    output: str = TOKENS,
    segments: bool = True,
    integer: int = TensorProto.INT64,
    half: bool = False,
) -> None:
    """Write the ONNX file.

    Args:
        output: what the graph gives, see `SENTENCE` and its like; the graph's own pooling is the mean.
        segments: whether it takes token_type_ids.
        integer: the type of its inputs.
        half: whether it gives half precision.
    """
    graph = _Graph(weights, shape, integer)
    rows = graph.encoder(segments=segments)
    outputs = {
        SENTENCE: lambda: [graph.mean(rows)],
        TOKENS: lambda: [graph.named(rows, TOKENS, half=half), graph.pooler(rows)],
        TOKENS_AND_SENTENCE: lambda: [graph.named(rows, TOKENS_AND_SENTENCE, half=half), graph.mean(rows)],
    }[output]()
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(graph.model(outputs), path)


def write_pooling(directory: Path, mode: str) -> None:
    """What sentence-transformers writes beside a model."""
    modes = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")
    declared: dict[str, Any] = {f"pooling_mode_{each}": each == mode for each in modes}
    (directory / "1_Pooling").mkdir(parents=True)
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 8, **declared}))


def _add_linear(made: dict[str, Any], name: str, size: tuple[int, int], draw: np.random.Generator) -> None:
    made[f"{name}.weight"] = draw.normal(size=size) / math.sqrt(size[1])
    made[f"{name}.bias"] = draw.normal(size=size[0]) / 10


def _add_norm(made: dict[str, Any], name: str, shape: BertShape, draw: np.random.Generator) -> None:
    made[f"{name}.weight"] = 1 + draw.normal(size=shape.dimension) / 10
    made[f"{name}.bias"] = draw.normal(size=shape.dimension) / 10


class _Graph:
    """The graph in the making; each step takes names and returns that of its result."""

    def __init__(self, weights: Weights, shape: BertShape, integer: int) -> None:
        self._weights = weights
        self._shape = shape
        self._integer = integer
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}
        self._inputs = ["input_ids", "attention_mask"]
        self._types = {TOKENS: TensorProto.FLOAT}

    def encoder(self, *, segments: bool) -> str:
        words = self._add("Gather", self._weight("embeddings.word_embeddings.weight"), "input_ids")
        length = self._add("Gather", self._add("Shape", "input_ids"), self._constant(np.array(1)))
        steps = self._add("Range", self._constant(np.array(0)), length, self._constant(np.array(1)))
        positions = self._add("Gather", self._weight("embeddings.position_embeddings.weight"), steps)
        table = self._weight("embeddings.token_type_embeddings.weight")
        if segments:
            self._inputs.append("token_type_ids")
        kinds = self._add("Gather", table, "token_type_ids" if segments else self._constant(np.array([[0]])))
        rows = self._add("Add", self._add("Add", words, positions), kinds)
        rows = self._norm("embeddings.LayerNorm", rows)
        for number in range(self._shape.layers):
            rows = self._layer(f"encoder.layer.{number}", rows)
        return rows

    def named(self, rows: str, name: str, *, half: bool) -> str:
        kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
        self._types[name] = kind
        return self._add("Cast", rows, output=name, to=kind)

    def mean(self, rows: str) -> str:
        """With the mask, and not normalised, as exporters leave it."""
        axis = self._constant(np.array([-1]))
        mask = self._add("Unsqueeze", self._add("Cast", "attention_mask", to=TensorProto.FLOAT), axis)
        summed = self._constant(np.array([1]))
        total = self._add("ReduceSum", self._add("Mul", rows, mask), summed, keepdims=0)
        return self._add("Div", total, self._add("ReduceSum", mask, summed, keepdims=0), output=SENTENCE)

    def pooler(self, rows: str) -> str:
        """Something else than the sentence's vector, as `pooler_output` is."""
        first = self._add("Gather", rows, self._constant(np.array(0)), axis=1)
        return self._add("Tanh", self._add("Neg", first), output="pooler_output")

    def model(self, outputs: list[str]) -> onnx.ModelProto:
        rank = {TOKENS: ["batch", "tokens", None], TOKENS_AND_SENTENCE: ["batch", "tokens", None]}
        graph = helper.make_graph(
            self._nodes,
            "small_bert",
            [helper.make_tensor_value_info(name, self._integer, ["batch", "tokens"]) for name in self._inputs],
            [
                helper.make_tensor_value_info(
                    name, self._types.get(name, TensorProto.FLOAT), rank.get(name, ["batch", self._shape.dimension])
                )
                for name in outputs
            ],
            list(self._constants.values()),
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def _layer(self, name: str, rows: str) -> str:
        attended = self._linear(f"{name}.attention.output.dense", self._attention(f"{name}.attention.self", rows))
        rows = self._norm(f"{name}.attention.output.LayerNorm", self._add("Add", attended, rows))
        inner = self._linear(f"{name}.intermediate.dense", rows)
        half = self._add("Mul", inner, self._number(0.5))
        error = self._add("Erf", self._add("Div", inner, self._number(math.sqrt(2))))
        inner = self._add("Mul", half, self._add("Add", error, self._number(1)))
        outer = self._linear(f"{name}.output.dense", inner)
        return self._norm(f"{name}.output.LayerNorm", self._add("Add", outer, rows))

    def _attention(self, name: str, rows: str) -> str:
        split = self._constant(np.array([0, 0, self._shape.heads, self._shape.head_dimension]))
        query, key, value = (
            self._add("Transpose", self._add("Reshape", self._linear(f"{name}.{part}", rows), split), perm=perm)
            for part, perm in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
        )
        scale = self._number(math.sqrt(self._shape.head_dimension))
        shares = self._add("Softmax", self._add("Div", self._add("MatMul", query, key), scale), axis=-1)
        mixed = self._add("Transpose", self._add("MatMul", shares, value), perm=[0, 2, 1, 3])
        return self._add("Reshape", mixed, self._constant(np.array([0, 0, self._shape.dimension])))

    def _linear(self, name: str, rows: str) -> str:
        weight = self._constant(np.ascontiguousarray(self._weights[f"{name}.weight"].T))
        return self._add("Add", self._add("MatMul", rows, weight), self._weight(f"{name}.bias"))

    def _norm(self, name: str, rows: str) -> str:
        scale, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._add("LayerNormalization", rows, scale, bias, axis=-1, epsilon=LAYER_NORM_EPSILON)

    def _weight(self, name: str) -> str:
        self._constants.setdefault(name, numpy_helper.from_array(self._weights[name], name))
        return name

    def _number(self, value: float) -> str:
        return self._constant(np.array([value], dtype=np.float32))

    def _constant(self, values: npt.NDArray[Any]) -> str:
        name = f"constant.{len(self._constants)}"
        self._constants[name] = numpy_helper.from_array(np.asarray(values), name)
        return name

    def _add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"{operator}.{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name
