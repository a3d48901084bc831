"""The relation model: what the labelled pairs are, and how it does on people it was not fitted on."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.language.third_person import to_third_person
from semrouter_memory.learned import Multinomial
from semrouter_memory.retain.reconciling.relation import Pair, Relation, relate
from semrouter_memory.retain.reconciling.statement import statement
from training.fitting import read
from training.relation import by_chance

TRAINING = Path(__file__).parents[3] / "training"
LABELS = {"same", "refines", "replaces", "contradicts", "unrelated"}


def people(name: str) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in (TRAINING / name).read_text(encoding="utf-8").splitlines()]


def test_the_model_knows_the_labels_of_the_pairs() -> None:
    pairs = [pair for person in people("statements.jsonl") for pair in person["pairs"]]
    assert {pair["relation"] for pair in pairs} == LABELS
    assert set(Multinomial.load("relation").classes) == LABELS


def decided(pairs: Sequence[dict], model_directory: Path) -> list[Relation]:  # type: ignore[type-arg]
    """What the relation of these pairs is found to be, with their real similarity."""
    texts = sorted({pair[side] for pair in pairs for side in ("old", "new")})
    embedder = OnnxEmbedder.load(EmbeddingConfig(), model_directory)
    found = asyncio.run(embedder.embed_passages([to_third_person(text) for text in texts]))
    vectors = dict(zip(texts, found, strict=True))
    return relate(
        [
            Pair(statement(pair["old"]), statement(pair["new"]), float(vectors[pair["old"]] @ vectors[pair["new"]]))
            for pair in pairs
        ]
    )


def test_of_people_set_aside_hardly_anything_is_superseded_wrongly(model_directory: Path) -> None:
    aside = set((TRAINING / "held_out.txt").read_text(encoding="utf-8").split())
    pairs = [pair for person in people("pairs.jsonl") if person["person"] in aside for pair in person["pairs"]]
    found = Counter(zip((pair["relation"] for pair in pairs), decided(pairs, model_directory), strict=True))
    wrong = sum(
        count for (label, relation), count in found.items() if relation is Relation.REPLACES and label != "replaces"
    )
    replaced = sum(count for (label, _), count in found.items() if label == "replaces")
    assert found["unrelated", Relation.REPLACES] <= 1
    assert wrong <= 0.02 * len(pairs)
    assert found["replaces", Relation.REPLACES] >= 0.4 * replaced


def test_what_people_set_aside_told_in_different_messages_stays(model_directory: Path) -> None:
    pairs = list(by_chance(read("sentences.jsonl", held_out=True)))
    found = Counter(decided(pairs, model_directory))
    assert len(pairs) > 200
    assert found[Relation.REPLACES] + found[Relation.CONTRADICTS] <= 0.01 * len(pairs)
    assert found[Relation.OUTDATES] <= 0.03 * len(pairs)
