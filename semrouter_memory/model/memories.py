"""Memories with their metadata, what becomes of new statements, and what maintenance did to them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from semrouter_memory.model.scope import Json, MemoryType, Scope, Vector

SESSION_SOURCE = "session"
"""`Memory.source` of a session's summary: it repeats what others say, and is no statement of its own."""

REFLECTION_SOURCE = "reflection"
"""`Memory.source` of an insight, which a model drew from memories."""

DERIVED_FROM = "derived_from"
"""Metadata of an insight: the ids of the memories that it was drawn from. It is deleted with each of them."""

IMPORTED_AT = "imported_at"
"""Metadata: when the memory was imported; what was deleted before that does not cover it."""

FORM = "form"
"""Metadata: `quote` for the user's own words, `passage` for a part of a document; other memories are statements."""

CONTEXT = "context"
"""Metadata of a quote: what it was said about, as far as its own words do not tell (a question that it answers). Of a passage: the
title and the headings above it."""

ASKED = "asked"
"""Metadata of a quote: the question that it answers, where its own words tell. It is found by it, and shown without."""

STATEMENTS = "statements"
"""Metadata of a quote: what it says for certain, as `Fact`s."""

QUOTE = "quote"
"""Metadata of a statement that a model made: the id of the quote that says it."""

EPISODE = "episode"
"""Metadata of an episodic memory: an `Episode`, as far as its parts are known."""

CATEGORY = "category"
"""Metadata: the category that a caller gave the memory."""

PASSAGE_COUNT = "passage_count"
"""Metadata of a memory that is longer than the embedding model reads: the number of its passages, by which it is found."""

OUTDATED_BY = "outdated_by"
"""Metadata of a quote that says more than what has changed since: the ids of the memories that say the new value."""

ASSERTED_AT = "asserted_at"
"""Metadata: when it was said by the turn log's times, where the system's clock stood before that."""

WITHIN = "within"
"""Metadata of a memory that holds within one session: what the client calls it (`session`), and whether the memory becomes the
owner's own at its end (`promote`)."""

PINNED = "pinned"
"""Metadata: true for a memory that the user wants to have in every request."""

# The metadata that the service writes itself, by name.

PROVENANCE_IDS = frozenset({"turn_ids", "replaces", "contradicts", "consolidated_from", DERIVED_FROM, OUTDATED_BY})
"""Lists of ids."""

PROVENANCE_KINDS: Mapping[str, type] = {
    "extractor": str,
    "model": str,
    FORM: str,
    CONTEXT: str,
    ASKED: str,
    QUOTE: str,
    STATEMENTS: list,
    EPISODE: dict,
    WITHIN: dict,
    "confirmations": int,
    PASSAGE_COUNT: int,
    "flagged": bool,
    PINNED: bool,
    IMPORTED_AT: str,
    ASSERTED_AT: str,
}
"""The types of the others."""

PROVENANCE = PROVENANCE_IDS | PROVENANCE_KINDS.keys()
"""All of them. A deletion follows `turn_ids` to the turns that a memory came from."""


def derived_id(*of: str) -> str:
    """The id of a memory that is made of exactly that: making it again writes the same row."""
    return f"mem_{hashlib.sha256(json.dumps(of).encode()).hexdigest()[:28]}"


Form = Literal["quote", "statement", "passage"]
"""How a memory is worded: in the user's own words, in the third person, or as a document says it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A statement taken apart: "User's budget for the Hawaii trip is $10,000".

    Attributes:
        attribute: what has the value, for example "budget for the Hawaii trip".
        value: as it was said.
        text: the statement itself.
    """

    attribute: str
    value: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """What was done: the parts of an episodic memory, "" or none where a part is not known.

    Attributes:
        steps: in their order; of an agent's run the names of the tools.
        lessons: what to do the same or otherwise next time.
    """

    goal: str = ""
    steps: tuple[str, ...] = ()
    outcome: str = ""
    lessons: tuple[str, ...] = ()

    @property
    def metadata(self) -> dict[str, Json]:
        """The member of a memory's metadata that holds it; none for an episode without parts."""
        parts = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {EPISODE: parts} if any(parts.values()) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One memory: a statement in the third person ("User's budget for the Hawaii trip is $10,000"), or a quote.

    Attributes:
        content: the statement, or what the user said in their own words.
        observed_at: when it was said; decides what is newer.
        superseded_at: set when a newer memory replaced it; from then on it is history and is not recalled.
        source: `conversation`, `session` (the summary of one), `reflection` (an insight) or `api`.
        metadata: provenance (`turn_ids`, `extractor`, `model`) and whatever an API caller attached.
        passage: 0 for a whole memory; else this is a passage of the long memory with this id, counted from 1.
    """

    id: str
    scope: Scope
    type: MemoryType
    content: str
    source: str
    observed_at: datetime
    created_at: datetime
    updated_at: datetime
    session_id: str = ""
    superseded_at: datetime | None = None
    superseded_by: str = ""
    expires_at: datetime | None = None
    importance: float = 0.5
    metadata: Mapping[str, Json] = field(default_factory=dict)
    passage: int = 0

    @property
    def passage_count(self) -> int:
        """The number of passages of a long memory, 0 for one that the embedding model reads whole."""
        value = self.metadata.get(PASSAGE_COUNT)
        return value if isinstance(value, int) else 0

    @property
    def form(self) -> Form:
        match self.metadata.get(FORM):
            case "quote":
                return "quote"
            case "passage":
                return "passage"
            case _:
                return "statement"

    @property
    def context(self) -> str:
        """What a quote was said about, "" when its own words tell; the title and headings of a passage."""
        return self._text(CONTEXT) if self.form != "statement" else ""

    @property
    def asked(self) -> str:
        """The question that a quote answers, "" when there was none or it is the context."""
        return self._text(ASKED) if self.form == "quote" else ""

    def _text(self, name: str) -> str:
        value = self.metadata.get(name)
        return value if isinstance(value, str) else ""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What a quote says for certain."""
        value = self.metadata.get(STATEMENTS)
        found = value if isinstance(value, list) and self.form == "quote" else []
        return tuple(fact for each in found if (fact := _fact(each)))

    @property
    def episode(self) -> Episode:
        """The parts of an episodic memory."""
        value = self.metadata.get(EPISODE)
        return _episode(value) if isinstance(value, Mapping) and self.type is MemoryType.EPISODIC else Episode()

    @property
    def within_session(self) -> str:
        """What the client calls the session that it holds in, "" for a memory that holds everywhere."""
        value = self._within.get("session")
        return value if isinstance(value, str) else ""

    @property
    def promote(self) -> bool:
        """Whether it becomes the owner's own at the session's end."""
        return bool(self.within_session) and self._within.get("promote") is True

    @property
    def _within(self) -> Mapping[str, Json]:
        value = self.metadata.get(WITHIN)
        return value if isinstance(value, Mapping) else {}

    @property
    def pinned(self) -> bool:
        """Whether the user wants to have it in every request. Such a memory does not expire, and is evicted last."""
        return self.metadata.get(PINNED) is True

    @property
    def outdated_by(self) -> tuple[str, ...]:
        """Ids of the memories that say a new value of something that this one tells among other things."""
        return self.ids(OUTDATED_BY)

    @property
    def confirmations(self) -> int:
        """How often it was said again."""
        count = self.metadata.get("confirmations", 0)
        # A caller's metadata may use the name for something else.
        return count if isinstance(count, int) and not isinstance(count, bool) else 0

    @property
    def quote(self) -> str:
        """The id of the quote that a statement was made from, "" for none."""
        return self._text(QUOTE) if self.form == "statement" else ""

    @property
    def searched(self) -> str:
        """The text that words are looked for in: the content with its context, and with the names of what it tells."""
        return _searched(self.content, self.context or self.asked, self.facts)

    @property
    def asserted_at(self) -> datetime:
        """When it was last asserted: said, or imported later. What was deleted after that stays deleted.

        By the turn log's times, which are later than the dates that are shown where the clock was set back.
        """
        return max(self.said_at, self._time(IMPORTED_AT))

    @property
    def said_at(self) -> datetime:
        """When it was said, in the order in which it was said; `observed_at` is the date."""
        return self._time(ASSERTED_AT)

    def _time(self, name: str) -> datetime:
        value = self.metadata.get(name)
        try:
            return max(self.observed_at, datetime.fromisoformat(value)) if isinstance(value, str) else self.observed_at
        except (TypeError, ValueError):
            # Not ours: a caller's own metadata from before the name was reserved.
            return self.observed_at

    def asserted(self, time: datetime, *, now: datetime) -> "Memory":
        """The memory as said at that time of the turn log's; the date that is shown is not in the future.

        Args:
            now: the system's time.
        """
        noted = self.noting({ASSERTED_AT: None if time <= now else time.isoformat()})
        return replace(noted, observed_at=min(time, now))

    def changed(self, now: datetime, **values: Any) -> "Memory":
        """The memory with other values. It is newer than before, also where the clock was set back: the newer row holds."""
        return replace(self, updated_at=max(now, self.updated_at + timedelta.resolution), **values)

    def noting(self, values: Mapping[str, Json]) -> "Memory":
        """The memory with these values in its metadata; None takes a name out."""
        metadata = {**self.metadata, **values}
        gone = {name for name, value in values.items() if value is None}
        return replace(self, metadata={name: value for name, value in metadata.items() if name not in gone})

    def ids(self, name: str) -> tuple[str, ...]:
        """Ids in the metadata under that name, which an import may have filled with anything; else none."""
        return _strings(self.metadata.get(name))


def _searched(content: str, context: str, facts: Sequence[Fact]) -> str:
    said = f"{context} {content}" if context else content
    named = [fact.attribute for fact in facts if fact.attribute.lower() not in said.lower()]
    return " ".join((*named, said))


def _strings(value: Json) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list | tuple) else ()


def _episode(parts: Mapping[str, Json]) -> Episode:
    """An episode of the metadata, which an import may have filled with anything."""
    goal, outcome = ("".join(_strings([parts.get(name)])) for name in ("goal", "outcome"))
    return Episode(
        goal=goal, steps=_strings(parts.get("steps")), outcome=outcome, lessons=_strings(parts.get("lessons"))
    )


def _fact(value: Json) -> Fact | None:
    """A fact of the metadata, which an import may have filled with anything."""
    if not isinstance(value, Mapping):
        return None
    parts = [part for name in ("attribute", "value", "text") if isinstance(part := value.get(name), str)]
    return Fact(*parts) if len(parts) == len(fields(Fact)) else None


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedMemory:
    """A memory with the vector it is found by: what the store writes. Each is equal to itself alone."""

    memory: Memory
    vector: Vector


_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` up to but without `end`, both in UTC; without them always."""

    start: datetime = _EARLIEST
    end: datetime = _LATEST

    def __contains__(self, time: datetime) -> bool:
        return self.start <= time < self.end


ALWAYS = Period()


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that a search found.

    Attributes:
        similarity: the cosine, -1..1.
        relevance: what is compared with `similarity_threshold`; at first the same as `similarity`.
    """

    memory: Memory
    similarity: float
    relevance: float


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, newest first; `cursor` "" means that there is no further page."""

    memories: tuple[Memory, ...]
    cursor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something an extractor found worth remembering, before it is reconciled with what is known.

    Attributes:
        extractor: what found it: `quotes` or `llm`.
        context: what a quote was said about, "" when its own words tell.
        asked: the question that a quote answers, "" when there was none or it is the context.
        model: what answered the user in that turn.
        extraction_model: what read the turn, where that was a model.
        facts: what a quote says for certain.
        quote: the id of the quote that a statement was made from.
        episode: the parts of what happened, of an episodic memory.
    """

    type: MemoryType
    content: str
    observed_at: datetime
    extractor: str
    session_id: str = ""
    turn_ids: tuple[str, ...] = ()
    model: str = ""
    extraction_model: str = ""
    form: Form = "statement"
    context: str = ""
    asked: str = ""
    facts: tuple[Fact, ...] = ()
    quote: str = ""
    episode: Episode = Episode()

    @property
    def searched(self) -> str:
        """The text that it is found by; see `Memory.searched`."""
        return _searched(self.content, self.context or self.asked, self.facts)


@dataclass(frozen=True, slots=True)
class Usage:
    """How often a memory was put into a request, and when last."""

    access_count: int
    last_accessed_at: datetime


class ReconcileAction(StrEnum):
    ADD = "add"
    UPDATE = "update"
    """Another value: the targets are superseded."""
    REFINE = "refine"
    """The same in more detail: the targets are superseded."""
    RETRACT = "retract"
    """What the targets say is no longer so: they are superseded."""
    SKIP = "skip"
    FLAG = "flag"
    """Contradicts the targets, and nothing tells which holds: both stay, marked."""


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What to do with a candidate, and why.

    Attributes:
        reason: a short word for the log, for example `same_attribute_new_value`.
        targets: the known memories that are superseded (UPDATE, REFINE, RETRACT), confirmed (SKIP: one) or contradicted
            (FLAG). With ADD: history that belongs before a candidate that arrived late.
        outdated: quotes of which a part is replaced; they stay, marked.
        successor: the memory that was said after the candidate and replaced it: the candidate is written as history.
    """

    action: ReconcileAction
    reason: str
    targets: tuple[Memory, ...] = ()
    successor: Memory | None = None
    outdated: tuple[Memory, ...] = ()


class EvictionReason(StrEnum):
    """Why maintenance deletes a memory."""

    EXPIRED = "expired"
    TOMBSTONED = "tombstoned"
    """It was deleted while the store was unavailable: hidden since, purged now."""
    HISTORY = "history"
    """Superseded for longer than history is stored."""
    ORPHANED = "orphaned"
    """History of a memory that does not exist any more, or an insight of which a source is deleted or superseded."""
    PRUNED = "pruned"
    """Unused, with a low score, for long."""
    QUOTA = "quota"


@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """A memory that maintenance may delete, as it was when that was decided."""

    memory: Memory
    reason: EvictionReason
    usage: Usage | None = None


Counts = dict[str, dict[str, int]]


@dataclass(slots=True, kw_only=True)
class MaintenanceReport:
    """What a maintenance run did so far; at its end it is logged and counted.

    Attributes:
        memories: how many were looked at, of how many `owners`; history included.
        deleted: reason -> type -> how many.
        would_delete: the same of memories that pruning in `dry-run` would delete.
        would_delete_ids: reason -> ids of those, a bounded number of them.
        held: seem unused, but usage has not been counted for long enough to prune them.
        summaries: memories that consolidation wrote, in place of `merged` others.
        insights: memories that reflection wrote.
        ended: values of the state store that had ended.
        failures: short names of unavailable parts; the work that needs them was skipped.
    """

    memories: int = 0
    owners: int = 0
    deleted: Counts = field(default_factory=dict)
    would_delete: Counts = field(default_factory=dict)
    would_delete_ids: dict[str, tuple[str, ...]] = field(default_factory=dict)
    held: int = 0
    summaries: int = 0
    insights: int = 0
    merged: int = 0
    ended: int = 0
    failures: tuple[str, ...] = ()
    seconds: float = 0.0

    def failed(self, service: str) -> None:
        """A part is unavailable."""
        self.failures = tuple(dict.fromkeys((*self.failures, service)))
