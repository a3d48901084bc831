"""The reference of the configuration: every key with its type, default and meaning."""

from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from semrouter_memory.config.loading import Config
from semrouter_memory.config.service import ExternalModel


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
