"""How a process learns that it is to end: SIGTERM, Ctrl-C, or the end of the terminal that it was started in."""

import asyncio
import signal
from collections.abc import Callable

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def on_termination(end: Callable[[], object]) -> None:
    """Have `end` called at each of the signals, on the running event loop."""
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        # What is started with nohup outlives its terminal.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end)
