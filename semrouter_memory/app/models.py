"""The external models, by role. Several roles at one server share what is known of its being away."""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from semrouter_memory.config import ExternalModel, RetainConfig
from semrouter_memory.llm.breaker import Limits
from semrouter_memory.llm.circuit import Circuits
from semrouter_memory.llm.client import OpenAIChatModel
from semrouter_memory.ports import Observer


class ExternalModels:
    """Makes a client for each configured role, closed with the exit stack."""

    def __init__(
        self, sections: Sequence[ExternalModel], config: RetainConfig, observer: Observer, on_exit: AsyncExitStack
    ) -> None:
        limits = Limits(
            failures=config.breaker_failures,
            first_seconds=config.breaker_seconds,
            longest_seconds=config.breaker_max_seconds,
        )
        circuits = Circuits(limits, observer=observer)
        self._models: dict[str, OpenAIChatModel] = {}
        for section in sections:
            model = OpenAIChatModel(section, section.api_key, circuit=circuits.circuit(section.llm_endpoint.url))
            on_exit.push_async_callback(model.aclose)
            self._models[section.model_role] = model

    def of_role(self, role: str) -> OpenAIChatModel | None:
        return self._models.get(role)
