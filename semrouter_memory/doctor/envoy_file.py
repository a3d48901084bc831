"""An Envoy configuration on disk: read within bounds, and validated by Envoy where it is installed.

A dump of what a running Envoy uses (`/config_dump` of its admin port) becomes the bootstrap that says the same: so what came
over xDS is checked, too. Any other file ends in one message that says what it looks like.

Strategy of the validation: Envoy stops at the first mistake and names its path in most cases. Of its message only the reason
is shown, because the rest repeats the whole configuration with the keys in it. Messages that depend on the machine (files,
extensions) say nothing about the configuration.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from semrouter_memory.doctor.finding import Finding, found
from semrouter_memory.doctor.node import Node
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.stack.envoy import find_envoy

_MAX_BYTES = 4 * 1024 * 1024
_MAX_DEPTH = 100
_MAX_VALUES = 300_000
_BOOTSTRAP_KEYS = ("static_resources", "dynamic_resources", "layered_runtime", "admin")
_DUMPED = {"Listener": "listeners", "Cluster": "clusters", "RouteConfiguration": "routes"}
"""The resources in a dump, by their messages."""
_UNUSED = frozenset({"warming_state", "warmingState", "draining_state", "drainingState", "error_state", "errorState"})
"""Where a dump has what Envoy does not use yet, or no longer, or never."""
_OF_ADMIN = "type.googleapis.com/envoy.admin."
"""Begins the types in a dump, which no bootstrap has."""
_TIMEOUT_SECONDS = 30
_MAX_MESSAGE_CHARS = 300
_LOCATED = re.compile(r"@ (?P<path>[^:]+): (?P<type>.+?), near \S+ \(offset \d+\): (?P<reason>.+)")
_UNKNOWN_FIELD = "no such field: '"
_FOREIGN_TYPE = re.compile(r"could not find @type '[^']*/(?!envoy\.)|Didn't find a registered implementation")
_MACHINE = ("failed to load", "unable to read", "invalid path", "does not exist", "no such file")
_IGNORED = "!ignore"
"""The tag of a key that Envoy drops with its value; a place for anchors."""
_NULL = "tag:yaml.org,2002:null"
_BASE: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Loader(_BASE):  # type: ignore[misc]  # which of the two there is, only the installation tells
    """Every scalar is text: Envoy decides by the field what a value means, and knows neither dates nor merge keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's signature
        node.value = [(key, value) for key, value in node.value if key.tag != _IGNORED]
        return super().construct_mapping(node, deep=deep)


_Loader.add_implicit_resolver(_NULL, re.compile("(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
_Loader.add_constructor(_NULL, lambda *_: None)


def read(path: Path) -> tuple[Node, str]:
    """The bootstrap in a file, and the file's text.

    Raises:
        ConfigurationError: it cannot be read, is too large, is not YAML, or is not an Envoy bootstrap; the message says
            which.
    """
    try:
        if path.is_dir():
            raise ConfigurationError(f"{path} is a directory; name the Envoy configuration in it")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    if len(content) > _MAX_BYTES:
        raise ConfigurationError(f"{path} is larger than {_MAX_BYTES // 2**20} MiB, more than doctor reads")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not text: byte {error.start} is no UTF-8") from None
    return parse(text, str(path)), text


def parse(text: str, source: str) -> Node:
    """The only bootstrap in a text.

    Raises:
        ConfigurationError: same as `read`.
    """
    documents = _documents(text, source)
    if not documents:
        raise ConfigurationError(f"{source} is empty: an Envoy bootstrap with static_resources was expected")
    bootstraps = [document for document in documents if _is_bootstrap(document)]
    if len(bootstraps) > 1:
        raise ConfigurationError(f"{source} holds {len(bootstraps)} Envoy bootstraps; doctor reads one at a time")
    if not bootstraps:
        keys = documents[0] if isinstance(documents[0], dict) else ()
        likely = (
            f"its keys are {', '.join(ascii(str(key))[:40] for key in [*keys][:5])}" if keys else "it holds no mapping"
        )
        raise ConfigurationError(
            f"{source} is no Envoy bootstrap (static_resources): {likely}; doctor reads what Envoy is started with,"
            " and the sidecar's settings behind --config"
        )
    return Node(bootstraps[0])


def _undumped(document: Any) -> Any:
    """The bootstrap that a dump stands for; any other document as it is."""
    configs = document.get("configs") if isinstance(document, dict) else None
    if not isinstance(configs, list):
        return document
    resources: dict[str, dict[str, Any]] = {name: {} for name in _DUMPED.values()}
    for kind, resource in _resources(configs):
        resources[_DUMPED[kind]].setdefault(str(resource.get("name")), resource)
    if not any(resources.values()):
        return document
    listeners = [_with_routes(each, resources["routes"]) for each in resources["listeners"].values()]
    bootstraps = [config["bootstrap"] for config in configs if isinstance(config, dict) and "bootstrap" in config]
    static = {"listeners": listeners, "clusters": [*resources["clusters"].values()]}
    runtime = Node(bootstraps[0] if bootstraps else {}).get("layered_runtime").value
    return {"static_resources": static, "layered_runtime": runtime}


def _resources(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict) and (kind := str(value.get("@type")).rpartition(".")[2]) in _DUMPED:
        yield kind, value
    elif isinstance(value, dict | list):
        parts = value if isinstance(value, list) else [part for key, part in value.items() if key not in _UNUSED]
        for part in parts:
            yield from _resources(part)


def _with_routes(value: Any, routes: Mapping[str, Any]) -> Any:
    """A listener with its routes in it, in place of where they come from."""
    if isinstance(value, list):
        return [_with_routes(part, routes) for part in value]
    if not isinstance(value, dict):
        return value
    name = Node(value["rds"]).get("route_config_name").text if "rds" in value else ""
    given = {"route_config": routes[name]} if name in routes else {}
    return {key: _with_routes(part, routes) for key, part in value.items() if key != "rds" or not given} | given


def _documents(text: str, source: str) -> list[Any]:
    try:
        _refuse_bombs(text, source)
        return [_undumped(document) for document in yaml.load_all(text, _Loader) if document is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise ConfigurationError(f"{source} is not YAML{place}: {error.problem or 'it cannot be parsed'}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source} is not YAML: {str(error).splitlines()[0][:200]}") from None


def _refuse_bombs(text: str, source: str) -> None:
    """Aliases make a large value of a small file, and the loader in C does not survive any depth."""
    sizes: dict[str, int] = {}
    within: list[tuple[str, int]] = []
    """The anchor of each collection around the place, and how many values were before it."""
    values = 0
    for event in yaml.parse(text, _Loader):
        values += 1
        if isinstance(event, yaml.CollectionStartEvent):
            within.append((event.anchor or "", values))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = within.pop()
            sizes[anchor] = values - before
        elif isinstance(event, yaml.AliasEvent):
            values += sizes.get(event.anchor or "", 1)
        if len(within) > _MAX_DEPTH:
            raise ConfigurationError(f"{source} is nested more than {_MAX_DEPTH} deep: no Envoy configuration is")
        if values > _MAX_VALUES:
            raise ConfigurationError(f"{source} holds more than {_MAX_VALUES} values; is it blown up by YAML aliases?")


def _is_bootstrap(document: Any) -> bool:
    return isinstance(document, dict) and any(Node(document).get(key) for key in _BOOTSTRAP_KEYS)


def validate(text: str, source: str) -> list[Finding]:
    """What Envoy refuses in a bootstrap: at most one finding.

    Args:
        source: the name of the file, for a mistake without a path.
    """
    if _OF_ADMIN in text:
        return []  # what runs has been accepted
    try:
        message = _run(text)
    except (ConfigurationError, OSError, subprocess.SubprocessError) as problem:
        return [found("envoy-not-validated", source, problem=str(problem)[:_MAX_MESSAGE_CHARS])]
    if not message:
        return []
    where, reason = _located(message)
    if _FOREIGN_TYPE.search(reason) or any(each in reason.lower() for each in _MACHINE):
        return [found("envoy-not-validated/ended", source, problem=reason)]
    return [found("envoy-field/envoy", where or source, problem=reason)]


def _run(text: str) -> str:
    """Envoy's message about the text; "" when it accepts it."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        # The node is often named on Envoy's command line.
        node = ["--service-node", "doctor", "--service-cluster", "doctor"]
        command = [find_envoy(), "--mode", "validate", "-c", file.name, "--log-level", "critical", *node]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)  # noqa: S603 - Envoy itself
        lines = done.stderr.replace(file.name, "").partition("error initializing configuration '': ")
    return "" if done.returncode == 0 else " ".join((lines[2] or lines[0]).split()) or f"exit status {done.returncode}"


def _located(message: str) -> tuple[str, str]:
    """The path that the message names, if any, and the reason."""
    message = re.sub(r"\): \{.*| has unknown fields$", "", message).replace(".<any>", "")
    if constraint := re.search(r"Proto constraint validation failed \((.*)\)", message):
        return "", constraint[1][:_MAX_MESSAGE_CHARS]
    message = re.sub(r":? goo\.gle/debug.*|^.*?INVALID_ARGUMENT: ", "", message).rstrip(")")
    if (located := _LOCATED.search(message)) is None:
        return "", message[:_MAX_MESSAGE_CHARS]
    unknown = located["reason"].partition(_UNKNOWN_FIELD)[2].partition("'")[0]
    path = f"{located['path']}.{unknown}" if unknown else located["path"]
    return path, f"{located['type']}: {located['reason']}"[:_MAX_MESSAGE_CHARS]
