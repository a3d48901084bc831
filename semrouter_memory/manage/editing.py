"""What a change through the API makes of a memory's content and parts. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from semrouter_memory.manage.schemas import UpdateRequest
from semrouter_memory.model import (
    ASKED,
    CONTEXT,
    EPISODE,
    FORM,
    OUTDATED_BY,
    QUOTE,
    STATEMENTS,
    Episode,
    Memory,
)

_MAX_REPLACED = 200
"""Turn ids stored of a memory's earlier content; a memory is learned from no more."""
_OF_THE_CONTENT = {"turn_ids", "consolidated_from", FORM, CONTEXT, ASKED, QUOTE, STATEMENTS, OUTDATED_BY}
"""Metadata that describes the content and is dropped with it: an edited quote is a statement."""


def edited_episode(memory: Memory, changes: Mapping[str, Any], edit: UpdateRequest) -> Episode:
    """The parts after a change: they describe the content, so another content or another type replaces them."""
    stays = "content" not in changes and changes.get("type", memory.type) is memory.type
    return edit.applied(memory.episode if stays else Episode())


def with_content(memory: Memory, content: str, episode: Episode) -> Memory:
    """The memory with other content; its source turns become the source turns of the content that was replaced.

    A deletion still reaches these turns. An edited summary is no summary of its originals any more.

    Args:
        episode: the parts that describe it.
    """
    metadata = {key: value for key, value in memory.metadata.items() if key != EPISODE} | episode.metadata
    if content == memory.content:
        return replace(memory, metadata=metadata)
    turns = dict.fromkeys((*memory.ids("replaces"), *memory.ids("turn_ids")))
    metadata = {key: value for key, value in metadata.items() if key not in _OF_THE_CONTENT}
    if turns:
        metadata["replaces"] = list(turns)[-_MAX_REPLACED:]
    return replace(memory, content=content, metadata=metadata)
