"""The embedding model's directory, loaded as the sidecar would load it."""

from collections.abc import Iterator

from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.errors import ModelFileError


def check(case: Case, *, elsewhere: bool) -> Iterator[Finding]:
    """What is wrong with the files; a second or two, for they are read whole.

    Args:
        elsewhere: the sidecar may run on another machine, so files that are not here may be there.
    """
    memory = case.config.memory
    try:
        OnnxEmbedder.load(memory.embedding, memory.model_directory)
    except ModelFileError as problem:
        # Without settings of its own, the sidecar's may name another directory.
        is_there = memory.model_directory.is_dir()
        make = error if is_there or (case.given and not elsewhere) else warning
        yield make(
            "embedding-model",
            "memory.embedding",
            str(problem),
            "semrouter-memory model build, or memory.embedding.path"
            if case.given
            else "give the settings: --config FILE",
        )
