"""The decision *keep?*: right often enough on people that it was not fitted on, and on plain speech."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.model import Vector
from semrouter_memory.retain.keep import CUT, SentenceScore, features, judge

TRAINING = Path(__file__).parents[3] / "training"
KEPT = frozenset(
    ("fact", "people", "work", "taste", "plan", "event", "style", "procedure", "remember", "update", "answer", "mixed")
)


Probability = Callable[..., float]


@pytest.fixture(scope="module")
def embedder(model_directory: Path) -> OnnxEmbedder:
    return OnnxEmbedder.load(EmbeddingConfig(), model_directory)


def worth(judged: list[SentenceScore], embedder: OnnxEmbedder) -> list[float]:
    """As the product judges: by its vector where the words leave a sentence in doubt."""
    texts = [each.text for each in judged if each.in_doubt]
    vectors: dict[str, Vector] = dict(zip(texts, asyncio.run(embedder.embed_passages(texts)), strict=True))
    return [each.worth(vectors.get(each.text)) for each in judged]


@pytest.fixture(scope="module")
def probability(embedder: OnnxEmbedder) -> Probability:
    def of(said: str, *, asked: str = "") -> float:
        return worth(judge([said], said, asked), embedder)[0]

    return of


@pytest.fixture(scope="module")
def found(embedder: OnnxEmbedder) -> list[tuple[str, bool]]:
    """The label of each sentence of the people set aside, and whether it would be kept."""
    aside = set((TRAINING / "held_out.txt").read_text(encoding="utf-8").split())
    people = [json.loads(line) for line in (TRAINING / "sentences.jsonl").read_text(encoding="utf-8").splitlines()]
    labels: list[str] = []
    judged: list[SentenceScore] = []
    for message in (message for person in people if person["person"] in aside for message in person["messages"]):
        pieces = [piece for piece, _ in message["sentences"]]
        judged += judge(pieces, "".join(pieces), message["before"])
        labels += [label for _, label in message["sentences"]]
    return [(label, each >= CUT) for label, each in zip(labels, worth(judged, embedder), strict=True)]


def test_people_that_were_set_aside_are_judged_as_they_were_labelled(found: list[tuple[str, bool]]) -> None:
    told = [kept for label, kept in found if label in KEPT]
    others = [kept for label, kept in found if label not in KEPT]
    assert len(found) > 1_100
    assert sum(told) / len(told) >= 0.93
    assert sum(others) / len(others) <= 0.26


def test_what_an_order_leaves_aside_for_once_is_not_kept() -> None:
    """ "Forget the diet, it's my birthday" would speak against the diet ever after. These sentences are in no fit of *keep?*."""
    people = [json.loads(line) for line in (TRAINING / "steering.jsonl").read_text(encoding="utf-8").splitlines()]
    labelled = [(each["text"], each["label"]) for person in people for each in person["sentences"]]
    near_misses = [text for text, label in labelled if label == "none" and text.lower().startswith("forget ")]
    kept = [judge([text], text, "")[0].worth() >= CUT for text in near_misses]
    assert len(kept) > 100
    assert sum(kept) / len(kept) <= 0.05


@pytest.mark.parametrize(
    ("label", "most"), [("question", 0.15), ("request", 0.2), ("smalltalk", 0.2), ("roleplay", 0.4), ("pasted", 0.2)]
)
def test_of_each_kind_that_is_not_kept_little_is(label: str, most: float, found: list[tuple[str, bool]]) -> None:
    kept = [each for other, each in found if other == label]
    assert kept
    assert sum(kept) / len(kept) <= most


@pytest.mark.parametrize(
    "said",
    [
        "I live in Bonn",
        "I moved to Munich",
        "I'm allergic to peanuts",
        "My budget for the Hawaii trip is $10,000",
        "I have two cats",
        "my name is Alice, call me Al",
        "We have three kids",
        "I don't eat meat",
        "my sister Amal lives in Amman",
        "I was born in Lima in 1988",
        "My favourite food is sushi",
        "Our anniversary is on June 5.",
        "from now on answer in bullet points",
        "我对花生过敏",
        "我喜欢喝茶",
    ],
)
def test_plain_statements_are_kept(said: str, probability: Probability) -> None:
    assert probability(said) >= CUT
    assert probability(said, asked="Noted.") >= CUT


@pytest.mark.parametrize(
    "said",
    [
        "What is the capital of France?",
        "write a poem about the sea",
        "thanks!",
        "Can you recommend a book?",
        "ok",
        "hello",
        "I see. I'm not sure.",
        "explain quantum computing",
        "Deploy the billing service to staging",
        "Migrate the database to version 16",
        "Restart the worker on node 3",
        "Scale the frontend to five replicas",
        "Rotate the keys of the staging cluster",
        "Upgrade Postgres to 16",
        "Cancel the order 1234",
        "Do people usually go to Kauai on the first day?",
        "法国的首都是哪里？",
        "谢谢",
    ],
)
def test_plain_requests_questions_and_thanks_are_not(said: str, probability: Probability) -> None:
    assert probability(said) < CUT
    assert probability(said, asked="Noted.") < CUT


@pytest.mark.parametrize(
    "said",
    [
        "can you recommend a pan, we only have an induction hob",
        "what should I plant, I'm renting and can't dig",
        "how much soil do I need, our balcony is 4 metres long",
        "推荐个电影，我家孩子五岁",
    ],
)
def test_what_a_question_or_an_order_tells_of_the_user_on_the_way_is_kept(said: str, probability: Probability) -> None:
    assert probability(said) >= CUT


@pytest.mark.parametrize(
    "said",
    [
        "how do you say good night in Czech, I forgot",
        "I have to go now, can we continue later?",
        "I tried restarting, what else can I do?",
        "can you make it shorter, I don't like the second paragraph",
    ],
)
def test_what_it_tells_of_the_moment_is_not(said: str, probability: Probability) -> None:
    assert probability(said) < CUT


def test_a_question_before_it_makes_an_answer_of_a_few_words(probability: Probability) -> None:
    assert probability("Window.", asked="Do you prefer aisle or window?") > probability("Window.")


def test_the_sentences_of_a_message_know_their_places() -> None:
    first, second = features(["I live in Bonn. ", "You?"], "I live in Bonn. You?", "Hi!")
    assert (first["#first"], first["#last"], first["#alone"]) == (1.0, 0.0, 0.0)
    assert (second["#first"], second["#last"], second["#answered"]) == (0.0, 1.0, 1.0)
    assert "before bonn" in second
    assert "before bonn" not in first
    assert "message you" in first
