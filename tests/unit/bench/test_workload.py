"""The benchmark asks and stores the same things in every run, and asks nothing twice."""

import json

import pytest

from bench.workload import Asker, http_request, long_body, question_body, questions, statements


def test_every_run_measures_with_the_same_statements_and_questions() -> None:
    assert list(statements(500, seed=3)) == list(statements(500, seed=3))
    assert questions(50) == questions(50)


def test_another_seed_gives_other_statements_of_which_hardly_any_is_there_twice() -> None:
    ours, others = set(statements(1_000, seed=1)), set(statements(1_000, seed=2))

    assert len(ours) > 950
    assert len(ours & others) < 20


def test_questions_have_four_to_fifteen_words() -> None:
    assert {len(question.split()) for question in questions(500)} <= set(range(4, 16))


def test_nothing_is_asked_twice() -> None:
    asker = Asker()
    asked = [*asker.take(2_000), *asker.take(3_000)]

    assert len(set(asked)) == 5_000


@pytest.mark.parametrize("size", [1_000, 10_000, 1_000_000])
def test_a_long_body_is_a_conversation_of_that_size_that_ends_with_the_question(size: int) -> None:
    body = long_body("Where is my visa?", size)
    messages = json.loads(body)["messages"]

    assert len(body) == pytest.approx(size, rel=0.1)
    assert messages[-1] == {"role": "user", "content": "Where is my visa?"}
    assert messages[-2]["role"] == "assistant"


def test_two_long_bodies_differ_from_their_first_message_on() -> None:
    first, second = (json.loads(long_body(text, 5_000))["messages"][0] for text in ("one?", "two?"))

    assert first != second


def test_a_request_tells_its_body_length_in_bytes() -> None:
    body = question_body("日本?")

    assert f"content-length: {len(body)}\r\n\r\n".encode() + body in http_request("alice", body)
