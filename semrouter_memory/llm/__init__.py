"""Client for external OpenAI-compatible chat models."""
