"""SANS-IO. Bodies of OpenAI-compatible APIs."""
