"""How commands reach a running sidecar: as a user at the API, or as the operator with a token at the operator's port."""

import os
from collections.abc import Callable
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.client import PREPARED_SHELL, ApiClient, ApiEndpoint, MemoryClient, OperatorClient
from semrouter_memory.secret_file import read_secret
from semrouter_memory.stack.run_directory import OPERATOR_TOKEN_VARIABLE

_USER_API = "http://127.0.0.1:8081"
_ENVOY = "http://127.0.0.1:10000"
OPERATOR_API = "http://127.0.0.1:9090"
URL_VARIABLE = "SEMROUTER_MEMORY_OPERATOR_URL"
TOKEN_FILE_VARIABLE = "SEMROUTER_MEMORY_OPERATOR_TOKEN_FILE"  # noqa: S105 - a variable's name

_OPERATOR_SECONDS = 900.0
"""Rewriting and copying files takes as long as they are large."""

Register = Callable[[Callable[..., None]], None]

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
        help=f"File with the operator's token; without it, {OPERATOR_TOKEN_VARIABLE} in the environment.",
    ),
]


def operator_endpoint(url: OperatorUrl = OPERATOR_API, operator_token_file: OperatorTokenFile = None) -> ApiEndpoint:
    """The operator's port and token. Raises: InvalidRequestError, when there is no token."""
    token = read_secret(operator_token_file) if operator_token_file else os.environ.get(OPERATOR_TOKEN_VARIABLE)
    if not token:
        raise InvalidRequestError(
            f"show the operator's token: --operator-token-file, or {OPERATOR_TOKEN_VARIABLE}. {PREPARED_SHELL}"
        )
    return ApiEndpoint(url=url, headers={"authorization": f"Bearer {token}"})


Owner = Annotated[
    str | None, typer.Option(help="Another owner's memories: org:ID or agent:ID, for operators and administrators.")
]


def user_endpoint(
    url: Annotated[
        str | None,
        typer.Option(
            envvar="SEMROUTER_MEMORY_URL",
            help=f"http(s)://host:port or unix:path. Default {_USER_API}, with an API key {_ENVOY}, with an operator's"
            f" token {URL_VARIABLE}, else {OPERATOR_API}.",
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(envvar="SEMROUTER_MEMORY_USER", help="Whose memories (not needed with --api-key)."),
    ] = None,
    owner: Owner = None,
    user_header: Annotated[str, typer.Option(help="memory.identity.user_header of the sidecar.")] = "x-authz-user-id",
    api_key: Annotated[
        str | None,
        typer.Option(envvar="SEMROUTER_MEMORY_API_KEY", help="Ask through Envoy, which knows the user by this key."),
    ] = None,
    operator_token_file: Annotated[
        Path | None,
        typer.Option(
            help="Ask the operator's port, with the token in this file."
            f" {TOKEN_FILE_VARIABLE} says the same where neither a URL nor an API key is given."
        ),
    ] = None,
) -> ApiEndpoint:
    """One owner's memories, at the API or at the operator's port. Raises: InvalidRequestError, when none is named."""
    parameters = {"owner": owner} if owner else {}
    if operator_token_file is None and url is None and api_key is None and os.environ.get(TOKEN_FILE_VARIABLE):
        operator_token_file = Path(os.environ[TOKEN_FILE_VARIABLE])
    if api_key is not None and operator_token_file is None:
        headers = {"authorization": f"Bearer {api_key}"}
        return ApiEndpoint(url=url or _ENVOY, user=user or "", headers=headers, parameters=parameters)
    if not user and (owner is None or operator_token_file is None):
        raise InvalidRequestError(f"say whose memories: --user, or --api-key to be known by Envoy. {PREPARED_SHELL}")
    if operator_token_file is None:
        return ApiEndpoint(
            url=url or _USER_API, user=user or "", headers={user_header: user or ""}, parameters=parameters
        )
    headers = {"authorization": f"Bearer {read_secret(operator_token_file)}"}
    address = url or os.environ.get(URL_VARIABLE) or OPERATOR_API
    return ApiEndpoint(url=address, user=user or "", headers=headers, parameters=parameters or {"user_id": user or ""})


def user_command(group: typer.Typer, name: str) -> Register:
    """Registers a command that is given a `MemoryClient`; its connection options may stand behind its name."""
    return partial(_register, group, name, user_endpoint, MemoryClient)


def operator_command(group: typer.Typer, name: str) -> Register:
    """Same, of a command that is given an `OperatorClient`."""
    client = partial(OperatorClient, timeout_seconds=_OPERATOR_SECONDS)
    return partial(_register, group, name, operator_endpoint, client)


def _register(
    group: typer.Typer,
    name: str,
    endpoint: Callable[..., ApiEndpoint],
    client: Callable[[ApiEndpoint], ApiClient],
    function: Callable[..., None],
) -> None:
    shared = signature(endpoint).parameters.values()
    own = list(signature(function).parameters.values())[1:]

    @wraps(function)
    def command(**given: Any) -> None:
        connection = {parameter.name: given.pop(parameter.name) for parameter in shared}
        with client(endpoint(**connection)) as connected:
            function(connected, **given)

    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in (*own, *shared)]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    group.command(name)(command)
