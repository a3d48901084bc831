"""The gRPC side: Envoy's messages in and out, one driver per stream, the server."""
