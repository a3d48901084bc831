"""The embedder over tiny models made here: every shape of model and tokenizer, and every way in which one fails."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Event

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding import onnx as onnx_embedder
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import ConfigurationError, Service, UnavailableError
from tests.raising import raising

WORDS = ["[CLS]", "[SEP]", "[UNK]", "red", "green", "query", "passage", "poison", "void"]
TABLE = np.array(
    [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 9, 0], [0, 0, 9], [5, 5, 0], [0, 5, 5], [0, 0, 0], [-1, 0, 0]],
    dtype=np.float32,
)
# A row less than words: the model has never heard of the last word that the tokenizer knows.
BROKEN_TABLE = TABLE[: WORDS.index("poison")]

CONFIG = EmbeddingConfig(model="colours", dimension=3, max_tokens=8)


def unit(*values: float) -> npt.NDArray[np.float32]:
    vector = np.array(values, dtype=np.float32)
    normalised: npt.NDArray[np.float32] = vector / np.linalg.norm(vector)
    return normalised


def write_tokenizer(directory: Path) -> None:
    """As published ones are: with padding and truncation of its own, which must not count."""
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 1)]
    )
    tokenizer.add_special_tokens(["[CLS]", "[SEP]", "[UNK]"])
    tokenizer.enable_padding(length=16)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(directory / "tokenizer.json"))


def write_model(directory: Path, table: npt.NDArray[np.float32] = TABLE, *inputs: str) -> None:
    """A table of word vectors with the interface of a plain export: one row per token, nothing pooled."""
    names = ["input_ids", "attention_mask", *inputs]
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "words",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in names],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "tokens", None])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, directory / "model.onnx")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    write_model(tmp_path)
    write_tokenizer(tmp_path)
    return tmp_path


Load = Callable[..., OnnxEmbedder]


@pytest.fixture
def load(directory: Path) -> Load:
    return lambda **settings: OnnxEmbedder.load(CONFIG.model_copy(update=settings), directory)


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [("mean", unit(1, 9, 9)), ("cls", unit(1, 0, 0))],
)
async def test_token_rows_are_pooled_as_configured(load: Load, pooling: str, expected: npt.NDArray[np.float32]) -> None:
    assert await load(pooling=pooling).embed_query("red green") == pytest.approx(expected)


async def test_each_kind_of_text_gets_its_prefix(load: Load) -> None:
    embedder = load(query_prefix="query: ", passage_prefix="passage: ")
    assert await embedder.embed_query("red") == pytest.approx(unit(6, 14, 0))
    assert (await embedder.embed_passages(["red"]))[0] == pytest.approx(unit(1, 14, 5))


async def test_a_passage_that_was_a_query_a_moment_ago_is_not_read_again(load: Load) -> None:
    """What a request asked with, the worker that learns from it embeds again; another prefix makes another text of it."""
    embedder = load()
    asked = await embedder.embed_query("red")
    (again,), (red, green) = [await embedder.embed_passages(texts) for texts in (["red"], ["red", "green"])]
    assert again is asked
    assert red is asked
    assert green != pytest.approx(red)
    assert await embedder.embed_query("red") is not asked
    embedder = load(query_prefix="query: ")
    assert (await embedder.embed_passages(["red"]))[0] != pytest.approx(await embedder.embed_query("red"))


async def test_segments_are_given_to_a_model_that_asks_for_them(directory: Path, load: Load) -> None:
    write_model(directory, TABLE, "token_type_ids")
    assert await load().embed_query("red") == pytest.approx(unit(1, 9, 0))


async def test_long_texts_are_cut_to_max_tokens(load: Load) -> None:
    """Eight tokens are [CLS], six words and [SEP]; "green" comes too late."""
    embedder = load(max_tokens=8)
    assert await embedder.embed_query("red " * 6 + "green") == pytest.approx(unit(1, 54, 0))
    assert await embedder.embed_query("red " * 5 + "green") == pytest.approx(unit(1, 45, 9))


@pytest.mark.parametrize(("prefix", "words"), [("", 6), ("red ", 5), ("red red ", 4)])
async def test_what_is_read_of_a_passage_is_told_to_the_token(load: Load, prefix: str, words: int) -> None:
    """Two special tokens and the prefix take their part."""
    embedder = load(max_tokens=8, passage_prefix=prefix)
    assert embedder.max_passage_tokens == words
    assert embedder.passage_tokens("red " * (words + 1)) == words + 1
    whole, longer = await embedder.embed_passages(["red " * words, "red " * words + "green"])
    assert np.array_equal(whole, longer)


async def test_passages_that_are_cut_are_told_and_queries_are_not(directory: Path) -> None:
    told: list[int] = []
    embedder = OnnxEmbedder.load(CONFIG.model_copy(update={"max_tokens": 8}), directory, truncated=told.append)
    await embedder.embed_query("red " * 100)
    await embedder.embed_passages(["red " * 6])
    assert told == []
    await embedder.embed_passages(["red " * 7, "red", "red " * 100])
    assert told == [2]


async def test_a_special_token_in_a_text_is_text(load: Load) -> None:
    """Otherwise a user could end their own passage, or begin it anew."""
    assert await load().embed_query("[CLS] red") == pytest.approx(unit(1, 9, 0))


def test_tokens_are_counted_without_special_ones_and_without_cutting(load: Load) -> None:
    assert load(max_tokens=8).count_tokens("red " * 100) == 100
    assert load().count_tokens("") == 0


def test_fingerprint_names_files_and_profile(directory: Path, load: Load) -> None:
    first = load().fingerprint
    assert load().fingerprint == first
    assert load(passage_prefix="passage: ").fingerprint != first
    write_model(directory, TABLE * 2)
    assert load().fingerprint != first


@pytest.mark.parametrize("text", ["red", "red " * 2_000], ids=["on the loop", "in a thread"])
async def test_a_failing_model_is_an_embedding_error_without_content(directory: Path, load: Load, text: str) -> None:
    write_model(directory, BROKEN_TABLE)
    embedder = load()
    with raising(UnavailableError, service=Service.EMBEDDING) as raised:
        await embedder.embed_query("poison " + text)
    assert "poison" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


async def test_one_failing_passage_fails_the_call(directory: Path, load: Load) -> None:
    write_model(directory, BROKEN_TABLE)
    with raising(UnavailableError, service=Service.EMBEDDING):
        await load().embed_passages(["red", "poison"])


async def test_a_vector_without_direction_is_an_embedding_error(load: Load) -> None:
    """[CLS] and "void" cancel each other."""
    with raising(UnavailableError, service=Service.EMBEDDING):
        await load().embed_query("void")


async def test_it_works_again_after_a_failure(load: Load) -> None:
    embedder = load()
    with raising(UnavailableError, service=Service.EMBEDDING):
        await embedder.embed_query("void")
    assert await embedder.embed_query("red") == pytest.approx(unit(1, 9, 0))


def test_another_dimension_names_both_settings(load: Load) -> None:
    with pytest.raises(
        ConfigurationError, match=r"embedding.dimension is 384, but the model gives 3; .*milvus.dimension"
    ):
        load(dimension=384)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_missing_file_is_named_with_the_fix(directory: Path, load: Load, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(ConfigurationError, match=rf"{name}: No such file .*semrouter-memory model build"):
        load(model="all-MiniLM-L6-v2")


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_file_that_is_something_else_is_refused(directory: Path, load: Load, name: str) -> None:
    (directory / name).write_bytes(b"<html>not found</html>")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        load()


def test_a_model_with_other_inputs_is_refused(directory: Path, load: Load) -> None:
    write_model(directory, TABLE, "pixel_values")
    with pytest.raises(ConfigurationError, match="pixel_values"):
        load()


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="semrouter-memory model build"):
        OnnxEmbedder.load(EmbeddingConfig(), tmp_path / "nowhere")


async def test_a_query_is_being_embedded_when_its_caller_goes_on(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, end, embedder = [], Event(), load()

    class Beginning(Event):
        def set(self) -> None:
            begun.append(self)
            super().set()

    def read(_: str) -> tuple[npt.NDArray[np.float32], bool]:
        end.wait(5)
        return unit(1, 9, 0), False

    monkeypatch.setattr(onnx_embedder, "_BEGINNING_SECONDS", 5)
    monkeypatch.setattr(onnx_embedder, "Event", Beginning)
    monkeypatch.setattr(embedder, "_read", read)
    first = asyncio.create_task(embedder.embed_query("red"))
    await asyncio.sleep(0)
    assert len(begun) == 1
    second = asyncio.create_task(embedder.embed_query("green"))
    await asyncio.sleep(0)
    # The thread is not idle, and the caller does not wait for it.
    assert len(begun) == 1
    end.set()
    await asyncio.gather(first, second)
    assert len(begun) == 2
