"""Another embedding model is another profile: a small BERT, exported in every usual way, against a forward pass in numpy."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from tokenizers import Tokenizer

from semrouter_memory.config import Config, EmbeddingConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.embedding.quantize import Array, BertShape, Weights
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.evaluation.running import load_embedder
from semrouter_memory.learned import Logistic, use_profile
from tests import small_bert
from training import documents, fitting
from training.fitting import WEIGHTS

SHAPE = BertShape(dimension=16, layers=2, heads=4)
CONFIG = EmbeddingConfig(model="small-bert", dimension=16, max_tokens=small_bert.MAX_TOKENS)
TEXT = "User's budget is the trip"
BGE_PREFIX = "Represent this: "

Reference = Callable[[str], Array]
"""A text's last hidden state."""


@pytest.fixture(scope="module")
def weights() -> Weights:
    return small_bert.weights_of(SHAPE)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Tokenizer:
    return small_bert.write_tokenizer(tmp_path)


@pytest.fixture
def rows(weights: Weights, tokenizer: Tokenizer) -> Reference:
    return lambda text: small_bert.hidden(weights, SHAPE, tokenizer.encode(text).ids)


def unit(vector: Array) -> Array:
    normalised: Array = vector / np.linalg.norm(vector)
    return normalised


def load(directory: Path, **settings: object) -> OnnxEmbedder:
    return OnnxEmbedder.load(CONFIG.model_copy(update=settings), directory)


@pytest.mark.parametrize("segments", [True, False], ids=["with token_type_ids", "without"])
async def test_cls_and_mean_are_those_of_a_forward_pass_in_numpy(
    tmp_path: Path, weights: Weights, rows: Reference, segments: bool
) -> None:
    """And they are different vectors, so that one taken for the other would show. The text is longer than the tokenizer's
    own truncation, and far shorter than its padding."""
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE, segments=segments)
    expected = {"cls": unit(rows(TEXT)[0]), "mean": unit(rows(TEXT).mean(axis=0))}
    assert not np.allclose(expected["cls"], expected["mean"], atol=0.05)
    for pooling, vector in expected.items():
        embedder = load(tmp_path, pooling=pooling)
        assert await embedder.embed_query(TEXT) == pytest.approx(vector, abs=1e-5)
        assert (await embedder.embed_passages(["tea", TEXT]))[1] == pytest.approx(vector, abs=1e-5)


@pytest.mark.parametrize("output", [small_bert.SENTENCE, small_bert.TOKENS_AND_SENTENCE])
@pytest.mark.parametrize("pooling", ["mean", "cls"])
async def test_a_graph_that_pools_by_itself_is_believed_and_only_normalised(
    tmp_path: Path, weights: Weights, rows: Reference, output: str, pooling: str
) -> None:
    """Also where the rows of the tokens come first among its outputs, and whatever the pooling is set to."""
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE, output=output)
    vector = await load(tmp_path, pooling=pooling).embed_query(TEXT)
    assert vector == pytest.approx(unit(rows(TEXT).mean(axis=0)), abs=1e-5)
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


async def test_a_query_prefix_changes_queries_only_and_a_passage_prefix_passages_only(
    tmp_path: Path, weights: Weights, rows: Reference
) -> None:
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE)
    embedder = load(tmp_path, pooling="cls", query_prefix=BGE_PREFIX)
    assert await embedder.embed_query("my trip") == pytest.approx(unit(rows(BGE_PREFIX + "my trip")[0]), abs=1e-5)
    assert (await embedder.embed_passages([TEXT]))[0] == pytest.approx(unit(rows(TEXT)[0]), abs=1e-5)
    embedder = load(tmp_path, pooling="cls", passage_prefix="passage: ")
    assert await embedder.embed_query("my trip") == pytest.approx(unit(rows("my trip")[0]), abs=1e-5)
    assert (await embedder.embed_passages([TEXT]))[0] == pytest.approx(unit(rows("passage: " + TEXT)[0]), abs=1e-5)


async def test_each_profile_of_one_model_is_a_vector_space_of_its_own(
    tmp_path: Path, weights: Weights, tokenizer: Tokenizer
) -> None:
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE)
    profiles: list[dict[str, object]] = [{}, {"pooling": "cls"}, {"query_prefix": "query: "}]
    assert len({load(tmp_path, **profile).fingerprint for profile in profiles}) == 3


@pytest.mark.parametrize("inner", ["tokenizer.json at the top", "both in onnx"])
async def test_a_graph_in_the_subdirectory_onnx_is_found(
    tmp_path: Path, weights: Weights, rows: Reference, inner: str
) -> None:
    small_bert.write_graph(tmp_path / "onnx" / "model.onnx", weights, SHAPE)
    if inner == "both in onnx":
        (tmp_path / "tokenizer.json").rename(tmp_path / "onnx" / "tokenizer.json")
    assert await load(tmp_path).embed_query(TEXT) == pytest.approx(unit(rows(TEXT).mean(axis=0)), abs=1e-5)


async def test_weights_beside_the_graph_are_part_of_the_fingerprint(
    tmp_path: Path, weights: Weights, tokenizer: Tokenizer
) -> None:
    """Of a large model the graph's file holds none: two models could have the same."""
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE)
    alone = load(tmp_path).fingerprint
    (tmp_path / "model.onnx_data").write_bytes(b"weights")
    one = load(tmp_path).fingerprint
    (tmp_path / "model.onnx_data").write_bytes(b"others")
    assert len({alone, one, load(tmp_path).fingerprint}) == 3


async def test_short_integers_and_half_precision_are_taken(tmp_path: Path, weights: Weights, rows: Reference) -> None:
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE, integer=TensorProto.INT32, half=True)
    vector = await load(tmp_path).embed_query(TEXT)
    assert vector == pytest.approx(unit(rows(TEXT).mean(axis=0)), abs=2e-3)
    assert vector.dtype == np.float32


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("declared", "pooling"), [("cls_token", "mean"), ("mean_tokens", "cls")])
def test_another_pooling_than_the_model_was_made_for_is_refused(
    tmp_path: Path, weights: Weights, tokenizer: Tokenizer, declared: str, pooling: str
) -> None:
    """It would give vectors, and bad ones."""
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE)
    small_bert.write_pooling(tmp_path, declared)
    right = declared.partition("_")[0]
    for _ in ("as it was written for years", "as newer versions write it"):
        with pytest.raises(ConfigurationError, match=rf"memory\.embedding\.pooling is {pooling}.*set it to {right}"):
            load(tmp_path, pooling=pooling)
        load(tmp_path, pooling=right)
        (tmp_path / "1_Pooling" / "config.json").write_text(f'{{"pooling_mode": "{right}"}}')


def test_a_pooling_that_we_cannot_do_is_refused_unless_the_graph_does_it(
    tmp_path: Path, weights: Weights, tokenizer: Tokenizer
) -> None:
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE)
    small_bert.write_pooling(tmp_path, "lasttoken")
    with pytest.raises(ConfigurationError, match=r"lasttoken.*use an export that gives sentence_embedding"):
        load(tmp_path)
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE, output=small_bert.SENTENCE)
    load(tmp_path)


def test_a_pooling_file_that_says_nothing_is_no_hindrance(
    tmp_path: Path, weights: Weights, tokenizer: Tokenizer
) -> None:
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE)
    small_bert.write_pooling(tmp_path, "none of them")
    load(tmp_path)
    for content in ("", "[]", '{"pooling_mode": null}'):
        (tmp_path / "1_Pooling" / "config.json").write_text(content)
        load(tmp_path)


@pytest.mark.parametrize("output", [small_bert.TOKENS, small_bert.SENTENCE])
def test_another_dimension_names_both_settings_and_the_right_value(
    tmp_path: Path, weights: Weights, tokenizer: Tokenizer, output: str
) -> None:
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE, output=output)
    with pytest.raises(ConfigurationError, match=r"embedding\.dimension is 384, .* memory\.milvus\.dimension to 16"):
        load(tmp_path, dimension=384)


def test_more_tokens_than_the_model_has_places_for_name_the_setting(
    tmp_path: Path, weights: Weights, tokenizer: Tokenizer
) -> None:
    small_bert.write_graph(tmp_path / "model.onnx", weights, SHAPE)
    with pytest.raises(ConfigurationError, match=r"memory\.embedding\.max_tokens 33"):
        load(tmp_path, max_tokens=33)


def test_a_graph_under_another_name_is_named_and_not_guessed(
    tmp_path: Path, weights: Weights, tokenizer: Tokenizer
) -> None:
    for name in ("model_quantized.onnx", "model_fp16.onnx"):
        small_bert.write_graph(tmp_path / "onnx" / name, weights, SHAPE)
    with pytest.raises(ConfigurationError, match=r"model_fp16\.onnx, model_quantized\.onnx: name the one you want"):
        load(tmp_path)


def test_missing_files_name_the_setting_that_points_to_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"of small-bert there, or let memory\.embedding\.path"):
        load(tmp_path)


def config_of(directory: Path, **settings: object) -> Config:
    memory = Config().memory.model_copy(update={"embedding": CONFIG.model_copy(update={"path": directory, **settings})})
    return Config().model_copy(update={"memory": memory})


def test_what_is_fitted_for_a_model_is_in_use_with_it(tmp_path: Path, weights: Weights) -> None:
    """`make fit PROFILE=...` of one decision, and the start of a service; the default model has the package's weights."""
    directory = tmp_path / "model"
    directory.mkdir()
    small_bert.write_tokenizer(directory)
    small_bert.write_graph(directory / "model.onnx", weights, SHAPE)
    config = config_of(directory)
    passages = Logistic.load("passages")
    of_package = dict(passages.weights)
    with fitting.profile(config):
        fitted = documents.model()
        fitting.write("passages", fitted)
    assert json.loads((WEIGHTS / "passages.json").read_text(encoding="utf-8"))["weights"] == of_package

    load_embedder(config, model=None, progress=print)
    assert dict(passages.weights) == fitted["weights"] != of_package
    with pytest.raises(ConfigurationError, match="make fit PROFILE"):
        load_embedder(config_of(directory, pooling="cls"), model=None, progress=print)

    use_profile(tmp_path, "")
    assert dict(passages.weights) == of_package
