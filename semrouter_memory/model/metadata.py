"""The metadata of a memory that the service writes itself, by name."""

from collections.abc import Mapping

from semrouter_memory.model.memories import (
    ASKED,
    ASSERTED_AT,
    CONTEXT,
    DERIVED_FROM,
    EPISODE,
    FORM,
    IMPORTED_AT,
    OUTDATED_BY,
    PASSAGE_COUNT,
    PINNED,
    QUOTE,
    STATEMENTS,
    WITHIN,
)

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
