"""In which threads a function runs."""

import threading
from pkgutil import resolve_name
from typing import Any

import pytest


def threads_of(monkeypatch: pytest.MonkeyPatch, function: str) -> list[int]:
    """The threads that call the function of that name, of all calls from now on."""
    threads: list[int] = []
    original = resolve_name(function)

    def noting(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return original(*arguments, **options)

    monkeypatch.setattr(function, noting)
    return threads
