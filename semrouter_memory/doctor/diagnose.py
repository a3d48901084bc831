"""One diagnosis: reads both configurations, runs the checks, asks the servers. An unreadable file is a finding, too."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from semrouter_memory.config import ENV_PREFIX, Config, load, secret
from semrouter_memory.doctor import checks, envoy_file, envoy_validation, sidecar_config
from semrouter_memory.doctor.context import CheckContext, context_of
from semrouter_memory.doctor.finding import Diagnosis, Finding, Severity, found
from semrouter_memory.doctor.node import Node
from semrouter_memory.errors import ConfigurationError

Progress = Callable[[str], object]


def diagnose(
    envoy: Path | None = None,
    config: Path | None = None,
    *,
    offline: bool = False,
    progress: Progress = lambda _: None,
) -> Diagnosis:
    """Check everything.

    Args:
        envoy: Envoy's configuration; None: only the sidecar's is checked.
        config: the sidecar's settings; None: the defaults.
        offline: do not connect to anything.
        progress: is called with each step.
    """
    findings: list[Finding] = []
    settings = _settings(config, findings)
    bootstrap = _bootstrap(envoy, findings, progress) if envoy is not None else Node(None)
    context = context_of(
        bootstrap,
        settings or Config.model_construct(),
        config_given=settings is not None and (config is not None or _is_configured_by_environment()),
        secret=_secret(settings) if settings is not None else None,
    )
    progress("checking")
    findings = [*checks.run(context), *findings]
    if settings is not None:
        progress("loading the embedding model")
        findings += sidecar_config.model_files(context, elsewhere=offline)
        findings += [] if offline else asyncio.run(_servers(context, progress))
    ordered = sorted(checks.once(findings), key=lambda finding: finding.severity is not Severity.ERROR)
    return Diagnosis(tuple(ordered))


def _settings(path: Path | None, findings: list[Finding]) -> Config | None:
    try:
        return load(path)
    except ConfigurationError as problem:
        code = "dimension-mismatch" if "memory.embedding.dimension" in str(problem) else "configuration"
        findings.append(found(code, str(path or "the environment"), problem=problem))
        return None


def _bootstrap(path: Path, findings: list[Finding], progress: Progress) -> Node:
    progress("reading Envoy's configuration")
    try:
        file = envoy_file.read(path)
    except ConfigurationError as problem:
        findings.append(found("envoy-unreadable", str(path), problem=problem))
        return Node(None)
    progress("validating Envoy's configuration")
    findings += envoy_validation.validate(file, str(path))
    return file.bootstrap


def _secret(config: Config) -> str | None:
    try:
        return secret(config.server.shared_secret, config.server.shared_secret_file)
    except ConfigurationError:
        return None  # secrets_are_readable reports that


def _is_configured_by_environment() -> bool:
    return any(name.upper().startswith(ENV_PREFIX) for name in os.environ)


async def _servers(context: CheckContext, progress: Progress) -> list[Finding]:
    from semrouter_memory.doctor import servers  # noqa: PLC0415 - takes a second to load

    probes = servers.probes(context)
    progress("asking " + ", ".join(dict.fromkeys(probe.server for probe in probes)))
    return [finding for answer in await asyncio.gather(*map(servers.ask, probes)) for finding in answer]
