"""How rows become strings and stream entries, and back. Pure."""

from dataclasses import replace
from typing import Any

import orjson

from semrouter_memory.model import Scope
from semrouter_memory.turn_log.columns import bounded_transcripts, pack, unpack
from semrouter_memory.turn_log.rows import SessionRow, TurnRow, restored


def turn_value(row: TurnRow) -> bytes:
    hashes = bounded_transcripts(row.transcript_hashes)
    return orjson.dumps(replace(row, project_id=_packed(row.project_id), transcript_hashes=hashes))


def turn_row(value: bytes | None) -> TurnRow | None:
    """The turn; None when there is none any more."""
    if value is None:
        return None
    values = orjson.loads(value)
    return restored(TurnRow, {**values, "project_id": _unpacked(values["project_id"])})


def session_value(row: SessionRow) -> bytes:
    scope = row.scope
    packed = Scope(_packed(scope.user_id), _packed(scope.project_id), _packed(scope.agent_id))
    return orjson.dumps(replace(row, scope=packed))


def session_row(value: bytes | None) -> SessionRow | None:
    """Same as `turn_row`, of a session."""
    if value is None:
        return None
    values = orjson.loads(value)
    return restored(SessionRow, {**values, "scope": Scope(*map(_unpacked, values["scope"].values()))})


def _packed(identifier: str) -> str:
    """The bytes of an id as characters: whatever the id holds can be written as JSON, and ids stay apart."""
    return pack(identifier).decode("latin-1")


def _unpacked(identifier: str) -> str:
    return unpack(identifier.encode("latin-1"))


def stream_fields(answer: Any) -> dict[str, bytes]:
    """The fields of an XRANGE's only entry; empty when there is none."""
    return {name.decode(): value for _, fields in answer for name, value in pairs(fields).items()}


def pairs(answer: Any) -> dict[bytes, bytes]:
    """A hash as Redis answers it, whether redis-py has made a dictionary of it or not."""
    if isinstance(answer, dict):
        return answer
    return dict(zip(answer[::2], answer[1::2], strict=True))
