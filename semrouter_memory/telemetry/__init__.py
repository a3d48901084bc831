"""Logs, metrics and traces: what happened, in ids, counts, durations and reasons; never content.

Tracing that is off is nothing at all, not a tracer that does nothing, and OpenTelemetry is not loaded. On, the spans go through a
bounded queue to a thread that exports them; what cannot be queued or exported is lost, never waited for.
"""

from typing import TYPE_CHECKING

from semrouter_memory.config import TracingConfig
from semrouter_memory.errors import ConfigurationError

if TYPE_CHECKING:  # an optional dependency
    from semrouter_memory.telemetry.otlp import Tracer


def start_tracing(config: TracingConfig) -> "Tracer | None":
    """The running tracer, None when tracing is off.

    Raises:
        ConfigurationError: OpenTelemetry is not installed; or a setting, a file or an OTEL_* variable does not fit.
    """
    if not config.enabled:
        return None
    try:
        from semrouter_memory.telemetry import otlp  # noqa: PLC0415 - an optional dependency

        return otlp.start(config)
    except ImportError as error:
        raise ConfigurationError(
            f"telemetry.tracing.enabled is true, but {error.name or 'a part of it'} is not installed: pip install"
            " 'semrouter-memory[tracing]', or set it to false"
        ) from None
    except ConfigurationError:
        raise
    except Exception as error:  # noqa: BLE001 - OpenTelemetry refuses what it reads from the environment in many ways
        raise ConfigurationError(f"telemetry.tracing, or an OTEL_* variable, does not fit: {error}") from None
