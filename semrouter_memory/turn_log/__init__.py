"""The turn log: accepted turns and their sessions, durable until they are extracted; and the owners' locks."""
