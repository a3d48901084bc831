"""The HTTP servers (the users' API and the operator's port), and the recordings that the operator may follow."""

import secrets
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial

from fastapi import FastAPI

from semrouter_memory.app.pipelines import Pipelines
from semrouter_memory.config import Config, secret
from semrouter_memory.errors import ConfigurationError, InputFileError
from semrouter_memory.manage.access import Access
from semrouter_memory.manage.backup import write_backup
from semrouter_memory.manage.explaining import Explainer
from semrouter_memory.manage.http import Readiness, create_operator_api, create_user_api
from semrouter_memory.manage.http_server import serve_http
from semrouter_memory.manage.operator_routes import OperatorContext
from semrouter_memory.manage.reflecting import Reflector
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.replay.recordings import Recordings
from semrouter_memory.retain.redact import redact, without_secrets
from semrouter_memory.sockets import address_of


async def serve_management(
    config: Config,
    pipelines: Pipelines,
    *,
    explainer: Explainer,
    shared_secret: str | None,
    readiness: Callable[[], Readiness],
    metrics: Callable[[], tuple[bytes, str]],
    recordings: Recordings,
    on_exit: AsyncExitStack,
) -> None:
    """Open both ports. Raises: ConfigurationError: a port or the operator's token that cannot be had."""
    management = config.management
    access = Access(
        service=MemoryService(
            pipelines.adapters,
            new_id=new_memory_id,
            redact=redact,
            config=management,
            deletion=pipelines.deletion,
            written=pipelines.maintenance.changed,
            ttl_days=config.memory.ageing.ttl_days,
            searcher=pipelines.search,
            session_lifetime=timedelta(hours=config.memory.retain.session_memory_hours),
            explainer=explainer,
        ),
        identity=config.memory.identity,
        knowledge=pipelines.knowledge,
        reflector=_reflector(config, pipelines),
    )
    secret_header = config.server.secret_header
    users = create_user_api(access, config=management, shared_secret=shared_secret, secret_header=secret_header)
    await _serve(users, "management.listen", management.listen, on_exit)
    if management.operator_listen is None:
        return
    operator = create_operator_api(
        access,
        config=management,
        token=secret(management.operator_token, management.operator_token_file),
        readiness=readiness,
        metrics=metrics,
        context=_operator_context(pipelines, recordings),
    )
    await _serve(operator, "management.operator_listen", management.operator_listen, on_exit)


async def _serve(app: FastAPI, setting: str, listen: str, on_exit: AsyncExitStack) -> None:
    """Serve with all routes made.

    FastAPI makes those of included routers while the first request looks for its own, for tens of milliseconds, and every
    exchange that is under way would wait for it.
    """
    for route in app.routes:
        route.matches({"type": "http", "method": "", "path": "", "headers": []})
    with address_of(setting):
        on_exit.push_async_callback((await serve_http(app, listen)).stop)


def _reflector(config: Config, pipelines: Pipelines) -> Reflector:
    memory = config.memory
    return Reflector(
        backends=pipelines.adapters,
        searcher=pipelines.search,
        knowledge=pipelines.knowledge if memory.knowledge.limit else None,
        model=pipelines.models.reflecting,
        config=memory.reflection,
        threshold=memory.default_similarity_threshold,
        max_chars=config.management.max_content_chars,
    )


def _operator_context(pipelines: Pipelines, recordings: Recordings) -> OperatorContext:
    adapters, deletion = pipelines.adapters, pipelines.deletion
    assert adapters.collections is not None
    return OperatorContext(
        turn_log=adapters.turn_log,
        deletion=deletion,
        collections=adapters.collections,
        recordings=recordings,
        backup=partial(write_backup, adapters, adapters.store, file_lock=deletion.file_lock),
    )


def new_memory_id() -> str:
    """`mem_`, 12 hex digits of milliseconds, 16 random ones: sorts by time, cannot be guessed."""
    return f"mem_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


async def start_recordings(config: Config) -> Recordings:
    """Recording as configured; more can be asked for at the operator's port.

    Raises:
        ConfigurationError: there is no place for recordings, or no key.
    """
    own, identity = config.recording, config.memory.identity
    recordings = Recordings(
        own,
        directory=config.memory.directory / "recordings",
        redact=without_secrets,
        identity_headers=frozenset({identity.user_header, *identity.other_headers, identity.session_header}),
        secret_headers=frozenset({config.server.secret_header}),
        pseudonym_key=secret(own.pseudonym_key, own.pseudonym_key_file),
    )
    try:
        await recordings.start()
    except InputFileError as error:
        raise ConfigurationError(f"recording.directory: {error}") from None
    return recordings
