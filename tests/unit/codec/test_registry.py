import pytest

from semrouter_memory.codec import codec_for
from semrouter_memory.codec.api import Codec
from semrouter_memory.codec.chat import ChatCodec
from semrouter_memory.codec.responses import ResponsesCodec


@pytest.mark.parametrize(
    ("path", "codec"),
    [
        ("/v1/chat/completions", ChatCodec),
        ("/v1/chat/completions/", ChatCodec),
        ("/v1/chat/completions?api-version=1&x=/v1/responses", ChatCodec),
        ("/v1/chat/completions/?x", ChatCodec),
        ("/openai/v1/chat/completions", ChatCodec),
        ("/openai/deployments/gpt-4o/chat/completions?api-version=2025-01-01", ChatCodec),
        ("/v1beta/openai/chat/completions", ChatCodec),
        ("/chat/completions", ChatCodec),
        ("/openai/responses?api-version=preview", ResponsesCodec),
        ("/responses", ResponsesCodec),
        ("/a/b/v1/responses", ResponsesCodec),
        ("/v1/responses", ResponsesCodec),
        ("/v1/responses/", ResponsesCodec),
        ("/v1/responses?stream=true", ResponsesCodec),
    ],
)
def test_paths_that_are_ours(path: str, codec: type[Codec]) -> None:
    assert type(codec_for(path)) is codec


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "*",
        "/v1",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/input_items",
        "/v1/chat/completions/chatcmpl-1",
        "/v1/chat/completions//",
        "/v1/chat",
        "/completions",
        "/chat/responses",
        "/surveys/responses",
        "/v2/responses",
        "/xv1/responses",
        "/v1/responses2",
        "/v1/Responses",
        "/v1/models?path=/v1/responses",
        "/v1/memory",
    ],
)
def test_paths_that_are_not(path: str) -> None:
    assert codec_for(path) is None
