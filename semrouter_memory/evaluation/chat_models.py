"""The chat models that an evaluation may ask: those of the configuration, as the service asks them."""

from contextlib import AsyncExitStack
from typing import cast

from semrouter_memory.config import Config
from semrouter_memory.llm.breaker import Limits
from semrouter_memory.llm.circuit import Circuits
from semrouter_memory.llm.client import OpenAIChatModel
from semrouter_memory.ports import ChatModel, Observer


class _Silent:
    """An observer of calls to a model: nobody counts them."""

    def __getattr__(self, _: str) -> object:
        return lambda *_, **__: None


def chat_model(config: Config, role: str, exits: AsyncExitStack) -> ChatModel | None:
    """The model with that role, closed with `exits`; None when none is configured.

    Raises:
        ConfigurationError: its key is missing.
    """
    retain = config.memory.retain
    limits = Limits(
        failures=retain.breaker_failures,
        first_seconds=retain.breaker_seconds,
        longest_seconds=retain.breaker_max_seconds,
    )
    for section in config.external_models:
        if section.model_role == role:
            circuit = Circuits(limits, observer=cast("Observer", _Silent())).circuit(section.llm_endpoint.url)
            model = OpenAIChatModel(section, section.api_key, circuit=circuit)
            exits.push_async_callback(model.aclose)
            return model
    return None
