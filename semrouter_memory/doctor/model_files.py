"""The embedding model's directory, loaded as the sidecar would load it."""

from collections.abc import Iterator

from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.finding import Finding, error
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import ModelFileError


def check(case: Case, *, elsewhere: bool) -> Iterator[Finding]:
    """What is wrong with the files; a second or two, for they are read whole.

    A directory that does not exist here is an error only where the sidecar's settings were given and it runs here:
    without its settings the model's place is unknown, and on another machine it cannot be looked for.

    Args:
        elsewhere: the sidecar may run on another machine.
    """
    memory = case.config.memory
    if not memory.model_directory.is_dir() and (elsewhere or not case.given):
        return
    try:
        OnnxEmbedder.load(memory.embedding, memory.model_directory)
    except ModelFileError as problem:
        yield error(
            "embedding-model",
            "memory.embedding",
            str(problem),
            "semrouter-memory model build, or memory.embedding.path",
        )
