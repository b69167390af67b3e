"""Work spread over processes of this machine, or over a Dask cluster; answers come back in the order of the questions.

Each item is a pure function of what it is given, so the answers are the same bit for bit however they were spread, and a
worker that dies costs no more than the time of what it held: the item is given out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from rooflinecli.core.errors import RooflineError, UsageError

Q = TypeVar("Q")
A = TypeVar("A")
Spread = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
RETRIES = 5  # of an item whose worker died


def spread_over(jobs: int = 1, cluster: str | None = None) -> Spread:
    """How to map: here, over `jobs` processes, or over the cluster at an address. Raises UsageError when it cannot be reached."""
    if cluster:
        return lambda function, items: _dask(cluster, function, list(items))
    if jobs > 1:
        return lambda function, items: _processes(jobs, function, list(items))
    return lambda function, items: map(function, items)


class _Kept:
    """An answer, or the error that a person should read, through any process boundary."""

    def __init__(self, function: Callable[[Any], Any]):
        self.function = function

    def __call__(self, item: Any) -> tuple[bool, Any]:
        try:
            return True, self.function(item)
        except RooflineError as error:
            return False, (type(error), str(error), getattr(error, "option", ""))


def _opened(found: tuple[bool, Any]) -> Any:
    good, value = found
    if good:
        return value
    kind, text, option = value
    raise kind(text, option) if issubclass(kind, UsageError) else kind(text)


def _processes(jobs: int, function: Callable[[Q], A], items: list[Q]) -> Iterator[A]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children, get_context

    answers: dict[int, Any] = {}
    left = list(range(len(items)))
    for _ in range(RETRIES):
        with ProcessPoolExecutor(min(jobs, max(len(left), 1)), get_context("spawn")) as pool:
            running = {i: pool.submit(_Kept(function), items[i]) for i in left}
            try:
                for i in list(left):
                    answers[i] = running[i].result()
                    left.remove(i)
                    yield _opened(answers.pop(i))
            except BrokenProcessPool:
                continue
            except KeyboardInterrupt:  # nobody waits for what is under way
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in active_children():
                    worker.terminate()
                raise
            return
    raise UsageError(f"--jobs {jobs}: worker processes keep dying (out of memory?); give fewer")


def _dask(address: str, function: Callable[[Q], A], items: list[Q]) -> Iterator[A]:
    try:
        from distributed import Client as Dask
    except ImportError:
        raise UsageError(
            "--cluster needs Dask; install it with `pip install 'rooflinecli[cluster]'`", "cluster"
        ) from None
    try:
        connect: Any = Dask
        client = connect(address, timeout="5s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(
            f"--cluster {address}: no Dask scheduler answers ({reason}); give tcp://HOST:PORT of a running one",
            "cluster",
        ) from None
    with client:
        running = client.map(_Kept(function), items, pure=False, retries=RETRIES)
        for future in running:
            yield _opened(future.result())
