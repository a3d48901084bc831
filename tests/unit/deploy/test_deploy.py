"""The image, the compose file and the Kubernetes manifests: what they promise, and that they name each other rightly."""

import hashlib
import json
import shlex
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from semrouter_memory.config import ServerConfig, load
from semrouter_memory.sockets import require_local_or_secret
from tests.deploy_files import FILES, Json

_GROUP = 10001
_APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the licence as its authors publish it."""


def instruction(name: str) -> str:
    """The last one of that name: the final stage's."""
    values = [value for key, value in FILES.instructions() if key == name]
    result: str = values[-1]
    return result


def image_environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in shlex.split(instruction("ENV")))


def pods() -> Iterator[tuple[str, Json]]:
    """Every pod that has our sidecar: file and pod specification."""
    yield "kubernetes.yaml", gateway()["template"]["spec"]
    yield "istio.yaml", FILES.manifests("istio.yaml").the("Deployment")["spec"]["template"]["spec"]
    kubernetes = FILES.manifests("envoy-gateway.yaml").the("EnvoyProxy")["spec"]["provider"]["kubernetes"]
    deployment = kubernetes["envoyDeployment"]
    yield (
        "envoy-gateway.yaml",
        {
            **deployment["pod"],
            "initContainers": deployment["initContainers"],
            "containers": [{"name": "envoy", **deployment["container"]}],
        },
    )


def gateway() -> Json:
    """Kubernetes's set of Envoy and sidecar."""
    specification: Json = FILES.manifests("kubernetes.yaml").the("StatefulSet", "llm-gateway")["spec"]
    return specification


def sidecar_of(pod: Json) -> Json:
    (container,) = [entry for entry in pod["initContainers"] if entry["name"] == "memory"]
    result: Json = container
    return result


def mounts(container: Json) -> dict[str, Json]:
    return {mount["name"]: mount for mount in container["volumeMounts"]}


def sidecar_settings(directory: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """Every settings file of a sidecar, with the environment that its container adds to the image's."""
    base, own = FILES.deploy / "config.yaml", image_environment()
    own = {name: value for name, value in own.items() if name.startswith("SEMROUTER_MEMORY__")}
    yield base, own
    for name, pod in pods():
        environment = own | {entry["name"]: entry["value"] for entry in sidecar_of(pod).get("env", [])}
        if name == "kubernetes.yaml":
            yield base, environment
            continue
        path = directory / name
        path.write_text(FILES.manifests(name).the("ConfigMap")["data"]["config.yaml"], encoding="utf-8")
        yield path, environment


class TestSettings:
    def test_load_and_listen_where_only_envoy_can_reach(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No shared secret is configured, so the server itself would refuse anything wider."""
        for path, environment in sidecar_settings(tmp_path):
            with monkeypatch.context() as patch:
                for name, value in environment.items():
                    patch.setenv(name, value)
                config = load(path)
            for listen in (config.server.listen, config.management.listen):
                require_local_or_secret("listen", listen, None, header=config.server.secret_header)
            assert config.memory.milvus.address

    def test_the_image_knows_where_data_and_model_are(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in image_environment().items():
            monkeypatch.setenv(name, value)
        config = load(FILES.deploy / "config.yaml")
        assert config.memory.model_directory == Path("/model")
        assert config.memory.directory == Path("/data")

    def test_an_operator_port_that_is_open_has_no_token_to_steal(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a token the port serves health and metrics only, and it is what the probes ask."""
        for path, environment in sidecar_settings(tmp_path):
            with monkeypatch.context() as patch:
                for name, value in environment.items():
                    patch.setenv(name, value)
                management = load(path).management
            assert management.operator_listen is not None
            assert management.operator_listen.endswith(":9090")
            assert (management.operator_token, management.operator_token_file) == (None, None)


class TestDockerfile:
    def test_runs_as_nobody_special(self) -> None:
        """By number: an orchestrator that demands a user other than root cannot look up a name."""
        assert instruction("USER") == f"{_GROUP}:{_GROUP}"

    def test_starts_without_a_shell(self) -> None:
        command = json.loads(instruction("ENTRYPOINT")) + json.loads(instruction("CMD"))
        assert command == ["semrouter-memory", "serve", "--config", "/etc/semrouter-memory/config.yaml"]

    def test_bakes_the_model_in(self) -> None:
        built = [value for key, value in FILES.instructions() if key == "RUN" and "model build" in value]
        assert len(built) == 1
        assert "--directory /model" in built[0]
        assert ("COPY", "--from=model /model /model") in FILES.instructions()

    def test_the_final_stage_installs_nothing(self) -> None:
        instructions = FILES.instructions()
        final = max(index for index, (key, _) in enumerate(instructions) if key == "FROM")
        commands = [value for key, value in instructions[final:] if key == "RUN"]
        assert commands
        assert not any(word in value for value in commands for word in ("pip", "apt-get", "curl"))

    def test_every_stage_has_a_python_that_the_package_supports(self) -> None:
        project = tomllib.loads((FILES.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        minimum = project["requires-python"].removeprefix(">=")
        bases = [value.split()[0] for key, value in FILES.instructions() if key == "FROM" and ":" in value]
        assert set(bases) == {f"python:{minimum}-slim"}

    def test_holds_no_secret(self) -> None:
        for key, value in FILES.instructions():
            if key in ("ENV", "ARG"):
                assert not any(word in value.lower() for word in ("secret", "token", "password", "api_key"))

    def test_asks_readyz_where_the_operators_port_is(self) -> None:
        command = instruction("HEALTHCHECK")
        program = json.loads(command[command.index("[") :])
        assert program[:2] == ["python", "-c"]
        compile(program[2], "healthcheck", "exec")
        host, _, port = FILES.yaml("config.yaml")["management"]["operator_listen"].rpartition(":")
        assert f"'{host}', {port}" in program[2]
        assert "/readyz" in program[2]

    def test_copies_only_what_exists_and_is_in_the_build_context(self) -> None:
        ignore = (FILES.root / ".dockerignore").read_text(encoding="utf-8").splitlines()
        assert "*" in ignore
        allowed = {line[1:] for line in ignore if line.startswith("!")}
        copied = [
            source
            for key, value in FILES.instructions()
            if key == "COPY" and "--from" not in value
            for source in value.split()[:-1]
        ]
        assert set(copied) == allowed
        for source in copied:
            assert (FILES.root / source).exists(), source
        assert not any(
            fnmatch(path, pattern) for path in allowed for pattern in ignore if not pattern.startswith(("!", "*"))
        )


class TestCompose:
    @pytest.fixture
    def compose(self) -> Json:
        compose: Json = FILES.yaml("compose.yaml")
        return compose

    def test_mounts_files_that_exist_and_volumes_that_are_declared(self, compose: Json) -> None:
        for service in compose["services"].values():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                if source.startswith("."):
                    assert (FILES.deploy / source).is_file(), source
                else:
                    assert source in compose["volumes"]
            assert set(service.get("networks", [])) <= set(compose["networks"])
            assert {entry["source"] for entry in service.get("configs", [])} <= set(compose["configs"])

    def test_builds_our_image(self, compose: Json) -> None:
        build = compose["services"]["memory"]["build"]
        assert (FILES.deploy / build["context"]).resolve() == FILES.root
        assert (FILES.root / build["dockerfile"]).is_file()

    def test_has_every_part(self, compose: Json) -> None:
        images = {name: service["image"] for name, service in compose["services"].items()}
        assert set(images) == {"envoy", "memory", "milvus", "redis"}
        assert not any(image.endswith(":latest") for image in images.values())
        assert "--appendonly" in compose["services"]["redis"]["command"]

    def test_no_part_but_envoy_publishes_a_port_and_that_one_locally(self, compose: Json) -> None:
        published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
        listener = FILES.chain("deploy/envoy.yaml").bootstrap["static_resources"]["listeners"][0]
        port = listener["address"]["socket_address"]["port_value"]
        assert published == {"envoy": [f"127.0.0.1:{port}:{port}"]}

    def test_the_stores_network_leads_nowhere(self, compose: Json) -> None:
        assert compose["networks"]["store"]["internal"] is True
        assert compose["services"]["milvus"]["networks"] == compose["services"]["redis"]["networks"] == ["store"]
        assert "store" in compose["services"]["memory"]["networks"]

    def test_envoy_is_in_the_group_that_owns_the_sockets(self, compose: Json) -> None:
        options = compose["volumes"]["sockets"]["driver_opts"]
        assert f"gid={_GROUP}" in options["o"]
        assert compose["services"]["envoy"]["user"].split(":")[1] == str(_GROUP)

    def test_nobody_waits_for_the_health_of_what_the_request_can_do_without(self, compose: Json) -> None:
        waits = {
            (name, other): condition["condition"]
            for name, service in compose["services"].items()
            for other, condition in service.get("depends_on", {}).items()
        }
        assert waits == {
            ("envoy", "memory"): "service_started",
            ("memory", "milvus"): "service_started",
            ("memory", "redis"): "service_started",
        }

    def test_every_part_has_a_health_check(self, compose: Json) -> None:
        """The sidecar's is in its image."""
        assert {name for name, service in compose["services"].items() if "healthcheck" not in service} == {"memory"}

    def test_ours_and_envoy_have_no_privileges(self, compose: Json) -> None:
        for name in ("envoy", "memory"):
            service = compose["services"][name]
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]

    def test_the_names_that_the_settings_use_resolve(self, compose: Json) -> None:
        assert FILES.yaml("config.yaml")["memory"]["milvus"]["address"].split(":")[0] in compose["services"]
        llm = FILES.chain("deploy/envoy.yaml").clusters["llm"]["load_assignment"]["endpoints"][0]["lb_endpoints"][0]
        host = llm["endpoint"]["address"]["socket_address"]["address"]
        assert compose["services"]["envoy"]["extra_hosts"] == [f"{host}:host-gateway"]


class TestPods:
    """Of Kubernetes, Istio and Envoy Gateway alike."""

    def test_the_sidecar_starts_before_envoy_and_ends_after_it(self) -> None:
        for _, pod in pods():
            assert sidecar_of(pod)["restartPolicy"] == "Always"

    def test_are_in_the_group_that_owns_the_sockets(self) -> None:
        for name, pod in pods():
            assert pod["securityContext"]["fsGroup"] == _GROUP, name

    def test_the_sidecar_has_no_privileges(self) -> None:
        for name, pod in pods():
            context = pod["securityContext"] | sidecar_of(pod)["securityContext"]
            assert (context["runAsNonRoot"], context["runAsUser"], context["runAsGroup"]) == (True, _GROUP, _GROUP), (
                name
            )
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert context["seccompProfile"] == {"type": "RuntimeDefault"}

    def test_share_the_sockets_and_keep_the_data_from_envoy(self) -> None:
        for name, pod in pods():
            (envoy,) = pod["containers"]
            ours, theirs = mounts(sidecar_of(pod)), mounts(envoy)
            assert ours["sockets"]["mountPath"] == theirs["sockets"]["mountPath"] == "/run/memory", name
            assert theirs["sockets"]["readOnly"] is True
            assert ours["data"]["mountPath"] == "/data"
            assert "data" not in theirs

    def test_the_turn_log_outlives_the_pod_and_has_one_owner(self) -> None:
        """Where it is not shared."""
        for name, pod in pods():
            if name == "kubernetes.yaml":
                continue
            manifests = FILES.manifests(name)
            volumes = {volume["name"]: volume for volume in pod["volumes"]}
            claim = manifests.the("PersistentVolumeClaim", volumes["data"]["persistentVolumeClaim"]["claimName"])
            assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
            if name == "envoy-gateway.yaml":
                deployment = manifests.the("EnvoyProxy")["spec"]["provider"]["kubernetes"]["envoyDeployment"]
            else:
                deployment = manifests.the("Deployment")["spec"]
            assert deployment["replicas"] == 1
            assert deployment["strategy"] == {"type": "Recreate"}

    def test_a_sidecar_that_is_not_ready_takes_nothing_out_of_service(self) -> None:
        for name, pod in pods():
            sidecar = sidecar_of(pod)
            assert not {"readinessProbe", "startupProbe"} & set(sidecar), name
            assert sidecar["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "operator"}
            assert {"name": "operator", "containerPort": 9090} in sidecar["ports"]
        gateway = FILES.manifests("envoy-gateway.yaml").the("EnvoyProxy")["spec"]["provider"]["kubernetes"]
        for service in (FILES.manifests("istio.yaml").the("Service"), gateway["envoyService"]["patch"]["value"]):
            assert service["spec"]["publishNotReadyAddresses"] is True

    def test_run_the_image_of_this_version(self) -> None:
        project = tomllib.loads((FILES.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for name, pod in pods():
            assert sidecar_of(pod)["image"] == f"{project['name']}:{project['version']}", name

    def test_mount_only_volumes_that_they_have(self) -> None:
        for name, pod in pods():
            declared = {volume["name"] for volume in pod["volumes"]}
            if name == "kubernetes.yaml":
                declared.add(gateway()["volumeClaimTemplates"][0]["metadata"]["name"])
            for container in (*pod["initContainers"], *pod["containers"]):
                assert set(mounts(container)) <= declared, name


class TestKubernetes:
    def test_config_maps_are_the_files_beside_it(self) -> None:
        kustomization = FILES.yaml("kustomization.yaml")
        generated = {entry["name"]: entry["files"] for entry in kustomization["configMapGenerator"]}
        for names in (*generated.values(), kustomization["resources"]):
            for name in names:
                assert (FILES.deploy / name).is_file(), name
        pod = gateway()["template"]["spec"]
        used = {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
        assert used == set(generated)

    def test_everything_is_in_one_namespace(self) -> None:
        manifests = FILES.manifests("kubernetes.yaml")
        namespace = manifests.the("Namespace")["metadata"]["name"]
        assert namespace == FILES.yaml("kustomization.yaml")["namespace"]
        spaces = [entry["metadata"].get("namespace") for entry in manifests.documents if entry["kind"] != "Namespace"]
        assert set(spaces) == {namespace}

    def test_the_service_and_the_policy_lead_to_the_pod(self) -> None:
        manifests = FILES.manifests("kubernetes.yaml")
        labels = gateway()["template"]["metadata"]["labels"]
        assert gateway()["selector"]["matchLabels"] == labels
        assert manifests.the("Service", "llm-gateway")["spec"]["selector"] == labels
        policy = manifests.the("NetworkPolicy", "llm-gateway")["spec"]
        assert policy["podSelector"]["matchLabels"] == labels
        clients, monitoring = policy["ingress"]
        assert clients == {"ports": [{"port": "http"}]}
        assert monitoring["ports"] == [{"port": "operator"}]
        assert monitoring["from"]

    def test_no_request_is_sent_to_a_pod_whose_envoy_has_not_started_or_is_gone(self) -> None:
        manifests = FILES.manifests("kubernetes.yaml")
        assert gateway()["replicas"] > 1
        assert "publishNotReadyAddresses" not in manifests.the("Service", "llm-gateway")["spec"]
        (envoy,) = gateway()["template"]["spec"]["containers"]
        assert envoy["readinessProbe"]["tcpSocket"] == {"port": "http"}

    def test_an_eviction_leaves_one_pod(self) -> None:
        budget = FILES.manifests("kubernetes.yaml").the("PodDisruptionBudget")["spec"]
        assert (budget["maxUnavailable"], budget["selector"]) == (1, gateway()["selector"])

    def test_there_is_time_for_answers_and_for_the_sidecar_behind_them(self) -> None:
        pod = gateway()["template"]["spec"]
        command = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1]
        seconds = int(command.partition("sleep ")[2].split()[0]) + int(command.partition("{1..")[2].split("}")[0])
        assert pod["terminationGracePeriodSeconds"] > seconds + ServerConfig().drain_seconds

    def test_its_envoy_is_the_one_of_the_compose_file(self) -> None:
        (envoy,) = gateway()["template"]["spec"]["containers"]
        compose = FILES.yaml("compose.yaml")["services"]["envoy"]
        assert (envoy["image"], envoy["args"]) == (compose["image"], compose["command"])


def test_the_licence_is_the_published_text() -> None:
    assert hashlib.sha256((FILES.root / "LICENSE").read_bytes()).hexdigest() == _APACHE_2


class TestReplicas:
    def test_replicas_share_redis_and_keep_a_volume_each(self) -> None:
        manifests = FILES.manifests("kubernetes.yaml")
        (claim,) = gateway()["volumeClaimTemplates"]
        assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
        environment = {entry["name"]: entry["value"] for entry in sidecar_of(gateway()["template"]["spec"])["env"]}
        url = environment["SEMROUTER_MEMORY__MEMORY__REDIS__URL"]
        service = manifests.the("Service", "redis")
        assert url == f"redis://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}/0"

    def test_redis_keeps_what_it_has_and_lets_the_sidecars_in(self) -> None:
        manifests = FILES.manifests("kubernetes.yaml")
        redis = manifests.the("StatefulSet", "redis")["spec"]
        (container,) = redis["template"]["spec"]["containers"]
        arguments = dict(zip(container["args"][1::2], container["args"][2::2], strict=True))
        assert arguments["--appendonly"] == "yes"
        assert arguments["--maxmemory-policy"] == "noeviction"
        assert (
            arguments["--dir"] == mounts(container)[redis["volumeClaimTemplates"][0]["metadata"]["name"]]["mountPath"]
        )
        (rule,) = manifests.the("NetworkPolicy", "redis")["spec"]["ingress"]
        assert rule["from"] == [{"podSelector": {"matchLabels": gateway()["template"]["metadata"]["labels"]}}]
