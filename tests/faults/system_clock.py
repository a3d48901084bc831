"""The system's clock as the processes of a test see it: a preloaded library moves it for all of them.

The library is compiled here. Without a compiler the tests that need it are skipped, and fail where `CI` is set.
"""

import os
import shutil
import struct
import subprocess
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from semrouter_memory.stack.stack import Process

_SOURCE = Path(__file__).with_suffix(".c")
_MICROSECOND = timedelta(microseconds=1)


def _compiler() -> str:
    if found := shutil.which("cc"):
        return found
    missing = "no C compiler on the PATH"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


class SystemClock:
    """Stands where the test sets it, in every process that is started with its `environment`."""

    def __init__(self, directory: Path) -> None:
        self._offset = directory / "clock.offset"
        self._offset.write_bytes(bytes(8))
        self._library = directory / "system_clock.so"
        options = ["-shared", "-fPIC", "-O2", "-Wall", "-Werror"]
        subprocess.run([_compiler(), *options, "-o", str(self._library), str(_SOURCE)], check=True)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_FILE": str(self._offset)}

    def set(self, ahead: timedelta) -> None:
        """That much ahead of what it is really, or behind; processes that run see it at once."""
        # Not `write_bytes`, which empties the file first: processes have it in their memory.
        with self._offset.open("r+b") as file:
            file.write(struct.pack("=q", ahead // _MICROSECOND))


class Timed(Process):
    """A process whose clock is that one; so is that of its children."""

    def __init__(self, name: str, log: Path, clock: SystemClock) -> None:
        super().__init__(name, log)
        self._clock = clock

    async def start(self, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        await super().start(command, environment={**(environment or {}), **self._clock.environment})
