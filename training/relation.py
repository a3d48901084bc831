"""How a newer statement stands to an older one: fitted on labelled pairs, measured on people left out.

Beside the pairs from people's messages it reads `statements.jsonl`: pairs in the third person, the form in which statements
are stored, and therefore counted twice. Labelled pairs are near ones, and most of what is compared is not: what a person told in
different messages of `sentences.jsonl` is paired as unrelated.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, TypeVar

from semrouter_memory.language.third_person import to_third_person
from semrouter_memory.retain.reconciling.pair_features import features, is_change
from semrouter_memory.retain.reconciling.relation import Relation, by_probabilities, of_the_same
from semrouter_memory.retain.reconciling.statement import statement
from training import fitting
from training.fitting import Example, fit, left_out, read, write

_T = TypeVar("_T")

FILES = {"pairs.jsonl": 1, "statements.jsonl": 2}
"""How often each pair of a file counts."""
_LASTING = frozenset({"fact", "people", "work", "taste", "plan", "event", "style", "procedure"})
"""Labels of the sentences that are paired by chance; an update may well be one of what was said before."""
_CHARS = range(9, 200)
"""Of such a sentence."""
_EARLIER = 4
"""Earlier sentences that one with a word of change is paired with."""
_STRENGTH = 0.3
_FEWEST = 3
_DIGITS = 2
"""Of a similarity: the last digits depend on the machine."""


@cache
def _pairs() -> list[tuple[str, dict[str, Any]]]:
    """File and pair, with its person."""
    return [
        (file, {**pair, "person": person["person"]})
        for file in FILES
        for person in read(file)
        for pair in person["pairs"]
    ]


def by_chance(people: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """What each of these people told in different messages, the later one with a word of change."""
    for person in people:
        earlier: list[str] = []
        for message in person["messages"]:
            said = [text.strip() for text, label in message["sentences"] if label in _LASTING]
            said = [text for text in said if len(text) in _CHARS]
            spread = earlier[:: max(1, len(earlier) // _EARLIER)][:_EARLIER]
            for new in (each for each in said if is_change(statement(each))):
                yield from (
                    {"old": old, "new": new, "relation": "unrelated", "person": person["person"]} for old in spread
                )
            earlier += said


@cache
def examples() -> list[Example]:
    """The pairs as the model sees them, in the order of the files; then those by chance."""
    pairs = [*(pair for _, pair in _pairs()), *by_chance(read("sentences.jsonl"))]
    texts = sorted({pair[side] for pair in pairs for side in ("old", "new")})
    embedder = fitting.embedder()
    found = asyncio.run(embedder.embed_passages([to_third_person(text) for text in texts]))
    vectors = dict(zip(texts, found, strict=True))
    return [
        Example(
            features(
                (old := statement(pair["old"])),
                of_the_same(old, statement(pair["new"])),
                round(float(vectors[pair["old"]] @ vectors[pair["new"]]), _DIGITS),
            ),
            pair["relation"],
            pair["person"],
        )
        for pair in pairs
    ]


def model() -> dict[str, Any]:
    """The model as it is stored."""
    return fit(list(_counted(examples())), strength=_STRENGTH, fewest=_FEWEST)


def report() -> str:
    """What the decision makes of people it was not fitted on, a table for each file."""
    places = list(_counted(range(len(examples()))))
    unseen = left_out([examples()[place] for place in places], strength=_STRENGTH, fewest=_FEWEST)
    probabilities = dict(zip(places, unseen, strict=True))
    found = Counter(
        (file, pair["relation"], _decided(pair, probabilities[place])) for place, (file, pair) in enumerate(_pairs())
    )
    return "\n\n".join(_table(file, found) for file in FILES)


def _counted(each: Sequence[_T]) -> chain[_T]:
    labelled = chain.from_iterable([one] * FILES[file] for one, (file, _) in zip(each, _pairs(), strict=False))
    return chain(labelled, each[len(_pairs()) :])


def _decided(pair: Mapping[str, str], probabilities: Mapping[str, float]) -> Relation:
    return by_probabilities(statement(pair["old"]), statement(pair["new"]), probabilities)


def _table(file: str, found: Counter[tuple[str, str, Relation]]) -> str:
    labels = [each.name.lower() for each in Relation]
    rows = [[label, *(str(found[file, label, relation]) for relation in Relation)] for label in labels]
    rows = [row for row in rows if any(map(int, row[1:]))]
    head = ["labelled \\ decided", *labels]
    return "\n".join([file, *("".join(f"{cell:>19}" for cell in row) for row in (head, *rows))])


if __name__ == "__main__":
    write("relation", model())
    print(report())  # noqa: T201 - a script
