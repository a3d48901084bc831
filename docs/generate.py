"""Writes the pages under `docs/reference/` from the code: `make docs`, or `python -m docs.generate`.

The pages are committed, so that they can be read in the repository; a test compares them with the code.
"""

import inspect
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.main import get_command

from semrouter_memory.cli import app
from semrouter_memory.config import ENV_PREFIX, Config, ExternalModel
from semrouter_memory.config.loading import reference_rows
from semrouter_memory.exchange import states

REFERENCE = Path(__file__).parent / "reference"

_FILE = """\
The configuration is one YAML file. Each table is one section of it; every key has a default unless it is marked as required. An unknown key is an
error. No time in days or hours is above 100 years, and no other number above 2147483647. `semrouter-memory config check FILE` checks a file, and
`semrouter-memory config reference` prints all keys as one table."""
_ENVIRONMENT = f"""\
Environment variables override the file: `{ENV_PREFIX}MEMORY__MILVUS__URI` sets `memory.milvus.uri`, and `{ENV_PREFIX}EXTERNAL_MODELS` sets the whole
list as JSON. Keys of type secret are read from the environment, or from the file that the key with the suffix `_file` names; in the YAML file they are
an error."""
_STATES = """\
One HTTP exchange is a state machine. A trigger that the table does not list in a state is not possible there: the driver ends the stream, and Envoy
continues without the sidecar."""

_GENERATED = "*This page is generated from `{source}` by `make docs`. Do not edit it.*"
_BOUNDS = {
    annotated_types.Ge: ("at least", "ge"),
    annotated_types.Gt: ("more than", "gt"),
    annotated_types.Le: ("at most", "le"),
    annotated_types.Lt: ("less than", "lt"),
}


def pages() -> Mapping[str, str]:
    """The text of each generated page, by file name."""
    return {"configuration.md": _configuration(), "cli.md": _cli(), "exchange-states.md": _exchange_states()}


def main() -> None:
    """Write the pages that are not current."""
    for name, text in pages().items():
        path = REFERENCE / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _page(title: str, source: str, parts: list[str]) -> str:
    return "\n\n".join([f"# {title}", _GENERATED.format(source=source), *parts]) + "\n"


# -- configuration -----------------------------------------------------------------------------------------------------


def _configuration() -> str:
    rows = {path: cells for path, *cells in reference_rows()}
    tables = [part for section, prefix in _sections() for part in _section(section, prefix, rows)]
    return _page("Configuration", "semrouter_memory/config", [_FILE, _ENVIRONMENT, *tables])


def _sections() -> Iterator[tuple[type[BaseModel], str]]:
    for section, prefix in ((Config, ""), (ExternalModel, "external_models[].")):
        yield from _nested(section, prefix)


def _nested(section: type[BaseModel], prefix: str) -> Iterator[tuple[type[BaseModel], str]]:
    yield section, prefix
    for name, field in section.model_fields.items():
        kind: Any = field.annotation
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            yield from _nested(kind, f"{prefix}{name}.")


def _section(section: type[BaseModel], prefix: str, rows: Mapping[str, list[str]]) -> Iterator[str]:
    """A heading, the section's own description and a table of its keys; nothing for a section without keys."""
    keys = [(name, field) for name, field in section.model_fields.items() if prefix + name in rows]
    if not keys:
        return
    yield f"## `{prefix.removesuffix('.')}`"
    if section.__doc__ and section.__doc__ != BaseModel.__doc__:
        yield inspect.cleandoc(section.__doc__)
    table = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for name, field in keys:
        kind, default, meaning = rows[prefix + name]
        table.append(f"| `{prefix}{name}` | {', '.join([kind, *_bounds(field)])} | {default} | {_escaped(meaning)} |")
    yield "\n".join(table)


def _bounds(field: FieldInfo) -> Iterator[str]:
    for constraint in field.metadata:
        for kind, (words, attribute) in _BOUNDS.items():
            if isinstance(constraint, kind):
                yield f"{words} {getattr(constraint, attribute)}"


# -- command line ------------------------------------------------------------------------------------------------------


def _cli() -> str:
    root: Any = get_command(app)
    parts = [str(root.help), *_index(root, "semrouter-memory"), *_commands(root, "semrouter-memory")]
    return _page("Command line", "semrouter_memory/cli", parts)


def _index(group: Any, path: str) -> Iterator[str]:
    """The names of all commands, with links."""
    found = [name for name, command in _leaves(group, path) if command.help]
    yield "\n".join(f"* [`{name}`](#{name.replace(' ', '-')})" for name in found)


def _leaves(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something by itself, with its full name."""
    for name, command in sorted(group.commands.items()):
        if hasattr(command, "commands"):
            if any(_is_shown(parameter) for parameter in command.params):
                yield f"{path} {name}", command
            yield from _leaves(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _commands(group: Any, path: str) -> Iterator[str]:
    for name, command in _leaves(group, path):
        yield f"## `{name}`"
        yield f"    {' '.join([name, *_usage(command)])}"
        yield _escaped(inspect.cleandoc(command.help))
        declared = inspect.signature(command.callback).parameters
        rows = [_parameter(each, declared[each.name].annotation) for each in command.params if _is_shown(each)]
        if rows:
            yield "\n".join(["| option or argument | default | meaning |", "|---|---|---|", *rows])


def _is_shown(parameter: Any) -> bool:
    return not getattr(parameter, "hidden", False) and parameter.name != "help"


def _usage(command: Any) -> Iterator[str]:
    options = [parameter for parameter in command.params if _is_shown(parameter) and _is_option(parameter)]
    yield from (parameter.opts[0] + " ..." for parameter in options if parameter.required)
    if any(not parameter.required for parameter in options):
        yield "[OPTIONS]"
    for parameter in command.params:
        if not _is_option(parameter):
            name = parameter.name.upper() + ("..." if parameter.nargs != 1 else "")
            yield name if parameter.required else f"[{name}]"


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts[0].startswith("-"))


def _parameter(parameter: Any, kind: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts] if _is_option(parameter) else [parameter.name.upper()]
    meaning = _escaped(" ".join((parameter.help or "").split()))
    if choices := list(_choices(kind)):
        meaning += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    if parameter.envvar:
        meaning += f" Environment: `{parameter.envvar}`."
    return f"| {', '.join(f'`{name}`' for name in names)} | {_default(parameter)} | {meaning.strip()} |"


def _choices(kind: Any) -> Iterator[str]:
    """The values of an option that takes one of a few."""
    if inspect.isclass(kind) and issubclass(kind, Enum):
        yield from (str(member.value) for member in kind)
    elif get_origin(kind) is Literal:
        yield from map(str, get_args(kind))
    else:
        for part in get_args(kind):
            yield from _choices(part)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    shown = isinstance(default, str | int | float | Path) and default is not False and default != ""
    return f"`{str(default).lower() if default is True else default}`" if shown else ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


# -- exchange states ---------------------------------------------------------------------------------------------------


def _exchange_states() -> str:
    arrows = [(state, trigger, after) for state, row in states.TRANSITIONS.items() for trigger, after in row.items()]
    diagram = ["```mermaid", "stateDiagram-v2", f"    [*] --> {states.State.IDLE}"]
    diagram += [f"    {state} --> {after}: {trigger}" for state, trigger, after in arrows]
    diagram += [f"    {states.State.DONE} --> [*]", "```"]
    table = ["| state | trigger | next state |", "|---|---|---|"]
    table += [f"| `{state}` | `{trigger}` | `{after}` |" for state, trigger, after in arrows]
    parts = [_STATES, "\n".join(diagram), "\n".join(table)]
    parts += ["## States", _members(states.State), "## Triggers", _members(states.StateTrigger)]
    return _page("States of an exchange", "semrouter_memory/exchange/states.py", parts)


def _members(kind: type[Enum]) -> str:
    """The members of an enumeration with the docstrings that follow them in its source."""
    lines = [line.strip() for line in inspect.getsource(kind).splitlines()]
    rows = ["| name | meaning |", "|---|---|"]
    for member in kind:
        after = lines.index(f'{member.name} = "{member.value}"') + 1
        meaning = lines[after].strip('"') if after < len(lines) and lines[after].startswith('"""') else ""
        rows.append(f"| `{member.value}` | {meaning} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
