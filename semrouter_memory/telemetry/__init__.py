"""Logs and metrics: what happened, in ids, counts, durations and reasons; never content."""
