"""What all sections have in common, and where secrets are read from."""

import os
from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from semrouter_memory.secret_file import read_secret


def names_a_server(url: str, schemes: Container[str]) -> bool:
    """Whether it has one of the schemes, a host, and no port that cannot be."""
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def host_and_port(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _MAX_PORT or "/" in value or (":" in host and host[0] != "["):
        raise ValueError(f"{value!r} is not host:port; an IPv6 host stands in brackets")
    return value


def _listen_address(value: str) -> str:
    if not value.startswith(_UNIX):
        return host_and_port(value)
    path = value.removeprefix(_UNIX)
    if not path or len(os.fsencode(path)) > _MAX_SOCKET_BYTES:
        raise ValueError(f"{value!r}: the path of a Unix socket has 1 to {_MAX_SOCKET_BYTES} bytes")
    return f"{_UNIX}{_path(path)}"


def _path(value: Any) -> Any:
    """With the user's home directory in place of `~`; an empty one would be the directory of the start."""
    if not isinstance(value, str):
        return value
    if not value or "\0" in value:
        raise ValueError(f"{value!r} is no path")
    try:
        return Path(value).expanduser()
    except RuntimeError:
        raise ValueError(f"{value!r}: that home directory is unknown; write the whole path") from None


_UNIX = "unix:"
_MAX_PORT = 65535
_MAX_SOCKET_BYTES = 107

HostAndPort = Annotated[str, AfterValidator(host_and_port)]
ListenAddress = Annotated[str, AfterValidator(_listen_address)]
"""host:port (0: any free port) or unix:path."""
HeaderName = Annotated[str, AfterValidator(str.lower), Field(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")]
"""With any other character it would never be found in a request, and no request would have an identity."""
FilePath = Annotated[Path, BeforeValidator(_path)]
Percent = Annotated[float, Field(ge=-1.0, le=1.0)]


def _bare_word(value: Any) -> Any:
    """YAML reads a bare `on` as true."""
    return ("off", "on")[value] if isinstance(value, bool) else value


BARE_ON = BeforeValidator(_bare_word)
"""Of a setting that takes `on` and `off` among other words."""
Switch = Annotated[Literal["off", "on"], BARE_ON]


def _given(value: SecretStr) -> SecretStr:
    """Without blanks around it, as a secret from a file."""
    text = value.get_secret_value().strip()
    if not text:
        raise ValueError("the variable is empty: give it a value, or unset it")
    return SecretStr(text)


Secret = Annotated[SecretStr, AfterValidator(_given)]
"""Who sends nothing would send an empty one."""


_MOST = {"_days": 36_500, "_hours": 876_000}
_MOST_OF_ALL = 2**31 - 1


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _may_be_empty(cls, value: Any) -> Any:
        """A section whose keys are all commented out has the defaults."""
        return {} if value is None else value

    @field_validator("*")
    @classmethod
    def _is_no_larger_than_can_be(cls, value: Any, info: ValidationInfo) -> Any:
        """Beyond these, a time is before the calendar's first year, and a number no integer of the servers' libraries."""
        most = next((most for unit, most in _MOST.items() if str(info.field_name).endswith(unit)), _MOST_OF_ALL)
        for number in value.values() if isinstance(value, dict) else (value,):
            if isinstance(number, int | float) and number > most:
                raise ValueError(f"Input should be less than or equal to {most}")
        return value


def secret(value: SecretStr | None, file: Path | None) -> str | None:
    """The secret from the environment, else from its file.

    Raises:
        ConfigurationError: the file cannot be read, or is empty.
    """
    if value is not None:
        return value.get_secret_value()
    return read_secret(file) if file else None
