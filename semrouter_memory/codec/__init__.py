"""Bodies of OpenAI-compatible APIs, without I/O. Pure."""

from semrouter_memory.codec.registry import codec_for

__all__ = ["codec_for"]
