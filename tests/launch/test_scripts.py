"""What only a whole script or config tells: a batch job's header, sourced files, branches, replicas, and models described by sizes."""

from __future__ import annotations

import pytest
from launch.launched import commands, options_of

from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.importers.launch import read, shell_evaluator, training_common
from rooflinecli.importers.launch.launch import interpolated
from rooflinecli.specs.model import load_model

GPT = "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --group-query-attention --num-query-groups 8 --ffn-hidden-size 14336 --swiglu --seq-length 4096 --micro-batch-size 1 --global-batch-size 128 --bf16"  # fmt: skip


@pytest.mark.parametrize(
    "header, devices",
    [
        ("#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8", 32),
        ("#SBATCH -N 2\n#SBATCH --gres=gpu:a100:4   # four", 8),
        ("#SBATCH --ntasks=16 --gpus-per-task=1", 16),
        ("#SBATCH --gpus=h100:24", 24),
        ("#SBATCH -N4\n#SBATCH --gres=gpu:2", 8),
        ("#SBATCH -N=3 -c 4\n#SBATCH --gpus-per-node=h100:8", 24),
        ("#SBATCH -G 6", 6),
        ("#SBATCH -G12", 12),
        ("#SBATCH -n 4 --gpus-per-task=2", 8),
        ("#SBATCH -n8 --gpus-per-task 2 # of 'each'", 16),
        ("#SBATCH -J N4 -c8", None),
        ("#SBATCH --nodes=2-4\n#SBATCH --gpus-per-node=8", None),
        ("##SBATCH --nodes=2\n#SBATCH --gpus-per-node=8", None),
    ],
)
def test_a_header_says_the_devices_of_a_job(header, devices):
    assert shell_evaluator.batch_devices(shell_evaluator.batch_header(f"#!/bin/bash\n{header}\n")) == devices


def test_variables_of_a_batch_job_follow_from_its_header(tmp_path):
    text = f"#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\nsrun torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES {GPT} --tensor-model-parallel-size 4"
    found, said = options_of(text, tmp_path)
    assert (found["n"], found["dp"], found["tp"]) == (32, 8, 4) and "give -n" not in said
    text = f"#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:8\nsrun python {GPT}"
    assert options_of(text, tmp_path)[0]["n"] == 16  # no runner: the job's devices
    assert options_of(f"mpirun -np 16 python {GPT}", tmp_path)[0]["n"] == 16


def test_a_file_that_a_script_sources_is_followed(tmp_path):
    (tmp_path / "common.sh").write_text("MODEL=Qwen/Qwen3-8B\nTP=2\n")
    found, _ = options_of('source "$(dirname "$0")/common.sh"\nvllm serve $MODEL -tp ${TP:-1}', tmp_path)
    assert (found["model"], found["tp"]) == ("Qwen3-8B", 2)


@pytest.mark.parametrize(
    "text, words",
    [
        ("T=1\nif [ $1 = a ]; then T=4; else echo usage; exit 1; fi\nrun $T", [["run", "4"]]),
        ("[ -f $1 ] || { echo no; exit 1; }\nrun x", [["run", "x"]]),
        ("[ -f $1 ] || exit 1\nrun x", [["run", "x"]]),
        ("while [ $# -gt 0 ]; do case $1 in --t) T=$2;; esac; shift; done\nrun ${T:-3}", [["run", "3"]]),
        ("if which x; then A='run a --b'; else A='run c --d'; fi\neval \"$A\"", [["run", "a", "--b"], ["run", "c", "--d"]]),
        ("if which x; then A=(--b 1); else A=(--c 2); fi\nrun ${A[@]}", [["run", "--b", "1"], ["run", "--c", "2"]]),
        ("C='run a'\nif which x; then C=\"$C --b\"; fi\n$C", [["run", "a", "--b"]]),
        ("f() (export A=1; run $A)\nf", [["run", "1"]]),
        ("function f {\n run 2\n}\nf", [["run", "2"]]),
    ],
)  # fmt: skip
def test_branches_are_followed_one_by_one(text, words):
    ran = [c for c in commands(text) if c[0] == "run"]
    assert ran == words


def test_a_size_that_branches_set_apart_is_not_guessed(tmp_path):
    text = "T=1\nif nvidia-smi | grep H100; then T=4; fi\nvllm serve Qwen/Qwen3-8B -tp $T"
    with pytest.raises(UsageError, match=r"-tp \$T is not a number; give --tp"):
        options_of(text, tmp_path)
    assert options_of(text, tmp_path, tp=4)[0]["tp"] == 4


def test_one_value_to_a_flag_and_the_model_after_it():
    found = read.options("vllm serve --tensor-parallel-size 2 --max-num-seqs 8 Qwen/Qwen3-8B", {}, lambda said: None)
    assert (found["tp"], found["batch"], found["model"]) == (2, "8", "Qwen3-8B")
    found = read.options(
        "trtllm-serve serve --tp_size 4 --max_batch_size 16 nvidia/Llama-3.1-70B-Instruct-FP8", {}, lambda said: None
    )
    assert (found["tp"], found["batch"], found["dtype"]) == (4, "16", "fp8")


def test_words_that_may_hide_flags_are_named():
    said: list[str] = []
    read.options("vllm serve Qwen/Qwen3-8B $EXTRA -tp 2", {}, said.append)
    assert "$EXTRA" in said[0] and "may change the cost" in said[0]


def test_drafts_are_asked_for_their_acceptance(tmp_path):
    text = 'vllm serve meta-llama/Llama-3.1-8B --speculative-config \'{"method": "eagle3", "model": "x/y", "num_speculative_tokens": 3}\''
    found, said = options_of(text, tmp_path)
    assert "speculate" not in found and "--speculate eagle --draft-tokens 3" in said and "give --acceptance" in said
    found, said = options_of(text, tmp_path, acceptance=0.7)
    assert (found["speculate"], found["draft-tokens"]) == ("eagle", 3) and "give --acceptance" not in said


KUBERNETES = """
kind: Deployment
spec:
  replicas: 3
  template:
    spec:
      containers:
      - command: [/bin/sh, -c, 'exec python3 -m vllm.entrypoints.openai.api_server "$@"', name]
        args: [--model=$(MODEL_ID), --tensor-parallel-size=2]
        env: [{name: MODEL_ID, value: Qwen/Qwen3-8B}]
        resources: {limits: {nvidia.com/gpu: 2}}
"""
IRONWOOD = """
spec:
  nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu7x, cloud.google.com/gke-tpu-topology: 2x2x1}
  containers:
  - command: [vllm, serve, Qwen/Qwen3-8B, --tensor-parallel-size=2, --data-parallel-size=4]
    resources: {limits: {google.com/tpu: 4}}
"""
DISAGGREGATED = """
spec:
  services:
    p: {replicas: 1, extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.vllm, --model, Qwen/Qwen3-8B, --disaggregation-mode, prefill]}}}
    d: {replicas: 1, extraPodSpec: {mainContainer: {command: [python3, -m, dynamo.vllm, --model, Qwen/Qwen3-8B, --disaggregation-mode, decode]}}}
"""
CHART = """
modelArtifacts: {name: Qwen/Qwen3-8B, uri: "hf://Qwen/Qwen3-8B"}
decode: {replicas: 2, parallelism: {tensor: 4}, containers: [{modelCommand: vllmServe, args: [--max-num-seqs, "64"]}]}
prefill: {create: false, containers: [{modelCommand: vllmServe}]}
"""


def test_objects_around_a_server(tmp_path):
    found, said = options_of(KUBERNETES, tmp_path, "k.yaml")
    assert (found["model"], found["tp"], found["dp"], found["n"]) == ("Qwen3-8B", 2, 3, 6) and "3 replicas" in said
    found, said = options_of(IRONWOOD, tmp_path, "t.yaml")
    assert (found["tp"], found["dp"], found["n"]) == (1, 4, 4) and "a device here is a chip" in said
    with pytest.raises(UsageError, match=r"#1 vllm Qwen3-8B phase prefill; #2 vllm Qwen3-8B phase decode"):
        options_of(DISAGGREGATED, tmp_path, "d.yaml")
    assert read.options(f"{tmp_path}/d.yaml#2", {}, lambda said: None)["phase"] == ["decode"]
    found, _ = options_of(CHART, tmp_path, "values.yaml")
    assert (found["tp"], found["dp"], found["n"], found["batch"]) == (4, 2, 8, "64")


def test_pods_of_one_server_are_not_its_copies(tmp_path):
    text = KUBERNETES.replace(
        "--tensor-parallel-size=2]", "--tensor-parallel-size=2, --data-parallel-size=3, --data-parallel-start-rank=1]"
    )
    assert options_of(text, tmp_path, "k.yaml")[0]["n"] == 6


def test_values_of_a_chart_fill_its_templates(tmp_path):
    (tmp_path / "values.yaml").write_text("model: {name: Qwen/Qwen3-8B}\n")
    text = "{{- $root := . -}}\nspec:\n  containers:\n  - command: [vllm, serve, {{ .Values.model.name }}]\n"
    assert options_of(text, tmp_path, "deployment.yaml")[0]["model"] == "Qwen3-8B"
    made = text.replace(".Values.model.name", '.Values.path | default (printf "/data/%s" .Values.model.name)')
    with pytest.raises(UsageError, match="give MODEL"):  # what a function of the template makes is not guessed
        options_of(made, tmp_path, "deployment.yaml")


def test_references_inside_a_config():
    tree = {
        "a": {"b": "${oc.env:X,4}", "c": "${.b}", "d": {"e": "${..b}"}},
        "f": "${a.b}",
        "g": "${TP:2}-x",
        "h": "${unknown}",
    }
    found = interpolated(tree)
    assert (found["a"]["b"], found["a"]["c"], found["a"]["d"]["e"], found["f"]) == (4, 4, 4, 4)
    assert (found["g"], found["h"]) == ("2-x", "${unknown}")
    assert interpolated({"x": "${x}"})["x"] == "${x}"  # a reference to itself ends


# --- models by their sizes -------------------------------------------------------------------------------------------------


def test_defaults_of_megatron_tell_models_of_one_width_apart(tmp_path):
    plain = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 36 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --global-batch-size 8 --bf16"
    found, said = options_of(plain, tmp_path)
    assert (
        "one was made of them" in said
    )  # Qwen3-8B has this depth and width, with grouped heads and a gated feed-forward
    shape = training_common.shape_of(load_model(found["model"]))
    assert (shape["layers"], shape["d_ff"], shape["kv_heads"], shape["gated"]) == (36, 4 * 4096, 32, False)


def test_models_that_share_sizes_are_all_named(tmp_path):
    found, said = options_of(
        f"torchrun --nproc_per_node 8 {GPT} --vocab-size 128256 --max-position-embeddings 8192", tmp_path
    )
    assert found["model"] == "llama-3-8b" and "llama-3.1-8b" in said


@pytest.mark.parametrize("script", ["pretrain_t5.py", "pretrain_bert.py", "pretrain_mamba.py"])
def test_sizes_of_another_architecture_are_refused(tmp_path, script):
    text = f"torchrun --nproc_per_node 8 {script} --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 512 --bf16"
    with pytest.raises(UsageError, match=f"{script} trains another architecture.*give MODEL"):
        options_of(text, tmp_path)


def test_what_shapes_a_model_is_named_where_one_is_made(tmp_path):
    text = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 9 --hidden-size 768 --num-attention-heads 12 --window-size 127,0 --bf16"
    assert "--window-size 127,0" in options_of(text, tmp_path)[1]


def test_experts_nobody_counted_are_asked_for(tmp_path):
    text = "trainer.num_nodes: 1\ntrainer.devices: 8\nx.tensor_model_parallel_size: 2\nx.expert_model_parallel_size: 4\nm.num_layers: 12\nm.hidden_size: 768\nm.num_attention_heads: 16\n"
    with pytest.raises(
        UsageError, match="expert_model_parallel_size 4, but no number of experts is stated; give MODEL"
    ):
        options_of(text, tmp_path, "n.yaml")


@pytest.mark.parametrize(
    "flags, wanted",
    [
        ("--bf16 --grad-reduce-in-bf16", {"gradient-bytes": 2, "zero": 0}),
        ("--bf16 --tp-comm-overlap", {"tp-overlap": True, "zero": 0}),
        ("--bf16 --deepspeed --zero-stage 0", {"zero": 1}),  # BF16_Optimizer
        ("--bf16 --deepspeed --zero-stage 2", {"zero": 2}),
        ("--fp16 --deepspeed --zero-stage 0", {"zero": 0}),
        (  # two layers of each of four stages
            "--bf16 --pipeline-model-parallel-size 4 --recompute-granularity full --recompute-method block --recompute-num-layers 2",
            {"recompute-layers": 8},
        ),
    ],
)
def test_flags_of_memory(flags, wanted, tmp_path):
    found, _ = options_of(f"torchrun --nproc_per_node 8 {GPT.replace(' --bf16', '')} {flags}", tmp_path)
    assert {k: int(found.get(k, 0)) for k in wanted} == wanted


RL = """
policy:
  model_name: Qwen/Qwen3-8B
  train_global_batch_size: 64
  max_total_sequence_length: 4096
  megatron_cfg: {enabled: true, tensor_model_parallel_size: 2}
  generation: {colocated: {enabled: false, resources: {gpus_per_node: 4, num_nodes: 2}}, vllm_cfg: {tensor_parallel_size: 4}}
cluster: {gpus_per_node: 4, num_nodes: 4}
"""
PRIMUS = "modules: {pre_trainer: {framework: megatron, model: '${M:llama3_8B}.yaml', overrides: {tensor_model_parallel_size: '${TP:2}', micro_batch_size: 1, global_batch_size: 16, seq_length: 4096, recompute_granularity: full}}}\n"  # fmt: skip
FACTORY = "model_name_or_path: Qwen/Qwen3-8B\ncutoff_len: 4096\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 2\ntensor_model_parallel_size: 4\n"
MAXTEXT = "model_name: llama2-7b\ndcn_data_parallelism: -1\nici_fsdp_parallelism: 8\nper_device_batch_size: 1\nmax_target_length: 4096\nremat_policy: save_dot_except_mlp\n"


def test_frameworks_that_nest_the_same_keys(tmp_path):
    found, _ = options_of(RL, tmp_path, "rl.yaml")
    assert (found["n"], found["tp"], found["dp"], found["zero"]) == (8, 2, 4, 1)  # half of the cluster generates
    found, _ = options_of(PRIMUS, tmp_path, "p.yaml", n=8)
    assert (load_model(found["model"]).id, found["tp"], found["recompute"]) == ("llama-3-8b", 2, "full")
    found, _ = options_of(FACTORY, tmp_path, "f.yaml", n=8)
    assert (found["model"], found["batch"], found["seq"]) == ("Qwen3-8B", 4, 4096)
    found, _ = options_of(MAXTEXT, tmp_path, "m.yml", n=32)
    assert (found["shard"], found["batch"], found["recompute"], found["recompute-modules"]) == (
        8,
        32,
        "selective",
        "mlp",
    )


def test_what_a_maxtext_config_leaves_to_base_yml(tmp_path):
    """base.yml: parameters are sharded over the devices that are left, ici_fsdp_parallelism -1; replicas given beside it share those out."""
    text = "model_name: llama2-7b\nici_tensor_parallelism: 2\nper_device_batch_size: 1\n"
    found, _ = options_of(text, tmp_path, "m.yml", n=16)
    assert [found.get(key) for key in ("tp", "zero", "shard", "seq", "batch")] == [2, 3, None, 2048, 16]
    found, _ = options_of(text + "dcn_data_parallelism: 2\n", tmp_path, "m.yml", n=16)
    assert [found.get(key) for key in ("tp", "zero", "shard")] == [2, 3, 4]
    found, _ = options_of(text + "ici_fsdp_parallelism: 1\nici_data_parallelism: -1\n", tmp_path, "m.yml", n=16)
    assert [found.get(key) for key in ("tp", "zero", "shard")] == [2, 0, None]


def test_a_maxtext_model_by_its_sizes(tmp_path):
    text = "python3 -m MaxText.train base.yml base_emb_dim=1024 base_num_query_heads=16 base_num_kv_heads=16 base_mlp_dim=4096 base_num_decoder_layers=10 head_dim=64 per_device_batch_size=1 max_target_length=2048"
    found, _ = options_of(text, tmp_path, n=8)
    assert load_model(found["model"]).n_layers == 10


def test_a_command_handed_on_is_read(tmp_path):
    text = 'ARGS="model_name=llama2-7b per_device_batch_size=1"\nxpk workload create --tpu-type=v5e --command="set -e && python3 -m MaxText.train base.yml ${ARGS}"'
    assert options_of(text, tmp_path, n=8)[0]["model"] == "llama2-7b"


def test_pools_in_a_config_that_is_not_read_are_refused_with_any_options(tmp_path):
    with pytest.raises(RooflineError, match="disaggregated leaves its pools to the config"):
        options_of("trtllm-serve disaggregated -c x.yaml", tmp_path, n=8, model="llama-3-8b")


CORES = """
kind: JobSet
spec:
  replicatedJobs:
  - replicas: 1
    template:
      spec:
        parallelism: 64
        template:
          spec:
            nodeSelector: {cloud.google.com/gke-tpu-accelerator: tpu7x, cloud.google.com/gke-tpu-topology: 4x8x8}
            containers:
            - resources: {limits: {google.com/tpu: 4}}
              command: [bash, -c, 'f() (kill $!;); python3 -m maxtext.trainers.pre_train.train base.yml model_name=llama3.1-70b per_device_batch_size=0.125 ici_fsdp_parallelism=-1 ici_context_parallelism=8 max_target_length=131072']
"""


def test_cores_of_a_slice_are_counted_as_chips(tmp_path):
    found, said = options_of(CORES, tmp_path, "job.yaml")
    assert (found["n"], found["cp"], found["dp"]) == (256, 4, 64) and "2 cores to a chip" in said
    assert found["batch"] == 64  # 512 cores of an eighth of a sequence


@pytest.mark.parametrize(
    "name, model",
    [("Qwen/Qwen3-8B-Base", "Qwen3-8B"), ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "Qwen3-30B-A3B-Instruct"), ("x/Unheard-7B-Instruct", "x/Unheard-7B-Instruct"), ("x/Qwen3-8B", "x/Qwen3-8B"), ("acme/dbrx", "acme/dbrx")],
)  # fmt: skip
def test_a_tuned_checkpoint_has_the_sizes_of_what_it_was_tuned_from(name, model, tmp_path):
    found, said = options_of(f"vllm serve {name}", tmp_path)
    assert found["model"] == model and ("taken to have the sizes" in said) == (model != name)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ('[ "$A" = 1 ]', True),
        ('[ "$A" != 1 ]', False),
        ("[[ $A == 1 && $B == 2 ]]", False),
        ("[[ $A == 2 || $B == 3 ]]", True),
        ("[ $A -lt $B ]", True),
        ("! [ $A -lt $B ]", False),
        ("[[ $A -gt $B ]]", False),
        ('[ -z "$C" ]', True),
        ("test $B -eq 3", True),
        ("test ! $B -eq 3", False),
    ],
)
def test_a_condition_that_is_known_leaves_one_branch(condition, holds):
    ran = [c for c in commands(f"A=1\nB=3\nC=\nif {condition}; then run yes; else run no; fi") if c[0] == "run"]
    assert ran == [["run", "yes" if holds else "no"]]


def test_a_script_that_another_one_starts_sees_its_arguments_and_exports(tmp_path):
    (tmp_path / "serve.sh").write_text(
        """while [[ $# -gt 0 ]]; do
  case $1 in
    --ctx) CTX=$2; shift 2 ;;
    *) NAME=$1; shift ;;
  esac
done
vllm serve Qwen/$NAME -tp ${TP:-1} --max-num-seqs ${SEQS:-7} --max-model-len $CTX
"""
    )
    found, said = options_of("export TP=4\nSEQS=9\nnohup bash ./serve.sh Qwen3-8B --ctx 4096 &\n", tmp_path)
    assert [found[key] for key in ("model", "tp", "batch")] == ["Qwen3-8B", 4, "7"]
    assert "--max-model-len 4096" in said


def test_a_script_that_is_not_here_is_named(tmp_path):
    with pytest.raises(RooflineError, match=r"its launch is in ../tools/serve_model.sh, which is not here"):
        options_of("bash ../tools/serve_model.sh 8\n", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        'E="--max-num-seqs 64"\nread -r -a F <<< "$E"\nvllm serve Qwen/Qwen3-8B -tp 4 "${F[@]}"',
        "echo '#!/bin/bash\\nvllm serve Qwen/Qwen3-8B -tp 4 --max-num-seqs 64' > /opt/go.sh\nbash /opt/go.sh",
        "OUT=$(vllm serve Qwen/Qwen3-8B -tp 4 --max-num-seqs 64 2>&1)",
        "IFS=, read -ra P <<< 4,64\nvllm serve Qwen/Qwen3-8B -tp ${P[0]} --max-num-seqs ${P[1]}",
    ],
    ids=["read", "written", "substituted", "separated"],
)
def test_words_that_a_script_prints_are_a_launch(text, tmp_path):
    found, _ = options_of(text, tmp_path)
    assert [found[key] for key in ("model", "tp", "batch")] == ["Qwen3-8B", 4, "64"]


def test_a_script_that_asks_what_to_do_is_read_for_each_answer(tmp_path):
    text = 'ACTION="${1:-}"\ncase "$ACTION" in\n  start) vllm serve Qwen/Qwen3-8B -tp 2 ;;\n  *) echo usage; exit 1 ;;\nesac\n'
    assert options_of(text, tmp_path)[0]["tp"] == 2


def test_a_task_in_json_starts_its_command(tmp_path):
    text = '{"containerDefinitions": [{"command": ["vllm", "serve", "Qwen/Qwen3-8B", "-tp", "4"]}]}'
    assert options_of(text, tmp_path, "task.json")[0]["tp"] == 4


@pytest.mark.parametrize("test", ['"$SEQS" == ""', '-z "$SEQS"'])
def test_an_argument_that_is_not_given_has_the_default_that_its_script_states(test):
    text = f"SEQS=$1\nif [ {test} ]; then SEQS=64; fi\nvllm serve Qwen/Qwen3-8B --max-num-seqs $SEQS"
    assert commands(text)[-1][-1] == "64"


def test_a_redirection_of_the_script_itself_does_not_end_it():
    assert commands("exec > >(tee log) 2>&1\nvllm serve Qwen/Qwen3-8B -tp 2\n")[-1][:2] == ["vllm", "serve"]


def test_the_values_of_a_template_lie_above_its_folder(tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "values.yaml").write_text("model: Qwen/Qwen3-8B\n")
    text = "kind: Pod\nspec: {containers: [{command: [vllm, serve, '{{ .Values.model }}']}]}\n"
    assert options_of(text, tmp_path / "templates", "pod.yaml")[0]["model"] == "Qwen3-8B"
