"""Measures the product on files of cases: `semrouter-memory eval`."""
