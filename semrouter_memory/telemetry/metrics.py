"""The Prometheus metrics. No label takes a value that a user can choose."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from semrouter_memory import __version__

_PREFIX = "semrouter_memory"

_SECONDS = (
    0.0005,
    0.001,
    0.002,
    0.003,
    0.004,
    0.006,
    0.008,
    0.012,
    0.02,
    0.035,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
)
"""Dense where recall is meant to be: 2 to 6 ms, deadline at 50, with a rewriting model at 450."""


class Metrics:
    """Every metric of the process, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._define_request_phase()
        self._define_background()
        self._define_service()

    def _define_request_phase(self) -> None:
        self.recalls = self._counter("recalls", "Requests that recall decided about, by outcome.", "reason")
        self.recall_seconds = self._histogram("recall_seconds", "Duration of recall as a whole.")
        self.recall_step_seconds = self._histogram("recall_step_seconds", "Duration of a step of recall.", "step")
        self.injected_memories = self._counter("injected_memories", "Memories put into requests.")
        self.injected_tokens = self._counter("injected_tokens", "Size of the injected text in embedding tokens.")
        self.bypassed = self._counter("exchanges_bypassed", "Exchanges that passed without memory.", "reason")
        self.failed = self._counter("exchanges_failed", "Exchanges that passed because we failed.", "error")
        self.unreadable_settings = self._counter("unreadable_settings", "Settings that cannot be read.", "setting")
        self.compressions = self._counter("compressions", "Long conversations decided about, by outcome.", "reason")
        self.compressed_turns = self._counter("compressed_turns", "Turns that a state stood for.")
        self.compressed_tokens = self._counter("compressed_tokens", "Tokens that were not sent, estimated.")

    def _define_background(self) -> None:
        self.turns = self._counter("turns", "Finished exchanges offered to the turn log.", "outcome")
        self.turns_dropped = self._counter("turns_dropped", "Finished exchanges not accepted.", "reason")
        self.redactions = self._counter("redactions", "Secrets taken out of turns before they were logged.", "kind")
        self.queue_depth = self._gauge(
            "queue_depth", "Sessions that wait for extraction, those that wait to be tried again included."
        )
        self.owner_index_bytes = self._gauge("owner_index_bytes", "Memory that cached owner indexes take.")
        self.owner_indexes = self._gauge("owner_indexes", "Users whose memories are indexed in the process.")
        self.queue_age_seconds = self._gauge("queue_oldest_seconds", "How long the oldest of them waits.")
        self.extractions = self._counter("extractions", "Extractions of a session.", "extractor", "outcome")
        self.extraction_failures = self._counter("extraction_failures", "Failed extractions.", "extractor", "failure")
        self.extracted_turns = self._counter("extracted_turns", "Turns that were read for facts.", "extractor")
        self.candidates = self._counter("extraction_candidates", "Facts that extractors proposed.", "extractor")
        self.refused_candidates = self._counter(
            "refused_candidates", "Facts refused by the gate.", "extractor", "reason"
        )
        self.actions = self._counter("reconcile_actions", "What became of proposed facts.", "action")
        self.dead_letters = self._counter("dead_letters", "Turns given up after too many failures.")
        self.triggers = self._counter("triggers", "Why sessions were due.", "trigger")
        self.episodes = self._counter("episodes", "Sessions summed up at their end.", "extractor", "outcome")
        self.model_available = self._gauge("model_available", "0 while a model's circuit is open.", "endpoint")
        self.work_failures = self._counter("work_failures", "Background work that ended in a bug.", "error")
        self.passages_truncated = self._counter("passages_truncated", "Texts longer than the embedding model reads.")
        self.upkeep_runs = self._counter("upkeep_runs", "Runs of upkeep, by outcome.", "outcome")
        self.upkeep_deleted = self._counter("upkeep_deleted", "Memories that upkeep deleted.", "reason", "type")
        self.upkeep_merged = self._counter("upkeep_merged", "Memories merged into summaries.")

    def _define_service(self) -> None:
        self.store_errors = self._counter("store_errors", "Failed calls of the store.", "operation")
        self.store_available = self._gauge("store_available", "1 while the store answers.")
        self.observer_errors = self._counter("observer_errors", "Events that could not be recorded.", "error")
        self._gauge("build_info", "Always 1; the version is the label.", "version").labels(__version__).set(1)

    def exposition(self) -> tuple[bytes, str]:
        """The metrics as text, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str, buckets: Sequence[float] = _SECONDS) -> Histogram:
        return Histogram(f"{_PREFIX}_{name}", text, labels, registry=self.registry, buckets=buckets)
