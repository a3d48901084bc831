"""How commands reach a running sidecar: as a user at the API, or as the operator with a token at the operator's port."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from semrouter_memory.cli.option_groups import with_groups
from semrouter_memory.cli.output import AsJson, print_json
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.manage.client import PREPARED_SHELL, ApiClient, ApiEndpoint
from semrouter_memory.model import Json
from semrouter_memory.secret_file import read_secret

_USER_API = "http://127.0.0.1:8081"
_ENVOY = "http://127.0.0.1:10000"
OPERATOR_API = "http://127.0.0.1:9090"
URL_VARIABLE = "SEMROUTER_MEMORY_OPERATOR_URL"
TOKEN_FILE_VARIABLE = "SEMROUTER_MEMORY_OPERATOR_TOKEN_FILE"  # noqa: S105 - a variable's name

OPERATOR_TOKEN_VARIABLE = "SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN"  # noqa: S105 - same
"""The setting's own: an installation that has its token from the environment shares it."""

_OPERATOR_SECONDS = 900.0
"""Rewriting and copying files takes as long as they are large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConnection:
    """The operator's port and token."""

    url: Annotated[
        str,
        typer.Option(
            envvar=URL_VARIABLE, help="management.operator_listen of the sidecar: http(s)://host:port or unix:path."
        ),
    ] = OPERATOR_API
    operator_token_file: Annotated[
        Path | None,
        typer.Option(
            envvar=TOKEN_FILE_VARIABLE,
            help=f"File with the operator's token; without it, {OPERATOR_TOKEN_VARIABLE} in the environment.",
        ),
    ] = None

    def endpoint(self) -> ApiEndpoint:
        """Raises: InvalidRequestError, when there is no token."""
        file = self.operator_token_file
        token = read_secret(file) if file else os.environ.get(OPERATOR_TOKEN_VARIABLE)
        if not token:
            raise InvalidRequestError(
                f"show the operator's token: --operator-token-file, or {OPERATOR_TOKEN_VARIABLE}. {PREPARED_SHELL}"
            )
        headers = {"authorization": f"Bearer {token}"}
        return ApiEndpoint(url=self.url, headers=headers, timeout_seconds=_OPERATOR_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserConnection:
    """One owner's memories, at the API or at the operator's port."""

    url: Annotated[
        str | None,
        typer.Option(
            envvar="SEMROUTER_MEMORY_URL",
            help=f"http(s)://host:port or unix:path. Default {_USER_API}, with an API key {_ENVOY}, with an operator's"
            f" token {URL_VARIABLE}, else {OPERATOR_API}.",
        ),
    ] = None
    user: Annotated[
        str | None,
        typer.Option(envvar="SEMROUTER_MEMORY_USER", help="Whose memories (not needed with --api-key)."),
    ] = None
    owner: Annotated[
        str | None, typer.Option(help="Another owner's memories: org:ID or agent:ID, for operators and administrators.")
    ] = None
    user_header: Annotated[str, typer.Option(help="memory.identity.user_header of the sidecar.")] = "x-authz-user-id"
    api_key: Annotated[
        str | None,
        typer.Option(envvar="SEMROUTER_MEMORY_API_KEY", help="Ask through Envoy, which knows the user by this key."),
    ] = None
    operator_token_file: Annotated[
        Path | None,
        typer.Option(
            help="Ask the operator's port, with the token in this file."
            f" {TOKEN_FILE_VARIABLE} says the same where neither a URL nor an API key is given."
        ),
    ] = None

    def endpoint(self) -> ApiEndpoint:
        """Raises: InvalidRequestError, when no owner is named."""
        user, owner = self.user or "", {"owner": self.owner} if self.owner else {}
        token_file = self.operator_token_file or self._token_file_of_the_shell()
        if self.api_key is not None and token_file is None:
            headers = {"authorization": f"Bearer {self.api_key}"}
            return ApiEndpoint(url=self.url or _ENVOY, user=user, headers=headers, parameters=owner)
        if not user and (self.owner is None or token_file is None):
            raise InvalidRequestError(
                f"say whose memories: --user, or --api-key to be known by Envoy. {PREPARED_SHELL}"
            )
        if token_file is None:
            headers = {self.user_header: user}
            return ApiEndpoint(url=self.url or _USER_API, user=user, headers=headers, parameters=owner)
        headers = {"authorization": f"Bearer {read_secret(token_file)}"}
        url = self.url or os.environ.get(URL_VARIABLE) or OPERATOR_API
        return ApiEndpoint(url=url, user=user, headers=headers, parameters=owner or {"user_id": user})

    def _token_file_of_the_shell(self) -> Path | None:
        """The one that the environment names: what asks another address must not be sent the operator's token."""
        named = os.environ.get(TOKEN_FILE_VARIABLE)
        return Path(named) if named and self.url is None and self.api_key is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How an answer is printed."""

    as_json: AsJson = False


def _registered(
    connection: type[UserConnection | OperatorConnection],
    group: typer.Typer,
    name: str,
    show: Callable[[Json], None] | None = None,
) -> Callable[[Callable[..., Json]], None]:
    """Registers a command: a function of an `ApiClient` that returns the API's answer, or None when it printed something itself.

    Args:
        connection: its options may stand behind the command's name.
        show: prints what the answer means, unless the option `--json` is given; None: the JSON is printed.
    """

    def register(function: Callable[..., Json]) -> None:
        @wraps(function)
        def connected(
            *, client: UserConnection | OperatorConnection, output: Output | None = None, **given: Any
        ) -> None:
            with ApiClient(client.endpoint()) as opened:
                answer = function(opened, **given)
                if show is not None and output is not None and not output.as_json:
                    show(answer)
                elif answer is not None:
                    print_json(answer)

        shared = {"output": Output} if show is not None else {}
        group.command(name)(with_groups(connected, **shared, client=connection))

    return register


user_command = partial(_registered, UserConnection)
operator_command = partial(_registered, OperatorConnection)
