"""YAML as Envoy reads it, where that differs from PyYAML: no merge keys, no dates, no base 60, and `!ignore`. Pure."""

import re
from typing import Any

import yaml

MERGE_KEY = "<<"
_IGNORED = "!ignore"
"""The tag of a key that Envoy leaves out with all that is below; a place for anchors."""
_REPLACED = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_INTEGER = re.compile(r"[-+]?(?:0x[0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)$")
_FLOAT = re.compile(r"[-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?$")
_BASE: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class EnvoyLoader(_BASE):  # type: ignore[misc]  # which of the two there is, only the installation tells
    """What becomes numbers, text and mappings is what Envoy makes of it."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way; nobody changes it
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
        for first, resolvers in _BASE.yaml_implicit_resolvers.items()
    }

    def flatten_mapping(self, node: Any) -> None:
        """Called for each mapping before it is made; PyYAML would merge here."""
        node.value = [(key, value) for key, value in node.value if key.tag != _IGNORED]


EnvoyLoader.add_implicit_resolver("tag:yaml.org,2002:int", _INTEGER, list("-+0123456789"))
EnvoyLoader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
EnvoyLoader.add_constructor("tag:yaml.org,2002:merge", lambda *_: MERGE_KEY)
