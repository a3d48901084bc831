"""The sections `memory.reflection` and `memory.maintenance`: what a model makes of memories."""

from pydantic import Field

from semrouter_memory.config.section import Section, Switch


class ReflectionConfig(Section):
    """Answers to questions about what is remembered, by a model with the role memory_reflect, else memory_extraction."""

    timeout_seconds: float = Field(
        25,
        gt=0,
        description="time for the model's answer; then it is only counted how often it was mentioned. Less than the timeout of Envoy's route",
    )
    token_budget: int = Field(
        3_000, ge=100, description="bound on what the model is shown, in the embedding model's tokens"
    )
    max_concurrent: int = Field(
        4, ge=1, description="questions that the model answers at a time; for further ones it is only counted"
    )


class MaintenanceConfig(Section):
    """What a sweep derives from a user's memories."""

    reflect: Switch = Field(
        "off",
        description="write at most three insights from a user's new episodes and quotes; asks the model with the role memory_reflect, else memory_extraction",
    )
    reflect_at: int = Field(
        20,
        ge=2,
        description="new episodes and quotes of a user, or of one project, from which on they are reflected on",
    )
