"""The table of checks. Each is a function from the context to findings. Pure."""

from collections.abc import Callable, Iterable

from semrouter_memory.doctor import (
    chain_order,
    clusters,
    dynamic_config,
    filter_consistency,
    identity,
    memory_filters,
    routes,
    sidecar_config,
)
from semrouter_memory.doctor.context import CheckContext
from semrouter_memory.doctor.finding import Finding, found

Check = Callable[[CheckContext], Iterable[Finding]]

SIDECAR: tuple[Check, ...] = (
    sidecar_config.memory_is_on,
    sidecar_config.secrets_are_readable,
    sidecar_config.open_ports_have_a_secret,
    sidecar_config.store_address_is_valid,
    sidecar_config.replicas_share_a_store,
    sidecar_config.body_is_not_trusted,
    sidecar_config.messages_hold_bodies,
)
"""Checks of the sidecar's settings alone."""

ENVOY: tuple[Check, ...] = (
    dynamic_config.resources_are_in_the_file,
    dynamic_config.filters_are_in_the_file,
    dynamic_config.routes_are_in_the_file,
    dynamic_config.endpoints_are_in_the_file,
    memory_filters.memory_filters_exist,
    memory_filters.each_task_has_one_filter,
    memory_filters.filters_fail_open,
    memory_filters.retain_comes_first,
    memory_filters.only_retain_observes,
    memory_filters.bodies_are_sent,
    memory_filters.recall_has_time,
    memory_filters.retain_is_waited_for,
    memory_filters.streams_live_as_long_as_answers,
    memory_filters.modes_are_not_overridden,
    memory_filters.bodies_may_be_changed,
    memory_filters.headers_are_forwarded,
    identity.clients_cannot_claim_identity,
    identity.users_are_authenticated_first,
    identity.users_come_from_a_verified_source,
    identity.authentication_covers_memory,
    identity.demo_keys_are_replaced,
    identity.keys_name_acceptable_users,
    identity.blank_ends_are_refused,
    identity.ids_are_not_sent_upstream,
    filter_consistency.filters_send_the_same,
    filter_consistency.filters_are_on_together,
    filter_consistency.settings_are_known,
    filter_consistency.secret_is_sent,
    filter_consistency.claim_metadata_is_forwarded,
    filter_consistency.results_are_received,
    clusters.filters_call_a_cluster,
    clusters.clusters_have_endpoints,
    clusters.other_processors_call_a_cluster,
    clusters.routes_lead_to_a_cluster,
    clusters.the_cluster_speaks_http2,
    clusters.streams_are_admitted,
    clusters.bursts_are_admitted,
    clusters.bodies_fit_the_cluster,
    clusters.the_window_holds_a_body,
    clusters.load_is_balanced,
    clusters.connections_carry_many_streams,
    clusters.connections_and_streams_last,
    clusters.answers_outlive_the_sidecar,
    clusters.addresses_agree,
    clusters.one_process_owns_lite,
    routes.chats_have_memory,
    routes.other_paths_have_none,
    routes.upgrades_are_not_held,
    routes.bodies_fit_the_route,
    routes.answers_may_take_long,
    routes.api_is_reachable,
    routes.request_ids_are_envoys,
    routes.streams_end_gracefully,
    chain_order.the_router_is_last,
    chain_order.protocol_options_have_their_name,
    chain_order.overrides_name_filters,
    chain_order.bodies_pass_the_buffer_filter,
)
"""Checks of Envoy's configuration, with the sidecar's beside it."""


def run(context: CheckContext) -> list[Finding]:
    """The findings of all checks that apply, and the values that they could not read; each place and code once."""
    checks = (*SIDECAR, *ENVOY) if context.bootstrap else SIDECAR
    findings = [finding for check in checks for finding in check(context)]
    findings += [found("envoy-field", path, problem=problem) for path, problem in context.bootstrap.misread.items()]
    return once(findings)


def once(findings: Iterable[Finding]) -> list[Finding]:
    """The first finding of each code at each place."""
    kept: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        kept.setdefault((finding.code, finding.where), finding)
    return list(kept.values())
