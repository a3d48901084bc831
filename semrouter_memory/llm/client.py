"""An OpenAI-compatible chat model (implements the `ChatModel` port), and what makes its first call as fast as the others.

Strategy. The client's library loads parts of itself with its first call. So that no request waits for it, one call is made over
a real socket, to a server in this process that knows one answer: the same code as any later call. No configured server is
asked, so one that is absent delays no start.
"""

import asyncio
import os
import re
from collections.abc import Sequence
from http.client import responses
from math import isfinite

import openai
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

from semrouter_memory.config import ExternalModel
from semrouter_memory.errors import ChatModelError, ModelFault, ModelUnavailableError
from semrouter_memory.llm import tls_context
from semrouter_memory.llm.circuit import ModelCircuit
from semrouter_memory.model import ChatMessage

_REFUSALS = frozenset({401, 403, 404})
"""Wrong key, or wrong path or model name."""
_OVERLOADS = frozenset({408, 429})
_SERVER_ERRORS = 500
_UNSUPPORTED = frozenset({"unsupported_parameter", "unsupported_value"})
_INSTEAD = {"max_tokens": "max_completion_tokens"}
"""Models that reason know it by this name alone."""
_PLAIN = (ChatMessage("user", "Answer with [] and nothing else."),)
_IDENTIFIER = re.compile(r"[A-Za-z][\w.-]{1,63}", re.ASCII)
_AWAY = (openai.APIConnectionError, TimeoutError, OSError)


class OpenAIChatModel:
    """One configured model. Local servers need no key; the client library does, so any word will do.

    Args:
        api_key: None when the server asks for none.
        circuit: of the model's endpoint.
    """

    def __init__(self, config: ExternalModel, api_key: str | None = None, *, circuit: ModelCircuit) -> None:
        self._config = config
        self._circuit = circuit
        self._client = AsyncOpenAI(
            api_key=api_key or "none",
            base_url=config.llm_endpoint.url,
            timeout=config.llm_timeout_seconds,
            max_retries=0,
            http_client=DefaultAsyncHttpxClient(verify=tls_context()),
        )
        self._parameters = {"max_tokens": config.max_tokens, "temperature": config.temperature}
        # The library loads this part when it is first asked for; a request would wait for that.
        self._completions = self._client.chat.completions

    @property
    def name(self) -> str:
        return self._config.llm_model_name

    @property
    def retry_after(self) -> float | None:
        return self._circuit.retry_after

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        """The model's answer as it came, reasoning included.

        Raises:
            ModelUnavailableError: no connection, no answer in time, too many requests, or a server's error; or its
                circuit is open, because it is known to be unavailable or refuses us.
            ChatModelError: another status that is no success, or no whole text in the answer.
        """
        with self._circuit.call() as probe:
            try:
                return await self._ask(messages, repeat=not probe)
            except ChatModelError as error:
                if error.fault is ModelFault.PROMPT and not isinstance(error, ModelUnavailableError):
                    error.fault = ModelFault.PROMPT if await self._serves() else ModelFault.REFUSED
                raise

    def late(self) -> None:
        self._circuit.late()

    async def _serves(self) -> bool:
        """Whether the model answers a prompt with which nothing can be wrong; servers have many a status for "not you"."""
        try:
            await self._ask(_PLAIN, repeat=False)
        except ModelUnavailableError:
            pass
        except ChatModelError:
            return False
        return True

    async def _ask(self, messages: Sequence[ChatMessage], *, repeat: bool) -> str:
        try:
            # The library's timeout begins anew with every byte: servers send blanks while they work.
            async with asyncio.timeout(self._config.llm_timeout_seconds):
                text, is_cut = _read(await self._completion(messages, repeat=repeat))
        except openai.APIStatusError as error:
            raise _answered(self.name, error) from None
        except _AWAY as error:
            cause = _cause(error)
            raise ModelUnavailableError(f"{self.name} failed: {cause}", cause=cause) from None
        except Exception:  # noqa: BLE001 - what a foreign server sends fails in many ways; none leaves here
            cause = "the answer is no chat completion"
            raise ChatModelError(f"{self.name} failed: {cause}", cause=cause) from None
        if is_cut:
            cause = f"cut off at max_tokens ({self._config.max_tokens})"
            raise ChatModelError(f"{self.name} failed: {cause}", fault=ModelFault.UNPARSABLE, cause=cause)
        if not text.strip():
            cause = "no text in the answer"
            raise ChatModelError(f"{self.name} failed: {cause}", cause=cause)
        return text

    async def _completion(self, messages: Sequence[ChatMessage], *, repeat: bool) -> ChatCompletion:
        """Repeated once for a connection that broke. An answer that is an error is not: callers have a back-off."""
        try:
            return await self._sent(messages)
        except openai.APITimeoutError:
            raise
        except openai.APIConnectionError:
            if not repeat:
                raise
        return await self._sent(messages)

    async def _sent(self, messages: Sequence[ChatMessage]) -> ChatCompletion:
        """Repeated without a parameter that the model does not support, which is remembered."""
        parameters = self._parameters
        while True:
            try:
                return await self._completions.create(
                    model=self._config.llm_model_name,
                    messages=[_parameter(message) for message in messages],
                    extra_body=parameters,
                )
            except openai.BadRequestError as error:
                if error.code not in _UNSUPPORTED or error.param not in parameters:
                    raise
                self._parameters = parameters = {
                    _INSTEAD.get(name, name): value
                    for name, value in parameters.items()
                    if name != error.param or name in _INSTEAD
                }

    async def aclose(self) -> None:
        await self._client.close()


def _read(answer: ChatCompletion) -> tuple[str, bool]:
    """The text of an answer, whose content may be a list of parts as well, and whether it is cut off."""
    choice = answer.choices[0]
    content: object = choice.message.content
    parts = content if isinstance(content, list) else ({"type": "text", "text": content},)
    texts = [part["text"] for part in parts if part.get("type") == "text"]
    return "".join(text for text in texts if isinstance(text, str)), choice.finish_reason == "length"


def _answered(name: str, error: openai.APIStatusError) -> ChatModelError:
    status = error.status_code
    # Identifiers, unlike a message, do not repeat the prompt. Servers put numbers there, too.
    reason = ": ".join(each for each in (error.code, error.param) if each and _IDENTIFIER.fullmatch(str(each)))
    cause = f"{responses.get(status, '')}{f' ({reason})' if reason else ''}"
    message = f"{name} answered {status}{f' ({reason})' if reason else ''}"
    if status in _OVERLOADS or status >= _SERVER_ERRORS:
        retry_after = _seconds(error.response.headers.get("retry-after", ""))
        return ModelUnavailableError(message, wait_seconds=retry_after, status=status, cause=cause)
    fault = ModelFault.REFUSED if status in _REFUSALS else ModelFault.PROMPT
    return ChatModelError(message, fault=fault, status=status, cause=cause)


def _seconds(retry_after: str) -> float:
    """The header's seconds; 0 for a date or anything else."""
    try:
        seconds = float(retry_after)
    except ValueError:
        return 0.0
    return max(seconds, 0.0) if isfinite(seconds) else 0.0


def _cause(error: BaseException) -> str:
    """Why there was no answer: "timeout", the system's own words ("Connection refused"), or the error's type."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, openai.APITimeoutError | TimeoutError):
            return "timeout"
        if isinstance(inner, OSError) and inner.errno:
            return os.strerror(inner.errno) if inner.errno > 0 else type(inner).__name__
        # Several addresses of one name failed, one after the other: the first says enough.
        first = inner.exceptions[0] if isinstance(inner, BaseExceptionGroup) else None
        inner = first or inner.__cause__ or inner.__context__
    return type(error).__name__


def _parameter(message: ChatMessage) -> ChatCompletionMessageParam:
    if message.role == "system":
        return {"role": "system", "content": message.content}
    if message.role == "assistant":
        return {"role": "assistant", "content": message.content}
    return {"role": "user", "content": message.content}


# -- the first call ------------------------------------------------------------------------------------------------------

_PATIENCE_SECONDS = 5.0
_BODY = (
    b'{"id":"warm","object":"chat.completion","created":0,"model":"warm","choices":'
    b'[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"warm"}}]}'
)
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (
    len(_BODY),
    _BODY,
)


async def warm() -> bool:
    """Make one call; returns whether it was answered. Never raises (but for cancellation): the first call is slow then."""
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            server = await asyncio.start_server(_serve_once, "127.0.0.1", 0)
            async with server:
                port = server.sockets[0].getsockname()[1]
                await _call_once(f"http://127.0.0.1:{port}/v1")
    except Exception:  # noqa: BLE001 - whatever is not to be had here, the models' own calls decide
        return False
    return True


async def _call_once(base_url: str) -> None:
    # Without the environment: a proxy has nothing to do with this.
    client = AsyncOpenAI(
        api_key="none",
        base_url=base_url,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(trust_env=False, verify=tls_context()),
    )
    async with client:
        await client.chat.completions.create(model="warm", messages=[{"role": "user", "content": "warm"}])


async def _serve_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(_ANSWER)
    writer.close()
