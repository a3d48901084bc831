"""Requests one after the other on one connection, timed. Blocking on purpose: nothing else runs beside them."""

import http.client
import json
import re
import time
from collections.abc import Iterator, Sequence

from semrouter_memory.errors import MemoryServiceError
from semrouter_memory.stack.ports import LOOPBACK

_STAMP = re.compile(rb'"content":"(\d+) "')
_HEADERS = {"authorization": "Bearer demo-key-alice", "content-type": "application/json"}
_OK = 200


class BenchError(MemoryServiceError):
    """A request of the benchmark failed: its figures would mean nothing."""


def request_ms(port: int, questions: Sequence[str], *, warm_up: int) -> list[float]:
    """Milliseconds of each chat request, the first `warm_up` left out."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    times = []
    for question in questions:
        body = _body(question)
        started = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", body, _HEADERS)
        answer = connection.getresponse()
        answer.read()
        times.append((time.perf_counter() - started) * 1000)
        if answer.status != _OK:
            raise BenchError(f"a request was answered with {answer.status}")
    connection.close()
    return times[warm_up:]


def token_delays_ms(port: int, questions: Sequence[str]) -> list[float]:
    """Milliseconds from the upstream sending a token to the client reading it, over whole streams."""
    return [delay for question in questions for delay in _stream(port, question)]


def _stream(port: int, question: str) -> Iterator[float]:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=30)
    connection.request("POST", "/v1/chat/completions", _body(question, stream=True), _HEADERS)
    answer = connection.getresponse()
    if answer.status != _OK:
        raise BenchError(f"a stream was answered with {answer.status}")
    while line := answer.readline():
        arrived = time.monotonic_ns()
        if stamp := _STAMP.search(line):
            yield (arrived - int(stamp[1])) / 1e6
    connection.close()


def _body(question: str, *, stream: bool = False) -> bytes:
    request = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": question}]}
    return json.dumps(request, separators=(",", ":")).encode()
