"""How rows become hashes and stream entries, and back. Pure."""

from collections.abc import Mapping
from typing import Any

import orjson

from semrouter_memory.model import Scope, TurnState
from semrouter_memory.turn_log.columns import (
    dump_texts,
    dump_tools,
    dump_transcripts,
    load_texts,
    load_tools,
    load_transcripts,
    pack,
    unpack,
)
from semrouter_memory.turn_log.redis.connection import Argument
from semrouter_memory.turn_log.rows import Content, SessionRow, TurnRow


def turn_values(row: TurnRow) -> dict[str, Argument]:
    return {
        "owner": row.owner,
        "project": pack(row.project_id),
        "session": row.session_id,
        "state": row.state.value,
        "observed_at": row.observed_at,
        "kept_since": "" if row.kept_since is None else row.kept_since,
        "remember": int(row.remember),
        "rules_done": int(row.rules_done),
        "rules_found": int(row.rules_found),
        "attempts": row.attempts,
        "error": row.error,
        "parent": "" if row.parent is None else row.parent,
        "response": row.response,
        "previous": "-" if row.previous is None else row.previous,
        "ends": int(row.ends),
        "keys": ",".join(row.keys),
        "transcripts": dump_transcripts(row.transcript_hashes) or b"",
    }


def turn_row(sequence: int, values: Mapping[bytes, bytes]) -> TurnRow | None:
    """The turn; None when there is none under that number any more."""
    if b"state" not in values:
        return None
    keys = values[b"keys"].decode()
    return TurnRow(
        sequence=sequence,
        owner=values[b"owner"].decode(),
        project_id=unpack(values[b"project"]),
        session_id=values[b"session"].decode(),
        state=TurnState(values[b"state"].decode()),
        observed_at=int(values[b"observed_at"]),
        kept_since=_optional(values[b"kept_since"]),
        remember=values[b"remember"] == b"1",
        rules_done=values[b"rules_done"] == b"1",
        rules_found=values[b"rules_found"] == b"1",
        attempts=int(values[b"attempts"]),
        error=values[b"error"].decode(),
        parent=_optional(values[b"parent"]),
        response=values[b"response"].decode(),
        previous=None if values[b"previous"] == b"-" else values[b"previous"].decode(),
        ends=values[b"ends"] == b"1",
        keys=tuple(keys.split(",")) if keys else (),
        transcript_hashes=tuple(load_transcripts(values[b"transcripts"])),
    )


def session_values(row: SessionRow) -> dict[str, Argument]:
    return {
        "user": pack(row.scope.user_id),
        "project": pack(row.scope.project_id),
        "agent": pack(row.scope.agent_id),
        "newest": row.newest,
        "waiting": row.waiting,
        "rules_pending": row.rules_pending,
        "remember": int(row.remember),
        "oldest_waiting": row.oldest_waiting,
        "last_observed_at": row.last_observed_at,
        "dead": row.dead,
        "summarised": row.summarised,
        "unsummarised": row.unsummarised,
        "end_at": row.end_at,
        "token": row.token,
        "lease_until": row.lease_until,
        "not_before": "" if row.not_before is None else row.not_before,
    }


def session_row(session_id: str, values: Mapping[bytes, bytes]) -> SessionRow | None:
    """The session; None when there is none of that id any more."""
    if b"user" not in values:
        return None
    return SessionRow(
        id=session_id,
        scope=Scope(unpack(values[b"user"]), unpack(values[b"project"]), unpack(values[b"agent"])),
        newest=int(values[b"newest"]),
        waiting=int(values[b"waiting"]),
        rules_pending=int(values[b"rules_pending"]),
        remember=values[b"remember"] == b"1",
        oldest_waiting=int(values[b"oldest_waiting"]),
        last_observed_at=int(values[b"last_observed_at"]),
        dead=int(values[b"dead"]),
        summarised=int(values[b"summarised"]),
        unsummarised=int(values[b"unsummarised"]),
        end_at=int(values[b"end_at"]),
        token=values[b"token"].decode(),
        lease_until=int(values[b"lease_until"]),
        not_before=_optional(values[b"not_before"]),
    )


def pending_value(row: SessionRow) -> bytes:
    """The session as one value of the hash that `pending` reads."""
    return orjson.dumps({name: _text(value) for name, value in session_values(row).items()})


def pending_row(session_id: str, value: bytes) -> SessionRow | None:
    values = {name.encode(): item.encode("latin-1") for name, item in orjson.loads(value).items()}
    return session_row(session_id, values)


def _text(value: Argument) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def content_values(content: Content) -> dict[str, Argument]:
    values: dict[str, Argument] = {
        "user": dump_texts(content.user_texts),
        "assistant": content.assistant_text,
        "tools": dump_tools(content.tools),
        "model": content.model,
    }
    if content.items is not None:
        values["items"] = content.items
    return values


def content_of(values: Mapping[bytes, bytes]) -> Content:
    return Content(
        user_texts=tuple(load_texts(values[b"user"])),
        assistant_text=values[b"assistant"].decode(),
        tools=tuple(load_tools(values[b"tools"])),
        model=values[b"model"].decode(),
        items=values.get(b"items"),
    )


def _optional(value: bytes) -> int | None:
    return int(value) if value else None


def stream_fields(answer: Any) -> dict[bytes, bytes]:
    """The fields of an XRANGE's only entry; empty when there is none."""
    if not answer:
        return {}
    _, fields = answer[0]
    return fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))


def pairs(answer: Any) -> dict[bytes, bytes]:
    """A hash as Redis answers it, whether redis-py has made a dictionary of it or not."""
    if isinstance(answer, dict):
        return answer
    return dict(zip(answer[::2], answer[1::2], strict=True))
