"""Scores and relevance: what raises them, what lowers them, and where the cut lies."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.recall import relevance as formula
from semrouter_memory.recall.categories import MemoryCategory, Need
from semrouter_memory.recall.features import CandidateFeatures, Floats, QueryFeatures
from semrouter_memory.recall.prototypes import Intent, Prototypes
from semrouter_memory.recall.query import Query
from semrouter_memory.recall.relevance import relevances
from semrouter_memory.store.owner_index import build_index
from tests.memories import NOW

VECTOR = np.array([1, 0, 0, 0], dtype=np.float32)
BACKGROUND = np.array([[0.1, 1, 0, 0], [0.0, 0, 1, 0], [0.05, 0, 0, 1]], dtype=np.float32)
PROTOTYPES = Prototypes(np.tile(BACKGROUND, (4, 1)), (3, 6, 9, 12), background=BACKGROUND)
INTENT = Intent(general=0.2, chat=0.1, asking=0.5, request=0.2)
QUESTION = QueryFeatures.of(Query(text="What's my budget?", now=NOW, max_chars=100)).embedded(
    VECTOR, INTENT, known_names=0
)


def rows(**columns: Sequence[float]) -> CandidateFeatures:
    """Memories that are alike but for these columns."""
    count = len(next(iter(columns.values())))

    def column(name: str, plain: float = 0) -> Floats:
        return np.array(columns.get(name, [plain] * count), dtype=np.float32)

    return CandidateFeatures(
        index=build_index("alice", ()),
        positions=np.arange(count),
        similarity=column("similarity", 0.3),
        lexical=column("lexical"),
        nearby=column("nearby"),
        labels=column("labels").astype(np.uint16),
    )


def scores(evidence: CandidateFeatures, question: QueryFeatures) -> Floats:
    return formula.score(evidence, question, formula.needed(evidence, question))


def relevance(found: list[float], question: QueryFeatures = QUESTION) -> Floats:
    return relevances(np.array(found, dtype=np.float32), range(len(found)), question, PROTOTYPES)


@pytest.mark.parametrize("column", ["similarity", "lexical", "nearby"])
def test_a_memory_scores_higher_for_what_it_shares_with_the_question(column: str) -> None:
    low, high = scores(rows(**{column: [0.4, 0.6]}), QUESTION)
    assert low < high


def test_a_memory_that_is_a_question_scores_lower() -> None:
    plain, lowered = scores(rows(labels=[0, MemoryCategory.QUESTION]), QUESTION)
    assert lowered < plain


def test_a_memory_of_the_time_that_is_asked_about_scores_higher() -> None:
    at_the_time, before = scores(replace(rows(similarity=[0.3, 0.3]), timely=np.array([True, False])), QUESTION)
    assert at_the_time > before


@pytest.mark.parametrize(
    ("need", "category"),
    [
        (Need.FOOD, MemoryCategory.DIET),
        (Need.BODY, MemoryCategory.HEALTH),
        (Need.TRIP, MemoryCategory.TRAVEL),
        (Need.DATE, MemoryCategory.TIME),
        (Need.PROGRAM, MemoryCategory.CODE),
        (Need.TEXT, MemoryCategory.WRITING),
        (Need.PURCHASE, MemoryCategory.MONEY),
    ],
)
def test_a_class_is_worth_something_to_the_request_that_needs_it_only(need: Need, category: MemoryCategory) -> None:
    marked = rows(labels=[0, category])
    plain, needed = scores(marked, replace(QUESTION, need=need))
    assert needed > plain
    plain, not_needed = scores(marked, QUESTION)
    assert not_needed == plain


def test_the_cosine_counts_less_for_a_chinese_question() -> None:
    step = np.diff(scores(rows(similarity=[0.2, 0.7]), QUESTION))
    chinese_step = np.diff(scores(rows(similarity=[0.2, 0.7]), replace(QUESTION, chinese=True)))
    assert 0 < chinese_step[0] < 0.5 * step[0]


def test_scoring_leaves_the_evidence_as_it_was() -> None:
    known = rows(similarity=[0.2, 0.7], labels=[MemoryCategory.QUESTION, MemoryCategory.DIET])
    before = known.similarity.copy()
    assert np.array_equal(scores(known, QUESTION), scores(known, QUESTION))
    assert np.array_equal(known.similarity, before)


def test_of_no_memories_there_are_no_relevances() -> None:
    assert len(relevance([])) == 0
    assert len(relevances(np.array([0.5], dtype=np.float32), [], QUESTION, PROTOTYPES)) == 0


@pytest.mark.parametrize(
    "chosen", [range(4), [2], [3, 0], np.array([1, 2])], ids=["all", "one", "in any order", "an array"]
)
def test_a_memorys_relevance_does_not_depend_on_which_are_chosen(chosen: list[int]) -> None:
    found = np.array([0.1, 0.9, 0.4, 0.2], dtype=np.float32)
    every = relevances(found, range(4), QUESTION, PROTOTYPES)
    assert relevances(found, chosen, QUESTION, PROTOTYPES).tolist() == every[list(chosen)].tolist()


def test_the_one_that_stands_out_passes_the_default_and_the_others_do_not() -> None:
    found = relevance([0.75, 0.2, 0.15, 0.1, 0.2, 0.1])
    assert found[0] > 0.6
    assert found[1:].max() < 0.3


def test_the_same_score_means_less_beside_a_better_one() -> None:
    assert relevance([0.5, 0.1, 0.1])[0] > relevance([0.5, 0.9, 0.1])[0]


def test_the_same_score_means_less_where_statements_about_nobody_have_it_too() -> None:
    found = np.array([0.5, 0.1], dtype=np.float32)
    near = replace(PROTOTYPES, background=np.vstack([BACKGROUND, VECTOR]))
    assert relevances(found, [0], QUESTION, near)[0] < relevances(found, [0], QUESTION, PROTOTYPES)[0]


def test_what_is_further_from_the_question_than_a_statement_about_nobody_is_hardly_meant() -> None:
    found = np.array([0.3, *[0.1] * 500], dtype=np.float32)
    near = replace(PROTOTYPES, background=np.vstack([BACKGROUND, 0.9 * VECTOR]))
    assert relevances(found, [0], QUESTION, near)[0] < 0.5 * relevances(found, [0], QUESTION, PROTOTYPES)[0]


@pytest.mark.parametrize("less_likely", [replace(QUESTION, wants=-1.0), replace(QUESTION, wants=-4.0)])
def test_a_question_that_needs_no_memory_lowers_every_relevance(less_likely: QueryFeatures) -> None:
    found = [0.75, 0.4, 0.1]
    assert (relevance(found, less_likely) < relevance(found)).all()


@given(st.lists(st.floats(-2, 5, width=32), min_size=1, max_size=30))
def test_relevances_are_shares_in_the_order_of_the_scores(found: list[float]) -> None:
    relevant = relevance(found)
    assert ((relevant >= 0) & (relevant <= 1)).all()
    order = np.argsort(found, kind="stable")
    assert (np.diff(relevant[order]) >= 0).all()


def test_a_request_that_wants_nothing_gets_nothing_however_near_a_memory_is() -> None:
    near = [0.9, 0.1, 0.1]
    assert relevance(near, replace(QUESTION, wants=4.0))[0] > 0.6
    assert relevance(near, replace(QUESTION, wants=-4.0))[0] < 0.1


def test_a_quote_is_shown_from_a_lower_probability_on_than_a_statement() -> None:
    found = np.array([0.4, 0.1, 0.1], dtype=np.float32)
    labels = np.array([MemoryCategory.QUOTE, 0, 0], dtype=np.uint16)
    quote = relevances(found, [0], QUESTION, PROTOTYPES, labels=labels)
    assert quote > relevances(found, [0], QUESTION, PROTOTYPES, labels=np.zeros_like(labels))


def test_what_a_request_needs_does_not_compete_with_itself() -> None:
    dinner = replace(QUESTION, need=Need.FOOD)
    evidence_of_two = rows(
        similarity=[0.25, 0.05, 0.1], labels=[MemoryCategory.DIET, MemoryCategory.DIET, MemoryCategory.NONE]
    )
    found = scores(evidence_of_two, dinner)
    alone = relevances(found, [1], dinner, PROTOTYPES)
    beside = relevances(found, [1], dinner, PROTOTYPES, needs=formula.needed(evidence_of_two, dinner))
    assert beside > alone


def test_a_memory_that_nobody_needs_is_measured_against_the_best_of_all() -> None:
    dinner = replace(QUESTION, need=Need.FOOD)
    evidence_of_two = rows(similarity=[0.25, 0.2], labels=[MemoryCategory.DIET, MemoryCategory.NONE])
    found = scores(evidence_of_two, dinner)
    plain = relevances(found, [1], dinner, PROTOTYPES)
    assert relevances(found, [1], dinner, PROTOTYPES, needs=formula.needed(evidence_of_two, dinner)) == plain
