"""`semrouter-memory config ...`: check a file, print the reference."""

from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from semrouter_memory.config import Config, ExternalModel, load

app = typer.Typer()
config_app = typer.Typer(help="The configuration file.", no_args_is_help=True)
app.add_typer(config_app, name="config")


@config_app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The YAML file.")],
    *,
    elsewhere: Annotated[
        bool, typer.Option("--elsewhere", help="The service runs on another machine: check the file alone.")
    ] = False,
) -> None:
    """Say whether the service would start with a file and the environment on top of it; exit status 2 when not.

    Files, directories and the embedding model are looked at on this machine.
    Nothing is connected to; `doctor` does that.
    """
    from semrouter_memory.app import preflight  # noqa: PLC0415 - the server's libraries take a second to load

    config = load(file)
    if elsewhere:
        preflight.check_file(config)
    else:
        preflight.check(config)
        preflight.check_parts(config)
    typer.echo(f"{file} fits")


@config_app.command()
def reference() -> None:
    """Print every key with its type, default and meaning, as Markdown."""
    typer.echo(reference_markdown())


def reference_markdown() -> str:
    """The configuration reference: one table row for each key."""
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
