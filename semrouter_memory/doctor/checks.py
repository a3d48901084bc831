"""The table of checks. Each is a function from what was read to what is wrong with it. Pure."""

from collections.abc import Callable, Iterable, Iterator

from semrouter_memory.doctor import (
    claims,
    clusters,
    connections,
    filters,
    identity,
    limits,
    own,
    pairs,
    routes,
    shape,
    unseen,
    user_ids,
)
from semrouter_memory.doctor.case import Case
from semrouter_memory.doctor.finding import Finding

Check = Callable[[Case], Iterable[Finding]]

OWN: tuple[Check, ...] = (
    own.recall_is_on,
    own.keys_are_set,
    own.addresses_are_guarded,
    own.store_is_named,
    own.replicas_share,
    identity.body_is_not_trusted,
    limits.messages_hold_bodies,
)
"""What the sidecar's settings alone tell."""

ENVOY: tuple[Check, ...] = (
    unseen.resources_can_be_seen,
    unseen.filters_can_be_seen,
    unseen.routes_can_be_seen,
    unseen.endpoints_can_be_seen,
    filters.memory_filters_are_there,
    filters.each_half_is_there,
    filters.filters_fail_open,
    filters.retain_stands_first,
    filters.retain_observes,
    filters.bodies_are_sent,
    filters.recall_has_time,
    filters.observer_is_waited_for,
    filters.streams_live_as_long_as_answers,
    filters.modes_stay_as_they_are,
    filters.bodies_may_be_changed,
    filters.headers_are_forwarded,
    identity.clients_cannot_name_themselves,
    identity.users_are_authenticated_first,
    claims.users_come_from_who_vouches,
    identity.authentication_covers_memory,
    identity.demo_keys_are_replaced,
    user_ids.keys_name_acceptable_users,
    user_ids.blank_ends_are_refused,
    user_ids.ids_do_not_leave,
    pairs.filters_agree,
    pairs.filters_are_on_together,
    pairs.settings_are_known,
    pairs.secret_is_sent,
    pairs.namespaces_are_forwarded,
    pairs.results_are_received,
    clusters.filters_lead_somewhere,
    clusters.clusters_have_endpoints,
    clusters.others_lead_somewhere,
    clusters.routes_lead_somewhere,
    limits.the_cluster_speaks_http2,
    limits.streams_are_let_through,
    limits.bodies_fit_the_route,
    limits.bodies_fit_the_cluster,
    limits.the_window_holds_a_body,
    limits.load_is_spread,
    limits.streams_are_not_cut,
    connections.bursts_are_let_through,
    connections.connections_hold_many_streams,
    connections.connections_last,
    connections.answers_outlive_the_sidecar,
    limits.addresses_agree,
    limits.one_process_owns_lite,
    routes.chats_are_remembered,
    routes.other_paths_are_left_alone,
    routes.upgrades_are_left_alone,
    routes.answers_may_take_long,
    routes.api_is_reachable,
    routes.request_ids_are_envoys,
    routes.streams_end_gracefully,
    shape.the_router_stands_last,
    shape.protocol_options_have_their_name,
    shape.overrides_name_filters,
    shape.bodies_pass_the_buffer_filter,
)
"""What Envoy's configuration tells, held against the sidecar's."""


def run(case: Case) -> list[Finding]:
    """All findings of all checks that apply; the same mistake at the same place is said once."""
    checks = (*OWN, *ENVOY) if case.bootstrap is not None else OWN
    return list(_once(finding for check in checks for finding in check(case)))


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for finding in findings:
        if (finding.code, finding.where) not in seen:
            seen.add((finding.code, finding.where))
            yield finding
