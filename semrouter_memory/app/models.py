"""The external models, by role. Roles at one server share its circuit."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from semrouter_memory.config import ExternalModel, RetainConfig
from semrouter_memory.llm.circuit import ModelCircuits
from semrouter_memory.ports import ChatModel, Observer
from semrouter_memory.resilience import Backoff

if TYPE_CHECKING:
    from semrouter_memory.llm.client import OpenAIChatModel


class ExternalModels:
    """Makes a client for each configured role, closed with the exit stack.

    Args:
        traced: makes each call of a model a span; None: tracing is off.
    """

    def __init__(
        self,
        sections: Sequence[ExternalModel],
        config: RetainConfig,
        observer: Observer,
        on_exit: AsyncExitStack,
        traced: Callable[[ChatModel, ExternalModel], ChatModel] | None = None,
    ) -> None:
        backoff = Backoff(first=config.breaker_seconds, longest=config.breaker_max_seconds)
        circuits = ModelCircuits(backoff, failures=config.breaker_failures, observer=observer)
        self._models: dict[str, ChatModel] = {}
        for section in sections:
            model = _client_of(section, circuits)
            on_exit.push_async_callback(model.aclose)
            self._models[section.model_role] = traced(model, section) if traced else model

    async def warm(self) -> None:
        """Have the first call of every role cost what later ones do; whether its server is there does not matter."""
        if self._models:
            from semrouter_memory.llm.warming import warm  # noqa: PLC0415 - see `_client_of`

            await warm()

    @property
    def reflecting(self) -> ChatModel | None:
        """The model that answers questions about memories and finds insights in them."""
        return self.of_role("memory_reflect") or self.of_role("memory_extraction")

    def of_role(self, role: str) -> ChatModel | None:
        return self._models.get(role)


def _client_of(section: ExternalModel, circuits: ModelCircuits) -> "OpenAIChatModel":
    # The client library takes a fifth of the start, and most installations configure no model.
    from semrouter_memory.llm.client import OpenAIChatModel  # noqa: PLC0415

    return OpenAIChatModel(section, section.api_key, circuit=circuits.circuit(section.llm_endpoint.url))
