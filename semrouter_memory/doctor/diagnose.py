"""One diagnosis: read both configurations, run the checks, ask the endpoints. Whatever cannot be read is a finding, too."""

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from semrouter_memory.config import ENV_PREFIX, Config, load, secret
from semrouter_memory.doctor import checks, envoy_file
from semrouter_memory.doctor.case import Case, case_of
from semrouter_memory.doctor.finding import Diagnosis, Finding, Severity, error
from semrouter_memory.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be looked at.

    Attributes:
        envoy: Envoy's configuration; None: only the sidecar's is checked.
        config: the sidecar's; None: its defaults.
        offline: nothing is connected to.
    """

    envoy: Path | None = None
    config: Path | None = None
    offline: bool = False


Progress = Callable[[str], object]


def diagnose(request: Request, progress: Progress = lambda _: None) -> Diagnosis:
    """Look at everything.

    Args:
        progress: told what is being looked at.
    """
    findings: list[Finding] = []
    config = _config(request, findings)
    progress("reading Envoy's configuration")
    case = _case(request, config, findings)
    progress("checking")
    findings += checks.run(case)
    if config is not None:
        findings += _files(case, progress, elsewhere=request.offline)
        if not request.offline:
            findings += asyncio.run(_endpoints(case, progress))
    return Diagnosis(tuple(sorted(findings, key=lambda finding: finding.severity is not Severity.ERROR)))


def _config(request: Request, findings: list[Finding]) -> Config | None:
    try:
        return load(request.config)
    except ConfigurationError as problem:
        code = "dimension-mismatch" if "memory.embedding.dimension" in str(problem) else "configuration"
        where = str(request.config or "the environment")
        findings.append(error(code, where, str(problem), "`semrouter-memory config reference` lists what there is"))
        return None


def _case(request: Request, config: Config | None, findings: list[Finding]) -> Case:
    settings = config or Config.model_construct()
    given = config is not None and (request.config is not None or _is_configured_by_environment())
    shared = _secret(settings)
    if request.envoy is not None:
        try:
            file = envoy_file.read(request.envoy)
        except ConfigurationError as problem:
            findings.append(
                error("envoy-unreadable", str(request.envoy), str(problem), "give what Envoy is started with")
            )
        else:
            findings += [
                error(
                    "envoy-field",
                    each.path,
                    each.what,
                    "mend it, or Envoy does not start (a field newer than the installed envoy-data-plane is not known here)",
                )
                for each in file.refused
            ]
            return case_of(file.bootstrap, settings, given=given, secret=shared)
    return Case(config=settings, given=given, secret=shared)


def _secret(config: Config) -> str | None:
    try:
        return secret(config.server.shared_secret, config.server.shared_secret_file)
    except ConfigurationError:
        return None  # a check says so


def _is_configured_by_environment() -> bool:
    return any(name.upper().startswith(ENV_PREFIX) for name in os.environ)


def _files(case: Case, progress: Progress, *, elsewhere: bool) -> Sequence[Finding]:
    from semrouter_memory.doctor import model_files  # noqa: PLC0415 - takes a second to load

    progress("loading the embedding model")
    return list(model_files.check(case, elsewhere=elsewhere))


async def _endpoints(case: Case, progress: Progress) -> list[Finding]:
    from semrouter_memory.doctor import endpoints  # noqa: PLC0415 - same

    waiting = endpoints.probes(case)
    progress("asking " + ", ".join(dict.fromkeys(probe.what for probe in waiting)))
    return [finding for found in await asyncio.gather(*map(endpoints.ask, waiting)) for finding in found]
