"""The configuration file: what loads, what wins, and what is said of mistakes."""

import re
from operator import attrgetter
from pathlib import Path

import pytest
from pydantic import SecretStr

from semrouter_memory.config import load, secret, variable_of
from semrouter_memory.config.loading import reference_markdown
from semrouter_memory.errors import ConfigurationError

BLUEPRINT = """
memory:
  enabled: true
  auto_store: true
  milvus: {address: "milvus:19530", collection: "agentic_memory", dimension: 384}
  embedding: {model: "all-MiniLM-L6-v2", dimension: 384}
  default_retrieval_limit: 5
  default_similarity_threshold: 0.6
  extraction_batch_size: 10
external_models:
  - {llm_provider: "vllm", model_role: "memory_rewrite", llm_endpoint: {address: "qwen", port: 8000},
     llm_model_name: "qwen3", llm_timeout_seconds: 30, max_tokens: 100, temperature: 0.1}
  - {llm_provider: "vllm", model_role: "memory_extraction", llm_endpoint: {address: "qwen", port: 8000},
     llm_model_name: "qwen3", llm_timeout_seconds: 30, max_tokens: 500, temperature: 0.1}
"""


@pytest.fixture
def write(tmp_path: Path) -> "Writer":
    return Writer(tmp_path / "config.yaml")


class Writer:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, text: str) -> Path:
        self.path.write_text(text, encoding="utf-8")
        return self.path


def test_the_documented_file_loads_unchanged(write: Writer) -> None:
    config = load(write(BLUEPRINT))
    assert config.memory.milvus.address == "milvus:19530"
    assert [model.model_role for model in config.external_models] == ["memory_rewrite", "memory_extraction"]
    assert config.external_models[0].llm_endpoint.url == "http://qwen:8000/v1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "memory: {}",
        "memory:\nserver:\nexternal_models:\n",
        "memory:\n  redis:\n  # url: redis://x\n",
    ],
)
def test_every_key_has_a_default(write: Writer, text: str) -> None:
    assert load(write(text)) == load()


def test_the_environment_wins(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMROUTER_MEMORY__MEMORY__MILVUS__COLLECTION", "other")
    monkeypatch.setenv("SEMROUTER_MEMORY__MEMORY__MILVUS__TOKEN", "root:secret")
    milvus = load(write(BLUEPRINT)).memory.milvus
    assert (milvus.collection, milvus.address) == ("other", "milvus:19530")
    assert milvus.token == SecretStr("root:secret")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory: {milvus: {adress: x}}", r"memory\.milvus\.adress: unknown field"),
        ("memery: {}", r"memery: unknown field"),
        ("memory: {default_retrieval_limit: -1}", r"memory\.default_retrieval_limit: Input should be greater"),
        ("memory: {default_similarity_threshold: 1.5}", r"memory\.default_similarity_threshold: "),
        ("memory: {milvus: {dimension: 768}}", r"memory\.milvus\.dimension is 768 but .* set both"),
        ("memory: {recall: {position: top}}", r"memory\.recall\.position: Input should be 'system' or 'user_tail'"),
        ("memory: {milvus: {token: x}}", r"memory\.milvus\.token: secrets .* SEMROUTER_MEMORY__MEMORY__MILVUS__TOKEN"),
        ("memory: {identity: {user_header: 'x-user:'}}", r"memory\.identity\.user_header: String should match"),
        ("memory: {redis: 'redis://x'}", r"memory\.redis: Input should be a mapping"),
        ("external_models: {}", r"external_models: Input should be a list"),
        ("memory: {data_dir: ''}", r"memory\.data_dir: '' is no path"),
        ("memory: {data_dir: ~no-such-user/x}", r"memory\.data_dir: .* write the whole path"),
        ("memory: {}\nserver: {}\nmemory: {}", r"'memory' stands here twice(.|\n)*line 3"),
        ("memory: {recall: {rewrite: vague, rewrite: always}}", r"'rewrite' stands here twice"),
        ("on: 1", r"on: unknown field"),
        (
            "external_models: [{api_key: k}]",
            r"external_models\.0\.api_key: .* external_models\.0\.api_key_env, or .*file",
        ),
        ("[1, 2]", r"must hold a mapping"),
        ("memory: {", r"is not YAML"),
        (
            "external_models: [{model_role: memory_rewrite, llm_model_name: m, llm_endpoint: {}}]",
            r"external_models\.0\.llm_endpoint: needs base_url, or address and port",
        ),
        (BLUEPRINT.replace("memory_extraction", "memory_rewrite"), r"two models have the role memory_rewrite"),
        (
            BLUEPRINT.replace("  enabled: true", "  retain: {breaker_failures: 4, max_attempts: 4}"),
            r"memory\.retain\.breaker_failures is 4 but memory\.retain\.max_attempts is 4",
        ),
    ],
)
def test_a_mistake_is_named_with_its_path(write: Writer, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load(write(text))


@pytest.mark.parametrize("role", ["memory_reflect", "memory_extraction"])
def test_insights_need_a_model(write: Writer, role: str) -> None:
    wanted = "memory: {maintenance: {reflect: on}}\n"
    with pytest.raises(ConfigurationError, match=r"memory\.maintenance\.reflect asks a model"):
        load(write(wanted))
    model = f"external_models: [{{model_role: {role}, llm_model_name: m, llm_endpoint: {{base_url: 'http://x/v1'}}}}]"
    assert load(write(wanted + model)).memory.maintenance.reflect == "on"


def test_a_bare_on_is_what_it_says(write: Writer) -> None:
    """YAML reads it as true."""
    ageing = load(write("memory: {ageing: {consolidate: on, prune: off}}")).memory.ageing
    assert (ageing.consolidate, ageing.prune) == ("on", "off")


def test_without_a_model_to_leave_alone_the_attempts_are_free(write: Writer) -> None:
    assert load(write("memory: {retain: {max_attempts: 1}}")).memory.retain.max_attempts == 1


@pytest.mark.parametrize(
    ("setting", "most"),
    [
        ("memory.recall.receipt_days", 36_500),
        ("memory.ageing.ttl_days.semantic", 36_500),
        ("memory.retain.session_memory_hours", 876_000),
        ("memory.retain.retry_max_seconds", 2**31 - 1),
        ("server.max_message_bytes", 2**31 - 1),
        ("server.max_connection_seconds", 2_000_000),
    ],
)
def test_a_number_that_no_part_can_compute_with_is_refused(
    monkeypatch: pytest.MonkeyPatch, setting: str, most: int
) -> None:
    """Also "for ever": an instant that long ago is in no calendar."""
    monkeypatch.setenv(variable_of(setting), str(most))
    load()
    for larger in (str(most + 1), "inf") if "bytes" not in setting else (str(most + 1),):
        monkeypatch.setenv(variable_of(setting), larger)
        with pytest.raises(ConfigurationError, match=rf"{setting.removesuffix('.semantic')}.*: .*{most}"):
            load()


@pytest.mark.parametrize("endless", ["memory: &m {milvus: *m}", f"memory: {'[' * 2_000}{']' * 2_000}"])
def test_a_file_without_an_end_is_refused(write: Writer, endless: str) -> None:
    with pytest.raises(ConfigurationError, match=r"config\.yaml has a part that holds itself, or is nested too deeply"):
        load(write(endless))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the configuration .*nothing\.yaml: No such file"):
        load(tmp_path / "nothing.yaml")


def test_a_mistyped_variable_is_no_silent_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMROUTER_MEMORY__MEMERY__ENABLED", "false")
    with pytest.raises(ConfigurationError, match="no section 'memery'"):
        load()


def test_a_merge_key_is_no_repetition(write: Writer) -> None:
    recall = load(write("memory: {recall: {agent: &a {limit: 1}, organisation: {<<: *a, limit: 2}}}")).memory.recall
    assert (recall.agent.limit, recall.organisation.limit) == (1, 2)


@pytest.mark.parametrize("setting", ["external_models", "memory.redis", "memory.identity.opt_out_headers"])
def test_a_variable_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    monkeypatch.setenv(variable_of("memory.enabled"), "off")
    monkeypatch.setenv(variable_of(setting), "x-one,x-two")
    with pytest.raises(ConfigurationError, match=f"{variable_of(setting)}: its value must be JSON"):
        load()


def test_a_home_directory_is_found_wherever_a_path_stands(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    config = load(write("memory: {data_dir: ~/d}\nserver: {listen: 'unix:~/s'}\nrecording: {directory: ~/r}"))
    assert (config.memory.directory, config.server.listen) == (Path("/home/me/d"), "unix:/home/me/s")
    assert config.recording.directory == Path("/home/me/r")


def test_secrets_come_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n")
    assert secret(None, None) is None
    assert secret(None, file) == "from-file"
    assert secret(SecretStr("from-environment"), file) == "from-environment"
    file.write_text(" \n")
    with pytest.raises(ConfigurationError, match="is empty"):
        secret(None, file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="is not text"):
        secret(None, file)
    with pytest.raises(ConfigurationError, match="cannot read the secret file"):
        secret(None, tmp_path / "missing")


@pytest.mark.parametrize(
    "setting",
    [
        "server.shared_secret",
        "management.operator_token",
        "memory.milvus.token",
        "memory.redis.password",
        "recording.pseudonym_key",
    ],
)
def test_a_secret_of_the_environment_is_read_as_one_of_a_file(monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    """An empty secret is what everybody sends, and a variable's value often ends in the line break of the file that it is from."""
    for empty in ("", " \n"):
        monkeypatch.setenv(variable_of(setting), empty)
        with pytest.raises(ConfigurationError, match=f"{setting}: the variable is empty"):
            load()
    monkeypatch.setenv(variable_of(setting), "from-a-file\n")
    assert attrgetter(setting)(load()) == SecretStr("from-a-file")


def test_a_models_key_comes_from_where_the_file_says(write: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    (model,) = load(
        write(
            "external_models: [{model_role: memory_rewrite, llm_model_name: m, llm_endpoint: {base_url: 'http://x/v1'},"
            " api_key_env: MY_KEY}]"
        )
    ).external_models
    with pytest.raises(ConfigurationError, match="MY_KEY"):
        _ = model.api_key
    monkeypatch.setenv("MY_KEY", "")
    with pytest.raises(ConfigurationError, match="MY_KEY"):
        _ = model.api_key
    monkeypatch.setenv("MY_KEY", "k\n")
    assert model.api_key == "k"


def test_every_key_is_explained() -> None:
    rows = [line for line in reference_markdown().splitlines()[2:] if re.search(r"\|\s*\|$", line)]
    assert rows == []
