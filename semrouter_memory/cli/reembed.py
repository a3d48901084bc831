"""`semrouter-memory memory reembed`: copies memories to a collection of another embedding profile.

Unlike its neighbours it opens the store itself: the running sidecar has the old profile, and only that one.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from semrouter_memory.cli.output import print_json
from semrouter_memory.config import Config, MemoryConfig, TelemetryConfig, WorkingSetConfig, load
from semrouter_memory.errors import InvalidRequestError, SchemaMismatchError, StoreUnavailableError, UnavailableError
from semrouter_memory.maintenance.reembed import Reembedder, ReembedReport

if TYPE_CHECKING:
    from semrouter_memory.app.adapters import Adapters

_LEDGER_FILE = "reembed.db"

NewConfig = Annotated[
    Path, typer.Option("--config", "-c", help="The YAML file with the NEW memory.embedding, as `serve` takes it.")
]
From = Annotated[
    str | None, typer.Option(help="The collection to copy. Not needed where there is only one other than the target.")
]
To = Annotated[str | None, typer.Option(help="The collection to fill; default: memory.milvus.collection of the file.")]
DropSource = Annotated[
    bool,
    typer.Option("--drop-source", help="Delete the copied collection for good, if the copy is complete; asks first."),
]

_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)


def register(group: typer.Typer) -> None:
    """Add the command to a group."""
    group.command("reembed")(_reembed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """What is to be done.

    Attributes:
        source: the collection that is copied; None: find it.
        target: the collection that is filled.
        drop_source: delete the source when the copy is complete.
        yes: without asking.
    """

    source: str | None
    target: str
    drop_source: bool
    yes: bool


@dataclass(frozen=True, slots=True)
class _Done:
    source: str
    dropped: bool
    report: ReembedReport


def _reembed(
    *,
    config: NewConfig,
    from_collection: From = None,
    to_collection: To = None,
    drop_source: DropSource = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Copy all memories into a collection for another embedding model.

    Vectors of two models cannot be compared, so each model has its own
    collection. Copy the sidecar's configuration, write the new model into the
    copy (memory.embedding, memory.milvus.dimension) with a new name for
    memory.milvus.collection, and let --config name that file. Every memory of
    every user is embedded anew and written there, history included; the old
    collection is only read. What was deleted does not come back.

    A run that was broken off goes on where it was, and running it again is
    harmless: only differences are copied, and deletions are carried over. Exit
    status 1: the copy is not complete, the message says why.

    With Milvus Lite the sidecar must be stopped, because its file belongs to
    one process. With a server it may go on: what it writes or deletes in the
    old collection meanwhile is carried over by running this again, last when
    the sidecar has been switched to the new configuration.
    """
    settings = load(config)
    request = _Request(
        source=from_collection,
        target=_name(to_collection) or settings.memory.milvus.collection,
        drop_source=drop_source,
        yes=yes,
    )
    done = _carried_out(settings, request)
    if as_json:
        print_json({"source": done.source, "target": request.target, "dropped": done.dropped, **asdict(done.report)})
    else:
        _say(done, request.target, settings)
    if not done.report.complete:
        raise typer.Exit(1)


def _name(collection: str | None) -> str | None:
    if collection is not None and not (collection.isascii() and collection.isidentifier()):
        raise InvalidRequestError(
            "--to-collection: a name is made of letters, digits and underscores, and begins with no digit"
        )
    return collection


# -- the work ----------------------------------------------------------------------------------------------------------


def _carried_out(config: Config, request: _Request) -> _Done:
    from semrouter_memory.telemetry import logs  # noqa: PLC0415 - the libraries behind it take a second to load

    logs.configure(TelemetryConfig(log_level="WARNING", log_format="console"))
    try:
        return asyncio.run(_run(config, request))
    except UnavailableError as error:
        raise StoreUnavailableError(f"{error}. What was copied stays; run it again to go on") from None


async def _run(config: Config, request: _Request) -> _Done:
    from semrouter_memory.store.copies import CopiesFile  # noqa: PLC0415 - as above
    from semrouter_memory.store.location import locate  # noqa: PLC0415
    from semrouter_memory.store.milvus import MilvusStore  # noqa: PLC0415
    from semrouter_memory.store.working_set import WorkingSet  # noqa: PLC0415

    memory = _with_collection(config.memory, request.target)
    place = locate(memory.milvus, memory.directory)
    async with AsyncExitStack() as exits:
        adapters = await _connected(memory, exits)
        assert isinstance(adapters.store, WorkingSet)
        store = adapters.store.behind
        assert isinstance(store, MilvusStore)
        if not store.available:
            raise StoreUnavailableError(f"Milvus does not answer ({place})")
        source = _source(request, config.memory, await store.others.embeddings())
        may_drop = request.drop_source and _confirmed(source, request)
        await store.others.load(source)
        ledger = exits.enter_context(
            CopiesFile.opened(memory.directory / _LEDGER_FILE, place=str(place), source=source, target=request.target)
        )
        _err.print(f"from {source} to {request.target} ({adapters.embedder.fingerprint})", markup=False)
        with _bar() as progress:
            report = await Reembedder(
                source=lambda: store.others.scan(source),
                unnamed=lambda: store.others.unnamed(source),
                # Sidecars that use the target already are told of every write.
                target=adapters.store,
                embedder=adapters.embedder,
                turn_log=adapters.turn_log,
                ledger=ledger,
                progress=progress,
            ).run()
        dropped = may_drop and report.complete
        if dropped:
            await store.others.drop(source)
            # In Milvus Lite's file the text would stay until then.
            await store.compact()
        return _Done(source, dropped, report)


async def _connected(memory: MemoryConfig, exits: AsyncExitStack) -> "Adapters":
    from semrouter_memory.app.adapters import connect  # noqa: PLC0415 - as above
    from semrouter_memory.telemetry.metrics import Metrics  # noqa: PLC0415
    from semrouter_memory.telemetry.observer import TelemetryObserver  # noqa: PLC0415

    observer = TelemetryObserver(Metrics())
    try:
        return await connect(memory, observer=observer, arrived=lambda _, __: None, on_exit=exits)
    except SchemaMismatchError as error:
        raise SchemaMismatchError(f"{error} (reembed: --to-collection NAME, with a new name)") from None


def _with_collection(memory: MemoryConfig, name: str) -> MemoryConfig:
    """The settings for another collection, with nothing at hand: memories of all owners are read and written once."""
    milvus = memory.milvus.model_copy(update={"collection": name})
    return memory.model_copy(update={"milvus": milvus, "working_set": WorkingSetConfig(enabled=False)})


def _source(request: _Request, memory: MemoryConfig, embeddings: Mapping[str, str]) -> str:
    """The collection to copy: the one that is named, else the configured one, else the only other one."""
    others = {name: embedding for name, embedding in sorted(embeddings.items()) if name != request.target}
    if request.source == request.target:
        raise InvalidRequestError(
            "source and target are the same collection; set memory.milvus.collection to a new name"
        )
    if request.source in others:
        return request.source
    known = ", ".join(f"{name} ({embedding})" for name, embedding in others.items()) or "none"
    if request.source is not None:
        raise InvalidRequestError(f"--from-collection: there is no {request.source}; other collections here: {known}")
    if memory.milvus.collection in others:
        return memory.milvus.collection
    if len(others) != 1:
        raise InvalidRequestError(f"say which collection to copy with --from-collection; others here: {known}")
    return next(iter(others))


def _confirmed(source: str, request: _Request) -> bool:
    if not request.yes:
        question = f"Delete {source} for good once {request.target} is complete? No sidecar may use it any more."
        typer.confirm(question, abort=True, err=True)
    return True


# -- what is shown -----------------------------------------------------------------------------------------------------


class _Bar:
    """A bar for each pass (implements `Progress` of `upkeep.reembed`)."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def begin(self, what: str, total: int) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(what, total=total)

    def advance(self, count: int) -> None:
        if self._task is not None:
            self._progress.advance(self._task, count)


@contextmanager
def _bar() -> Iterator[_Bar]:
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as progress:
        yield _Bar(progress)


def _say(done: _Done, target: str, config: Config) -> None:
    report = done.report
    lines = [f"{report.copied} copied, {report.removed} removed"]
    lines += [f"{count} {what}" for count, what in _notes(report) if count]
    if report.complete:
        lines += [f"{target} holds all {report.memories} memories of {done.source}"]
        lines += [] if done.dropped else _next_steps(done.source, target, config)
        lines += [f"{done.source} is deleted"] if done.dropped else []
    elif not (report.failed or report.missing):
        lines += [f"{done.source} changes all the time: run it again when less is written, or stop the sidecar"]
    for line in lines:
        _out.print(line, markup=False, soft_wrap=True)


def _notes(report: ReembedReport) -> list[tuple[int, str]]:
    return [
        (report.buried, "left out: they were deleted"),
        (report.newer, "left as they are: the target has a newer version"),
        (report.own, "more in the target, not copied from here: left as they are"),
        (report.failed, "NOT copied: the model could not embed them, or their user's id is too long to be told"),
        (
            report.missing,
            "copied before are no longer in the source. NOT removed, since that is most of them: is it the right one?",
        ),
    ]


def _next_steps(source: str, target: str, config: Config) -> list[str]:
    switch = "start the sidecar with this configuration"
    if target != config.memory.milvus.collection:
        switch = f"set memory.milvus.collection to {target} in this configuration and start the sidecar with it"
    return [
        "",
        "next:",
        f"  1. {switch}",
        "  2. on a Milvus server: run this again, for what was written meanwhile",
        f"  3. when you are content: run this again with --drop-source --from-collection {source}",
    ]
