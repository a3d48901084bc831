"""Checks of the sidecar's own settings, as far as loading them has not refused them already."""

from collections.abc import Iterator

from semrouter_memory.config import secret
from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.finding import Finding, error, warning
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.store.location import LiteFile, Server, locate
from semrouter_memory.transport.server import is_local


def recall_is_on(case: Case) -> Iterator[Finding]:
    if not case.config.memory.enabled:
        yield warning("memory-off", "memory.enabled", "nothing is recalled and nothing learned", "memory.enabled: true")


def keys_are_set(case: Case) -> Iterator[Finding]:
    """What settings say about where a secret is, and there is none."""
    memory, server, management = case.config.memory, case.config.server, case.config.management
    files = {
        "server.shared_secret_file": (server.shared_secret, server.shared_secret_file),
        "management.operator_token_file": (management.operator_token, management.operator_token_file),
        "memory.milvus.token_file": (memory.milvus.token, memory.milvus.token_file),
        "memory.redis.password_file": (memory.redis.password, memory.redis.password_file),
    }
    for name, (value, file) in files.items():
        try:
            secret(value, file)
        except ConfigurationError as problem:
            yield error(
                "secret-unreadable", name, str(problem), "write the secret into that file, readable by the sidecar"
            )
    for index, model in enumerate(case.config.external_models):
        try:
            _ = model.api_key
        except ConfigurationError as problem:
            yield error(
                "api-key-missing",
                f"external_models[{index}]",
                str(problem),
                "set it where the sidecar runs, or leave it out for a server without keys",
            )


def addresses_are_guarded(case: Case) -> Iterator[Finding]:
    """Whoever reaches one of the ports can claim any user's identity."""
    listens = {"server.listen": case.config.server.listen, "management.listen": case.config.management.listen}
    for name, listen in listens.items():
        if not is_local(listen) and case.secret is None:
            yield error(
                "secret-missing",
                name,
                f"others can reach {listen} and claim any user's identity; the sidecar does not start without a secret",
                "listen on a Unix socket or 127.0.0.1, or set server.shared_secret_file and send it from Envoy",
            )


def store_is_named(case: Case) -> Iterator[Finding]:
    try:
        _location(case)
    except ConfigurationError as problem:
        yield error("milvus-uri", "memory.milvus.uri", str(problem), "for example http://milvus:19530")


def replicas_share(case: Case) -> Iterator[Finding]:
    if case.config.memory.redis.url is not None and keeps_a_file(case):
        yield warning(
            "lite-with-redis",
            "memory.milvus",
            "Redis is there for replicas, but memories are in a Milvus Lite file, which belongs to one process",
            "memory.milvus.address of a Milvus server",
        )


def keeps_a_file(case: Case) -> bool:
    """Whether memories are in a Milvus Lite file."""
    try:
        return isinstance(_location(case), LiteFile)
    except ConfigurationError:
        return False


def _location(case: Case) -> Server | LiteFile:
    return locate(case.config.memory.milvus, case.config.memory.directory)
