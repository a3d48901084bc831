"""An OpenAI-compatible chat model (implements the `ChatModel` port)."""

from collections.abc import Sequence

import openai
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from semrouter_memory.config import ExternalModel
from semrouter_memory.llm.circuit import CallFailed, Circuit, Verdict
from semrouter_memory.model import ChatMessage

_MAX_RETRIES = 1
"""For a connection that broke; callers have a back-off of their own."""
_REFUSALS = frozenset({401, 403, 404})
"""Wrong key, or wrong path or model name."""
_OVERLOADS = frozenset({408, 429})
_SERVER_ERRORS = 500
_AWAY = (openai.APIConnectionError, TimeoutError, OSError)


class OpenAIChatModel:
    """One configured model. Local servers need no key; the client library does, so any word will do.

    Args:
        api_key: None when the server asks for none.
        circuit: of the model's endpoint.
    """

    def __init__(self, config: ExternalModel, api_key: str | None = None, *, circuit: Circuit) -> None:
        self._config = config
        self._circuit = circuit
        self._client = AsyncOpenAI(
            api_key=api_key or "none",
            base_url=config.llm_endpoint.url,
            timeout=config.llm_timeout_seconds,
            max_retries=_MAX_RETRIES,
        )

    @property
    def name(self) -> str:
        return self._config.llm_model_name

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        """The model's answer as it came, reasoning included.

        Raises:
            CircuitOpenError: the model is known to be away, or refuses us.
            ModelAwayError: no connection, no answer in time, too many requests, or a server's error.
            ChatModelError: another status that is no success, or no text in the answer.
        """
        with self._circuit.call() as probe:
            return await self._ask(messages, retries=0 if probe else _MAX_RETRIES)

    async def _ask(self, messages: Sequence[ChatMessage], *, retries: int) -> str:
        try:
            completion = await self._client.with_options(max_retries=retries).chat.completions.create(
                model=self._config.llm_model_name,
                messages=[_parameter(message) for message in messages],
                max_tokens=self._config.max_tokens,
                temperature=self._config.temperature,
            )
            text = completion.choices[0].message.content
        except openai.APIStatusError as error:
            raise CallFailed(f"{self.name} answered {error.status_code}", _verdict(error.status_code)) from None
        except _AWAY as error:
            raise CallFailed(f"{self.name} failed: {type(error).__name__}", Verdict.AWAY) from None
        except Exception as error:  # noqa: BLE001 - what a foreign server sends fails in many ways; none leaves here
            raise CallFailed(f"{self.name} failed: {type(error).__name__}", Verdict.PROMPT) from None
        if not isinstance(text, str) or not text.strip():
            raise CallFailed(f"{self.name} answered without text", Verdict.PROMPT)
        return text

    async def aclose(self) -> None:
        await self._client.close()


def _verdict(status: int) -> Verdict:
    if status in _REFUSALS:
        return Verdict.REFUSED
    return Verdict.AWAY if status in _OVERLOADS or status >= _SERVER_ERRORS else Verdict.PROMPT


def _parameter(message: ChatMessage) -> ChatCompletionMessageParam:
    if message.role == "system":
        return {"role": "system", "content": message.content}
    if message.role == "assistant":
        return {"role": "assistant", "content": message.content}
    return {"role": "user", "content": message.content}
