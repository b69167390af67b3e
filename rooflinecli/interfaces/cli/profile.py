"""`roofline profile`: where the time of a trace goes, and how far each kernel is from its floor."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.lift import TracedLift
from rooflinecli.interfaces.cli.from_question import Explained, command
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.interfaces.cli.show import explained
from rooflinecli.questions.profile.question import Profile
from rooflinecli.specs.options import Whole, field


class ProfileDelivery(Explained):
    """A table of the kernels that take longest, or the derivation of one quantity."""

    # fmt: off
    top: Whole = field("whole", "Kernels to list.", default=15)
    # fmt: on


def run(question: Profile, how: ProfileDelivery) -> None:
    """Print the profile, its comparison with an estimate, or a derivation."""
    from rooflinecli.questions.profile.rollup import FORMER
    from rooflinecli.render.answer import first_keys
    from rooflinecli.render.views.profile import render

    out = None if how.out is None else Path(how.out)
    if question.against is not None:
        write(_against(question, question.against, how, columns(how.wide, out)), out)
    elif how.explain is None:
        answer = question.answer()
        if how.schema == "1" and how.format == "json":
            answer = first_keys(answer, FORMER)
        write(render(answer, how.format, how.top, columns(how.wide, out)), out)
    else:
        totals = {key: value for key, value in question.answer(TracedLift()).items() if key != "kernels"}
        write(explained(totals, how.explain, int(how.depth)), out)


def _against(question: Profile, flags: str, how: ProfileDelivery, width: int) -> str:
    """The trace compared with an estimate."""
    from rooflinecli.engine import build_request
    from rooflinecli.importers.profiles.read import read
    from rooflinecli.interfaces.cli.estimate_flags import estimate_options
    from rooflinecli.questions.profile.compare_estimate import against
    from rooflinecli.render.views.profile_vs_estimate import render

    request = build_request.request(estimate_options("--against", flags, question.hw))
    kernels = read(Path(question.trace))
    return render(against(kernels, request, question.steps, question.device), how.format, how.top, width)


app = command(Profile, run, ProfileDelivery)
