"""The HTTP servers: the users' API and the operator's port."""

from collections.abc import Callable
from contextlib import AsyncExitStack

from semrouter_memory.app.adapters import Adapters
from semrouter_memory.app.pipelines import api_searcher
from semrouter_memory.config import Config, secret
from semrouter_memory.deletion.service import DeletionService
from semrouter_memory.maintenance.schedule import MaintenanceScheduler
from semrouter_memory.manage.backup import Backup
from semrouter_memory.manage.http import create_user_api
from semrouter_memory.manage.operator import Exposition, Readiness, create_operator_api
from semrouter_memory.manage.server import serve_http
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.manage.turn_routes import OperatorContext
from semrouter_memory.recall.searching import Searcher
from semrouter_memory.replay.recordings import Recordings
from semrouter_memory.retain.redact import redact


async def serve_management(
    config: Config,
    adapters: Adapters,
    *,
    maintenance: MaintenanceScheduler,
    deletion: DeletionService,
    shared_secret: str | None,
    readiness: Callable[[], Readiness],
    metrics: Callable[[], Exposition],
    recordings: Recordings,
    searcher: Searcher,
    on_exit: AsyncExitStack,
) -> None:
    """Open both ports.

    Raises:
        ConfigurationError: a port or the operator's token that cannot be had.
    """
    service = _service(config, adapters, maintenance, deletion, api_searcher(searcher, config.memory.recall, adapters))
    users = create_user_api(
        service,
        identity=config.memory.identity,
        config=config.management,
        shared_secret=shared_secret,
        secret_header=config.server.secret_header,
    )
    on_exit.push_async_callback((await serve_http(users, config.management.listen)).stop)
    if config.management.operator_listen is None:
        return
    operator = create_operator_api(
        service,
        identity=config.memory.identity,
        config=config.management,
        token=secret(config.management.operator_token, config.management.operator_token_file),
        readiness=readiness,
        metrics=metrics,
        context=_operator_context(adapters, deletion),
        recordings=recordings,
    )
    on_exit.push_async_callback((await serve_http(operator, config.management.operator_listen)).stop)


def _operator_context(adapters: Adapters, deletion: DeletionService) -> OperatorContext:
    assert adapters.collections is not None
    return OperatorContext(
        records=adapters.turn_log,
        turn_log=adapters.turn_log,
        deletion=deletion,
        collections=adapters.collections,
        backup=Backup(
            turn_log=adapters.turn_log, state=adapters.state, store=adapters.store, file_lock=deletion.file_lock
        ),
    )


def _service(
    config: Config,
    adapters: Adapters,
    maintenance: MaintenanceScheduler,
    deletion: DeletionService,
    searcher: Searcher,
) -> MemoryService:
    return MemoryService(
        reader=adapters.store,
        writer=adapters.store,
        embedder=adapters.embedder,
        turn_log=adapters.turn_log,
        locks=adapters.locks,
        clock=adapters.clock,
        new_id=adapters.new_id,
        redact=redact,
        config=config.management,
        deletion=deletion,
        state=adapters.state,
        written=maintenance.changed,
        ttl_days=config.memory.ageing.ttl_days,
        searcher=searcher,
    )
