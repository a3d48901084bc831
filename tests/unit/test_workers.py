"""Background tasks are waited for or ended together; the pool runs every key, one run of a key at a time."""

import asyncio
import gc
from collections.abc import Awaitable, Callable

import pytest

from semrouter_memory import workers
from semrouter_memory.workers import BackgroundTasks, WorkerPool


class Jobs:
    """Jobs that wait until they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.gate = asyncio.Event()

    async def __call__(self, key: str) -> None:
        self.begun.append(key)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(key)
            raise
        self.ended.append(key)


class Failures:
    def __init__(self) -> None:
        self.seen: list[tuple[str, type[BaseException]]] = []

    def __call__(self, key: str, error: BaseException) -> None:
        self.seen.append((key, type(error)))


def a_pool(
    job: Callable[[str], Awaitable[None]],
    *,
    count: int = 1,
    max_queue: int = 10,
    on_error: Callable[[str, BaseException], None] | None = None,
) -> WorkerPool[str]:
    return WorkerPool(job, workers=count, max_queue=max_queue, on_error=on_error or Failures())


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_keys_run_in_order_at_most_so_many_at_a_time() -> None:
    jobs = Jobs()
    pool = a_pool(jobs, count=2)
    assert all(pool.submit(key) for key in "abcd")
    await settle()
    assert (jobs.begun, pool.depth) == (["a", "b"], 2)
    jobs.gate.set()
    await settle()
    assert (jobs.ended, pool.depth) == (["a", "b", "c", "d"], 0)


async def test_a_key_that_waits_is_not_queued_twice() -> None:
    jobs = Jobs()
    pool = a_pool(jobs)
    assert all(pool.submit(key) for key in "abbb")
    assert pool.depth == 1
    jobs.gate.set()
    await settle()
    assert jobs.ended == ["a", "b"]


async def test_a_key_submitted_while_it_runs_runs_once_more_afterwards() -> None:
    jobs = Jobs()
    pool = a_pool(jobs, count=3)
    pool.submit("a")
    await settle()
    assert all(pool.submit("a") for _ in range(3))
    await settle()
    assert (jobs.begun, pool.depth) == (["a"], 1)
    jobs.gate.set()
    await settle()
    assert jobs.ended == ["a", "a"]


async def test_a_full_queue_refuses_but_knows_its_own() -> None:
    jobs = Jobs()
    pool = a_pool(jobs, max_queue=2)
    assert [pool.submit(key) for key in "abc"] == [True, True, True]
    await settle()
    assert not pool.submit("d")
    assert pool.submit("a")
    assert pool.submit("b")
    jobs.gate.set()
    await settle()
    assert pool.submit("d")
    await settle()
    assert jobs.ended == ["a", "b", "c", "a", "d"]


async def test_the_oldest_waiting_key_is_told() -> None:
    now = 100.0
    jobs = Jobs()
    pool = WorkerPool(jobs, workers=1, max_queue=9, on_error=Failures(), monotonic=lambda: now)
    assert pool.oldest_seconds == 0
    pool.submit("a")
    pool.submit("b")
    now = 103.0
    pool.submit("c")
    assert pool.oldest_seconds == 3
    await pool.drain(0)


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_a_failing_job_is_reported_and_the_next_one_runs(error: type[BaseException]) -> None:
    done = list[str]()
    failures = Failures()

    async def job(key: str) -> None:
        if key == "bad":
            raise error
        done.append(key)

    pool = a_pool(job, on_error=failures)
    pool.submit("bad")
    pool.submit("good")
    await settle()
    assert (failures.seen, done) == ([("bad", error)], ["good"])


async def test_a_failing_report_does_not_stop_the_pool() -> None:
    done = list[str]()

    async def job(key: str) -> None:
        done.append(key)
        raise ValueError(key)

    def report(key: str, error: BaseException) -> None:
        raise RuntimeError(key) from error

    unhandled = list[dict[str, object]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    pool = a_pool(job, on_error=report)
    pool.submit("a")
    pool.submit("b")
    await settle()
    gc.collect()
    assert (done, unhandled) == (["a", "b"], [])


class TestDrain:
    async def test_a_job_that_runs_may_end_and_nothing_new_begins(self) -> None:
        jobs = Jobs()
        pool = a_pool(jobs)
        pool.submit("running")
        pool.submit("waiting")
        await settle()
        pool.submit("running")
        drain = asyncio.create_task(pool.drain(5))
        await settle()
        assert not pool.submit("late")
        assert not drain.done()
        jobs.gate.set()
        await drain
        assert (jobs.begun, jobs.ended) == (["running"], ["running"])

    async def test_at_the_deadline_jobs_are_cancelled(self) -> None:
        jobs, failures = Jobs(), Failures()
        pool = a_pool(jobs, count=2, on_error=failures)
        pool.submit("a")
        pool.submit("b")
        await settle()
        await pool.drain(0.01)
        assert (jobs.cancelled, jobs.ended, failures.seen) == (["a", "b"], [], [])

    async def test_a_cancelled_job_may_clean_up(self) -> None:
        released = list[str]()

        async def job(key: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                released.append(key)

        pool = a_pool(job)
        pool.submit("a")
        await settle()
        await pool.drain(0)
        assert released == ["a"]

    async def test_a_job_that_will_not_end_does_not_hold_the_shutdown_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(workers, "CANCEL_SECONDS", 0.01)
        release = asyncio.Event()

        async def job(key: str) -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

        pool = a_pool(job)
        pool.submit("a")
        await settle()
        async with asyncio.timeout(2):
            await pool.drain(0)
        release.set()
        await settle()

    async def test_an_idle_pool_drains_at_once_and_twice(self) -> None:
        pool = a_pool(Jobs())
        async with asyncio.timeout(2):
            await pool.drain(60)
            await pool.drain(60)


async def test_what_a_background_task_starts_is_settled_too() -> None:
    tasks, ended = BackgroundTasks(), list[str]()

    async def second() -> None:
        ended.append("second")

    async def first() -> None:
        tasks.start(second(), name="second")
        ended.append("first")

    tasks.start(first(), name="first")
    assert len(tasks) == 1
    await tasks.settle()
    assert (ended, len(tasks)) == (["first", "second"], 0)


async def test_background_tasks_have_ended_when_they_are_stopped() -> None:
    tasks, jobs = BackgroundTasks(), Jobs()
    for key in "ab":
        tasks.start(jobs(key), name=key)
    await settle()
    await tasks.stop()
    assert (sorted(jobs.cancelled), len(tasks)) == (["a", "b"], 0)
    await tasks.stop()


async def test_a_background_task_that_has_just_ended_counts_no_more() -> None:
    tasks = BackgroundTasks()

    async def ends_at_once() -> None: ...

    async def looks_right_after_it() -> int:
        return len(tasks)

    tasks.start(ends_at_once(), name="ends at once")
    assert await asyncio.create_task(looks_right_after_it()) == 0
