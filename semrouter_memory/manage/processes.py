"""The operator's port of several processes: health, readiness and metrics of all of them, care of the files of each.

The other routes work on what the processes share, so any of them answers. A recording that is followed live is of one
process: that one's exchanges.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from semrouter_memory.manage.http import Readiness
from semrouter_memory.manage.http_server import error_response

_HEALTH_SECONDS = 1.5
_OF_THE_CONNECTION = frozenset({b"connection", b"transfer-encoding"})
_OF_THE_BODY = frozenset({b"content-length"})
_MAX_BODY_BYTES = 65_536
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_ALL_WELL = Readiness(serving=True, store_available=True).body()
_ENDED = Readiness(serving=False, store_available=True).body()


def create_operator_front(sockets: Mapping[str, Path]) -> Starlette:
    """The ASGI application in front of the operator's ports of some processes.

    Args:
        sockets: the Unix sockets of these ports, by the processes' names.
    """
    front = _Front(sockets)
    return Starlette(
        routes=[
            Route("/healthz", front.healthz),
            Route("/readyz", front.readyz),
            Route("/metrics", front.metrics),
            Route("/v1/compact", front.compact, methods=["POST"]),
            Route("/v1/backup", front.backup, methods=["POST"]),
            Route("/{path:path}", front.any_of_them, methods=_METHODS),
        ]
    )


class _Front:
    def __init__(self, sockets: Mapping[str, Path]) -> None:
        self._clients = {name: _client(path) for name, path in sockets.items()}

    async def healthz(self, _: Request) -> Response:
        answers = await self._health("/healthz")
        ended = [name for name, answer in answers.items() if answer is None]
        if ended:
            return JSONResponse({"status": "incomplete", "ended": ended}, HTTPStatus.SERVICE_UNAVAILABLE)
        return JSONResponse({"status": "ok"})

    async def readyz(self, _: Request) -> Response:
        """Of each part, the worst that a process says."""
        answers = (await self._health("/readyz")).values()
        states = [_ENDED if answer is None else answer.json() for answer in answers]
        worst = {
            key: next((state[key] for state in states if state[key] != well), well) for key, well in _ALL_WELL.items()
        }
        ready = worst["status"] == _ALL_WELL["status"]
        return JSONResponse(worst, HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)

    async def metrics(self, _: Request) -> Response:
        answers = await self._health("/metrics")
        merged = merged_metrics({name: answer.text for name, answer in answers.items() if answer is not None})
        return Response(merged, headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    async def compact(self, request: Request) -> Response:
        return await self._one_after_the_other(request, lambda _, body: body)

    async def backup(self, request: Request) -> Response:
        """Each process copies its directory into one of its name."""

        def below(name: str, body: bytes) -> bytes:
            try:
                given = json.loads(body)
                return json.dumps({**given, "directory": f"{given['directory'].rstrip('/')}/{name}"}).encode()
            except (ValueError, TypeError, KeyError, AttributeError):
                return body  # each of them says what is wrong with it

        return await self._one_after_the_other(request, below)

    async def any_of_them(self, request: Request) -> Response:
        """The first that can be reached."""
        for client in self._clients.values():
            passed_on = client.build_request(
                request.method, _target(request), headers=_headers(request.headers.raw), content=request.stream()
            )
            try:
                answer = await client.send(passed_on, stream=True)
            except httpx.ConnectError:
                continue
            except httpx.TransportError:
                break
            response = StreamingResponse(_passed_on(answer), answer.status_code)
            response.raw_headers = _headers(answer.headers.raw)
            return response
        return _restarting()

    async def _health(self, path: str) -> dict[str, httpx.Response | None]:
        """What each process answers; None when it does not."""

        async def asked(client: httpx.AsyncClient) -> httpx.Response | None:
            try:
                return await client.get(path, timeout=_HEALTH_SECONDS)
            except httpx.TransportError:
                return None

        answers = await asyncio.gather(*map(asked, self._clients.values()))
        return dict(zip(self._clients, answers, strict=True))

    async def _one_after_the_other(self, request: Request, body_for: Callable[[str, bytes], bytes]) -> Response:
        """Each process does it; the first that cannot ends it, and its answer is the answer."""
        body, done = await _body(request), list[dict[str, Any]]()
        if body is None:
            return error_response(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large", code="request_too_large"
            )
        headers = _headers(request.headers.raw, but=_OF_THE_BODY)
        for name, client in self._clients.items():
            try:
                answer = await client.post(_target(request), headers=headers, content=body_for(name, body))
            except httpx.TransportError:
                return _restarting()
            if not answer.is_success:
                return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))
            parts = answer.json()
            done += [{**part, "part": f"{name}: {part['part']}"} for part in parts["data"]]
        return JSONResponse({**parts, "data": done})


def _restarting() -> Response:
    return error_response(
        HTTPStatus.SERVICE_UNAVAILABLE, "a process is being restarted; try again", code="process_restarting"
    )


async def _passed_on(answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for part in answer.aiter_raw():
            yield part
    finally:
        await answer.aclose()


async def _body(request: Request) -> bytes | None:
    """None when it is longer than any that these routes take."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY_BYTES:
            return None
    return body


def _client(path: Path) -> httpx.AsyncClient:
    # A connection for each request: an idle one may be closed at its other end at any time.
    transport = httpx.AsyncHTTPTransport(uds=str(path), limits=httpx.Limits(max_keepalive_connections=0))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None, trust_env=False)  # noqa: S113 - the caller's patience counts


def _target(request: Request) -> httpx.URL:
    return httpx.URL(
        raw_path=request.scope["raw_path"] + (b"?" + query if (query := request.scope["query_string"]) else b"")
    )


def _headers(raw: Iterable[tuple[bytes, bytes]], *, but: frozenset[bytes] = frozenset()) -> list[tuple[bytes, bytes]]:
    """Those that are the message's, not the connection's."""
    return [(name, value) for name, value in raw if name.lower() not in _OF_THE_CONNECTION | but]


def merged_metrics(expositions: Mapping[str, str]) -> str:
    """Prometheus metrics of several processes in one text, each sample with its process as a label. Pure.

    A label rather than sums: a counter that starts again from zero in one process is a reset of that series alone.
    """
    families: dict[str, list[str]] = {}
    for process, text in expositions.items():
        for family in text.split("# HELP ")[1:]:
            about, kind, *samples = family.splitlines()
            families.setdefault(f"# HELP {about}\n{kind}", []).extend(_labelled(each, process) for each in samples)
    return "".join("\n".join((head, *samples)) + "\n" for head, samples in families.items())


def _labelled(sample: str, process: str) -> str:
    name, brace, rest = sample.partition("{")
    if brace:
        return f'{name}{{process="{process}",{rest}'
    name, _, value = sample.partition(" ")
    return f'{name}{{process="{process}"}} {value}'
