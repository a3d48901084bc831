"""What a passage's relevance is made of."""

import pytest

from semrouter_memory.recall.documents import features, ranked
from semrouter_memory.recall.query import Query
from tests.memories import NOW
from tests.unit.recall.conftest import MakeHit


def question(text: str) -> Query:
    return Query(text=text, now=NOW, max_chars=4_000)


@pytest.mark.parametrize("asked", ["妻子能来吗？", "夫人能来吗？"])
def test_a_chinese_question_shares_the_concept_with_a_passage_in_other_words(make_hit: MakeHit, asked: str) -> None:
    """Passages are indexed with the terms of concepts, so they are asked with them."""
    passages = [make_hit("老婆可以参加年会", 0.3, memory_id="a"), make_hit("停车场在地下二层", 0.3, memory_id="b")]

    about, other = features(passages, question(asked))

    assert about["lexical"] > 0
    assert about["score"] > other["score"]
    assert [hit.memory.id for hit in ranked(passages, question(asked))] == ["a", "b"]
