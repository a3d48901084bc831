"""Which Milvus a configuration means."""

from pathlib import Path

import pytest

from semrouter_memory.config import MilvusConfig
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.store.location import LiteFile, Server, resolve_endpoint

DATA = Path("/data")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, LiteFile(DATA / "milvus.db")),
        ({"address": "milvus:19530"}, Server("http://milvus:19530")),
        ({"address": "milvus:19530", "uri": "other.db"}, LiteFile(Path("other.db"))),
        ({"uri": "/var/lib/memories.lite"}, LiteFile(Path("/var/lib/memories.lite"))),
        ({"uri": "file:/var/lib/m.db"}, LiteFile(Path("/var/lib/m.db"))),
        ({"uri": "file:///var/lib/m.db"}, LiteFile(Path("/var/lib/m.db"))),
        ({"uri": "file:m.db"}, LiteFile(Path("m.db"))),
        ({"uri": "~/m.db"}, LiteFile(Path("~/m.db").expanduser())),
        ({"uri": "http://milvus:19530"}, Server("http://milvus:19530")),
        ({"uri": "https://milvus.example/db"}, Server("https://milvus.example/db")),
        ({"uri": "unix:/run/milvus.sock"}, Server("unix:/run/milvus.sock")),
    ],
)
def test_the_uri_wins_over_the_address_and_a_file_is_the_default(
    settings: dict[str, str], expected: Server | LiteFile
) -> None:
    assert resolve_endpoint(MilvusConfig.model_validate(settings), DATA) == expected


@pytest.mark.parametrize("uri", ["redis://milvus", "file://host/m.db", "", "file:"])
def test_what_is_no_place_of_milvus_is_refused(uri: str) -> None:
    with pytest.raises(ConfigurationError, match=r"memory\.milvus\.uri must be"):
        resolve_endpoint(MilvusConfig(uri=uri), DATA)


@pytest.mark.parametrize("name", ["my memories.db", "ä.db", "x" * 37])
def test_a_file_name_that_lite_would_refuse_is_refused_with_its_rule(name: str) -> None:
    with pytest.raises(ConfigurationError, match="at most 36 letters"):
        resolve_endpoint(MilvusConfig(uri=f"/var/lib/{name}"), DATA)
