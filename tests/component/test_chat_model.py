"""The chat model client against a real HTTP server that behaves well and badly."""

import asyncio
import ssl
from typing import Any

import pytest
from structlog.testing import capture_logs

from semrouter_memory.errors import ChatModelError, ModelFault, ModelUnavailableError
from semrouter_memory.llm.circuit import ModelCircuits
from semrouter_memory.llm.client import OpenAIChatModel, warm
from semrouter_memory.model import ChatMessage
from semrouter_memory.resilience import Backoff
from semrouter_memory.telemetry.metrics import Metrics, TelemetryObserver
from tests.chat_server import StandInServer, section
from tests.raising import raising

MESSAGES = [ChatMessage("system", "Be brief."), ChatMessage("user", "secret words")]


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def circuits(clock: Clock) -> ModelCircuits:
    backoff = Backoff(first=10, longest=40)
    observer = TelemetryObserver(Metrics())
    return ModelCircuits(backoff, failures=2, observer=observer, monotonic=clock, jitter=lambda: 0.0)


def model_at(circuits: ModelCircuits, port: int, key: str | None = None, timeout_seconds: float = 5) -> OpenAIChatModel:
    settings = section(port, timeout_seconds)
    return OpenAIChatModel(settings, key, circuit=circuits.circuit(settings.llm_endpoint.url))


async def test_the_answer_comes_back_as_it_is(chat_server: StandInServer, circuits: ModelCircuits) -> None:
    chat_server.content("<think>hm</think>[]")
    model = model_at(circuits, chat_server.port, "k-1")
    assert await model.complete(MESSAGES) == "<think>hm</think>[]"
    ((body, authorization),) = chat_server.requests
    assert body == {
        "model": "small",
        "max_tokens": 77,
        "temperature": 0.3,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "secret words"}],
    }
    assert (authorization, model.name) == ("Bearer k-1", "small")
    await model.aclose()


async def test_the_authorities_are_read_once_for_all_models(
    circuits: ModelCircuits, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read them takes as long as a recall may."""
    await model_at(circuits, 1).aclose()

    def read(*_: object, **__: object) -> None:
        raise AssertionError("the authorities were read again")

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", read)
    await model_at(circuits, 1).aclose()
    assert await warm()


async def test_a_server_without_keys_needs_none(chat_server: StandInServer, circuits: ModelCircuits) -> None:
    chat_server.content("ok")
    model = model_at(circuits, chat_server.port)
    assert await model.complete(MESSAGES) == "ok"
    await model.aclose()


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (500, {"error": {"message": "secret words"}}),
        (401, {"error": {"message": "no"}}),
        (200, "<html>garbage"),
        (200, "[]"),
        (200, '"text"'),
        (200, {}),
        (200, {"choices": []}),
        (200, {"choices": [{"message": {"role": "assistant", "content": None}}]}),
        (200, {"choices": [{"message": {"role": "assistant", "content": "  "}}]}),
        (200, {"choices": [{"message": None}]}),
    ],
)
async def test_every_failure_is_one_error_without_content(
    chat_server: StandInServer, circuits: ModelCircuits, status: int, answer: Any
) -> None:
    chat_server.status, chat_server.answer = status, answer
    model = model_at(circuits, chat_server.port)
    with pytest.raises(ChatModelError) as raised:
        await model.complete(MESSAGES)
    assert "secret words" not in str(raised.value)
    assert raised.value.__cause__ is None
    await model.aclose()


async def test_a_server_that_hangs_is_given_up_after_the_timeout(
    chat_server: StandInServer, circuits: ModelCircuits
) -> None:
    chat_server.hang = True
    model = model_at(circuits, chat_server.port, timeout_seconds=0.2)
    async with asyncio.timeout(60):
        with pytest.raises(ChatModelError):
            await model.complete(MESSAGES)
    await model.aclose()


async def test_a_server_that_sends_blanks_while_it_works_is_given_up_after_the_timeout(
    chat_server: StandInServer, circuits: ModelCircuits
) -> None:
    chat_server.trickle = True
    model = model_at(circuits, chat_server.port, timeout_seconds=0.2)
    async with asyncio.timeout(60):
        with raising(ModelUnavailableError, cause="timeout"):
            await model.complete(MESSAGES)
    await model.aclose()


async def test_no_server_is_the_same_error(circuits: ModelCircuits) -> None:
    model = model_at(circuits, 9)
    with pytest.raises(ChatModelError):
        await model.complete(MESSAGES)
    await model.aclose()


async def test_cancelling_stays_cancelling(chat_server: StandInServer, circuits: ModelCircuits) -> None:
    chat_server.hang = True
    model = model_at(circuits, chat_server.port)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await model.complete(MESSAGES)
    await model.aclose()


# -- the circuit ---------------------------------------------------------------------------------------------------------


async def test_after_failures_in_a_row_the_endpoint_is_left_alone_for_all_its_models(
    chat_server: StandInServer, circuits: ModelCircuits, clock: Clock
) -> None:
    chat_server.status = 503
    first, second = model_at(circuits, chat_server.port), model_at(circuits, chat_server.port)
    for _ in range(2):
        with pytest.raises(ChatModelError, match="503"):
            await first.complete(MESSAGES)
    asked = len(chat_server.requests)
    for model in (first, second):
        with raising(ModelUnavailableError, circuit_open=True) as raised:
            await model.complete(MESSAGES)
        assert raised.value.wait_seconds == 10
    assert len(chat_server.requests) == asked
    clock.seconds = 10
    with raising(ModelUnavailableError, circuit_open=True) as raised:
        await second.complete(MESSAGES)
    assert (len(chat_server.requests), raised.value.wait_seconds) == (asked + 1, 20), "one probe, without a repetition"
    clock.seconds = 30
    chat_server.status = 200
    chat_server.content("ok")
    assert await second.complete(MESSAGES) == "ok"
    assert await first.complete(MESSAGES) == "ok"
    for model in (first, second):
        await model.aclose()


@pytest.mark.parametrize(
    ("status", "answer"), [(400, {}), (413, {}), (422, {}), (200, "<html>"), (200, {"choices": []})]
)
async def test_what_speaks_of_the_prompt_opens_no_circuit(
    chat_server: StandInServer, circuits: ModelCircuits, status: int, answer: Any
) -> None:
    chat_server.unbearable = "secret words"
    chat_server.unbearable_status, chat_server.unbearable_answer = status, answer
    chat_server.content("[]")
    model = model_at(circuits, chat_server.port)
    for _ in range(4):
        with pytest.raises(ChatModelError) as raised:
            await model.complete(MESSAGES)
        assert not isinstance(raised.value, ModelUnavailableError)
    await model.aclose()


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_model_is_left_alone_at_once_and_the_log_says_what_to_check(
    chat_server: StandInServer, circuits: ModelCircuits, clock: Clock, status: int
) -> None:
    """Another model at the same address, with the right key and name, is not concerned."""
    refused, other = model_at(circuits, chat_server.port), model_at(circuits, chat_server.port)
    chat_server.status = status
    with capture_logs() as lines, raising(ModelUnavailableError, circuit_open=True):
        await refused.complete(MESSAGES)
    (line,) = lines
    assert (line["log_level"], line["detail"]) == (
        "error",
        f"small answered {status}; check its key, account, address, name and settings",
    )
    chat_server.status = 200
    chat_server.content("ok")
    with raising(ModelUnavailableError, circuit_open=True):
        await refused.complete(MESSAGES)
    assert await other.complete(MESSAGES) == "ok"
    clock.seconds = 10
    assert await refused.complete(MESSAGES) == "ok"
    for model in (refused, other):
        await model.aclose()


@pytest.mark.parametrize(
    ("status", "answer", "detail"),
    [
        (400, {"error": {"code": "invalid_model", "message": "no"}}, "small answered 400 (invalid_model)"),
        (400, {"error": {"code": 400, "message": "no"}}, "small answered 400"),
        (402, {}, "small answered 402"),
        (422, {}, "small answered 422"),
        (200, "<html>Open WebUI", "small failed: the answer is no chat completion"),
        (200, {"error": {"code": 502}}, "small failed: the answer is no chat completion"),
        (200, {"choices": [{"message": {"content": None}}]}, "small failed: no text in the answer"),
    ],
)
async def test_a_model_that_answers_no_prompt_at_all_is_left_alone(
    chat_server: StandInServer, circuits: ModelCircuits, status: int, answer: Any, detail: str
) -> None:
    """Servers have many a status for a wrong name or an empty account; no turn is at fault then."""
    chat_server.status, chat_server.answer = status, answer
    model = model_at(circuits, chat_server.port)
    with capture_logs() as lines, raising(ModelUnavailableError, circuit_open=True):
        await model.complete(MESSAGES)
    assert lines[0]["detail"] == f"{detail}; check its key, account, address, name and settings"
    await model.aclose()


async def test_parameters_that_a_model_does_not_support_are_left_out(
    chat_server: StandInServer, circuits: ModelCircuits
) -> None:
    """As models that reason do: they know the bound by another name, and have one temperature."""
    chat_server.content("ok")
    chat_server.unsupported = ("max_tokens", "temperature")
    model = model_at(circuits, chat_server.port)
    assert [await model.complete(MESSAGES) for _ in range(2)] == ["ok", "ok"]
    assert len(chat_server.requests) == 4
    assert chat_server.requests[-1][0].keys() == {"model", "messages", "max_completion_tokens"}
    assert chat_server.requests[-1][0]["max_completion_tokens"] == 77
    await model.aclose()


async def test_an_answer_that_is_cut_off_is_an_error_that_names_the_bound(
    chat_server: StandInServer, circuits: ModelCircuits
) -> None:
    chat_server.content("<think>The user says that")
    chat_server.answer["choices"][0]["finish_reason"] = "length"
    model = model_at(circuits, chat_server.port)
    with raising(ChatModelError, fault=ModelFault.UNPARSABLE, cause="cut off at max_tokens (77)"):
        await model.complete(MESSAGES)
    await model.aclose()


async def test_an_answer_in_parts_is_their_text(chat_server: StandInServer, circuits: ModelCircuits) -> None:
    """As Mistral's models answer that reason."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    chat_server.content([thinking, {"type": "text", "text": "[]"}])
    model = model_at(circuits, chat_server.port)
    assert await model.complete(MESSAGES) == "[]"
    await model.aclose()


async def test_a_model_that_is_too_slow_for_its_callers_is_left_alone(
    chat_server: StandInServer, circuits: ModelCircuits, clock: Clock
) -> None:
    """By them: another one at the same address goes on. It is asked again after a while, and left alone for longer."""
    model, other = model_at(circuits, chat_server.port), model_at(circuits, chat_server.port)
    chat_server.content("ok")

    async def give_up() -> None:
        chat_server.hang = True
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await model.complete(MESSAGES)
        model.late()
        chat_server.hang = False

    await give_up()
    assert await model.complete(MESSAGES) == "ok", "one is no reason"
    with capture_logs() as lines:
        await give_up()
        await give_up()
    assert [line["detail"] for line in lines] == ["no answer while its callers wait"]
    with raising(ModelUnavailableError, circuit_open=True, wait_seconds=10):
        await model.complete(MESSAGES)
    assert await other.complete(MESSAGES) == "ok"
    clock.seconds = 10
    await give_up()
    with raising(ModelUnavailableError, circuit_open=True, wait_seconds=20):
        await model.complete(MESSAGES)
    clock.seconds = 30
    assert await model.complete(MESSAGES) == "ok"
    assert model.retry_after is None
    for each in (model, other):
        await each.aclose()


async def test_a_cancelled_probe_leaves_the_next_call_to_probe(
    chat_server: StandInServer, circuits: ModelCircuits, clock: Clock
) -> None:
    chat_server.status = 500
    model = model_at(circuits, chat_server.port)
    for _ in range(2):
        with pytest.raises(ChatModelError):
            await model.complete(MESSAGES)
    clock.seconds = 10
    chat_server.status, chat_server.hang = 200, True
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await model.complete(MESSAGES)
    chat_server.hang = False
    chat_server.content("ok")
    assert await model.complete(MESSAGES) == "ok"
    await model.aclose()
