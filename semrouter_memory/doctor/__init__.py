"""Checks Envoy's configuration and the sidecar's own: each mistake has its place and the fix.

Strategy: the YAML becomes nodes with paths (`node`), these become filter chains with the configuration that applies on each
route (`filter_chains`), and a table of small pure functions (`checks`) finds the mistakes. Envoy's binary validates the
rest (`envoy_validation`). Only `servers` connects to anything, and only `diagnose` knows all of it.
"""
