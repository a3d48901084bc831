"""The labelled data is what its README says."""

import json
import re
from pathlib import Path
from typing import Any

TRAINING = Path(__file__).parents[3] / "training"
README = (TRAINING / "README.md").read_text(encoding="utf-8")
RELATIONS = {"same", "refines", "replaces", "contradicts", "unrelated"}


def lines(name: str) -> list[Any]:
    return [json.loads(line) for line in (TRAINING / name).read_text(encoding="utf-8").splitlines()]


def labels() -> set[str]:
    tables = [line.split("|")[1] for line in README.splitlines() if line.startswith("| `")]
    return {label for cell in tables for label in re.findall(r"`(\w+)`", cell)}


def test_every_label_of_a_sentence_is_explained() -> None:
    used = {
        label
        for person in lines("sentences.jsonl")
        for message in person["messages"]
        for text, label in message["sentences"]
        if text.strip()
    }
    assert used == labels()


def test_what_a_request_wants_is_a_memory_of_that_person() -> None:
    for person in lines("requests.jsonl"):
        known = {memory["id"] for memory in person["memories"]}
        for request in person["requests"]:
            assert known.issuperset([*request["wants"], *request.get("fine", ())]), request["text"]
            assert (request["kind"] in {"negative", "general"}) is not bool(request["wants"]), request["text"]


def test_what_an_order_means_is_a_memory_of_that_person() -> None:
    for person in lines("orders.jsonl"):
        known = {memory["id"] for memory in person["memories"]}
        for order in person["orders"]:
            assert known.issuperset([*order["gone"], *order.get("fine", ())]), order["text"]
        assert {each["label"] for each in person["others"]} <= {"none", "remember"}


def test_pairs_are_in_the_order_of_time_and_have_a_known_relation() -> None:
    pairs = [pair for person in lines("pairs.jsonl") for pair in person["pairs"]]
    assert {pair["relation"] for pair in pairs} == RELATIONS
    assert all(pair["old_at"] <= pair["new_at"] for pair in pairs)


def test_nobody_is_in_a_file_twice() -> None:
    people = [
        [person["person"] for person in lines(f"{name}.jsonl")]
        for name in ("sentences", "requests", "orders", "overviews", "pairs")
    ]
    assert all(len(set(each)) == len(each) for each in people)


def test_the_people_set_aside_have_data() -> None:
    aside = set((TRAINING / "held_out.txt").read_text(encoding="utf-8").split())
    assert aside <= {
        person["person"]
        for name in ("sentences", "requests", "steering", "orders", "overviews", "pairs")
        for person in lines(f"{name}.jsonl")
    }
    assert len(aside) >= 20
