"""`roofline simulate MODEL --hw HW --qps 4`: an engine's scheduler over step prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from rooflinecli.interfaces.cli.command_from_question import PanelCommand, asks
from rooflinecli.interfaces.cli.common_options import CLUSTER, FORMAT, JOBS, OUT, WIDE
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns
from rooflinecli.specs.options import ENGINE, LAYOUT, LOAD, NOT_SIMULATED

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command(
    cls=PanelCommand,
    epilog="roofline simulate llama70b --hw h100 --tp 4 --dtype fp8 --engine vllm --qps 4 --slo ttft=2s,itl=50ms@99\n"
    "roofline simulate llama70b --hw h100 --tp 4 --engine vllm --trace trace.csv --replicas min --slo ttft=2s@99",
)
@asks(
    without=NOT_SIMULATED,
    help={
        "hw": "A name or alias (`roofline hardware`), or a YAML path; several make a study.",
        "tp": "Tensor parallel size; several make a study.",
    },
)
def simulate(
    options: dict[str, Any],
    trace: str = _Opt(
        None,
        metavar="FILE",
        rich_help_panel=LOAD,
        help="Recorded load: Azure, BurstGPT, Mooncake, Bailian, ShareGPT, inputs and results of benchmark clients, or time,prompt,output.",
    ),
    qps: str = _Opt(
        None,
        metavar="RATE",
        rich_help_panel=LOAD,
        help="Open loop: requests per second over all replicas; several make a study.",
    ),
    arrivals: str = _Opt("poisson", metavar="KIND", rich_help_panel=LOAD, help="poisson, gamma:CV or constant."),
    concurrency: str = _Opt(
        None,
        metavar="COUNT",
        rich_help_panel=LOAD,
        help="Closed loop: requests in flight per replica, each followed by the next; several make a study.",
    ),
    prompts_per_slot: int = _Opt(
        10,
        min=1,
        metavar="COUNT",
        rich_help_panel=LOAD,
        help="Closed loop: requests per slot, the first of them in a burst.",
    ),
    prompt: str = _Opt(
        None,
        metavar="TOKENS",
        rich_help_panel=LOAD,
        help="Prompt tokens: 2k, uniform:LOW,HIGH, lognormal:MEAN,SIGMA or exponential:MEAN (2048, or what the model takes).",
    ),
    output: str = _Opt(
        None,
        metavar="TOKENS",
        rich_help_panel=LOAD,
        help="Output tokens, as --prompt (256, or what the model takes).",
    ),
    lengths: str = _Opt(
        None,
        metavar="LOW:HIGH",
        rich_help_panel=LOAD,
        help="Draw every length between these shares of it, such as 0.8:1.",
    ),
    requests: str = _Opt(
        None,
        metavar="COUNT",
        rich_help_panel=LOAD,
        help="Requests (1000; in a closed loop per replica, and of a trace its first).",
    ),
    speed: float = _Opt(
        1.0, min=1e-6, metavar="FACTOR", rich_help_panel=LOAD, help="Play a trace so many times as fast."
    ),
    window: str = _Opt(
        None,
        metavar="FROM:TO",
        rich_help_panel=LOAD,
        help="Part of a trace by time since its start, such as 10min:20min.",
    ),
    skip_bad: bool = _Opt(
        False, "--skip-bad", rich_help_panel=LOAD, help="Leave malformed rows of a trace out, and say how many."
    ),
    warmup: str = _Opt(
        None,
        metavar="TIME",
        rich_help_panel=LOAD,
        help="Leave requests that come earlier out of every number, such as 30s.",
    ),
    slo: str = _Opt(
        None,
        metavar="LIMITS",
        help="Limits and the per cent of requests inside all: ttft=2s,itl=50ms,e2e=30s@99; several, and by class: "
        "ttft=500ms@50,ttft=2s@99,batch:e2e=10min@95.",
    ),
    replicas: str = _Opt(
        "1",
        metavar="COUNT",
        rich_help_panel=LAYOUT,
        help="Copies of the plan; min: the fewest that keep to --slo; several make a study.",
    ),
    router: str = _Opt(
        "round-robin", metavar="NAME", rich_help_panel=LAYOUT, help="round-robin, least-loaded or prefix."
    ),
    lose: str = _Opt(
        None,
        metavar="LOSSES",
        rich_help_panel=LAYOUT,
        help="Replicas that stop, and for how long: 1@2min:10min; their requests begin anew on the others.",
    ),
    autoscale: str = _Opt(
        None,
        metavar="MIN:MAX@TARGET",
        rich_help_panel=LAYOUT,
        help="Replicas that come and go with the load, so many requests under way on each: 1:8@32.",
    ),
    start_up: str = _Opt(
        None,
        metavar="TIME",
        rich_help_panel=LAYOUT,
        help="With --autoscale: how long until a new replica serves, such as 3min.",
    ),
    prefill_pool: int = _Opt(
        0, min=0, metavar="COUNT", rich_help_panel=LAYOUT, help="Copies of the plan that only read prompts."
    ),
    decode_pool: int = _Opt(
        0, min=0, metavar="COUNT", rich_help_panel=LAYOUT, help="Copies of the plan that only write answers."
    ),
    kv_link: str = _Opt(
        None,
        metavar="RATE",
        rich_help_panel=LAYOUT,
        help="Bytes per second and device between the pools; else the chip's outermost network.",
    ),
    prefix_cache: bool = _Opt(
        False, "--prefix-cache", rich_help_panel=ENGINE, help="Keep prompts for later requests that begin alike."
    ),
    scheduler: list[str] = _Opt(
        None,
        "--scheduler",
        metavar="NAME=VALUE",
        rich_help_panel=ENGINE,
        help="Override the engine's scheduler: policy=sglang, token_budget=2048, look_ahead=0; repeat.",
    ),
    seed: int = _Opt(0, min=0, metavar="COUNT", help="Of everything drawn: equal seeds give equal answers."),
    seeds: int = _Opt(
        None, min=1, metavar="COUNT", help="Runs with further seeds for the interval (3; 1 beyond 20,000 requests)."
    ),
    interval: bool = _Opt(
        None,
        "--interval/--no-interval",
        help="Repeat with other seeds and step prices to say how sure it is (up to 20,000 requests).",
    ),
    requests_out: Path = _Opt(
        None, "--requests-out", metavar="FILE", help="Every request's times to FILE.csv or FILE.parquet."
    ),
    timeline: Path = _Opt(
        None,
        metavar="FILE",
        help="Arrivals, tokens, latency, batch and queue over time to FILE.csv or FILE.parquet.",
    ),
    every: str = _Opt(None, metavar="TIME", help="Length of an interval of --timeline, such as 10s."),
    plot: str = _Opt(None, metavar="FILE", help="Curves of percentiles: FILE.png, FILE.svg, or - for the terminal."),
    plot_kind: str = _Opt(
        "percentiles",
        "--plot-kind",
        metavar="CHOICE",
        help="percentiles, load (batch and queue over time), or slo (share inside the limits against the rate).",
    ),
    jobs: int = JOBS,
    cluster: str = CLUSTER,
    wide: bool = WIDE,
    format: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """Percentiles, SLO attainment and the fewest replicas for a load: every request's life under an engine's scheduler.

    Exit code 1 when --slo is not kept, or nothing fits.
    """
    from rooflinecli.interfaces.cli.simulate_run import SimulateRunOptions, run

    given = {
        "trace": trace, "arrivals": arrivals, "per_slot": prompts_per_slot, "prompt": prompt, "output": output, "spread": lengths,
        "requests": requests, "speed": speed, "window": window, "skip_bad": skip_bad, "warmup": warmup, "lose": lose, "autoscale": autoscale, "start_up": start_up, "slo": slo, "router": router,
        "prefill_pool": prefill_pool, "decode_pool": decode_pool, "link": kv_link, "prefix_cache": prefix_cache,
        "settings": tuple(scheduler or ()), "seed": seed,
    }  # fmt: skip
    varied: dict[str, str | None] = {"qps": qps, "concurrency": concurrency, "replicas": replicas}
    ask = SimulateRunOptions(
        options,
        given,
        varied,
        seeds,
        interval,
        requests_out,
        timeline,
        every,
        plot,
        plot_kind,
        jobs,
        cluster,
        format.value,
        out,
        columns(wide, out),
    )
    if not run(ask):
        raise typer.Exit(1)
