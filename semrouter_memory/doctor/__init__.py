"""Reads Envoy's configuration and the sidecar's own, and says what is wrong with them and what to write instead.

Strategy: the YAML becomes typed messages (`typed`), these become chains with what applies on each route (`chains`), and a
table of small pure functions (`checks`) says what is wrong with them. Only `endpoints` connects to anything, and only
`diagnose` knows all of it.
"""
