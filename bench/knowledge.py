"""Documents of an organisation on a Milvus server: recall beside them, and how fast they are added.

Strategy: the same active user asks the same questions with and without the organisation, one right after the other, and each is
embedded by itself in between. Passages are statements joined; where there are more than are embedded, a vector serves again,
with noise.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from bench.context import Bench
from bench.figures import KnowledgeFigures, Ratio, Times
from bench.in_process import InProcess, in_process, repeated
from bench.seeding import batched
from bench.workload import questions, statements
from semrouter_memory.app.pipelines import knowledge_service
from semrouter_memory.config import MilvusConfig
from semrouter_memory.knowledge.documents import Document, passage_rows
from semrouter_memory.knowledge.service import Upload
from semrouter_memory.language.splitting import Passage
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.model import EmbeddedMemory, OtherOwner, OwnerKind, RecallRequest, Scope

QUESTIONS = 300
_ORGANISATION = Scope("acme", kind=OwnerKind.ORGANISATION)
_MEMORIES = 1_000
_EMBEDDED = 800
_SENTENCES = 3
_OF_DOCUMENT = 1_000
_ROUNDS, _SECTIONS = 4, 40
_DOCUMENTS, _AT_ONCE = 6, 2
"""Documents that are added and timed, and their sections."""
_WARM_UP = 10


async def knowledge(bench: Bench) -> KnowledgeFigures:
    """Measure in this process."""
    milvus = MilvusConfig(uri=await bench.milvus(), collection="documents")
    async with in_process(bench.model, bench.directory / "knowledge", (_MEMORIES,), milvus) as users:
        await users.store(_MEMORIES)
        with bench.progress("adding documents", _ROUNDS) as done:
            adding = [await _added(users, number, done) for number in range(_ROUNDS)]
        with bench.progress(f"writing {bench.amount.passages:,} passages", bench.amount.passages) as done:
            await _write(users, bench.amount.passages, done)
        settled = await bench.settled()
        times: dict[str, list[float]] = {"embedding": [], "alone": [], "beside": []}
        given = 0
        with bench.progress("recall with and without documents", QUESTIONS) as done:
            for number, question in enumerate(questions(QUESTIONS + _WARM_UP)):
                measured, found = await _asked(users, question, beside_first=number % 2 == 0)
                if number >= _WARM_UP:
                    given += found
                    for name, milliseconds in measured.items():
                        times[name].append(milliseconds)
                    done(1)
        return KnowledgeFigures(
            passages=bench.amount.passages,
            memories=_MEMORIES,
            **{name: Times.of(each) for name, each in times.items()},
            with_passages=given,
            adding=Ratio.of(adding),
            settled=settled,
        )


async def _added(users: InProcess, number: int, done: Callable[[int], object]) -> float:
    """What embedding the passages of some documents takes alone, to what adding them takes, two at once as the command does."""
    service = knowledge_service(users.config.knowledge, users.adapters)
    free = asyncio.Semaphore(_AT_ONCE)

    async def add(name: int) -> str:
        async with free:
            document, _ = await service.add(_ORGANISATION, Upload(source=f"{name}.md", data=_document(name)))
        return document.id

    began = time.perf_counter()
    ids = await asyncio.gather(*(add(_DOCUMENTS * number + each) for each in range(_DOCUMENTS)))
    seconds = time.perf_counter() - began
    # Other texts of the same length: the embedder remembers those that it read last.
    texts = [f"{embedded_text(row)}." for each in ids for row in (await service.show(_ORGANISATION, each))[1]]
    began = time.perf_counter()
    await users.adapters.embedder.embed_passages(texts)
    done(1)
    return (time.perf_counter() - began) / seconds


def _document(seed: int) -> bytes:
    parts = batched((text for _, text in statements(_SECTIONS * _SENTENCES, seed=seed)), _SENTENCES)
    return "\n\n".join(f"## Section {at}\n\n{'. '.join(part)}." for at, part in enumerate(parts)).encode()


async def _write(users: InProcess, count: int, done: Callable[[int], object]) -> None:
    documents, now = users.adapters.documents, datetime.now(UTC)
    assert documents is not None
    texts = [". ".join(part) for part in batched((text for _, text in statements(count * _SENTENCES)), _SENTENCES)]
    vectors = repeated(await users.adapters.embedder.embed_passages(texts[:_EMBEDDED]), count)
    for number, part in enumerate(batched(zip(texts, vectors, strict=True), _OF_DOCUMENT)):
        source = f"written-{number}"
        document = Document(
            id=f"doc_{source}", source=source, title=source, kind="text", published_at=now, added_at=now
        )
        passages = [Passage(f"{text} ({at}).", source) for at, (text, _) in enumerate(part)]
        rows = passage_rows(_ORGANISATION, document, passages, asserted=now)
        embedded = [EmbeddedMemory(row, vector) for row, (_, vector) in zip(rows, part, strict=True)]
        await documents.upsert(_ORGANISATION, embedded)
        done(len(rows))
    await documents.compact()


async def _asked(users: InProcess, question: str, *, beside_first: bool) -> tuple[dict[str, float], bool]:
    """Milliseconds by what they were taken for, and whether a passage was given."""
    alone = users.request(_MEMORIES, question)
    beside = replace(alone, others=(OtherOwner(_ORGANISATION, 3, 0.4),), loop_key=f"{question} beside")
    times, given = {}, False
    for request in (beside, alone) if beside_first else (alone, beside):
        began = time.perf_counter()
        # As a search of its own: the vector is that of no earlier one.
        result = await users.recaller.recall(_worded(request))
        times["beside" if request is beside else "alone"] = (time.perf_counter() - began) * 1000
        given |= any(hit.memory.form == "passage" for hit in result.hits)
    began = time.perf_counter()
    await users.adapters.embedder.embed_query(f"{question} ")
    times["embedding"] = (time.perf_counter() - began) * 1000
    return times, given


def _worded(request: RecallRequest) -> RecallRequest:
    """The question as no other request words it: the embedder remembers what it read last."""
    return replace(request, query=f"{request.query} {'Please.' if request.others else 'Thanks.'}")
