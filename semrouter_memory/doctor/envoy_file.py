"""An Envoy configuration on disk: read, bounded, and recognised for what it is.

Besides a bootstrap (YAML or JSON) a Kubernetes ConfigMap that carries one is taken. Whatever else is put in front of
doctor ends in one message that says what it looks like.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from semrouter_memory.doctor.place import At, keyed
from semrouter_memory.doctor.yaml_loader import EnvoyLoader
from semrouter_memory.errors import ConfigurationError

_MAX_BYTES = 4 * 1024 * 1024
_MAX_DEPTH = 100
_BOOTSTRAP_KEYS = frozenset(
    {
        "static_resources",
        "staticResources",
        "dynamic_resources",
        "dynamicResources",
        "layered_runtime",
        "layeredRuntime",
        "admin",
    }
)
_UNREADABLE = (yaml.YAMLError, ValueError, TypeError, OverflowError, RecursionError)
"""A date that is none and a number of a million digits are ValueErrors."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A value in the file that Envoy would refuse."""

    path: str
    what: str


@dataclass(frozen=True, slots=True)
class EnvoyFile:
    """A readable configuration."""

    bootstrap: At
    refused: tuple[Refused, ...]


def read(path: Path) -> EnvoyFile:
    """Read the file.

    Raises:
        ConfigurationError: it cannot be read, is too large, is not YAML, is not an Envoy bootstrap, or the packages that
            describe Envoy's messages are missing; the message says which.
    """
    value, where = _bootstrap_in(_documents(path), path)
    try:
        from semrouter_memory.doctor.typed import read_bootstrap  # noqa: PLC0415 - takes seconds to load
    except ImportError as error:
        raise ConfigurationError(
            f"reading Envoy's configuration needs envoy-data-plane: pip install 'semrouter-memory[doctor]' ({error.name})"
        ) from None
    try:
        bootstrap, problems = read_bootstrap(value, where)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None
    return EnvoyFile(bootstrap, tuple(Refused(problem.path, problem.what) for problem in problems))


def _documents(path: Path) -> list[Any]:
    try:
        if path.is_dir():
            raise ConfigurationError(f"{path} is a directory; name the Envoy configuration in it")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > _MAX_BYTES:
        raise ConfigurationError(f"{path} is larger than {_MAX_BYTES // 2**20} MiB: no Envoy configuration is")
    return _parsed(content, path)


def _parsed(content: bytes, source: Path) -> list[Any]:
    try:
        text = content.decode("utf-8-sig")
        _refuse_depth(text, source)
        return [document for document in yaml.load_all(text, EnvoyLoader) if document is not None]
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{source} is not text: byte {error.start} is no UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise ConfigurationError(f"{source} is not YAML{place}: {error.problem or 'it cannot be parsed'}") from None
    except _UNREADABLE as error:
        raise ConfigurationError(f"{source} is not YAML: {str(error).splitlines()[0][:200]}") from None


def _refuse_depth(text: str, source: Path) -> None:
    """The loader in C descends without a bound of its own, and takes the process with it."""
    depth = 0
    for event in yaml.parse(text, EnvoyLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise ConfigurationError(f"{source} is nested more than {_MAX_DEPTH} deep: no Envoy configuration is")


def _bootstrap_in(documents: list[Any], path: Path) -> tuple[dict[str, Any], str]:
    if not documents:
        raise ConfigurationError(f"{path} is empty: an Envoy bootstrap with static_resources was expected")
    found = [(document, "") for document in documents if _is_bootstrap(document)]
    found += list(_in_config_maps(documents, path))
    if len(found) > 1:
        raise ConfigurationError(f"{path} holds {len(found)} Envoy bootstraps; doctor reads one at a time")
    if found:
        return found[0]
    raise ConfigurationError(f"{path} is no Envoy bootstrap (static_resources): {_looks_like(documents[0])}")


def _is_bootstrap(document: Any) -> bool:
    return isinstance(document, dict) and not _BOOTSTRAP_KEYS.isdisjoint(
        key for key in document if isinstance(key, str)
    )


def _in_config_maps(documents: list[Any], path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    for document in documents:
        if not isinstance(document, dict) or document.get("kind") != "ConfigMap":
            continue
        data = document.get("data")
        for name, text in data.items() if isinstance(data, dict) else ():
            if isinstance(text, str) and ("static_resources" in text or "staticResources" in text):
                inner = _parsed(text.encode("utf-8", "replace"), path)
                if len(inner) == 1 and _is_bootstrap(inner[0]):
                    yield inner[0], keyed("data", str(name))


def _looks_like(document: Any) -> str:
    if not isinstance(document, dict):
        return "it holds no mapping"
    if {"memory", "server", "management", "external_models", "telemetry"} & set(map(str, document)):
        return "it looks like the sidecar's own settings, which belong behind --config"
    if "apiVersion" in document and "kind" in document:
        return "it is a Kubernetes manifest; doctor reads what Envoy itself is started with"
    if "configs" in document:
        return "it looks like a /config_dump; doctor reads what Envoy is started with"
    if "services" in document:
        return "it looks like a compose file; doctor reads what Envoy is started with"
    return f"its keys are {', '.join(ascii(str(key))[:40] for key in list(document)[:5])}"
