"""The gRPC server around the processor: address, limits, health service, orderly stop."""

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health  # type: ignore[attr-defined]  # not in its stubs

from semrouter_memory.config import ServerConfig
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.sockets import clear_stale_socket, unix_path
from semrouter_memory.transport import wire
from semrouter_memory.transport.processor import Processor

_MIN_PING_INTERVAL_MS = 1_000


class ExtProcServer:
    """Serves one address. `start` returns when it accepts streams, `stop` when the running ones have ended."""

    def __init__(self, config: ServerConfig, processor: Processor) -> None:
        self._config = config
        self._health = health.HealthServicer()
        self._server = grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", config.max_message_bytes),
                ("grpc.max_send_message_length", config.max_message_bytes),
                ("grpc.max_concurrent_streams", config.max_concurrent_streams),
                # Streams that are not accepted yet: from 1,000 on gRPC refuses some at random, and with the observer's
                # stream the turn is gone. How many may be open is bounded above.
                ("grpc.server.max_pending_requests", config.max_concurrent_streams),
                ("grpc.server.max_pending_requests_hard_limit", config.max_concurrent_streams),
                # Two processes on one port would share it silently, and the kernel puts all load on one of them.
                ("grpc.so_reuseport", 0),
                # Envoy's connection_keepalive pings more often than grpc allows by default ("Too many pings").
                ("grpc.http2.max_ping_strikes", 0),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", _MIN_PING_INTERVAL_MS),
                *_connection_age(config),
            ]
        )
        handler = grpc.stream_stream_rpc_method_handler(processor.process, request_deserializer=wire.parse)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(wire.SERVICE, {wire.METHOD: handler}),)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)

    async def start(self) -> str:
        """Bind and serve.

        Returns:
            The bound address; with port 0 the one that was drawn.

        Raises:
            ConfigurationError: the address is taken or malformed.
        """
        listen = self._config.listen
        try:
            port = self._server.add_insecure_port(_target(listen))
        except RuntimeError:
            raise ConfigurationError(
                f"server.listen: cannot listen on {listen}: the address is taken or not ours; choose another one"
            ) from None
        await self._server.start()
        await self.set_serving(serving=True)
        if path := unix_path(listen):
            # Whoever can write to the socket can claim any identity: its owner and group only.
            path.chmod(0o660)
            return listen
        return f"{listen.rpartition(':')[0]}:{port}"

    async def set_serving(self, *, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", wire.SERVICE):
            await self._health.set(service, status)

    async def stop(self) -> None:
        """Take no new streams, let the running ones end within `drain_seconds`, then cut them (Envoy fails open)."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(self._config.drain_seconds)


def _connection_age(config: ServerConfig) -> list[tuple[str, int]]:
    """The running streams of a connection that is replaced go on for as long as they need."""
    seconds = config.max_connection_seconds
    return [] if seconds is None else [("grpc.max_connection_age_ms", round(1000 * seconds))]


def _target(listen: str) -> str:
    path = unix_path(listen)
    if path is None:
        return listen
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        clear_stale_socket(path)
    except ConfigurationError as error:
        raise ConfigurationError(f"server.listen: cannot listen on {listen}: {error}") from None
    return f"unix:{path.absolute()}"
