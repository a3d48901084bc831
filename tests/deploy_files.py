"""The files of deploy/ and the shipped Envoy chains, read for the tests that hold them against each other."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Hundreds of tests read these files; the loader in C takes a tenth of the time."""


@dataclass(frozen=True, slots=True)
class Chain:
    """An Envoy bootstrap of ours, by its parts."""

    bootstrap: Json

    @property
    def manager(self) -> Json:
        """The HTTP connection manager."""
        listener = self.bootstrap["static_resources"]["listeners"][0]
        manager: Json = listener["filter_chains"][0]["filters"][0]["typed_config"]
        return manager

    @property
    def filters(self) -> dict[str, Json]:
        return {entry["name"]: entry for entry in self.manager["http_filters"]}

    @property
    def routes(self) -> dict[str, Json]:
        return {route["name"]: route for route in self.manager["route_config"]["virtual_hosts"][0]["routes"]}

    @property
    def clusters(self) -> dict[str, Json]:
        return {cluster["name"]: cluster for cluster in self.bootstrap["static_resources"]["clusters"]}

    @property
    def removed_headers(self) -> list[str]:
        extension = self.manager["early_header_mutation_extensions"][0]["typed_config"]
        return [mutation["remove"] for mutation in extension["mutations"]]


@dataclass(frozen=True, slots=True)
class Manifests:
    """The documents of one YAML file."""

    documents: tuple[Json, ...]

    def the(self, kind: str, name: str | None = None) -> Json:
        """The only document of that kind (and name)."""
        found = [
            document
            for document in self.documents
            if document["kind"] == kind and name in (None, document["metadata"]["name"])
        ]
        assert len(found) == 1, f"{len(found)} {kind} {name or ''}"
        return found[0]


@dataclass(frozen=True, slots=True)
class Files:
    root: Path

    @property
    def deploy(self) -> Path:
        return self.root / "deploy"

    def yaml(self, name: str) -> Json:
        content: Json = yaml.load((self.deploy / name).read_text(encoding="utf-8"), _LOADER)
        return content

    def manifests(self, name: str) -> Manifests:
        return Manifests(tuple(yaml.load_all((self.deploy / name).read_text(encoding="utf-8"), _LOADER)))

    def chain(self, path: str) -> Chain:
        return Chain(yaml.load((self.root / path).read_text(encoding="utf-8"), _LOADER))

    def instructions(self) -> list[tuple[str, str]]:
        """The Dockerfile's instructions with their arguments, continued lines joined."""
        text = (self.deploy / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
        return [(line.split(maxsplit=1)[0].upper(), line.split(maxsplit=1)[1]) for line in lines]


FILES = Files(Path(__file__).parents[1])
