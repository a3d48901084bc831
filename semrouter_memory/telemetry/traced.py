"""The observer of a service that traces: some of what happened becomes spans as well."""

from semrouter_memory.model import Appended, ExtractionReport
from semrouter_memory.telemetry.metrics import Metrics
from semrouter_memory.telemetry.observer import TelemetryObserver
from semrouter_memory.telemetry.spans import Spans


class TracingObserver(TelemetryObserver):
    """Same as `TelemetryObserver`, but also tells the spans."""

    def __init__(self, metrics: Metrics, spans: Spans) -> None:
        super().__init__(metrics)
        self._spans = spans

    def turn_appended(self, appended: Appended) -> None:
        super().turn_appended(appended)
        self._spans.turn_appended(appended)

    def extraction_finished(self, report: ExtractionReport) -> None:
        super().extraction_finished(report)
        self._spans.extraction_finished(report)

    def episode_finished(self, extractor: str, *, turns: int, written: bool) -> None:
        super().episode_finished(extractor, turns=turns, written=written)
        self._spans.episode_finished(extractor, turns=turns, written=written)
