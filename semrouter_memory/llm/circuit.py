"""Circuits of model endpoints at work: one for each URL, shared by every role that is served there.

Strategy. What a call's outcome says decides: no connection, no answer in time, a server's error and "too many requests"
speak of the endpoint; a refusal of key, path or model name, or of every prompt, speaks of one configured model, and
repeating it cannot help, so it opens that model's own circuit at once; everything else speaks of the prompt, from an endpoint
that is there. Callers that do not wait, as requests do not, tell of that: too slow for them is not too slow for others, so
it opens a circuit of that model, too.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
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
    """Guards the calls of one configured model: by its endpoint's circuit, and by two that its own refusals and lateness open."""

    def __init__(self, circuits: ModelCircuits, host: str, endpoint: Circuit) -> None:
        self._circuits, self._host, self._endpoint = circuits, host, endpoint
        self._refusals = Circuit(circuits.backoff)
        self._lateness = Circuit(circuits.backoff, failures=circuits.failures)
        self._all = (endpoint, self._refusals, self._lateness)

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
        admissions = self._admissions()
        try:
            yield any(admission.probe for _, admission in admissions)
        except ChatModelError as failure:
            was_open = self._is_open
            self._failed(failure, admissions)
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
            _abandon(admissions)
            raise
        was_open = self._is_open
        for circuit in self._all:
            circuit.succeeded()
        self._tell("answered", was_open=was_open)

    def late(self) -> None:
        """A caller gave up waiting for an answer."""
        was_open = self._is_open
        self._lateness.late(self._circuits.monotonic(), jitter=self._circuits.jitter())
        self._tell("no answer while its callers wait", was_open=was_open)

    @property
    def _is_open(self) -> bool:
        return any(circuit.is_open for circuit in self._all)

    @property
    def _wait_seconds(self) -> float:
        now = self._circuits.monotonic()
        return max(circuit.wait_seconds(now) for circuit in self._all)

    def _admissions(self) -> list[tuple[Circuit, Admission]]:
        found: list[tuple[Circuit, Admission]] = []
        for circuit in self._all:
            try:
                found.append((circuit, self._admitted(circuit)))
            except ModelUnavailableError:
                _abandon(found)
                raise
        return found

    def _admitted(self, circuit: Circuit) -> Admission:
        admission = circuit.admit(self._circuits.monotonic())
        if not admission.allowed:
            raise ModelUnavailableError(
                f"{self._host} is left alone", wait_seconds=admission.wait_seconds, circuit_open=True
            )
        return admission

    def _failed(self, failure: ChatModelError, admissions: Sequence[tuple[Circuit, Admission]]) -> None:
        now, jitter = self._circuits.monotonic(), self._circuits.jitter()
        unavailable = isinstance(failure, ModelUnavailableError)
        refused = self._refusals if failure.fault is ModelFault.REFUSED else None
        failing = self._endpoint if unavailable else refused
        for circuit, admission in admissions:
            if circuit is failing:
                circuit.failed(now, probe=admission.probe, jitter=jitter)
            elif unavailable:
                circuit.abandoned(probe=admission.probe)
            else:
                circuit.succeeded()

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


def _abandon(admissions: Sequence[tuple[Circuit, Admission]]) -> None:
    for circuit, admission in admissions:
        circuit.abandoned(probe=admission.probe)


def _host(url: str) -> str:
    """Names an endpoint in logs and metrics: without path and credentials."""
    return urlsplit(url).netloc.rpartition("@")[2] or url
