"""Recordings of the messages between Envoy and this service: written, cleaned of secrets, read, played, compared."""
