"""Grounding: of what an extractor hands over, only what the user said about themselves passes. Pure.

Strategy. A model that reads a conversation also reads what was pasted into it, what tools returned and what the assistant
said, and may take any of it for a fact, or obey an order in it. So a model's candidate is held against the user's own
words in the batch and its context (`spoken`): every number and name in it must occur there by value, it must speak
of the same people and deny what they denied, and most of its other words must be the user's, or one of them and its vector
near that of one of their sentences. What the assistant suggested passes once the user has taken it up in words of their own. In doubt
nothing passes: the quote of what was said stands, and what is planted stays.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from itertools import chain, product

from semrouter_memory.language.names import capitalised
from semrouter_memory.language.phrases import begins, lists, phrases, word_set
from semrouter_memory.language.scripts import CJK
from semrouter_memory.language.sentences import QUESTION_MARKS, sentences
from semrouter_memory.language.signs import signs
from semrouter_memory.language.values import MONTHS, NUMBER_WORDS, ORDINALS, WEEKDAYS, split
from semrouter_memory.language.words import STOP_WORDS, tokens
from semrouter_memory.model import Candidate, LoggedTurn
from semrouter_memory.retain import content_policy
from semrouter_memory.retain.directives import spoken

NUMBER = "number_not_said"
NAME = "name_not_said"
PERSON = "said_of_another"
NEGATION = "said_otherwise"
WORDS = "words_not_said"

_SUPPORT = 0.5
"""At least this part of a candidate's words must be the user's; the rest is how a model puts it."""
_SUPPORT_WITHOUT_USER = 0.8
"""The same of a candidate that does not speak of the user at all (a how-to, somebody close to them)."""
_SUPPORT_OF_NOTE = 0.6
"""The same of a short note, which puts little in words of its own."""
NEAR = 0.55
"""From this cosine on a sentence says what the statement says, where only the words differ. Of the pairs in `training/`
that say the same 71 % are above it, of unrelated ones about the same things 26 %: numbers, names, people and negation
must agree besides."""
_STEM = 5
"""Words count as the same by so many first letters: "diagnosed", "diagnosis"."""
_SCOPE = 4
"""Words behind a negation that it denies."""
_NOT_SO_SCOPE = 12
"""Words behind a verb that are said with it."""
_BEGINNING = 3
"""Tokens of a sentence in which another person's mention begins."""
_CLAUSE_MARKS = frozenset(",;.!?")
_SOON = 60
"""A date so many days from the turn may be the model's reading of "next Friday"."""

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_AMOUNT = re.compile(r"\d+[A-Za-z]*")
_DATA = lists("grounding", __package__)
_TELLING, _LOOSE = word_set(_DATA["telling"]), word_set(_DATA["loose"])
_CALENDAR = frozenset((*MONTHS, *WEEKDAYS))
_OPENING = STOP_WORDS | word_set(_DATA["opening"])
"""Words with which a sentence begins, and which are no names."""
_HAN_TELLING = frozenset(_DATA["telling_zh"])
_NEGATORS, _NEGATIVE, _DENYING = (word_set(_DATA[name]) for name in ("negators", "negative", "denying"))
_NEGATIVE_HAN = tuple(filter(CJK.match, _NEGATIVE))
_SPELLED = {word: str(number) for word, number in (NUMBER_WORDS | ORDINALS).items()} | dict(
    entry.split("=") for entry in _DATA["numbers"].split()
)
_NOT_SO = tuple(tuple(each.split()) for each in _DATA["not_so"].split("|"))
_WAS_ZH, _PAST_ZH = tuple(_DATA["was_zh"].split()), frozenset(_DATA["past_zh"])
_OTHERS, _THIRD_PERSON = (frozenset(_DATA[name].split()) for name in ("others", "third_person"))
_PEOPLE = {word: line.split()[0] for line in _DATA["people"].strip().splitlines() for word in line.split()}


@dataclass(frozen=True, slots=True)
class Grounded:
    """What passed, and how often each reason turned something away.

    Attributes:
        doubtful: of those that were turned away, what was said in other words at most: nothing but the words speaks
            against them. A vector may.
        said: the user's sentences, to compare these with.
    """

    candidates: tuple[Candidate, ...]
    turned_away: Counter[str] = field(default_factory=Counter)
    doubtful: tuple[Candidate, ...] = ()
    said: tuple[str, ...] = ()

    def settled(self, similarities: Mapping[str, Mapping[str, float]]) -> "Grounded":
        """With those doubtful ones that are near enough to a sentence that does not speak against them.

        Args:
            similarities: of a doubtful candidate's content to each of the sentences.
        """
        near = tuple(each for each in self.doubtful if _is_near(each.content, similarities[each.content]))
        turned_away = self.turned_away - Counter({WORDS: len(near)})
        return Grounded((*self.candidates, *near), turned_away, (), self.said)


def ground(
    candidates: Sequence[Candidate],
    turns: Sequence[LoggedTurn],
    context: Sequence[LoggedTurn] = (),
    *,
    also: Sequence[str] = (),
) -> Grounded:
    """Let through what the user themselves said in these turns or, for what is taken up again, in those before.

    Args:
        turns: what the extractor read, oldest first.
        context: turns before them that it saw.
        also: what may be repeated although the user did not say it.
    """
    owns = map(_told, spoken((*context, *turns)))
    said = _UserWords((*owns, *also), [turn.observed_at for turn in (*context, *turns)])
    passed: list[Candidate] = []
    doubtful: list[Candidate] = []
    turned_away: Counter[str] = Counter()
    for candidate in candidates:
        if why := content_policy.reason(candidate.content) or said.misses(candidate.content):
            turned_away[why] += 1
            if why == WORDS and phrases("the_user").occur_in(candidate.content) and said.shares_word(candidate.content):
                doubtful.append(candidate)
        else:
            passed.append(candidate)
    return Grounded(tuple(passed), turned_away, tuple(doubtful), tuple(said.sentences))


def made_up(text: str, sources: Sequence[str], days: Sequence[datetime]) -> str:
    """What of a text that a model made of sources stands in none of them, as a reason; "" when all of it does.

    Numbers and names are looked for. Chinese names look like any other words, so of a Chinese text half of the words must be
    known.

    Args:
        days: of the sources.
    """
    return _UserWords(sources, days).made_up(text)


def telling(texts: Sequence[str]) -> Callable[[str], bool]:
    """What tells whether most of a note's words stand in the texts, and the sentence that has most of them is not denied."""
    pieces = [" ".join(piece.split()) for text in texts for piece in sentences(text)]
    known, each = _Known(" ".join(pieces).lower()), [(piece, _Known(piece.lower())) for piece in pieces]

    def tells(note: str) -> bool:
        if known.share(note) < _SUPPORT_OF_NOTE:
            return False
        best, _ = max(each, key=lambda one: one[1].share(note), default=("", known))
        return not (denies(note, best) or denies(best, note))

    return tells


def _told(own: str) -> str:
    """What of a user's text is said of what is: without suppositions and orders to write something."""
    return "".join(sentence for sentence in sentences(own) if not _is_supposed(sentence))


def _is_supposed(sentence: str) -> bool:
    return begins(tokens(sentence), phrases("not_told"), phrases("not_told_fillers"))


class _UserWords:
    """The user's own words, to look things up in."""

    def __init__(self, texts: Sequence[str], times: Sequence[datetime]) -> None:
        pieces = [" ".join(piece.split()) for text in texts for piece in sentences(text)]
        self.sentences = [piece for piece in pieces if piece and _tells(piece)]
        lowered = "\n".join(pieces).lower()
        self._text = lowered
        self._signs = signs(lowered)
        self._relative = phrases("relative_days").occur_in(lowered)
        self._days = {time.date() for time in times}
        self._known = _Known(" ".join(self.sentences).lower())
        everything = {_bare(word) for word in _WORD.findall(lowered)}
        self._names = everything | {word[:_STEM] for word in everything}
        self._numbers = _said_numbers(lowered) | {str(day.year) for day in self._days}

    @cached_property
    def _known_each(self) -> list["_Known"]:
        """The words of each sentence."""
        return [_Known(sentence.lower()) for sentence in self.sentences]

    def misses(self, content: str) -> str:
        """What of a statement the user did not say, as a reason; "" when they said it."""
        if not self._knows_numbers(content) or not self._signs.covers(signs(content)):
            return NUMBER
        if not all(self._knows_name(name) for name in capitalised(content)):
            return NAME
        if not _people(content) <= _people(self._text):
            return PERSON
        needed = _SUPPORT if phrases("the_user").occur_in(content) else _SUPPORT_WITHOUT_USER
        if self._known.share(content) < needed:
            return WORDS
        shares = [known.share(content) for known in self._known_each]
        best = self.sentences[shares.index(max(shares))] if shares else ""
        return _against(content, best)

    def shares_word(self, content: str) -> bool:
        """Whether any word of a statement is the user's: "a dog" is as near to "a cat" as any paraphrase."""
        return self._known.share(content) > 0

    def made_up(self, text: str) -> str:
        """Same, of the numbers and names of a text that may begin its sentences with any word."""
        if not self._knows_numbers(text):
            return NUMBER
        names = (word for word in _WORD.findall(_AMOUNT.sub(" ", CJK.sub(" ", text))) if word != word.lower())
        if not all(_bare(name.lower()) in _OPENING or self._knows_name(name) for name in names):
            return NAME
        return WORDS if CJK.search(text) and self._known.share(text) < _SUPPORT else ""

    def _knows_numbers(self, content: str) -> bool:
        return all(ways & self._numbers or self._is_soon(value) for value, ways in _numbers(_without_loose(content)))

    def _is_soon(self, value: str) -> bool:
        """Whether it is a date that may stand for "today" or "next Friday"."""
        kind, _, date = value.partition(":")
        return kind == "date" and any(
            f"{day:%m%d}" == date
            for said in self._days
            for day in (said + timedelta(each) for each in (range(-_SOON, _SOON) if self._relative else (0,)))
        )

    def _knows_name(self, name: str) -> bool:
        word = _bare(name.lower().rstrip(".,;:"))
        known = _TELLING | _CALENDAR | self._names
        return word in known or (len(word) > _STEM and word[:_STEM] in known) or (len(word) > 1 and word in self._text)


class _Known:
    """The words of a text."""

    def __init__(self, lowered: str) -> None:
        self._words = {_bare(word) for word in _WORD.findall(lowered)}
        self._stems = {word[:_STEM] for word in self._words}
        self._han = set(_bigrams(lowered))
        self._numbers = _said_numbers(lowered)

    def share(self, content: str) -> float:
        """How much of a statement's words are known."""
        told, pairs = _words(content)
        if not told and not pairs:
            return 1.0 if next(_numbers(content.lower()), None) else 0.0
        known = sum(self.knows(word) for word in told)
        return (known + sum(pair in self._han for pair in pairs)) / (len(told) + len(pairs))

    def knows(self, word: str) -> bool:
        """Whether the word, one that begins like it, or its number is among them."""
        if word in self._words or (len(word) >= _STEM and word[:_STEM] in self._stems):
            return True
        return _SPELLED.get(word) in self._numbers or (
            word in _PEOPLE and _PEOPLE[word] in map(_PEOPLE.get, self._words)
        )


@lru_cache(64)
def _words(content: str) -> tuple[list[str], list[str]]:
    """The words of a statement and its pairs of Han characters, without those that it only tells with."""
    lowered = content.lower()
    told = [word for each in _WORD.findall(CJK.sub(" ", lowered)) if (word := _bare(each)) not in _TELLING]
    return told, _bigrams(lowered)


def _tells(sentence: str) -> bool:
    """Whether a sentence may say something of the user: a question does where it speaks of them."""
    return not sentence.endswith(QUESTION_MARKS) or _speaks_of_user(tokens(sentence))


def _is_near(content: str, similarities: Mapping[str, float]) -> bool:
    best = max(similarities, key=lambda sentence: similarities[sentence], default="")
    near = bool(best) and similarities[best] >= NEAR and not best.endswith(QUESTION_MARKS)
    return near and not _against(content, best)


def _against(content: str, sentence: str) -> str:
    """What speaks against a statement in the sentence that it was made from."""
    found = tokens(sentence)
    who, end = _other_person(found)
    rest = found[end:]
    # Behind the person, a name may stand.
    says = any(phrases("says").length_at(rest, at) for at in range(2))
    by_user = not who or (_speaks_of_user(rest) and not says)
    if (who and who not in _people(content) and not by_user) or _is_of_another(found, content):
        return PERSON
    otherwise = denies(content, sentence) or denies(sentence, content) or _is_not_so(content, sentence)
    return NEGATION if otherwise else ""


def _is_not_so(content: str, sentence: str) -> bool:
    """Whether a statement says in the present what the sentence says of before, wishes or asks: "lives", of "used to live"."""
    told, pairs = _words(content)
    clauses = list(_clauses(tokens(sentence)))
    said, stems = set(tokens(content)), {word[:_STEM] for word in told}
    for verb, *rest in chain.from_iterable(map(_behind_not_so, clauses)):
        about = {_bare(word)[:_STEM] for word in rest[:_NOT_SO_SCOPE]}
        if _present(verb) & said and about & stems:
            return True
    if not pairs or _PAST_ZH & set(content):
        return False
    joined = ["".join(clause) for clause in clauses]
    shared = [len(set(pairs).intersection(_bigrams(clause))) for clause in joined]
    most = [clause for clause, count in zip(joined, shared, strict=True) if count == max(shared)]
    return all(any(was in clause[:_BEGINNING] for was in _WAS_ZH) for clause in most)


def _behind_not_so(clause: Sequence[str]) -> Iterator[Sequence[str]]:
    """What follows words behind which an English clause says what is not so: the verb and the rest."""
    for at, words in product(range(len(clause)), _NOT_SO):
        end = at + len(words)
        if tuple(clause[at:end]) == words and end < len(clause):
            yield clause[end:]


def _present(verb: str) -> set[str]:
    """What a verb may be behind "User"."""
    return {f"{verb}s", f"{verb}es", f"{verb[:-1]}ies", *({"be": ("is",), "have": ("has",)}.get(verb, ()))}


def _other_person(found: Sequence[str]) -> tuple[str, int]:
    """Whom a sentence begins with other than the user, and the token behind: "my sister ...", "我妈妈..."; "" for none."""
    for at in range(min(_BEGINNING, len(found))):
        if length := phrases("possessives").length_at(found, at):
            listed = ((size, "".join(found[at + length : at + length + size])) for size in (2, 1))
            return next(((_PEOPLE[word], at + length + size) for size, word in listed if word in _PEOPLE), ("", 0))
    return "", 0


def _is_of_another(found: Sequence[str], content: str) -> bool:
    """Whether the subject of a sentence is somebody whom the statement leaves out: "Bob is ...", "she's ..."."""
    if not phrases("the_user").occur_in(content) or _people(content) or _speaks_of_user(found):
        return False
    subject, shortened, _ = "".join(found[:1]).partition("'")
    if subject in _OTHERS:
        return not capitalised(content)
    verb = "is" if shortened else "".join(found[1:2])
    return verb in _THIRD_PERSON and subject not in _OPENING and not _Known(content.lower()).knows(_bare(subject))


def _speaks_of_user(found: Sequence[str]) -> bool:
    """Whether the user is spoken of, and not only something of theirs."""
    if next(phrases("first_person").places(found), None) is not None:
        return True
    ends = [at + length for at in range(len(found)) if (length := phrases("first_person_zh").length_at(found, at))]
    return any(tuple(found[end : end + 1]) != ("的",) for end in ends)


def denies(affirmed: str, text: str) -> bool:
    """Whether a text denies words that the other one says without any denial."""
    negative = {*_WORD.findall(affirmed.lower())} & _NEGATIVE or any(map(affirmed.__contains__, _NEGATIVE_HAN))
    if negative or _negations(affirmed):
        return False
    scope = {stem for each in _negations(text) for stem in each}
    if any(map(text.__contains__, _NEGATIVE_HAN)):
        scope |= set(_bigrams(text))
    said = {_bare(word)[:_STEM] for word in _WORD.findall(affirmed.lower()) if _bare(word) not in _TELLING}
    return bool((said | set(_bigrams(affirmed))) & scope)


def _negations(text: str) -> list[set[str]]:
    """For each negation of a text the stems that it denies."""
    found: list[set[str]] = []
    for clause in _clauses(tokens(text)):
        behind: deque[str] = deque(maxlen=_SCOPE)
        for at, word in reversed([*enumerate(clause)]):
            if word in _NEGATORS or word in _DENYING or word.endswith("n't"):
                found.append({*behind, *_bigrams("".join(clause[at + 1 : at + 1 + _SCOPE]))})
            if not CJK.match(word) and (bare := _bare(word)) not in _TELLING:
                behind.appendleft(bare[:_STEM])
    return found


def _clauses(found: Sequence[str]) -> Iterator[list[str]]:
    clause: list[str] = []
    for at, token in enumerate(found):
        if token in _CLAUSE_MARKS or phrases("clause_ends").length_at(found, at):
            yield clause
            clause = []
        else:
            clause.append(token)
    yield clause


def _people(text: str) -> set[str]:
    lowered = text.lower()
    found = {_PEOPLE[bare] for word in _WORD.findall(lowered) if (bare := re.sub(r"['’]s?$", "", word)) in _PEOPLE}
    return found | {who for word, who in _PEOPLE.items() if CJK.match(word) and word in lowered}


def _bare(word: str) -> str:
    """Without an 's, and without a plural's s."""
    word = re.sub(r"['’]s?$", "", word)
    return word[:-1] if len(word) > _STEM and word.endswith("s") and not word.endswith("ss") else word


def _numbers(text: str) -> Iterator[tuple[str, set[str]]]:
    """The numbers of a text as values, each with the ways in which it may have been said.

    A day may stand for a date, an hour for the same hour of the afternoon, and a word like "dozen" for its number.
    """
    values, rest = split(text)
    for value in values:
        kind, _, number = value.partition(":")
        if kind in {"address", "month"} or not number[-1:].isdigit():
            continue
        ways = {number}
        if kind == "date":
            ways.add(f"{int(number[2:])}")
        if kind == "time":
            hours = {int(number[:2]), (int(number[:2]) + 12) % 24} if number < "12" else {int(number[:2])}
            ways = {f"{hour:02d}{number[2:]}" for hour in hours}
            ways |= {str(hour) for each in hours for hour in (each, each % 12)} if number.endswith("00") else set()
        if kind == "cm":
            # "1.5m" may be metres, or a million and a half.
            ways |= {f"{float(number) / 100:g}", f"{float(number) * 10_000:.12g}"}
        yield value, ways
    yield from (("", {word.strip(".,;:!?()")}) for word in rest.split() if any(map(str.isdigit, word)))
    yield from (("", {_SPELLED[word]}) for word in _WORD.findall(text.lower()) if word in _SPELLED)


def _said_numbers(text: str) -> set[str]:
    return {way for _, ways in _numbers(text) for way in ways}


def _without_loose(content: str) -> str:
    """Without words like "one", which may be no number."""
    return " ".join(word for word in content.split() if word.lower().strip(",.;:") not in _LOOSE)


def _bigrams(text: str) -> list[str]:
    return [
        text[at : at + 2]
        for at in range(len(text) - 1)
        if all(CJK.match(char) and char not in _HAN_TELLING for char in text[at : at + 2])
    ]
