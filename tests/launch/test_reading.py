"""Launches as people write them: shell defaults, arrays, conditions, compose files, Helm braces, `auto` and -1; and what is refused by name."""

from __future__ import annotations

import gzip
import re

import pytest
from launch.launched import commands, options_of

import rooflinecli as rl
from rooflinecli.core.errors import DataError, RooflineError, UsageError
from rooflinecli.importers.launch import read
from rooflinecli.importers.launch.shell_evaluator import ShellEvaluator
from rooflinecli.specs.name_lookup import only_registered

# --- the shell -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, words",
    [
        ("X=${X:-8}; run --tp $X", ["run", "--tp", "8"]),
        ('X=""\nrun ${X:-4} ${X-5}x', ["run", "4", "x"]),
        (': "${TP:=2}"\nrun "$TP"', ["run", "2"]),
        ("N=4; M=$((N*2 - 1)); run $M $((M/2))", ["run", "7", "3"]),
        ("A=(--a 1\n # --b 2\n --c)\nA+=(--d)\nrun \"${A[@]}\" ${#A[@]}", ["run", "--a", "1", "--c", "--d", "4"]),
        ("A=('--x 1')\nrun ${A[@]}", ["run", "--x", "1"]),
        ("A=('--x 1')\nrun \"${A[@]}\"", ["run", "--x 1"]),
        ("O=\" \\\n --a 1 \\\n \"\nO=\"$O --b\"\nrun $O", ["run", "--a", "1", "--b"]),
        ("if [ \"$Z\" = 1 ]; then :; fi; Z=1\nif [[ $Z -eq 1 && -n a ]]; then run yes; else run no; fi", ["run", "yes"]),
        ("Z=3\nif [ $Z -ge 4 ]; then run 4; elif [ $Z -ge 2 ]; then run 2; else run 0; fi", ["run", "2"]),
        ("f() { run --n $1; }\nf 5", ["run", "--n", "5"]),
        ("case b in a) run a;; b|c) run b;; esac", ["run", "b"]),
        ("srun -l bash -c \"run --n $((2*4))\" 2>&1 | tee log", ["run", "--n", "8"]),
        ("M=org/name; run ${M#*/} ${M%/*}", ["run", "name", "org"]),
        ("C='run --n 3'\neval \"$C\" &", ["run", "--n", "3"]),
        ("run 'a b' c\\ d \"e 'f'\" # comment", ["run", "a b", "c d", "e 'f'"]),
        ("echo if then; run x", ["run", "x"]),
        ("$ run --n 2", ["run", "--n", "2"]),  # the prompt of a terminal
        ("run --n 2 > log 2>&1 --m 3", ["run", "--n", "2", "--m", "3"]),  # words after a redirection are the command's
        ("run --n 2 \\\r\n  --m 3\r\n", ["run", "--n", "2", "--m", "3"]),
        ("X=$(( $(nproc) ))\nbash -c \"run --n $X; run --m 1\"", ["run", "--m", "1"]),
    ],
)  # fmt: skip
def test_a_shell_says_what_it_would_run(text, words):
    assert words in commands(text)


def test_branches_nobody_can_decide_are_all_followed_and_said():
    script = ShellEvaluator().read("if command -v x; then run a; else run b; fi\nif ! true; then run c; fi")
    assert [c.words for c in script.commands] == [["run", "a"], ["run", "b"]]
    assert script.undecided == ["command -v x"]


def test_a_file_that_the_script_would_write_is_read():
    script = ShellEvaluator().read('S=2\ncat <<EOF > conf/ds.json\n{"stage": $S, "name": "x"}\nEOF\nrun')
    assert script.files == {"ds.json": '{"stage": 2, "name": "x"}\n'}
    assert [c.words[0] for c in script.commands] == ["cat", "run"]


def test_tabs_before_a_here_document_are_taken_off():
    script = ShellEvaluator().read("cat > c.yaml <<-EOF\n\ta:\n\t  b: 1\n\tEOF\nrun")
    assert script.files == {"c.yaml": "a:\n  b: 1\n"}
    assert [(c.words[0], c.line) for c in script.commands] == [("cat", 1), ("run", 5)]


def test_what_nests_too_deeply_is_refused():
    with pytest.raises(DataError, match="too deeply"):
        ShellEvaluator().read('"${' * 3000)


@pytest.mark.parametrize("text", ["f() { f; }\nf", "while true; do run; done", "for i in 1 2; do for j in 1 2; do run $i$j; done; done", "if", "${", "$((", "a=(", "<<EOF", "case x in", "f() {", "\\", "'", "x='", '"$(', "((", "}}", "fi fi"])  # fmt: skip
def test_a_broken_or_endless_script_ends(text):
    ShellEvaluator().read(text * 3)


# --- launches --------------------------------------------------------------------------------------------------------------

VLLM = """#!/bin/bash
MODEL=${1:-meta-llama/Llama-3.1-70B-Instruct}
: "${TP:=8}"
ARGS=(--tensor-parallel-size "$TP" --max-num-seqs 64)
if [ "${KV:-fp8}" = fp8 ]; then ARGS+=(--kv-cache-dtype fp8); fi
echo "vllm serve $MODEL -tp 1"
exec vllm serve "$MODEL" "${ARGS[@]}" --port 8000 --gpu-memory-utilization 0.9 --cpu-offload-gb 20
"""


def test_a_vllm_script(tmp_path):
    found, said = options_of(VLLM, tmp_path)
    assert {k: found[k] for k in ("model", "tp", "n", "batch", "kv-dtype", "engine")} == {
        "model": "Llama-3.1-70B-Instruct", "tp": 8, "n": 8, "batch": "64", "kv-dtype": "fp8", "engine": "vllm"}  # fmt: skip
    assert "--cpu-offload-gb 20" in said and "--gpu-memory-utilization" not in said and "--port" not in said


def test_options_given_beside_a_launch_go_before_its_own(tmp_path):
    found, _ = options_of(VLLM, tmp_path, batch="8", model="llama-3-8b")
    assert (found["batch"], found["model"], found["tp"]) == ("8", "llama-3-8b", 8)


def test_a_size_that_only_running_tells_is_refused_unless_given(tmp_path):
    text = "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size $(nvidia-smi -L | wc -l)"
    with pytest.raises(
        UsageError,
        match=r"launch\.sh:1: --tensor-parallel-size \$\(nvidia-smi -L \| wc -l\) is not a number; give --tp",
    ):
        options_of(text, tmp_path)
    assert options_of(text, tmp_path, tp=4)[0]["tp"] == 4


@pytest.mark.parametrize(
    "command, wanted",
    [
        # vLLM: experts over TP x DP ranks (docs, "Expert parallel deployment"); a dense model has none to spread
        ("vllm serve deepseek-ai/DeepSeek-V3 -tp 4 -dp 2 --enable-expert-parallel", {"tp": 4, "dp": 2, "ep": 8, "n": 8}),
        ("vllm serve deepseek-ai/DeepSeek-V3 -tp 8 --enable-expert-parallel", {"tp": 8, "dp": 1, "ep": 8, "n": 8}),
        ("vllm serve Qwen/Qwen3-8B -tp 2 --data-parallel-size=4 --enable-expert-parallel", {"tp": 2, "dp": 4, "ep": 1, "n": 8}),
        ("python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --dp 2 --enable-dp-attention --ep-size 16", {"tp": 8, "dp": 2, "ep": 16, "n": 16}),
        ("python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 --enable-dp-attention --max-running-requests 128", {"tp": 1, "dp": 8, "batch": 16}),
        ("python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --dp 2 --enable-dp-attention", {"tp": 8, "dp": 2, "ep": 2, "n": 16}),
        ("python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --moe-a2a-backend deepep", {"tp": 8, "dp": 1, "ep": 8, "n": 8}),
        ("python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --ep-size 8", {"tp": 8, "dp": 1, "ep": 8, "n": 8}),
        ("trtllm-serve deepseek-ai/DeepSeek-V3 --tp_size 8 --ep_size 8", {"tp": 8, "ep": 8, "n": 8}),
        ("vllm serve Qwen/Qwen3-8B-FP8", {"model": "Qwen3-8B", "dtype": "fp8"}),
        ("vllm serve RedHatAI/Llama-3.1-8B-Instruct-quantized.w4a16", {"weight-dtype": "int4"}),
        ("vllm serve Qwen/Qwen3-8B --quantization awq_marlin --dtype half", {"weight-dtype": "int4", "dtype": "fp16"}),
        ("CUDA_VISIBLE_DEVICES=0,1 python3 -m sglang.launch_server --model Qwen/Qwen3-8B --tp 8 --dp 8 --enable-dp-attention", {"tp": 1, "dp": 8, "ep": 8, "n": 8}),
        ("trtllm-serve serve --backend pytorch --tp_size 4 --max_batch_size=16 nvidia/Llama-3.1-70B-Instruct-FP4", {"tp": 4, "batch": "16", "dtype": "nvfp4", "model": "Llama-3.1-70B-Instruct"}),
        ("docker run --gpus all -p 80:80 ghcr.io/huggingface/text-generation-inference:3.3 --model-id tiiuae/falcon-7b --num-shard 2", {"tp": 2, "model": "falcon-7b"}),
        ("./build/bin/llama-server -m /m/gpt-oss-120b-mxfp4-00001-of-00003.gguf -c 32768 -np 4 -ngl 99", {"model": "gpt-oss-120b", "weight-dtype": "mxfp4_moe", "batch": 4}),
        ("llama-server -hf ggml-org/Qwen3-8B-GGUF:Q8_0 --tensor-split 1,1", {"model": "Qwen3-8B", "weight-dtype": "q8_0", "pp": 2}),
        ("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --context-parallel-size 4",
         {"cp": 4, "dp": 2, "n": 8}),
        ("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --global-batch-size 64 --bf16 --ds-sequence-parallel-size 2",
         {"cp": 2, "dp": 4, "n": 8, "ring": "ulysses"}),
        ("torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 --swiglu --seq-length 4096 --micro-batch-size 1 --global-batch-size 128 --tensor-model-parallel-size 4 --bf16 --use-distributed-optimizer --recompute-activations", {"tp": 4, "dp": 4, "n": 16, "zero": 1, "recompute": "selective", "model": "llama-3-8b"}),
    ],
)  # fmt: skip
def test_commands(command, wanted):
    found = read.options(command, {}, lambda said: None)
    assert {k: found[k] for k in wanted} == wanted


@pytest.mark.parametrize(
    "command, names",
    [
        ("vllm serve Qwen/Qwen3-8B --quantization hqq", "--quantization hqq"),
        ("vllm serve Qwen/Qwen3-8B --dtype fp6", "--dtype fp6"),
        ("vllm serve $MODEL --tensor-parallel-size 2", "give MODEL"),
        ("trtllm-serve disaggregated -c conf.yaml", "disaggregated"),
        ("ls -l", "no launch of a supported tool"),
        ("missing.sh", "no such file"),
    ],
)
def test_what_cannot_be_read_is_named(command, names):
    with pytest.raises(RooflineError, match=names.replace("$", r"\$")):
        read.options(command, {}, lambda said: None)


@pytest.mark.parametrize(
    "flags, named",
    [("--enable-lora", "--enable-lora"), ("--new-flag 3", "--new-flag 3")],
)  # fmt: skip
def test_an_option_that_is_not_understood_is_named(cli, flags, named):
    ran = cli("estimate", "--from", f"vllm serve meta-llama/Llama-3.1-8B {flags}", "--hw", "h100")
    assert ran.code == 0 and named in ran.err and "may change the cost" in ran.err
    assert (
        "may change" not in cli("estimate", "--from", "vllm serve meta-llama/Llama-3.1-8B --port 1", "--hw", "h100").err
    )


COMPOSE = """
x-env: &env {HF_HOME: /data}
services:
  engine:
    image: vllm/vllm-openai:v0.11.0
    environment: ["TP=4"]
    command: ["--model", "meta-llama/Llama-3.1-70B-Instruct", "--tensor-parallel-size", "${TP}", "--max-num-seqs=16"]
  metrics:
    image: prom/prometheus
    command: ["--config.file=/etc/prometheus.yml"]
"""
HELM = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{ .Release.Name }}}
spec:
  template:
    spec:
      containers:
      - name: engine
        {{- if .Values.resources }}
        resources: {limits: {nvidia.com/gpu: 8}}
        {{- end }}
        command: [/bin/sh, -c]
        args:
        - |
          exec python3 -m vllm.entrypoints.openai.api_server --model {{ .Values.model | default "meta-llama/Llama-3.1-8B" }} \\
            --tensor-parallel-size {{ .Values.tp | default 2 }} --pipeline-parallel-size {{ .Values.pp }}
"""
DYNAMO = """
kind: DynamoGraphDeployment
spec:
  services:
    worker:
      extraPodSpec:
        mainContainer: {command: [python3, -m, dynamo.trtllm], args: [--model-path, nvidia/Llama-3.1-8B-FP8, --extra-engine-args, /c/agg.yaml]}
---
kind: ConfigMap
data:
  agg.yaml: |
    tensor_parallel_size: 4
    max_batch_size: 12
    kv_cache_config: {dtype: fp8}
"""


def test_containers(tmp_path):
    found, _ = options_of(COMPOSE, tmp_path, "compose.yml")
    assert (found["tp"], found["batch"], found["model"]) == (4, "16", "Llama-3.1-70B-Instruct")
    with pytest.raises(UsageError, match=r"pipeline-parallel-size .Values.pp is"):
        options_of(HELM, tmp_path, "helm.yaml")
    found, _ = options_of(HELM, tmp_path, "helm.yaml", pp=1)
    assert (found["tp"], found["model"]) == (2, "Llama-3.1-8B")
    found, _ = options_of(DYNAMO, tmp_path, "dynamo.yaml")
    assert (found["tp"], found["batch"], found["dtype"], found["kv-dtype"]) == (4, 12, "fp8", "fp8")


def test_several_launches_are_listed_and_one_is_picked(tmp_path):
    text = "- server_cmd: vllm serve Qwen/Qwen3-8B -tp 1\n- server_cmd: vllm serve Qwen/Qwen3-8B -tp 2\n"
    with pytest.raises(
        UsageError, match=r"holds 2 launches that differ: #1 vllm Qwen3-8B tp 1.*; #2 vllm Qwen3-8B tp 2"
    ):
        options_of(text, tmp_path, "list.yaml")
    assert read.options(f"{tmp_path}/list.yaml#2", {}, lambda said: None)["tp"] == 2
    with pytest.raises(
        UsageError, match=r"holds 2 launches that differ: #1 vllm Qwen3-8B tp 1.*; #3 vllm Qwen3-8B tp 2"
    ):
        options_of(text.replace("- server_cmd: vllm serve Qwen/Qwen3-8B -tp 2", text), tmp_path, "twice.yaml")
    with pytest.raises(UsageError, match="from 1 to 2"):
        read.read(f"{tmp_path}/list.yaml#3")


MAXTEXT = "base_config: base.yml\nmodel_name: llama2-7b\nici_fsdp_parallelism: -1\nici_tensor_parallelism: 2\ndcn_data_parallelism: 1\nper_device_batch_size: 2\nmax_target_length: 4096\nremat_policy: full\n"  # fmt: skip
TITAN = '[model]\nname = "llama3"\nflavor = "8B"\nconverters = ["quantize.linear.float8"]\n[training]\nlocal_batch_size = 2\nseq_len = 8192\n[parallelism]\ndata_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n[activation_checkpoint]\nmode = "selective"\n'  # fmt: skip
ZERO = '{"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}, "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}'  # fmt: skip


def test_what_is_left_of_the_devices_follows_from_n(tmp_path):
    found, _ = options_of(MAXTEXT, tmp_path, "m.yml", n=16)
    assert (found["tp"], found["batch"], found["recompute"], found["zero"]) == (2, 32, "full", 3)
    found, said = options_of(TITAN, tmp_path, "t.toml", n=16)
    assert "give -n" not in said
    assert (found["model"], found["dtype"], found["batch"]) == ("llama-3.1-8b", "fp8", 16)
    assert (found["recompute"], found["recompute-layers"]) == (
        "full",
        16,
    )  # job_config.py: every second layer unless it says "op"
    with pytest.raises(UsageError, match="the number of replicas is not stated; give -n"):
        options_of(TITAN, tmp_path, "t.toml")


def test_auto_is_left_to_the_chooser_and_what_is_not_modelled_is_named(tmp_path):
    found, said = options_of(ZERO, tmp_path, "ds.json", model="llama-3-8b", n=8)
    assert "batch" not in found and found["zero"] == 3 and found["dtype"] == "bf16"
    assert "offload_param" in said
    with pytest.raises(UsageError, match="is a list"):
        options_of('{"zero_optimization": {"stage": [1, 2]}}', tmp_path, "ds.json", model="llama-3-8b")
    with pytest.raises(UsageError, match="names no model; give MODEL"):
        options_of(ZERO, tmp_path, "ds.json", n=8)


def test_a_model_described_by_sizes_of_its_own_is_answered(cli):
    command = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 20 --hidden-size 1280 --num-attention-heads 20 --seq-length 8192 --global-batch-size 64 --bf16"  # fmt: skip
    ran = cli("estimate", "--from", command, "--hw", "a100", "--format", "json")
    layer = 12 * 1280**2  # Kaplan et al. 2020: 12 d^2 to a layer
    assert ran.json["model"]["layers"] == 20
    assert ran.json["model"]["parameters"]["total"] == pytest.approx(20 * layer + (50257 + 8192) * 1280, rel=0.002)


def test_a_broken_config_says_where(tmp_path):
    for name, text in (("a.json", '{"x": \n 1,, }'), ("a.toml", "x = = 1"), ("a.yaml", "a: [1\nb: 2")):
        with pytest.raises(DataError, match=rf"a\.{name[2:]}.*mend the syntax"):
            options_of(text, tmp_path, name)


def test_check_guards_the_launch_itself(cli, tmp_path):
    (tmp_path / "serve.sh").write_text(VLLM)
    plan = tmp_path / "plan.yaml"
    plan.write_text("checks:\n  chat:\n    from: serve.sh\n    hw: h100\n    prompt: 2048\n    output: 512\n    require: {decode.time_s: '<= 60 ms', memory.headroom: '>= 10 %'}\n")  # fmt: skip
    ran = cli("check", str(plan))
    assert ran.code == 0 and "tp8" in ran.out and "--cpu-offload-gb" in ran.err
    (tmp_path / "serve.sh").write_text(VLLM.replace("TP:=8", "TP:=1"))
    assert cli("check", str(plan)).code == 1
    (tmp_path / "serve.sh").write_text(VLLM.replace("TP:=8", "TP:=$(nproc)"))
    ran = cli("check", str(plan))
    assert ran.code == 3 and "plan.yaml:3: from:" in ran.err and "give --tp" in ran.err


# --- files -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "encoded",
    [gzip.compress(VLLM.encode()), VLLM.encode("utf-16"), VLLM.encode("utf-8-sig"), VLLM.replace("\n", "\r\n").encode()],
    ids=["gzip", "utf-16", "utf-8-sig", "crlf"],
)  # fmt: skip
def test_a_launch_is_read_in_any_encoding(encoded, tmp_path):
    path = tmp_path / "run.sh"
    path.write_bytes(encoded)
    assert read.options(str(path), {}, lambda note: None) == options_of(VLLM, tmp_path, "plain.sh")[0]


def test_what_is_no_launch_file_is_refused_by_its_name(tmp_path):
    path = tmp_path / "run.sh"
    for raw, why in (
        (b"\x7fELF\0\0", "run.sh:1: a binary file"),
        (gzip.compress(b"#" * 3_000_000), "run.sh: more than 2 MB"),  # a few kB, packed
        (gzip.compress(VLLM.encode())[:-20], "run.sh(:1)?: cannot be read"),
    ):
        path.write_bytes(raw)
        with pytest.raises(DataError, match=why):
            read.read(str(path))


def test_a_syntax_error_names_its_line(tmp_path):
    for name, text in (("a.json", '{"x":\n 1,, }'), ("a.toml", "y = 1\nx = = 1"), ("a.yaml", "a: [1\nb: 2")):
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match=rf"a\.{name[2:]}:2: "):
            read.read(str(tmp_path / name))


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("model: Qwen/Qwen3-8B\ntensor-parallel-size: 2\nmax_num_seqs: 32\n", {"model": "Qwen3-8B", "engine": "vllm", "tp": 2, "n": 2, "batch": 32}),
        ("tensor_parallel_size: 4\nmax_batch_size: 16\nkv_cache_config: {dtype: fp8}\n", {"engine": "trtllm", "tp": 4, "n": 4, "batch": 16, "kv-dtype": "fp8"}),
        ("base_model: Qwen/Qwen3-8B\ndatasets: []\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nsequence_len: 2048\nbf16: true\n",
         {"model": "Qwen3-8B", "micro-batch": 2, "batch": 2 * 4 * 8, "seq": 2048, "n": 8, "dtype": "bf16", "zero": 0}),
        ("model_name: llama3-8b\nper_device_batch_size: 4\nici_fsdp_parallelism: 8\nmax_target_length: 4096\n",
         {"model": "llama3-8b", "micro-batch": 4, "batch": 4 * 8, "seq": 4096, "n": 8, "dp": 8, "zero": 3}),
        ("distributed_type: FSDP\nnum_processes: 16\nmixed_precision: bf16\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n",
         {"n": 16, "dp": 16, "zero": 3, "dtype": "bf16"}),
    ],
    ids=["vllm", "trtllm", "axolotl", "maxtext", "accelerate"],
)  # fmt: skip
def test_a_config_given_directly(text, wanted, tmp_path):
    """The YAML that a tool's own flag names, without the command: sizes as they stand in it, by hand."""
    left = {} if "model" in text else {"model": "llama-3-8b"}
    found, _ = options_of(text, tmp_path, "c.yaml", **left, **({"n": 8} if "base_model" in text else {}))
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize(
    "tool, flags", [("vllm", "--enable-expert-parallel"), ("sglang", "--ep-size 8"), ("trtllm", "--ep_size 8")]
)
def test_experts_over_every_rank_are_written_by_a_flag(tool, flags):
    from rooflinecli.importers.launch import emit

    plan = {"model": "deepseek-v3", "hw": "h200", "phase": ["decode"], "tp": 8, "pp": 1, "dp": 1, "cp": 1, "ep": 8, "n": 8, "batch": 64, "engine": tool}  # fmt: skip
    text = emit.emit(tool, plan).text
    assert not any(word in text for word in ("pipeline", "pp-size", "pp_size"))  # 1 is the default
    assert "--framework" not in text  # which only trainers have
    assert flags in text and read.read_text(text, tool).options["ep"] == 8


SGLANG = "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3"


@pytest.mark.parametrize(
    "launch, tp, dp, ep, cut",
    [
        ("vllm serve deepseek-ai/DeepSeek-V3 -tp 4 -dp 2 --enable-expert-parallel", 4, 2, 8, None),
        ("vllm serve deepseek-ai/DeepSeek-V3 -tp 8 --enable-expert-parallel", 8, 1, 8, None),
        ("vllm serve deepseek-ai/DeepSeek-V3 -tp 4 -dp 2", 4, 2, 2, None),  # cut over 8 ranks: the bytes of ep 2
        (f"{SGLANG} --tp 16 --dp 2 --enable-dp-attention --ep-size 16", 8, 2, 16, None),
        (f"{SGLANG} --tp 16 --dp 2 --enable-dp-attention --ep-size 4", 8, 2, 4, 4),
        (f"{SGLANG} --tp 16 --dp 4 --enable-dp-attention --ep-size 2", 4, 4, 4, None),
        (f"{SGLANG} --tp 8 --dp 2 --ep-size 8", 8, 2, 8, 1),
        (f"{SGLANG} --tp 8 --dp 2 --ep-size 2", 8, 2, 2, 4),
        ("trtllm-serve deepseek-ai/DeepSeek-V3 --tp_size 8 --ep_size 4", 8, 1, 4, 2),
        ("trtllm-serve deepseek-ai/DeepSeek-V3 --tp_size 8", 8, 1, 1, None),
    ],
)
def test_expert_parallelism_has_the_ranks_its_server_gives_it(launch, tp, dp, ep, cut, tmp_path):
    found, _ = options_of(launch, tmp_path)
    assert (found["tp"], found["dp"], found["ep"], found.get("expert-tp")) == (tp, dp, ep, cut)
    rl.estimate(**{k.replace("-", "_"): v for k, v in found.items()}, hw="h200")  # a layout that serves


def test_the_early_tables_of_torchtitan(tmp_path):
    """Degrees in [training] and [experimental], as configs had them before [parallelism]."""
    text = """[job]
description = "405B"
[model]
name = "llama3"
flavor = "405B"
[training]
batch_size = 2
seq_len = 8192
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 8
tensor_parallel_degree = 8
[experimental]
context_parallel_degree = 2
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "1F1B"
"""
    wanted = {
        "tp": 8,
        "cp": 2,
        "pp": 4,
        "dp": 8,
        "n": 512,
        "zero": 3,
        "micro-batch": 2,
        "batch": 16,
        "schedule": "1f1b",
    }
    found, _ = options_of(text, tmp_path, "llama3_405b.toml")
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize(("copies", "group"), [("", None), ("data_parallel_replicate_degree = 4\n", 8)])
def test_replicas_that_the_devices_leave_shard_as_stated(copies, group, tmp_path):
    """torchtitan's -1 is all devices over the other degrees, in one shard group where nothing replicates: no smaller group is chosen."""
    text = f'[job]\n[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n[parallelism]\n{copies}data_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n'
    found, _ = options_of(text, tmp_path, "tt.toml", n=64, hw="h100")
    assert (found["dp"], found.get("shard"), found["zero"], found["batch"]) == (32, group, 3, 32)
    answer = rl.estimate(**{k.replace("-", "_"): v for k, v in found.items()} | {"n": 64, "hw": "h100"}).to_dict()
    assert (answer["layout"]["dp"], answer["layout"].get("shard")) == (32, group)


def test_a_command_names_files_of_this_directory(tmp_path, monkeypatch):
    (tmp_path / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}}')
    monkeypatch.chdir(tmp_path)
    command = "deepspeed --num_gpus 8 train.py --deepspeed ds.json"
    assert read.read(command).options["zero"] == 3 and read.read(command).options["micro-batch"] == 2
    with (
        only_registered(),
        pytest.raises(DataError, match=r"ds\.json, which is not here"),
    ):  # as a page reads what is sent
        read.read(command)


def test_a_comment_of_a_json_config_is_no_option(tmp_path):
    text = (
        '{"_comment": "x", "train_batch_size": 64, "zero_optimization": {"stage": 3, "_comment": "y", "unheard_of": 1}}'
    )
    _, said = options_of(text, tmp_path, "ds.json", model="llama-3-8b", n=8)
    assert re.search("priced without: zero_optimization.unheard_of 1(?! *,)", said)


def test_servers_with_experts_of_their_own_take_the_time_of_one():
    one = rl.estimate("deepseek-v3", "h200", tp=8, dp=1, ep=8, phase="decode").decode
    two = rl.estimate("deepseek-v3", "h200", tp=8, dp=2, ep=8, expert_tp=1, phase="decode").decode
    assert two.time_s == one.time_s and two.memory.weights_bytes == one.memory.weights_bytes


@pytest.mark.parametrize(
    ("given", "devices", "ep"), [({"tp": 4}, 4, None), ({"tp": 16}, 16, 16), ({"tp": 8}, 8, 8), ({"dp": 2}, 16, 16)]
)
def test_sizes_given_beside_a_server_set_its_devices(given, devices, ep, tmp_path):
    served = "vllm serve deepseek-ai/DeepSeek-V3 -tp 8 --enable-expert-parallel\n"
    found, _ = options_of(served, tmp_path, hw="h200", **given)
    n = found.get("n") or found["tp"] * found["pp"] * found["dp"]
    assert (n, found["ep"]) == (devices, ep or devices)


def test_sizes_given_beside_a_trainer_keep_its_devices(tmp_path):
    script = "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --tensor-model-parallel-size 2"
    found, _ = options_of(script, tmp_path, hw="h100", tp=4)
    assert (found["n"], found["dp"], found["tp"]) == (8, 2, 4)
    found, _ = options_of(script, tmp_path, hw="h100", dp=8)
    assert (found.get("n"), found["dp"], found["tp"]) == (None, 8, 2)


def test_a_json_that_is_no_config_is_no_absent_config(tmp_path):
    with pytest.raises(UsageError, match="no launch of a supported tool"):
        options_of("python check_metrics.py metrics.json 'data[\"train/loss\"] < 1'\n", tmp_path)
    with pytest.raises(DataError, match=r"its launch is in sft\.yaml, which is not here"):
        options_of(
            "R=$(git top)\npython $R/run_sft.py --config $R/sft.yaml policy.model_name=Qwen/Qwen3-0.6B\n", tmp_path
        )


TRAINER = "--model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2 --num_train_epochs 3"


@pytest.mark.parametrize(
    ("command", "wanted", "named"),
    [
        (f"trl sft {TRAINER} --use_peft --lora_r 16", {"recipe": "lora", "lora-rank": 16}, "no format is stated"),
        (f"trl dpo {TRAINER} --bf16 True --reference_frozen x", {"recipe": "dpo", "dtype": "bf16"}, "without: --reference_frozen x"),
        (f"accelerate launch --num_processes 4 orpo.py {TRAINER}", {"recipe": "dpo"}, "orpo: taken at the cost of dpo"),
        (f"deepspeed main.py --zero_stage 2 {TRAINER} --lora_dim 64", {"recipe": "lora", "lora-rank": 64, "zero": "2"}, "Trainer"),
        (f"deepspeed main.py --zero_stage 2 {TRAINER} --optim adamw_8bit", {"optimizer": "adamw-8bit"}, "Trainer"),
        (f"deepspeed main.py --zero_stage 2 {TRAINER} --optim shampoo", {"micro-batch": 2}, "optimizer shampoo"),
    ],
)  # fmt: skip
def test_trainers_of_hugging_face(command, wanted, named, tmp_path):
    found, said = options_of(command, tmp_path, hw="h100", n=4)
    assert {k: found.get(k) for k in wanted} == wanted
    assert named in said


@pytest.mark.parametrize(
    "command", [f"trl grpo {TRAINER}", f"accelerate launch --num_processes 8 src/grpo.py {TRAINER}"]
)
def test_trainers_that_sample_are_refused(command, tmp_path):
    with pytest.raises(UsageError, match="samples what it trains on, which `roofline rl` prices"):
        options_of(command, tmp_path, hw="h100", n=4)


def test_the_ppo_of_deepspeed_chat_is_refused_by_its_name(tmp_path):
    with pytest.raises(UsageError, match="DeepSpeed-Chat's PPO, which is not read"):
        options_of("deepspeed main.py --actor_model_name_or_path a --critic_model_name_or_path b\n", tmp_path)


def test_a_loss_with_a_second_forward_pass_and_a_projected_optimizer_are_named(tmp_path):
    config = "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\nper_device_train_batch_size: 1\nuse_asft_loss: true\nuse_galore: true\n"
    _, said = options_of(config, tmp_path, "sft.yaml", hw="h100", n=8)
    assert "use_asft_loss True (the forward pass of the frozen model" in said and "use_galore True (optimizer" in said
