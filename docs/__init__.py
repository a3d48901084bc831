"""The documentation: pages in Markdown, and `generate`, which writes those under `reference/`."""
