"""What every codec does: it reads a request, edits its bytes, and reads the answer.

Strategy: a request body is parsed for understanding (`parse`) and edited as bytes (`rewrite`): only our own two fields
and the injected text change, every other byte stays, so number formats, key order, duplicate keys, white space and
unknown fields survive. An answer is read incrementally and never changed.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from semrouter_memory.codec.answers import AnswerStream, reader_for
from semrouter_memory.codec.base import AnswerReader, Outline, ParsedRequest, ToolResult
from semrouter_memory.codec.conversation import Entry, answered_by_calls, converse, outline, results
from semrouter_memory.codec.edit import (
    before_elements,
    body_of,
    body_settings,
    encoded,
    forces_call,
    has_our_fields,
    into_message,
    into_value,
    last,
    takes_text,
    top_level,
    with_member,
    with_texts,
    without,
    without_elements,
)
from semrouter_memory.codec.json_text import json_object, string
from semrouter_memory.codec.settings import OUR_FIELDS
from semrouter_memory.codec.splice import Edit, Member, apply, document, element, elements
from semrouter_memory.model import Json, Position

_REBUILT = (*OUR_FIELDS, "previous_response_id")
"""What leaves a request whose chain is rebuilt."""


class Codec(ABC):
    """One API's request and answer bodies. Stateless.

    Attributes:
        array: the body's member with the conversation.
        part_type: the type of a text part in a user's message.
        result_text: the member of its elements that has a tool's result.
        joint: what stands between several texts of one answer.
        stream: reads the answers.
    """

    __slots__ = ()
    array: ClassVar[str]
    part_type: ClassVar[str]
    result_text: ClassVar[str]
    joint: ClassVar[str]
    stream: ClassVar[type[AnswerStream]]

    # -- what each API has of its own ----------------------------------------------------------------------------------

    @abstractmethod
    def entries(self, body: dict[str, Any]) -> list[Entry]:
        """The conversation in a body. Raises `BodyError` when it has another form."""

    @abstractmethod
    def place(self, body: Mapping[str, Json], position: Position) -> int | str | None:
        """Where a block goes: into the array's message of that number, or the body's text of that name; None: nowhere.

        -1: into a system message of its own, before the others.
        """

    @abstractmethod
    def is_replaceable(self, item: dict[str, Any]) -> bool:
        """Whether a tool's result is nothing but text, and another text may stand in its place."""

    def items(self, parsed: ParsedRequest) -> tuple[Json, ...] | None:  # noqa: ARG002 - for an API that has some
        """What the request adds to a stored chain, as items; None when the API has none or the body is silent.

        Needs the parsed body.
        """
        return None

    def before(self, raw: bytes, given: Member, items: Sequence[Json]) -> list[Edit]:  # noqa: ARG002 - same
        """Puts items before the request's own; nothing when it has none to put them before."""
        return []

    # -- what is the same for all --------------------------------------------------------------------------------------

    def parse(self, raw: bytes) -> ParsedRequest:
        """Raises `BodyError` when the bytes are not this API's JSON."""
        body = json_object(raw)
        entries = self.entries(body)
        if forced := forces_call(body):
            entries = answered_by_calls(entries)
        return ParsedRequest(
            forces_call=forced,
            settings=body_settings(body),
            model=string(body.get("model")),
            body=body,
            entries=entries,
            **converse(entries, joint=self.joint),
        )

    def outline(self, parsed: ParsedRequest) -> Outline:
        """What of the conversation could be left out. Needs the codec's entries."""
        return outline(parsed.entries, joint=self.joint)

    def has_place(self, parsed: ParsedRequest, position: Position) -> bool:
        """Whether `rewrite` finds a place for a block. Needs the parsed body."""
        body: Mapping[str, Any] = parsed.body or {}
        place = self.place(body, position)
        if isinstance(place, str):
            return takes_text(body.get(place), parts=False)
        return place is not None and (place < 0 or takes_text(body[self.array][place].get("content"), parts=True))

    def rewrite(
        self,
        raw: bytes,
        *,
        block: str,
        position: Position,
        parsed: ParsedRequest | None = None,
        dropped: Collection[int] = (),
        items: Sequence[Json] | None = None,
    ) -> bytes:
        """`raw` without our two fields, with `block` inserted ("" = only take our fields out).

        Returns `raw` itself when nothing is to change, or when there is no place for the block.
        Only called with bytes that `parse` accepted.

        Args:
            parsed: what `parse` made of `raw`, to spare parsing it again.
            dropped: positions of messages to leave out.
            items: items to put before the request's own, in place of `previous_response_id`.
        """
        body = body_of(raw, parsed)
        if not block and not dropped and items is None and not has_our_fields(body):
            return raw
        found = top_level(raw)
        array = last(found, self.array)
        edits = self.before(raw, array, items) if array and items is not None else []
        # A rebuilt loop's step brings no user message, so a rebuilt chain always has the block in the system position.
        position, leaving = (Position.SYSTEM, _REBUILT) if edits else (position, OUR_FIELDS)
        if block:
            placed = self._placed(raw, found, self.place(body, position), block, leaving)
            if not placed:
                # Without a place for what stands in for them, the earlier turns stay.
                return apply(raw, without(found, OUR_FIELDS))
            edits += placed
        if dropped and array:
            edits += without_elements(list(elements(raw, array.value.start)), dropped)
        return apply(raw, without(found, leaving) + edits)

    def _placed(
        self, raw: bytes, found: list[Member], place: int | str | None, block: str, leaving: Collection[str]
    ) -> list[Edit]:
        """Puts a block in; nothing when what is there has a form that no API knows."""
        if place is None:
            return []
        member = last(found, place if isinstance(place, str) else self.array)
        if isinstance(place, str):
            if member is None:
                return [with_member(document(raw), found, place, encoded(block), leaving=leaving)]
            return into_value(raw, member.value, block)
        assert member is not None, "the place is in it"
        if place < 0:
            return [before_elements(raw, member.value, b'{"role":"system","content":' + encoded(block) + b"}")]
        return into_message(raw, element(raw, member.value, place), self.part_type, block)

    def results(self, parsed: ParsedRequest) -> tuple[ToolResult, ...]:
        """The results of tools in the request, oldest first. Needs the parsed body and the codec's entries."""
        given: Any = (parsed.body or {}).get(self.array)
        return results(parsed.entries, lambda place: self.is_replaceable(given[place]))

    def with_results(self, raw: bytes, texts: Mapping[int, str]) -> bytes:
        """`raw` with other texts as the results at these positions, which are replaceable ones of `results`."""
        array = last(top_level(raw), self.array)
        return apply(raw, with_texts(raw, array.value, self.result_text, texts)) if array else raw

    def answer_reader(self, content_type: str, *, max_bytes: int) -> AnswerReader | None:
        """A reader for that content type, None for one that carries no answer."""
        return reader_for(content_type, self.stream, max_bytes=max_bytes)
