"""Asks an LLM server whether it is there, before Envoy is started in front of it."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import SplitResult

import httpx

from semrouter_memory.llm import tls_context
from semrouter_memory.stack.envoy import api_base

TIMEOUT_SECONDS = 2.0

_KEY_MISSING = "needs an API key: set LLM_API_KEY"
_KEY_REFUSED = "refuses the key in LLM_API_KEY"


@dataclass(frozen=True, slots=True)
class LlmProbe:
    """What became of `GET {base}/models`.

    Attributes:
        model: the first model that the server lists; "" when it lists none.
        problem: why requests are going to fail, and what to do; "" when nothing speaks for that.
    """

    model: str = ""
    problem: str = ""


async def probe(base_url: str, key: str) -> LlmProbe:
    """Ask once, for two seconds at most.

    Raises:
        ConfigurationError: the URL is none.
    """
    base = api_base(base_url)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await asyncio.get_running_loop().getaddrinfo(base.hostname, base.port)
            answer = await _models(base, key)
    except TimeoutError:
        return _failed(base, f"does not answer within {TIMEOUT_SECONDS:g} s")
    except (socket.gaierror, UnicodeError):
        return _failed(base, f"cannot be reached: the name {base.hostname} is unknown; check LLM_BASE_URL")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return _failed(base, _reason(base, error))
    return _read(base, answer, key)


async def _models(base: SplitResult, key: str) -> httpx.Response:
    # As Envoy does: no proxy, and the same authorities.
    headers = {"authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(verify=tls_context(), trust_env=False, timeout=TIMEOUT_SECONDS) as client:
        return await client.get(f"{base.geturl()}/models", headers=headers)


def _reason(base: SplitResult, error: BaseException) -> str:
    causes: list[BaseException] = []
    each: BaseException | None = error
    while each is not None:
        causes.append(each)
        each = each.__cause__ or each.__context__
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"shows a certificate that is not accepted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return "does not speak TLS: begin LLM_BASE_URL with http://"
    if isinstance(error, httpx.ConnectError):
        return "cannot be reached: nothing listens there; start the server, or correct LLM_BASE_URL"
    hint = "; if it speaks TLS, begin LLM_BASE_URL with https://" if base.scheme == "http" else ""
    return f"does not answer like an HTTP server{hint}"


def _read(base: SplitResult, answer: httpx.Response, key: str) -> LlmProbe:
    status = answer.status_code
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return _failed(base, f"answers {status}: it {_KEY_REFUSED if key else _KEY_MISSING}")
    if answer.is_redirect:
        return _failed(base, "redirects to another address; give that one as LLM_BASE_URL")
    if status == HTTPStatus.NOT_FOUND:
        return _failed(
            base,
            f"answers 404 to GET {base.path}/models; where requests fail as well, correct the path of LLM_BASE_URL:"
            " it is what comes before /chat/completions",
        )
    if answer.is_error:
        return _failed(base, f"answers {status} to GET {base.path}/models")
    models = models_in(answer)
    if models is None:
        return _failed(
            base, f"answers GET {base.path}/models, but not as an OpenAI-compatible server; check LLM_BASE_URL"
        )
    return LlmProbe(model=next(iter(models), ""))


def models_in(answer: httpx.Response) -> list[str] | None:
    """The models that a server lists; None: it lists none."""
    try:
        return [str(entry["id"]) for entry in answer.json()["data"]] if answer.is_success else None
    except (ValueError, KeyError, TypeError):
        return None


def _failed(base: SplitResult, problem: str) -> LlmProbe:
    shown = base._replace(netloc=base.netloc.rpartition("@")[2]).geturl()
    return LlmProbe(problem=f"the LLM server at {shown} {problem}")
