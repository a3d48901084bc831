"""Recordings of what Envoy and this service said to each other: written, cleaned of secrets, read, played, compared."""
