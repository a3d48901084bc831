"""Which vector space a model directory spans: the manifest with the files, and the fingerprint made of it. No I/O.

Strategy: a fingerprint names what decides whether two vectors can be compared, and nothing else. For a built model that
is the published weights and the recipe, not the bytes of model.onnx, which differ between versions of the quantiser.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Self

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.errors import ConfigurationError

MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
MANIFEST_FILE = "manifest.json"

BUILT_MODEL = "all-MiniLM-L6-v2"
"""The model that `semrouter-memory model build` makes."""


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
    def from_json(cls, data: bytes) -> Self:
        """The manifest that `to_json` wrote.

        Raises:
            ConfigurationError: it is not one.
        """
        try:
            manifest = cls(**json.loads(data))
        except (ValueError, TypeError):
            raise ConfigurationError(f"{MANIFEST_FILE} is damaged; {remedy(BUILT_MODEL)}") from None
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


def fingerprint(config: EmbeddingConfig, origin: str) -> str:
    """A short name of the vector space, for example `all-MiniLM-L6-v2/384/9f0c2b7d41aa`."""
    parts = [config.model, config.dimension, config.pooling, config.query_prefix, config.passage_prefix, origin]
    digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
    return f"{config.model}/{config.dimension}/{digest[:12]}"


def remedy(model: str) -> str:
    """What to do about missing or damaged files of that model, as the end of a message."""
    if model == BUILT_MODEL:
        return "make it with `semrouter-memory model build`"
    return (
        f"put {MODEL_FILE} and {TOKENIZER_FILE} of {model} there, or let memory.embedding.path name their directory"
        f" (`semrouter-memory model build` makes {BUILT_MODEL} only)"
    )
