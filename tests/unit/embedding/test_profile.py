"""What names a vector space, and what a manifest refuses."""

from pathlib import Path
from typing import Any

import pytest

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding.files import Manifest, fingerprint, remedy
from semrouter_memory.errors import ConfigurationError

CONFIG = EmbeddingConfig()
MANIFEST = Manifest(
    model="all-MiniLM-L6-v2",
    dimension=384,
    pooling="mean",
    origin="weights.tokenizer.recipe",
    model_sha256="aa",
    tokenizer_sha256="bb",
    parity=0.97,
)


@pytest.mark.parametrize(
    "change",
    [{"model": "other"}, {"dimension": 8}, {"pooling": "cls"}, {"query_prefix": "q: "}, {"passage_prefix": "p: "}],
    ids=lambda change: next(iter(change)),
)
def test_fingerprint_changes_with_the_profile(change: dict[str, Any]) -> None:
    changed = CONFIG.model_copy(update=change)
    assert fingerprint(changed, "origin") != fingerprint(CONFIG, "origin")


def test_fingerprint_changes_with_the_origin() -> None:
    assert fingerprint(CONFIG, "one") != fingerprint(CONFIG, "two")


@pytest.mark.parametrize("change", [{"threads": 4}, {"max_tokens": 128}, {"path": "/elsewhere"}], ids=str)
def test_fingerprint_ignores_what_leaves_vectors_comparable(change: dict[str, Any]) -> None:
    assert fingerprint(CONFIG.model_copy(update=change), "origin") == fingerprint(CONFIG, "origin")


def test_fingerprint_is_stable_and_short() -> None:
    """A collection made by an earlier version must still be recognised."""
    assert fingerprint(CONFIG, "origin") == "all-MiniLM-L6-v2/384/61a6e6ff2ccd"


def test_prefixes_do_not_run_into_each_other() -> None:
    one = CONFIG.model_copy(update={"query_prefix": "ab"})
    two = CONFIG.model_copy(update={"query_prefix": "a", "passage_prefix": "b"})
    assert fingerprint(one, "origin") != fingerprint(two, "origin")


def test_manifest_survives_its_file() -> None:
    assert Manifest.from_json(MANIFEST.to_json(), Path()) == MANIFEST


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"{}", b'{"model": "x", "unknown": 1}', b"\xff"])
def test_damaged_manifest_is_refused_with_the_fix(data: bytes) -> None:
    with pytest.raises(ConfigurationError, match="semrouter-memory model build"):
        Manifest.from_json(data, Path())


def test_manifest_accepts_its_own_profile() -> None:
    MANIFEST.check(CONFIG)


@pytest.mark.parametrize(
    ("change", "setting"),
    [
        ({"model": "bge-small-en-v1.5"}, "memory.embedding.model"),
        ({"dimension": 512}, "memory.embedding.dimension"),
        ({"pooling": "cls"}, "memory.embedding.pooling"),
    ],
)
def test_manifest_names_the_setting_that_differs(change: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigurationError, match=setting):
        MANIFEST.check(CONFIG.model_copy(update=change))


def test_the_model_is_built_where_it_is_looked_for() -> None:
    """Not where the command puts it by itself, which is another data directory."""
    built = remedy("all-MiniLM-L6-v2", Path("/srv/my data/m"))
    assert built == "make it with `semrouter-memory model build --directory '/srv/my data/m'`"


def test_remedy_for_another_model_is_not_to_build_this_one() -> None:
    assert remedy("bge-small-en-v1.5", Path("/m")).startswith(
        "put model.onnx and tokenizer.json of bge-small-en-v1.5 there"
    )
