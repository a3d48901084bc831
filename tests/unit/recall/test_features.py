"""What is known of each memory with respect to one question."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from semrouter_memory.language.terms import terms
from semrouter_memory.model import Memory, Message, Period, Scope
from semrouter_memory.recall.categories import MemoryCategory, Need, categories_of
from semrouter_memory.recall.features import CandidateFeatures, QueryFeatures
from semrouter_memory.recall.prototypes import Intent
from semrouter_memory.recall.query import Query
from semrouter_memory.store.owner_index import OwnerIndex, build_index
from tests.memories import NOW, embedded, memory, vector

ALICE = Scope("alice")
NO_INTENT = Intent(0, 0, 0, 0)


def asked(text: str, *history: Message) -> QueryFeatures:
    query = Query(text=text, history=history, now=NOW, max_chars=10_000)
    return QueryFeatures.of(query).embedded(vector(0), NO_INTENT, known_names=0)


def index_of(contents: Sequence[str], minutes: Sequence[float]) -> OwnerIndex:
    """Memories created at these minutes; the vector of the first is the question's."""
    rows = [
        embedded(memory(ALICE, f"mem_{at:07.1f}", content=content, created_at=NOW + timedelta(minutes=at)), seed)
        for seed, (content, at) in enumerate(zip(contents, minutes, strict=True))
    ]
    return build_index("user:alice", rows, label=categories_of)


def gathered(index: OwnerIndex, question: QueryFeatures) -> CandidateFeatures:
    return CandidateFeatures.of(index, np.arange(len(index)), question).compared(question.vector)


# -- the question ------------------------------------------------------------------------------------------------------


def test_a_question_has_each_term_once_and_in_order() -> None:
    assert asked("budget, trip budget").terms == ("budget", "trip")


def test_terms_are_those_of_what_is_searched_for_and_classes_those_of_the_request() -> None:
    query = Query(text="How much does the dinner cost me?", likely_answer="the Hawaii trip", now=NOW, max_chars=100)
    question = QueryFeatures.of(query)
    assert question.terms == ("hawaii", "trip")
    assert question.need & Need.FOOD
    assert question.personal


def test_what_is_pasted_tells_nothing_of_what_the_request_needs() -> None:
    page = "We had dinner in a restaurant on the trip. " * 10
    question = asked(f"Fix the commas:\n\n{page}")

    assert (question.terms, question.need) == (("fix", "comma"), asked("Fix the commas:").need)


def test_words_of_what_is_pasted_find_nothing() -> None:
    index = index_of(("a barn", "a sheep", "a cow"), (0, 60, 120))
    candidates = gathered(index, asked(f"{'One barn burnt. ' * 30}\n\nMay the cow go there?"))

    assert candidates.lexical[2] > candidates.lexical[0] == candidates.lexical[1] == 0


@pytest.mark.parametrize(
    ("request_text", "personal", "impersonal"),
    [
        ("What is my budget?", True, False),
        ("What is a budget?", False, True),
        ("how do airplanes fly", False, True),
        ("什么是相对论？", False, True),
        ("我住在哪里？", True, False),
        ("Dinner ideas", False, False),
        ("Whatever works", False, False),
    ],
)
def test_a_question_of_general_knowledge_has_its_form_and_no_first_person(
    request_text: str, personal: bool, impersonal: bool
) -> None:
    question = asked(request_text)
    assert (question.personal, question.impersonal) == (personal, impersonal)


@pytest.mark.parametrize(("text", "chinese"), [("预算 please", True), ("budget", False), ("ありがとう", False)])
def test_chinese_is_told_by_its_characters(text: str, chinese: bool) -> None:
    assert asked(text).chinese is chinese


# -- candidates --------------------------------------------------------------------------------------------------------


def test_columns_are_those_of_the_chosen_memories() -> None:
    index = index_of(["User likes jazz", "User's budget is $900", "User is vegan"], [0, 100, 200])
    question = asked("budget")
    rows = CandidateFeatures.of(index, np.array([1, 2]), question).compared(question.vector)
    assert rows.positions.tolist() == [1, 2]
    assert rows.lexical[0] > rows.lexical[1] == 0
    assert rows.labels[1] & MemoryCategory.DIET
    whole = gathered(index, question)
    for column in ("similarity", "lexical", "nearby", "labels"):
        assert np.array_equal(getattr(rows, column), getattr(whole, column)[[1, 2]])


def test_similarity_is_the_cosine_with_the_questions_vector() -> None:
    rows = gathered(index_of(["one", "two"], [0, 1]), asked("anything"))
    assert rows.similarity.tolist() == pytest.approx([1, float(vector(0) @ vector(1))], abs=0.02)


def test_what_was_said_beside_a_match_counts_and_more_so_after_it() -> None:
    rows = gathered(
        index_of(["a fox", "a cat", "where is the piano", "a dog", "a cow", "a hen"], range(6)), asked("piano")
    )
    match = rows.lexical[2]
    assert rows.nearby.tolist() == pytest.approx([0.35 * match, 0.4 * match, 0, 0.7 * match, 0.5 * match, 0], rel=1e-5)


@pytest.mark.parametrize("chosen", [[0, 1, 2], [0, 1]])
def test_what_a_chinese_request_names_is_known_as_far_as_one_memory_holds_it(chosen: list[int]) -> None:
    index = index_of(["房租每月四千二", "在学钢琴", "钢琴和房租"], [0, 100, 200])
    question = asked("钢琴房租")
    assert len(question.names) == len("钢琴房租")
    assert CandidateFeatures.of(index, np.array(chosen), question).known_names == (4 if 2 in chosen else 2)


def test_memories_of_another_conversation_are_no_neighbours() -> None:
    rows = gathered(index_of(["where is the piano", "a dog", "a cow"], [0, 10, 10.1]), asked("piano"))
    assert rows.nearby[1] > 0
    assert rows.nearby[2] == 0


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_memories_or_none_have_features_too(count: int) -> None:
    rows = gathered(index_of(["piano"] * count, range(count)), asked("piano"))
    assert len(rows.nearby) == count


def test_memories_written_in_the_period_of_the_question_are_told() -> None:
    index = index_of(["a", "b", "c"], [0, 1440, 4320])
    first = datetime.fromtimestamp(int(index.created_at[0]) / 1e6, UTC)
    period = Period(first + timedelta(days=1), first + timedelta(days=3))
    rows = CandidateFeatures.of(index, np.arange(3), replace(asked("x"), period=period))
    assert rows.timely is not None
    assert rows.timely.tolist() == [False, True, False]


def test_a_very_long_period_says_nothing() -> None:
    index = index_of(["a"], [0])
    year = Period(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    assert CandidateFeatures.of(index, np.arange(1), replace(asked("x"), period=year)).timely is None


def test_terms_of_a_question_are_as_those_of_memories() -> None:
    assert asked("My sisters' trips").terms == tuple(terms("sister trip"))


@pytest.mark.parametrize(
    ("intent", "personal", "is_task"),
    [
        (Intent(general=0.2, chat=0.6, asking=0.2, request=0.3), False, False),
        (Intent(general=0.2, chat=0.2, asking=0.7, request=0.3), True, False),
        (Intent(general=0.2, chat=0.2, asking=0.7, request=0.3), False, True),
        (Intent(general=0.2, chat=0.2, asking=0.3, request=0.6), True, True),
        (Intent(general=0.6, chat=0.2, asking=0.3, request=0.2), False, True),
    ],
)
def test_small_talk_and_questions_about_the_user_are_no_tasks(intent: Intent, personal: bool, is_task: bool) -> None:
    assert replace(asked("x"), intent=intent, personal=personal).is_task is is_task


def test_a_memory_is_decoded_when_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []

    def decode(_: OwnerIndex, position: int) -> Memory:
        decoded.append(position)
        return memory(ALICE, "mem")

    monkeypatch.setattr(OwnerIndex, "memory", decode)
    rows = gathered(index_of(["one", "two", "three"], range(3)), asked("anything"))
    hits = rows.hits([2, 0], np.array([0.8, 0.1], dtype=np.float32))
    assert [hit.relevance for hit in hits] == pytest.approx([0.8, 0.1])
    assert [hit.similarity for hit in hits] == pytest.approx(rows.similarity[[2, 0]].tolist())
    assert decoded == []
    assert replace(hits[0], relevance=0.5).memory is hits[0].memory
    assert decoded == [2]
    with pytest.raises(AttributeError):
        _ = hits[1].text  # type: ignore[attr-defined]
