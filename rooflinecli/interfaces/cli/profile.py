"""`roofline profile`: where the time of a trace goes, and how far each kernel is from its floor."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.lift import TracedLift
from rooflinecli.interfaces.cli.from_question import Explained, command
from rooflinecli.interfaces.cli.output import write
from rooflinecli.interfaces.cli.show import explained, show
from rooflinecli.questions.profile.question import Profile
from rooflinecli.specs.options import Whole, field


class ProfileDelivery(Explained):
    """A table of the kernels that take longest, or the derivation of one quantity."""

    # fmt: off
    top: Whole = field("whole", "Kernels to list.", default=15)
    # fmt: on


def run(question: Profile, how: ProfileDelivery) -> None:
    """Print the profile, its comparison with an estimate, or a derivation."""
    if question.against is not None:
        from rooflinecli.engine import build_request
        from rooflinecli.importers.profiles.read import read
        from rooflinecli.questions.profile.compare_estimate import against
        from rooflinecli.specs.flag_text import estimate_options

        request = build_request.request(estimate_options("--against", question.against, question.hw))
        compared = against(read(Path(question.trace)), request, question.steps, question.device)
        show(compared, "profile.against", how, table="rows", top=how.top)
    elif how.explain is None:
        show(question.answer(), "profile", how, table="kernels", top=how.top)
    else:
        totals = {key: value for key, value in question.answer(TracedLift()).entries() if key != "kernels"}
        write(explained(totals, how.explain, int(how.depth)), None if how.out is None else Path(how.out))


app = command(Profile, run, ProfileDelivery)
