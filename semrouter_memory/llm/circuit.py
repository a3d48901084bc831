"""Circuits of model endpoints at work: one for each URL, shared by every role that is served there.

Strategy. What a call's outcome says decides: no connection, no answer in time, a server's error and "too many requests"
speak of the endpoint; a refusal of key, path or model name, or of every prompt, speaks of one configured model, and
repeating it cannot help, so it opens that model's own circuit at once; everything else speaks of the prompt, from an endpoint
that is there.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from semrouter_memory.errors import ChatModelError, ModelFault, ModelUnavailableError
from semrouter_memory.events import ModelStateChanged
from semrouter_memory.ports import Observer
from semrouter_memory.resilience import Admission, Backoff, Circuit


@dataclass(frozen=True, slots=True)
class ModelCircuits:
    """Hands out circuits, the same one for the same URL.

    Attributes:
        failures: failures in a row after which an endpoint's circuit opens.
        monotonic: seconds that never go back.
        jitter: draws 0..1.
    """

    backoff: Backoff
    failures: int
    observer: Observer
    monotonic: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random
    _endpoints: dict[str, Circuit] = field(init=False, default_factory=dict)

    def circuit(self, url: str) -> "ModelCircuit":
        """The circuit of one configured model at that URL."""
        endpoint = self._endpoints.setdefault(url.rstrip("/"), Circuit(self.backoff, failures=self.failures))
        return ModelCircuit(self, _host(url), endpoint)


class ModelCircuit:
    """Guards the calls of one configured model: by its endpoint's circuit, and by one that its own refusals open."""

    def __init__(self, circuits: ModelCircuits, host: str, endpoint: Circuit) -> None:
        self._circuits, self._host, self._endpoint = circuits, host, endpoint
        self._refusals = Circuit(circuits.backoff)

    @property
    def retry_after(self) -> float | None:
        """Seconds until a call is admitted, None while none is refused."""
        return self._wait_seconds if self._is_open else None

    @contextmanager
    def call(self) -> Iterator[bool]:
        """Around one call, which raises `ChatModelError`; gives whether it is a probe.

        Raises:
            ModelUnavailableError: the call speaks of the endpoint; or, with an open circuit, it was not made, it was a probe
                and failed, or the model is refused.
            ChatModelError: it speaks of the prompt; as the call itself raised it.
        """
        endpoint = self._admitted(self._endpoint)
        try:
            refusals = self._admitted(self._refusals)
        except ModelUnavailableError:
            self._endpoint.abandoned(probe=endpoint.probe)
            raise
        try:
            yield endpoint.probe or refusals.probe
        except ChatModelError as failure:
            was_open = self._is_open
            self._failed(failure, endpoint, refusals)
            refused = failure.fault is ModelFault.REFUSED
            advice = "; check its key, account, address, name and settings" if refused else ""
            self._tell(f"{failure}{advice}", was_open=was_open)
            if self._is_open and (was_open or refused):
                raise self._open_error(failure) from None
            if isinstance(failure, ModelUnavailableError):
                asked_for = min(failure.wait_seconds, self._circuits.backoff.longest)
                failure.wait_seconds = max(self._endpoint.wait_seconds(self._circuits.monotonic()), asked_for)
            raise
        except BaseException:
            self._endpoint.abandoned(probe=endpoint.probe)
            self._refusals.abandoned(probe=refusals.probe)
            raise
        was_open = self._is_open
        self._endpoint.succeeded()
        self._refusals.succeeded()
        self._tell("answered", was_open=was_open)

    @property
    def _is_open(self) -> bool:
        return self._endpoint.is_open or self._refusals.is_open

    @property
    def _wait_seconds(self) -> float:
        now = self._circuits.monotonic()
        return max(self._endpoint.wait_seconds(now), self._refusals.wait_seconds(now))

    def _admitted(self, circuit: Circuit) -> Admission:
        admission = circuit.admit(self._circuits.monotonic())
        if not admission.allowed:
            raise ModelUnavailableError(
                f"{self._host} is left alone", wait_seconds=admission.wait_seconds, circuit_open=True
            )
        return admission

    def _failed(self, failure: ChatModelError, endpoint: Admission, refusals: Admission) -> None:
        now, jitter = self._circuits.monotonic(), self._circuits.jitter
        if isinstance(failure, ModelUnavailableError):
            self._endpoint.failed(now, probe=endpoint.probe, jitter=jitter())
            self._refusals.abandoned(probe=refusals.probe)
        else:
            self._endpoint.succeeded()
            if failure.fault is ModelFault.REFUSED:
                self._refusals.failed(now, probe=refusals.probe, jitter=jitter())
            else:
                self._refusals.succeeded()

    def _open_error(self, failure: ChatModelError) -> ModelUnavailableError:
        return ModelUnavailableError(
            f"{self._host} is left alone",
            wait_seconds=self._wait_seconds,
            status=failure.status,
            cause=failure.cause,
            circuit_open=True,
        )

    def _tell(self, detail: str, *, was_open: bool) -> None:
        if self._is_open is not was_open:
            self._circuits.observer.observe(ModelStateChanged(host=self._host, available=was_open, detail=detail))


def _host(url: str) -> str:
    """Names an endpoint in logs and metrics: without path and credentials."""
    return urlsplit(url).netloc.rpartition("@")[2] or url
