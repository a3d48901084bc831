"""Checks of the sidecar's settings, beyond what loading them refuses."""

from collections.abc import Iterator

from semrouter_memory.config import secret_readers
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import MIB, Finding, found
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.store.location import LiteFile, locate
from semrouter_memory.transport.server import is_local


def settings(context: CheckContext) -> Iterator[Finding]:
    config, memory, server = context.config, context.config.memory, context.config.server
    if not memory.enabled:
        yield found("memory-off", "memory.enabled")
    if memory.identity.trust_body:
        yield found("trust-body", "memory.identity.trust_body")
    if memory.redis.url is not None and isinstance(context.store, LiteFile):
        yield found("lite-with-redis", "memory.milvus")
    size, body = server.max_message_bytes, server.max_body_bytes
    if size <= body:
        yield found("message-size", "server.max_message_bytes", size=size, body=body, enough=body + 8 * MIB)
    # A process that reaches one of the ports can claim any user's identity.
    for name, listen in {"server.listen": server.listen, "management.listen": config.management.listen}.items():
        if not is_local(listen) and context.secret is None:
            yield found("secret-missing", name, listen=listen)
    try:
        locate(memory.milvus, memory.directory)
    except ConfigurationError as problem:
        yield found("milvus-uri", "memory.milvus.uri", problem=problem)
    for name, read in secret_readers(config):
        try:
            read()
        except ConfigurationError as problem:
            code = "api-key-missing" if name.startswith("external_models") else "secret-unreadable"
            yield found(code, name, problem=problem)


def model_files(context: CheckContext, *, elsewhere: bool) -> Iterator[Finding]:
    """The embedding model, loaded as the sidecar loads it; takes a second or two.

    A directory that does not exist here is an error only where the sidecar's settings were given and it runs here:
    without its settings the model's directory is unknown, and on another machine it cannot be looked for.

    Args:
        elsewhere: the sidecar may run on another machine.
    """
    from semrouter_memory.embedding.onnx import OnnxEmbedder  # noqa: PLC0415 - takes a second to load

    memory = context.config.memory
    if not memory.model_directory.is_dir() and (elsewhere or not context.config_given):
        return
    try:
        OnnxEmbedder.load(memory.embedding, memory.model_directory)
    except ConfigurationError as problem:
        yield found("embedding-model", "memory.embedding", problem=problem)
