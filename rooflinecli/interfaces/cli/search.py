"""`roofline search`: the question, its progress and its page."""

from __future__ import annotations

from rooflinecli.interfaces.cli.from_question import Plotted, Study, command
from rooflinecli.interfaces.cli.progress import Progress
from rooflinecli.interfaces.cli.show import show
from rooflinecli.questions.search.question import Search


class SearchDelivery(Plotted, Study):
    """Where the answer goes, and its picture."""


def run(question: Search, how: SearchDelivery) -> int:
    """Search and print; the exit code is 1 where nothing is feasible."""
    bars: list[Progress] = []

    def tell(done: int, total: int) -> None:
        if not bars:
            bars.append(Progress(total, "layouts"))
        bars[0].add(done)

    if question.sensitivity and how.format == "csv":
        from rooflinecli.engine.build_request import warn

        warn("--sensitivity has no place in csv, which holds the rows alone; table, markdown and json have it")
        question = question.replace(sensitivity=None)
    found = question.answer(tell, how.over(question))
    for bar in bars:
        bar.close()
    show(found, "search", how, table="results")
    return 0 if found.feasible else 1


app = command(Search, run, SearchDelivery)
