"""Finds memories without a model: what a user says about themselves, in English and Chinese. Pure.

Strategy: cut away what is not the user's own (`own_words`), cut the rest into sentences and clauses, and take those
whose grammar says something lasting about the user. Only the user's words are read; assistants, tools and system
prompts are no source. Conservative: what is not clearly about the user is not stored.
"""

from semrouter_memory.retain.rules.reading import asks_to_remember, candidates, read, spoken
from semrouter_memory.retain.rules.statement import Scene, Statement

__all__ = ["Scene", "Statement", "asks_to_remember", "candidates", "read", "spoken"]
