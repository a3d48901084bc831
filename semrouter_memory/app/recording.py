"""What records exchanges, made of the configuration."""

from semrouter_memory import __version__
from semrouter_memory.config import Config, secret
from semrouter_memory.errors import ConfigurationError, InputFileError
from semrouter_memory.replay.recordings import Recordings
from semrouter_memory.retain.redact import without_secrets


async def start_recordings(config: Config) -> Recordings:
    """Recording as configured; more can be asked for at the operator's port.

    Raises:
        ConfigurationError: there is no place for recordings, or no key.
    """
    own, identity = config.recording, config.memory.identity
    recordings = Recordings(
        own,
        directory=config.memory.directory / "recordings",
        made_by=f"semrouter-memory {__version__}",
        redact=without_secrets,
        identity_headers=frozenset({identity.user_header, identity.session_header}),
        secret_headers=frozenset({config.server.secret_header}),
        pseudonym_key=secret(own.pseudonym_key, own.pseudonym_key_file),
    )
    try:
        await recordings.start()
    except InputFileError as error:
        raise ConfigurationError(f"recording.directory: {error}") from None
    return recordings
