"""Where the configuration says that Milvus is. Pure."""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from semrouter_memory.config import MilvusConfig
from semrouter_memory.config.section import names_a_server
from semrouter_memory.errors import ConfigurationError

LITE_MISSING = (
    "Milvus Lite is not installed: pip install 'semrouter-memory[lite]', or set memory.milvus.uri to a server"
)
_DEFAULT_FILE = "milvus.db"
_SERVER_SCHEMES = ("http", "https", "tcp")
_MAX_LITE_NAME_CHARS = 36
"""Milvus Lite's own bound on a file name, and below its own pattern for one."""
_LITE_NAME = re.compile(r"[A-Za-z0-9._-]+")


def has_lite() -> bool:
    """Whether Milvus Lite is installed."""
    return find_spec("milvus_lite") is not None


@dataclass(frozen=True, slots=True)
class Server:
    """A Milvus server, as pymilvus takes it."""

    uri: str


@dataclass(frozen=True, slots=True)
class LiteFile:
    """Milvus Lite in a file."""

    path: Path


def locate(config: MilvusConfig, data_dir: Path) -> Server | LiteFile:
    """`uri`, else `address`, else Milvus Lite in the data directory.

    Raises:
        ConfigurationError: a scheme that is none of Milvus's, or a file name that Milvus Lite refuses.
    """
    if config.uri is None:
        return Server(f"http://{config.address}") if config.address else LiteFile(data_dir / _DEFAULT_FILE)
    if names_a_server(config.uri, _SERVER_SCHEMES) or re.match("unix:.", config.uri):
        return Server(config.uri)
    path = re.sub(r"^file:(//(?=/))?", "", config.uri)
    if "://" in path or path.startswith(("//", "unix:")) or not path:
        raise ConfigurationError("memory.milvus.uri must be a file, http(s)://host:port or unix:path")
    return LiteFile(_accepted_by_lite(Path(path)))


def _accepted_by_lite(path: Path) -> Path:
    try:
        path = path.expanduser()
    except RuntimeError:
        raise ConfigurationError(f"memory.milvus.uri: no home directory for {path}; write the whole path") from None
    if len(path.name) > _MAX_LITE_NAME_CHARS or not _LITE_NAME.fullmatch(path.name):
        raise ConfigurationError(
            f"memory.milvus.uri: Milvus Lite takes file names of at most {_MAX_LITE_NAME_CHARS} letters, digits,"
            f" dots, dashes and underscores; {path.name!r} is none"
        )
    return path
