"""The input of the checks: both configurations. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from semrouter_memory.config import Config
from semrouter_memory.doctor.finding import Figures, sized
from semrouter_memory.doctor.gateway import HttpFilter, HttpFilterChain, chains_of, clusters_of, of_setting
from semrouter_memory.doctor.node import Node
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.store.location import LiteFile, Server, locate

LONG_SECONDS = 10.0
"""No request or answer may be held for longer by a sidecar that hangs."""


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """One sidecar, and the Envoy in front of it.

    Attributes:
        config_given: whether the sidecar's settings were given; otherwise Envoy may mean another sidecar than the defaults.
        secret: what Envoy must send; None when none is configured.
        bootstrap: a missing node when only the sidecar is checked.
    """

    config: Config
    config_given: bool = True
    secret: str | None = field(default=None, repr=False)
    bootstrap: Node = field(default_factory=lambda: Node(None))

    @cached_property
    def clusters(self) -> Mapping[str, Node]:
        return clusters_of(self.bootstrap)

    @cached_property
    def chains(self) -> tuple[HttpFilterChain, ...]:
        return chains_of(self.bootstrap, self.clusters, of_setting(self.config.server.listen))

    @property
    def user_header(self) -> str:
        return self.config.memory.identity.user_header

    @property
    def reads_claims(self) -> bool:
        """Whether a token's claim tells the user."""
        return self.config.memory.identity.jwt_claim is not None

    @property
    def memory_chains(self) -> list[HttpFilterChain]:
        return [chain for chain in self.chains if chain.memory]

    @property
    def applied(self) -> Iterator[HttpFilter]:
        for chain in self.chains:
            yield from chain.applied

    @property
    def memory_clusters(self) -> list[Node]:
        """The clusters that memory filters call."""
        return self._clusters(each.cluster for each in self.applied)

    @property
    def api_clusters(self) -> list[Node]:
        """The clusters that routes to the management API lead to."""
        return self._clusters(name for chain in self.chains for route in chain.api_routes for name in route.clusters)

    def _clusters(self, names: Iterator[str]) -> list[Node]:
        return [self.clusters[name] for name in sorted({*names}) if name in self.clusters]

    @property
    def figures(self) -> Figures:
        """What the settings say about limits: numbers to compare with, and how texts show them."""
        server, recall = self.config.server, self.config.memory.recall
        rewrites = any(model.model_role == "memory_rewrite" for model in self.config.external_models)
        rewriting_ms = recall.rewrite_deadline_ms if rewrites else 0
        deadline = (recall.deadline_ms + recall.forget_deadline_ms + rewriting_ms) / 1000
        return {
            "body": server.max_body_bytes,
            "bodies": sized(server.max_body_bytes, "MiB"),
            "messages": sized(server.max_message_bytes, "MiB"),
            "buffered": max(server.max_message_bytes, server.max_body_bytes),
            "window": min(2 * server.max_body_bytes, 2**31 - 1),
            "deadline": f"{deadline:g}",
            "patient": f"{max(1.0, 2 * deadline):g}",
            "long": max(LONG_SECONDS, deadline),
        }

    @property
    def store(self) -> Server | LiteFile | None:
        """Where memories are; None where the setting is a mistake, which is a finding of its own."""
        try:
            return locate(self.config.memory.milvus, self.config.memory.directory)
        except ConfigurationError:
            return None
