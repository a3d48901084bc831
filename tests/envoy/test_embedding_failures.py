"""A model that loads and then fails at what users say: requests pass without memory, turns wait.

The failure is a real one: the model's vocabulary is smaller than its tokenizer's, so that most words have no row in it.
"""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import onnx
import pytest
import pytest_asyncio
from onnx import TensorProto, helper, numpy_helper

from .client import APIS, CHAT, ask, streamed
from .conftest import Installation, eventually, installed
from .sidecar_log import logged

pytestmark = pytest.mark.asyncio(loop_scope="session")

KNOWN_WORDS = 1_100
"""Enough for letters, which is what a model is tried with when it is loaded; words come later in the vocabulary."""


@pytest.fixture(scope="module")
def narrow_model(tmp_path_factory: pytest.TempPathFactory, model_directory: Path) -> Path:
    directory = tmp_path_factory.mktemp("narrow-model")
    shutil.copy(model_directory / "tokenizer.json", directory)
    table = np.random.default_rng(1).standard_normal((KNOWN_WORDS, 384)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["vectors"])],
        "narrow",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "tokens"])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, [1, "tokens", 384])],
        [numpy_helper.from_array(table, "table")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, directory / "model.onnx")
    return directory


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def on(tmp_path_factory: pytest.TempPathFactory, narrow_model: Path) -> AsyncIterator[Installation]:
    config = {"memory": {"retain": {"retry_seconds": 0.1, "tick_seconds": 0.1, "max_attempts": 3}}}
    async with installed(tmp_path_factory.mktemp("embedding"), narrow_model, sidecar_config=config) as installation:
        yield installation


@pytest.mark.parametrize("path", APIS)
async def test_requests_pass_without_memory(on: Installation, path: str) -> None:
    warned = logged(on, "warning", "Embedding failed, skipping memory")
    await ask(on, path, "What's my budget for the trip?")
    await streamed(on, path, "What's my budget for the trip?")

    async def told() -> bool:
        return logged(on, "warning", "Embedding failed, skipping memory") == warned + 2

    await eventually(told, "not logged, or more than once")


async def test_a_turn_is_tried_again_and_given_up_in_the_end(on: Installation) -> None:
    await ask(on, CHAT, "My budget for the Hawaii trip is $10,000")

    async def given_up() -> bool:
        return await on.metric("semrouter_memory_dead_letters_total") >= 1

    await eventually(given_up, "no dead letter")
    assert logged(on, "warning", "Extraction failed") == 3
    assert await on.memories() == []


async def test_the_api_says_so(on: Installation) -> None:
    async with on.http() as http:
        answer = await http.post("/v1/memory", json={"content": "User lives in Bergen"})
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "embedding_unavailable"
