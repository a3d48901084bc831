"""An OpenAI-compatible chat model (implements the `ChatModel` port)."""

from collections.abc import Sequence

import openai
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from semrouter_memory.config import ExternalModel
from semrouter_memory.errors import ChatModelError
from semrouter_memory.model import ChatMessage

_MAX_RETRIES = 1
"""For a connection that broke; callers have a back-off of their own."""


class OpenAIChatModel:
    """One configured model. Local servers need no key; the client library does, so any word will do.

    Args:
        api_key: None when the server asks for none.
    """

    def __init__(self, config: ExternalModel, api_key: str | None = None) -> None:
        self._config = config
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
            ChatModelError: no connection, no answer in time, a status that is no success, or no text in the answer.
        """
        try:
            completion = await self._client.chat.completions.create(
                model=self._config.llm_model_name,
                messages=[_parameter(message) for message in messages],
                max_tokens=self._config.max_tokens,
                temperature=self._config.temperature,
            )
            text = completion.choices[0].message.content
        except openai.APIStatusError as error:
            raise ChatModelError(f"{self.name} answered {error.status_code}") from None
        except Exception as error:  # noqa: BLE001 - what a foreign server sends fails in many ways; none leaves here
            raise ChatModelError(f"{self.name} failed: {type(error).__name__}") from None
        if not isinstance(text, str) or not text.strip():
            raise ChatModelError(f"{self.name} answered without text")
        return text

    async def aclose(self) -> None:
        await self._client.close()


def _parameter(message: ChatMessage) -> ChatCompletionMessageParam:
    if message.role == "system":
        return {"role": "system", "content": message.content}
    if message.role == "assistant":
        return {"role": "assistant", "content": message.content}
    return {"role": "user", "content": message.content}
