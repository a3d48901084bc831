"""Checks Envoy's configuration and the sidecar's own: each mistake has its place and the fix.

Strategy: the YAML becomes nodes with paths (`node`), these become filter chains with the configuration that applies on each
route (`gateway`), and small functions find the mistakes; `diagnose` has the tables of them. Envoy's binary validates what
does not depend on memory (`envoy_file`). Only `servers` connects to anything.
"""
