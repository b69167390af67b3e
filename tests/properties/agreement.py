"""Random questions put to every verb that can answer them, and where two answers differ.

    PYTHONPATH=.:tests python tests/properties/agreement.py --seed 1 --questions 1000

The same number to the digit where the formula is the same, 10 % where one simulates; limits hold at the printed bound; dollars add up
to the bill; nothing fits beyond its own largest batch. `make` runs a few seeds of each kind (test_agreement.py); a release a thousand.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import shlex
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conftest import run_cli

from rooflinecli.core.errors import RooflineError
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.mcp import tools
from rooflinecli.interfaces.python import api
from rooflinecli.interfaces.web import form
from rooflinecli.render.answer import dumps
from rooflinecli.specs.quantities import AT_QPS, higher_is_better

Options = dict[str, Any]
SMALL = ("llama-3.1-8b", "mistral-7b-v0.1", "gemma-2-9b", "phi-3-mini-4k", "olmoe-1b-7b", "qwen3-8b")
LARGE = ("llama-3.3-70b", "mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-120b", "qwen2.5-32b")
GPUS = ("h100", "h200", "a100", "b200", "mi300x", "l40s")
TPUS = ("tpu-v5e", "tpu-v5p", "tpu-v6e")
ENGINES = ("vllm", "sglang", "trtllm", "python-server")
IN, OUT, BOTH = (f"usd_per_million_{kind}tokens" for kind in ("input_", "output_", ""))


def ask(verb: str, options: Options) -> Any:
    return verbs.answer(verbs.question(verb).read(options))


def serving(draw: random.Random) -> Options:
    """A server and its requests, without a load."""
    options: Options = {
        "model": draw.choice(SMALL + LARGE),
        "hw": draw.choice(GPUS + TPUS),
        "price": str(round(draw.uniform(0.4, 9), 2)),
    }
    options |= {"prompt": draw.randrange(64, 3500), "output": draw.choice((1, 16, draw.randrange(2, 700)))}
    if draw.random() < 0.7:
        options["engine"] = draw.choice(ENGINES)
    if draw.random() < 0.3:
        options["dtype"] = "bf16"
    if draw.random() < 0.3:
        options["gpu_memory_utilization"] = draw.choice((0.85, 0.95))
    if draw.random() < 0.2:
        options["equal_lengths"] = True
    return options


def server(draw: random.Random) -> Options:
    """The same on devices that are given."""
    devices = draw.choice((1, 2, 4, 8))
    return serving(draw) | {"n": devices, "tp": devices}


def load(draw: random.Random) -> Options:
    kind = draw.random()
    if kind < 0.4:
        return {"concurrency": draw.choice((1, 2, 3, 8, 16, 48))}
    return {"qps": round(draw.uniform(0.05, 3), 3)} if kind < 0.7 else {"batch": draw.choice((1, 2, 8, 24, 64))}


def training(draw: random.Random) -> Options:
    devices = draw.choice((8, 16, 32, 64, 128, 256))
    options: Options = {
        "model": draw.choice(SMALL + LARGE),
        "hw": draw.choice(GPUS + TPUS),
        "phase": "train",
        "n": devices,
    }
    options |= {"batch": devices * draw.choice((2, 4, 8, 16)), "seq_len": draw.choice((512, 2048, 4096))}
    return options


def arguments(options: Options) -> list[str]:
    """The options as a command line."""
    words = [str(options["model"])]
    for name, value in options.items():
        if name != "model":
            flag = f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"
            words += [flag] if value is True else [flag, str(value)]
    return words


def laid_out(layout: Options) -> Options:
    """The layout of a phase as options."""
    names = ("tp", "pp", "cp", "dp", "ep", "zero", "micro_batch", "virtual_stages", "recompute")
    options = {name: layout[name] for name in names} | {
        "sequence_parallel": "yes" if layout["sequence_parallel"] else "no"
    }
    return options | ({"dp_shard": layout["shard"]} if layout.get("shard") else {})


def close(a: float, b: float, rel: float = 1e-9) -> bool:
    return math.isclose(float(a), float(b), rel_tol=rel, abs_tol=1e-15)


def one_estimate(draw: random.Random) -> Iterator[str]:
    """The command line's record, Python, MCP, the page and an explanation: the same object; a sweep and a comparison: its numbers."""
    options = server(draw) | load(draw) | {"phase": "prefill,decode"} if draw.random() < 0.6 else training(draw)
    expected = ask("estimate", options)
    text = dumps(expected)
    phase = draw.choice([name for name, found in expected["phases"].items() if "time_s" in found])
    found = {
        "python": dumps(api.estimate(**options).to_dict()),
        "mcp": dumps(tools.call("estimate", {k.replace("_", "-"): v for k, v in options.items()})[0]["answer"]),
        "page": dumps(ask("estimate", form.options((k.replace("_", "-"), str(v)) for k, v in options.items()))),
    }
    for name, answer in found.items():
        if json.loads(answer) != json.loads(text):
            yield f"estimate and {name} differ"
    number = float(expected["phases"][phase]["time_s"])
    shown = api.explain(**options, quantity=f"{phase}.time_s", depth=1).splitlines()[0]
    if f"{number:.4g}"[:4] not in shown and "(" not in shown:
        yield f"explain says {shown}, estimate {number}"
    columns = f"{phase}.time_s,{phase}.tokens_per_s"
    given = {k: "yes" if v is True else v for k, v in options.items()} | laid_out(expected["phases"][phase]["layout"])
    swept = run_cli("sweep", *arguments(given), "--columns", columns, "--format", "json")
    if swept.code not in (0, 1):
        yield f"sweep: {swept.err.strip()}"
        return
    row = swept.json["points"][0]
    overloaded = any(violation["constraint"].endswith(".load") for violation in expected["violations"])
    if overloaded and row["feasible"]:
        yield "sweep: a rate is sustained, estimate: it is not"
    # of a rate that is not sustained an estimate has what a full replica does, a sweep an empty row
    for key in () if overloaded else ("time_s", "tokens_per_s"):
        if not close(row[f"{phase}.{key}"], expected["phases"][phase][key]):
            yield f"sweep: {phase}.{key} {row[f'{phase}.{key}']}, estimate {expected['phases'][phase][key]}"
    chips = options | {"hw": f"{options['hw']},h100" if options["hw"] != "h100" else "h100,h200", "phase": phase}
    compared = ask("compare", chips)
    mine = next(row for row in compared["rows"] if row["chip"] == options["hw"])
    if mine["feasible"] and not close(mine["quantities"].get(f"{phase}.time_s", number), number):
        yield f"compare: {phase}.time_s {mine['quantities'][f'{phase}.time_s']}, estimate {number}"


def loads_agree(draw: random.Random) -> Iterator[str]:
    """Means of a simulation within 10 % of the estimate below saturation; one lone request."""
    options = server(draw) | {"engine": draw.choice(ENGINES)}
    fitting = ask("estimate", options | {"phase": "decode", "batch": 1})["phases"]["decode"]["max_batch"]
    if fitting < 4:
        return
    users = min(draw.choice((1, 2, 3, 5, 8, 16, 32)), int(fitting / 2))
    if draw.random() < 0.5:
        # of a few requests the simulated means vary by 10% from seed to seed, those of short answers most, which are cheap
        each = max(40, (600 if options["output"] > 16 else 2500) // users)
        asked = options | {"concurrency": users, "requests_per_client": each}
        if draw.random() < 0.2:  # the others queue
            asked["max_num_seqs"] = max(users // draw.choice((2, 3)), 1)
    else:
        top = ask("estimate", options | {"phase": "prefill,decode", "concurrency": users})["phases"]["decode"]
        asked = options | {"qps": round(draw.uniform(0.05, 0.5) * top["tokens_per_s"] / options["output"], 4)}
    answer = ask("estimate", asked | {"phase": "prefill,decode"})
    if not any(
        "`roofline simulate`" in note for note in answer.get("notes", ())
    ):  # of loads that no formula of means follows
        many = 600 if options["output"] > 16 else 2500  # short answers are cheap, and their first tokens vary more
        asked |= {"interval": False} | ({} if "concurrency" in asked else {"num_requests": many})
        first, further = answer["phases"]["prefill"], answer["phases"]["decode"]
        expected = (
            ("ttft_mean_s", first["time_s"], 0.2 if "concurrency" in asked else 0.1),
            ("tpot_mean_s", further.get("time_s"), 0.1),
            ("output_tokens_per_s", further["tokens_per_s"], 0.1),
        )
        runs = [ask("simulate", asked)["simulate"]]
        if any(value is not None and not close(value, runs[0][name], rel) for name, value, rel in expected):
            # what a run of so many requests misses, the mean of five may not: an open loop's differ by a tenth from seed to seed
            runs += [ask("simulate", asked | {"seed": seed})["simulate"] for seed in (1, 2, 3, 4)]
        if (options["output"] > 1) != ("time_s" in further) or ("time_s" in further) != ("tpot_mean_s" in runs[0]):
            yield f"an ITL of requests of {options['output']} tokens: {further.get('time_s')}, simulated {runs[0].get('tpot_mean_s')}"
            return
        for name, value, rel in expected:
            mean = None if value is None else sum(run[name] for run in runs) / len(runs)
            if value is not None and mean is not None and not close(value, mean, rel):
                yield f"simulate {name} {mean:.4g}, estimate {value:.4g} ({value / mean - 1:+.0%}) at {asked}"
    alone = {"equal_lengths": True, "num_requests": 1, "interval": False}
    simulated = ask("simulate", options | alone | {"concurrency": 1})["simulate"]["ttft_mean_s"]
    for name, lone in (("concurrency 1", {"concurrency": 1}), ("qps to 0", {"qps": 1e-6})):
        ttft = ask("estimate", options | lone | {"phase": "prefill", "equal_lengths": True})["phases"]["prefill"][
            "time_s"
        ]
        if not close(ttft, simulated, 0.02):
            yield f"lone request: {name} {ttft:.5g}, simulated {simulated:.5g}"


def searched(draw: random.Random) -> Iterator[str]:
    """A row of a search is the estimate that its command prints; what an estimate chooses is at most 5 % behind the winner."""
    train = draw.random() < 0.5
    options = (
        training(draw)
        if train
        else serving(draw) | {"n": draw.choice((4, 8)), "batch": draw.choice((1, 8, 32)), "phase": "decode"}
    )
    found = ask("search", options)
    if not found["results"]:
        return
    best = draw.choice(found["results"][:3])
    ran = run_cli(*shlex.split(best["estimate"])[1:], "--format", "json").json
    if train:
        for key in ("time_s", "tokens_per_s", "mfu"):
            if not close(best[key], ran["phases"]["train"][key]):
                yield f"search {key} {best[key]}, its command {ran['phases']['train'][key]}"
        chosen = ask("estimate", options)
        rate = chosen["phases"]["train"]["tokens_per_s_interval"][0]
        top = found["results"][0]["score_at_bound"]["train.tokens_per_s"]
        if chosen["feasible"] and rate < top * 0.95:
            yield f"estimate chooses {rate:.5g} tok/s at the bound, search {top:.5g}"
        if not chosen["feasible"]:
            yield "search finds a layout, estimate none"
    else:
        serve = best["serve"]
        for key, phase in (("ttft_s", "prefill"), ("itl_s", "decode")):
            value = ran["phases"][phase].get("time_s")
            if (key in serve) != (value is not None) or (key in serve and not close(serve[key], value)):
                yield f"search {key} {serve.get(key)}, its command {value}"
        request = (serve[IN] * options["prompt"] + serve[OUT] * options["output"]) / 1e6
        bill = serve["devices"] * float(options["price"]) / 3600 / serve["requests_per_s"]
        if not close(request, bill, 1e-6):
            yield f"search: a request costs {request:.6g}, the server {bill:.6g}"


def sized(draw: random.Random) -> Iterator[str]:
    """plan, search and fleet take the same devices for a request rate; limits and rates hold at the bound."""
    options = serving(draw) | {"qps": draw.choice((0.5, 2.0, 7.0, 30.0)), "phase": "decode"}
    options["hw"] = draw.choice(GPUS)
    ttft, itl = 2.0, draw.choice((0.02, 0.05, 0.1))
    slo = f"ttft={ttft}s,itl={itl}s"
    (row,) = ask("plan", options | {"slo": slo})["rows"]
    found = ask("search", options | {"ttft": f"{ttft} s", "itl": f"{itl} s"})
    if bool(found["results"]) != row["feasible"]:
        yield f"search {'finds' if found['results'] else 'finds no'} server, plan {row['feasible']}"
        return
    if not found["results"]:
        return
    best = found["results"][0]["serve"]
    if row["layout"] != found["results"][0]["layout"] or row["devices"] != best["devices"]:
        yield f"plan {row['layout']} on {row['devices']}, search {found['results'][0]['layout']} on {best['devices']}"
    limits = {"search": (best["ttft_at_bound_s"], best.get("itl_at_bound_s", 0.0))}
    limits["plan"] = row["interval_ttft_s"][1], (row["interval_itl_s"] or (0.0, 0.0))[1]
    for name, (first, further) in limits.items():
        if first > ttft * (1 + 1e-9) or further > itl * (1 + 1e-9):
            yield f"{name}: {first:.4g} s and {further:.4g} s at the bound of {slo}"
    if row["requests_per_s_interval"][0] < options["qps"] * (1 - 1e-9):
        yield f"plan: {row['requests_per_s_interval'][0]} requests/s at the bound of {options['qps']}"
    hourly = (row[IN] * options["prompt"] + row[OUT] * options["output"]) / 1e6 * row["requests_per_s"] * 3600
    if not close(hourly, row["devices"] * float(options["price"]), 1e-6):
        yield f"plan: tokens sell for {hourly:.6g} an hour, the server costs {row['devices'] * options['price']:.6g}"
    model = {k.replace("_", "-"): v for k, v in options.items() if k not in ("hw", "phase", "price")} | {"slo": slo}
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "fleet.yaml"
        chip = {"hw": options["hw"], "devices": 64 + 2 * row["devices"], "price": options["price"]}
        plan.write_text(json.dumps({"fleet": {"chips": chip}, "models": {"one": model}}))
        fleet = ask("fleet", {"file": str(plan), "objective": "devices"})
    devices = sum(each["devices"] for each in fleet["rows"])
    if devices != row["devices"]:
        yield f"fleet {devices} devices, plan {row['devices']}"
    if len(fleet["rows"]) == 1 and fleet["rows"][0]["layout"] != row["layout"]:
        yield f"fleet {fleet['rows'][0]['layout']}, plan {row['layout']}"
    at_load = {"search": best, "fleet": fleet["rows"][0], "plan": row}
    sold = row["devices"] * float(options["price"]) / 3600 / options["qps"] / (options["prompt"] + options["output"])
    for name, priced in at_load.items():
        if len(fleet["rows"]) == 1 and not close(priced[AT_QPS], sold * 1e6):
            yield f"{name}: ${priced[AT_QPS]:.6g}/M tokens at {options['qps']} requests/s, by the bill {sold * 1e6:.6g}"


def fits(draw: random.Random) -> Iterator[str]:
    """A batch is feasible up to its own max_batch, a simulation's pool is that of the estimate, throughput grows with concurrency."""
    options = server(draw)
    most = int(ask("estimate", options | {"phase": "decode", "batch": 1})["phases"]["decode"]["max_batch"])
    for batch, feasible in ((most, most >= 1), (most + 1, False)):
        if ask("estimate", options | {"phase": "decode", "batch": max(batch, 1)})["feasible"] != feasible:
            yield f"a batch of {batch} is {'not ' if feasible else ''}feasible, max_batch {most}"
    last = 0.0
    for users in (1, 2, 3, 5, 8, 13, 21, 34, 64, 128, 256):
        if users > most:
            break
        rate = ask("estimate", options | {"phase": "decode", "concurrency": users})["phases"]["decode"]["tokens_per_s"]
        if rate < last * (1 - 1e-9):
            yield f"{users} users: {rate:.5g} tok/s, fewer {last:.5g}"
        last = rate


def billed(draw: random.Random) -> Iterator[str]:
    """Input and output tokens at their prices add up to the server, in estimate and in simulate."""
    options = server(draw) | {"concurrency": draw.choice((1, 4, 12))}
    answer = ask("estimate", options | {"phase": "prefill,decode"})
    rate = answer["phases"]["decode"]["tokens_per_s"] / options["output"]
    sold = (answer["cost"][IN] * options["prompt"] + answer["cost"][OUT] * options["output"]) / 1e6
    bill = options["n"] * float(options["price"]) / 3600 / rate
    if answer["feasible"] and not close(sold, bill, 1e-9):
        yield f"estimate: a request sells for {sold:.6g}, the server costs {bill:.6g}"
    if answer["feasible"]:
        run = ask("simulate", options | {"num_requests": 24, "interval": False})["simulate"]
        hourly = (run[IN] * run["input_tokens_per_s"] + run[OUT] * run["output_tokens_per_s"]) * 3600 / 1e6
        if not close(hourly, options["n"] * float(options["price"]), 1e-6):
            yield f"simulate: tokens sell for {hourly:.6g} an hour, the server costs {options['n'] * options['price']:.6g}"


def trained(draw: random.Random) -> Iterator[str]:
    """plan's count is one that estimate runs in the same time for the same dollars."""
    options = training(draw)
    options.pop("n")
    options["price"] = "2.0"
    (row,) = ask("plan", options | {"tokens": "200B", "deadline": f"{draw.choice((20, 60, 200))} d"})["rows"]
    if not row["feasible"]:
        return
    ran = run_cli(*shlex.split(row["command"])[1:], "--format", "json").json
    train = ran["phases"]["train"]
    for name, mine, other in (
        ("tokens_per_s", row.get("tokens_per_s", train["tokens_per_s"]), train["tokens_per_s"]),
        ("time_s", row.get("step_s", train["time_s"]), train["time_s"]),
        ("elapsed_usd", row["elapsed_usd"], ran["cost"]["elapsed_usd"]),
    ):
        if not close(mine, other):
            yield f"plan {name} {mine}, its command {other}"


def checked(draw: random.Random) -> Iterator[str]:
    """A check compares the estimate's own figures: it passes at the bound, is inconclusive inside the interval, fails beyond it."""
    train = draw.random() < 0.4
    options = training(draw) if train else server(draw) | load(draw) | {"phase": "prefill,decode"}
    answer = ask("estimate", options)
    phase = draw.choice([name for name, found in answer["phases"].items() if "time_s" in found])
    found = answer["phases"][phase]
    (low, high), (slow, fast) = found["interval_s"], found["tokens_per_s_interval"]
    limits = {  # quantity -> limit, verdict
        f"{phase}.time_s": (f"<= {high * (1 + 1e-9)!r} s", "pass"),
        f"{phase}.tokens_per_s": (f">= {(slow + fast) / 2!r} tokens/s", "inconclusive"),
        f"{phase}.memory.total_bytes": (f"<= {found['memory']['total_bytes'] * 0.999!r} B", "fail"),
    }
    if draw.random() < 0.5:
        limits[f"{phase}.time_s"] = (f"<= {low * (1 - 1e-9)!r} s", "fail")
    own = {k.replace("_", "-"): v for k, v in options.items()} | {"phase": options["phase"].split(",")}
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.yaml"
        required = {quantity: limit for quantity, (limit, _) in limits.items()}
        plan.write_text(json.dumps({"checks": {"one": own | {"require": required}}}))
        (case,) = ask("check", {"plan": [str(plan)], "fix_budget": 0})["checks"]
    rows = {row["quantity"]: row for row in case["requirements"]}
    for quantity, (_, verdict) in limits.items():
        row = rows[quantity]
        name = quantity.partition(".")[2]
        number = found["memory"]["total_bytes"] if name.startswith("memory") else found[name]
        if not close(row["expected"], number):
            yield f"check: {quantity} {row['expected']}, estimate {number}"
        if answer["feasible"] and row["verdict"] != verdict:
            yield f"check: {row['written']} is {row['verdict']}, by the estimate {verdict}"
    feasible = rows.get("feasible")
    if (feasible is not None and feasible["verdict"] == "fail") == answer["feasible"]:
        yield f"check: feasible {feasible and feasible['verdict']}, estimate {answer['feasible']}"


def restricted(draw: random.Random) -> Iterator[str]:
    """Limits of --where hold at the bound in every row; a search over several chips has the rows of a search on each."""
    train = draw.random() < 0.5
    options = training(draw) if train else serving(draw) | {"n": 8, "batch": "1..64", "phase": "decode"}
    options |= {"hw": draw.choice(GPUS), "bound": draw.choice(("pessimistic", "expected", "floor")), "top": 3}
    free = ask("search", options)
    if not free["results"]:
        return
    at = draw.choice(free["results"])
    if train:
        quantity, unit, value = "train.memory.total_bytes", "B", at["memory"]["total_bytes"] * 1.001
    else:
        name = "itl" if "itl_s" in at["serve"] else "ttft"
        quantity, unit, value = f"serve.{name}_s", "s", at["serve"][f"{name}_at_bound_s"] * 1.001
    found = ask("search", options | {"where": [f"{quantity} <= {value!r} {unit}"]})
    if not found["results"]:
        yield f"search: a row keeps to {quantity} <= {value:.6g}, and with that limit none is found"
    for row in found["results"]:
        if row["limits_at_bound"][quantity] > value:
            yield f"search: {quantity} {row['limits_at_bound'][quantity]:.6g} at the bound of {value:.6g}"
    goal = found["objective"][0]
    sign = -1 if higher_is_better(goal) else 1
    limited, unlimited = (answer["results"][0]["score_at_bound"][goal] for answer in (found, free))
    if sign * limited < sign * unlimited and not close(
        limited, unlimited, 1e-6
    ):  # equal to seven digits: by expected values
        yield f"search: a limit makes {goal} better"
    other = draw.choice([hw for hw in GPUS if hw != options["hw"]])
    both = ask("search", options | {"hw": f"{options['hw']},{other}"} | ({} if train else {"objective": "cost"}))
    alone = free if train else ask("search", options | {"objective": "cost"})
    mine = next(row for row in both["results"] if row["chip"] == options["hw"])
    if mine["layout"] != alone["results"][0]["layout"] or mine["score"] != alone["results"][0]["score"]:
        yield f"search: {options['hw']} alone {alone['results'][0]['command']}, among two {mine['command']}"
    through = tools.call("search", {k.replace("_", "-"): v for k, v in options.items()})[0]["answer"]
    if json.loads(dumps(through)) != json.loads(dumps(free)):
        yield "search and mcp differ"


KINDS: dict[str, Callable[[random.Random], Iterator[str]]] = {
    each.__name__: each
    for each in (one_estimate, loads_agree, searched, sized, fits, billed, trained, checked, restricted)
}


REFUSED: Counter[str] = Counter()  # questions without an answer, by the sentence that says why


def violations(kind: str, seed: int) -> list[str]:
    """What disagrees in the answers to one random question; empty where it has no answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(KINDS[kind](random.Random(f"{kind} {seed}")))
        except RooflineError as error:
            REFUSED[f"{kind}: {error}"] += 1
            return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--kind", choices=list(KINDS), action="append")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--refused", action="store_true", help="list why questions have no answer")
    asked = parser.parse_args()
    started, found, counts = time.monotonic(), 0, dict.fromkeys(asked.kind or KINDS, 0)
    for index, kind in zip(range(asked.questions), itertools.cycle(counts), strict=False):
        if time.monotonic() - started > asked.seconds:
            break
        counts[kind] += 1
        for line in violations(kind, asked.seed * 1_000_000 + index):
            found += 1
            print(f"{kind} {asked.seed * 1_000_000 + index}: {line}", flush=True)
    for sentence, times in REFUSED.most_common(20) if asked.refused else ():
        print(f"refused {times} times: {sentence}")
    print(
        f"{sum(counts.values())} questions ({counts}), {REFUSED.total()} without an answer, {found} violations, {time.monotonic() - started:.0f} s"
    )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
