"""The dashboard and the alert rules of deploy/, and the metrics that exist, read for the tests that hold them together."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from semrouter_memory.telemetry.metrics import Metrics
from tests.deploy_files import FILES

_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
_SELECTOR = re.compile(r"(semrouter_memory_\w+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'\s*(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"\s*(?:,|$)')
_GROUPING = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_TEMPLATE = re.compile(r"\{\{\s*\$labels\.(\w+)\s*\}\}")
_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
TARGET_LABELS = frozenset({"job", "instance"})
"""Put on every sample by who scrapes."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL expression and what is shown with it.

    Attributes:
        labels: names that its legend or its annotations fill in.
    """

    where: str
    text: str
    labels: frozenset[str]

    def selectors(self) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
        """The metrics it asks for, each with (label, operator, value)."""
        for name, matchers in _SELECTOR.findall(self.text):
            found = _MATCHER.findall(matchers)
            assert "".join(_MATCHER.sub("", matchers)).strip() == "", f"{self.where}: {matchers}"
            yield name, found

    def grouped(self) -> set[str]:
        """The labels that it groups or joins by."""
        lists = _GROUPING.findall(self.text)
        return {name.strip() for names in lists for name in names.split(",") if name.strip()}


def dashboard() -> dict[str, Any]:
    content: dict[str, Any] = json.loads((FILES.deploy / "grafana" / "semrouter-memory.json").read_text("utf-8"))
    return content


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FILES.deploy / "prometheus" / "alerts.yaml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def shown() -> list[Query]:
    """The dashboard's queries."""
    return [
        Query(panel["title"], target["expr"], frozenset(_LEGEND.findall(target["legendFormat"])))
        for panel in panels()
        for target in panel["targets"]
    ]


def watched() -> list[Query]:
    """The rules' queries."""
    return [
        Query(rule["alert"], rule["expr"], frozenset(_TEMPLATE.findall(" ".join(rule["annotations"].values()))))
        for rule in rules()
    ]


def series() -> dict[str, frozenset[str]]:
    """What the registry exposes: the name of each series with its labels."""
    registry = Metrics().registry
    found: dict[str, frozenset[str]] = {}
    collectors: list[Any] = list(registry._collector_to_names)
    for collector in collectors:
        (family,) = collector.describe()
        labels = frozenset(getattr(collector, "_labelnames", ()))
        for suffix in _SUFFIXES[family.type]:
            found[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


def families() -> dict[str, str]:
    """The metrics, by name without a suffix, with their kind."""
    return {family.name: family.type for family in Metrics().registry.collect()}
