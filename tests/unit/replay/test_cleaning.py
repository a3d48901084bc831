"""What is taken out before anything is written."""

import gzip
import json
from typing import Any

import pytest
from backports import zstd

from semrouter_memory.replay.cleaning import CREDENTIAL_HEADERS, Cleaner, CleaningSettings
from semrouter_memory.replay.pb.recording_pb2 import Record
from semrouter_memory.replay.records import body_part, fields_in, leaves, line_of
from semrouter_memory.retain.redact import without_secrets
from semrouter_memory.transport.wire import value_of
from tests.records import answered, begin, end, sent, struct

CANARY = "sk-canary7Q2x9Lm4Vb8Kz1Tn6Rw3"
WORDS = "Clementine lives in Reykjavik since 1987"


def cleaned(*records: Record, **settings: Any) -> list[Record]:
    cleaner = Cleaner(CleaningSettings(without_secrets, identity_headers=frozenset({"x-authz-user-id"}), **settings))
    return cleaner.cleaned(records)


def body_of(record: Record) -> bytes:
    part = body_part(record.request)
    return part.body if part else b""


def request(body: bytes, *headers: tuple[str, bytes]) -> tuple[Record, ...]:
    return sent("request_headers", headers=headers), sent("request_body", body=body, end_of_stream=True)


def written_out(records: list[Record]) -> str:
    return "\n".join(line_of(record).decode() for record in records)


@pytest.mark.parametrize("name", sorted({*CREDENTIAL_HEADERS, "X-My-Api-Key", "Authorization", "x-tenant-secret"}))
def test_credentials_in_headers_are_not_recorded(name: str) -> None:
    """In requests, answers and gRPC metadata, whatever the value looks like."""
    events = cleaned(
        begin("e", ((name.lower(), b"plainvalue"),)),
        sent("request_headers", headers=((name, b"plainvalue"),)),
        sent("response_headers", headers=((name, b"plainvalue"),)),
        answered("request_headers", set_headers=((name, b"plainvalue"),)),
    )
    assert "plainvalue" not in written_out(events)
    assert written_out(events).count("[redacted]") == 4


def test_a_configured_header_is_not_recorded() -> None:
    events = cleaned(*request(b"", ("X-Tenant", b"acme"), ("x-other", b"stays")), headers=frozenset({"x-tenant"}))
    assert "acme" not in written_out(events)
    assert "stays" in written_out(events)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"messages": [{"role": "user", "content": f"my key is {CANARY}"}]}).encode(),
        json.dumps({"tools": [{"type": "mcp", "headers": {"Authorization": "Bearer " + CANARY}}]}).encode(),
        json.dumps(
            {"messages": [{"tool_calls": [{"function": {"arguments": json.dumps({"api_key": CANARY})}}]}]}
        ).encode(),
        f'data: {{"choices":[{{"delta":{{"content":"key {CANARY}"}}}}]}}\n\ndata: [DONE]\n\n'.encode(),
        f"not json: {CANARY}".encode(),
        f'{{"messages": [{{"content": "cut {CANARY}'.encode(),
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_secret_in_a_body_is_not_recorded_however_it_is_cut(body: bytes, step: int) -> None:
    chunks = [body[start : start + step] for start in range(0, len(body), step)]
    events = cleaned(
        sent("response_headers", headers=()),
        *(sent("response_body", body=chunk) for chunk in chunks),
    )
    whole = b"".join(body_of(event) for event in events)
    assert CANARY.encode() not in whole
    assert b"redacted]" in whole
    assert len(events) == 1 + len(chunks)


def test_a_secret_spread_over_deltas_is_not_recorded() -> None:
    pieces = [CANARY[start : start + 3] for start in range(0, len(CANARY), 3)]
    frames = [
        json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in ["key: ", *pieces, " ok"]
    ]
    body = "".join(f"data: {frame}\n\n" for frame in frames).encode()
    (_, event) = cleaned(sent("response_headers"), sent("response_body", body=body))
    texts = [
        json.loads(line[6:])["choices"][0]["delta"]["content"] for line in body_of(event).decode().split("\n\n")[:-1]
    ]
    assert CANARY[8:20] not in "".join(texts)
    assert len(texts) == len(frames)
    assert "".join(texts) == "key: [redacted] ok"


@pytest.mark.parametrize(("coding", "module"), [(b"gzip", gzip), (b"zstd", zstd)])
def test_a_secret_in_a_compressed_answer_is_not_recorded(coding: bytes, module: Any) -> None:
    body = module.compress(json.dumps({"choices": [{"message": {"content": CANARY}}]}).encode())
    events = cleaned(
        sent("response_headers", headers=(("content-encoding", coding),)),
        sent("response_body", body=body[:20]),
        sent("response_body", body=body[20:]),
    )
    plain = module.decompress(b"".join(body_of(event) for event in events))
    assert json.loads(plain)["choices"][0]["message"]["content"] == "[redacted]"


@pytest.mark.parametrize("plain", [True, False])
def test_a_secret_in_a_long_text_without_spaces_is_not_recorded(plain: bool) -> None:
    """Lines that a tool returned, a URL, a minified file: long, and no file in base64."""
    text = ",".join(["name=Clementine"] * 400 + [f"key={CANARY}"] + ["town=Reykjavik"] * 400)
    body = text if plain else json.dumps({"messages": [{"role": "user", "content": text}]})
    assert CANARY not in written_out(cleaned(*request(body.encode())))
    pseudonymised = written_out(cleaned(*request(body.encode()), pseudonym_key=b"k"))
    assert not any(word in pseudonymised for word in ("Clementine", "Reykjavik", CANARY))


@pytest.mark.parametrize("before", range(4_070, 4_100, 3))
def test_a_sentence_with_a_secret_is_read_whole_wherever_it_stands(before: int) -> None:
    text = ("It rains. " * 500)[: before - 2] + ". My password is hunter2Xy9 and it rains."
    assert "hunter2Xy9" not in written_out(cleaned(*request(text.encode())))


def test_a_file_in_base64_stays_as_it_is() -> None:
    url = "data:image/png;base64," + "iVBORw0KGgo" * 1_000 + "=="
    body = json.dumps({"messages": [{"role": "user", "content": [{"image_url": {"url": url}}]}]}).encode()
    assert body_of(cleaned(*request(body))[1]) == body
    assert "iVBORw0KGgo" not in written_out(cleaned(*request(body), pseudonym_key=b"k"))


def test_without_secrets_a_body_stays_as_it_is_to_the_byte() -> None:
    body = '{ "a" : 1.50e3, "a": "ü\\u00fc", "messages":[ {"content" :"hello"} ] }'.encode()
    assert body_of(cleaned(*request(body))[1]) == body


def test_pseudonyms_are_the_same_for_the_same_and_keep_the_shape() -> None:
    body = json.dumps(
        {
            "model": "gpt-x",
            "user": "alice",
            "temperature": 0.7,
            "messages": [
                {"role": "user", "content": f"{WORDS}. clementine!"},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": '{"city":"Reykjavik","n":42}'}}],
                },
            ],
        },
        ensure_ascii=False,
    ).encode()
    events = cleaned(*request(body, ("x-authz-user-id", b"alice")), pseudonym_key=b"key")
    new = json.loads(body_of(events[1]))
    text = new["messages"][0]["content"]
    for word in [*WORDS.split(), "clementine"]:
        assert word not in written_out(events)
    assert len(body_of(events[1])) == len(body) - len("alice") + len(new["user"])
    assert text.split()[0].lower() == text.split()[-1].strip("!")
    assert text[0].isupper()
    arguments = json.loads(new["messages"][1]["tool_calls"][0]["function"]["arguments"])
    assert arguments["city"] == text.split()[3]
    assert arguments["n"] != 42
    assert (new["model"], new["temperature"], new["messages"][0]["role"]) == ("gpt-x", 0.7, "user")
    assert value_of(fields_in(events[0])[0]).decode() == new["user"] != "alice"
    assert cleaned(*request(body), pseudonym_key=b"key")[1] == events[1]
    assert cleaned(*request(body), pseudonym_key=b"other")[1] != events[1]


def test_pseudonyms_of_a_stream_are_those_of_its_whole_text() -> None:
    frames = [
        json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in ("Rey", "kja", "vik is")
    ]
    body = ("".join(f"data: {frame}\r\n\r\n" for frame in frames) + ": ping\n\ndata: [DONE]\n\n").encode()
    stream = cleaned(
        sent("response_headers"),
        sent("response_body", body=body),
        pseudonym_key=b"k",
    )[1]
    whole = cleaned(*request(json.dumps({"content": "Reykjavik is"}).encode()), pseudonym_key=b"k")[1]
    lines = [line for line in body_of(stream).decode().splitlines() if line.startswith("data: {")]
    texts = [json.loads(line[6:])["choices"][0]["delta"]["content"] for line in lines]
    assert "".join(texts) == json.loads(body_of(whole))["content"]
    assert len(body_of(stream)) == len(body)
    assert body_of(stream).endswith(b"data: [DONE]\n\n")


def test_what_cannot_be_read_is_blanked_out() -> None:
    encoded = cleaned(*request(b"anything", ("content-encoding", b"zstd")))
    binary = cleaned(*request(b"\xff\x00\xfe"), pseudonym_key=b"k")
    assert b"anything" not in body_of(encoded[1])
    assert b"\xfe" not in body_of(binary[1])
    assert cleaned(end())[0] == end()


def test_a_number_in_metadata_that_json_does_not_know_is_nothing() -> None:
    (record,) = cleaned(sent("request_body", attributes={"a": struct({"b": float("nan"), "c": 1.0})}))
    assert '{"b":null,"c":1.0}' in written_out([record])
    kinds = {name: value.WhichOneof("kind") for name, value in leaves(record.request.attributes["a"])}
    assert kinds == {"b": None, "c": "number_value"}
