"""Bodies of OpenAI-compatible APIs, without I/O. Pure."""

from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.responses import ResponsesCodec

_CODECS: dict[tuple[str, ...], Codec] = {
    ("chat", "completions"): ChatCodec(),
    ("v1", "responses"): ResponsesCodec(),
    ("openai", "responses"): ResponsesCodec(),
    ("", "responses"): ResponsesCodec(),
}


def codec_for(path: str) -> Codec | None:
    """The codec of a request path by its last segments, None for a path that is not ours.

    A prefix, a query string and one trailing slash make no difference. Azure's paths have no version
    (`/openai/deployments/NAME/chat/completions`, `/openai/responses`), those of others another one, or they are short.
    """
    segments = tuple(path.partition("?")[0].removesuffix("/").split("/"))
    return next((codec for ending, codec in _CODECS.items() if segments[-len(ending) :] == ending), None)
