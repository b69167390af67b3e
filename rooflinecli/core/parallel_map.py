"""Work spread over processes of this machine, or over a Dask cluster; answers come back in the order of the questions.

Each item is a pure function of what it is given, so the answers are the same bit for bit however they were spread, and a
worker that dies costs no more than the time of what it held: the item is given out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.core.extras import install

Q = TypeVar("Q")
A = TypeVar("A")
RETRIES = 5  # of an item whose worker died


class Spread(Protocol):
    """A `map` whose work may be done elsewhere."""

    def __call__(self, function: Callable[[Q], A], items: Iterable[Q], /) -> Iterator[A]: ...


def spread_over(jobs: int = 1, cluster: str | None = None) -> Spread:
    """How to map: here, over `jobs` processes, or over the cluster at an address. Raises UsageError when it cannot be reached."""

    def over(function: Callable[[Q], A], items: Iterable[Q]) -> Iterator[A]:
        if cluster:
            return _dask(cluster, function, list(items))
        return _processes(jobs, function, list(items)) if jobs > 1 else map(function, items)

    return over


class _Refusal(NamedTuple):
    """An error that a person should read, as it passes a process boundary."""

    kind: type[RooflineError]
    text: str
    option: str


class _Kept(Generic[Q, A]):
    """A function that returns such an error instead of raising it."""

    def __init__(self, function: Callable[[Q], A]):
        self.function = function

    def __call__(self, item: Q) -> A | _Refusal:
        try:
            return self.function(item)
        except RooflineError as error:
            return _Refusal(type(error), str(error), getattr(error, "option", ""))


def _opened(found: A | _Refusal) -> A:
    if not isinstance(found, _Refusal):
        return found
    raise found.kind(found.text, found.option) if issubclass(found.kind, UsageError) else found.kind(found.text)


def _processes(jobs: int, function: Callable[[Q], A], items: list[Q]) -> Iterator[A]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children, get_context

    left = list(range(len(items)))
    for _ in range(RETRIES):
        with ProcessPoolExecutor(min(jobs, max(len(left), 1)), get_context("spawn")) as pool:
            running = {i: pool.submit(_Kept(function), items[i]) for i in left}
            try:
                for i in list(left):
                    found = running[i].result()
                    left.remove(i)
                    yield _opened(found)
            except BrokenProcessPool:
                continue
            except KeyboardInterrupt:  # what is under way is not waited for
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in active_children():
                    worker.terminate()
                raise
            return
    raise UsageError(f"--jobs {jobs}: worker processes keep dying (out of memory?); give fewer")


def _dask(address: str, function: Callable[[Q], A], items: list[Q]) -> Iterator[A]:
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(f"--cluster needs Dask; install it with `{install('cluster')}`", "cluster") from None
    try:
        client = Client(address, timeout="5s", set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"--cluster {address}: no Dask scheduler answers ({reason}); give tcp://HOST:PORT of a running one",
            "cluster",
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=5)
        except TimeoutError:
            raise UsageError(
                f"--cluster {address}: the scheduler has no workers; start one with `dask worker {address}`", "cluster"
            ) from None
        running = client.map(_Kept(function), items, pure=False, retries=RETRIES)
        for future in running:
            yield _opened(future.result())
