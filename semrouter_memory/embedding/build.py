"""`semrouter-memory model build`: the int8 ONNX file of all-MiniLM-L6-v2 from its published weights.

Needs the `model` extra (onnx, safetensors, pip). What needs it is imported when a model is really built, so that asking
whether there is one works without.
"""

import hashlib
import importlib
import time
from dataclasses import dataclass
from pathlib import Path

from semrouter_memory.embedding import files, weights
from semrouter_memory.embedding.profile import BUILT_MODEL, MANIFEST_FILE, MODEL_FILE, TOKENIZER_FILE, Manifest
from semrouter_memory.embedding.weights import Progress, PublishedModel
from semrouter_memory.errors import ConfigurationError

_RECIPE = "int8-1"
"""To be changed when the graph or its quantisation change so that old vectors no longer compare with new ones."""

ORIGIN = f"{weights.SHA256[weights.WEIGHTS_FILE][:16]}.{weights.SHA256[weights.TOKENIZER_FILE][:16]}.{_RECIPE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildReport:
    """How the model came to be.

    Attributes:
        built: False when a good file was there already and is used.
        size_bytes: of model.onnx.
        parity: worst cosine between int8 and float32 over a few sentences.
        seconds: wall time of this call.
    """

    directory: Path
    model: str
    built: bool
    size_bytes: int
    parity: float
    seconds: float


def build_model(directory: Path, *, progress: Progress, source: Path | None = None, force: bool = False) -> BuildReport:
    """Make model.onnx, tokenizer.json and manifest.json, unless they are there and undamaged.

    Args:
        directory: where they go; made when missing. Other files in it are left alone.
        progress: told each step in words for a person.
        source: directory with model.safetensors and tokenizer.json; None downloads them with pip.
        force: build even when a good model is there.

    Raises:
        ConfigurationError: no download, wrong checksums, failed comparison, a directory that cannot be written, or one
            with a model that this build did not make (`force` replaces it).
    """
    started = time.monotonic()
    manifest = None if force else _existing(directory)
    built = manifest is None
    if manifest is None:
        manifest = _build(directory, source, progress)
    return BuildReport(
        directory=directory,
        model=BUILT_MODEL,
        built=built,
        size_bytes=(directory / MODEL_FILE).stat().st_size,
        parity=manifest.parity,
        seconds=time.monotonic() - started,
    )


def _existing(directory: Path) -> Manifest | None:
    """The manifest of a model that needs no building."""
    try:
        manifest = files.read(directory, BUILT_MODEL).manifest
    except ConfigurationError:
        return None
    if manifest is None:
        raise ConfigurationError(f"{directory} holds a model that was put there by hand; only force replaces it")
    return manifest if manifest.origin == ORIGIN else None


def _build(directory: Path, source: Path | None, progress: Progress) -> Manifest:
    _require_extra()
    published = weights.fetch(source, progress)
    manifest, model = _make(published, progress)
    # The manifest goes first: if the rest is missing, reading notices, and the files are not taken for hand-made ones.
    contents = {MANIFEST_FILE: manifest.to_json(), MODEL_FILE: model, TOKENIZER_FILE: published.tokenizer}
    progress(f"writing {BUILT_MODEL} to {directory}")
    files.replace(directory, contents)
    return manifest


def _make(published: PublishedModel, progress: Progress) -> tuple[Manifest, bytes]:
    from semrouter_memory.embedding.quantize import SHAPE, quantized  # noqa: PLC0415 - needs the `model` extra

    model = quantized(published, progress)
    manifest = Manifest(
        model=BUILT_MODEL,
        dimension=SHAPE.dimension,
        pooling="mean",
        origin=ORIGIN,
        model_sha256=hashlib.sha256(model.content).hexdigest(),
        tokenizer_sha256=hashlib.sha256(published.tokenizer).hexdigest(),
        parity=round(model.parity, 4),
    )
    return manifest, model.content


def _require_extra() -> None:
    """Said before anything is downloaded."""
    for package in ("onnx", "safetensors", "pip"):
        try:
            importlib.import_module(package)
        except ImportError:
            raise ConfigurationError(
                f"building the model needs {package}; install it with `pip install 'semrouter-memory[model]'`"
            ) from None
