"""Removes credentials, and on request content, from exchanges before they are written. Pure.

Always: the values of headers that carry credentials, in requests, answers and gRPC metadata, and everything that the
given redaction finds in header values and bodies. With a key: every word and every id gets a pseudonym, so that what is
left is the shape of the traffic.

Pseudonyms are the same for the same word, and as long in bytes. A keyed digest of the word (case folded) says which letters
stand for its letters; upper case, digits and Chinese characters stay of their kind. So texts keep their shape, a word that is
cut in two by a stream's pieces needs no care once the pieces are joined, and words cannot be looked up without the key. Ids get
a short name of their own.
"""

import hashlib
import hmac
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from semrouter_memory.language.phrases import word_set
from semrouter_memory.language.scripts import CJK_RANGE
from semrouter_memory.replay.bodies import BLANK, Value, nested, scrubbed_chunks
from semrouter_memory.replay.pb.recording_pb2 import Record
from semrouter_memory.replay.records import (
    REQUEST_ID,
    body_part,
    changed,
    fields_in,
    header_value,
    kind_of,
    leaves,
    mutation_of,
    set_value,
)
from semrouter_memory.transport.pb.ext_proc_pb2 import HeaderValue, StreamedBodyResponse
from semrouter_memory.transport.wire import value_of

REDACTED = "[redacted]"


CREDENTIAL_HEADERS = word_set("""authorization proxy-authorization authentication-info proxy-authentication-info cookie set-cookie cookie2 set-cookie2
    x-api-key api-key apikey x-apikey x-goog-api-key x-goog-iam-authorization-token ocp-apim-subscription-key
    x-auth-token x-access-token x-id-token x-session-token x-csrf-token x-xsrf-token x-amz-security-token x-amzn-oidc-data
    x-amzn-oidc-accesstoken x-forwarded-access-token x-forwarded-authorization x-forwarded-client-cert
    x-original-authorization x-jwt-assertion cf-access-jwt-assertion x-ms-token-aad-access-token x-vault-token
    x-memory-secret x-shared-secret x-webhook-secret x-hub-signature x-hub-signature-256 dpop""")
"""Header names whose values are never recorded, whatever is configured."""

_CREDENTIAL_NAME = re.compile(
    r"(?:^|[-_.])(?:passw(?:or)?d|passwd|secret|token|credentials?|api[-_]?key|apikey|access[-_]?key|private[-_]?key"
    r"|signature|sig|auth|authorization)$|^(?:key|code|bearer)$",
    re.IGNORECASE,
)
"""Of headers, of query parameters and of a body's members; `max_tokens` and the like are none."""

_QUERY = re.compile(r"([?&;])([^=&;#?]+)=([^&;#]*)")
_BLOB_CHARS = 4096
_BASE64 = re.compile(r"(?:data:[\w.+/;=-]{0,200},)?[A-Za-z0-9+/_-]+={0,2}")
_PIECE_CHARS = 4096
_BOUNDARIES = ("\n", ". ", "。", " ", ",", "，", ";", "&", '"')
"""Where a long text is cut, the best first: a sentence with a secret is recognised by all of its words."""


@dataclass(frozen=True, slots=True)
class CleaningSettings:
    """What is removed.

    Attributes:
        redact: removes secrets from a text.
        headers: further header names, in lower case, whose values are not recorded.
        identity_headers: names, in lower case, of headers that carry ids.
        pseudonym_key: b"": content stays as it is.
    """

    redact: Callable[[str], str]
    headers: frozenset[str] = frozenset()
    identity_headers: frozenset[str] = frozenset()
    pseudonym_key: bytes = b""


class Cleaner:
    """Cleans exchanges, all in the same way."""

    def __init__(self, settings: CleaningSettings) -> None:
        self._headers = CREDENTIAL_HEADERS | settings.headers
        self._pseudonyms = Pseudonyms(settings.pseudonym_key) if settings.pseudonym_key else None
        self._texts = _Texts(settings.redact, self._pseudonyms, self._headers)
        self._identities = settings.identity_headers | {REQUEST_ID}

    def cleaned(self, records: Sequence[Record]) -> list[Record]:
        """Copies of an exchange's records."""
        copies = [changed(record) for record in records]
        for record in copies:
            self._clean_all_but_body(record)
        for members in _bodies(copies):
            parts = [_body_part(record) for record in members]
            chunks = scrubbed_chunks([part.body for part in parts], _encoding(copies, members[0]), self._texts)
            for record, part, chunk in zip(members, parts, chunks, strict=True):
                part.body = chunk
                _set_length(record, len(chunk))
        return copies

    def _clean_all_but_body(self, record: Record) -> None:
        match record.WhichOneof("record"):
            case "begin":
                record.begin.exchange = self._id(record.begin.exchange)
            case "request":
                for named in (record.request.metadata_context.filter_metadata, record.request.attributes):
                    for struct in named.values():
                        self._clean_struct(struct)
            case "response":
                for option in mutation_of(record.response).set_headers:
                    self._clean_field(option.header)
                self._clean_struct(record.response.dynamic_metadata)
        for field in fields_in(record):
            self._clean_field(field)

    def _clean_field(self, field: HeaderValue) -> None:
        text = value_of(field).decode("utf-8", "surrogateescape")
        set_value(field, self._header(field.key, text).encode("utf-8", "surrogateescape"))

    def _header(self, name: str, value: str) -> str:
        name = name.lower()
        if name in self._headers or _CREDENTIAL_NAME.search(name):
            return REDACTED
        if "?" in value:
            value = _QUERY.sub(self._parameter, value)
        if name in _PLAIN or name.startswith(":"):
            return value
        if name in self._identities:
            # Ids look like secrets often enough, and without them users and sessions cannot be told apart.
            return self._id(value)
        value = self._texts.redacted(value)
        return value if self._pseudonyms is None or name.startswith(_HARMLESS) else self._id(value)

    def _parameter(self, match: re.Match[str]) -> str:
        mark, name, value = match.groups()
        if _CREDENTIAL_NAME.search(name) or name.lower() in self._headers:
            return f"{mark}{name}={REDACTED}"
        redacted = self._texts.redacted(value)
        return f"{mark}{name}={redacted if self._pseudonyms is None else self._pseudonyms.text(redacted)}"

    def _id(self, value: str) -> str:
        return value if self._pseudonyms is None else self._pseudonyms.identity(value)

    def _clean_struct(self, struct: Any) -> None:
        """Dynamic metadata and attributes: claims and the like, which are ids."""
        for name, value in leaves(struct):
            if value.HasField("string_value"):
                value.string_value = self._text(name, value.string_value)
            elif not math.isfinite(value.number_value):
                # JSON, the other format, knows no such numbers.
                value.ClearField("number_value")

    def _text(self, name: str, text: str) -> str:
        bare = name.lower().removesuffix("']").rpartition("['")[2]
        if bare in self._headers or _CREDENTIAL_NAME.search(bare):
            return REDACTED
        return self._id(text) if self._pseudonyms else self._texts.redacted(text)


_PLAIN = word_set("""content-type content-length content-encoding transfer-encoding accept accept-encoding accept-language connection
    cache-control date server vary user-agent te host x-forwarded-proto""")
_HARMLESS = ("x-stainless-", "x-memory-", "x-vsr-", "x-envoy-upstream-", "x-envoy-expected-", "openai-version")


class _Texts:
    """Replaces a body's texts."""

    def __init__(self, redact: Callable[[str], str], pseudonyms: "Pseudonyms | None", names: frozenset[str]) -> None:
        self._redact = redact
        self._pseudonyms = pseudonyms
        self._names = names

    def redacted(self, text: str) -> str:
        """The text without secrets. Encoded files are not searched: they are long and have no words."""
        if _is_blob(text):
            return text
        return "".join(self._redact(piece) for piece in _pieces(text))

    def text(self, text: str) -> str:
        text = self.redacted(text)
        return text if self._pseudonyms is None else self._pseudonyms.text(text)

    def value(self, value: Value) -> str | None:
        """Numbers and literals of a body are settings and counts."""
        if not value.is_text:
            return None
        text = value.text
        name = value.path[-1].lower() if value.path else ""
        if self._is_credential(value, name):
            new: str | None = REDACTED if text else None
        elif self._pseudonyms is None:
            new = nested(text, self) or self.redacted(text)
        else:
            new = self._pseudonym(name, text, self._pseudonyms)
        return new if new != text else None

    def inner(self, value: Value) -> str | None:
        """Every value of a tool's arguments is content."""
        name = value.path[-1].lower() if value.path else ""
        if value.is_text:
            return REDACTED if self._is_credential(value, name) else self.text(value.text)
        if self._pseudonyms is None or value.raw in _LITERALS:
            return None
        return self._pseudonyms.number(value.text)

    def binary(self, data: bytes) -> bytes:
        return data if self._pseudonyms is None else BLANK

    def _pseudonym(self, name: str, text: str, pseudonyms: "Pseudonyms") -> str | None:
        if name in _STRUCTURE:
            return None
        if name in _IDENTITIES:
            return pseudonyms.identity(text)
        if _is_blob(text):
            head, _, blob = text.rpartition(",")
            return f"{head}{',' if head else ''}{'A' * len(blob)}"
        return nested(text, self) or self.text(text)

    def _is_credential(self, value: Value, name: str) -> bool:
        if name in _NO_CREDENTIALS or _PROBABILITIES & set(value.path):
            return False
        return name in self._names or _CREDENTIAL_NAME.search(name) is not None


_NO_CREDENTIALS = frozenset({"code", "finish_reason"})
_STRUCTURE = word_set("""role type model object status finish_reason id call_id item_id tool_call_id response_id previous_response_id detail
    format effort service_tier encoding_format mime_type media_type code param system_fingerprint reason required enum
    tool_choice truncation verbosity phase""")
_IDENTITIES = word_set("user user_id safety_identifier prompt_cache_key project_id conversation session_id")
_PROBABILITIES = frozenset({"logprobs", "top_logprobs"})
_LITERALS = (b"true", b"false", b"null")


def _is_blob(text: str) -> bool:
    """A file in base64, with or without the beginning of a data URL."""
    return len(text) > _BLOB_CHARS and _BASE64.fullmatch(text) is not None


def _pieces(text: str) -> list[str]:
    """The text in pieces that redaction reads quickly; a block of a private key stays in one."""
    if len(text) <= _PIECE_CHARS or "-----BEGIN" in text:
        return [text]
    pieces, start = [], 0
    while len(text) - start > _PIECE_CHARS:
        middle, limit = start + _PIECE_CHARS // 2, start + _PIECE_CHARS
        cuts = (text.rfind(mark, middle, limit) for mark in _BOUNDARIES)
        end = next((cut + 1 for cut in cuts if cut >= 0), limit)
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _bodies(records: Sequence[Record]) -> list[list[Record]]:
    """The records with the pieces of each body."""
    groups: dict[tuple[int, str, int], list[Record]] = {}
    for index, record in enumerate(records):
        part = _body_part(record)
        if part is not None and part.body:
            # An answer that is not streamed has a whole body.
            whole = record.HasField("response") and not isinstance(part, StreamedBodyResponse)
            key = (record.stream, f"{record.WhichOneof('record')} {kind_of(record)}", index if whole else -1)
            groups.setdefault(key, []).append(record)
    return list(groups.values())


def _body_part(record: Record) -> Any:
    return body_part(record.response if record.HasField("response") else record.request)


def _encoding(records: Sequence[Record], first: Record) -> str:
    """Of the body that begins in this record."""
    headers = f"{kind_of(first).partition('_')[0]}_headers"
    for record in records:
        if record.stream == first.stream and record.HasField("request") and kind_of(record) == headers:
            return header_value(fields_in(record), "content-encoding")
    return ""


def _set_length(record: Record, length: int) -> None:
    """Where an answer that replaces a body tells its length."""
    for option in mutation_of(record.response).set_headers:
        if option.header.key == "content-length":
            set_value(option.header, b"%d" % length)


# -- pseudonyms --------------------------------------------------------------------------------------------------------


_WORD = re.compile(rf"[{CJK_RANGE}]|[^\W_{CJK_RANGE}]+")
_NUMBER = re.compile(r"\d+")
_KEPT_WORDS = 65_536

_ASCII = 0x80
_TWO_BYTES = 0x800
_THREE_BYTES = 0x10000


class Pseudonyms:
    """Gives the pseudonyms of one key.

    Args:
        key: its holder can check whether a word was a certain one.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._word: Callable[[str], str] = lru_cache(_KEPT_WORDS)(self._made)

    def text(self, text: str) -> str:
        """The text with other words; what is between them stays."""
        return _WORD.sub(lambda match: self._word(match.group()), text)

    def number(self, literal: str) -> str:
        """A number of JSON with other digits, still a number of JSON."""
        return _NUMBER.sub(lambda match: self._word(match.group()), literal)

    def identity(self, value: str) -> str:
        """A name for an id; "" stays "", which means that there is none."""
        return f"p{self._digest('id', value).hex()[:12]}" if value else ""

    def _made(self, word: str) -> str:
        folded = word.casefold()
        digest = self._digest("word", folded)
        while len(digest) < 2 * len(word):
            digest += self._digest("more", f"{len(digest)}{folded}")
        pairs = (int.from_bytes(digest[2 * index : 2 * index + 2], "big") for index in range(len(word)))
        made = "".join(_like(char, number) for char, number in zip(word, pairs, strict=True))
        # "007" must not become a number that JSON does not know, nor "12" one that begins with zero.
        return _leading(word, made) if word.isdigit() else made

    def _digest(self, purpose: str, text: str) -> bytes:
        return hmac.digest(self._key, f"{purpose}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256)


def _leading(word: str, made: str) -> str:
    if word[0] == "0":
        return "0" + made[1:]
    return "7" + made[1:] if made[0] == "0" else made


def _like(char: str, number: int) -> str:
    """A character of the same kind and with as many bytes in UTF-8."""
    code = ord(char)
    if char in "0123456789":
        return chr(0x30 + number % 10)
    if code < _ASCII:
        return chr((0x41 if char.isupper() else 0x61) + number % 26)
    if code < _TWO_BYTES:
        return chr(0xE0 + number % 0x16)
    if code < _THREE_BYTES:
        return chr(0x4E00 + number % 0x5000)
    return chr(0x20000 + number % 0xA000)
