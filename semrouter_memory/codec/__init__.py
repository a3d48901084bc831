"""Bodies of OpenAI-compatible APIs, without I/O. Pure."""

from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.responses import ResponsesCodec

_CODECS: dict[tuple[str, ...], Codec] = {
    ("v1", "chat", "completions"): ChatCodec(),
    ("v1", "responses"): ResponsesCodec(),
}


def codec_for(path: str) -> Codec | None:
    """The codec of a request path by its last segments, None for a path that is not ours.

    A prefix (`/openai/v1/responses`), a query string and one trailing slash make no difference.
    """
    segments = tuple(path.partition("?")[0].removesuffix("/").split("/"))
    return next((codec for ending, codec in _CODECS.items() if segments[-len(ending) :] == ending), None)
