"""A model directory on disk: reading it with its manifest and checksums, replacing it file by file, and its fingerprint.

A fingerprint names what decides whether two vectors can be compared, and nothing else. For a built model that is the published
weights and the recipe, not the bytes of model.onnx, which differ between versions of the quantiser.

Two layouts are read: everything in one directory, as the build and most exporters write it, and the graph in a
subdirectory `onnx`, as models are published with several of them.
"""

import hashlib
import json
import os
import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.errors import ConfigurationError

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
MANIFEST_FILE = "manifest.json"

BUILT_MODEL = "all-MiniLM-L6-v2"
"""The model that `semrouter-memory model build` makes."""

_SUBDIRECTORY = "onnx"
_EXTERNAL_WEIGHTS = ("model.onnx_data", "model.onnx.data")
"""Exporters' name of the file with the weights, when these are too large for the graph's file."""

_POOLING_FILE = Path("1_Pooling", "config.json")
"""In directories that sentence-transformers wrote."""

_OUR_POOLING = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the build says of its files.

    Attributes:
        origin: names weights, tokenizer and recipe.
        model_sha256: of model.onnx, so that a damaged file is noticed.
        tokenizer_sha256: of tokenizer.json.
        parity: worst cosine between int8 and float32 vectors seen when the file was built.
    """

    model: str
    dimension: int
    pooling: str
    origin: str
    model_sha256: str
    tokenizer_sha256: str
    parity: float

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=2).encode() + b"\n"

    @classmethod
    def from_json(cls, data: bytes, directory: Path) -> Self:
        """The manifest that `to_json` wrote.

        Raises:
            ConfigurationError: it is not one.
        """
        try:
            manifest = cls(**json.loads(data))
        except (ValueError, TypeError):
            raise ConfigurationError(f"{MANIFEST_FILE} is damaged; {remedy(BUILT_MODEL, directory)}") from None
        return manifest

    def check(self, config: EmbeddingConfig) -> None:
        """Compare with the configured profile.

        Raises:
            ConfigurationError: it names the first setting that differs.
        """
        for setting in ("model", "dimension", "pooling"):
            configured, actual = getattr(config, setting), getattr(self, setting)
            if configured != actual:
                raise ConfigurationError(
                    f"memory.embedding.{setting} is {configured}, but the model file was made for {actual};"
                    f" set it to {actual}, or point memory.embedding.path to another model"
                )


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A complete, undamaged model directory.

    Attributes:
        origin: what the files were made from; for files without a manifest, their own checksums.
        manifest: None for a model that was put there by hand.
        pooling: how the model was trained to be pooled, as far as a file in the directory says so; else "".
    """

    model: Path
    tokenizer: Path
    origin: str
    manifest: Manifest | None
    pooling: str = ""


def read(directory: Path, model: str) -> ModelFiles:
    """Find the files and hold them against their manifest.

    Raises:
        ConfigurationError: a file is missing or damaged; the message says what to do.
    """
    paths = _found(directory, MODEL_FILE), _found(directory, TOKENIZER_FILE)
    weights = [path for name in _EXTERNAL_WEIGHTS if (path := paths[0].with_name(name)).exists()]
    try:
        model_sha256, tokenizer_sha256, *more_sha256 = (sha256_of(path) for path in (*paths, *weights))
        manifest = _manifest(directory)
    except OSError as error:
        name = Path(error.filename or MODEL_FILE).name
        hint = _named_otherwise(directory) if name == MODEL_FILE else ""
        raise ConfigurationError(
            f"no embedding model in {directory}: {name}: {error.strerror}{hint}; {remedy(model, directory)}"
        ) from None
    if manifest is None:
        origin = ".".join((model_sha256, tokenizer_sha256, *more_sha256))
        return ModelFiles(*paths, origin=origin, manifest=None, pooling=_declared_pooling(directory))
    if (manifest.model_sha256, manifest.tokenizer_sha256) != (model_sha256, tokenizer_sha256):
        raise ConfigurationError(
            f"the embedding model in {directory} is damaged (checksum); {remedy(model, directory)}"
        )
    return ModelFiles(*paths, origin=manifest.origin, manifest=manifest)


def replace(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write files in the given order, so that each is whole at every moment.

    Raises:
        ConfigurationError: the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            _replace(directory / name, content)
    except OSError as error:
        raise ConfigurationError(f"cannot write the embedding model to {directory}: {error.strerror}") from None


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _found(directory: Path, name: str) -> Path:
    inner = directory / _SUBDIRECTORY / name
    return inner if inner.exists() and not (directory / name).exists() else directory / name


def _named_otherwise(directory: Path) -> str:
    """Published models often carry several graphs (`model_quantized.onnx`); which one is meant is not for us to say."""
    found = sorted(path.name for path in chain(directory.glob("*.onnx"), directory.glob(f"{_SUBDIRECTORY}/*.onnx")))
    return f", but {', '.join(found)}: name the one you want {MODEL_FILE}" if found else ""


def _declared_pooling(directory: Path) -> str:
    try:
        declared: Any = json.loads((directory / _POOLING_FILE).read_bytes())
        modes = [name for name, value in declared.items() if name.startswith("pooling_mode_") and value is True]
        named = str(declared.get("pooling_mode") or "+".join(modes))
    except (OSError, ValueError, AttributeError):
        return ""
    return _OUR_POOLING.get(named, named)


def _manifest(directory: Path) -> Manifest | None:
    path = directory / MANIFEST_FILE
    return Manifest.from_json(path.read_bytes(), directory) if path.exists() else None


def _replace(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            # mkstemp makes files for the owner only; a model in an image is read by another user than its builder.
            os.fchmod(file.fileno(), 0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def fingerprint(config: EmbeddingConfig, origin: str) -> str:
    """A short name of the vector space, for example `all-MiniLM-L6-v2/384/9f0c2b7d41aa`."""
    parts = [config.model, config.dimension, config.pooling, config.query_prefix, config.passage_prefix, origin]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{config.model}/{config.dimension}/{digest[:12]}"


def remedy(model: str, directory: Path) -> str:
    """What to do about missing or damaged files of that model, as the end of a message."""
    if model == BUILT_MODEL:
        return f"make it with `semrouter-memory model build --directory {shlex.quote(str(directory.absolute()))}`"
    return (
        f"put {MODEL_FILE} and {TOKENIZER_FILE} of {model} there, or let memory.embedding.path name their directory"
        f" (`semrouter-memory model build` makes {BUILT_MODEL} only)"
    )
