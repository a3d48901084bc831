"""An ext_proc server that does nothing: the floor for any service in Python.

Run as a process of its own (`python -m semrouter_memory.bench.noop PORT`). It leaves where the product leaves: the
recall filter after the request body, the observer at the end of the answer.
"""

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc
import grpc.aio
import uvloop

from semrouter_memory.exchange.events import RequestBody, RequestHeaders, ResponseBody
from semrouter_memory.exchange.replies import Continue
from semrouter_memory.transport import wire


async def _process(stream: AsyncIterator[wire.Message], _context: object) -> AsyncIterator[bytes]:
    observing = False
    async for message in stream:
        event = wire.event_from(message)
        if isinstance(event, RequestHeaders):
            observing = event.protocol.observing
        if not observing:
            for reply in wire.replies_to(message, Continue()):
                yield reply
        last = ResponseBody if observing else RequestBody
        if isinstance(event, last) and event.end_of_stream:
            return


async def _main(port: int) -> None:
    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(_process, request_deserializer=wire.parse)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(wire.SERVICE, {wire.METHOD: handler}),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_main(int(sys.argv[1])))
