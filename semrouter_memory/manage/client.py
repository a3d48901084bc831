"""A client of the management API, for the command line: it speaks to a running sidecar, directly or through Envoy."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import orjson

from semrouter_memory.errors import InvalidRequestError, MemoryServiceError, NotFoundError, Service, UnavailableError
from semrouter_memory.model import Json

if TYPE_CHECKING:
    import httpx

PREPARED_SHELL = "After `make run`, `. .run/env` sets what is needed."
_UNIX = "unix:"
_PATH = "/v1/memory"
_TURNS = "/v1/turns"
_COLLECTIONS = "/v1/collections"
_KNOWLEDGE = "/v1/knowledge"
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiEndpoint:
    """Which API to ask, and as whom.

    Attributes:
        url: http(s)://host:port, or unix:path.
        user: whose memories; "" when the headers alone say it.
        headers: what authenticates the caller.
        parameters: query parameters of every request (the operator's `user_id`, or `owner`).
    """

    url: str
    user: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)


class ApiClient:
    """Asks one API; answers are its JSON.

    Every method raises `UnavailableError` (no answer, or not now), `NotFoundError`, `InvalidRequestError`, or
    `MemoryServiceError` for any other refusal; the messages can be shown.

    Args:
        timeout_seconds: bound on one answer.
    """

    def __init__(self, target: ApiEndpoint, *, timeout_seconds: float = _TIMEOUT_SECONDS) -> None:
        import httpx  # noqa: PLC0415 - takes a tenth of a second to load, which `--help` need not wait for

        self._target = target
        self._timeout_seconds = timeout_seconds
        path = target.url.removeprefix(_UNIX).removeprefix("//") if target.url.startswith(_UNIX) else None
        if path is not None and not Path(path).is_socket():
            raise _unreachable(target.url)
        with self._explained():
            self._http = httpx.Client(
                base_url="http://localhost" if path else target.url,
                transport=httpx.HTTPTransport(uds=path) if path else None,
                headers=target.headers,
                params=target.parameters,
                timeout=timeout_seconds,
                trust_env=False,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._http.close()

    def _object(self, method: str, path: str, *, holding: str, **request: Any) -> dict[str, Json]:
        """The answer, which must have that key: an LLM server at the same address may answer JSON, too."""
        with self._explained():
            response = self._http.request(method, path, **request)
        if response.is_error:
            raise _refusal(response)
        answer = _json(response)
        if answer is None or holding not in answer:
            raise MemoryServiceError(f"{self._target.url} does not answer like the memory API; check --url")
        return answer

    @contextmanager
    def _streamed(self, method: str, path: str, **request: Any) -> "Iterator[httpx.Response]":
        """A successful answer whose body is still to be read."""
        with self._explained(), self._http.stream(method, path, **request) as response:
            if response.status_code != HTTPStatus.OK:
                response.read()
                raise _refusal(response)
            yield response

    @contextmanager
    def _explained(self) -> Iterator[None]:
        import httpx  # noqa: PLC0415 - same

        url = self._target.url
        try:
            yield
        except httpx.ConnectError:
            raise _unreachable(url) from None
        except httpx.TimeoutException:
            raise UnavailableError(
                f"{url} did not answer within {self._timeout_seconds:.0f} s", service=Service.SERVER
            ) from None
        except httpx.RemoteProtocolError:
            raise UnavailableError(f"{url} broke off its answer", service=Service.SERVER) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise MemoryServiceError(f"cannot ask {url}: {type(error).__name__}") from None


class OperatorClient(ApiClient):
    """The routes of turns, files and documents, a method for each."""

    def turns(
        self, *, limit: int, before: int = 0, user: str | None = None, states: Sequence[str] = ()
    ) -> dict[str, Json]:
        query = _given({"limit": limit, "before": before, "user_id": user, "state": list(states)})
        return self._object("GET", _TURNS, holding="data", params=query)

    def turn(self, turn_id: str) -> dict[str, Json]:
        return self._object("GET", _turn(turn_id), holding="id")

    def retry(self, turn_id: str) -> int:
        return int(self._object("POST", f"{_turn(turn_id)}/retry", holding="retried")["retried"])

    def retry_all(self, user: str | None = None) -> int:
        answer = self._object("POST", f"{_TURNS}/retry", holding="retried", params=_given({"user_id": user}))
        return int(answer["retried"])

    def drop(self, turn_id: str) -> dict[str, Json]:
        return self._object("DELETE", _turn(turn_id), holding="deleted")

    def totals(self) -> dict[str, Json]:
        return self._object("GET", f"{_TURNS}/totals", holding="accepted")

    def compact(self) -> list[dict[str, Json]]:
        return list(self._object("POST", "/v1/compact", holding="data")["data"])

    def backup(self, directory: str) -> list[dict[str, Json]]:
        return list(self._object("POST", "/v1/backup", holding="data", json={"directory": directory})["data"])

    def collections(self) -> list[dict[str, Json]]:
        return list(self._object("GET", _COLLECTIONS, holding="data")["data"])

    def collection(self, name: str) -> dict[str, Json]:
        return self._object("GET", f"{_COLLECTIONS}/{quote(name, safe='')}", holding="memories")

    def drop_collection(self, name: str) -> dict[str, Json]:
        return self._object("DELETE", f"{_COLLECTIONS}/{quote(name, safe='')}", holding="deleted")

    def documents(self, org: str) -> Iterator[dict[str, Json]]:
        """Every document of the organisation."""
        cursor: str | None = ""
        while cursor is not None:
            page = self._object("GET", _KNOWLEDGE, holding="data", params={"owner": f"org:{org}", "cursor": cursor})
            yield from page["data"]
            cursor = page["next_cursor"]

    def document(self, org: str, document_id: str) -> dict[str, Json]:
        return self._object("GET", _document(document_id), holding="text", params={"owner": f"org:{org}"})

    def add_document(self, org: str, source: str, data: bytes, media_type: str, **options: Json) -> dict[str, Json]:
        """Args: options: of the route; None leaves one out."""
        query = {"owner": f"org:{org}", "source": source, **_given(options)}
        headers = {"content-type": media_type}
        return self._object("POST", _KNOWLEDGE, holding="outcome", params=query, content=data, headers=headers)

    def remove_document(self, org: str, document_id: str) -> dict[str, Json]:
        return self._object("DELETE", _document(document_id), holding="deleted", params={"owner": f"org:{org}"})

    def import_lines(self, lines: bytes) -> dict[str, Json]:
        """Args: lines: as an export of a collection writes them, no more than one request may bring."""
        headers = {"content-type": "application/x-ndjson"}
        return self._object("POST", f"{_COLLECTIONS}/import", holding="imported", content=lines, headers=headers)

    @contextmanager
    def export_collection(self, name: str) -> Iterator[Iterator[bytes]]:
        """Every memory of a collection as a line of JSON."""
        with self._streamed("GET", f"{_COLLECTIONS}/{quote(name, safe='')}/export") as response:
            yield (f"{line}\n".encode() for line in response.iter_lines())

    @contextmanager
    def recording(self, options: Mapping[str, Json], *, seconds: float) -> Iterator[Iterator[bytes]]:
        """A live recording, in pieces.

        Args:
            options: query parameters of the route.
            seconds: bound on the time without a piece, in addition to the client's timeout.
        """
        import httpx  # noqa: PLC0415 - same

        timeout = httpx.Timeout(self._timeout_seconds, read=seconds + self._timeout_seconds)
        with self._streamed("POST", "/v1/recording", params=options, timeout=timeout) as response:
            yield response.iter_raw()


class MemoryClient(ApiClient):
    """The routes of memories, a method for each."""

    def page(
        self, *, limit: int, cursor: str = "", types: Sequence[str] = (), **filters: str | bool | None
    ) -> dict[str, Json]:
        """Args: filters: further parameters of the route; None leaves one out."""
        query = _given({"limit": limit, "cursor": cursor, "type": list(types), **filters})
        return self._object("GET", _PATH, holding="data", params=query)

    def get(self, memory_id: str) -> dict[str, Json]:
        return self._object("GET", _one(memory_id), holding="id")

    def search(self, query: str, **options: Json) -> list[dict[str, Json]]:
        """Args: options: of the search route; None leaves one out."""
        found = self._object("POST", f"{_PATH}/search", holding="data", json={"query": query, **_given(options)})
        return list(found["data"])

    def explain(self, query: str, **options: Json) -> dict[str, Json]:
        """Args: options: of the search route; None leaves one out."""
        asked = {"query": query, "as": "recall", **_given(options)}
        return self._object("POST", f"{_PATH}/search", holding="data", json=asked)

    def reflect(self, question: str, **options: Json) -> dict[str, Json]:
        """Args: options: of the route; None leaves one out."""
        asked = {"question": question, **_given(options)}
        return self._object("POST", f"{_PATH}/reflect", holding="answer", json=asked)

    def add(self, content: str | None, **fields: Json) -> dict[str, Json]:
        return self._object("POST", _PATH, holding="id", json=_given({"content": content, **fields}))

    def update(self, memory_id: str, changes: Mapping[str, Json]) -> dict[str, Json]:
        return self._object("PATCH", _one(memory_id), holding="id", json=dict(changes))

    def forget(self, memory_id: str) -> dict[str, Json]:
        return self._object("DELETE", _one(memory_id), holding="deleted")

    def forget_all(self, project_id: str | None = None) -> dict[str, Json]:
        user = None if "owner" in self._target.parameters else self._target.user
        if user == "":
            raise InvalidRequestError("forgetting everything needs the name of the user: give --user")
        parameters = _given({"user_id": user, "project_id": project_id})
        return self._object("DELETE", _PATH, holding="deleted", params=parameters)

    def history(self, memory_id: str) -> list[dict[str, Json]]:
        return list(self._object("GET", f"{_one(memory_id)}/history", holding="data")["data"])

    def entities(self, *, limit: int, after: str = "") -> dict[str, Json]:
        return self._object("GET", f"{_PATH}/entities", holding="data", params={"limit": limit, "after": after})

    def receipts(self) -> list[dict[str, Json]]:
        return list(self._object("GET", f"{_PATH}/receipts", holding="data")["data"])

    def settings(self) -> dict[str, Json]:
        return self._object("GET", f"{_PATH}/settings", holding="paused")

    def set_paused(self, *, paused: bool) -> dict[str, Json]:
        return self._object("PUT", f"{_PATH}/settings", holding="paused", json={"paused": paused})

    def end_session(self, session_id: str, project_id: str | None = None) -> dict[str, Json]:
        path = f"{_PATH}/sessions/{quote(session_id, safe='')}/end"
        return self._object("POST", path, holding="session_id", params=_given({"project_id": project_id}))

    def import_lines(self, lines: bytes, *, from_user: str | None = None) -> dict[str, Json]:
        """Args: lines: as an export writes them, no more than one request may bring."""
        return self._object(
            "POST",
            f"{_PATH}/import",
            holding="imported",
            content=lines,
            params=_given({"from_user": from_user}),
            headers={"content-type": "application/x-ndjson"},
        )

    def export(self, *, history: bool = True, since: str | None = None, until: str | None = None) -> Iterator[str]:
        """Every memory as a line of JSON, or those of a period."""
        parameters = _given({"history": str(history).lower(), "since": since, "until": until})
        with self._streamed("GET", f"{_PATH}/export", params=parameters) as response:
            yield from response.iter_lines()

    def send_mcp(self, message: bytes, headers: Mapping[str, str]) -> bytes:
        """Send a message of MCP; returns the message that answers it, or nothing.

        Args:
            headers: what the transport wants to have there.
        """
        kinds = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        with self._explained():
            response = self._http.post(f"{_PATH}/mcp", content=message, headers={**headers, **kinds})
        if not response.content and response.is_success:
            return b""
        if "jsonrpc" in (_json(response) or {}):
            return response.content
        if response.is_error:
            raise _refusal(response)
        raise MemoryServiceError(f"{self._target.url} does not answer like the memory API; check --url")


def _one(memory_id: str) -> str:
    return f"{_PATH}/{quote(memory_id, safe='')}"


def _document(document_id: str) -> str:
    return f"{_KNOWLEDGE}/{quote(document_id, safe='')}"


def _turn(turn_id: str) -> str:
    return f"{_TURNS}/{quote(turn_id, safe='')}"


def _given(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value is not None}


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
        case HTTPStatus.BAD_REQUEST | HTTPStatus.CONFLICT:
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
