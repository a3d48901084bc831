"""How documents are split into passages."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from semrouter_memory.language.splitting import Block, Passage, split


def _words(text: str) -> int:
    return len(text.split()) if " " in text.strip() else max(1, len(text) // 8)


def _split(blocks: Sequence[Block], *, title: str = "", limit: int = 12, overlap: int = 0) -> list[Passage]:
    return split(blocks, title=title, limit=limit, overlap=overlap, count=_words)


def test_paragraphs_are_packed_until_a_passage_is_full() -> None:
    blocks = [Block("one two three four five"), Block("six seven eight nine ten"), Block("eleven twelve thirteen")]
    found = [passage.text for passage in _split(blocks)]
    assert found == ["one two three four five\n\nsix seven eight nine ten", "eleven twelve thirteen"]


def test_a_passage_stays_in_its_section_and_has_its_headings_as_context() -> None:
    blocks = [
        Block("Leave", 1),
        Block("We like rest.", page=1),
        Block("Vacation", 2),
        Block("Thirty days a year.", page=2),
        Block("Travel", 1),
        Block("Book early.", page=3),
    ]
    assert _split(blocks, title="Handbook", limit=40) == [
        Passage("We like rest.", "Handbook > Leave", 1),
        Passage("Thirty days a year.", "Handbook > Leave > Vacation", 2),
        Passage("Book early.", "Handbook > Travel", 3),
    ]


def test_a_long_context_loses_its_beginning() -> None:
    blocks = [Block("A very long title of a part", 1), Block("Near heading", 2), Block("Text.")]
    assert _split(blocks, limit=12)[0].context == "Near heading"


def test_passages_overlap_where_a_paragraph_is_cut_and_only_there() -> None:
    cut = Block("One two three. Four five six. Seven eight nine. Ten eleven twelve.")
    first, second = _split([cut], limit=9, overlap=4)
    assert (first.text, second.text) == (
        "One two three. Four five six. Seven eight nine.",
        "Seven eight nine. Ten eleven twelve.",
    )
    whole = [Block("One two three four five six."), Block("Seven eight nine ten.")]
    assert [passage.text for passage in _split(whole, limit=9, overlap=4)] == [block.text for block in whole]


def test_the_same_text_under_the_same_headings_is_one_passage() -> None:
    footer = Block("All rights reserved by the company that wrote this text here.")
    assert len(_split([footer, footer, footer])) == 1


_BLOCKS = st.lists(
    st.builds(Block, st.text("ab c.\n我。", max_size=200), st.integers(0, 3), st.integers(0, 9)), max_size=12
)


@given(_BLOCKS, st.text("xy ", max_size=20), st.integers(0, 8))
def test_no_passage_is_longer_than_the_limit_and_no_text_is_lost(blocks: list[Block], title: str, overlap: int) -> None:
    def count(text: str) -> int:
        return len("".join(text.split()))

    passages = split(blocks, title=title, limit=40, overlap=overlap, count=count)
    for passage in passages:
        assert count(passage.context) + count(passage.text) <= 40
        assert passage.text.strip()
    joined = "".join("".join(passage.text.split()) for passage in passages)
    for block in blocks:
        if not block.level:
            assert all(sentence in joined for sentence in block.text.replace("。", " ").split() if len(sentence) < 5)
