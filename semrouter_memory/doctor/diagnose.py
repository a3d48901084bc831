"""One diagnosis: reads both configurations, runs the checks, asks the servers. An unreadable file is a finding, too.

Strategy: tables say which checks there are. Each is a function from the context, and from what it checks, to findings.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from semrouter_memory.config import ENV_PREFIX, Config, load, secret, secret_readers
from semrouter_memory.doctor import envoy_file, identity, memory_filters, routes
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import MIB, Finding, Severity, found
from semrouter_memory.doctor.gateway import HttpFilterChain
from semrouter_memory.doctor.node import Node
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.sockets import is_local
from semrouter_memory.store.location import LiteFile, locate

ENVOY: tuple[Callable[[CheckContext], Iterable[Finding]], ...] = (
    memory_filters.all_is_in_the_file,
    memory_filters.memory_filters_exist,
    memory_filters.secret_is_sent,
    routes.filters_call_a_cluster,
    routes.addresses_agree,
    routes.sidecar_is_spoken_to,
    routes.api_is_reachable,
    routes.streams_end_gracefully,
)
"""Checks of Envoy's configuration as a whole, together with the sidecar's."""

MEMORY_CHAINS: tuple[Callable[[CheckContext, HttpFilterChain], Iterable[Finding]], ...] = (
    memory_filters.fields_fit_the_role,
    memory_filters.each_task_has_one_filter,
    memory_filters.bodies_may_be_changed,
    memory_filters.filters_agree,
    memory_filters.settings_are_known,
    memory_filters.bodies_are_read_in_their_order,
    memory_filters.results_are_received,
    routes.manager_fits,
    routes.memory_is_on_for_chats_alone,
    routes.upgrades_are_not_held,
    routes.bodies_fit_the_route,
    routes.answers_may_take_long,
    routes.overrides_name_filters,
    routes.answers_outlive_the_sidecar,
    identity.ids_are_not_sent_upstream,
)
"""Checks of each chain that has memory filters."""

GUARDED_CHAINS: tuple[Callable[[CheckContext, HttpFilterChain], Iterable[Finding]], ...] = (
    identity.clients_cannot_claim_identity,
    identity.users_are_authenticated_first,
    identity.users_come_from_a_verified_source,
    identity.tokens_are_required,
    identity.keys_are_safe,
    identity.blank_ends_are_refused,
)
"""Checks of each chain through which memories can be reached, the management API's included."""


def diagnose(envoy: Path | None = None, config: Path | None = None, *, offline: bool = False) -> list[Finding]:
    """Check everything; errors come first.

    Args:
        envoy: Envoy's configuration; None: only the sidecar's is checked.
        config: the sidecar's settings; None: the defaults.
        offline: do not connect to anything.
    """
    findings: list[Finding] = []
    settings = _settings(config, findings)
    bootstrap = _bootstrap(envoy, findings) if envoy is not None else Node(None)
    known = None
    with suppress(ConfigurationError):  # _settings_findings reports that
        known = secret(settings.server.shared_secret, settings.server.shared_secret_file) if settings else None
    by_environment = any(name.upper().startswith(ENV_PREFIX) for name in os.environ)
    context = CheckContext(
        bootstrap=bootstrap,
        config=settings or Config.model_construct(),
        config_given=settings is not None and (config is not None or by_environment),
        secret=known,
    )
    findings = [*run_checks(context), *findings]
    if settings is not None:
        findings += model_files(context, elsewhere=offline)
        findings += [] if offline else asyncio.run(_servers(context))
    return sorted(_once(findings), key=lambda finding: finding.severity is not Severity.ERROR)


def run_checks(context: CheckContext) -> list[Finding]:
    """The findings of all checks that apply, and the values that they could not read; each place and code once."""
    findings = [*_settings_findings(context)]
    if context.bootstrap:
        guarded = [chain for chain in context.chains if chain.memory or chain.api_routes]
        findings += [finding for check in ENVOY for finding in check(context)]
        for checks, chains in ((MEMORY_CHAINS, context.memory_chains), (GUARDED_CHAINS, guarded)):
            findings += [finding for chain in chains for check in checks for finding in check(context, chain)]
        for cluster in context.memory_clusters:
            findings += [*routes.endpoints_take_the_load(context, cluster), *routes.limits_fit(context, cluster)]
    findings += [found("envoy-field", path, problem=problem) for path, problem in context.bootstrap.misread.items()]
    return _once(findings)


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """The first finding of each code at each place."""
    first: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        first.setdefault((finding.code, finding.where), finding)
    return list(first.values())


def _settings(path: Path | None, findings: list[Finding]) -> Config | None:
    try:
        return load(path)
    except ConfigurationError as problem:
        code = "dimension-mismatch" if "memory.embedding.dimension" in str(problem) else "configuration"
        findings.append(found(code, str(path or "the environment"), problem=problem))
        return None


def _bootstrap(path: Path, findings: list[Finding]) -> Node:
    try:
        bootstrap, text = envoy_file.read(path)
    except ConfigurationError as problem:
        findings.append(found("envoy-unreadable", str(path), problem=problem))
        return Node(None)
    findings += envoy_file.validate(text, str(path))
    return bootstrap


async def _servers(context: CheckContext) -> list[Finding]:
    from semrouter_memory.doctor import servers  # noqa: PLC0415 - takes a second to load

    answers = await asyncio.gather(*map(servers.ask, servers.probes(context)))
    return [finding for answer in answers for finding in answer]


# -- the sidecar --------------------------------------------------------------------------------------------------------


def _settings_findings(context: CheckContext) -> Iterator[Finding]:
    """Mistakes in the sidecar's settings, beyond what loading them refuses."""
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
