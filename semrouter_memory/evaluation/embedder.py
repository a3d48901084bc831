"""Loads the service's embedding model for an evaluation; builds it once if it is missing."""

from pathlib import Path

from semrouter_memory.config import Config
from semrouter_memory.embedding.build import Progress, build_model
from semrouter_memory.embedding.files import BUILT_MODEL, MODEL_FILE
from semrouter_memory.embedding.onnx import OnnxEmbedder

CHECKOUT_MODEL = Path(".cache/model")
"""Where the Makefile's targets keep the model, seen from the checkout."""


def load_embedder(config: Config, *, model: Path | None, progress: Progress) -> OnnxEmbedder:
    """Load the configured model.

    Args:
        model: its directory; None looks where the configuration says, then in `.cache/model`, and when neither has one
            builds the published model where the configuration says.
        progress: called with each step of the build, which takes half a minute and a download.

    Raises:
        ConfigurationError: there is none and it cannot be built, or it is not what the settings say.
    """
    section = config.memory.embedding
    directory = model or _directory(config)
    if model is None and section.model == BUILT_MODEL and not (directory / MODEL_FILE).exists():
        progress(f"no embedding model in {directory}: building it, once")
        build_model(directory, progress=progress)
    return OnnxEmbedder.load(section, directory)


def _directory(config: Config) -> Path:
    configured = config.memory.model_directory
    if (configured / MODEL_FILE).exists() or not (CHECKOUT_MODEL / MODEL_FILE).exists():
        return configured
    return CHECKOUT_MODEL if config.memory.embedding.model == BUILT_MODEL else configured
