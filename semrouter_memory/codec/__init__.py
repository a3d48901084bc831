"""SANS-IO. Bodies of OpenAI-compatible APIs."""

from semrouter_memory.codec.registry import codec_for

__all__ = ["codec_for"]
