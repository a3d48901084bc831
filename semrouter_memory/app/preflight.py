"""What can be known to be wrong before anything is started: `serve` and `config check` ask the same questions.

Strategy: every mistake is collected and named by its setting, so that one run shows them all. Nothing is connected to
or bound, and no file is left: the service may be running.
"""

import asyncio
import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import combinations
from pathlib import Path

from semrouter_memory.config import Config, secret_readers
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.sockets import require_local_or_secret, unix_path
from semrouter_memory.store.location import LITE_MISSING, LiteFile, Server, has_lite, locate
from semrouter_memory.telemetry import start_tracing
from semrouter_memory.turn_log.sqlite_rows import spooled_turns, unshared


def check(config: Config) -> None:
    """Refuse a configuration that cannot be served on this machine.

    Raises:
        ConfigurationError: the message names every setting that is at fault, and the fix.
    """
    _ask((*_questions(config), *_machine_questions(config)))


def check_file(config: Config) -> None:
    """Same as `check`, of what the file alone tells: for a service that runs on another machine."""
    _ask(_questions(config))


def check_parts(config: Config) -> None:
    """Same, of the parts that a start loads anyway: the embedding model and tracing; takes a second."""
    from semrouter_memory.embedding.onnx import OnnxEmbedder  # noqa: PLC0415 - takes a second to load

    memory, tracing = config.memory, config.telemetry.tracing
    _ask(
        [
            partial(OnnxEmbedder.load, memory.embedding, memory.model_directory),
            *([lambda: asyncio.run(_trace_once(config))] if tracing.enabled else []),
        ]
    )


async def _trace_once(config: Config) -> None:
    if (tracer := start_tracing(config.telemetry.tracing)) is not None:
        await tracer.stop(1)  # nothing waits to be exported: an end that takes longer is none of ours


Question = Callable[[], object]


def _questions(config: Config) -> Iterator[Question]:
    """Each raises `ConfigurationError` when the file is at fault."""
    memory, server = config.memory, config.server
    # A file that cannot be read is said by the machine's questions.
    guarded = server.shared_secret is not None or server.shared_secret_file is not None
    for name, listen in (("server.listen", server.listen), ("management.listen", config.management.listen)):
        yield partial(require_local_or_secret, name, listen, "set" if guarded else None, header=server.secret_header)
    yield partial(_require_apart, dict(_listening(config)))
    yield partial(locate, memory.milvus, memory.directory)
    if server.processes > 1:
        yield partial(_require_shared, config)
    if memory.redis.url is not None:
        from semrouter_memory.databases.redis_connection import checked  # noqa: PLC0415 - loads Redis' library

        yield partial(checked, memory.redis.url)


def _listening(config: Config) -> Iterator[tuple[str, str]]:
    """The addresses to listen on, by setting."""
    yield "server.listen", config.server.listen
    yield "management.listen", config.management.listen
    if config.management.operator_listen is not None:
        yield "management.operator_listen", config.management.operator_listen


def _require_apart(listening: Mapping[str, str]) -> None:
    """No two of them are one; port 0 is a free one for each."""
    for (one, its), (other, others) in combinations(listening.items(), 2):
        if its == others and not its.endswith(":0"):
            raise ConfigurationError(f"{one} and {other} are both {its}: each needs an address of its own")


def _require_shared(config: Config) -> None:
    """What several processes learn, each of them must recall: one turn log and one store for all."""
    memory, needed = config.memory, list[str]()
    if memory.redis.url is None:
        needed.append("a Redis server (set memory.redis.url, for example redis://127.0.0.1:6379/0)")
    try:
        is_server = isinstance(locate(memory.milvus, memory.directory), Server)
    except ConfigurationError:
        is_server = True  # another question says what is wrong with it
    if not is_server:
        needed.append("a Milvus server (set memory.milvus.uri, for example http://127.0.0.1:19530), not Milvus Lite")
    if needed:
        processes = config.server.processes
        raise ConfigurationError(
            f"server.processes is {processes}: several processes need {' and '.join(needed)}; or serve with one process"
        )


def _machine_questions(config: Config) -> Iterator[Question]:
    for name, question in secret_readers(config):
        yield _named(name, question)
    yield partial(_require_forwarded, config.memory.directory, config.server.processes)
    yield partial(_require_same_log, config.memory.directory, is_shared=config.memory.redis.url is not None)
    for name, directory in _directories(config):
        yield partial(_require_directory, name, directory)
    for name, listen in _listening(config):
        if path := unix_path(listen):
            yield partial(_require_no_file, name, path)
    if (path := _lite_path(config)) is not None:
        yield partial(_require_file, path)
    if config.memory.milvus.uri is None and config.memory.milvus.address is None:
        yield _require_lite


def _directories(config: Config) -> Iterator[tuple[str, Path]]:
    """The directories that are made and written to, by setting."""
    memory, recording = config.memory, config.recording
    yield "memory.data_dir", memory.directory
    path = _lite_path(config)
    if path is not None and memory.milvus.uri is not None:
        yield "memory.milvus.uri", path.parent
    if recording.enabled and recording.directory is not None:
        yield "recording.directory", recording.directory.expanduser()
    for name, listen in _listening(config):
        if path := unix_path(listen):
            yield name, path.parent


def _lite_path(config: Config) -> Path | None:
    """Milvus Lite's file, where memories are in one."""
    try:
        place = locate(config.memory.milvus, config.memory.directory)
    except ConfigurationError:
        return None  # another question says so
    return place.path if isinstance(place, LiteFile) else None


def _named(setting: str, question: Question) -> Question:
    def asked() -> None:
        try:
            question()
        except ConfigurationError as error:
            raise ConfigurationError(f"{setting}: {error}") from None

    return asked


def _require_directory(setting: str, directory: Path) -> None:
    """It is there and can be written to, or it can be made."""
    nearest = next(path for path in (directory, *directory.absolute().parents) if os.path.lexists(path))
    if not nearest.is_dir():
        raise ConfigurationError(f"{setting}: cannot make {directory}: Not a directory")
    try:
        # Rights do not tell: root has all of them below /proc.
        tempfile.TemporaryFile(dir=nearest).close()
    except OSError as error:
        # A full disk is no mistake of the file's.
        if error.errno != errno.ENOSPC:
            raise ConfigurationError(
                f"{setting}: cannot write to {nearest}: {error.strerror}; name another directory"
            ) from None


def process_directories(directory: Path, processes: int) -> list[Path]:
    """The data directory of each process."""
    return [directory] if processes == 1 else [directory / f"process-{number}" for number in range(processes)]


def _require_forwarded(directory: Path, processes: int) -> None:
    """Nothing waits where no process looks for it: the number of processes was changed while Redis or Milvus was unavailable."""
    used = process_directories(directory, processes)
    waiting = [
        str(each)
        for each in (directory, *sorted(directory.glob("process-*")))
        if each not in used and (spooled_turns(each / "turns.db") or any((each / "milvus.writes").glob("*")))
    ]
    if waiting:
        raise ConfigurationError(
            f"server.processes is {processes}: turns or writes of another number of processes wait in {', '.join(waiting)};"
            " serve with that number until Redis and Milvus have them (seconds, when both are available)"
        )


def _require_same_log(directory: Path, *, is_shared: bool) -> None:
    """Nothing is in the file that only a log with Redis, or one without it, would heed."""
    path = directory / "turns.db"
    if not is_shared:
        if spooled := spooled_turns(path):
            raise ConfigurationError(
                f"memory.redis.url is not set, and {spooled} turns on their way to Redis lie in {path}: serve with Redis"
                " until it has them (seconds, when it is available), or move the file away to give them up"
            )
        return
    unlearned, owners = unshared(path)
    if unlearned or owners:
        raise ConfigurationError(
            f"memory.redis.url is set, and {path} was written without Redis, which does not take it over: {unlearned} turns"
            f" that wait or are dead letters, and what {owners} users or other owners deleted or paused. Serve without Redis"
            " until no turn waits, then move the file away; pauses have to be set again"
        )


def _require_no_file(setting: str, path: Path) -> None:
    if path.exists() and not path.is_socket():
        raise ConfigurationError(f"{setting}: cannot listen on {path}: a file that is no socket is in the way")


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise ConfigurationError(
            f"memory.milvus.uri: cannot use {path} for Milvus Lite: Is a directory; name a file in it"
        )


def _require_lite() -> None:
    if not has_lite():
        raise ConfigurationError(LITE_MISSING)


def _ask(questions: Iterable[Question]) -> None:
    mistakes: dict[str, None] = {}
    for question in questions:
        try:
            question()
        except ConfigurationError as error:
            mistakes[str(error)] = None
    if mistakes:
        several = ["the configuration does not fit:"] if len(mistakes) > 1 else []
        raise ConfigurationError("\n  ".join((*several, *mistakes)))
