"""Envoy's own validation of a bootstrap: `envoy --mode validate`, where the binary is installed.

Strategy: Envoy stops at the first mistake and names its path in most cases. Of its message only the reason is shown, because
the rest repeats the whole configuration with the keys in it. Messages that depend on the machine (files, extensions) say
nothing about the configuration.
"""

import re
import subprocess
import tempfile

from semrouter_memory.doctor.envoy_file import EnvoyFile
from semrouter_memory.doctor.finding import Finding, found
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.stack.envoy import find_envoy

_TIMEOUT_SECONDS = 30
_MAX_CHARS = 300
_LOCATED = re.compile(r"@ (?P<path>[^:]+): (?P<type>.+?), near \S+ \(offset \d+\): (?P<reason>.+)")
_UNKNOWN_FIELD = re.compile(r"no such field: '(?P<name>[^']*)'")
_FOREIGN_TYPE = re.compile(r"could not find @type '[^']*/(?!envoy\.)|Didn't find a registered implementation")
_MACHINE = re.compile(r"[Ff]ailed to load|[Uu]nable to read|[Ii]nvalid path|does not exist|[Nn]o such file")


def validate(file: EnvoyFile, source: str) -> list[Finding]:
    """What Envoy refuses in the bootstrap: at most one finding.

    Args:
        source: the name of the file, for a mistake without a path.
    """
    try:
        message = _run(file.text)
    except (ConfigurationError, OSError, subprocess.SubprocessError) as problem:
        return [found("envoy-not-validated", source, problem=str(problem)[:_MAX_CHARS])]
    if not message:
        return []
    where, reason = _located(message)
    if _FOREIGN_TYPE.search(reason) or _MACHINE.search(reason):
        return [found("envoy-not-validated/ended", source, problem=reason)]
    prefix = f"{file.bootstrap.path}." if file.bootstrap.path else ""
    return [found("envoy-field/envoy", prefix + where if where else source, problem=reason)]


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
        return "", constraint[1][:_MAX_CHARS]
    message = re.sub(r":? goo\.gle/debug.*|^.*?INVALID_ARGUMENT: ", "", message).rstrip(")")
    if (located := _LOCATED.search(message)) is None:
        return "", message[:_MAX_CHARS]
    unknown = _UNKNOWN_FIELD.search(located["reason"])
    path = f"{located['path']}.{unknown['name']}" if unknown else located["path"]
    return path, f"{located['type']}: {located['reason']}"[:_MAX_CHARS]
