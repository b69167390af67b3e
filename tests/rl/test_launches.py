"""`roofline rl --from` and `--emit`: launches of verl and NeMo RL in and out."""

from __future__ import annotations

from functools import partial

import pytest
from conftest import run_cli

from rooflinecli.core.errors import UsageError
from rooflinecli.importers.launch import locate, rl_configs
from rooflinecli.importers.launch.rl_configs import emit
from rooflinecli.questions.rl.question import Rl

VERL = """set -x
NNODES=${NNODES:-2}
max_prompt_length=$((1024 * 2))
n_resp=16
python3 -m verl.trainer.main_ppo --config-path=./config --config-name='ppo_megatron_trainer' \\
    data.train_batch_size=128 data.max_prompt_length=${max_prompt_length} data.max_response_length=8192 \\
    actor_rollout_ref.rollout.n=${n_resp} algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.path="Qwen/Qwen3-30B-A3B" actor_rollout_ref.actor.use_kl_loss=False \\
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_mini_batch_size=32 \\
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu=10240 \\
    actor_rollout_ref.actor.megatron.param_offload=True \\
    actor_rollout_ref.actor.megatron.expert_model_parallel_size=8 \\
    +actor_rollout_ref.rollout.name=vllm actor_rollout_ref.rollout.tensor_model_parallel_size=4 \\
    trainer.n_gpus_per_node=8 trainer.nnodes="${NNODES}"
"""
options = partial(rl_configs.options, named=Rl.named)
READ = {
    "model": "Qwen3-30B-A3B", "prompts": 128, "samples": 16, "max-output": 8192, "algorithm": "grpo", "reference": False, "mini-batch": 512,
    "max-tokens-per-device": 10240, "offload-state": True, "ep": 8, "engine": "vllm", "rollout-tp": 4, "n": 16,
}  # fmt: skip
NEMO = """defaults: base.yaml
grpo: {num_prompts_per_step: 64, async_grpo: {enabled: true, max_trajectory_age_steps: 2}}
policy:
  model_name: Qwen/Qwen3-32B
  megatron_cfg: {enabled: true, tensor_model_parallel_size: 4, pipeline_model_parallel_size: 2}
  dtensor_cfg: {enabled: false}
  generation: {colocated: {enabled: false, resources: {num_nodes: 4, gpus_per_node: 8}}}
cluster: {num_nodes: 8, gpus_per_node: 8}
"""
BASE = """grpo: {num_prompts_per_step: 32, num_generations_per_prompt: 32, max_rollout_turns: 1}
loss_fn: {reference_policy_kl_penalty: 0.01}
policy:
  train_global_batch_size: 512
  train_micro_batch_size: 4
  max_total_sequence_length: 4096
  precision: bfloat16
  dtensor_cfg: {enabled: true, tensor_parallel_size: 8}
  megatron_cfg: {enabled: false, tensor_model_parallel_size: 1}
  sequence_packing: {enabled: true, train_mb_tokens: "${mul:${policy.max_total_sequence_length}, ${policy.train_micro_batch_size}}"}
  generation: {backend: vllm, max_new_tokens: "${policy.max_total_sequence_length}", vllm_cfg: {tensor_parallel_size: 4, precision: "${policy.precision}"}}
"""


def test_a_script_of_verl_is_read(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text(VERL)
    assert options(str(path)) == READ
    assert (
        options(
            VERL.split("n_resp=16\n")[1]
            .replace("${n_resp}", "16")
            .replace("${max_prompt_length}", "2048")
            .replace('"${NNODES}"', "2")
        )
        == READ
    )


def test_a_config_of_nemo_rl_is_read_with_the_one_below_it(tmp_path):
    (tmp_path / "base.yaml").write_text(BASE)
    path = tmp_path / "grpo.yaml"
    path.write_text(NEMO)
    assert options(str(path)) == {
        "model": "Qwen3-32B", "prompts": 64, "samples": 32, "max-output": 4096, "engine": "vllm", "rollout-tp": 4, "tp": 4, "pp": 2,
        "max-tokens-per-device": 16384, "algorithm": "grpo", "reference": True, "mini-batch": 512, "packing": True, "dtype": "bf16", "n": 64,
        "rollout-devices": 32, "staleness": 2,
    }  # fmt: skip
    script = tmp_path / "run.sh"
    script.write_text(
        "uv run examples/run_grpo.py --config grpo.yaml cluster.num_nodes=4 grpo.async_grpo.enabled=False\n"
    )
    found = options(str(script))
    assert found["n"] == 32 and "staleness" not in found


def test_a_section_that_is_not_enabled_does_not_count(tmp_path):
    path = tmp_path / "grpo.yaml"
    path.write_text(BASE.replace("policy:", "policy:\n  model_name: Qwen/Qwen3-8B", 1))
    assert options(str(path))["tp"] == 8


@pytest.mark.parametrize(
    "key",
    [
        "loss_fn.reference_policy_kl_penalty",
        "grpo.max_rollout_turns",
        "policy.generation.colocated.resources.num_nodes",
    ],
)
def test_what_is_no_number_is_named(key, tmp_path):
    path = tmp_path / "run.sh"
    (tmp_path / "base.yaml").write_text(BASE)
    path.write_text(f"python run.py --config base.yaml policy.generation.colocated.enabled=false {key}=many\n")
    with pytest.raises(UsageError, match=f"{key}: expected a number"):
        options(str(path))


def test_an_async_launch_of_verl_has_two_pools():
    found = options(
        "python3 -m recipe.fully_async_policy.fully_async_main actor_rollout_ref.model.path=Qwen/Qwen3-8B trainer.nnodes=2 trainer.n_gpus_per_node=8 "
        "rollout.nnodes=1 rollout.n_gpus_per_node=8 async_training.staleness_threshold=0.5 async_training.partial_rollout=True"
    )
    assert (found["n"], found["rollout-devices"], found["staleness"], found["partial-rollout"]) == (24, 8, 1, True)


@pytest.mark.parametrize("tool", ["verl", "nemo-rl"])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rollout-devices": 16, "staleness": 1, "tool-wait": "lognormal:2,1", "turns": 4},
        {"algorithm": "dapo", "reference": False, "packing": False, "seed": 3},
        {"dtype": "fp8", "rollout-dtype": "bf16", "offload-state": True, "hw": "gb200"},
    ],
)
def test_what_is_written_reads_back(tool, more, tmp_path):
    given = {
        "model": "qwen3-30b-a3b",
        "hw": "h100",
        "n": 32,
        "prompts": 64,
        "samples": 32,
        "tp": 2,
        "pp": 1,
        "ep": 8,
        "rollout-tp": 2,
        "mini-batch": 512,
        "algorithm": "grpo",
        "reference": True,
        "max-output": 4096,
        **more,
    }
    path = tmp_path / ("run.sh" if tool == "verl" else "run.yaml")
    path.write_text(emit(tool, given))
    found = options(str(path))
    assert {name: str(found[name]) for name in given if name != "model"} == {
        name: str(given[name]) for name in given if name != "model"
    }
    assert found["model"] == "Qwen3-30B-A3B"


@pytest.mark.slow
def test_the_command_line_reads_and_writes_launches(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text(VERL)
    read = run_cli("rl", "--from", str(path), "--hw", "h20", "--output", "2k", "-f", "json")
    assert read.code == 0, read.err
    assert (
        read.json["load"]["prompts"] == 128
        and read.json["rollout"]["tp"] == 4
        and read.json["trainer"]["layout"]["ep"] == 8
    )
    assert Rl(source=str(path), hw="h20", samples=4).launched().samples_each == 4
    out = tmp_path / "grpo.yaml"
    assert (
        run_cli("rl", "--from", str(path), "--hw", "h20", "--output", "2k", "--emit", "nemo-rl", "--out", str(out)).code
        == 0
    )
    again = run_cli("rl", "--from", str(out), "-f", "json")
    assert again.json["step"]["time_s"] == pytest.approx(read.json["step"]["time_s"], rel=1e-9)


def test_values_known_only_where_they_run_are_refused():
    with pytest.raises(UsageError, match=r"rollout\.n is known only where it runs"):
        options(
            "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.rollout.n=$(cat n.txt)"
        )
    with pytest.raises(UsageError, match="no launch of verl, NeMo RL, OpenRLHF or slime"):
        options("vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2")
    with pytest.raises(UsageError, match="unknown tool"):
        emit("trl", {"model": "qwen3-8b", "n": 8})


def test_what_a_launch_says_is_read_noted_or_idle():
    said: list[str] = []
    found = options(
        "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$HOME/models/Qwen3-8B algorithm.adv_estimator=gpg data.max_prompt_length=512 "
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.model.enable_gradient_checkpointing=True trainer.logger=console "
        "actor_rollout_ref.actor.fresh_setting=7 actor_rollout_ref.actor.other_setting=False",
        warn=said.append,
    )
    assert (found["model"], found["prompt"], found["recompute"]) == ("Qwen3-8B", 512, "full")
    assert "max_prompt_length 512 caps prompts" in said[1]
    for listed in ("ppo_micro_batch_size_per_gpu 4 (micro-batches", "fresh_setting 7", "adv_estimator gpg (taken"):
        assert listed in said[0]
    assert "logger" not in said[0] and "other_setting" not in said[0]
    said.clear()
    options(
        "main_ppo actor_rollout_ref.model.path=Qwen/Qwen3-8B data.max_prompt_length=512",
        warn=said.append,
        given={"prompt": "256"},
    )
    assert said == []


OPENRLHF = (
    "ray job submit --address=http://127.0.0.1:8265 -- python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 4 "
    "--vllm_num_engines 2 --vllm_tensor_parallel_size 2 --pretrain Qwen/Qwen3-8B --critic_pretrain Qwen/Qwen3-8B --rollout_batch_size 256 "
    "--n_samples_per_prompt 2 --train_batch_size 128 --generate_max_len 1024 --prompt_max_len 800 --zero_stage 3 --packing_samples "
    "--gradient_checkpointing --micro_train_batch_size 8 --use_wandb x"
)
SLIME = """MODEL_ARGS=(--num-layers 36 --hidden-size 4096)
ray job submit -- python3 train_async.py --actor-num-nodes 2 --actor-num-gpus-per-node 8 --rollout-num-gpus 8 ${MODEL_ARGS[@]} \
  --hf-checkpoint /root/Qwen3-30B-A3B-FP8 --rollout-batch-size 32 --n-samples-per-prompt 8 --num-steps-per-rollout 2 --use-dynamic-batch-size \
  --rollout-max-response-len 8192 --tensor-model-parallel-size 4 --sequence-parallel --expert-model-parallel-size 8 --max-tokens-per-gpu 20480 \
  --recompute-granularity full --rollout-num-gpus-per-engine 4 --sglang-mem-fraction-static 0.7 --use-kl-loss --optimizer-cpu-offload
"""


@pytest.mark.parametrize(
    ("launch", "wanted"),
    [
        (OPENRLHF, {
            "model": "Qwen3-8B", "critic": "Qwen3-8B", "prompts": 256, "samples": 2, "mini-batch": 128, "max-output": 1024, "rollout-tp": 2,
            "zero": 3, "algorithm": "ppo", "reference": True, "packing": True, "recompute": "full", "n": 8, "rollout-devices": 4, "prompt": 800,
        }),
        (OPENRLHF.replace("--zero_stage", "--colocate_all_models --advantage_estimator rloo --zero_stage"), {
            "model": "Qwen3-8B", "prompts": 256, "samples": 2, "mini-batch": 128, "max-output": 1024, "rollout-tp": 2,
            "zero": 3, "algorithm": "rloo", "reference": True, "packing": True, "recompute": "full", "n": 4, "prompt": 800,
        }),
        (SLIME, {
            "model": "Qwen3-30B-A3B", "rollout-dtype": "fp8", "prompts": 32, "samples": 8, "mini-batch": 128, "max-output": 8192, "tp": 4, "ep": 8,
            "sequence-parallel": True, "max-tokens-per-device": 20480, "recompute": "full", "rollout-tp": 4, "gpu-memory-utilization": 0.7,
            "engine": "sglang", "algorithm": "grpo", "reference": True, "packing": True, "offload": "optimizer", "n": 24, "rollout-devices": 8,
            "staleness": 1,
        }),
    ],
)  # fmt: skip
def test_launches_of_openrlhf_and_slime_are_read(launch, wanted):
    assert options(launch) == wanted


def test_padded_micro_batches_are_read_and_packed_ones_named(tmp_path):
    path, said = tmp_path / "run.sh", []
    path.write_text(
        "python3 -m verl.trainer.main_ppo --config-name=recipe_of_ours actor_rollout_ref.model.path=Qwen/Qwen3-8B data.train_batch_size=64"
        " actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 actor_rollout_ref.model.use_remove_padding=False trainer.n_gpus_per_node=8 trainer.nnodes=1\n"
    )
    found = options(str(path), warn=said.append)
    assert (found["micro-batch"], found["packing"]) == (4, False)
    assert "its base config recipe_of_ours is not here; what it sets is not read" in " ".join(said)
    path.write_text(path.read_text().replace("=False", "=True").replace("--config-name=recipe_of_ours", ""))
    said.clear()
    assert "micro-batch" not in options(str(path), warn=said.append)
    assert "ppo_micro_batch_size_per_gpu 4 (micro-batches are packed" in " ".join(said) and "base config" not in str(
        said
    )


def test_a_base_config_that_is_absent_is_named(tmp_path):
    said: list[str] = []
    path = tmp_path / "grpo.yaml"
    path.write_text(NEMO)  # over base.yaml
    options(str(path), warn=said.append)
    assert "its base config base.yaml is not here" in " ".join(said)
    path = tmp_path / "run.sh"
    path.write_text(
        "uv run examples/run_grpo.py policy.model_name=Qwen/Qwen3-8B grpo.num_prompts_per_step=8 cluster.gpus_per_node=8 cluster.num_nodes=1\n"
    )
    said.clear()
    options(str(path), warn=said.append)
    assert "grpo_math_1B.yaml of NeMo RL is not here" in " ".join(said)


def test_all_that_an_rl_launch_leaves_open_is_asked_at_once():
    launch = "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=$M critic.model.path=/x/y actor_rollout_ref.rollout.tensor_model_parallel_size=$TP"
    with pytest.raises(UsageError, match=r"give --rollout-tp, MODEL, --critic and -n$"):
        options(f"{launch} trainer.n_gpus_per_node=$N")
    with pytest.raises(UsageError, match=r"give --rollout-tp and MODEL$"):  # a critic is PPO's
        options(f"{launch} algorithm.adv_estimator=grpo")
    assert options(launch, given=("model", "critic", "rollout-tp"))["algorithm"] == "ppo"


def test_a_supervised_run_of_slime_is_refused(tmp_path):
    path = tmp_path / "sft.sh"
    path.write_text(
        "python3 train_async.py --hf-checkpoint Qwen/Qwen3-8B --rollout-batch-size 128 --loss-type sft_loss\n"
    )
    with pytest.raises(UsageError, match="--loss-type sft_loss is a supervised step"):
        options(str(path))


def test_a_script_sourced_beside_an_unknown_folder_is_found_and_what_it_lacks_stays_off_the_flag_before(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "run").mkdir()
    flags = "--hf-checkpoint Qwen/Qwen3-8B --rollout-batch-size 32 --actor-num-nodes 2 --actor-num-gpus-per-node 8 --rollout-num-gpus 16"
    script = f'D="$(cd "$(dirname "$0")" && pwd)"\nsource "${{D}}/../models/sizes.sh"\nray job submit -- python3 train.py {flags} ${{MODEL_ARGS[@]}} --tensor-model-parallel-size 2\n'
    path = tmp_path / "run" / "rl.sh"
    path.write_text(script)
    for sizes in ("", "MODEL_ARGS=(--pipeline-model-parallel-size 2)\n"):
        if sizes:
            (tmp_path / "models" / "sizes.sh").write_text(sizes)
        found = options(str(path))
        assert (found["n"], found["rollout-devices"]) == (32, 16)
        assert str(found.get("pp")) == ("2" if sizes else "None")


def test_a_config_of_hydra_is_found_in_the_folder_that_its_command_names(tmp_path):
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/mine.yaml").write_text(
        "defaults: [ppo_trainer, _self_]\nactor_rollout_ref: {model: {path: Qwen/Qwen3-8B}}\ndata: {train_batch_size: 64}\n"
    )
    path = tmp_path / "run.sh"
    path.write_text("python3 -m verl.trainer.main_ppo --config-path configs --config-name mine\n")
    tool, args = rl_configs.arguments(locate.open_text(str(path)))
    assert (tool, args.first("data.train_batch_size")) == ("verl", 64)
