"""The composition root: configuration -> adapters -> pipelines -> servers. The only package that names adapters."""

from semrouter_memory.app.management import new_memory_id
from semrouter_memory.app.sidecar import App, run

__all__ = ["App", "new_memory_id", "run"]
