"""What the checks are given: both configurations, read. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from semrouter_memory.config import Config
from semrouter_memory.doctor.address import Address, of_setting
from semrouter_memory.doctor.chains import API_PATH, Applied, Chain, Role, Route, chains_of, cluster_named, clusters_of
from semrouter_memory.doctor.place import At

EXT_PROC_SECONDS = 0.2
"""What `message_timeout` is when nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One sidecar, and the Envoy in front of it.

    Attributes:
        given: whether the sidecar's settings were given; else they are the defaults, and Envoy may mean another sidecar.
        secret: what Envoy must send; None when none is configured.
        bootstrap: None when only the sidecar is looked at.
        memory_clusters: the clusters that memory filters call, by name; a name without a cluster is not in it.
    """

    config: Config
    given: bool = True
    secret: str | None = field(default=None, repr=False)
    bootstrap: At | None = None
    chains: tuple[Chain, ...] = ()
    clusters: Mapping[str, At] = field(default_factory=dict)

    @property
    def memory_chains(self) -> Iterator[Chain]:
        return (chain for chain in self.chains if chain.memory)

    @property
    def guarded_chains(self) -> Iterator[Chain]:
        """The chains through which a user's memories can be reached."""
        return (chain for chain in self.chains if chain.memory or self.api_routes(chain))

    @property
    def applied(self) -> Iterator[tuple[Chain, Applied]]:
        for chain in self.memory_chains:
            for each in chain.applied:
                yield chain, each

    @property
    def deadline_seconds(self) -> float:
        """How long recall may take."""
        recall = self.config.memory.recall
        rewrites = any(model.model_role == "memory_rewrite" for model in self.config.external_models)
        return (recall.deadline_ms + (recall.rewrite_deadline_ms if rewrites else 0)) / 1000

    @property
    def listen(self) -> Address | None:
        return of_setting(self.config.server.listen)

    @property
    def memory_clusters(self) -> dict[str, At]:
        names = {cluster_named(each.service) for _, each in self.applied}
        return {name: self.clusters[name] for name in sorted(names) if name in self.clusters}

    def api_routes(self, chain: Chain) -> list[Route]:
        """The routes at which requests to the management API end."""
        routes = {route.place: route for path in (API_PATH, f"{API_PATH}/x") for route in chain.takers("GET", path)}
        return [route for route in routes.values() if self.serves_api(route)]

    def serves_api(self, route: Route) -> bool:
        """Whether a route is meant for the management API: neither an LLM route nor the catch-all beside it."""
        match = route.match
        named = any(
            API_PATH in str(match.value(name) or "") for name in ("path_separated_prefix", "prefix", "path") if match
        )
        regex = match.get("safe_regex") if match is not None else None
        return named or (regex is not None and "memory" in regex.value("regex"))


def case_of(bootstrap: At, config: Config, *, given: bool, secret: str | None) -> Case:
    return Case(
        config=config,
        given=given,
        secret=secret,
        bootstrap=bootstrap,
        chains=chains_of(bootstrap, of_setting(config.server.listen)),
        clusters=clusters_of(bootstrap),
    )


def halves(chain: Chain) -> tuple[list[Applied], list[Applied]]:
    """A chain's filters by what they are for: those that observe, and those that handle requests."""
    observing = [each for each in chain.base if each.filter.role is Role.RETAIN]
    return observing, [each for each in chain.base if each.filter.role is not Role.RETAIN]
