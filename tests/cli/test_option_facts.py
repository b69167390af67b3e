"""Every option of an estimate, row by row: what a value written for it comes to, which work it implies, where --help lists it, and the names that it
has in vLLM, SGLang, TensorRT-LLM, llama.cpp, Megatron-LM and earlier releases."""

from __future__ import annotations

import json
import re

import pytest
from conftest import run_cli

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.specs.options import Field
from rooflinecli.specs.parse_values import quantity, whole

# option, value as written, field of the request, value there, work that is implied, other names: the key that answers and plans have it under, where that is not
# its own, with a star
FACTS = """
dtype fp8                               dtype "fp8"                   both   precision
kv-dtype fp8                            kv_dtype "fp8"                serve  kv-cache-dtype
ssm-state-dtype fp32                    state_dtype "fp32"            both   *state-dtype mamba-ssm-cache-dtype
weight-dtype int4                       weight_dtype "int4"           both   quantization quant
n 1_024                                 devices 1024                  both   devices num-devices num-gpus world-size
tp 4                                    tp 4                          both   tensor-parallel-size tensor-model-parallel-size
pp 2                                    pp 2                          both   pipeline-parallel-size pipeline-model-parallel-size
dp 8                                    dp 8                          both   data-parallel-size
cp 2                                    cp 2                          both   context-parallel-size
ep 8                                    ep 8                          both   expert-parallel-size ep-size expert-model-parallel-size
attention-dp true                       attention_dp true             serve  dp-attention enable-dp-attention
redundant-experts 0                     redundant_experts 0           serve  num-redundant-experts
all2all-backend deepep                  exchange "deepep"             serve  *exchange moe-a2a-backend
overlap two-batch                       overlap "two-batch"           serve
expert-tp 2                             expert_tp 2                   both   etp expert-tensor-parallel-size
shared-expert-overlap true              shared_overlap true           train
micro-batch-size 2                      micro_batch 2                 train  *micro-batch mbs
virtual-stages 3                        virtual_stages 3              train  num-virtual-stages-per-pipeline-rank vpp
ep-overlap false                        ep_overlap false              train
tp-overlap true                         tp_overlap true               train
recompute full                          recompute "full"              train  recompute-granularity
recompute-modules mlp                   recompute_modules "mlp"       train
recompute-num-layers 7                  recompute_layers 7            train  *recompute-layers
pipeline-schedule gpipe                 schedule "gpipe"              train  *schedule
layers-per-stage 11,12,12,11            stages "11,12,12,11"          train  *stages
cp-algorithm ulysses                    ring "ulysses"                train  *ring cp-comm-type
placement tp-cp-pp-dp                   placement "tp-cp-pp-dp"       train
offload optimizer                       offload "optimizer"           train  cpu-offload
gpu-layers 0                            gpu_layers 0                  serve  ngl *offload-layers n-gpu-layers
expert-offload host:12                  experts_on "host:12"          serve  *experts-on
loss-chunks 8                           loss_chunks 8                 train
mlp-chunks 4                            mlp_chunks 4                  train
zero 3                                  zero 3                        train  zero-stage
dp-shard 8                              shard 8                       train  *shard shard-group
sequence-parallel true                  sequence_parallel true        train  sp
batch 1k                                batch 1000                    both   global-batch-size gbs batch-size
prompt 4k                               prompt 4096                   serve  isl input-len random-input-len
num-images 0                            images 0                      both   *images
image-size 1024x768                     image "1024x768"              both   *image
diffusion-steps 28                      steps 28                      both   *steps
cfg false                               guidance false                both   *guidance
output 0                                output 0                      serve  osl output-len random-output-len
seq-len 8k                              seq 8192                      train  *seq seq-length
doc-lengths 512,2k                      lengths "512,2k"              train  *lengths
tokens 15T                              tokens 15e12                  train  train-tokens
price "2.5 USD/h"                       price 2.5                     both
device-memory 28GB                      memory 28e9                   both   *memory
region us-east-1                        region "us-east-1"            both
electricity "0.09 USD/kWh"              electricity 0.09              both
power-cap 0.5kW                         power_cap 500                 both
host-factor 1.6                         host_factor 1.6               both
pue 1                                   pue 1                         both
utilization 80%                         utilization 0.8               both   *utilisation
concurrency 16                          concurrency 16                serve  max-concurrency users
qps 2.5                                 qps 2.5                       serve  request-rate rps
prefix-hit-rate 25%                     prefix_hit 0.25               serve  *prefix-hit hit-rate
kv-offload host=256GB@50GB/s            kv_tier "host=256GB@50GB/s"   serve  *kv-tier
sessions 40                             sessions 40                   serve  num-sessions
num-loras 4                             adapters 4                    serve  *adapters max-loras
requests-per-client 12                  prompts_per_slot 12           serve  *prompts-per-slot
fixed-lengths true                      equal_lengths true            serve  *equal-lengths
gradient-bytes 2                        gradient_bytes 2              train
optimizer-bytes 0                       optimizer_bytes 0             train
optimizer muon                          optimizer "muon"              train
expert-imbalance 1                      imbalance 1                   both   *imbalance
capacity-factor 1.25                    capacity_factor 1.25          train  moe-expert-capacity-factor
recipe lora                             recipe "lora"                 train
lora-rank 64                            lora_rank 64                  both
lora-target-modules attention           lora_targets "attention"      both   *lora-targets
attention-flops full                    attention_flops "full"        both
engine vllm                             engine "vllm"                 serve
gpu-memory-utilization 0.85             gpu_memory_utilization 0.85   serve  mem-fraction-static kv-cache-free-gpu-memory-fraction
max-num-seqs 64                         max_sequences 64              serve  max-running-requests max-batch-size
speculative-method mtp                  speculate "mtp"               serve  *speculate speculative-algorithm
num-speculative-tokens 3                draft_tokens 3                serve  *draft-tokens speculative-num-draft-tokens
acceptance-rate 0.7                     acceptance 0.7                serve  *acceptance
max-num-batched-tokens 2k               token_budget 2000             serve  *token-budget chunked-prefill-size
scheduler-config poll_steps=30          scheduler "poll_steps=30"     serve  *scheduler
framework nemo-2024                     software "nemo-2024"          train  *software
bound floor                             bound "floor"                 both   hold
efficiency ideal                        efficiency "ideal"            both
flash-attention false                   flash false                   both   *flash
dropout true                            dropout true                  train
"""
WORK = {"both": ("prefill", "decode", "train"), "serve": ("prefill", "decode"), "train": ("train",)}
ROW = re.compile(r'(\S+) ("[^"]*"|\S+) +(\w+) ("[^"]*"|\S+) +(both|serve|train)(.*)')
ROWS = [ROW.fullmatch(line).groups() for line in FACTS.strip().splitlines()]  # type: ignore[union-attr]


@pytest.mark.sampled(len(ROWS))
@pytest.mark.parametrize("option, written, field, value, work, others", ROWS, ids=[row[0] for row in ROWS])
def test_an_option_by_each_of_its_names(option, written, field, value, work, others):
    renamed = re.search(r"\*(\S+)", others)
    for name in (option, option.replace("-", "_"), *others.replace("*", "").split()):
        given = build_request.named({"model": "llama-3-8b", "hw": "h100", name: written.strip('"')})
        (row,) = (build_request.OPTIONS[known] for known in given if known not in ("model", "hw"))
        held = build_request.value(row, given[row.name])
        assert (row.name, row.flag) == (renamed[1] if renamed else option, "-n" if option == "n" else f"--{option}")
        assert (row.field, held, build_request.implied(given)) == (
            field,
            json.loads(value),
            {"both": ""}.get(work, work),
        )


@pytest.mark.sampled(60)
@pytest.mark.parametrize("option, refused, taken", [
    ("n", "0", "1"), ("n", "10_000_001", "1e7"), ("tp", "0.5", "1"), ("tp", "1e12+1", "1e12"), ("batch", "0", "1"), ("prompt", "0", "1"),
    ("output", "-1", "0"), ("seq-len", "0", "1"), ("tokens", "0", "1"), ("tokens", "1e19", "1e18"), ("num-images", "-1", "0"), ("diffusion-steps", "0", "1"),
    ("gpu-layers", "-1", "0"), ("redundant-experts", "-1", "0"), ("zero", "4", "3"), ("zero", "-1", "0"), ("price", "-0.01", "0"),
    ("device-memory", "999999", "1e6"), ("electricity", "-1 USD/kWh", "0"), ("power-cap", "0 W", "0.1 W"), ("host-factor", "0.99", "1"), ("pue", "0.99", "1"),
    ("utilization", "0", "1"), ("utilization", "1.01", "0.01"), ("prefix-hit-rate", "1.01", "0"), ("acceptance-rate", "-0.1", "1"), ("concurrency", "0", "1"),
    ("concurrency", "min", "max"), ("qps", "0", "0.001"), ("qps", "max", "1"), ("requests-per-client", "0.9", "1"), ("requests-per-client", "max", "inf"),
    ("gradient-bytes", "-1", "0"), ("optimizer-bytes", "-1", "0"), ("expert-imbalance", "0.9", "1"), ("capacity-factor", "-0.1", "0"), ("lora-rank", "0", "1"),
    ("gpu-memory-utilization", "0", "1"), ("gpu-memory-utilization", "1.01", "0.01"), ("max-num-seqs", "0", "1"), ("num-speculative-tokens", "0", "1"),
    ("recompute", "some", "selective"), ("overlap", "three-batch", "none"), ("all2all-backend", "mpi", "auto"), ("recipe", "rlhf", "qlora"),
    ("attention-flops", "some", "causal"), ("efficiency", "real", "expected"), ("bound", "best", "pessimistic"), ("flash-attention", "perhaps", "yes"),
])  # fmt: skip
def test_the_last_value_that_is_taken(option, refused, taken):
    row = build_request.find(option)
    build_request.value(row, taken)
    with pytest.raises(UsageError, match=row.flag) as caught:
        build_request.value(row, refused)
    assert caught.value.option == row.name


PANELS = {
    "Model and load": "MODEL --hw --phase --batch --prompt --num-images --image-size --diffusion-steps --cfg --output --seq-len --doc-lengths --tokens --price "
    "--region --electricity --utilization --concurrency --qps --prefix-hit-rate --kv-offload --sessions --num-loras --requests-per-client --fixed-lengths",
    "Layout": "-n --tp --pp --dp --cp --attention-dp --redundant-experts --all2all-backend --overlap --ep --expert-tp --shared-expert-overlap "
    "--micro-batch-size --virtual-stages --ep-overlap --tp-overlap --recompute --recompute-modules --recompute-num-layers --pipeline-schedule "
    "--layers-per-stage --cp-algorithm --placement --offload --gpu-layers --expert-offload --host-cpu --loss-chunks --mlp-chunks --zero --dp-shard "
    "--sequence-parallel --device-memory",
    "Numbers": "--dtype --kv-dtype --ssm-state-dtype --weight-dtype --power-cap --host-factor --pue --gradient-bytes --optimizer-bytes --optimizer "
    "--expert-imbalance --capacity-factor --recipe --lora-rank --lora-target-modules --attention-flops --bound",
    "Engine": "--engine --gpu-memory-utilization --max-num-seqs --speculative-method --num-speculative-tokens --acceptance-rate --max-num-batched-tokens "
    "--scheduler-config --framework --efficiency --flash-attention --dropout",
}  # fmt: skip


def test_help_has_each_option_in_its_panel_and_no_name_of_an_earlier_release():
    found: dict[str, set[str]] = {}
    for line in run_cli("estimate", "--help").out.splitlines():
        if re.fullmatch(r"\w[\w ]*:", line):
            found[line[:-1]] = shown = set()
        elif match := re.match(r"  (MODEL|--?[\w-]+)", line):
            shown.add(match[1])
    assert {panel: found[panel] for panel in PANELS} == {panel: set(names.split()) for panel, names in PANELS.items()}


@pytest.mark.sampled(20)
@pytest.mark.parametrize("kind, refused, taken, held", [
    ("time", "0 s", "500 ms", 0.5), ("seconds", "0", "0.5", 0.5), ("usd", "0 USD", "$0.5", 0.5), ("bytes", "0 B", "0.5 B", 0.5), ("bytes_per_s", "0 B/s", "4 Gb/s", 5e8),
    ("flops_per_s", "0 FLOP/s", "0.5 FLOP/s", 0.5), ("hertz", "0 Hz", "0.5 Hz", 0.5), ("flop", "0 FLOP", "0.5 FLOP", 0.5), ("tokens_per_s", "0", "0.5", 0.5),
    ("positive", "0", "0.5", 0.5), ("tokens", "0", "0.5", 0.5), ("usd_per_hour", "0", "0.5", 0.5), ("params", "0", "0.5", 0.5), ("fraction", "-0.1", "0", 0),
    ("fraction", "1.1", "100%", 1),
])  # fmt: skip
def test_the_last_value_of_a_quantity(kind, refused, taken, held):
    """What questions other than estimates ask for: above zero, fractions from 0 to 1."""
    row = Field(kind, "help", long="x", name="x")
    assert quantity(row, taken) == pytest.approx(held)
    with pytest.raises(UsageError, match="x "):
        quantity(row, refused)


def test_a_whole_number_of_a_question_is_one_at_least():
    row = Field("whole", "help", long="x", name="x")
    assert (whole(row, "1"), whole(row, "4k")) == (1, 4000)
    for refused in ("0", "1.5"):
        with pytest.raises(UsageError, match="x "):
            whole(row, refused)
