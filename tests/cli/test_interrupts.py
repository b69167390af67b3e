"""Ctrl-C: what was done is printed, and a run that kept nothing says so; the exit code is 130."""

from __future__ import annotations

import json

import pytest
from conftest import run_cli

from rooflinecli.core.extras import install
from rooflinecli.questions.plan.training import ChipPlan

PLAN = ("plan", "llama-3-8b", "--tokens", "100B", "--batch", "512", "--deadline", "9d", "-n", "64")


@pytest.mark.slow
def test_a_plan_keeps_the_chips_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, seen = ChipPlan.answer, []

    def interrupted(self: ChipPlan):
        if seen:
            raise KeyboardInterrupt
        seen.append(self.name)
        return answer(self)

    monkeypatch.setattr(ChipPlan, "answer", interrupted)
    ran = run_cli(*PLAN, "--hw", "h100,b200,mi300x")
    assert ran.code == 130 and "1 of 3 chips" in ran.err and "H100" in ran.out
    seen.clear()
    ran = run_cli(*PLAN, "--hw", "h100,b200", "--format", "json")
    assert ran.code == 130 and json.loads(ran.out)["interrupted"] is True
    ran = run_cli(*PLAN, "--hw", "b200")
    assert ran.code == 130 and "nothing was kept; --resume FOLDER keeps" in ran.err and not ran.out


def test_validate_keeps_the_tables_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflinecli.validate import collectives, inference

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(inference, "tables", interrupted)
    alone = run_cli("validate", "inference")
    assert alone.code == 130 and "nothing was kept" in alone.err
    monkeypatch.setattr(collectives, "tables", interrupted)


def test_an_extra_is_installed_from_where_the_package_is() -> None:
    assert install("plot").startswith("pip install '/") and install("plot").endswith("[plot]'")


def test_a_sweep_writes_the_points_that_it_has(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from rooflinecli.questions.sweep import run as sweep

    answers = sweep.answers

    def interrupted(space, start, stop):
        for i, box in enumerate(answers(space, start, stop)):
            if i == 2:
                raise KeyboardInterrupt
            yield box

    monkeypatch.setattr(sweep, "answers", interrupted)
    layout = ("--tp", "1", "--pp", "1", "--dp", "1")
    asked = ("sweep", "llama-3-8b", "--hw", "h100,h200,b200", "--batch", "1,2", *layout)
    path = tmp_path / "points.csv"
    ran = run_cli(*asked, "--format", "csv", "--out", str(path))
    assert ran.code == 130 and "interrupted: 4 of 6 points are written" in ran.err
    assert len(path.read_text().splitlines()) == 1 + 4
    ran = run_cli(*asked)
    assert ran.code == 130 and "4 of 6" in ran.err and "prefill" in ran.out


SEARCH = (
    "search",
    "llama-3-8b",
    "--hw",
    "h100",
    "--batch",
    "64",
    "--pp",
    "1",
    "--recompute",
    "none",
    "--micro-batch",
    "1",
)


def test_a_search_shows_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflinecli.questions.search import training

    searched, seen = training._searched, []

    def interrupted(*asked):
        if seen:
            raise KeyboardInterrupt
        seen.append(asked)
        return searched(*asked)

    monkeypatch.setattr(training, "_searched", interrupted)
    ran = run_cli(*SEARCH, "-n", "4,8")
    assert ran.code == 130 and "layouts were searched" in ran.err
    assert "4 devices" in ran.out and "searched until the interruption" in " ".join(ran.out.split())
    seen.clear()
    ran = run_cli(*SEARCH, "-n", "4,8", "--format", "json")
    found = json.loads(ran.out)
    assert ran.code == 130 and found["interrupted"] is True and found["results"][0]["layout"]["devices"] == 4
    ran = run_cli(*SEARCH, "-n", "4")
    assert ran.code == 130 and "nothing was kept" in ran.err and not ran.out


def test_a_search_over_chips_keeps_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflinecli.questions.search import serving

    grid = serving.serving_grid

    def interrupted(question, refusal):
        if question.request.hardware.id.startswith("h200"):
            raise KeyboardInterrupt
        return grid(question, refusal)

    monkeypatch.setattr(serving, "serving_grid", interrupted)
    asked = ("search", "llama-3-8b", "--phase", "decode", "-n", "1", "--batch", "8", "--prompt", "64", "--output", "8")
    ran = run_cli(*asked, "--hw", "h100,h200")
    assert ran.code == 130 and "h200: infeasible, not searched before the interruption" in ran.out
    assert "h100" in ran.out.split("best:")[1]


@pytest.mark.slow
def test_a_calibration_keeps_the_fits_before(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from rooflinecli.calibrate import answer
    from tests.calibrate.logs import VLLM

    fit, seen = answer.fit_phase, []

    def interrupted(*asked):
        if seen:
            raise KeyboardInterrupt
        seen.append(asked)
        return fit(*asked)

    monkeypatch.setattr(answer, "fit_phase", interrupted)
    log = tmp_path / "bench.json"
    log.write_text(json.dumps(VLLM))
    ran = run_cli("calibrate", str(log), "--hw", "h100", "-n", "1")
    assert ran.code == 130 and "interrupted: 1 of 2 fits were done" in ran.out
    ran = run_cli("calibrate", str(log), "--hw", "h100", "-n", "1")
    assert ran.code == 130 and "nothing was kept" in ran.err and not ran.out


def test_a_fleet_that_keeps_its_answers_says_where(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from rooflinecli.questions.fleet.question import FleetPlan

    def interrupted(self, workers=None):
        for _ in parts if workers is None else workers(str, parts):
            pass
        raise KeyboardInterrupt

    monkeypatch.setattr(FleetPlan, "answer", interrupted)
    for parts, said in (([], "nothing was kept"), ([1, 2], "the parts that had ended are in ")):
        folder = tmp_path / f"kept-{len(parts)}"
        ran = run_cli("fleet", "examples/fleet.yaml", "--resume", str(folder))
        assert ran.code == 130 and said in ran.err and (not parts or str(folder) in ran.err)


def test_a_search_keeps_its_ranking_where_the_simulation_of_it_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflinecli.questions.search import answer

    def interrupted(*asked):
        raise KeyboardInterrupt

    monkeypatch.setattr(answer, "_simulate", interrupted)
    asked = (
        "search",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "1",
        "--qps",
        "2",
        "--slo",
        "itl=40ms",
        "--simulate-top",
        "2",
    )
    ran = run_cli(*asked)
    assert ran.code == 130 and "until the interruption" in " ".join(ran.out.split()) and "best:" in ran.out


@pytest.mark.slow
def test_a_search_of_rl_keeps_the_layouts_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflinecli.questions.rl import variants

    fitting, seen = variants._fitting, []

    def interrupted(*asked):
        if seen:
            raise KeyboardInterrupt
        seen.append(asked)
        return fitting(*asked)

    monkeypatch.setattr(variants, "_fitting", interrupted)
    ran = run_cli("rl", "qwen3-0.6b", "--hw", "h100", "-n", "2", "--search")
    assert ran.code == 130 and "interrupted: 1 of 3 layouts were tried" in ran.out and "best of 1 layout" in ran.out
    seen.clear()
    ran = run_cli("rl", "qwen3-0.6b", "--hw", "h100", "-n", "2", "--search", "--format", "json")
    assert ran.code == 130 and json.loads(ran.out)["interrupted"] is True


@pytest.mark.slow
def test_an_rl_step_that_does_not_fit_says_so_first_and_what_to_try() -> None:
    ran = run_cli("rl", "llama-3.3-70b", "--hw", "h100", "-n", "4", "--tp", "1", "--pp", "1", "--zero", "0")
    assert ran.code == 1 and "does not fit; it would take" in " ".join(ran.out.split("\n\n")[0].split())
    assert "--search: layouts that fit" in ran.out and "limits" in ran.out


def test_a_bar_is_drawn_while_nothing_is_done_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work whose first part takes long shows that it is under way; nothing is drawn once it is closed."""
    from rooflinecli.interfaces.cli.output import Progress

    drawn = []
    monkeypatch.setattr(Progress, "add", lambda bar, count: drawn.append((bar.unit, count)))
    with Progress(3, "chips", after=-0.1) as quiet:
        assert not quiet.visible
    bar = Progress(3, "chips", after=-0.1)
    bar.visible = True
    with bar:
        bar._first.join(5)
    late = Progress(3, "layouts", after=60)
    late.visible = True
    with late:
        pass
    late._first.join(5)
    assert drawn == [("chips", 0)] and not late._first.is_alive()
