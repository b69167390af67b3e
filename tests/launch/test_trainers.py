"""Trainers that flags/*.yaml describes in rows, and what no reader may pass over: a format the trainer chooses, a stage of a launcher, a key no rule answers."""

from __future__ import annotations

import pytest
from launch.launched import options_of

import rooflinecli as rl
from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.importers.launch import read
from rooflinecli.importers.launch.launch import LaunchArguments, flags
from rooflinecli.specs.model import load_model

HEREDOC = """read -r -d '' training_commands <<EOF
openrlhf.cli.train_sft --max_len 2048 --train_batch_size 256 --micro_train_batch_size 4 --pretrain meta-llama/Meta-Llama-3-8B --zero_stage 2
   --bf16 --gradient_checkpointing --packing_samples --ds_tensor_parallel_size 2 --zpg 8
EOF
if [[ ${1} != "slurm" ]]; then
    deepspeed --module $training_commands
fi
"""
VERL = """torchrun --standalone --nnodes=1 --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer data.micro_batch_size_per_gpu=32 optim.lr=1e-4 \\
 model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct model.lora_rank=32 model.target_modules=all-linear model.strategy=fsdp ulysses_sequence_parallel_size=2
"""
OUMI = """model: {model_name: meta-llama/Llama-3.1-8B-Instruct, model_max_length: 8192, torch_dtype_str: bfloat16}
training: {trainer_type: TRL_SFT, use_peft: true, per_device_train_batch_size: 2, gradient_accumulation_steps: 32, optimizer: adamw_torch_fused, enable_gradient_checkpointing: true}
peft: {lora_r: 8, lora_target_modules: [q_proj, v_proj]}
fsdp: {enable_fsdp: true, sharding_strategy: HYBRID_SHARD}
"""
AUTOMODEL = """step_scheduler: {global_batch_size: 64, local_batch_size: 4}
distributed: {strategy: fsdp2, tp_size: 2, cp_size: 1, ep_size: 4, sequence_parallel: true, activation_checkpointing: true}
model: {_target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained, pretrained_model_name_or_path: Qwen/Qwen3-30B-A3B}
peft: {dim: 8, target_modules: '*_proj'}
packed_sequence: {packed_sequence_size: 0}
dataset: {seq_length: 4096}
"""
HANDBOOK = """model_name_or_path: Qwen/Qwen3-8B
use_peft: true
load_in_4bit: true
lora_r: 128
lora_target_modules: [q_proj, k_proj, v_proj, o_proj]
bf16: true
per_device_train_batch_size: 2
gradient_accumulation_steps: 8
max_seq_length: 2048
gradient_checkpointing: true
"""
TUNE = """model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b, lora_attn_modules: [q_proj, v_proj, output_proj], lora_rank: 8}
tokenizer: {max_seq_len: 4096}
batch_size: 2
gradient_accumulation_steps: 8
enable_activation_checkpointing: true
dtype: bf16
"""
BRIDGE = """recipe: {name: nemotron_peft_config}
train: {global_batch_size: 64, micro_batch_size: 1}
model: {tensor_model_parallel_size: 2, pipeline_model_parallel_size: 2, seq_length: 8192, offload_modules: [core_attn]}
optimizer: {use_precision_aware_optimizer: true, exp_avg_dtype: torch.bfloat16, exp_avg_sq_dtype: torch.bfloat16}
checkpoint: {pretrained_checkpoint: /ckpt/own}
run: {nproc_per_node: 8}
"""
TITAN = '[hf_transformers]\nmodel = "Qwen/Qwen3-8B"\n[model]\nname = "transformers"\nflavor = "full"\n[training]\nlocal_batch_size = 2\nseq_len = 2048\n[parallelism]\n'
MINDSPORE = "msrun --worker_num 8 --local_worker_num 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --num-key-value-heads 8 --ffn-hidden-size 14336 --swiglu --micro-batch-size 1"
BASH = "torchrun --nproc_per_node 8 src/train_bash.py --stage sft --do_train --finetuning_type lora --quantization_bit 4 --model_name_or_path Qwen/Qwen3-8B --lora_target q_proj,v_proj --per_device_train_batch_size 4"
NANOTRON = """parallelism: {dp: 4, tp: 2, pp: 2, pp_engine: afab, tp_mode: REDUCE_SCATTER, recompute_layer: true, expert_parallel_size: 1}
tokens: {micro_batch_size: 3, batch_accumulation_per_replica: 2, sequence_length: 4096, train_steps: 2000}
optimizer: {zero_stage: 1, accumulate_grad_in_fp32: false, optimizer_factory: {name: adamW}}
model: {dtype: bfloat16, model_config: {hidden_size: 2048, intermediate_size: 11008, num_attention_heads: 16, num_hidden_layers: 28, num_key_value_heads: 2, vocab_size: 128256, sliding_window_size: 20}}
"""
FOUNDRY = """variables: {max_seq_len: 2048}
max_seq_len: ${variables.max_seq_len}
model: {name: mpt_causal_lm, d_model: 4096, n_heads: 32, n_layers: 32, expansion_ratio: 4, max_seq_len: 2048, vocab_size: 50368, attn_config: {attn_impl: flash}}
train_loader: {dataset: {max_seq_len: 2048}}
optimizer: {name: decoupled_lionw}
global_train_batch_size: 1024
device_train_microbatch_size: 8
precision: amp_bf16
fsdp_config: {sharding_strategy: FULL_SHARD, mixed_precision: PURE, activation_checkpointing: true}
"""
MCLI = "compute: {gpus: 16}\ncommand: composer train/train.py /mnt/config/parameters.yaml\nparameters:\n" + "".join(
    f"  {line}\n" for line in FOUNDRY.splitlines()
)
LITGPT = """checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B
precision: bf16-true
devices: 4
train: {global_batch_size: 64, micro_batch_size: 4, max_seq_length: 512}
"""
LEVANTER = """model: {type: llama, seq_len: 4096, hidden_dim: 4096, intermediate_dim: 14336, num_layers: 32, num_heads: 32, num_kv_heads: 8}
trainer: {mp: "p=f32,c=bfloat16", train_batch_size: 128, fsdp_axis: embed}
"""
COLOSSAL = "colossalai run --nproc_per_node 4 train_dpo.py --pretrain Qwen/Qwen3-8B --plugin zero2 --accumulation_steps 2 --batch_size 16 --mixed_precision bf16 --max_length 4096 --grad_checkpoint --config_file out.json"
AWS = "torchrun --nproc_per_node=8 ./train.py --max_context_width=8192 --num_key_value_heads=8 --intermediate_size=14336 --hidden_width=4096 --num_layers=32 --num_heads=32 --train_batch_size=1 --sharding_strategy=full --offload_activations=1"
ZEROPP = '{"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8, "zero_quantized_gradients": true}, "fp16": {"enabled": "auto"}, "bf16": {"enabled": false}}'
ACCELERATE = "compute_environment: LOCAL_MACHINE\nnum_processes: 8\ndistributed_type: "
CHECKED = 'if [ -z "$MODEL" ]; then exit 1; fi\ntorchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 1024 --num-attention-heads 16\n'


@pytest.mark.parametrize(
    ("name", "text", "wanted", "said"),
    [
        # OpenRLHF/OpenRLHF, examples/scripts/train_sft_llama_tensor_parallelism.sh; volcengine/verl, examples/sft/gsm8k
        ("sft.sh", HEREDOC, {"model": "Meta-Llama-3-8B", "zero": 2, "tp": 2, "batch": "256", "micro-batch": 4, "seq": "2048", "recompute": "full", "dtype": "bf16", "software": "deepspeed"}, "zpg 8"),
        ("dpo.sh", "deepspeed --include localhost:0,1,2,3 --module openrlhf.cli.train_dpo --pretrain Qwen/Qwen3-8B --max_len 512 --bf16", {"recipe": "dpo", "n": 4, "batch": 128, "zero": 2}, ""),
        ("verl.sh", VERL, {"n": 8, "dp": 4, "cp": 2, "ring": "ulysses", "recipe": "lora", "lora-rank": 32, "batch": 256, "micro-batch": 32, "zero": 3, "recompute": "full"}, "the 1024 of sft_trainer.yaml"),
        # oumi-ai/oumi, configs/recipes; NVIDIA-NeMo/Automodel, examples/llm_finetune; huggingface/alignment-handbook, recipes; torchtune, recipes/configs
        ("oumi.yaml", OUMI, {"model": "Llama-3.1-8B-Instruct", "recipe": "lora", "lora-targets": "qkv", "zero": 3, "batch": 512, "seq": 8192, "recompute": "full"}, "HYBRID_SHARD"),
        ("auto.yaml", AUTOMODEL, {"model": "Qwen3-30B-A3B", "tp": 2, "ep": 4, "batch": 64, "micro-batch": 4, "seq": 4096, "recipe": "lora", "sequence-parallel": True, "software": "automodel"}, ""),
        ("sft.yaml", HANDBOOK, {"recipe": "qlora", "lora-rank": 128, "lora-targets": "attention", "batch": 128, "dtype": "bf16"}, "what shards its states is in the launcher's config"),
        ("tune.yaml", TUNE, {"recipe": "lora", "lora-targets": "attention", "gradient-bytes": 2, "seq": 4096, "batch": 128, "software": "torchtune"}, ""),
        ("bash.sh", BASH, {"n": 8, "recipe": "qlora", "lora-targets": "qkv", "batch": 32, "seq": 2048}, ""),
        # huggingface/nanotron, examples/config_tiny_llama.yaml; mosaicml/llm-foundry, scripts/train/yamls and mcli; Lightning-AI/litgpt, config_hub
        ("nano.yaml", NANOTRON, {"n": 16, "dp": 4, "tp": 2, "pp": 2, "zero": 1, "batch": 24, "micro-batch": 3, "seq": 4096, "recompute": "full", "sequence-parallel": True, "schedule": "gpipe", "gradient-bytes": 2}, "sliding_window_size 20"),
        ("mpt.yaml", FOUNDRY, {"model": "gpt3-6.7b", "zero": 3, "batch": 1024, "micro-batch": 8, "seq": 2048, "dtype": "bf16", "recompute": "full", "optimizer": "lion", "software": "llm-foundry"}, "give --gradient-bytes"),
        ("run.yaml", MCLI, {"n": 16, "dp": 16, "batch": 1024}, ""),
        ("lit.yaml", LITGPT, {"n": 4, "model": "Meta-Llama-3-8B", "zero": 3, "batch": 64, "micro-batch": 4, "seq": 512, "recompute": "full", "optimizer-bytes": 4}, ""),
        ("lit.sh", "litgpt finetune_lora microsoft/phi-2 --lora_r 16 --train.micro_batch_size 2 --devices 1", {"n": 1, "model": "phi-2", "recipe": "lora", "lora-rank": 16, "batch": 16, "micro-batch": 2, "zero": 0}, "bf16-true of its defaults"),
        # stanford-crfm/levanter, config/sft_llama3_openthoughts.yaml; ColossalAI, ColossalChat's train_dpo.sh; awsome-distributed-training, FSDP/slurm
        ("leva.yaml", LEVANTER, {"zero": 3, "batch": 128, "seq": 4096, "dtype": "bf16", "recompute": "full", "model": "llama-3-8b"}, "give --micro-batch-size"),
        ("chat.sh", COLOSSAL, {"n": 4, "zero": 2, "recipe": "dpo", "batch": 128, "micro-batch": 16, "seq": "4096", "dtype": "bf16", "recompute": "full"}, ""),
        ("aws.sh", AWS, {"n": 8, "zero": 3, "batch": 8, "seq": "8192", "recompute": "full"}, "offload_activations"),
        # a name that the model calls itself by is no checkpoint; a batch of several passes, in a fork of torchtitan
        ("muon.sh", "NPROC_PER_NODE=1 swift sft --model Qwen/Qwen2.5-1.5B-Instruct --tuner_type lora --max_length 512 --model_name robot", {"model": "Qwen2.5-1.5B-Instruct"}, ""),
        ("fork.toml", '[job]\ndump_folder = "o"\n[model]\nname = "llama3"\nflavor = "1B"\n[training]\nbatch_size = 11\ngradient_accumulation_steps = 11\nseq_len = 2048\n', {"model": "llama-3.2-1b", "batch": 968}, ""),
        # NeMo's launcher, whose references start at the key under which it has its configs; pipelines of a script under DeepSpeed
        ("nemo.yaml", "model: {tensor_model_parallel_size: 2, encoder_seq_length: 16384, num_layers: 2, hidden_size: 1024, num_attention_heads: 16, data: {seq_length: '${training.model.encoder_seq_length}'}}", {"seq": 16384}, ""),
        ("pipe.sh", "deepspeed --num_gpus 2 train.py --init_ckpt ./mistral-7b --pipe_parallel_size 2 --zero_stage 1", {"n": 2, "pp": 2, "dp": 1, "model": "mistral-7b"}, ""),
        # databricks/megablocks, exp/moe: experts over all replicas; LongVA, text_extend: other names of a length and of accumulation
        ("moe.sh", "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --moe-num-experts 64 --moe-top-k 1 --moe-expert-model-parallelism --global-batch-size 512 --seq-length 1024", {"n": 8, "ep": 8}, ""),
        ("long.sh", "accelerate launch --num_processes 8 train.py --model Qwen/Qwen2-7B --seq-length 224000 --per_device_train_batch_size 1 --gradient-accumulate-every 4", {"n": 8, "seq": "224000", "batch": 32}, ""),
        ("large.yaml", "model: {hidden_dim: 1280, num_heads: 20, num_layers: 36, seq_len: 1024, gradient_checkpointing: true}\ntrainer: {mp: 'p=f32,c=bf16', num_train_steps: 9}\n", {"batch": 512, "recompute": "full", "zero": 3}, "the 512 of its defaults"),
        # keys over a recipe of Megatron Bridge: its own states, what it offloads, and that the recipe is not here
        ("bridge.yaml", BRIDGE, {"n": 8, "dp": 2, "recipe": "lora", "optimizer-bytes": 8, "software": "megatron-bridge"}, "what the recipe itself sets is not read"),
        ("bridge.yaml", BRIDGE, {}, "offload_modules core_attn"),
        ("titan.toml", TITAN, {"model": "Qwen3-8B", "zero": 3}, ""),
        ("ms.sh", MINDSPORE, {"n": 8, "model": "llama-3-8b"}, ""),
        # formats and stages that someone else chooses are said, and ZeRO++ is a variant of its framework
        ("ds.json", ZEROPP, {"dtype": "fp16", "software": "deepspeed+hpz+qgz"}, "fp16.enabled auto is the trainer's choice"),
        ("acc.yaml", ACCELERATE + "DEEPSPEED\n", {"zero": 2, "software": "deepspeed"}, "the 2 of accelerate is taken"),
        ("acc.yaml", ACCELERATE + "FSDP\n", {"zero": 3}, "give --batch and --seq"),
        ("run.sh", CHECKED, {"n": 8}, ""),
        # a pattern of flags without effect hides none that bears on the cost
        ("nemo.yaml", "model: {tensor_model_parallel_size: 2, use_sharded_embedding: true, num_layers: 2, hidden_size: 1024, num_attention_heads: 16}", {"tp": 2}, "use_sharded_embedding True"),
        ("nova.yml", "base_model: Qwen/Qwen3-8B\ndatasets: [x]\nmicro_batch_size: 1\nuse_quantized_matmul: 4bit\n", {"dtype": "bf16"}, "use_quantized_matmul 4bit"),
    ],
)  # fmt: skip
def test_trainers_are_read(name, text, wanted, said, tmp_path):
    given = {} if "n" in wanted or name == "acc.yaml" or text is BRIDGE else {"n": 8}
    if name in ("ds.json", "acc.yaml", "tune.yaml", "run.sh", "nemo.yaml", "bridge.yaml"):
        given["model"] = "llama-3.1-8b"
    found, notes = options_of(text, tmp_path, name, hw="h100", **given)
    assert {key: found.get(key) for key in wanted} == wanted
    assert said in notes


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("predict.yaml", "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: lora\ndo_predict: true\n", "it predicts or evaluates"),
        ("dora.yml", "base_model: Qwen/Qwen3-8B\ndatasets: [x]\nmicro_batch_size: 1\nadapter: dora\n", "adapter dora is no recipe known here"),
        ("grpo.yaml", HANDBOOK + "num_generations: 16\n", "`roofline rl` prices"),
        ("mamba.yaml", NANOTRON.replace("hidden_size", "is_mamba_config: true, hidden_size"), "is another architecture"),
        ("t5.yaml", FOUNDRY.replace("mpt_causal_lm", "hf_t5"), "hf_t5 is another architecture"),
        ("adapter.sh", "litgpt finetune_adapter microsoft/phi-2 --devices 1", "no recipe known here"),
        ("launcher.sh", "python3 $NEMO/launcher_scripts/main.py training=llama/7b stages=[training]", "a launch of NeMo's launcher; give the config"),
        ("forge.yaml", "# python -m apps.grpo.main --config x.yaml\ngroup_size: 8\npolicy: {engine_args: {model: x}}\n", "a launch of torchforge's GRPO, which is not read"),
        ("tune.yaml", TUNE, "lora_llama3_1_8b is a function of torchtune"),
        ("auto.yaml", AUTOMODEL.replace("Qwen/Qwen3-30B-A3B", "__MODEL_PATH__"), "is a placeholder; give MODEL"),
        ("generation.yaml", "model: {path: x}\nrollout: {tensor_model_parallel_size: 2}\ntrainer: {nnodes: 1}\n", "no launch of a supported tool"),
        ("written.sh", "accelerate launch --config_file $OUT/acc.autogenerated train.py --model_name_or_path Qwen/Qwen3-8B", "acc.autogenerated, which is not here"),
    ],
)  # fmt: skip
def test_trainers_that_are_refused(name, text, said, tmp_path):
    with pytest.raises(rl.RooflineError) as error:
        options_of(text, tmp_path, name, hw="h100", n=8)
    assert said in str(error.value)


def test_a_trainer_behind_accelerate_is_one_launch_with_the_keys_of_its_command(tmp_path):
    for folder in ("configs/ds", "jobs/night"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "configs/ds/z2.json").write_text('{"zero_optimization": {"stage": 2}, "bf16": {"enabled": true}}')
    deepspeed = "deepspeed_config: {deepspeed_config_file: configs/ds/z2.json}\n"
    (tmp_path / "configs/acc.yaml").write_text(ACCELERATE + "DEEPSPEED\n" + deepspeed)
    config = (
        "model_name_or_path: Qwen/Qwen3-8B\nfinetuning_type: full\nper_device_train_batch_size: 1\ncutoff_len: 512\n"
    )
    (tmp_path / "configs/sft.yaml").write_text(config)
    script = "accelerate launch --config_file configs/acc.yaml src/train.py configs/sft.yaml per_device_train_batch_size=4 cutoff_len=8192\n"
    found, said = options_of(script, tmp_path, "jobs/night/run.sh", hw="h100")  # files by their paths from above
    assert {k: found[k] for k in ("n", "dp", "zero", "micro-batch", "batch", "seq", "software")} == {
        "n": 8, "dp": 8, "zero": 2, "micro-batch": 4, "batch": 32, "seq": 8192, "software": "deepspeed"}  # fmt: skip
    assert "give -n" not in said


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("accelerate launch --num_processes 4 sft.py --config own.yaml --per_device_train_batch_size 4 --gradient_checkpointing", {"n": 4, "micro-batch": 4, "batch": 128, "recompute": "full"}),
        ("deepspeed --num_gpus 2 train.py --deepspeed ds.json --model_name_or_path Qwen/Qwen3-8B --gradient_accumulation_steps 4", {"n": 2, "batch": 8, "micro-batch": 1}),
        ("accelerate launch --config_file two.yaml --num_processes 4 sft.py --config own.yaml", {"n": 4, "zero": 3}),
        ("torchrun --nproc_per_node 2 sft.py --seed 1 --config own.yaml --max_seq_length=512", {"n": 2, "seq": 512, "micro-batch": 2}),
    ],
)  # fmt: skip
def test_a_script_overrides_the_config_it_is_given_by_plain_flags(script, wanted, tmp_path):
    (tmp_path / "own.yaml").write_text(HANDBOOK)
    (tmp_path / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}')
    (tmp_path / "two.yaml").write_text("distributed_type: FSDP\nnum_processes: 2\n")
    found, _ = options_of(script, tmp_path, hw="h100")
    assert {key: found.get(key) for key in wanted} == wanted


def test_a_framework_without_constants_on_the_chip_is_that_of_framework(tmp_path):
    """Gaudi runs DeepSpeed and a TPU does not, as --framework says of either; any is priced on both."""
    text = '{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}, "bf16": {"enabled": true}}'
    asked = {"n": 8, "model": "llama-3.1-8b"}
    found, said = options_of(text, tmp_path, "ds.json", hw="gaudi3", **asked)
    assert found["software"] == "deepspeed" and "priced as deepspeed" not in said
    with pytest.raises(UsageError, match="--framework deepspeed: no run of it on TPU v5p is known, only on GPUs"):
        options_of(text, tmp_path, "ds.json", hw="v5p", **asked)
    assert options_of(text, tmp_path, "ds.json", hw="v5p", software="any", **asked)[0].get("software", "any") == "any"


def test_resolvers_of_configs_are_computed(tmp_path):
    text = (
        "trainer: {devices: '${oc.decode:${oc.env:GPUS,8}}', num_nodes: 2}\nmodel: {tensor_model_parallel_size: '${oc.decode:${oc.env:TP,2}}', "
        "global_batch_size: '${floor_div:${multiply:${trainer.devices},${trainer.num_nodes}},${model.tensor_model_parallel_size}}', "
        "recompute_num_layers: '${oc.decode:${oc.env:R,null}}', micro_batch_size: '${add:1,${sub:3,2}}'}\n"
    )
    found, _ = options_of(text, tmp_path, "nemo.yaml", model="llama-3.1-8b")
    assert {k: found[k] for k in ("n", "tp", "batch", "micro-batch")} == {
        "n": 16,
        "tp": 2,
        "batch": 8,
        "micro-batch": 2,
    }


def test_a_value_that_reads_like_an_idle_name_hides_no_flag() -> None:
    given = {"vision-tower": ["openai/clip-vit-large"], "adapter": ["/data/checkpoints/a"]}
    assert LaunchArguments(given).left(flags("deepspeed")) == [
        "--vision-tower openai/clip-vit-large",
        "--adapter /data/checkpoints/a",
    ]


def test_megatron_of_swift_is_read_with_its_defaults(tmp_path):
    text = "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-30B-A3B --tensor_model_parallel_size 2 --expert_model_parallel_size 4 --max_length 4096 --sequence_parallel true"
    found, _ = options_of(text, tmp_path)
    wanted = {"model": "Qwen3-30B-A3B", "n": 8, "tp": 2, "ep": 4, "dp": 4, "batch": 16, "micro-batch": 1, "seq": "4096"}
    assert {key: found[key] for key in wanted} == wanted
    assert (found["recompute"], found["zero"], found["sequence-parallel"], found["software"]) == (
        "selective",
        1,
        True,
        "megatron",
    )


def test_a_config_is_read_over_the_one_that_its_defaults_name(tmp_path):
    (tmp_path / "sft.yaml").write_text(
        "policy:\n  train_micro_batch_size: 2\n  train_global_batch_size: 64\n  megatron_cfg: {enabled: true, pipeline_model_parallel_size: 2}\ncluster: {gpus_per_node: 8, num_nodes: 1}\n"
    )
    text = """defaults: sft.yaml
sft: {max_num_steps: 1}
policy:
  model_name: Qwen/Qwen3-8B
  train_global_batch_size: 32
  max_total_sequence_length: 4096
  megatron_cfg: {tensor_model_parallel_size: 4}
"""
    found, said = options_of(text, tmp_path, "run.yaml")
    assert [found[key] for key in ("tp", "pp", "n", "batch", "micro-batch")] == [4, 2, 8, 32, 2]
    assert "inherits" not in said


def test_swift_shards_its_states_where_fsdp_is_given(tmp_path):
    found, said = options_of(
        "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --tuner_type full --per_device_train_batch_size 1 --gradient_accumulation_steps 4 --max_length 4096 --fsdp f.json --sequence_parallel_size 2",
        tmp_path,
    )
    assert [found[key] for key in ("zero", "cp", "dp", "batch", "ring")] == [3, 2, 4, 16, "ulysses"]
    assert "sharded over all replicas" in said


def test_swift_that_shows_itself_one_device_runs_on_it(tmp_path):
    text = "CUDA_VISIBLE_DEVICES=0 swift sft --model Qwen/Qwen3-8B --per_device_train_batch_size 1 --gradient_accumulation_steps 16 --max_length 2048"
    assert [options_of(text, tmp_path)[0][key] for key in ("n", "batch", "recipe")] == [1, 16, "lora"]


STATED = '{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": "auto"}, "train_micro_batch_size_per_gpu": "auto"}'
FACTORY = "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: full\ndeepspeed: /home/x/configs/two.json\nper_device_train_batch_size: 2\ngradient_accumulation_steps: 8\nbf16: true\n"
OLMO = """run_name: a
model: {d_model: 2048, n_heads: 16, n_layers: 16, mlp_hidden_size: 16384, activation_type: swiglu, weight_tying: false, rope: true, max_sequence_length: 4096, vocab_size: 50280}
global_train_batch_size: 512
device_train_microbatch_size: 4
precision: amp_bf16
activation_checkpointing: whole_layer
optimizer: {name: adamw}
fsdp: {sharding_strategy: SHARD_GRAD_OP}
"""
OMNI = "torchrun --nproc_per_node=8 train.py --model_name_or_path Qwen/Qwen3-8B --deepspeed zero.json --bf16 True --per_device_train_batch_size 2 --max_seq_length 4096 "


def test_the_config_of_deepspeed_that_a_trainer_names_is_read(tmp_path):
    (tmp_path / "two.json").write_text(STATED)
    found, _ = options_of(FACTORY, tmp_path, "sft.yaml", n=4)
    assert [found[key] for key in ("zero", "offload", "dtype", "micro-batch", "batch")] == [
        2,
        "optimizer",
        "bf16",
        2,
        64,
    ]


def test_a_config_of_olmo_is_read_with_half_the_width_that_swiglu_states(tmp_path):
    found, _ = options_of(OLMO, tmp_path, "olmo.yaml", n=8)
    wanted = {"seq": 4096, "batch": 512, "micro-batch": 4, "dtype": "bf16", "zero": 2, "recompute": "full"}
    assert {key: found.get(key) for key in wanted} == wanted
    layer = load_model(found["model"]).layers[-1]
    assert (layer.feedforward.d_ff, layer.feedforward.kind) == (8192, "gated")


def test_adapters_of_internvl_on_a_frozen_model_are_lora(tmp_path):
    (tmp_path / "zero.json").write_text(STATED)
    found, _ = options_of(f"{OMNI}--freeze_llm True --use_llm_lora 16\n", tmp_path)
    assert (found["recipe"], found["lora-rank"], found["zero"]) == ("lora", 16, 2)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("llava.sh", f"{OMNI}--tune_mm_mlp_adapter True", "the language model is frozen"),
        ("next.sh", f"{OMNI}--mm_tunable_parts mm_mlp_adapter", "the language model is frozen"),
        ("freeze.sh", f"{OMNI}--freeze_llm True", "the language model is frozen"),
        ("grpo.sh", f"{OMNI}--vllm_server_host node7", "it samples what it trains on"),
        ("oumi.yaml", "model: {model_name: Qwen/Qwen3-8B}\ntraining: {trainer_type: VERL_GRPO, verl_config_overrides: {rollout: {tensor_model_parallel_size: 2}}}\n",
         "samples what it trains on"),
        ("wan.yaml", "model: {tensor_model_parallel_size: 1, num_layers: 40, hidden_size: 5120, num_attention_heads: 40, crossattn_emb_size: 5120}\ntrain: {global_batch_size: 64, micro_batch_size: 1}\n",
         "a transformer of images or video"),
        ("axes.yaml", "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 2\n", "number of replicas is not stated; give -n and --hw"),
    ],
)  # fmt: skip
def test_what_no_recipe_does_is_refused_with_all_that_is_missing(name, text, why, tmp_path):
    (tmp_path / "zero.json").write_text(STATED)
    with pytest.raises(RooflineError, match=why):
        options_of(text, tmp_path, name)


def test_a_recipe_of_torchtune_has_the_model_of_its_checkpoint(tmp_path):
    text = "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\ncheckpointer: {checkpoint_dir: /tmp/Llama-3.1-8B-Instruct}\nbatch_size: 2\ndtype: bf16\n"
    assert options_of(text, tmp_path, "tune.yaml", n=1)[0]["model"] == "Llama-3.1-8B-Instruct"


def test_one_head_of_keys_is_read_where_a_script_of_megatron_says_so(tmp_path):
    text = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 6 --hidden-size 1024 --num-attention-heads 16 --attention-head-type multiquery --seq-length 1024 --global-batch-size 8 --bf16"
    found, _ = options_of(text, tmp_path)
    assert load_model(found["model"]).layers[-1].attention.n_kv_heads == 1


@pytest.mark.parametrize(
    ("said", "gated"),
    [("activation: swiglu", True), ("swiglu: true", True), ("swiglu: false", False), ("activation: gelu", False)],
)
def test_a_config_of_nemo_says_whether_feed_forwards_are_gated(said, gated):
    text = f"trainer: {{devices: 8, num_nodes: 1}}\nmodel: {{tensor_model_parallel_size: 2, num_layers: 2, hidden_size: 1024, num_attention_heads: 16, ffn_hidden_size: 4096, {said}}}\n"
    assert read.read_text(text, "nemo").shape["gated"] is gated


def test_a_fine_tuning_of_nemo_names_the_conversion_before_it_and_trains(tmp_path):
    text = "run: {convert_name: convert_nemo}\ntrainer: {devices: 8, num_nodes: 2, precision: bf16}\nmodel: {tensor_model_parallel_size: 8, pipeline_model_parallel_size: 2, global_batch_size: 128, micro_batch_size: 1, optim: {name: fused_adam}, data: {train_ds: {global_batch_size: '${fine_tuning.model.global_batch_size}'}, test_ds: {global_batch_size: 7}}}\n"
    found, _ = options_of(text, tmp_path, "squad.yaml", model="mixtral-8x7b")
    assert [found[key] for key in ("n", "tp", "pp", "dp", "batch")] == [16, 8, 2, 1, 128]


def test_the_benchmark_of_colossalai_has_the_defaults_of_its_script(tmp_path):
    found, _ = options_of("colossalai run --nproc_per_node 8 --hostfile h benchmark.py -g -x -b 16\n", tmp_path)
    wanted = {
        "n": 8,
        "model": "llama-2-7b",
        "micro-batch": 16,
        "batch": 128,
        "seq": 4096,
        "zero": 3,
        "recompute": "full",
    }
    assert {key: found.get(key) for key in wanted} == wanted
    assert options_of("colossalai run --nproc_per_node 8 benchmark.py -c 70b\n", tmp_path)[0]["model"] == "llama-2-70b"


def test_levanter_names_its_model_or_its_sizes(tmp_path):
    text = "model_name_or_path: NousResearch/Llama-2-7b-hf\ntrainer: {mp: 'p=f32,c=bfloat16', num_train_steps: 9, train_batch_size: 128, wandb: {tags: [lora]}}\n"
    found, _ = options_of(text, tmp_path, "alpaca.yaml", n=8)
    assert [found[key] for key in ("model", "batch", "seq", "recipe")] == ["Llama-2-7b-hf", 128, 2048, "lora"]
    text = "initialize_from_hf: false\nmodel: {type: llama, hidden_dim: 4096, intermediate_dim: 11008, num_layers: 32, num_heads: 32, seq_len: 2048}\ntrainer: {train_batch_size: 64}\n"
    assert load_model(options_of(text, tmp_path, "sft.yaml", n=8)[0]["model"]).d_model == 4096


def test_torchforge_states_how_many_processes_it_starts(tmp_path):
    text = "model_name: meta-llama/Llama-3.1-8B\nmodel: {name: llama3, flavor: 8B}\nprocesses: {procs: 8, with_gpus: true}\ntraining: {local_batch_size: 2, seq_len: 2048}\nparallelism: {data_parallel_shard_degree: -1, tensor_parallel_degree: 2}\n"
    found, _ = options_of(text, tmp_path, "sft.yaml")
    assert [found[key] for key in ("n", "tp", "dp", "batch")] == [8, 2, 4, 8]


def test_swift_trains_one_sequence_at_once_where_it_names_no_number(tmp_path):
    text = "NPROC_PER_NODE=4 swift sft --model Qwen/Qwen3-8B --gradient_accumulation_steps 16 --max_length 2048"
    assert [options_of(text, tmp_path)[0][key] for key in ("micro-batch", "batch")] == [1, 64]


def test_a_config_in_json_may_be_indented_by_tabs(tmp_path):
    (tmp_path / "zero.json").write_text(STATED.replace(" ", "\n\t"))
    assert options_of(OMNI, tmp_path)[0]["zero"] == 2


PYTORCHJOB = """kind: PyTorchJob
spec:
  pytorchReplicaSpecs:
    Master: &pod
      replicas: 1
      template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 8}}, command: [bash, -c, "torchrun --nnodes=$PET_NNODES --nproc_per_node=8 -m torchtitan.train --module llama3 --config llama3_8b"]}]}}
    Worker: {<<: *pod, replicas: 3}
"""
VEOMNI = """model: {model_path: Qwen/Qwen3-30B-A3B, ops_implementation: {attn_implementation: flash_attention_2}}
data: {max_seq_len: 4096}
train: {accelerator: {ulysses_size: 2, ep_size: 4, fsdp_config: {fsdp_mode: fsdp2, mixed_precision: {enable: true}}}, gradient_checkpointing: {enable: true}, micro_batch_size: 1, global_batch_size: 32}
"""


def test_a_job_of_several_pods_has_the_devices_of_all(tmp_path):
    found, _ = options_of(PYTORCHJOB, tmp_path, "job.yaml")
    assert (found["n"], found["dp"], found["model"]) == (32, 32, "llama-3.1-8b")


def test_nodes_that_a_command_does_not_count_are_asked_for(tmp_path):
    text = "torchrun --nnodes=$WORLD --nproc_per_node=8 train.py --model_name_or_path Qwen/Qwen3-8B --per_device_train_batch_size 2"
    with pytest.raises(RooflineError, match="the number of replicas is not stated; give -n"):
        options_of(text, tmp_path)
    assert options_of(text, tmp_path, n=16)[0]["batch"] == 32


def test_veomni_is_read_by_its_own_rows(tmp_path):
    found, notes = options_of(VEOMNI, tmp_path, "qwen3.yaml", n=16)
    wanted = {
        "cp": 2,
        "ring": "ulysses",
        "ep": 4,
        "zero": 3,
        "recompute": "full",
        "batch": 32,
        "seq": 4096,
        "dtype": "bf16",
    }
    assert {key: found[key] for key in wanted} == wanted and "priced without" not in notes


@pytest.mark.parametrize(
    ("text", "name", "why"),
    [
        ("torchrun --nproc_per_node 4 run_clm.py --model_name_or_path gpt2 --config_name own.json --per_device_train_batch_size 1", "a.sh", "its sizes are in --config_name own.json"),
        ('[model]\nname = "llama4"\nflavor = "3B_12_rank"\n[job]\n[training]\nseq_len = 2048\n', "a.toml", "model.flavor 3B_12_rank of llama4 is a size in its code"),
        ("python3 -m maxtext.trainers.post_train.rl.train_rl rl.yml model_name=llama3.1-8b rl.loss_algo=grpo per_device_batch_size=1", "a.sh", "samples what it trains on"),
        ("actor:\n  backend: \"fsdp:d4p1t1\"\n  path: Qwen/Qwen3-8B\n", "areal.yaml", "a launch of AReaL or ROLL"),
        ("{tensor_model_parallel_size: 2, gpu_memory_utilization: 0.5}", "rollout.yaml", "no launch of a supported tool"),
    ],
)  # fmt: skip
def test_what_is_no_training_step_known_here_is_refused(text, name, why, tmp_path):
    with pytest.raises(RooflineError, match=why):
        options_of(text, tmp_path, name)


def test_processes_of_neuron_are_split_by_its_own_flags(tmp_path):
    text = "torchrun --nproc_per_node 32 sft.py --model_id Qwen/Qwen3-8B --per_device_train_batch_size 1 --tensor_parallel_size 8 --zero_1 --bf16"
    assert [options_of(text, tmp_path)[0][key] for key in ("tp", "dp", "zero", "batch")] == [8, 4, 1, 4]
