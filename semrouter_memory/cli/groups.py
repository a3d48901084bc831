"""Options in groups: a dataclass of options stands for them in a command's parameters."""

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any


def with_groups(function: Callable[..., None], **makers: type) -> Callable[..., None]:
    """The command as typer reads it: options in the place of each parameter that is made of them.

    Args:
        function: a parameter whose type is a dataclass is made of options that are this dataclass's fields.
        makers: of a parameter's name, the dataclass that is handed over in its place; its options come last.
    """
    parameters = signature(function).parameters
    groups: dict[str, Any] = {name: each.annotation for name, each in parameters.items()}
    groups = {name: kind for name, kind in groups.items() if is_dataclass(kind)} | makers
    options_of = {name: signature(group).parameters for name, group in groups.items()}

    @wraps(function)
    def command(**given: Any) -> None:
        made = {name: groups[name](**{each: given.pop(each) for each in options_of[name]}) for name in groups}
        function(**given, **made)

    ordered = [name for name in parameters if name not in makers] + list(makers)
    flat = [
        option.replace(kind=Parameter.KEYWORD_ONLY)
        for name in ordered
        for option in (options_of[name].values() if name in groups else [parameters[name]])
    ]
    command.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    command.__annotations__ = {option.name: option.annotation for option in flat}
    return command
