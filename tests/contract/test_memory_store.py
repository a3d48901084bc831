"""What every memory store does: in memory, in Milvus Lite's file, on a Milvus server."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from semrouter_memory.config import MilvusConfig
from semrouter_memory.errors import InvalidRequestError
from semrouter_memory.model import EmbeddedMemory, Memory, MemoryType, Reach, Scope
from semrouter_memory.ports import MemoryReader, MemoryWriter
from semrouter_memory.store.in_memory import InMemoryStore
from semrouter_memory.store.milvus import MilvusStore
from tests.memories import DIMENSION, NOW, embedded, memory, vector
from tests.milvus_server import MilvusServer
from tests.store_observer import StoreObserver


class Store(MemoryReader, MemoryWriter, Protocol):
    """Both ports: what the suite is about."""


_USERS = itertools.count()

HOSTILE = (
    "",
    'a"b',
    "a'b",
    "a\\",
    'a\\"',
    '" or 1 == 1 or owner == "',
    "' or owner != '",
    '"] or owner like "%',
    "user:victim",
    "victim ",
    "Victim",
    "vіctim",  # a Cyrillic i
    "vi\u0301ctim",
    "v\u00edctim",
    "victim\x00",
    "victim\n",
    "victim\t\r\x0b",
    "\x1b[0m\x7f\x85",
    "%",
    "%76ictim",
    "%sha256%",
    "{victim}",
    "{{owner}}",
    "$meta",
    "\\u0076ictim",
    "\\x76ictim",
    "/*",
    "--",
    "\u202evictim",
    "\u200bvictim",
    "\ud800",
    "\U0010ffff",
    "😀",
    "x" * 10_000,
    '"' * 10_000,
    "é" * 10_000,
    "é" * 10_000 + "!",
)
"""Ids that are not what they seem; beside them lives the user `victim`."""


@pytest.fixture(scope="module")
async def lite(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Store]:
    async with _milvus(MilvusConfig(dimension=DIMENSION), tmp_path_factory.mktemp("lite")) as store:
        yield store
