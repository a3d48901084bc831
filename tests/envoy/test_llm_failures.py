"""The extraction model errs, hangs or talks nonsense: turns are kept, tried again, and given up only when told so."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from .client import CHAT, ask
from .conftest import ALICE, BOB, Installation, eventually, installed
from .extraction_llm import ExtractionLlm, extracting
from .sidecar_log import logged

pytestmark = pytest.mark.asyncio(loop_scope="session")

HINTED = "Which albums suit the stamps that I collect?"
TOLD = f"My budget for the Hawaii trip is $10,000. {HINTED}"
INFERRED = "User collects stamps"
"""No quote holds this: it can only come from the model, whose words the user did say."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def llm() -> AsyncIterator[ExtractionLlm]:
    model = ExtractionLlm()
    async with model.listening():
        yield model


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def patient(
    tmp_path_factory: pytest.TempPathFactory, model_directory: Path, llm: ExtractionLlm
) -> AsyncIterator[Installation]:
    config = extracting(llm, timeout_seconds=2, max_attempts=1_000)
    async with installed(tmp_path_factory.mktemp("patient"), model_directory, sidecar_config=config) as on:
        yield on


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def impatient(
    tmp_path_factory: pytest.TempPathFactory, model_directory: Path, llm: ExtractionLlm
) -> AsyncIterator[Installation]:
    config = extracting(llm, max_attempts=2, breaker_failures=1)
    async with installed(tmp_path_factory.mktemp("impatient"), model_directory, sidecar_config=config) as on:
        yield on


def errs(llm: ExtractionLlm) -> None:
    llm.status = 500


def refuses(llm: ExtractionLlm) -> None:
    llm.status = 401


def hangs(llm: ExtractionLlm) -> None:
    llm.hangs = True


def talks(llm: ExtractionLlm) -> None:
    llm.says = "Sure! The user seems to like Hawaii."


def breaks_off(llm: ExtractionLlm) -> None:
    llm.says = '[{"type": "semantic", "content": "User'


def answers_an_object(llm: ExtractionLlm) -> None:
    llm.says = '{"type": "semantic"}'


def says_nothing(llm: ExtractionLlm) -> None:
    llm.says = ""


FAILS, NO_JSON = "Extraction failed", "Extraction parse failed"
Failure = Callable[[ExtractionLlm], None]


@pytest.mark.parametrize(
    ("failure", "warning"),
    [
        (errs, FAILS),
        (hangs, FAILS),
        (talks, NO_JSON),
        (breaks_off, NO_JSON),
        (answers_an_object, NO_JSON),
    ],
)
async def test_the_turn_waits_for_a_better_model(
    patient: Installation, llm: ExtractionLlm, failure: Failure, warning: str
) -> None:
    """Meanwhile nothing of it is stored but the user's own words, and no request notices."""
    await patient.forget_everything()
    llm.works(INFERRED)
    failure(llm)
    warned = logged(patient, "warning", warning)
    await ask(patient, CHAT, TOLD)

    async def tried_twice() -> bool:
        return logged(patient, "warning", warning) >= warned + 2

    await eventually(tried_twice, f"not twice: {warning}")
    assert await patient.memories() == ["My budget for the Hawaii trip is $10,000."]
    llm.works(INFERRED)
    await patient.remembers(INFERRED)
    assert len(await patient.memories()) == 2
    assert await patient.metric("semrouter_memory_dead_letters_total") == 0


@pytest.mark.parametrize("failure", [refuses, says_nothing])
async def test_a_model_that_refuses_the_key_or_says_nothing_to_any_prompt_costs_no_turn_and_the_log_says_so(
    patient: Installation, llm: ExtractionLlm, failure: Failure
) -> None:
    await patient.forget_everything()
    llm.works(INFERRED)
    failure(llm)
    away = logged(patient, "error", "Model unavailable")
    await ask(patient, CHAT, TOLD)

    async def said() -> bool:
        return logged(patient, "error", "Model unavailable") > away

    await eventually(said, "no word of the model")
    llm.works(INFERRED)
    await patient.remembers(INFERRED)


async def test_a_turn_that_fails_too_often_is_given_up_and_counted(impatient: Installation, llm: ExtractionLlm) -> None:
    """It is not tried again, and the next one is extracted as ever."""
    llm.works(INFERRED)
    talks(llm)
    await ask(impatient, CHAT, "Which of them would be at the market?")

    async def given_up() -> bool:
        return await impatient.metric("semrouter_memory_dead_letters_total") == 1

    await eventually(given_up, "no dead letter")
    llm.works("User bought shelves in Bergen")
    llm.asked.clear()
    await ask(impatient, CHAT, "Where in Bergen did I buy shelves?", key=BOB)
    await impatient.remembers("Bergen", key=BOB)
    assert await impatient.memories(ALICE) == []
    assert len(llm.asked) == 1


async def test_what_is_quoted_and_what_the_model_finds_is_stored_once(
    patient: Installation, llm: ExtractionLlm
) -> None:
    await patient.forget_everything()
    llm.works("User's budget for the Hawaii trip is $10,000", INFERRED)
    await ask(patient, CHAT, TOLD)
    await patient.remembers(INFERRED)
    assert sum("$10,000" in content for content in await patient.memories()) == 1


async def test_the_model_sees_no_system_prompt(patient: Installation, llm: ExtractionLlm) -> None:
    await patient.forget_everything()
    llm.works(INFERRED)
    llm.asked.clear()
    system, user = ({"role": "system", "content": "You are Falcon."}, {"role": "user", "content": HINTED})
    async with patient.http() as http:
        (await http.post(CHAT, json={"model": "m", "messages": [system, user]})).raise_for_status()
    await patient.remembers(INFERRED)
    assert HINTED in "".join(llm.asked)
    assert "Falcon" not in "".join(llm.asked)
