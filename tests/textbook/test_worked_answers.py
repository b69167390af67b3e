"""Worked answers of the Scaling Book workbook (W), the Decoder-Only Transformers notes (N) and the Scaling Book (sb-).

Each row: the command, the quantity in its JSON, the value that exact arithmetic gives, the relative tolerance. A
comment says where the source prints something else.
"""

from __future__ import annotations

import pytest

GB = "GB"
ROWS = [
    # --- workbook, chapter 1 and 5 -------------------------------------------------------------------------------
    ("W1.1", "occupancy systolic 128 128 128 --rows 128 --clock 1.1GHz", "peak_flops_per_s", 3.6045e13, 1e-3),
    ("W1.q", "occupancy systolic 64 128 64", "output_tile_utilization", 0.25, 1e-12),
    # the other convention of W1.q: rows stream past, half the columns are used
    ("W1.q columns", "occupancy systolic 64 128 64", "column_utilization", 0.5, 1e-12),
    # printed 90.6 days
    ("W5.1", "scaling run -p 70.6B --tokens 15T -n 2048 --peak 990TFLOP/s --mfu 0.40", "time_days", 90.68, 2e-3),
    (
        "W5.2",
        [
            "scaling",
            "run",
            "-p",
            "70.6B",
            "--tokens",
            "15T",
            "-n",
            "2048",
            "--peak",
            "990 TFLOP/s",
            "--time",
            "91 days",
            "--price",
            "2",
        ],
        "training_usd",
        8945664,
        1e-9,
    ),
    ("W5.3", "scaling chinchilla -p 70B", "tokens", 1.4e12, 1e-9),
    ("W5.4", "scaling chinchilla --flops 1e22", "params", 9.1287e9, 1e-3),
    ("W5.4 tokens", "scaling chinchilla --flops 1e22", "tokens", 1.8257e11, 1e-3),
    ("W5.q", "scaling chinchilla --flops 1e23", "params", 2.8868e10, 1e-3),
    ("W5.q tokens", "scaling chinchilla --flops 1e23", "tokens", 5.7735e11, 1e-3),
    ("W5.5", "scaling lr --lr 3e-4 --batch 256 --new-batch 2048", "lr_sqrt", 8.4853e-4, 1e-3),
    # --- chapter 6 and 7 -----------------------------------------------------------------------------------------
    ("W6.5", "serving batching --mean-output 200 --max-output 500", "static_utilization", 0.40, 1e-9),
    ("W7.1", "serving cost --usd-per-hour 4 --tokens-per-s 1500 -u 0.7", "million_output_tokens_usd", 1.0582, 1e-3),
    ("W7.2", "serving break-even --usd-per-hour 4 --usd-per-million 0.5 -u 0.7 --tokens-per-s 24", "batch", 133, 0),
    ("W7.3", "speculate -c 0.1 -k 5 --speedup 2", "break_even_simplified_acceptance", 0.60, 1e-6),
    (
        "W7.4 input",
        "serving cost --usd-per-hour 4 --prefill-tokens-per-s 4000 -u 0.7",
        "million_input_tokens_usd",
        0.3968,
        1e-3,
    ),
    (
        "W7.4 output",
        "serving cost --usd-per-hour 4 --tokens-per-s 1500 --prefill-tokens-per-s 4000 -u 0.7",
        "million_output_tokens_usd",
        1.0582,
        1e-3,
    ),
    ("W7.5", "serving cost --usd-per-hour 2 --tokens-per-s 6000 -u 0.7", "million_output_tokens_usd", 0.13228, 1e-3),
    # the text says that INT4 halves the weights; from 16 bits to 4 it quarters them, 141 to 35 GB
    ("W7.5 weights", "serving quantize -p 70.6B --to int4", "formats.int4.weights_bytes", 35.3e9, 1e-9),
    ("W7.5 ratio", "serving quantize -p 70.6B --to int4", "memory_bound_speedup", 4.0, 1e-9),
    # --- chapter 8 (the profile rows are in tests/profile) ---------------------------------------------------------
    ("W8.3 blocks", "occupancy sm -t 128 --smem 48KiB --hw h100", "blocks", 4, 0),
    (
        "W8.3",
        "occupancy sm -t 128 --smem 48KiB --hw h100 --smem-per-sm 228KiB --max-threads-per-sm 2048",
        "occupancy",
        0.25,
        0,
    ),
    # --- chapter 10 ----------------------------------------------------------------------------------------------
    ("W10.1", "scaling addition --digits 3", "tokens_per_example", 12, 0),
    ("W10.2 exact", "scaling width -p 10M --layers 6 --multiple 64", "d_exact", 372.7, 1e-3),
    ("W10.2 width", "scaling width -p 10M --layers 6 --multiple 64", "d_model", 384, 0),
    ("W10.2 params", "scaling width -p 10M --layers 6 --multiple 64", "params", 10616832, 0),
    # printed as 12,720 GFLOP, a thousand times too little: it is 12.72 PFLOP, and the time goes with that
    (
        "W10.2b flops",
        "scaling run -p 10.6M --tokens 200M --peak 65TFLOP/s --mfu 0.30",
        "training_flops",
        1.272e16,
        2e-3,
    ),
    ("W10.2b time", "scaling run -p 10.6M --tokens 200M --peak 65TFLOP/s --mfu 0.30", "time_s", 652.3, 2e-3),
    ("W10.3", "scaling addition --digits 3 -p 10M", "tokens", 2.0e8, 1e-6),
    ("W10.3 examples", "scaling addition --digits 3 -p 10M", "examples", 16666667, 1e-6),
    # printed 100B; 6e17 FLOPs over 6e9 a token are 1e8 tokens
    ("W10.4", "scaling moe --flops 6e17 --active-params 1B", "tokens", 1.0e8, 1e-9),
    # printed 32, from dividing by 128 instead of 64 experts
    ("W10.5", "scaling moe --experts 64 --top-k 2 --batch-tokens 2048", "expert_tokens", 64, 0),
    # --- notes ---------------------------------------------------------------------------------------------------
    (
        "N5.2",
        "scaling run -p 70.6B --tokens 15T -n 2048 --peak 990TFLOP/s --mfu 1",
        "time_s",
        6 * 70.6e9 * 15e12 / (2048 * 990e12),
        1e-12,
    ),
    ("N6.1 size", "scaling kaplan -p 1.5B", "loss_by_params", 2.30355, 1e-5),
    ("N6.1 data", "scaling kaplan --tokens 10B", "loss_by_tokens", 2.26244, 1e-5),
    ("N6.1 compute", "scaling kaplan --pflop-s-days 1", "loss_by_compute", 2.65808, 1e-5),
    ("N6.2", "scaling loss -p 70B --tokens 1.4T --fit hoffmann", "fits.hoffmann.loss", 1.93665, 1e-5),
    # the corrected fit: 1.8172 + 482.01/N^0.3478 + 2085.43/D^0.3658 worked out by hand
    ("N6.2 corrected", "scaling loss -p 70B --tokens 1.4T", "fits.besiroglu.loss", 1.97389, 1e-4),
    ("N11.3 batch", "serving beam --beams 4 --batch 8 --output 100", "decode_batch", 32, 0),
    ("N11.3 cache", "serving beam --beams 4 --batch 8 --prompt 50 --output 100", "caches.beams.multiple", 4, 1e-12),
    ("N11.4 0.6", "speculate -a 0.6 -c 0.1", "speedup", 1.67385, 1e-5),
    ("N11.4 0.6 length", "speculate -a 0.6 -c 0.1", "best_draft_length", 3, 0),
    ("N11.4 0.8", "speculate -a 0.8 -c 0.1", "speedup", 2.46964, 1e-5),
    ("N11.4 0.8 length", "speculate -a 0.8 -c 0.1", "best_draft_length", 6, 0),
    ("N11.4 0.9", "speculate -a 0.9 -c 0.1", "speedup", 3.43095, 1e-5),
    ("N11.4 0.9 length", "speculate -a 0.9 -c 0.1", "best_draft_length", 10, 0),
    # eta_max / (1 + B_noise/B): tuned at B = B_noise, the ceiling is twice the rate
    ("NE.3", "scaling lr --lr 1e-3 --batch 1000 --new-batch 3000 --noise-scale 1000", "lr_noise_scale", 1.5e-3, 1e-9),
    # the notes' formulas carry a minus sign here, which would make the least time zero
    (
        "NE.8",
        "scaling batch --examples-min 1e6 --steps-min 1e4 --seconds-per-example 1 --seconds-per-step 100",
        "time_optimal_batch",
        100.0,
        1e-9,
    ),
    (
        "NE.9",
        "scaling batch --examples-min 1e6 --steps-min 1e4 --seconds-per-example 1 --seconds-per-step 100",
        "shortest_time_s",
        4.0e6,
        1e-9,
    ),
    # --- Scaling Book (jax-ml/scaling-book), to the rounding of the book --------------------------------------------
    (
        "sb flops per token",
        "scaling run -p 70B --tokens 15T --peak 459TFLOP/s --mfu 0.4",
        "flops_per_token",
        4.2e11,
        1e-9,
    ),
    ("sb pod days", "scaling run -p 70B --tokens 15T -n 8960 --peak 459TFLOP/s --mfu 0.4", "time_days", 44, 0.05),
    ("sb h100 days", "scaling run -p 70B --tokens 15T -n 4096 --hw h100 --mfu 0.45", "time_days", 40, 0.05),
    # the same run asked the other way round: devices for its 40.0 days at that MFU
    ("sb h100 devices", "scaling run -p 70B --tokens 15T --hw h100 --mfu 0.45 --time 40days", "devices", 4096, 0.01),
    (
        "sb flops per dollar",
        "scaling run -p 70B --tokens 15T --peak 459TFLOP/s --mfu 0.4 --price 4.2",
        "flops_per_usd_at_peak",
        1.09e14 * 3600,
        0.05,
    ),
    (
        "sb evict",
        "serving batching --mean-output 4096 --max-output 4096 --batch 32 --prompt 8192",
        "evicted_tokens_per_step",
        96,
        1e-9,
    ),
    (
        "sb disaggregation",
        ["serving", "disaggregate", "--prefill", "0.91 s", "--step", "19 ms", "--output", "512", "--batch", "32"],
        "prefill_per_decode_server",
        3,
        0.05,
    ),
    (
        "sb qps int8",
        [
            "serving",
            "disaggregate",
            "--prefill",
            "1 s",
            "--step",
            "19 ms",
            "--output",
            "512",
            "--batch",
            "52",
            "-n",
            "8",
        ],
        "requests_per_s_and_chip",
        0.66,
        0.05,
    ),
    (
        "sb chips bf16",
        "serving quantize -p 70B --to int8 --memory 16GB",
        "formats.bf16.devices_for_weights",
        8.75,
        1e-9,
    ),
    (
        "sb chips int8",
        "serving quantize -p 70B --to int8 --memory 16GB",
        "formats.int8.devices_for_weights",
        4.375,
        1e-9,
    ),
    # the book takes 45 GB of int4 weights and 2.81 chips; 70e9 half bytes are 35 GB
    (
        "sb chips int4",
        "serving quantize -p 70B --to int4 --memory 16GB",
        "formats.int4.devices_for_weights",
        2.1875,
        1e-9,
    ),
    (
        "sb caches bf16",
        "serving quantize -p 70B --to int8 --memory 16GB -n 16 --kv-per-sequence 2.68GB",
        "formats.bf16.largest_batch",
        43,
        0,
    ),
]


def quantity(answer: dict, path: str):
    for part in path.split("."):
        answer = answer[part]
    return answer


@pytest.mark.parametrize(
    ("command", "path", "value", "tolerance"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_the_command_gives_the_worked_answer(cli, command, path, value, tolerance):
    argv = command.split() if isinstance(command, str) else command
    ran = cli(*argv, "--format", "json")
    assert ran.code == 0, ran.err
    got = quantity(ran.json, path)
    assert got == value if tolerance == 0 else got == pytest.approx(value, rel=tolerance)


def test_w7_2_the_break_even_batch_is_refused_on_memory(cli):
    """133 sequences of 8192 tokens hold 357 GB, where the workbook, with a factor of ten lost, has 35.7 GB."""
    ran = cli(
        "serving",
        "break-even",
        "--usd-per-hour",
        "4",
        "--usd-per-million",
        "0.5",
        "-u",
        "0.7",
        "--tokens-per-s",
        "24",
        "--model",
        "llama-3-70b",
        "--seq",
        "8192",
        "--hw",
        "h100",
        "-n",
        "2",
        "--format",
        "json",
    )
    assert ran.code == 1
    assert ran.json["feasible"] is False
    assert ran.json["kv_cache_bytes"] == pytest.approx(133 * 8192 * 327680)
    assert ran.json["kv_cache_bytes"] == pytest.approx(357e9, rel=2e-3)
    assert "memory" in ran.err


def test_w3_6_an_mfu_above_one_is_called_impossible(cli):
    """3200 tokens/s on 70.6B parameters are 137 % of 990 TFLOP/s when training counts 6 N."""
    ran = cli("scaling", "run", "-p", "70.6B", "--tokens", "15T", "--tokens-per-s", "3200", "--peak", "990 TFLOP/s")
    assert ran.code == 2
    assert "136.9" in ran.err
    assert "impossible" in ran.err


def test_an_expectation_can_fail(cli):
    """The check above is a real one: the value a source prints in error does not pass."""
    got = cli("scaling", "moe", "--experts", "64", "--top-k", "2", "--batch-tokens", "2048", "--format", "json").json
    assert got["expert_tokens"] != 32
