"""How commands reach a running sidecar: as a user at the API, directly or through Envoy, or with a token at the operator's port.

Strategy: groups of options say where the API is and who asks, a client asks it, and a command is a function of that client.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial, wraps
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import quote

import orjson
import typer

from semrouter_memory.cli.groups import with_groups
from semrouter_memory.cli.output import AsJson, print_json
from semrouter_memory.errors import InvalidRequestError, MemoryServiceError, NotFoundError, Service, UnavailableError
from semrouter_memory.model import Json
from semrouter_memory.secret_file import read_secret

if TYPE_CHECKING:
    import httpx


PREPARED_SHELL = "After `make run`, `. .run/env` sets what is needed."
_UNIX = "unix:"
MEMORY = "/v1/memory"
TURNS = "/v1/turns"
COLLECTIONS = "/v1/collections"
KNOWLEDGE = "/v1/knowledge"
TIMEOUT_SECONDS = 30.0
_USER_API = "http://127.0.0.1:8081"
_ENVOY = "http://127.0.0.1:10000"
OPERATOR_API = "http://127.0.0.1:9090"
URL_VARIABLE = "SEMROUTER_MEMORY_OPERATOR_URL"
TOKEN_FILE_VARIABLE = "SEMROUTER_MEMORY_OPERATOR_TOKEN_FILE"  # noqa: S105 - a variable's name

OPERATOR_TOKEN_VARIABLE = "SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN"  # noqa: S105 - same
"""The setting's own: an installation that has its token from the environment shares it."""

_OPERATOR_SECONDS = 900.0
"""Rewriting and copying files takes as long as they are large."""


# -- the client --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiEndpoint:
    """Which API to ask, and as whom.

    Attributes:
        url: http(s)://host:port, or unix:path.
        user: whose memories; "" when the headers alone say it.
        headers: what authenticates the caller.
        parameters: query parameters of every request (the operator's `user_id`, or `owner`).
        timeout_seconds: bound on one answer.
    """

    url: str
    user: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = TIMEOUT_SECONDS


class ApiClient:
    """Asks one API; answers are its JSON.

    Every method raises `UnavailableError` (no answer, or not now), `NotFoundError`, `InvalidRequestError`, or
    `MemoryServiceError` for any other refusal; the messages can be shown.
    """

    def __init__(self, endpoint: ApiEndpoint) -> None:
        import httpx  # noqa: PLC0415 - takes a tenth of a second to load, which `--help` need not wait for

        self.endpoint = endpoint
        path = endpoint.url.removeprefix(_UNIX).removeprefix("//") if endpoint.url.startswith(_UNIX) else None
        if path is not None and not Path(path).is_socket():
            raise _unreachable(endpoint.url)
        with self._explained():
            self._http = httpx.Client(
                base_url="http://localhost" if path else endpoint.url,
                transport=httpx.HTTPTransport(uds=path) if path else None,
                # As Envoy sends them: an id may have any characters.
                headers={name.encode(): value.encode() for name, value in endpoint.headers.items()},
                params=endpoint.parameters,
                timeout=endpoint.timeout_seconds,
                trust_env=False,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(
        self, method: str, *path: str, holding: str, query: Mapping[str, Json] | None = None, **request: Any
    ) -> dict[str, Json]:
        """The answer of a route.

        Args:
            path: its parts: one of this module's prefixes, then names and ids as they are.
            holding: a key that the answer must have: an LLM server at the same address may answer JSON, too.
            query: query parameters; None leaves one out.
            request: further arguments of httpx.
        """
        with self._explained():
            response = self._http.request(method, _url(path), params=given(query or {}), **request)
        if response.is_error:
            raise _refusal(response)
        answer = _json(response)
        if answer is None or holding not in answer:
            raise self._of_another_server()
        return answer

    @contextmanager
    def stream(
        self, method: str, *path: str, query: Mapping[str, Json] | None = None, **request: Any
    ) -> "Iterator[httpx.Response]":
        """A successful answer whose body is still to be read. Args: same as of `ask`."""
        with (
            self._explained(),
            self._http.stream(method, _url(path), params=given(query or {}), **request) as response,
        ):
            if response.status_code != HTTPStatus.OK:
                response.read()
                raise _refusal(response)
            yield response

    @contextmanager
    def lines(self, *path: str, query: Mapping[str, Json] | None = None) -> Iterator[Iterator[bytes]]:
        """The lines of an export, each with its end. Args: same as of `ask`."""
        with self.stream("GET", *path, query=query) as response:
            yield _lines_of(response.iter_bytes())

    def import_lines(self, lines: bytes, *, prefix: str, query: Mapping[str, Json] | None = None) -> dict[str, Json]:
        """Send lines as an export writes them, no more than one request may bring."""
        headers = {"content-type": "application/x-ndjson"}
        return self.ask("POST", prefix, "import", holding="imported", query=query, content=lines, headers=headers)

    def send_mcp(self, message: bytes, headers: Mapping[str, str]) -> bytes:
        """Send a message of MCP; returns the message that answers it, or nothing.

        Args:
            headers: what the transport wants to have there.
        """
        kinds = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        with self._explained():
            response = self._http.post(f"{MEMORY}/mcp", content=message, headers={**headers, **kinds})
        if not response.content and response.is_success:
            return b""
        if "jsonrpc" in (_json(response) or {}):
            return response.content
        raise _refusal(response) if response.is_error else self._of_another_server()

    def _of_another_server(self) -> MemoryServiceError:
        return MemoryServiceError(f"{self.endpoint.url} does not answer like the memory API; check --url")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        import httpx  # noqa: PLC0415 - same

        url = self.endpoint.url
        try:
            yield
        except UnicodeEncodeError:
            raise InvalidRequestError("an argument is no text in the terminal's encoding") from None
        except httpx.ConnectError:
            raise _unreachable(url) from None
        except httpx.TimeoutException:
            raise UnavailableError(
                f"{url} did not answer within {self.endpoint.timeout_seconds:.0f} s", service=Service.SERVER
            ) from None
        except httpx.RemoteProtocolError:
            raise UnavailableError(f"{url} broke off its answer", service=Service.SERVER) from None
        except httpx.LocalProtocolError:
            raise InvalidRequestError("a user, a key and a token have no blank at an end and no line break") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL):
            raise InvalidRequestError(f"{url} is no address: write http(s)://host:port, or unix:path") from None
        except httpx.HTTPError as error:
            raise MemoryServiceError(f"cannot ask {url}: {type(error).__name__}") from None


def given(fields: Mapping[str, Json]) -> dict[str, Json]:
    """Without those that were not given: None, or, of a repeated option, an empty list."""
    return {name: value for name, value in fields.items() if value not in (None, [])}


_NO_NAMES = frozenset({"", ".", ".."})
"""What stands for another address in a path: `memory/.` is that of all memories, also percent-encoded."""


def _lines_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """A line ends at a line feed and nowhere else: other separators (U+2028, U+0085) stand in texts, where JSON allows them."""
    rest = b""
    for chunk in chunks:
        *complete, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in complete)
    if rest:
        yield rest


def _url(path: Sequence[str]) -> str:
    """Raises: InvalidRequestError: a part would lead elsewhere."""
    prefix, *further = path
    if not _NO_NAMES.isdisjoint(further):
        raise InvalidRequestError("an id or a name cannot be empty, '.' or '..'")
    return "/".join((prefix, *(quote(part, safe="") for part in further)))


_NO_ROUTE = "there is no such route; is it the operator's port, and is management.operator_token set there?"


def _unreachable(url: str) -> UnavailableError:
    return UnavailableError(
        f"no answer from {url}: is the sidecar running, and is this its address? {PREPARED_SHELL}",
        service=Service.SERVER,
    )


def _names_what_is_missing(error: Json) -> bool:
    """An error code names what was not found; the 404 of a missing route does not."""
    return isinstance(error, dict) and str(error.get("code", "")).endswith("_not_found")


def _refusal(response: "httpx.Response") -> MemoryServiceError:
    body = _json(response) or {}
    error = body.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    text = str(message or f"the server answered {response.status_code}")
    match response.status_code:
        case HTTPStatus.NOT_FOUND:
            return NotFoundError(text if _names_what_is_missing(error) else f"{response.url.path}: {_NO_ROUTE}")
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return UnavailableError(text, service=Service.SERVER)
        case HTTPStatus.UNAUTHORIZED:
            return MemoryServiceError(f"not authenticated: {text}")
        case HTTPStatus.BAD_REQUEST | HTTPStatus.CONFLICT | HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            param = error.get("param") if isinstance(error, dict) else None
            return InvalidRequestError(f"{param}: {text}" if param and param not in text else text)
        case _:
            return MemoryServiceError(text)


def _json(response: "httpx.Response") -> dict[str, Json] | None:
    try:
        body = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


# -- the options, and commands with them -------------------------------------------------------------------------------


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
