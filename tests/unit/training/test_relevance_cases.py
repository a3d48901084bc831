"""The labelled requests, as the fit of *wants?* and *relevant?* sees them."""

from pathlib import Path

import pytest

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from training import fitting, relevance


def test_every_request_is_a_case_that_knows_what_it_wants(
    model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [{**person, "requests": person["requests"][:4]} for person in fitting.read("requests.jsonl")[:2]]
    embedder = OnnxEmbedder.load(EmbeddingConfig(), model_directory)
    monkeypatch.setattr(relevance, "read", lambda *_, **__: people)
    monkeypatch.setattr(fitting, "embedder", lambda: embedder)

    cases, _ = relevance.cases()

    wanted = {request["text"]: len(request["wants"]) for person in people for request in person["requests"]}
    assert {case.text: int(case.wanted.sum()) for case in cases} == wanted
