"""Work in the background: the tasks that one part has running, and the worker pool, bounded and ordered by key.

Strategy of the pool. A key names work that is durable elsewhere, so the pool may coalesce keys and forget them: a key
that waits is in the queue once; a key that is submitted while it runs runs once more afterwards; one key never runs
twice at a time. Everything happens on the event loop's thread.

Shutdown, in this order (`drain`): take nothing more; forget what waits; let running jobs finish within the deadline;
cancel the rest, and give their jobs a moment to give back what they hold.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import suppress
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

CANCEL_SECONDS = 2.0
"""How long cancelled jobs may clean up before they are left alone."""


class BackgroundTasks:
    """The running tasks of one part, which ends them. The event loop itself does not keep a task from being collected."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many are running."""
        return sum(not task.done() for task in self._tasks)

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def settle(self) -> None:
        """Return when all have ended, those that are started meanwhile too."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def stop(self) -> None:
        """Cancel them, and return when they have ended."""
        if cancelled := set(self._tasks):
            for task in cancelled:
                task.cancel()
            await asyncio.wait(cancelled)


class WorkerPool(Generic[K]):
    """Runs `job(key)` for submitted keys, first come, first served. It belongs to one running event loop.

    Args:
        workers: how many jobs run at a time.
        max_queue: how many keys wait at most; keys that run, or are to run once more, do not count.
        on_error: called with every exception that a job raises; the pool continues in any case.
    """

    def __init__(
        self,
        job: Callable[[K], Awaitable[None]],
        *,
        workers: int,
        max_queue: int,
        on_error: Callable[[K, BaseException], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._job = job
        self._workers = workers
        self._max_queue = max_queue
        self._on_error = on_error
        self._monotonic = monotonic
        self._waiting: dict[K, float] = {}
        self._running: dict[K, asyncio.Task[None]] = {}
        self._again: dict[K, float] = {}
        self._taking = True

    def submit(self, key: K) -> bool:
        """Ask for a run of that key that begins from now on.

        Returns:
            False when the queue is full or the pool drains; the key will not run on this account.
        """
        if not self._taking:
            return False
        if key in self._running:
            self._again.setdefault(key, self._monotonic())
            return True
        if key in self._waiting:
            return True
        if len(self._waiting) >= self._max_queue:
            return False
        self._waiting[key] = self._monotonic()
        self._dispatch()
        return True

    @property
    def depth(self) -> int:
        """How many keys wait for a run."""
        return len(self._waiting) + len(self._again)

    @property
    def oldest_seconds(self) -> float:
        """How long the key that waits longest has been waiting; 0 when none waits."""
        submitted = (*self._waiting.values(), *self._again.values())
        return self._monotonic() - min(submitted) if submitted else 0.0

    async def drain(self, deadline_seconds: float) -> None:
        """Shut down in the order written above."""
        self._taking = False
        self._waiting.clear()
        self._again.clear()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=deadline_seconds)
        cancelled = list(self._running.values())
        for task in cancelled:
            task.cancel()
        if cancelled:
            await asyncio.wait(cancelled, timeout=CANCEL_SECONDS)

    def _dispatch(self) -> None:
        while self._waiting and len(self._running) < self._workers:
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._running[key] = asyncio.create_task(self._run(key))

    async def _run(self, key: K) -> None:
        try:
            await self._job(key)
        except asyncio.CancelledError as error:
            # Ours, in `drain`; else something inside the job was cancelled, which is a failure of the job.
            if not self._taking:
                raise
            self._report(key, error)
        except Exception as error:  # noqa: BLE001 - whatever a job does, the other keys' jobs go on
            self._report(key, error)
        finally:
            del self._running[key]
            if key in self._again:
                # At the end of the queue, whatever its bound: this key had its place already.
                self._waiting[key] = self._again.pop(key)
            self._dispatch()

    def _report(self, key: K, error: BaseException) -> None:
        with suppress(Exception):
            self._on_error(key, error)
