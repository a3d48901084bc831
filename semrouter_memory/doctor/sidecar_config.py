"""Checks of the sidecar's settings, beyond what loading them refuses."""

from collections.abc import Iterator

from semrouter_memory.config import secret_readers
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import MIB, Finding, found
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.store.location import LiteFile, Server, locate
from semrouter_memory.transport.server import is_local


def memory_is_on(context: CheckContext) -> Iterator[Finding]:
    if not context.config.memory.enabled:
        yield found("memory-off", "memory.enabled")


def secrets_are_readable(context: CheckContext) -> Iterator[Finding]:
    for name, read in secret_readers(context.config):
        try:
            read()
        except ConfigurationError as problem:
            code = "api-key-missing" if name.startswith("external_models") else "secret-unreadable"
            yield found(code, name, problem=problem)


def open_ports_have_a_secret(context: CheckContext) -> Iterator[Finding]:
    """A process that reaches one of the ports can claim any user's identity."""
    listens = {"server.listen": context.config.server.listen, "management.listen": context.config.management.listen}
    for name, listen in listens.items():
        if not is_local(listen) and context.secret is None:
            yield found("secret-missing", name, listen=listen)


def store_address_is_valid(context: CheckContext) -> Iterator[Finding]:
    try:
        locate(context.config.memory.milvus, context.config.memory.directory)
    except ConfigurationError as problem:
        yield found("milvus-uri", "memory.milvus.uri", problem=problem)


def replicas_share_a_store(context: CheckContext) -> Iterator[Finding]:
    if context.config.memory.redis.url is not None and uses_lite(context):
        yield found("lite-with-redis", "memory.milvus")


def body_is_not_trusted(context: CheckContext) -> Iterator[Finding]:
    if context.config.memory.identity.trust_body:
        yield found("trust-body", "memory.identity.trust_body")


def messages_hold_bodies(context: CheckContext) -> Iterator[Finding]:
    server = context.config.server
    if server.max_message_bytes <= server.max_body_bytes:
        size, body = server.max_message_bytes, server.max_body_bytes
        yield found("message-size", "server.max_message_bytes", size=size, body=body, enough=body + 8 * MIB)


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


def uses_lite(context: CheckContext) -> bool:
    """Whether memories are in a Milvus Lite file."""
    return isinstance(store_location(context), LiteFile)


def store_location(context: CheckContext) -> Server | LiteFile | None:
    """None where `store_address_is_valid` finds a mistake."""
    try:
        return locate(context.config.memory.milvus, context.config.memory.directory)
    except ConfigurationError:
        return None
