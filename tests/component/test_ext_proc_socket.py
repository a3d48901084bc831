"""The gRPC server's Unix socket: a dead process's is replaced, a living one's is not."""

import socket
from pathlib import Path
from typing import cast

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from semrouter_memory.config import ServerConfig
from semrouter_memory.errors import ConfigurationError
from semrouter_memory.transport.processor import Processor
from semrouter_memory.transport.server import ExtProcServer


class NoProcessor:
    def process(self) -> None:
        raise NotImplementedError


def server_at(path: Path) -> ExtProcServer:
    config = ServerConfig(listen=f"unix:{path}", drain_seconds=0)
    return ExtProcServer(config, cast("Processor", NoProcessor()))


async def is_serving(path: Path) -> bool:
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        answer = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def test_a_second_server_does_not_take_the_socket_of_a_running_one(tmp_path: Path) -> None:
    path = tmp_path / "ext_proc.sock"
    first, second = server_at(path), server_at(path)
    await first.start()
    with pytest.raises(ConfigurationError, match=r"server\.listen: .*another process answers there"):
        await second.start()
    assert await is_serving(path)
    await first.stop()


async def test_a_socket_that_a_dead_process_left_behind_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "ext_proc.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    server = server_at(path)
    await server.start()
    assert await is_serving(path)
    await server.stop()
