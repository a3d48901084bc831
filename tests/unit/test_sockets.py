"""The way to a Unix socket is cleared of what a dead process left behind, and of nothing else."""

import socket
from contextlib import suppress
from pathlib import Path

import pytest

from semrouter_memory.errors import ConfigurationError
from semrouter_memory.sockets import clear_stale_socket


def test_what_a_dead_process_left_behind_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    clear_stale_socket(path)
    assert not path.exists()
    clear_stale_socket(path)


def test_somebody_who_listens_keeps_the_place_even_when_too_busy_to_answer(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as waiting:
        listening.bind(str(path))
        listening.listen(0)
        with pytest.raises(ConfigurationError, match="another process answers there"):
            clear_stale_socket(path)
        # The probe above still waits to be accepted, and that fills the queue.
        waiting.setblocking(False)
        with suppress(BlockingIOError):
            waiting.connect(str(path))
        with pytest.raises(ConfigurationError, match="another process answers there"):
            clear_stale_socket(path)
    assert path.exists()


def test_a_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigurationError, match="no socket"):
        clear_stale_socket(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"
