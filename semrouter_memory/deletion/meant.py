"""Which memories an order to forget means: a learned decision over what it names and what a search for that finds. Pure.

Strategy: an order names one thing or several, and each memory is compared with the one whose words it shares the most, or else that
is nearest in meaning. To delete by mistake is worse than to miss, so the decision sees what speaks against a memory, too: words of the
order that it lacks ("my hearing test", and a hearing at court), a better one, another person, a piece of the order that may be no
thing of its own ("dinner with Leo and Tom"). How it does on people left out: `docs/learned-decisions.md`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from semrouter_memory.language.names import capitalised
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.terms import search_terms, terms, word_terms
from semrouter_memory.learned import Features, Logistic, log_odds, probabilities
from semrouter_memory.model import Hit, Memory
from semrouter_memory.retain.reconciling.statement import Statement, statement
from semrouter_memory.retain.subjects import Subject

Found = Sequence[tuple[Subject, Sequence[Hit]]]
"""All that an order names, its pieces, and what a search for each finds, the most relevant first."""
_MODEL = Logistic.load("meant")
_SUREST = 0.995
"""Of a relevance: more says no more."""
_SCALE = 4.0
"""Of log-odds, which differ by units where the other features differ by tenths."""


def meant(found: Found, threshold: float) -> list[Memory]:
    """The memories that are meant with this probability at least, the surest first."""
    pairs = compared(found)
    odds = probabilities([_MODEL.log_odds(features) for _, features in pairs]).tolist()
    sure = sorted(zip(odds, (memory for memory, _ in pairs), strict=True), key=lambda each: -each[0])
    return [memory for probability, memory in sure if probability >= threshold]


def compared(found: Found) -> list[tuple[Memory, Features]]:
    """Each memory that was found, and the features of it and of what the order names."""
    closest: dict[str, _Pair] = {}
    for subject, hits in found:
        for pair in _pairs(subject, hits):
            memory_id = pair.hit.memory.id
            if memory_id not in closest or pair.closeness > closest[memory_id].closeness:
                closest[memory_id] = pair
    return [(pair.hit.memory, pair.features()) for pair in closest.values()]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """What an order names, and a memory that was found for it.

    Attributes:
        held: of each of the subject's words, whether the memory has it.
        unknown: how many of the words no memory has that was found.
        rank: how many memories are more relevant.
        greatest_share: of the words that one memory has.
        greatest_cosine: of one memory.
    """

    subject: Subject
    hit: Hit
    held: Sequence[bool]
    unknown: int
    rank: int
    greatest_share: float
    greatest_cosine: float

    @property
    def share(self) -> float:
        return _share(self.held)

    @property
    def closeness(self) -> tuple[float, bool, float]:
        """Without a word in common the meaning counts, which one thing shows better than several together."""
        return self.share, not self.share and bool(self.subject.form), self.hit.similarity

    def features(self) -> Features:
        text, searched = self.subject.text, self.hit.memory.searched
        share, cosine = self.share, self.hit.similarity
        words = "every word" if share == 1 else "some words" if share else "no word"
        relevance = min(max(self.hit.relevance, 1 - _SUREST), _SUREST)
        features = {
            words: 1.0,
            f"{words}, cosine": cosine,
            f"{words}, relevance": log_odds(relevance) / _SCALE,
            f"{words}, last one": float(bool(self.held) and self.held[-1]),
            f"{words}, unknown ones": math.log1p(self.unknown),
            "words": math.log1p(len(self.held)),
            "words lacking": math.log1p(self.held.count(False)),
            "share": share,
            "below the greatest share": self.greatest_share - share,
            "below the greatest cosine": self.greatest_cosine - cosine,
            "rank": math.log1p(self.rank),
            "lacks a name": float(not {*terms(" ".join(capitalised(text)))} <= {*search_terms(searched)}),
            **_told(words, statement(text), statement(self.hit.memory.content)),
        }
        if self.subject.form:
            features |= dict.fromkeys(("piece", f"piece, {words}", f"piece, {self.subject.form}"), 1.0)
        return {f"chinese {name}": each for name, each in features.items()} if CJK.search(text + searched) else features


def _pairs(subject: Subject, hits: Sequence[Hit]) -> Iterator[_Pair]:
    words = word_terms(subject.text)
    has = [{*search_terms(hit.memory.searched)} for hit in hits]
    held = [[not each.isdisjoint(word) for word in words] for each in has]
    unknown = sum(not any(column) for column in zip(*held, strict=True))
    greatest_share = max(map(_share, held), default=0.0)
    greatest_cosine = max((hit.similarity for hit in hits), default=0.0)
    for rank, (hit, each) in enumerate(zip(hits, held, strict=True)):
        yield _Pair(
            subject=subject,
            hit=hit,
            held=each,
            unknown=unknown,
            rank=rank,
            greatest_share=greatest_share,
            greatest_cosine=greatest_cosine,
        )


def _share(held: Sequence[bool]) -> float:
    return fmean(held) if held else 0.0


def _told(words: str, named: Statement, memory: Statement) -> Features:
    """What both tell of."""
    attributes = "same" if named.attributes & memory.attributes else "other" if named.attributes else "no"
    return {
        f"{attributes} attribute": 1.0,
        f"{words}, {attributes} attribute": 1.0,
        "same words": len(named.content & memory.content) / max(len(named.content), 1),
        "same people": float(bool(named.people) and named.people == memory.people),
        "lacks people": float(bool(named.people - memory.people)),
        "of other people": float(bool(memory.people - named.people)),
    }
