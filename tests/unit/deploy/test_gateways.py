"""The Envoy parts of deploy/, held against the chains that the tests in tests/envoy exercise."""

import copy
import re

import pytest

from semrouter_memory.config import Config
from tests.deploy_files import FILES, Json

_EXT_PROC = "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor"
_GRACEFUL_CLOSE = "envoy.reloadable_features.ext_proc_graceful_grpc_close"


def without_addresses(bootstrap: Json) -> Json:
    """The same configuration with every address blanked, and nothing else."""
    result = copy.deepcopy(bootstrap)
    resources = result["static_resources"]
    for listener in resources["listeners"]:
        listener["address"] = "..."
    for cluster in resources["clusters"]:
        for group in cluster["load_assignment"]["endpoints"]:
            for entry in group["lb_endpoints"]:
                entry["endpoint"]["address"] = "..."
    return result


def seconds(duration: str) -> float:
    return float(duration.removesuffix("s"))


def test_the_containers_envoy_is_the_shipped_chain_with_other_addresses() -> None:
    shipped, ours = FILES.chain("envoy/two-filter.yaml"), FILES.chain("deploy/envoy.yaml")
    assert without_addresses(ours.bootstrap) == without_addresses(shipped.bootstrap)


def test_the_containers_envoy_reaches_the_sidecar_where_it_listens() -> None:
    clusters, settings = FILES.chain("deploy/envoy.yaml").clusters, FILES.yaml("config.yaml")
    listens = {"memory_sidecar": settings["server"]["listen"], "memory_api": settings["management"]["listen"]}
    for name, listen in listens.items():
        endpoint = clusters[name]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
        assert f"unix:{endpoint['address']['pipe']['path']}" == listen


def test_envoys_admin_port_stays_inside_its_container() -> None:
    admin = FILES.chain("deploy/envoy.yaml").bootstrap["admin"]
    assert admin["address"]["socket_address"]["address"] == "127.0.0.1"


class TestIstio:
    @pytest.fixture
    def patches(self) -> list[Json]:
        patches: list[Json] = FILES.manifests("istio.yaml").the("EnvoyFilter")["spec"]["configPatches"]
        return patches

    @staticmethod
    def values(patches: list[Json], kind: str) -> list[Json]:
        return [entry["patch"]["value"] for entry in patches if entry["applyTo"] == kind]

    def test_inserts_the_shipped_filters_in_the_shipped_order(self, patches: list[Json]) -> None:
        """All but who authenticates, which is Istio's, and the router."""
        shipped = FILES.chain("envoy/jwt.yaml").manager["http_filters"][1:-1]
        inserted = self.values(patches, "HTTP_FILTER")
        assert [{key: value for key, value in entry.items() if key != "disabled"} for entry in inserted] == shipped

    def test_each_filter_goes_right_before_the_router(self, patches: list[Json]) -> None:
        """Inserting before the same filter keeps the order of the patches."""
        for entry in patches:
            if entry["applyTo"] == "HTTP_FILTER":
                chain_filter = entry["match"]["listener"]["filterChain"]["filter"]
                assert entry["patch"]["operation"] == "INSERT_BEFORE"
                assert chain_filter["subFilter"]["name"] == "envoy.filters.http.router"

    def test_the_filters_are_on_for_the_llm_route_alone(self, patches: list[Json]) -> None:
        filters = [each for each in self.values(patches, "HTTP_FILTER") if each["typed_config"]["@type"] == _EXT_PROC]
        (route,) = [entry for entry in patches if entry["applyTo"] == "HTTP_ROUTE"]
        shipped = FILES.chain("envoy/two-filter.yaml").routes["llm"]
        assert all(entry["disabled"] is True for entry in filters)
        assert route["match"]["routeConfiguration"]["vhost"]["route"]["name"] == shipped["name"]
        assert list(route["patch"]["value"]["typed_per_filter_config"]) == [entry["name"] for entry in filters]
        assert route["patch"]["value"]["request_body_buffer_limit"] == shipped["request_body_buffer_limit"]

    def test_removes_what_the_shipped_chain_removes_as_early(self, patches: list[Json]) -> None:
        (manager,) = self.values(patches, "NETWORK_FILTER")
        shipped = FILES.chain("envoy/two-filter.yaml").manager
        key = "early_header_mutation_extensions"
        assert manager["typed_config"] == {"@type": shipped["@type"], key: shipped[key]}

    def test_adds_the_shipped_cluster_on_a_socket(self, patches: list[Json]) -> None:
        (cluster,) = self.values(patches, "CLUSTER")
        shipped = {"listeners": [], "clusters": [FILES.chain("envoy/two-filter.yaml").clusters["memory_sidecar"]]}
        ours = {"listeners": [], "clusters": [cluster]}
        assert without_addresses({"static_resources": ours}) == without_addresses({"static_resources": shipped})

    def test_routes_what_the_shipped_chain_routes(self) -> None:
        routes = {route["name"]: route for route in FILES.manifests("istio.yaml").the("VirtualService")["spec"]["http"]}
        shipped = FILES.chain("envoy/two-filter.yaml").routes
        assert list(routes) == list(shipped)
        for name, route in routes.items():
            assert route["timeout"] == shipped[name]["route"]["timeout"]
            removed = route.get("headers", {}).get("request", {}).get("remove")
            assert removed == shipped[name].get("request_headers_to_remove"), name
        (match,) = routes["llm"]["match"]
        assert match["uri"]["regex"] == shipped["llm"]["match"]["safe_regex"]["regex"]
        assert match["method"] == shipped["llm"]["match"]["headers"][0]["string_match"]

    @pytest.mark.parametrize(
        ("path", "ours"),
        [("/v1/memory", True), ("/v1/memory/mem_1", True), ("/v1/memory-bank", False), ("/v1/knowledge/doc_1", True)],
    )
    def test_the_management_api_is_a_whole_path_segment(self, path: str, ours: bool) -> None:
        routes = FILES.manifests("istio.yaml").the("VirtualService")["spec"]["http"]
        (match,) = next(route for route in routes if route["name"] == "memory-api")["match"]
        assert bool(re.fullmatch(match["uri"]["regex"], path)) is ours

    def test_the_user_is_the_claim_that_the_jwt_chain_takes(self) -> None:
        shipped = FILES.chain("envoy/jwt.yaml").filters["envoy.filters.http.jwt_authn"]
        provider = shipped["typed_config"]["providers"]["users"]
        (rule,) = FILES.manifests("istio.yaml").the("RequestAuthentication")["spec"]["jwtRules"]
        assert (rule["issuer"], rule["audiences"]) == (provider["issuer"], provider["audiences"])
        assert [(entry["header"], entry["claim"]) for entry in rule["outputClaimToHeaders"]] == [
            (entry["header_name"], entry["claim_name"]) for entry in provider["claim_to_headers"]
        ]

    def test_closes_streams_as_the_shipped_chain_does(self) -> None:
        template = FILES.manifests("istio.yaml").the("Deployment")["spec"]["template"]
        layer = FILES.chain("envoy/two-filter.yaml").bootstrap["layered_runtime"]["layers"][0]["static_layer"]
        assert layer[_GRACEFUL_CLOSE] is True
        assert f'{_GRACEFUL_CLOSE}: "true"' in template["metadata"]["annotations"]["proxy.istio.io/config"]


class TestEnvoyGateway:
    """Its API has words of its own for what the single-filter chain says."""

    _BODY_MODES = {"Buffered": "BUFFERED", "Streamed": "STREAMED"}  # noqa: RUF012 - a constant table

    @pytest.fixture
    def ext_proc(self) -> Json:
        (ext_proc,) = FILES.manifests("envoy-gateway.yaml").the("EnvoyExtensionPolicy")["spec"]["extProc"]
        result: Json = ext_proc
        return result

    @pytest.fixture
    def shipped(self) -> Json:
        shipped: Json = FILES.chain("envoy/single-filter.yaml").filters["memory"]["typed_config"]
        return shipped

    def test_processes_what_the_single_filter_processes(self, ext_proc: Json, shipped: Json) -> None:
        modes = ext_proc["processingMode"]
        assert {
            "request_header_mode": "SEND" if "request" in modes else "SKIP",
            "request_body_mode": self._BODY_MODES[modes["request"]["body"]],
            "request_trailer_mode": "SKIP",
            "response_header_mode": "SEND" if "response" in modes else "SKIP",
            "response_body_mode": self._BODY_MODES[modes["response"]["body"]],
            "response_trailer_mode": "SKIP",
        } == shipped["processing_mode"]

    def test_fails_open_after_the_same_time(self, ext_proc: Json, shipped: Json) -> None:
        assert ext_proc["failOpen"] is shipped["failure_mode_allow"] is True
        assert ext_proc["messageTimeout"] == shipped["message_timeout"]

    def test_removes_what_the_shipped_chain_removes_as_early(self) -> None:
        policy = FILES.manifests("envoy-gateway.yaml").the("ClientTrafficPolicy")["spec"]
        removed = policy["headers"]["earlyRequestHeaders"]["remove"]
        assert removed == FILES.chain("envoy/single-filter.yaml").removed_headers

    def test_the_llm_server_is_not_sent_what_the_shipped_chain_keeps(self) -> None:
        shipped = FILES.chain("envoy/single-filter.yaml").routes
        for name in ("llm", "other"):
            (rule,) = FILES.manifests("envoy-gateway.yaml").the("HTTPRoute", name)["spec"]["rules"]
            (modifier,) = [each["requestHeaderModifier"] for each in rule["filters"]]
            assert modifier == {"remove": shipped[name]["request_headers_to_remove"]}

    def test_buffers_bodies_of_the_shipped_size(self, ext_proc: Json) -> None:
        shipped = FILES.chain("envoy/single-filter.yaml")
        mebibyte = 1024 * 1024
        client = FILES.manifests("envoy-gateway.yaml").the("ClientTrafficPolicy")["spec"]["connection"]
        assert client["bufferLimit"] == f"{shipped.routes['llm']['request_body_buffer_limit'] // mebibyte}Mi"
        sidecar = shipped.clusters["memory_sidecar"]["per_connection_buffer_limit_bytes"]
        assert ext_proc["backendSettings"]["connection"]["bufferLimit"] == f"{sidecar // mebibyte}Mi"

    def test_lets_as_many_streams_through(self, ext_proc: Json) -> None:
        (shipped,) = FILES.chain("envoy/single-filter.yaml").clusters["memory_sidecar"]["circuit_breakers"][
            "thresholds"
        ]
        ours = ext_proc["backendSettings"]["circuitBreaker"]
        assert ours == {
            "maxConnections": shipped["max_connections"],
            "maxPendingRequests": shipped["max_pending_requests"],
            "maxParallelRequests": shipped["max_requests"],
        }

    def test_pings_as_the_shipped_chain_does(self, ext_proc: Json) -> None:
        """In whole seconds, so it may take a little longer."""
        (options,) = (
            FILES.chain("envoy/single-filter.yaml")
            .clusters["memory_sidecar"]["typed_extension_protocol_options"]
            .values()
        )
        shipped = options["explicit_http_config"]["http2_protocol_options"]["connection_keepalive"]
        ours = ext_proc["backendSettings"]["http2"]["connectionKeepalive"]
        assert ours["timeout"] == shipped["timeout"]
        assert seconds(ours["interval"]) - seconds(shipped["interval"]) == 0.5

    def test_the_filter_is_on_the_llm_route_alone(self) -> None:
        manifests = FILES.manifests("envoy-gateway.yaml")
        (target,) = manifests.the("EnvoyExtensionPolicy")["spec"]["targetRefs"]
        (rule,) = manifests.the(target["kind"], target["name"])["spec"]["rules"]
        (match,) = rule["matches"]
        shipped = FILES.chain("envoy/single-filter.yaml").routes["llm"]
        assert match["path"]["value"] == shipped["match"]["safe_regex"]["regex"]
        assert match["method"] == shipped["match"]["headers"][0]["string_match"]["exact"]
        assert rule["timeouts"]["request"] == shipped["route"]["timeout"]

    def test_every_route_authenticates_as_the_shipped_chain_does(self) -> None:
        manifests = FILES.manifests("envoy-gateway.yaml")
        policy = manifests.the("SecurityPolicy")["spec"]
        keys = FILES.chain("envoy/single-filter.yaml").filters["envoy.filters.http.api_key_auth"]["typed_config"]
        routes = {entry["metadata"]["name"] for entry in manifests.documents if entry["kind"] == "HTTPRoute"}
        assert {target["name"] for target in policy["targetRefs"]} == routes
        assert policy["apiKeyAuth"]["forwardClientIDHeader"] == keys["forwarding"]["header"]
        assert policy["apiKeyAuth"]["sanitize"] is keys["forwarding"]["hide_credentials"]
        assert policy["apiKeyAuth"]["extractFrom"] == [
            {"headers": [source["header"]]} for source in keys["key_sources"]
        ]

    def test_reaches_the_sidecar_on_its_socket(self, ext_proc: Json) -> None:
        manifests = FILES.manifests("envoy-gateway.yaml")
        (reference,) = ext_proc["backendRefs"]
        (endpoint,) = manifests.the("Backend", reference["name"])["spec"]["endpoints"]
        settings = manifests.the("ConfigMap")["data"]["config.yaml"]
        assert f"listen: unix:{endpoint['unix']['path']}\n" in settings

    def test_closes_streams_as_the_shipped_chain_does(self) -> None:
        bootstrap = FILES.manifests("envoy-gateway.yaml").the("EnvoyProxy")["spec"]["bootstrap"]
        assert bootstrap["type"] == "Merge"
        assert f"{_GRACEFUL_CLOSE}: true" in bootstrap["value"]


def test_every_message_timeout_is_above_the_recall_deadlines() -> None:
    recall = Config().memory.recall
    deadline_seconds = (recall.deadline_ms + recall.forget_deadline_ms + recall.rewrite_deadline_ms) / 1000
    gateway = FILES.manifests("envoy-gateway.yaml").the("EnvoyExtensionPolicy")["spec"]["extProc"][0]
    patches = FILES.manifests("istio.yaml").the("EnvoyFilter")["spec"]["configPatches"]
    istio = [entry["patch"]["value"].get("typed_config", {}).get("message_timeout") for entry in patches]
    container = FILES.chain("deploy/envoy.yaml").filters["memory.recall"]["typed_config"]["message_timeout"]
    timeouts = [gateway["messageTimeout"], container, *filter(None, istio)]
    assert len(timeouts) == 3
    assert all(seconds(timeout) > deadline_seconds for timeout in timeouts)


def test_every_chain_removes_the_headers_that_the_sidecar_trusts() -> None:
    """Those of clients before the filters, those of the filters on the way to the LLM server."""
    memory = Config().memory
    identity = memory.identity
    trusted = {identity.user_header, *identity.other_headers, memory.signals.fact_header, memory.signals.tool_header}
    for path in ("envoy/two-filter.yaml", "envoy/single-filter.yaml", "envoy/jwt.yaml", "deploy/envoy.yaml"):
        chain = FILES.chain(path)
        assert set(chain.removed_headers) == trusted
        for name, route in chain.routes.items():
            expected = trusted if route["route"]["cluster"] == "llm" else set()
            assert set(route.get("request_headers_to_remove", ())) == expected, (path, name)


def test_every_chain_refuses_a_user_with_a_blank_at_an_end() -> None:
    """Right behind who authenticates."""
    (guard,) = [each for each in FILES.chain("envoy/jwt.yaml").manager["http_filters"] if each["name"].endswith("rbac")]
    for path in ("envoy/two-filter.yaml", "envoy/single-filter.yaml", "envoy/jwt.yaml", "deploy/envoy.yaml"):
        assert FILES.chain(path).manager["http_filters"][1] == guard, path
