"""The embedder that serves: an ONNX sentence encoder on onnxruntime.

Strategy: every text is run by itself, never padded into a batch with others. On one thread a batch is no faster, and
the scales of int8 activations are chosen per run, so a text's vector would depend on its neighbours (cosine 0.99
instead of 1 between the two). The work is done in threads, queries and passages each in their own, so that a query
never waits for a batch: on the event loop even a short query would save no time, and with 32 connections half of the
requests a second are gone.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock
from typing import Any, Literal, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import onnxruntime
from cachetools import LRUCache
from tokenizers import Tokenizer

from semrouter_memory.config import EmbeddingConfig
from semrouter_memory.embedding import files
from semrouter_memory.errors import ConfigurationError, Service, UnavailableError
from semrouter_memory.model import Vector

T = TypeVar("T")

Pooling = Literal["mean", "cls"]

_KNOWN_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})

_SLOW_FUSIONS = ["SkipLayerNormFusion"]
"""Optimisers of onnxruntime that are left out. SkipLayerNormalization takes three times as long as the sums and the normalisation that
it stands for: 38 instead of 13 us for 18 tokens, twelve times a text."""

_KNOWN_OUTPUTS = ("sentence_embedding", "last_hidden_state", "token_embeddings")
"""What exporters call what we want, the best first: pooled by the graph, which may do more than pool, or token by token.
Others (`pooler_output`) are for other tasks."""

_POOLED_RANK = 2
"""Text and component."""

_BEGINNING_SECONDS = 0.0005
"""How long a caller waits until an idle thread has begun: a thread needs the interpreter for that, and gets it only when this one
waits. Without it the query is embedded after all else that is found out about the request, and not at the same time."""

_RECENT = 512
"""Texts whose vectors are cached (1.5 KB each): what a request asked with, the worker that learns from it embeds again. A
request embeds its own query always, so that what it takes does not depend on what was said before.
"""
_Read: TypeAlias = tuple[Vector, bool]
"""A text's vector, and whether its end was cut off."""
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class OnnxEmbedder:
    """Implements `ports.Embedder`. Safe to use from several threads and event loops at once.

    Args:
        truncated: called with how many passages of a call were longer than the model reads.
    """

    def __init__(
        self,
        config: EmbeddingConfig,
        model: "_Model",
        tokens: "_Tokenizers",
        fingerprint: str,
        truncated: Callable[[int], object] | None = None,
    ) -> None:
        self._config = config
        self._model = model
        self._tokens = tokens
        self._fingerprint = fingerprint
        self._truncated = truncated
        self._queries: set[Future[_Read]] = set()
        self._recent: LRUCache[str, _Read] = LRUCache(_RECENT)
        self._recent_lock = Lock()
        self._query_thread = ThreadPoolExecutor(1, "embed-query")
        self._passage_thread = ThreadPoolExecutor(1, "embed-passage")

    @classmethod
    def load(
        cls, config: EmbeddingConfig, directory: Path, *, truncated: Callable[[int], object] | None = None
    ) -> Self:
        """Read a model directory, and prove it with the longest text that the settings allow.

        Args:
            directory: holds model.onnx (or onnx/model.onnx) and tokenizer.json, and manifest.json unless they were put
                there by hand.
            truncated: called with how many passages of a call were longer than the model reads.

        Raises:
            ConfigurationError: files missing, damaged, or not what the settings say; the message says what to do.
        """
        found = files.read(directory, config.model)
        if found.manifest is not None:
            found.manifest.check(config)
        with _load_errors(directory, config):
            tokens = _Tokenizers(found.tokenizer, config.max_tokens)
            model = _Model(found.model, config)
            vector = model.vector(tokens.ids("a " * config.max_tokens)[0])
        if found.pooling and not model.pools:
            _check_pooling(config, found.pooling)
        _check_dimension(config, len(vector))
        return cls(config, model, tokens, files.fingerprint(config, found.origin), truncated)

    @property
    def dimension(self) -> int:
        return self._config.dimension

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    async def embed_query(self, text: str) -> Vector:
        text, begun = self._config.query_prefix + text, Event()

        def embed() -> _Read:
            begun.set()
            return self._read(text)

        is_idle = not self._queries
        with _embedding_errors():
            embedding = self._query_thread.submit(embed)
            # Until the thread is done with it, which may be after its caller has left.
            self._queries.add(embedding)
            embedding.add_done_callback(self._queries.discard)
            if is_idle:
                begun.wait(_BEGINNING_SECONDS)
            read = await asyncio.wrap_future(embedding)
        self._remember({text: read})
        return read[0]

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        prefixed = [self._config.passage_prefix + text for text in texts]
        with self._recent_lock:
            read = {text: self._recent[text] for text in prefixed if text in self._recent}
        new = [text for text in dict.fromkeys(prefixed) if text not in read]
        if new:
            found = await _in_thread(self._passage_thread, lambda: {text: self._read(text) for text in new})
            read |= found
            self._remember(found)
        if self._truncated is not None and (count := sum(read[text][1] for text in prefixed)):
            self._truncated(count)
        return [read[text][0] for text in prefixed]

    def count_tokens(self, text: str) -> int:
        """Tokens of the whole text, without the special ones and without cutting."""
        with _embedding_errors():
            return self._tokens.count(text)

    @property
    def max_passage_tokens(self) -> int:
        return self._tokens.most - self._tokens.count(self._config.passage_prefix)

    def passage_tokens(self, text: str) -> int:
        """Tokens of the whole text, as they are behind the prefix."""
        prefix = self._config.passage_prefix
        with _embedding_errors():
            return self._tokens.count(prefix + text) - (self._tokens.count(prefix) if prefix else 0)

    def _remember(self, read: Mapping[str, _Read]) -> None:
        with self._recent_lock:
            self._recent.update(read)

    def _read(self, text: str) -> _Read:
        ids, cut = self._tokens.ids(text)
        return self._model.vector(ids), cut


class _Tokenizers:
    """The tokenizer, once cutting (for the model) and once not (for counting): it is a setting of the whole object.

    Attributes:
        most: how many tokens of a text are read.
    """

    def __init__(self, path: Path, max_tokens: int) -> None:
        self._cutting = _tokenizer(path)
        self._cutting.enable_truncation(max_tokens)
        self._counting = _tokenizer(path)
        self._counting.no_truncation()
        self.most = max_tokens - self._counting.num_special_tokens_to_add(is_pair=False)

    def ids(self, text: str) -> tuple[list[int], bool]:
        """The tokens that are read, and whether there are more."""
        encoding = self._cutting.encode(_clean(text))
        return encoding.ids, bool(encoding.overflowing)

    def count(self, text: str) -> int:
        return len(self._counting.encode(_clean(text), add_special_tokens=False).ids)


def _tokenizer(path: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()  # published files may pad every text to a fixed length
    tokenizer.encode_special_tokens = True  # "[SEP]" in a user's text is text
    return tokenizer


def _clean(text: str) -> str:
    """Lone surrogates, which JSON can carry and the tokenizer refuses, become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


def open_session(model: str | bytes, options: onnxruntime.SessionOptions) -> Any:
    """The session of a model, given by its path or as it is in its file."""
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=_SLOW_FUSIONS
    )


class _Model:
    """The session. onnxruntime lets several threads run one session and releases the interpreter lock meanwhile.

    Attributes:
        pools: the graph gives one vector for a text, so `memory.embedding.pooling` has no effect.
    """

    def __init__(self, path: Path, config: EmbeddingConfig) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = config.threads
        options.inter_op_num_threads = 1
        # Threads that spin between queries take the cores from everything else on the machine.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3  # errors; they arrive as exceptions anyway
        self._session = open_session(str(path), options)
        self._inputs = {value.name: _INTEGERS.get(value.type, np.int64) for value in self._session.get_inputs()}
        if unknown := sorted(self._inputs.keys() - _KNOWN_INPUTS):
            raise ValueError(f"unknown inputs {unknown}")
        outputs = {value.name: value for value in self._session.get_outputs()}
        self._output = next((name for name in _KNOWN_OUTPUTS if name in outputs), next(iter(outputs)))
        self.pools = len(outputs[self._output].shape or ()) == _POOLED_RANK
        self._pooling = config.pooling

    def vector(self, ids: list[int]) -> Vector:
        output: npt.NDArray[np.floating] = self._session.run([self._output], self._feeds(ids))[0]
        return to_vector(output, self._pooling)

    def _feeds(self, ids: list[int]) -> dict[str, npt.NDArray[np.integer]]:
        row = np.array([ids], dtype=np.int64)
        feeds = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        return {name: feeds[name].astype(kind, copy=False) for name, kind in self._inputs.items()}


def to_vector(output: npt.NDArray[np.floating], pooling: Pooling) -> Vector:
    """One text's L2-normalised vector, from the output for a batch of one.

    Args:
        output: shape (1, dimension) from a graph that pools by itself, or (1, tokens, dimension), one row per token.
        pooling: how token rows become one; not looked at when the graph did it.

    Raises:
        ValueError: another shape, or a vector without a direction (zero, not finite).
    """
    # Half precision would lose digits in the mean.
    pooled = _pooled(output.astype(np.float32, copy=False), pooling)
    length = np.linalg.norm(pooled)
    if not (np.isfinite(length) and length > 0):
        raise ValueError("the model put out a vector without a direction")
    normalised: Vector = pooled / length
    return normalised


def _pooled(output: npt.NDArray[np.float32], pooling: Pooling) -> npt.NDArray[np.float32]:
    match output.shape:
        case (1, _):
            row = output[0]
        case (1, tokens, _) if tokens > 0:
            # The first token is [CLS]. Texts are run one at a time, so every row is a real token: no mask to heed.
            row = output[0, 0] if pooling == "cls" else output[0].mean(axis=0)
        case shape:
            raise ValueError(
                f"the model's first output has shape {shape}, not (1, dimension) or (1, tokens, dimension)"
            )
    pooled: npt.NDArray[np.float32] = row
    return pooled


async def _in_thread(thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    with _embedding_errors():
        return await asyncio.get_running_loop().run_in_executor(thread, work)


@contextmanager
def _embedding_errors() -> Iterator[None]:
    """The cause is named by its type only and cut off: its message may quote the text."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever tokenizer and runtime raise ends here
        raise UnavailableError(
            f"a text could not be embedded ({type(error).__name__})", service=Service.EMBEDDING
        ) from None


@contextmanager
def _load_errors(directory: Path, config: EmbeddingConfig) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever tokenizer and runtime raise ends here
        raise ConfigurationError(
            f"the embedding model in {directory} cannot be used with memory.embedding.max_tokens"
            f" {config.max_tokens}: {error}; {files.remedy(config.model, directory)}"
        ) from None


def _check_pooling(config: EmbeddingConfig, declared: str) -> None:
    if declared != config.pooling:
        raise ConfigurationError(
            f"memory.embedding.pooling is {config.pooling}, but the model was made for {declared} (1_Pooling/config.json);"
            f" set it to {declared}, or where that is neither mean nor cls, use an export that gives sentence_embedding"
        )


def _check_dimension(config: EmbeddingConfig, actual: int) -> None:
    if actual != config.dimension:
        raise ConfigurationError(
            f"memory.embedding.dimension is {config.dimension}, but the model gives {actual};"
            f" set it and memory.milvus.dimension to {actual}"
        )
