"""What has no meaning for a model of another kind is refused in one sentence that names the option; what has one is answered."""

import json

import pytest
from conftest import run_cli

REFUSED = [
    ("estimate flux.1-dev --hw h100 --concurrency 8", "--concurrency", "--batch"),
    ("estimate flux.1-dev --hw h100 --qps 2", "--qps", "--batch"),
    ("estimate flux.1-dev --hw h100 --output 12", "--output", "leave it out"),
    ("estimate flux.1-dev --hw h100 --num-loras 4", "--num-loras", "leave it out"),
    ("estimate bert-base --hw h100 --prefix-hit-rate 0.5", "--prefix-hit-rate", "leave it out"),
    ("estimate bert-base --hw h100 --kv-dtype fp8", "--kv-dtype", "leave it out"),
    ("estimate bert-base --hw h100 --speculative-method gpt2", "--speculative-method", "leave it out"),
    ("estimate bert-base --hw h100 --kv-offload host=1GB@1GB/s", "--kv-offload", "leave it out"),
    ("sweep bert-base --hw h100 --qps 1,2 --columns prefill.time_s", "--qps", "--batch"),
    ("sweep bert-base --hw h100 --batch 1,2 --phase decode", "decodes nothing", "--phase prefill"),
    ("search bert-base --hw h100 -n 8 --phase decode", "decodes nothing", "--phase train"),
    ("simulate flux.1-dev --hw h100 --qps 2", "makes images and decodes nothing", "no serving"),
    ("simulate llama-3-8b --hw h100 --qps 2 --num-loras 3", "--num-loras", "leave it out"),
    (
        "estimate t5-base --hw l4 --prefix-hit-rate 0.5",
        "--prefix-hit-rate: T5 base is an encoder with a decoder",
        "leave it out",
    ),
    ("estimate t5-base --hw l4 --kv-offload host=9GB@9GB/s --sessions 9", "--kv-offload: T5 base", "leave it out"),
    (
        "estimate whisper-large-v3 --hw l4 --sessions 9 --kv-offload host=9GB@9GB/s",
        "encoder with a decoder",
        "leave it out",
    ),
    ("estimate flux.1-dev --hw h100 --engine vllm", "--engine vllm: FLUX.1-dev makes images", "diffusers"),
    ("estimate wan2.1-t2v-1.3b --hw rtx4090 --engine ollama", "makes videos", "leave it out"),
    ("sweep flux.1-dev --hw h100 --batch 1,2 --phase prefill --engine cuda-graph", "--engine cuda-graph", "diffusers"),
    ("estimate bert-base --hw h100 --emit vllm", "--emit vllm", "leave --emit out"),
    ("estimate flux.1-dev --hw h100 --emit vllm", "FLUX.1-dev writes no tokens", "leave --emit out"),
    ("estimate t5-base --hw h100 --emit sglang", "--emit sglang", "leave --emit out"),
    ("collective --size 64MB", "--size: SIZE is a positional argument", "`roofline collective OP SIZE`"),
    ("speculate --draft bert-base --target llama-3-8b -a 0.7", "--draft bert-base", "name a decoder"),
    ("speculate --draft llama-3-8b --target t5-nobody -a 0.7", "t5-nobody", "roofline models"),
    ("fit llama-3.1-8b --hw rtx-4090 --device-memory 0GB", "--device-memory 0", "above zero"),
    ("fit llama-3.1-8b --hw rtx-4090 --file ,", "--file", "leave the option out"),
    ("estimate llama-3-8b --hw h100 --weight-dtype exl3-3.5-h99", "exl3-3.5-h99", "1 to 16 bits"),
]


@pytest.mark.parametrize("command, named, remedy", REFUSED, ids=[c for c, *_ in REFUSED])
def test_what_no_model_of_a_kind_does_is_refused(command, named, remedy):
    done = run_cli(*command.split())
    assert done.code == 2 and not done.out
    assert done.err.count("\n") == 1 and named in done.err and remedy in done.err


@pytest.mark.parametrize(("model", "made"), [("flux.1-dev", "image"), ("wan2.1-t2v-14b", "video")])
def test_what_makes_images_or_videos_is_counted_in_them(model, made):
    asked = ("estimate", model, "--hw", "h100", "--phase", "prefill", "--batch", "2")
    shown, phase = run_cli(*asked, "--details").out, run_cli(*asked, "--format", "json").json["phases"]["prefill"]
    assert f"{2 / phase['time_s']:.3g} {made}s/s" in " ".join(shown.split()) and f"per {made}" in shown
    assert not any(word in shown for word in ("TTFT", "tok/s", "/M input", "prefill"))
    other = "image" if made == "video" else "video"
    assert (
        f"{made}s per second" in shown and f" per {other}" not in shown and "full attention" in " ".join(shown.split())
    )


def test_an_output_of_no_tokens_says_nothing_new():
    asked = ("estimate", "bert-base", "--hw", "h100", "--phase", "prefill")
    plain, none = (run_cli(*asked, *more) for more in ((), ("--output", "0")))
    assert plain.code == 0 and plain.out == none.out


def test_a_sweep_has_no_time_of_a_token_that_nobody_writes():
    asked = ("sweep", "flux.1-dev", "--hw", "h100", "--steps", "20,40", "--format", "csv", "--columns")
    done = run_cli(*asked, "decode.time_s")
    assert done.code == 2 and "decode.time_s" in done.err
    head, *rows = run_cli(*asked, "prefill.time_s").out.splitlines()
    short, long = (float(dict(zip(head.split(","), row.split(","), strict=True))["prefill.time_s"]) for row in rows)
    assert 1.9 < long / short < 2.1
    alone = run_cli("estimate", "flux.1-dev", "--hw", "h100", "--steps", "20", "--phase", "prefill", "--format", "json")
    assert short == pytest.approx(alone.json["phases"]["prefill"]["time_s"], rel=1e-9)


def test_a_report_of_a_model_whose_figures_name_their_field():
    done = run_cli("report", "flux.1-dev", "--hw", "h100", "--phase", "prefill", "--out", "-")
    assert done.code == 0 and "FLUX.1-dev" in done.out and not done.err


def test_a_window_that_nothing_falls_into(tmp_path):
    trace = tmp_path / "load.csv"
    trace.write_text("time,prompt,output\n0,100,10\n1,100,10\n")
    done = run_cli(*"simulate llama-3-8b --hw h100 --window 10h:11h --trace".split(), str(trace))
    assert done.code == 2 and "--trace-window 10h:11h" in done.err and "widen" in done.err


def test_a_file_that_cannot_be_written_is_said_before_the_run(tmp_path):
    for name, why in (("x.txt", "FILE.csv"), ("none/x.csv", "no folder")):
        done = run_cli(*"simulate llama-3-8b --hw h100 --qps 2 --requests-out".split(), str(tmp_path / name))
        assert done.code == 2 and not done.out and why in done.err


def test_a_picture_keeps_to_80_columns_whatever_its_scale():
    from rooflinecli.render.blocks import Picture
    from rooflinecli.render.formats.plot import text

    picture = Picture("t", "x", "y", log=False, series={"": [(0.0, 1.23e-5), (1.0, 4.56e5)]}, log_up=True)
    assert max(map(len, text(picture).splitlines())) <= 80


@pytest.mark.parametrize(
    "model, parameters, tokens, flops",
    [
        # by hand from the configs: every matrix, bias and table; 2 FLOPs per weight and token, 4 S T D of attention, twice for guidance
        ("pixart-sigma-xl-2", 610_856_096, 4096, None),
        ("sd3.5-medium", 2_243_171_520, 4096, None),
        ("wan2.1-t2v-1.3b", 1_418_996_800, 21 * 52 * 30, None),
        (
            "cogvideox-2b",
            1_693_783_872,
            13 * 45 * 30,
            50 * 2 * 30 * (2 * 12 * 1920**2 * 17776 + 4 * 17776**2 * 1920),
        ),
    ],
)
def test_models_of_images_and_video_are_counted_as_their_configs_say(model, parameters, tokens, flops):
    answer = json.loads(run_cli("estimate", model, "--hw", "h100", "--phase", "prefill", "--format", "json").out)
    assert answer["model"]["parameters"]["total"] == parameters
    assert answer["workload"]["image_tokens"] == tokens
    if flops is not None:
        assert answer["phases"]["prefill"]["flops"] == pytest.approx(flops, rel=0.01)


def test_an_image_is_split_over_devices_but_for_its_host_and_autoencoder():
    def seconds(*options):
        asked = ("estimate", "sd3.5-medium", "--hw", "h100", "--phase", "prefill", "--format", "json", *options)
        return json.loads(run_cli(*asked).out)["phases"]["prefill"]["breakdown_s"]

    one, eight = seconds("--batch", "8"), seconds("--batch", "8", "-n", "8", "--cp", "8")
    assert eight["autoencoder"] == one["autoencoder"] == pytest.approx(8 * 1024**2 * 245e6 / 989.4e12)
    assert one["attention"] / 9 < eight["attention"] < one["attention"] / 7
    alone = seconds("-n", "8", "--cp", "8")  # 28 steps: 263 matmuls, 37 attentions of 7 exchanges each
    host = 28 * (263 * 0.22e-3 + 37 * 7 * 0.185e-3)
    assert sum(alone.values()) == pytest.approx(host + 1024**2 * 245e6 / 989.4e12, rel=0.01)
    heads = seconds("-n", "8", "--cp", "8", "--cp-algorithm", "ulysses")
    assert sum(alone.values()) - sum(heads.values()) == pytest.approx(28 * 37 * 7 * 0.185e-3, rel=0.01)
    done = run_cli(*"estimate llama-3-8b --hw h100 -n 8 --cp 8 --phase prefill".split())
    assert done.code == 2 and "--cp 8" in done.err
