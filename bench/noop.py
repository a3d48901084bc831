"""An ext_proc server that does nothing: the floor for any service in Python.

Run as a process of its own (`noop.py PORT`). It leaves where the product leaves: the
recall filter after the request body, the observer at the end of the answer. It looks at nothing else of a message.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import uvloop

from semrouter_memory.config import ServerConfig
from semrouter_memory.exchange.replies import Continue
from semrouter_memory.transport import wire


async def _process(stream: AsyncIterator[wire.Message], _context: object) -> AsyncIterator[bytes]:
    async for message in stream:
        kind = message.WhichOneof("request")
        if message.observability_mode:
            if kind == "response_body" and message.response_body.end_of_stream:
                return
            continue
        for reply in wire.replies_to(message, Continue()):
            yield reply
        if kind == "request_body" and message.request_body.end_of_stream:
            return


async def _main(port: int) -> None:
    most = ServerConfig().max_message_bytes
    server = grpc.aio.server(
        options=[("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", most)]
    )
    handler = grpc.stream_stream_rpc_method_handler(_process, request_deserializer=wire.parse)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(wire.SERVICE, {wire.METHOD: handler}),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
