"""Old results of tools, each replaced by one line: which ones, and the body with the lines. Pure.

Strategy: the results are counted in their order, as if each had come with a request of its own. Whenever those that are
still whole exceed the limit, all but the last ones are replaced. So a result that was replaced stays replaced in later
steps of a loop, and between two replacements the request's beginning stays the same for the provider's prompt cache. The
new body is sent only if it is the same conversation: the same transcript hash, by which compression knows it, and the same
calls with the same ids.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.base import ParsedRequest, ToolResult, strip_block, transcript_hash
from semrouter_memory.config import CompressionConfig
from semrouter_memory.errors import BodyError
from semrouter_memory.language.phrases import tells_failure
from semrouter_memory.language.scripts import one_line
from semrouter_memory.model import Message, RecallOptions, Role, ShortenedResults

_TOKEN_BYTES = 4
"""Of a token, on average: English has about four characters a token, Chinese one or two of three bytes each."""
_OUTCOME_CHARS = 200
"""How much of a result says how it went."""
_FIRST_CHARS = 80
_NAME_CHARS = 64


@dataclass(frozen=True, slots=True)
class ShortenedBody:
    """A body with a line in place of each old result, as it reads then, and how much that is."""

    body: bytes
    parsed: ParsedRequest
    results: ShortenedResults


def shortened(
    codec: Codec, raw: bytes, parsed: ParsedRequest, options: RecallOptions, config: CompressionConfig
) -> ShortenedBody | None:
    """The body without its old results; None: it stays as it is.

    Args:
        parsed: the body, with what the codec needs for its results.
    """
    if not options.tool_result_tokens:
        return None
    results = codec.results(parsed)
    sizes = [_tokens(result.text) for result in results]
    old = islice(results, _replaced(sizes, options.tool_result_tokens, config.raw_tool_results))
    lines = {result.place: line for result in old if result.replaceable and (line := _line(result))}
    if not lines:
        return None
    body = codec.with_results(raw, lines)
    try:
        read = codec.parse(body)
    except BodyError:
        return None
    if _proof(read) != _proof(parsed):
        return None
    tokens = sum(sizes) - sum(_tokens(result.text) for result in codec.results(read))
    return ShortenedBody(body, read, ShortenedResults(len(lines), tokens))


def _replaced(sizes: Sequence[int], max_tokens: int, raw_results: int) -> int:
    """How many of the results are old, the first ones."""
    old, whole = 0, 0
    for index, size in enumerate(sizes):
        whole += size
        if whole > max_tokens:
            first = max(old, index + 1 - raw_results)
            whole -= sum(sizes[old:first])
            old = first
    return old


def _line(result: ToolResult) -> str:
    """Tool, outcome and size of a result; "" where that is no shorter."""
    text = strip_block(result.text)
    outcome = "failed" if tells_failure(text[:_OUTCOME_CHARS]) else "ok"
    first = one_line(next((line for line in text[:_OUTCOME_CHARS].splitlines() if line.strip()), ""))[:_FIRST_CHARS]
    tool = one_line(result.tool)[:_NAME_CHARS] or "tool"
    line = f"[{tool}: {outcome}, {len(result.text):,} characters left out; it began: {first}]"
    return line if len(line) < len(result.text) else ""


def _proof(parsed: ParsedRequest) -> Hashable:
    """Names a conversation without the texts of its tools' results."""
    asked = (Message(Role.USER, text) for text in parsed.turn_texts)
    return (
        transcript_hash((*parsed.history, *asked)),
        parsed.settings,
        parsed.previous_response_id,
        tuple(_calls(parsed)),
    )


def _calls(parsed: ParsedRequest) -> Iterator[Hashable]:
    return ((entry.kind, entry.place, entry.calls, entry.call_id) for entry in parsed.entries)


def _tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // _TOKEN_BYTES)
