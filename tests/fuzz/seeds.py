"""Where fuzzing starts: small inputs of every kind, in the spelling of `targets`."""

import gzip
import json
import random
import zlib
from collections.abc import Iterable

import brotli

from semrouter_memory.transport.pb import ext_proc_pb2 as pb
from tests.answer_bodies import CASES, CHAT, SSE
from tests.fuzz.reading import sized
from tests.fuzz.targets import MODES, PIECES, REQUESTS

WIRE_MODES = (
    pb.ProtocolConfiguration.STREAMED,
    pb.ProtocolConfiguration.BUFFERED,
    pb.ProtocolConfiguration.BUFFERED_PARTIAL,
    pb.ProtocolConfiguration.FULL_DUPLEX_STREAMED,
)
CHAT_BODY = b'{"model":"m","messages":[{"role":"user","content":"What is my budget?"}]}'
BODIES = (
    CHAT_BODY,
    b'{"input":"hi","instructions":null,"temperature":1.0}',
    (
        b'{"messages":[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"x"}]}],'
        b'"memory_config":{"enabled":true,"retrieval_limit":-1},"n":1E+2}'
    ),
    (
        b'{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f"}}]},'
        b'{"role":"tool","tool_call_id":"c","content":"r"},7,null,{"role":"user","content":"\\ud83d\\ude00 \\"\\\\"}]}'
    ),
    (
        b'{"input":[{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call_output","call_id":"c",'
        b'"output":"r"},{"role":"user","content":[{"type":"input_image"}]}],"conversation":{"id":"v"}}'
    ),
    b'{"messages":[],"messages":[{"role":"user","content":null,"content":""}],"memory_context":{"user_id":"alice"}}',
    b'{"messages":' + b"[" * 40 + b'"\\\\\\""' + b"]" * 40 + b"}",
    rb'{"memory\u005fconfig":0 ,"a":{"b":[]},"input":[{"role":"user"}],"store":false,"previous_response_id":"p"}',
    b'\xef\xbb\xbf{"messages":[NaN,1e999,123456789012345678901234567890,"\\ud800"]}',
)
STREAMS = (
    b'data: {"choices":[{"index":1000000000,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
    (
        b'data: {"choices":[{"index":-1,"delta":{"tool_calls":[{"index":"x","id":"c","function":{"name":"f"}},'
        b'{"index":999999999,"function":{"arguments":"{"}}]}},{"index":[],"delta":[]},3]}\r\n\r\n'
    ),
    b"event: e\rid: 1\rretry: 5\rdata:a\rdata\r\r: comment\r\ndata: b\n\ndata",
    (
        b'data: {"type":"response.output_text.delta","output_index":1e9,"content_index":-5,"delta":"x"}\n\n'
        b'data: {"type":"response.output_item.added","output_index":99999999,"item":{"type":"function_call"}}\n\n'
        b'event: response.completed\ndata: {"response":{"output":[7,{"type":["message"]}],"status":{}}}\n\n'
    ),
)
_LONG = b'data: {"choices":[{"delta":{"content":"' + b"a" * 600 + b'"}}]}\n\n'


def request_bodies() -> Iterable[bytes]:
    return (bytes([codec, position, 0]) + body for body in BODIES for codec in (0, 1) for position in (0, 1))


def event_streams() -> Iterable[bytes]:
    bodies = (*STREAMS, *(case.body for case in CASES if case.content_type == SSE))
    return (bytes([size]) + body for body in bodies for size in (0, 1))


def answers() -> Iterable[bytes]:
    for case in CASES:
        yield bytes([case.path != CHAT, case.content_type == SSE, 3]) + case.body
    for body in (*STREAMS, _LONG * 9):
        yield from (bytes([codec, 1, 1]) + body for codec in (0, 1))


def compressed_bodies() -> Iterable[bytes]:
    for number, compress in enumerate((gzip.compress, zlib.compress, brotli.compress)):
        for text in (b"", STREAMS[0], b"a" * 100_000):
            whole = compress(text)
            for body in (whole, whole[:-5], whole + b"garbage", whole + whole, compress(whole)):
                yield bytes([number, 1]) + body


def exchanges() -> Iterable[bytes]:
    answer = b'{"choices":[{"message":{"content":"$10"}}]}'
    for request in range(len(MODES)):
        for response in (0, 1, 2, 5):
            for observing in (0, 4):
                head = bytes([observing, request, response, 0, 0, 0])
                cut = b"\0\0" + sized(CHAT_BODY[:20])
                last = b"\0\1" + sized(CHAT_BODY[20:])
                ended = bytes([3, 0, 0, 4, 1]) + sized(answer)
                yield head + b"\0\1" + sized(CHAT_BODY) + ended
                yield head + cut + last + ended + b"\0\1" + sized(b"more")
                yield head + cut + bytes([3, 0, 0]) + last + b"\7"
                yield head + cut + cut + b"\6" + ended
                yield head + cut + bytes([8, 0, 0, 2]) + last + last
                yield head + b"\0\0" + sized(b"x" * 2000) + last + b"\6"


def wire_bodies() -> Iterable[bytes]:
    for mode in WIRE_MODES:
        headers = pb.HttpHeaders(
            headers=pb.HeaderMap(
                headers=[pb.HeaderValue(key=key, raw_value=value.encode()) for key, value in REQUESTS[0]]
            )
        )
        opening = pb.ProcessingRequest(
            request_headers=headers,
            protocol_config=pb.ProtocolConfiguration(request_body_mode=mode, response_body_mode=mode),
        )
        opening.metadata_context.filter_metadata["jwt"].update({"sub": "alice", "n": [1, None, {"x": True}]})
        messages = [
            opening,
            pb.ProcessingRequest(request_body=pb.HttpBody(body=CHAT_BODY, end_of_stream=True)),
            pb.ProcessingRequest(response_headers=headers),
            pb.ProcessingRequest(response_body=pb.HttpBody(body=STREAMS[0], end_of_stream=True)),
            pb.ProcessingRequest(response_trailers=pb.HttpTrailers()),
        ]
        yield b"5  " + b"".join(sized(message.SerializeToString()) for message in messages)
    yield b"nan" + sized(b"\xff" * 9) + sized(json.dumps({}).encode())


def messages() -> Iterable[bytes]:
    """Each piece beside others that are drawn."""
    chance = random.Random(0)
    return (bytes([*chance.choices(range(len(PIECES)), k=30), at]) for at in range(len(PIECES)))


SEEDS: dict[str, list[bytes]] = {
    "request_body": list(request_bodies()),
    "event_stream": list(event_streams()),
    "answer": list(answers()),
    "compressed": list(compressed_bodies()),
    "exchange": list(exchanges()),
    "wire_messages": list(wire_bodies()),
    "message": list(messages()),
}
