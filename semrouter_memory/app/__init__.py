"""The composition root: configuration -> adapters -> pipelines -> servers. The only package that names adapters."""
