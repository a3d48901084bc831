"""The directory of a local installation: one installation at a time, and files that only their owner can read."""

import fcntl
import os
import secrets
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from semrouter_memory.errors import ConfigurationError

OPERATOR_TOKEN_VARIABLE = "SEMROUTER_MEMORY__MANAGEMENT__OPERATOR_TOKEN"  # noqa: S105 - a variable's name
LOCK = "lock"


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Make the directory and keep other installations out of it.

    Raises:
        ConfigurationError: it cannot be written, or another installation runs in it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to {directory} ({error.strerror}); choose another directory with RUN_DIR=... or --directory"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise ConfigurationError(
                f"an installation already runs in {directory} (process {lock.read().strip() or 'unknown'}): end it with"
                " Ctrl-C, or start a second one with its own ports and directory: make run PORT=10100 RUN_DIR=.run2"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text, encoding="utf-8")


def operator_token_file(directory: Path, environment: Mapping[str, str]) -> Path:
    """The file with the operator's token: what the environment says, else the one of the last run, else a new one."""
    if named := environment.get(f"{OPERATOR_TOKEN_VARIABLE}_FILE"):
        return Path(named).expanduser().absolute()
    path = directory.absolute() / "operator-token"
    token = environment.get(OPERATOR_TOKEN_VARIABLE) or (
        path.read_text(encoding="utf-8").strip() if path.exists() else ""
    )
    write_private(path, token or secrets.token_urlsafe(32))
    return path


def shell_environment(exported: Mapping[str, str], *, unset: tuple[str, ...]) -> str:
    """Text for a shell to source."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in exported.items()]
    return "\n".join([f"unset {' '.join(unset)}", *lines, ""])
