import pytest

from semrouter_memory.codec import codec_for


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/chat/completions/", "chat"),
        ("/v1/chat/completions?api-version=1&x=/v1/responses", "chat"),
        ("/v1/chat/completions/?x", "chat"),
        ("/openai/v1/chat/completions", "chat"),
        ("/a/b/v1/responses", "responses"),
        ("/v1/responses", "responses"),
        ("/v1/responses/", "responses"),
        ("/v1/responses?stream=true", "responses"),
    ],
)
def test_paths_that_are_ours(path: str, name: str) -> None:
    codec = codec_for(path)
    assert codec is not None
    assert codec.name == name


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
        "/responses",
        "/chat/completions",
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
