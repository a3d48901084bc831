"""Measures documents: whether the right paragraph is found, and how fast they are added.

The command's help says what a line holds.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from semrouter_memory.app.adapters import Adapters
from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.config import MemoryConfig
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.evaluation.running import EvalOptions, play_files, share, table_of, tracked
from semrouter_memory.knowledge.service import Upload
from semrouter_memory.language.third_person import embedded_text
from semrouter_memory.model import Hit, Json, OwnerKind, Scope
from semrouter_memory.recall.documents import DocumentSearch
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.query_vectors import QueryVectors
from semrouter_memory.store.location import has_lite

_OWNER = Scope("evaluation", kind=OwnerKind.ORGANISATION)
_FIRST = 5
_COMPARED_CHARS = 80
"""A passage and a paragraph are the same text where one holds the beginning of the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """One line of a file."""

    title: str = ""
    text: str = ""
    questions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (self.text or self.questions):
            raise ValueError("needs a text, or questions that no paragraph answers")


@dataclass(slots=True)
class KnowledgeRun:
    """What was counted, and for how long.

    Attributes:
        found: questions whose paragraph is among the first five.
        injected: questions for which a passage of the right paragraph would be injected.
        unanswerable: questions without a paragraph, and of these those for which something would be injected.
        add_seconds, embed_seconds: of adding the documents, and of embedding the same passages alone.
    """

    questions: int = 0
    found: int = 0
    injected: int = 0
    unanswerable: int = 0
    unwanted: int = 0
    passages: int = 0
    add_seconds: float = 0.0
    embed_seconds: float = 0.0

    def figures(self) -> dict[str, float | None]:
        return {
            f"recall@{_FIRST}": _ratio(self.found, self.questions),
            "injected": _ratio(self.injected, self.questions),
            "unwanted": _ratio(self.unwanted, self.unanswerable),
            "speed": _ratio(self.embed_seconds, self.add_seconds),
        }


async def evaluate(options: EvalOptions) -> None:
    """The command; see `play_files`. Raises: ConfigurationError: also without Milvus Lite."""
    if not has_lite():
        raise ConfigurationError(
            "documents are measured on Milvus Lite: pip install 'semrouter-memory[lite,knowledge]'"
        )
    await play_files(options, Paragraph, play=_play, report=_report)


async def _play(name: str, lines: Sequence[Paragraph], pipelines: Pipelines) -> KnowledgeRun:
    config, adapters, measured = pipelines.memory, pipelines.adapters, KnowledgeRun()
    await _add(lines, pipelines, measured)
    for line in tracked(lines, name, total=len(lines)):
        for question in line.questions:
            await _ask(question, line, config, adapters, measured)
    return measured


async def _add(lines: Sequence[Paragraph], pipelines: Pipelines, measured: KnowledgeRun) -> None:
    documents: dict[str, list[str]] = {}
    for line in lines:
        if line.text:
            documents.setdefault(line.title, []).append(line.text)
    service = pipelines.knowledge
    texts: list[str] = []
    for number, (title, paragraphs) in enumerate(documents.items()):
        upload = Upload(source=f"{number}.txt", data="\n\n".join(paragraphs).encode(), title=title)
        began = time.perf_counter()
        document, _ = await service.add(_OWNER, upload)
        measured.add_seconds += time.perf_counter() - began
        _, passages = await service.show(_OWNER, document.id)
        texts += map(embedded_text, passages)
    began = time.perf_counter()
    # Other texts of the same length: the embedder remembers those that it read last.
    await pipelines.adapters.embedder.embed_passages([f"{text}." for text in texts])
    measured.embed_seconds = time.perf_counter() - began
    measured.passages = len(texts)


async def _ask(
    question: str, line: Paragraph, config: MemoryConfig, adapters: Adapters, measured: KnowledgeRun
) -> None:
    assert adapters.documents is not None
    search = DocumentSearch(
        reader=adapters.documents,
        vectors=QueryVectors(adapters.embedder),
        clock=adapters.clock,
        config=config.knowledge,
    )
    query = Query(text=question, now=adapters.clock.now(), max_chars=config.recall.max_query_chars)
    hits = await search.search(query, _OWNER)
    injected = [hit for hit in hits[: search.limit] if hit.relevance >= config.default_similarity_threshold]
    if not line.text:
        measured.unanswerable += 1
        measured.unwanted += bool(injected)
        return
    measured.questions += 1
    measured.found += any(_is_of(hit, line) for hit in hits[:_FIRST])
    measured.injected += any(_is_of(hit, line) for hit in injected)


def _is_of(hit: Hit, line: Paragraph) -> bool:
    passage, paragraph = " ".join(hit.memory.content.split()), " ".join(line.text.split())
    return paragraph[:_COMPARED_CHARS] in passage or passage[:_COMPARED_CHARS] in paragraph


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _report(console: Console, name: str, measured: KnowledgeRun) -> Json:
    figures = measured.figures()
    table = table_of(name, "questions", ("passages", *figures, "passages/s"))
    rate = _ratio(measured.passages, measured.add_seconds)
    shown = (str(measured.passages), *map(share, figures.values()), "-" if rate is None else f"{rate:.0f}")
    table.add_row(Text(str(measured.questions)), *shown)
    console.print(table)
    return {"file": name, "questions": measured.questions, "passages": measured.passages, **figures, "per_second": rate}
