"""A whole installation on this machine: the real Envoy, the sidecar and a stand-in LLM, for demo, bench and tests."""
