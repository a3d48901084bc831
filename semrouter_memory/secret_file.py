"""A secret that a file holds: read, and written for its owner alone. It is apart from the settings, so that a command with a token need not load them."""

from pathlib import Path

from semrouter_memory.errors import ConfigurationError


def read_secret(file: Path) -> str:
    """The text of the file without blanks around it.

    Raises:
        ConfigurationError: the file cannot be read, is not text, or is empty.
    """
    try:
        text = file.expanduser().read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"cannot read the secret file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"the secret file {file} is not text, and a secret travels as text: for example `openssl rand -hex 24`"
        ) from None
    if not text:
        raise ConfigurationError(f"the secret file {file} is empty")
    return text


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text, encoding="utf-8")
