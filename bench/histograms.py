"""Where recall spends its time, as the service itself counts it: its histograms, before and after."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx
from prometheus_client.parser import text_string_to_metric_families

from bench.figures import Step
from semrouter_memory.model import Reason

_HISTOGRAM = "semrouter_memory_recall_step_seconds"
_WHOLE = "semrouter_memory_recall_seconds"
_RECALLS = "semrouter_memory_recalls_total"
TOGETHER = "recall"
"""The name of all steps together."""


@dataclass(slots=True)
class Counted:
    """One step's histogram.

    Attributes:
        buckets: upper bound in seconds -> how many took at most so long.
    """

    buckets: dict[float, float] = field(default_factory=lambda: defaultdict(float))
    seconds: float = 0.0
    count: float = 0.0

    def add(self, other: "Counted", sign: int = 1) -> None:
        for bound, number in other.buckets.items():
            self.buckets[bound] += sign * number
        self.seconds += sign * other.seconds
        self.count += sign * other.count


class StepCounts:
    """Sums up what was counted between looks."""

    def __init__(self) -> None:
        self._steps: dict[str, Counted] = defaultdict(Counted)

    def add(self, before: Mapping[str, Counted], after: Mapping[str, Counted]) -> None:
        for name, counted in after.items():
            self._steps[name].add(counted)
            if name in before:
                self._steps[name].add(before[name], -1)

    def figures(self) -> dict[str, Step]:
        return {
            name: Step(
                mean_ms=counted.seconds * 1000 / counted.count, p50_ms=median_ms(counted), count=round(counted.count)
            )
            for name, counted in self._steps.items()
            if counted.count
        }


async def look(operator_url: str) -> dict[str, Counted]:
    """The histograms of a service."""
    return read(await _exposition(operator_url))


async def failures(operator_url: str) -> int:
    """How many recalls of a service failed or were late."""
    families = text_string_to_metric_families(await _exposition(operator_url))
    samples = [sample for family in families for sample in family.samples if sample.name == _RECALLS]
    return round(sum(each.value for each in samples if Reason(each.labels["reason"]).is_failure))


async def _exposition(operator_url: str) -> str:
    async with httpx.AsyncClient(timeout=10) as client:
        return (await client.get(f"{operator_url}/metrics")).text


def read(exposition: str) -> dict[str, Counted]:
    """The histograms in a text in Prometheus's format."""
    steps: dict[str, Counted] = defaultdict(Counted)
    for family in text_string_to_metric_families(exposition):
        if family.name not in (_HISTOGRAM, _WHOLE):
            continue
        for sample in family.samples:
            counted = steps[sample.labels.get("step", TOGETHER)]
            if sample.name.endswith("_bucket"):
                counted.buckets[float(sample.labels["le"])] += sample.value
            elif sample.name.endswith("_sum"):
                counted.seconds += sample.value
            elif sample.name.endswith("_count"):
                counted.count += sample.value
    return steps


def median_ms(counted: Counted) -> float:
    """Interpolated within the bucket that holds it; beyond the last bound, that bound."""
    half, lower, below = counted.count / 2, 0.0, 0.0
    for bound in sorted(counted.buckets):
        reached = counted.buckets[bound]
        if reached >= half and reached > below:
            if bound == float("inf"):
                break
            return (lower + (bound - lower) * (half - below) / (reached - below)) * 1000
        lower, below = bound, reached
    return lower * 1000
