"""An Envoy ext_proc service that gives LLM traffic a memory across sessions."""

__version__ = "0.1.0"
