"""The whole file: read and checked, with the environment on top; and its reference, key by key."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, SecretStr, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from semrouter_memory.config.memory import MemoryConfig
from semrouter_memory.config.section import secret
from semrouter_memory.config.service import (
    ExternalModel,
    ManagementConfig,
    RecordingConfig,
    ServerConfig,
    TelemetryConfig,
)
from semrouter_memory.errors import ConfigurationError, complaint

ENV_PREFIX = "SEMROUTER_MEMORY__"
_ENV_DELIMITER = "__"


class Config(BaseSettings):
    """The whole file. Only `app.py` sees it whole."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=_ENV_DELIMITER,
        frozen=True,
        extra="forbid",
    )

    memory: MemoryConfig = MemoryConfig()
    external_models: Annotated[
        tuple[ExternalModel, ...], BeforeValidator(lambda value: () if value is None else value)
    ] = ()
    server: ServerConfig = ServerConfig()
    management: ManagementConfig = ManagementConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    recording: RecordingConfig = RecordingConfig()

    @model_validator(mode="after")
    def _models_fit_settings(self) -> "Config":
        recall, retain, maintenance = self.memory.recall, self.memory.retain, self.memory.maintenance
        roles = [model.model_role for model in self.external_models]
        for role in roles:
            if roles.count(role) > 1:
                raise ValueError(f"external_models: two models have the role {role}; keep one")
        asking = [f"keyword_extraction: {recall.keyword_extraction}"] if recall.keyword_extraction == "llm" else []
        asking += [f"rewrite: {recall.rewrite}"] if recall.rewrite in ("always", "hyde") else []
        if asking and "memory_rewrite" not in roles:
            raise ValueError(
                f"memory.recall.{asking[0]} asks a model with the role memory_rewrite, and external_models has none;"
                " add one, or leave the setting out"
            )
        if maintenance.reflect == "on" and "memory_reflect" not in roles and "memory_extraction" not in roles:
            raise ValueError(
                "memory.maintenance.reflect asks a model with the role memory_reflect, else memory_extraction, and"
                " external_models has neither; add one, or leave the setting out"
            )
        if "memory_extraction" in roles and retain.breaker_failures >= retain.max_attempts:
            raise ValueError(
                f"memory.retain.breaker_failures is {retain.breaker_failures} but memory.retain.max_attempts is"
                f" {retain.max_attempts}: turns would become dead letters before the circuit to an unavailable model opens; set the"
                " former below the latter"
            )
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the signature is pydantic's
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


class _SettingsLoader(yaml.SafeLoader):
    """Keys are text, whatever YAML makes of `on`, and none stands twice: the first value would be lost without a word."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set[str]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands here twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
            key.tag = self.DEFAULT_SCALAR_TAG
        return node


_MERGE = "tag:yaml.org,2002:merge"
_SECRETS = frozenset({"token", "password", "api_key", "shared_secret", "operator_token", "pseudonym_key"})


def load(path: Path | None = None) -> Config:
    """Read a configuration file (none: the defaults), with the environment on top.

    Raises:
        ConfigurationError: the file is missing, is not YAML, or has a key or value that does not fit; the message
            names its path and what to do.
    """
    try:
        values = _read(path) if path is not None else {}
        _refuse_secrets(values, "")
        _refuse_unknown_environment()
        return Config(**values)
    except RecursionError:
        raise ConfigurationError(f"{path} has a part that holds itself, or is nested too deeply") from None
    except ValidationError as error:
        raise ConfigurationError(_explain(error, path)) from None
    except SettingsError:
        raise ConfigurationError(f"environment variable {_unreadable_variable()}: its value must be JSON") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _SettingsLoader)  # noqa: S506 - a safe one
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not YAML: {error}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path} must hold a mapping with `memory:` and its siblings")
    return content


def _refuse_secrets(value: Any, where: str) -> None:
    if isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_secrets(item, f"{where}.{index}")
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        path = f"{where}.{key}" if where else str(key)
        if key in _SECRETS and item is not None:
            # A list has no variable for each of its items.
            instead = f"{path}_env" if key == "api_key" else variable_of(path)
            raise ConfigurationError(f"{path}: secrets do not belong in the file; set {instead}, or {path}_file")
        _refuse_secrets(item, path)


def variable_of(setting: str) -> str:
    """The environment variable that sets `memory.data_dir`, for example."""
    return ENV_PREFIX + setting.upper().replace(".", _ENV_DELIMITER)


def _refuse_unknown_environment() -> None:
    """A mistyped variable is silently ignored otherwise; its first part at least can be checked."""
    for name in os.environ:
        if name.upper().startswith(ENV_PREFIX):
            section = name[len(ENV_PREFIX) :].split(_ENV_DELIMITER)[0].lower()
            if section not in Config.model_fields:
                known = ", ".join(sorted(Config.model_fields))
                raise ConfigurationError(f"environment variable {name}: no section {section!r}; there are {known}")


def _unreadable_variable() -> str:
    """The one that sets a list or a section, and is no JSON."""
    source = EnvSettingsSource(Config)
    for name in (name for name in os.environ if name.upper().startswith(ENV_PREFIX)):
        source.env_vars = {name.lower(): os.environ[name]}
        try:
            source()
        except SettingsError:
            return name
    return f"{ENV_PREFIX}..."


def _explain(error: ValidationError, path: Path | None) -> str:
    lines = [f"the configuration{f' {path}' if path else ''} does not fit:"]
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"]) or "(top level)"
        lines.append(f"  {where}: {complaint(problem)}")
    return "\n".join(lines)


def secret_readers(config: Config) -> Iterator[tuple[str, Callable[[], object]]]:
    """For each setting that names a secret's file or variable, what reads it or raises `ConfigurationError`."""
    memory, server, management = config.memory, config.server, config.management
    recording, tracing = config.recording, config.telemetry.tracing
    yield "server.shared_secret_file", partial(secret, server.shared_secret, server.shared_secret_file)
    yield "management.operator_token_file", partial(secret, management.operator_token, management.operator_token_file)
    yield "memory.milvus.token_file", partial(secret, memory.milvus.token, memory.milvus.token_file)
    yield "memory.redis.password_file", partial(secret, memory.redis.password, memory.redis.password_file)
    yield "recording.pseudonym_key_file", partial(secret, recording.pseudonym_key, recording.pseudonym_key_file)
    yield "telemetry.tracing.headers_file", partial(secret, None, tracing.headers_file if tracing.enabled else None)
    for index, model in enumerate(config.external_models):
        yield f"external_models[{index}]", partial(getattr, model, "api_key")


# -- the reference ------------------------------------------------------------------------------------------------------


def reference_markdown() -> str:
    """A table in Markdown, one row for each key."""
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    rows += [f"| `{path}` | {kind} | {default} | {meaning} |" for path, kind, default, meaning in reference_rows()]
    return "\n".join(rows)


def reference_rows() -> Iterator[tuple[str, str, str, str]]:
    """Each key with its type, default and meaning."""
    for section, prefix in ((Config, ""), (ExternalModel, "external_models[].")):
        for path, field in _leaves(section, prefix):
            default = "required" if field.is_required() else f"`{_value(field.get_default(call_default_factory=True))}`"
            yield path, _type(field.annotation), default, field.description or ""


def _leaves(section: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _leaves(inner, f"{prefix}{name}.")
        elif name != "external_models":
            yield prefix + name, field


def _value(default: Any) -> str:
    if isinstance(default, tuple):
        return "[" + ", ".join(map(str, default)) + "]"
    if isinstance(default, bool):
        return str(default).lower()
    return "unset" if default is None else f'"{default}"' if default == "" else str(default)


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return _plain_type(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return ", ".join(str(value) for value in arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"mapping of {_type(arguments[0])} to {_type(arguments[1])}"
    assert origin in (Union, UnionType), f"a setting's type that the reference cannot describe: {annotation}"
    return _type(next(part for part in arguments if part is not type(None)))


def _plain_type(annotation: Any) -> str:
    members = getattr(annotation, "__members__", None)
    if members is not None:
        return ", ".join(str(member) for member in members.values())
    names = {SecretStr: "secret", Path: "path", str: "text", bool: "switch", int: "integer", float: "number"}
    return names[annotation]
