"""The calculators from the outside: bad input, formats, explanations."""

from __future__ import annotations

import csv
import io
import json

import pytest
from conftest import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

COMMANDS = {
    "scaling chinchilla": {"--params": "70B", "--tokens": None, "--flops": None, "--tokens-per-param": "20"},
    "scaling loss": {"--params": "70B", "--tokens": "1.4T"},
    "scaling kaplan": {"--params": "1.5B", "--tokens": "10B", "--flops": "1e21"},
    "scaling inference-aware": {
        "--params": "13B",
        "--tokens-served": "2T",
        "--loss": None,
        "--instead": "7B",
        "--tokens": None,
    },
    "scaling moe": {
        "--flops": "6e17",
        "--active-params": "1B",
        "--experts": "64",
        "--top-k": "2",
        "--batch-tokens": "2048",
    },
    "scaling run": {
        "--params": "70B",
        "--tokens": "15T",
        "--devices": "2048",
        "--peak": "990 TFLOP/s",
        "--mfu": "0.4",
        "--price": "2",
    },
    "scaling width": {"--params": "10M", "--layers": "6", "--expansion": "4", "--multiple": "64"},
    "scaling addition": {"--digits": "3", "--params": "10M"},
    "scaling batch": {
        "--examples-min": "1e6",
        "--steps-min": "1e4",
        "--batch": "500",
        "--seconds-per-example": "1",
        "--seconds-per-step": "100",
    },
    "scaling noise": {"--small-batch": "32", "--small-norm2": "5", "--big-batch": "1024", "--big-norm2": "1.2"},
    "scaling lr": {"--lr": "3e-4", "--batch": "256", "--new-batch": "2048", "--noise-scale": "1000"},
    "speculate": {
        "--acceptance": "0.8",
        "--draft-cost": "0.1",
        "--draft-length": "5",
        "--itl": "20 ms",
        "--verify-cost": "1.1",
    },
    "serving cost": {
        "--usd-per-hour": "4",
        "--tokens-per-s": "1500",
        "--prefill-tokens-per-s": "4000",
        "--utilization": "0.7",
    },
    "serving break-even": {
        "--usd-per-hour": "4",
        "--usd-per-million": "0.5",
        "--tokens-per-s": "24",
        "--seq": "100",
        "--kv-per-token": "320 KiB",
        "--memory": "80 GB",
    },
    "serving batching": {"--mean-output": "200", "--max-output": "500", "--batch": "32", "--prompt": "1000"},
    "serving beam": {"--beams": "4", "--batch": "8", "--prompt": "100", "--output": "100", "--kv-per-token": "320 KiB"},
    "serving prefix-cache": {
        "--requests": "100",
        "--prompt": "4096",
        "--shared": "3000",
        "--hit-rate": "0.9",
        "--prefill-tokens-per-s": "4000",
        "--params": "70B",
    },
    "serving disaggregate": {
        "--prefill": "0.9 s",
        "--step": "19 ms",
        "--output": "512",
        "--batch": "32",
        "--devices": "8",
    },
    "serving quantize": {
        "--params": "70B",
        "--to": "int4",
        "--kv-per-sequence": "2.7 GB",
        "--memory": "16 GB",
        "--devices": "16",
    },
    "occupancy sm": {"--threads": "128", "--smem": "48 KiB", "--registers": "64", "--hw": "h100", "--grid": "1000"},
    "occupancy systolic": {"--rows": "128", "--cols": "128", "--clock": "1.1 GHz"},
}
ARGUMENTS = {"occupancy systolic": ["64", "128", "64"]}


def argv(command: str, **changed: str) -> list[str]:
    options = COMMANDS[command] | {"--" + key.replace("_", "-"): value for key, value in changed.items()}
    flags = [part for key, value in options.items() if value is not None for part in (f"{key}={value}",)]
    return [*command.split(), *ARGUMENTS.get(command, []), *flags]


@pytest.mark.sampled(14)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_format_says_the_same(cli, command):
    answer = cli(*argv(command), "--format", "json")
    assert answer.code == 0, answer.err
    table = dict(csv.reader(io.StringIO(cli(*argv(command), "--format", "csv").out)))
    flat = {}

    def walk(node, path=""):
        for key, value in node.items():
            walk(value, f"{path}{key}.") if isinstance(value, dict) else flat.__setitem__(path + key, value)

    walk(answer.json)
    for name, value in flat.items():
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            assert float(table[name]) == value
    for fmt in ("table", "markdown"):
        assert cli(*argv(command), "--format", fmt).out.strip()


def numbers(node, path="") -> dict[str, float]:
    found = {}
    for key, value in node.items():
        if isinstance(value, dict):
            found |= numbers(value, f"{path}{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found[path + key] = value
    return found


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_quantity_explains_itself_with_the_same_value(cli, command):
    """--explain prints the value of the JSON bit for bit, or says that the quantity is an input as given."""
    answer = cli(*argv(command), "--format", "json").json
    explained = 0
    for name, value in numbers(answer).items():
        ran = cli(*argv(command), "--explain", name)
        assert ran.code in (0, 2), (name, ran.err)
        if ran.code == 0:
            explained += 1
            first = ran.out.splitlines()[0]
            assert repr(value) in first or f"({value!r}" in ran.out or str(value).removesuffix(".0") in first, (
                name,
                ran.out,
            )
    assert explained


@pytest.mark.parametrize("command", COMMANDS)
def test_out_writes_the_answer(cli, command, tmp_path):
    file = tmp_path / "answer.json"
    assert cli(*argv(command), "--format", "json", "--out", str(file)).out == ""
    assert json.loads(file.read_text())


BAD = st.one_of(
    st.sampled_from(
        ["", "-1", "0", "nan", "inf", "1e999", "1e-300", "abc", "12 bananas", "0x10", "1e39", "1e-39", "1,2,3", "٣"]
    ),
    st.text(st.characters(exclude_categories=["C", "Z"]), max_size=8),
    st.floats().map(repr),
    st.integers().map(str),
)


@pytest.mark.slow
@given(st.sampled_from(sorted(COMMANDS)), st.data())
@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_input_reaches_a_traceback(cli, command, data):
    flag = data.draw(st.sampled_from(sorted(COMMANDS[command])))
    ran = cli(*argv(command, **{flag.removeprefix("--"): data.draw(BAD)}))
    assert ran.code in (0, 1, 2, 3)
    if ran.code:
        assert ran.err.startswith("roofline: ") and ran.err.count("\n") == 1
        assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("scaling chinchilla --params 70B --flops 1e22", "exactly one of"),
        ("scaling run -p 70B --tokens 15T --mfu 1.2 --peak 1PFLOP/s", "impossible"),
        ("scaling run -p 70B --tokens 15T --mfu 45 --peak 1PFLOP/s", "or 45% for a share in percent"),
        ("scaling run -p 70B --tokens 15T --mfu 0.4", "--hw or --peak"),
        ("scaling run -p 70B --tokens 15T -n 8 --time 1day --peak 990TFLOP/s", "impossible"),
        ("scaling loss -p 70B --tokens 1T --fit hofmann", "did you mean hoffmann"),
        ("scaling chinchilla --params lama-3-70b", "did you mean"),
        ("scaling inference-aware --tokens-served 1T --loss 1.5", "1.69"),
        ("scaling inference-aware --tokens-served 1T -p 13B --instead 10M", "cannot reach"),
        ("scaling moe", "--flops and --active-params"),
        ("scaling moe --experts 2 --top-k 4 --batch-tokens 10", "--top-k exceeds"),
        ("speculate -a 1.2 -c 0.1", "impossible"),
        ("speculate -a 0.5 -c 0.1 -k 2.5", "whole number"),
        ("speculate -c 0.1", "give --acceptance"),
        ("speculate -c 0.9 -k 2 --speedup 3", "no acceptance"),
        ("serving cost --usd-per-hour 4", "no throughput"),
        ("serving batching --mean-output 500 --max-output 200", "swap"),
        ("serving prefix-cache --requests 0.5 --prompt 10 --shared 5", "--requests 1"),
        ("serving quantize -p 70B --to bf16", "two formats"),
        ("serving quantize -p 70B --to int5", "int5"),
        ("occupancy sm -t 2048 --hw h100", "exceed the 1024"),
        ("occupancy sm -t 128 --hw tpu-v5e", "--capability"),
        ("occupancy systolic 1 2 3 --hw h100", "no systolic array"),
    ],
)
def test_mistakes_get_one_sentence_with_the_remedy(cli, line, says):
    ran = cli(*line.split())
    assert ran.code == 2
    assert says in ran.err


def test_memory_is_asked_of_a_model_at_8192_tokens(cli):
    line = "serving break-even --usd-per-hour 24 --price-per-million 1 --tokens-per-s 50 --hw h100 -n 8".split()
    asked = [
        cli(*line, "--format", "json", *more).json
        for more in (["--model", "llama-3-70b"], ["--model", "llama-3-70b", "--seq-len", "8192"])
    ]
    assert asked[0] == asked[1] and asked[0]["largest_batch"] == int((8 * 80 * 2**30 - 141.1e9) / (8192 * 320 * 2**10))
    assert "--hw changes nothing" in cli(*line).err


def test_a_launch_that_fits_nowhere_is_infeasible(cli):
    ran = cli(*["occupancy", "sm", "-t", "1024", "-r", "128", "--capability", "8.0"])
    assert ran.code == 1 and "fewer registers" in ran.err


@pytest.mark.slow
def test_nothing_heavy_is_imported_for_a_small_question(python):
    code = (
        "import sys; sys.argv=['roofline','speculate','-a','0.8','-c','0.1']\n"
        "from rooflinecli.interfaces.cli import main\nmain.VERBS.setdefault('speculate', ('speculate', ''))\n"
        "try: main.main()\nexcept SystemExit: pass\n"
        "print([n for n in ('numpy','jax','yaml','pandas') if n in sys.modules], file=sys.stderr)"
    )
    assert python(code).stderr.strip() == "[]"
