"""A model directory on disk: reading it with its checksums, and replacing it file by file."""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from semrouter_memory.embedding.profile import MANIFEST_FILE, MODEL_FILE, TOKENIZER_FILE, Manifest, remedy
from semrouter_memory.errors import ModelFileError


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A complete, undamaged model directory.

    Attributes:
        origin: what the files were made from; for files without a manifest, their own checksums.
        manifest: None for a model that was put there by hand.
    """

    model: Path
    tokenizer: Path
    origin: str
    manifest: Manifest | None


def read(directory: Path, model: str) -> ModelFiles:
    """Find the files and hold them against their manifest.

    Raises:
        ModelFileError: a file is missing or damaged; the message says what to do.
    """
    paths = directory / MODEL_FILE, directory / TOKENIZER_FILE
    try:
        model_sha256, tokenizer_sha256 = (sha256_of(path) for path in paths)
        manifest = _manifest(directory)
    except OSError as error:
        name = Path(error.filename or MODEL_FILE).name
        raise ModelFileError(f"no embedding model in {directory}: {name}: {error.strerror}; {remedy(model)}") from None
    if manifest is None:
        return ModelFiles(*paths, origin=f"{model_sha256}.{tokenizer_sha256}", manifest=None)
    if (manifest.model_sha256, manifest.tokenizer_sha256) != (model_sha256, tokenizer_sha256):
        raise ModelFileError(f"the embedding model in {directory} is damaged (checksum); {remedy(model)}")
    return ModelFiles(*paths, origin=manifest.origin, manifest=manifest)


def replace(directory: Path, contents: Mapping[str, bytes]) -> None:
    """Write files in the given order, so that each is whole at every moment.

    Raises:
        ModelFileError: the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            _replace(directory / name, content)
    except OSError as error:
        raise ModelFileError(f"cannot write the embedding model to {directory}: {error.strerror}") from None


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(directory: Path) -> Manifest | None:
    path = directory / MANIFEST_FILE
    return Manifest.from_json(path.read_bytes()) if path.exists() else None


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
