"""BM25 over a few texts: the scores of the formula, whatever way the index came to be."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from semrouter_memory.language import bm25
from semrouter_memory.language.bm25 import TermIndex
from semrouter_memory.language.terms import search_terms

TEXTS = (
    "User's budget for the Hawaii trip is $10,000",
    "User's dog is called Rex; Rex the dog is a beagle",
    "",
    "User prefers a window seat on the trip to Hawaii",
    "用户的预算是一万元",
    "the of and",
)

WORDS = st.sampled_from(["budget", "hawaii", "dog", "rex", "trip", "seat", "2026-05-04", "预算"])
ANY_TEXT = st.lists(WORDS, max_size=6).map(" ".join)


def expected(texts: Sequence[str], query: Sequence[str]) -> list[float]:
    """The formula, as it is written in the module's description."""
    documents = [Counter(search_terms(text)) for text in texts]
    lengths = [sum(document.values()) for document in documents]
    mean = max(sum(lengths) / max(len(lengths), 1), 1.0)

    def score(document: Counter[str], length: int) -> float:
        total = 0.0
        for term in query:
            having = sum(term in each for each in documents)
            idf = math.log(1 + (max(len(documents), 20) - having + 0.5) / (having + 0.5))
            count = document[term]
            total += idf * count / (count + bm25.K1 * (1 - bm25.B + bm25.B * length / mean)) if count else 0.0
        return total

    return [score(*pair) for pair in zip(documents, lengths, strict=True)]


def scored(index: TermIndex, query: Sequence[str]) -> NDArray[np.float32]:
    return index.scores(index.find(query))


def same(one: TermIndex, other: TermIndex) -> bool:
    names = ("hashes", "starts", "texts", "counts", "weights", "lengths")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize(
    "query", ["What's my budget?", "the dog Rex and the trip", "budget budget trip", "我的预算", "nothing of it", "the"]
)
def test_scores_are_those_of_the_formula(query: str) -> None:
    scores = scored(bm25.build(TEXTS), search_terms(query))
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores, expected(TEXTS, search_terms(query)), rtol=1e-5)


def test_a_text_that_answers_is_above_one_that_does_not() -> None:
    scores = scored(bm25.build(TEXTS), search_terms("what was my Hawaii budget"))
    assert scores.argmax() == 0
    assert scores[1] == 0


def test_a_term_that_is_everywhere_still_counts_for_something() -> None:
    assert (scored(bm25.build(["dog"] * 3), ["dog"]) > 0).all()


@pytest.mark.parametrize("texts", [[], [""], ["", "the"]])
def test_texts_without_terms_answer_nothing(texts: list[str]) -> None:
    built = bm25.build(texts)
    assert len(built) == len(texts)
    assert scored(built, ["dog"]).tolist() == [0.0] * len(texts)
    assert scored(built, []).tolist() == [0.0] * len(texts)


def test_more_repetitions_than_a_byte_counts_are_many() -> None:
    scores = scored(bm25.build(["dog " * 1000, "dog"]), ["dog"])
    assert np.isfinite(scores).all()
    assert (scores > 0).all()


def test_a_text_longer_than_is_counted_is_still_found() -> None:
    scores = scored(bm25.build([" ".join(f"w{n}" for n in range(70_000)), "w1"]), ["w1"])
    assert 0 < scores[0] < scores[1]


def test_a_terms_hash_is_the_same_in_every_process() -> None:
    assert bm25.term_hash("budget") == 0xE0DA34A8DE1FFA10


@given(st.lists(ANY_TEXT, max_size=8), st.lists(ANY_TEXT, max_size=4), st.data())
def test_a_changed_index_is_the_one_that_would_be_built(
    before: list[str], added: list[str], data: st.DataObject
) -> None:
    stays = data.draw(st.lists(st.booleans(), min_size=len(before), max_size=len(before)))
    kept = [at for at, stay in enumerate(stays) if stay]
    size = len(kept) + len(added)
    places = sorted(data.draw(st.permutations(range(size)))[: len(added)])
    others = [at for at in range(size) if at not in set(places)]
    moved = np.full(len(before), -1, dtype=np.intp)
    moved[kept] = others
    after = dict(zip(places, added, strict=True)) | {new: before[old] for old, new in zip(kept, others, strict=True)}
    changed = bm25.build(before).changed(moved, *bm25.hashed(added), np.array(places, dtype=np.intp))
    assert same(changed, bm25.build([after[at] for at in range(size)]))


@given(st.lists(ANY_TEXT, min_size=1, max_size=8), st.lists(WORDS, max_size=6))
def test_any_texts_and_any_query_score_as_the_formula_says(texts: list[str], query: list[str]) -> None:
    wanted = [term for word in query for term in search_terms(word)]
    np.testing.assert_allclose(scored(bm25.build(texts), wanted), expected(texts, wanted), rtol=1e-4, atol=1e-6)


def test_the_only_memory_there_is_holds_rare_words_all_the_same() -> None:
    alone = scored(bm25.build(["User lives in Lyon"]), ["lyon"])[0]
    among_twenty = scored(bm25.build(["User lives in Lyon", *(f"number {at}" for at in range(19))]), ["lyon"])[0]
    assert alone > 0.5 * among_twenty
