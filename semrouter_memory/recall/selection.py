"""Which of the memories found are given to the model, and in what order. Pure.

Strategy: cheap tests first. The order is the strategy's, so the same hits always make the same block. What is pinned has a small
budget of its own within that of the block.

An episode says what held on its day, and stays as it is when a fact in it is replaced. A fact keeps the turns in which it was said
otherwise; together with such a fact, an episode of these turns would mislead, and is left out. Unless the fact was said in the same
session: then the episode tells the new value itself.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from semrouter_memory.language.phrases import words_of
from semrouter_memory.language.terms import terms
from semrouter_memory.language.words import tokens, words
from semrouter_memory.model import Hit, Memory, MemoryType, OtherOwner, RecallOptions
from semrouter_memory.recall.explanation import Judge, Verdict, unrecorded
from semrouter_memory.recall.visible import VisibleTexts

_IGNORED_WORDS = frozenset({"user", "user's", "the", "a", "an", "that", "is", "are", "was", "has", "have"})
_ALMOST_THE_SAME = 0.85
"""Share of the terms of two memories that are in both, from which the second says nothing new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Bounds on the sum of the costs: of all that is chosen, and of what is pinned."""

    tokens: int
    pinned_tokens: int = 0


@dataclass(frozen=True, slots=True)
class OthersHits:
    """What was found of an owner besides the user and is not deleted; ids of those that are pinned."""

    owner: OtherOwner
    hits: Sequence[Hit]
    pinned: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Allowance:
    """What may still be chosen of an owner's memories."""

    memories: int
    tokens: int


def choose(
    hits: Iterable[Hit],
    options: RecallOptions,
    *,
    visible: Sequence[str],
    cost: Callable[[Hit], int],
    budget: Budget,
    pinned: frozenset[str] = frozenset(),
    pinned_by_user: frozenset[str] = frozenset(),
    others: Sequence[OthersHits] = (),
    judge: Judge = unrecorded,
) -> tuple[Hit, ...]:
    """The hits to render.

    Args:
        hits: what was found and is not deleted, the preferred ones first.
        options: limit, threshold (a hit on it is chosen), types and session.
        visible: every text that the model sees anyway.
        cost: what rendering a hit takes of the budget. A smaller one may still fit after one that does not.
        pinned: ids of memories that need not reach the threshold; those in `pinned_by_user` come before all others, too.
        others: hits of other owners, each with its own limit and bound on tokens; all are ranked as one, but for pins.
        judge: takes the verdict on each hit; where it takes several, the last one holds.
    """
    own, allowances = _Allowance(options.limit, budget.tokens), _allowances(others, budget)
    texts, already = VisibleTexts(visible), _ChosenTexts()
    left, pinned_left = budget.tokens, budget.pinned_tokens
    chosen: list[Hit] = []
    eligible = _eligible(_foremost(hits, pinned_by_user), options, pinned | pinned_by_user, judge)
    wished = (pinned_by_user, frozenset[str]().union(*(other.pinned for other in others)))
    for hit in _ranked(eligible, others, options, wished, judge):
        allowed = allowances.get(hit.memory.scope.owner, own) if others else own
        if (obstacle := _obstacle(hit.memory.content, allowed, already, texts)) is not None:
            judge(hit, obstacle)
            continue
        needed = cost(hit)
        is_pinned = hit.relevance < options.threshold
        if needed > min(left, allowed.tokens) or (is_pinned and needed > pinned_left):
            judge(hit, Verdict.OVER_BUDGET)
            continue
        judge(hit, Verdict.PINNED if is_pinned and any(hit.memory.id in ids for ids in wished) else Verdict.CHOSEN)
        allowed.memories, allowed.tokens = allowed.memories - 1, allowed.tokens - needed
        left, pinned_left = left - needed, pinned_left - needed * is_pinned
        already.add(hit.memory.content)
        chosen.append(hit)
    return tuple(chosen)


def _foremost(hits: Iterable[Hit], ids: frozenset[str]) -> Iterable[Hit]:
    """These first; the rest in the order in which it is."""
    return sorted(hits, key=lambda hit: hit.memory.id not in ids) if ids else hits


def _ranked(
    own: list[Hit],
    others: Sequence[OthersHits],
    options: RecallOptions,
    foremost: tuple[frozenset[str], frozenset[str]],
    judge: Judge,
) -> Iterable[Hit]:
    """The eligible hits of all owners; these ids of the user's come first, and then these of the others'."""
    if not others:
        return own
    of_others = (hit for other in others for hit in _eligible(other.hits, options, other.pinned, judge))
    ranked = sorted((*own, *of_others), key=lambda hit: -hit.relevance)
    of_user, of_the_others = foremost
    return _foremost(_foremost(ranked, of_the_others), of_user)


def _allowances(others: Sequence[OthersHits], budget: Budget) -> dict[str, _Allowance]:
    return {
        other.owner.scope.owner: _Allowance(other.owner.limit, int(budget.tokens * other.owner.budget_share))
        for other in others
    }


def _obstacle(content: str, allowed: _Allowance, already: "_ChosenTexts", visible: VisibleTexts) -> Verdict | None:
    """What keeps a content from being chosen, whatever it costs."""
    if not allowed.memories:
        return Verdict.OVER_LIMIT
    if already.cover(content):
        return Verdict.DUPLICATE
    return Verdict.VISIBLE if visible.contain(content) else None


def _eligible(hits: Iterable[Hit], options: RecallOptions, pinned: frozenset[str], judge: Judge) -> list[Hit]:
    """One owner's hits that may be chosen: no memory says anything of another owner's."""
    known = tuple(hits)
    candidates = list(as_said(_candidates(known, options, pinned, judge), known, judge))
    outdated = outdated_episodes(candidates, known)
    if not outdated:
        return candidates
    for hit in candidates:
        if hit.memory.id in outdated:
            judge(hit, Verdict.OUTDATED)
    return [hit for hit in candidates if hit.memory.id not in outdated]


def _candidates(hits: Iterable[Hit], options: RecallOptions, pinned: frozenset[str], judge: Judge) -> Iterator[Hit]:
    for hit in hits:
        if hit.relevance < options.threshold and not (pinned and hit.memory.id in pinned):
            judge(hit, Verdict.BELOW_THRESHOLD)
        elif hit.memory.within_session not in {"", options.session}:
            judge(hit, Verdict.OTHER_SESSION)
        elif options.types is None or hit.memory.type in options.types:
            yield hit
        else:
            judge(hit, Verdict.FORBIDDEN_TYPE)


def as_said(candidates: Iterable[Hit], known: Sequence[Hit], judge: Judge = unrecorded) -> Iterator[Hit]:
    """Of a quote and its statements one, and what has changed since before the quote that tells the old value.

    The quote is shown, in the user's own words. A statement is shown where its quote is not among what was found, or is
    outdated in part.
    """
    found: dict[str, Hit] = {}
    seen: set[str] = set()
    for hit in candidates:
        if not found and (hit.memory.quote or hit.memory.outdated_by):
            found = {each.memory.id: each for each in known}
        quote = found.get(hit.memory.quote) if hit.memory.quote else None
        if quote and quote.memory.type is hit.memory.type and not quote.memory.outdated_by:
            judge(hit, Verdict.QUOTE_PREFERRED)
            hit = replace(quote, relevance=max(hit.relevance, quote.relevance))  # noqa: PLW2901
        newer = (replace(found[each], relevance=hit.relevance) for each in hit.memory.outdated_by if each in found)
        for each in (*newer, hit):
            if each.memory.id not in seen:
                seen.add(each.memory.id)
                yield each


def outdated_episodes(found: Sequence[Hit], known: Sequence[Hit]) -> frozenset[str]:
    """The ids of the episodes that a newer fact makes misleading.

    Args:
        found: hits that may be given to the model.
        known: all hits: a fact may be a little too far from the question, and still be about the same.
    """
    episodes = [hit.memory for hit in found if hit.memory.type is MemoryType.EPISODIC]
    if not episodes:
        return frozenset()
    facts = [hit.memory for hit in known if hit.memory.metadata.get("replaces")]
    return frozenset(episode.id for episode in episodes if any(_changed(episode, fact) for fact in facts))


def _changed(episode: Memory, fact: Memory) -> bool:
    turns = frozenset(episode.ids("turn_ids"))
    return not turns.isdisjoint(fact.ids("replaces")) and turns.isdisjoint(fact.ids("turn_ids"))


class _ChosenTexts:
    """Whether the chosen memories cover a content: the same statement, or nearly the same terms in the same order."""

    def __init__(self) -> None:
        self._chosen: list[_Content] = []

    def cover(self, content: str) -> bool:
        candidate = _content(content)
        return any(candidate.repeats(chosen) for chosen in self._chosen)

    def add(self, content: str) -> None:
        self._chosen.append(_content(content))


class _Content:
    """What one memory says. Each part is made when it is first compared: reading a text costs more than ranking it."""

    def __init__(self, content: str) -> None:
        self._content = content

    def repeats(self, other: "_Content") -> bool:
        if self.statement == other.statement:
            return True
        return self.function_words == other.function_words and _almost_the_same(self.terms, other.terms)

    @cached_property
    def statement(self) -> tuple[str, ...]:
        return _statement(self._content)

    @cached_property
    def terms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(terms(self._content)))

    @cached_property
    def function_words(self) -> tuple[str, ...]:
        """Words that are seldom terms, and change what a statement says."""
        found = ("not" if token.endswith("n't") else token for token in tokens(self._content))
        return tuple(token for token in found if token in words_of("function_words"))


_content = lru_cache(4_096)(_Content)
"""An active user's memories come again and again."""


def _almost_the_same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether nearly all terms are in both, in the same order, and no number in one of them alone."""
    common = {*one} & {*other}
    apart = {*one} ^ {*other}
    if len(common) <= _ALMOST_THE_SAME * (len(common) + len(apart)) or any(term[0].isdigit() for term in apart):
        return False
    return [term for term in one if term in common] == [term for term in other if term in common]


def _statement(content: str) -> tuple[str, ...]:
    """What a memory says: two with the same statement differ in articles, case or punctuation at most."""
    return tuple(word for word in words(content) if word not in _IGNORED_WORDS) or (content,)
