"""How the operator's commands reach a running sidecar: its operator's port, with the operator's token."""

import os
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from semrouter_memory.config import ENV_PREFIX, secret
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.client import PREPARED_SHELL, ApiEndpoint, OperatorClient

OPERATOR_API = "http://127.0.0.1:9090"
TOKEN_VARIABLE = f"{ENV_PREFIX}MANAGEMENT__OPERATOR_TOKEN"
URL_VARIABLE = "SEMROUTER_MEMORY_OPERATOR_URL"
TOKEN_FILE_VARIABLE = "SEMROUTER_MEMORY_OPERATOR_TOKEN_FILE"  # noqa: S105 - a variable's name

_TIMEOUT_SECONDS = 900.0
"""Rewriting and copying files takes as long as they are large."""


OperatorUrl = Annotated[
    str,
    typer.Option(
        envvar=URL_VARIABLE,
        help="management.operator_listen of the sidecar: http(s)://host:port or unix:path.",
    ),
]
OperatorTokenFile = Annotated[
    Path | None,
    typer.Option(
        envvar=TOKEN_FILE_VARIABLE,
        help=f"File with the operator's token; without it, {TOKEN_VARIABLE} in the environment.",
    ),
]


def _connect(url: OperatorUrl = OPERATOR_API, operator_token_file: OperatorTokenFile = None) -> ApiEndpoint:
    return operator_target(url, operator_token_file)


def operator_target(url: str, operator_token_file: Path | None) -> ApiEndpoint:
    """The operator's port and token. Raises: InvalidRequestError, when there is no token."""
    token = secret(None, operator_token_file) or os.environ.get(TOKEN_VARIABLE)
    if not token:
        raise InvalidRequestError(
            f"show the operator's token: --operator-token-file, or {TOKEN_VARIABLE}. {PREPARED_SHELL}"
        )
    return ApiEndpoint(url=url, headers={"authorization": f"Bearer {token}"})


def operator_command(group: typer.Typer, name: str) -> Callable[[Callable[..., None]], None]:
    """Registers a command that is given a client; its connection options stand behind its name."""
    shared = signature(_connect).parameters.values()

    def register(function: Callable[..., None]) -> None:
        own = list(signature(function).parameters.values())[1:]

        @wraps(function)
        def command(**given: Any) -> None:
            connection = {parameter.name: given.pop(parameter.name) for parameter in shared}
            with OperatorClient(_connect(**connection), timeout_seconds=_TIMEOUT_SECONDS) as client:
                function(client, **given)

        parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in (*own, *shared)]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        group.command(name)(command)

    return register
