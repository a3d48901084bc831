"""Quotes and statements the whole way: real turn log, real embedding model, Milvus Lite, recall and the API's service."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from semrouter_memory.app.management import new_memory_id
from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.config import Config, EmbeddingConfig, ManagementConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.evaluation.retrieval_run import request_of
from semrouter_memory.evaluation.running import Learner, clock_of, played_pipelines
from semrouter_memory.manage.importing import Imported
from semrouter_memory.manage.portable import export_line
from semrouter_memory.manage.schemas import StoreRequest, UpdateRequest
from semrouter_memory.model import ChatMessage, Criteria, Memory, MemoryType, Scope, SessionHints, Turn
from semrouter_memory.retain.redact import redact
from tests.memory_service import memory_service

CONFIG = Config()
ALICE = Scope("alice")
SATURDAY = datetime(2026, 3, 21, 10, tzinfo=UTC)


class Answering:
    """A model that lists these facts of every batch."""

    name = "stand-in"
    retry_after = None

    def __init__(self) -> None:
        self.facts: list[dict[str, object]] = []

    def late(self) -> None:
        """Only deadlines tell."""

    async def complete(self, messages: Sequence[ChatMessage]) -> str:
        return "NONE" if messages[-1].content.startswith("Session:") else json.dumps(self.facts)


class Installation:
    """One installation, with a user who talks and asks."""

    def __init__(self, pipelines: Pipelines, model: Answering | None) -> None:
        retain = CONFIG.memory.retain.model_copy(update={"episodes": False})
        update = {"retain": retain, "extraction_batch_size": 1}
        pipelines = replace(pipelines, memory=pipelines.memory.model_copy(update=update))
        memory, adapters = pipelines.memory, pipelines.adapters
        if model is not None:
            pipelines.models.of_role = lambda role: model if role == "memory_extraction" else None  # type: ignore[method-assign]
        self._memory = memory
        self._adapters, self._clock = adapters, clock_of(adapters)
        self.user = ALICE
        self._learner = Learner(pipelines)
        self._recaller = pipelines.request_phase()
        self.service = memory_service(adapters, new_id=new_memory_id, redact=redact, config=ManagementConfig())

    async def say(self, text: str, *, session: str, answer: str = "Noted.") -> None:
        self._clock.time += timedelta(hours=1)
        await self._learner.turn(
            Turn(
                scope=self.user, hints=SessionHints(explicit=session), user_texts=(text,), assistant_text=answer,
                observed_at=self._clock.now(), request_id=f"{self.user.owner}-{self._clock.now()}",
            )
        )  # fmt: skip

    async def ask(self, question: str) -> str:
        self._clock.time += timedelta(days=1)
        return (await self._recaller.recall(request_of(self.user, question, (), self._memory))).text

    async def memories(self, *, history: bool = False) -> list[Memory]:
        page = await self.service.page(Criteria(self.user), limit=100, history=history)
        return list(reversed(page.memories))

    async def contents(self) -> list[str]:
        return [memory.content for memory in await self.memories()]


@pytest.fixture(scope="module")
def embedder(model_directory: Path) -> OnnxEmbedder:
    return OnnxEmbedder.load(EmbeddingConfig(), model_directory)


@pytest.fixture
def model() -> Answering | None:
    return None


@pytest.fixture
async def alice(embedder: OnnxEmbedder, model: Answering | None) -> AsyncIterator[Installation]:
    async with played_pipelines(embedder, CONFIG) as pipelines:
        clock_of(pipelines.adapters).time = SATURDAY
        yield Installation(pipelines, model)


# -- a new value -------------------------------------------------------------------------------------------------------


async def test_a_correction_in_the_same_session_is_recalled_with_what_it_is_about(alice: Installation) -> None:
    await alice.say("my budget for the Hawaii trip is $10,000", session="a")
    await alice.say("actually it's 15,000 now", session="a")
    shown = await alice.ask("what's my budget for the Hawaii trip?")
    assert "15,000" in shown
    assert "Hawaii" in shown
    assert "10,000" not in shown
    (now,) = await alice.memories()
    assert [fact.text for fact in now.facts] == ["User's budget for the Hawaii trip is 15,000"]
    assert len(await alice.service.history(ALICE, now.id)) == 2


async def test_a_correction_in_a_later_session_knows_what_was_asked_there(alice: Installation) -> None:
    await alice.say("my budget for the Hawaii trip is $10,000", session="a")
    await alice.say("what's my Hawaii budget again?", session="b", answer="It is $10,000.")
    await alice.say("actually it's 15,000 now", session="b")
    shown = await alice.ask("what's my budget for the Hawaii trip?")
    assert "15,000" in shown
    assert "10,000" not in shown


async def test_what_is_taken_back_is_not_recalled_and_the_former_value_is(alice: Installation) -> None:
    await alice.say("I live in Oslo", session="a")
    await alice.say("I moved to Rennes", session="b")
    await alice.say("scratch that", session="b")
    assert await alice.contents() == ["I live in Oslo"]
    shown = await alice.ask("which city do I live in?")
    assert "Oslo" in shown
    assert "Rennes" not in shown


NEW_VALUES = [
    ("my budget for the Hawaii trip is $10,000", "my Hawaii budget is 15k now", "what's my Hawaii budget?", "10,000", "15k"),
    ("my favourite food is sushi", "my favorite food is ramen now", "what's my favourite food?", "sushi", "ramen"),
    ("my favourite book is Middlemarch", "my favourite book is Stoner", "what's my favourite book?", "Middlemarch", "Stoner"),
    ("my favourite sport is tennis", "my favourite sport is curling now", "what's my favourite sport?", "tennis", "curling"),
    ("I drive a Dacia Duster", "my car is a Renault 5 now", "what car do I drive?", "Duster", "Renault"),
    ("my dog's name is Rex", "our dog's name is Luna now", "what's my dog's name?", "Rex", "Luna"),
    ("I live in Oslo", "I moved to Rennes", "which city do I live in?", "Oslo", "Rennes"),
    ("I work at Vestmark", "I got a job at Siemens", "where do I work, what is my job?", "Vestmark", "Siemens"),
]  # fmt: skip


async def test_a_new_value_is_recalled_in_place_of_the_old_one(alice: Installation) -> None:
    for number, (old, new, question, gone, there) in enumerate(NEW_VALUES):
        alice.user = Scope(f"user-{number}")
        await alice.say(old, session="a")
        await alice.say(new, session="b")
        shown = await alice.ask(question)
        assert there in shown, question
        assert gone not in shown, question
        first, second = await alice.memories(history=True)
        assert (first.content, first.superseded_by, second.superseded_at) == (old, second.id, None)


async def test_a_quote_that_says_more_stays_and_comes_after_the_new_value(alice: Installation) -> None:
    await alice.say(
        "My budget for the Hawaii trip is $10,000. Anna is coming along to Hawaii and she eats no fish.", session="a"
    )
    await alice.say("my Hawaii budget is 15k now", session="b")
    shown = await alice.ask("what's my budget for the Hawaii trip?")
    assert 0 < shown.index("15k") < shown.index("(earlier; part of it has changed since)") < shown.index("10,000")
    assert "Anna" in await alice.ask("what should I cook for Anna in Hawaii?")


async def test_what_was_corrected_is_recalled_behind_its_correction(alice: Installation) -> None:
    await alice.say("The venue of the party is the hall in Dayton", session="a")
    await alice.say("sorry not Dayton, Kettering. I mix them up because I grew up between the two", session="a")
    await alice.say("no drinks in the hall, though", session="a")
    shown = await alice.ask("where is the venue of the party?")
    assert 0 < shown.index("Kettering") < shown.index("(earlier; part of it has changed since)")
    first, second, _ = await alice.memories()
    assert (first.outdated_by, second.context) == ((second.id,), first.content)


PARTS = [
    ("commits follow conventional commits, and PRs go to @lena for review", "PRs go to @tomas for review now", "conventional"),
    ("Our rent is 1,200 a month, the lease runs until March 2028", "Our rent is 1,350 a month now", "March 2028"),
    ("Project Falcon ships on May 30, the lead is Ines", "Project Falcon ships on June 14 now", "Ines"),
    ("我们下周三去杭州，住在西溪宾馆，一共四个人", "我们改成下周五去杭州", "西溪宾馆"),
    ("住在合肥,房租一个月一千九", "房租涨了，现在两千一", "合肥"),
    ("毛毛的围棋老师姓邱，一节课一百五", "围棋课涨到一百八一节了", "邱"),
]  # fmt: skip


async def test_what_a_sentence_tells_besides_the_old_value_stays(alice: Installation) -> None:
    for number, (old, new, besides) in enumerate(PARTS):
        alice.user = Scope(f"user-{number}")
        await alice.say(old, session="a")
        await alice.say(new, session="b")
        (first, second) = await alice.memories()
        assert besides in first.content
        assert first.outdated_by == (second.id,)


# -- said twice --------------------------------------------------------------------------------------------------------


async def test_what_is_said_twice_in_any_way_is_one_memory(alice: Installation) -> None:
    await alice.say("my favourite food is sushi", session="a")
    await alice.say("My favorite food is sushi!", session="b")
    known = await alice.service.store(ALICE, StoreRequest(content="User's favourite food is sushi"))
    again = await alice.service.store(
        ALICE,
        StoreRequest(content="User's favorite food is sushi", type=MemoryType.PROCEDURAL, metadata={"origin": "crm"}),
    )
    assert known.id == again.id
    (only,) = await alice.memories()
    assert (only.content, only.metadata["origin"]) == ("my favourite food is sushi", "crm")


async def test_what_was_stored_through_the_api_is_superseded_by_what_is_said_and_the_other_way_round(
    alice: Installation,
) -> None:
    await alice.service.store(ALICE, StoreRequest(content="User lives in Oslo"))
    await alice.say("I moved to Rennes", session="a")
    assert await alice.contents() == ["I moved to Rennes"]
    await alice.service.store(ALICE, StoreRequest(content="User lives in Turin"))
    assert await alice.contents() == ["User lives in Turin"]


# -- forgetting, export ------------------------------------------------------------------------------------------------


async def test_an_export_and_import_keep_form_context_and_statements(
    alice: Installation, embedder: OnnxEmbedder
) -> None:
    await alice.say("my budget for the Hawaii trip is $10,000", session="a")
    await alice.say("actually it's 15,000 now", session="a")
    (now,) = await alice.memories()
    async with played_pipelines(embedder, CONFIG) as pipelines:
        clock_of(pipelines.adapters).time = SATURDAY + timedelta(days=9)
        other = Installation(pipelines, None)
        report = Imported()
        await other.service.importer.run(lambda _project: ALICE, _chunks(export_line(now)), report)
        (copy,) = await other.memories()
    assert (report.imported, copy.form, copy.context, copy.facts) == (1, "quote", now.context, now.facts)


async def _chunks(line: bytes) -> AsyncIterator[bytes]:
    await asyncio.sleep(0)
    yield line


class TestWithAModel:
    @pytest.fixture
    def model(self) -> Answering:
        return Answering()

    async def test_a_statement_is_linked_to_its_quote_and_recall_shows_the_quote(
        self, alice: Installation, model: Answering
    ) -> None:
        model.facts = [
            {
                "type": "semantic",
                "content": "User is busy on Tuesdays, as the children Mia and Tom have choir",
                "turn": 1,
            }
        ]
        await alice.say("we have two kids, Mia and Tom, and both sing in the Harborside choir on Tuesdays", session="a")
        quote, statement = sorted(await alice.memories(), key=lambda memory: memory.form)
        assert (statement.form, statement.quote) == ("statement", quote.id)
        shown = await alice.ask("when do my kids Mia and Tom have choir?")
        assert "Harborside" in shown
        assert "busy" not in shown

    @pytest.mark.parametrize("form", ["quote", "statement"])
    async def test_a_quote_and_its_statement_are_forgotten_together(
        self, alice: Installation, model: Answering, form: str
    ) -> None:
        model.facts = [
            {
                "type": "semantic",
                "content": "User is busy on Tuesdays, as the children Mia and Tom have choir",
                "turn": 1,
            }
        ]
        await alice.say("we have two kids, Mia and Tom, and both sing in the Harborside choir on Tuesdays", session="a")
        named = next(memory for memory in await alice.memories() if memory.form == form)
        await alice.service.forget(ALICE, named.id)
        assert await alice.memories(history=True) == []
        page = await alice.service._reader.page(Criteria(ALICE), limit=10)
        assert page.memories == ()

    @pytest.mark.parametrize(
        ("form", "content", "left"),
        [
            ("quote", "we have two kids, Mia and Tom, and both row on Fridays", []),
            (
                "statement",
                "User is busy on Fridays, as the children Mia and Tom have choir",
                ["we have two kids, Mia and Tom, and both sing in the Harborside choir on Tuesdays"],
            ),
        ],
    )
    async def test_what_an_edit_corrects_is_not_told_by_the_other_of_the_two(
        self, alice: Installation, model: Answering, form: str, content: str, left: list[str]
    ) -> None:
        """The quote says more than the statement, so it stays, marked."""
        stated = "User is busy on Tuesdays, as the children Mia and Tom have choir"
        model.facts = [{"type": "semantic", "content": stated, "turn": 1}]
        await alice.say("we have two kids, Mia and Tom, and both sing in the Harborside choir on Tuesdays", session="a")
        named = next(memory for memory in await alice.memories() if memory.form == form)
        edited = await alice.service.update(ALICE, named.id, UpdateRequest(content=content))
        now = await alice.memories()
        assert sorted(memory.content for memory in now) == sorted([content, *left])
        assert [memory.outdated_by for memory in now if memory.id != edited.id] == [(edited.id,)] * len(left)

    async def test_what_the_quote_says_already_is_not_stored_again(self, alice: Installation, model: Answering) -> None:
        model.facts = [
            {"type": "reflective", "content": "The user has a budget of $10K for the Hawaii vacation", "turn": 1}
        ]
        await alice.say("My budget for the Hawaii trip is $10,000", session="a")
        assert await alice.contents() == ["My budget for the Hawaii trip is $10,000"]


# -- Chinese -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_api", [False, True], ids=["said", "stored through the API"])
async def test_chinese_statements_are_found_and_superseded_in_either_script(alice: Installation, by_api: bool) -> None:
    async def tell(text: str, session: str) -> None:
        if by_api:
            await alice.service.store(ALICE, StoreRequest(content=text))
        else:
            await alice.say(text, session=session)

    for number, (told, question) in enumerate(
        (
            ("我住在上海", "我住在哪個城市？"),
            ("我住在臺北的內湖區", "我住在哪个城市？"),
            ("我老婆是小學老師", "我妻子做什么工作？"),
            ("我對花生過敏", "我对什么过敏？"),
        )
    ):
        alice.user = ALICE
        await tell(told, f"a{number}")
        assert told in await alice.ask(question), question
    await tell("我对花生过敏", "b")
    await tell("我現在住在高雄", "c")

    now = await alice.contents()
    assert "我現在住在高雄" in now
    assert "我住在上海" not in now
    assert "我对花生过敏" not in now


@pytest.mark.parametrize("model", [Answering()])
async def test_a_quote_is_the_procedure_that_a_model_calls_it(alice: Installation, model: Answering) -> None:
    said = "Our router resets when its button is held for ten seconds"
    model.facts = [{"type": "procedural", "content": said, "turn": 1}]
    await alice.say(said, session="a")
    assert [(each.form, each.type) for each in await alice.memories()] == [("quote", MemoryType.PROCEDURAL)]
