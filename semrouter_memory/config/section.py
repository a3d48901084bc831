"""What all sections have in common, and where secrets are read from."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from semrouter_memory.errors import ConfigurationError

HeaderName = Annotated[str, AfterValidator(str.lower), Field(min_length=1)]
Percent = Annotated[float, Field(ge=-1.0, le=1.0)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def secret(value: SecretStr | None, file: Path | None) -> str | None:
    """The secret from the environment, else from its file.

    Raises:
        ConfigurationError: the file cannot be read, or is empty.
    """
    if value is not None:
        return value.get_secret_value()
    if file is None:
        return None
    try:
        text = file.expanduser().read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigurationError(f"cannot read the secret file {file}: {error.strerror}") from None
    if not text:
        raise ConfigurationError(f"the secret file {file} is empty")
    return text
