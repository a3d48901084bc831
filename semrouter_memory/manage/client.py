"""A client of the management API, for the command line: it speaks to a running sidecar, directly or through Envoy."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
import orjson

from semrouter_memory.errors import InvalidRequestError, MemoryServiceError, NotFoundError, UnavailableError
from semrouter_memory.model import Json

_UNIX = "unix:"
_PATH = "/v1/memory"
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which API to ask, and as whom.

    Attributes:
        url: http(s)://host:port, or unix:path.
        user: whose memories; "" when the headers alone say it.
        headers: what authenticates the caller.
        parameters: query parameters of every request (the operator's `user_id`).
    """

    url: str
    user: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)


class MemoryClient:
    """One method per route; answers are the API's JSON.

    Every method raises `UnavailableError` (nobody answers, or not now), `NotFoundError`, `InvalidRequestError`, or
    `MemoryServiceError` for any other refusal; the messages can be shown.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        path = target.url.removeprefix(_UNIX).removeprefix("//") if target.url.startswith(_UNIX) else None
        if path is not None and not Path(path).is_socket():
            raise _nobody(target.url)
        with _explained(target.url):
            self._http = httpx.Client(
                base_url="http://localhost" if path else target.url,
                transport=httpx.HTTPTransport(uds=path) if path else None,
                headers=target.headers,
                params=target.parameters,
                timeout=_TIMEOUT_SECONDS,
                trust_env=False,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._http.close()

    def page(
        self, *, limit: int, cursor: str = "", types: Sequence[str] = (), project_id: str | None = None
    ) -> dict[str, Json]:
        query: dict[str, Any] = {"limit": limit, "cursor": cursor, "type": list(types)}
        if project_id is not None:
            query["project_id"] = project_id
        return self._object("GET", _PATH, holding="data", params=query)

    def get(self, memory_id: str) -> dict[str, Json]:
        return self._object("GET", _one(memory_id), holding="id")

    def search(self, query: str, **options: Json) -> list[dict[str, Json]]:
        """Args: options: of the search route; None leaves one out."""
        found = self._object("POST", f"{_PATH}/search", holding="data", json={"query": query, **_given(options)})
        return list(found["data"])

    def add(self, content: str, **fields: Json) -> dict[str, Json]:
        return self._object("POST", _PATH, holding="id", json={"content": content, **_given(fields)})

    def update(self, memory_id: str, **fields: Json) -> dict[str, Json]:
        return self._object("PATCH", _one(memory_id), holding="id", json=_given(fields))

    def forget(self, memory_id: str) -> dict[str, Json]:
        return self._object("DELETE", _one(memory_id), holding="deleted")

    def forget_all(self, project_id: str | None = None) -> dict[str, Json]:
        if not self._target.user:
            raise InvalidRequestError("forgetting everything needs to be told whose it is, by name: give --user")
        parameters = _given({"user_id": self._target.user, "project_id": project_id})
        return self._object("DELETE", _PATH, holding="deleted", params=parameters)

    def export(self) -> Iterator[str]:
        """Every memory as a line of JSON."""
        with _explained(self._target.url), self._http.stream("GET", f"{_PATH}/export") as response:
            if response.status_code != HTTPStatus.OK:
                response.read()
                raise _refusal(response)
            yield from response.iter_lines()

    def _object(self, method: str, path: str, *, holding: str, **request: Any) -> dict[str, Json]:
        """The answer, which must hold that key: an LLM server behind the same address may well answer JSON too."""
        with _explained(self._target.url):
            response = self._http.request(method, path, **request)
        if response.is_error:
            raise _refusal(response)
        answer = _json(response)
        if answer is None or holding not in answer:
            raise MemoryServiceError(f"{self._target.url} does not answer like the memory API; check --url")
        return answer


def _one(memory_id: str) -> str:
    return f"{_PATH}/{quote(memory_id, safe='')}"


def _given(fields: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in fields.items() if value is not None}


@contextmanager
def _explained(url: str) -> Iterator[None]:
    try:
        yield
    except httpx.ConnectError:
        raise _nobody(url) from None
    except httpx.TimeoutException:
        raise UnavailableError(f"{url} did not answer within {_TIMEOUT_SECONDS:.0f} s") from None
    except httpx.RemoteProtocolError:
        raise UnavailableError(f"{url} broke off its answer") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise MemoryServiceError(f"cannot ask {url}: {type(error).__name__}") from None


def _nobody(url: str) -> UnavailableError:
    return UnavailableError(f"nobody answers at {url}: is the sidecar running, and is this its address?")


def _refusal(response: httpx.Response) -> MemoryServiceError:
    body = _json(response) or {}
    error = body.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    said = str(message or f"the server answered {response.status_code}")
    match response.status_code:
        case HTTPStatus.NOT_FOUND:
            return NotFoundError(said)
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return UnavailableError(said)
        case HTTPStatus.UNAUTHORIZED:
            return MemoryServiceError(f"not authenticated: {said}")
        case HTTPStatus.BAD_REQUEST:
            return InvalidRequestError(said)
        case _:
            return MemoryServiceError(said)


def _json(response: httpx.Response) -> dict[str, Json] | None:
    try:
        body = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None
