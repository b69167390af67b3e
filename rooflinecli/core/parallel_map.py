"""Work spread over processes of this machine, or over a Dask cluster; answers come back in the order of the questions.

Each item is a pure function of what it is given, so the answers are the same bit for bit however they were spread, and a
worker that dies costs no more than the time of what it held: the item is given out again.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from rooflinecli.core import files
from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.core.extras import install

Q = TypeVar("Q")
A = TypeVar("A")
RETRIES = 5  # of an item whose worker died


class Workers(Protocol):
    """A `map` whose work may be done elsewhere."""

    def __call__(self, function: Callable[[Q], A], items: Iterable[Q], /) -> Iterator[A]: ...


def worker_map(jobs: int = 1, cluster: str | None = None, kept: Kept | None = None) -> Workers:
    """How to map: here, over `jobs` processes, or over the cluster at an address; `kept` answers are not worked out again.

    Raises UsageError when the cluster cannot be reached.
    """

    def workers(function: Callable[[Q], A], items: Iterable[Q]) -> Iterator[A]:
        if not cluster and jobs <= 1 and kept is None:
            return map(function, items)
        wrapped = _Wrapped(function)
        if cluster:
            run: Unordered[Q, A] = partial(_dask, cluster, wrapped)
        else:
            run = (
                partial(_processes, jobs, wrapped)
                if jobs > 1
                else lambda found: ((number, wrapped(item)) for number, item in found.items())
            )
        return _in_order(list(items), run if kept is None else kept.around(run))

    return workers


# items by number -> (number, outcome) as they are done
Unordered = Callable[[dict[int, Q]], Iterator[tuple[int, "A | _Refusal"]]]


def _in_order(items: list[Q], run: Unordered[Q, A]) -> Iterator[A]:
    """The answers in the order of their items. The first error of a person's making is raised in its place."""
    done: dict[int, A | _Refusal] = {}
    following = 0
    for number, outcome in run(dict(enumerate(items))):
        done[number] = outcome
        while following in done:
            yield _opened(done.pop(following))
            following += 1


class StudyCost(Exception):
    """What a study would take: raised in the place of its answers by a map that works out three of its items alone."""

    def __init__(self, items: int, seconds: float, answer_bytes: float):
        super().__init__(items, seconds, answer_bytes)
        self.items, self.seconds, self.answer_bytes = items, seconds, answer_bytes


def only_cost(function: Callable[[Q], A], items: Iterable[Q]) -> Iterator[A]:
    """Raise StudyCost from the time and size of the first, the middle and the last item."""
    given = list(items)
    sampled = sorted({0, len(given) // 2, len(given) - 1}) if given else []
    start = time.perf_counter()
    sizes = [len(pickle.dumps(_Wrapped(function)(given[at]))) for at in sampled]
    each = len(given) / max(len(sampled), 1)
    raise StudyCost(len(given), (time.perf_counter() - start) * each, sum(sizes) * each)


class Kept:
    """Outcomes of one question in a folder, each written once it is known, so that a study goes on where it was cut off.

    Items are counted in the order in which the question asks for them, which is the same in every run of it.
    """

    def __init__(self, folder: Path, question: str):
        self.folder, self.calls = folder, 0
        about = folder / "question.txt"
        if about.is_file():
            if about.read_text(encoding="utf-8") != question:
                raise UsageError(
                    f"--resume {folder}: holds the answers of another question or release; give another folder",
                    "resume",
                )
            return
        if folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"--resume {folder}: holds other files; give a new folder", "resume")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--resume {folder}: {error.strerror}; give a writable folder", "resume") from None
        files.write(about, question, "--resume")

    def around(self, run: Unordered[Q, A]) -> Unordered[Q, A]:
        """The same work, less what the folder has."""
        call, self.calls = self.calls, self.calls + 1

        def resumed(items: dict[int, Q]) -> Iterator[tuple[int, A | _Refusal]]:
            paths = {number: self.folder / f"{call}-{number}.pickle" for number in items}
            known = {number for number, path in paths.items() if path.is_file()}
            for number in sorted(known):
                yield number, pickle.loads(paths[number].read_bytes())
            for number, outcome in run({number: item for number, item in items.items() if number not in known}):
                with files.replacing(paths[number], "--resume") as partial_file:
                    partial_file.write_bytes(pickle.dumps(outcome))
                yield number, outcome

        return resumed


class _Refusal(NamedTuple):
    """An error that a person should read, as it passes a process boundary."""

    kind: type[RooflineError]
    text: str
    option: str


class _Wrapped(Generic[Q, A]):
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


def _processes(jobs: int, function: _Wrapped[Q, A], items: dict[int, Q]) -> Iterator[tuple[int, A | _Refusal]]:
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children, get_context

    left = dict(items)
    for _ in range(RETRIES):
        with ProcessPoolExecutor(min(jobs, max(len(left), 1)), get_context("spawn")) as pool:
            running = {pool.submit(function, item): number for number, item in left.items()}
            try:
                for future in as_completed(running):
                    outcome = future.result()
                    del left[running[future]]
                    yield running[future], outcome
            except BrokenProcessPool:
                continue
            except KeyboardInterrupt:  # what is under way is not waited for
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in active_children():
                    worker.terminate()
                raise
            return
    raise UsageError(f"--jobs {jobs}: worker processes keep dying (out of memory?); give fewer")


def _dask(address: str, function: _Wrapped[Q, A], items: dict[int, Q]) -> Iterator[tuple[int, A | _Refusal]]:
    try:
        from distributed import Client, as_completed
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
        futures = client.map(function, list(items.values()), pure=False, retries=RETRIES)
        number = dict(zip(futures, items, strict=True))
        for future, outcome in as_completed(futures, client.loop, with_results=True):  # type: ignore[no-untyped-call]
            yield number[future], outcome
