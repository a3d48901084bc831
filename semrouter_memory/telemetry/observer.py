"""Passes events to their subscribers: metrics, the log, and the tracer where one runs."""

from semrouter_memory.events import Event
from semrouter_memory.ports import Observer
from semrouter_memory.telemetry.event_log import EventLog
from semrouter_memory.telemetry.metrics import Metrics


class TelemetryObserver:
    """The `Observer` of the running service. A subscriber that fails costs neither the others nor the request anything.

    Args:
        others: subscribers besides the metrics and the log.
    """

    def __init__(self, metrics: Metrics, *others: Observer) -> None:
        self._errors = metrics.observer_errors
        subscribers: tuple[Observer, ...] = (metrics, EventLog(), *others)
        self._subscribers = [subscriber.observe for subscriber in subscribers]

    def observe(self, event: Event) -> None:
        for subscriber in self._subscribers:
            try:
                subscriber(event)
            except Exception as error:  # noqa: BLE001 - telemetry is called on the request path
                self._errors.labels(type(error).__name__).inc()
