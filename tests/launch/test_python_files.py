"""Python files that are launches, as they are published and cut to what decides their reading: each is parsed, none is run."""

from __future__ import annotations

import pytest
from launch.launched import options_of

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.importers.launch import read

# modal-labs/modal-examples, 06_gpu_and_ml/llm-serving/vllm_inference.py
MODAL = """import modal
MODEL_NAME = "Qwen/Qwen3-8B"
N_GPU = 2
FAST_BOOT = True
@app.function(gpu=f"H100:{N_GPU}")
def serve():
    import subprocess
    cmd = ["vllm", "serve", "--uvicorn-log-level=info", MODEL_NAME, "--served-model-name", MODEL_NAME, "llm", "--port", str(8000)]
    cmd += ["--enforce-eager" if FAST_BOOT else "--no-enforce-eager"]
    cmd += ["--tensor-parallel-size", str(N_GPU)]
    subprocess.Popen(" ".join(cmd), shell=True)
"""
# vllm-project/vllm, examples/offline_inference: an engine of the process itself
OFFLINE = """import os
from vllm import LLM, SamplingParams
def main(tp=4, mode="x"):
    path = os.environ.get("MODEL", "meta-llama/Llama-3.1-8B-Instruct")
    extra = dict(max_model_len=8 * 1024, max_num_seqs=64)
    if mode == "y":
        extra["gpu_memory_utilization"] = 0.8
    llm = LLM(model=path, tensor_parallel_size=tp, dtype="bfloat16", enforce_eager=True, **extra)
"""
TABLE = 'from vllm import LLM\nCONFIG = {"model": "Qwen/Qwen3-8B", "sizes": [1, 2]}\nkind = os.environ.get("KIND", "CUDA").lower()\nLLM(model=CONFIG["model"], tensor_parallel_size=CONFIG["sizes"][1] if kind == "cuda" else 8)\n'
ENGINE = 'import sglang as sgl\nif __name__ == "__main__":\n    llm = sgl.Engine(model_path="Qwen/Qwen3-8B", tp_size=2, mem_fraction_static=0.8)\n'
SHELL = 'import os\nSIZE = 2\nos.system(f"trtllm-serve Qwen/Qwen3-8B --tp_size {SIZE} --max_batch_size 32")\n'
CPP = 'from llama_cpp import Llama\nllm = Llama("/m/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", n_gpu_layers=20, n_ctx=8192)\n'
# huggingface/trl, examples/scripts: arguments have their defaults
TRAINER = """import argparse, torch
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer
from peft import LoraConfig
def main():
    args = parser.parse_args()
    bnb = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(args.model_name, quantization_config=bnb, torch_dtype=torch.bfloat16)
    lora = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"])
    config = {"per_device_train_batch_size": args.batch_size, "max_length": 2 * 1024, "gradient_checkpointing": True}
    trainer = SFTTrainer(model=model, args=SFTConfig(output_dir="out", gradient_accumulation_steps=4, bf16=True, **config), peft_config=lora)
parser = argparse.ArgumentParser()
parser.add_argument("--model-name", default="meta-llama/Llama-3.1-8B")
parser.add_argument("--batch_size", type=int, default=2)
main()
"""
# NVIDIA/NeMo, docs/source/nemo-2.0/quickstart.rst
NEMO = """import nemo_run as run
from nemo.collections import llm
recipe = llm.llama3_8b.pretrain_recipe(name="x", num_nodes=2, num_gpus_per_node=8)
recipe.trainer.strategy.tensor_model_parallel_size = 4
recipe.trainer.strategy.context_parallel_size = 2
recipe.data.micro_batch_size = 1
recipe.data.global_batch_size = 128
recipe.data.seq_length = 8192
run.run(recipe, executor=executor)
"""
# NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/recipes/llama/llama3.py
BRIDGE = """def llama32_1b_pretrain_config() -> ConfigContainer:
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Llama-3.2-1B", load_weights=False).to_megatron_provider(load_weights=False)
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.seq_length = 8192
    cfg.train.global_batch_size = 512
    cfg.train.micro_batch_size = 1
    return cfg
"""
# NVIDIA-NeMo/Megatron-Bridge, examples/training_features/resiliency/straggler_detection/straggler_detection_example.py: sizes in constructors
BUILT = """from megatron.bridge.models import AutoBridge
def setup(model_id: str = "meta-llama/Llama-3.2-1B"):
    model = AutoBridge.from_hf_pretrained(model_id).to_megatron_provider()
    model.tensor_model_parallel_size = 1
    model.seq_length = 512
    return ConfigContainer(model=model, train=TrainingConfig(train_iters=9, micro_batch_size=4, global_batch_size=8))
"""
# dstackai/dstack, examples/single-node-training/qlora/train.py: fields of a dataclass are arguments, a model of one function is trained by another
FIELDS = """from dataclasses import dataclass, field
@dataclass
class ScriptArguments:
    model_name: str = field(default="NousResearch/Llama-2-7b-chat-hf", metadata={"help": "x"})
    per_device: int = field(default=4)
    lora_r: int = 64
def model_of(args):
    return AutoModelForCausalLM.from_pretrained(args.model_name, quantization_config=BitsAndBytesConfig(load_in_4bit=True)), LoraConfig(r=args.lora_r)
def train(model, args):
    SFTTrainer(model=model, args=TrainingArguments(per_device_train_batch_size=args.per_device, bf16=True))
"""
# karpathy/nanoGPT, config/train_gpt2.py and config/finetune_shakespeare.py
NANO = "wandb_log = True\nbatch_size = 12\nblock_size = 1024\ngradient_accumulation_steps = 5 * 8\nmax_iters = 600000\nweight_decay = 1e-1\n"
TUNED = "init_from = 'gpt2-xl'\nalways_save_checkpoint = False\nbatch_size = 1\ngradient_accumulation_steps = 32\nmax_iters = 20\n"


@pytest.mark.parametrize(
    "text, given, wanted",
    [
        (MODAL, {}, {"model": "Qwen3-8B", "tp": 2, "hw": "h100-sxm", "engine": "vllm"}),
        (OFFLINE, {}, {"gpu-memory-utilization": None, "model": "Llama-3.1-8B-Instruct", "tp": 4, "dtype": "bf16", "batch": "64"}),
        (TABLE, {}, {"model": "Qwen3-8B", "tp": 2}),
        (ENGINE, {}, {"model": "Qwen3-8B", "tp": 2, "engine": "sglang", "gpu-memory-utilization": "0.8"}),
        (SHELL, {}, {"model": "Qwen3-8B", "tp": 2, "engine": "trtllm", "batch": "32"}),
        (CPP, {}, {"model": "Meta-Llama-3.1-8B-Instruct", "offload-layers": 20, "weight-dtype": "q4_k_m", "engine": "llamacpp"}),
        (TRAINER, {"n": 4}, {"model": "Llama-3.1-8B", "micro-batch": 2, "batch": 32, "seq": 2048, "recipe": "qlora", "lora-rank": 16, "lora-targets": "qkv",
                             "recompute": "full", "dtype": "bf16"}),
        (NEMO, {}, {"model": "llama3-8b", "tp": 4, "cp": 2, "dp": 2, "n": 16, "micro-batch": 1, "batch": 128, "seq": 8192}),
        (BRIDGE, {"n": 8}, {"model": "Llama-3.2-1B", "tp": 2, "batch": 512, "micro-batch": 1, "seq": 8192, "zero": 1}),
        (BUILT, {"n": 2}, {"model": "Llama-3.2-1B", "tp": 1, "batch": 8, "micro-batch": 4, "seq": 512}),
        (FIELDS, {"n": 2}, {"model": "Llama-2-7b-chat-hf", "micro-batch": 4, "batch": 8, "recipe": "qlora", "lora-rank": 64, "dtype": "bf16"}),
        (NANO, {"n": 8}, {"model": "gpt2", "batch": 480, "micro-batch": 12, "seq": 1024, "zero": 0, "dtype": "bf16"}),
        (TUNED, {"n": 1}, {"model": "gpt2-xl", "batch": 32, "micro-batch": 1, "seq": 1024}),
    ],
)  # fmt: skip
def test_a_python_file_is_read_by_its_literals(text, given, wanted, tmp_path):
    found, _ = options_of(text, tmp_path, "run.py", **given)
    assert {key: found.get(key) for key in wanted} == wanted


def test_what_is_no_literal_is_refused_by_name(tmp_path):
    with pytest.raises(UsageError, match=r"run.py:8: --gpu-memory-utilization .* is known only where it runs; give"):
        options_of(OFFLINE.replace('== "y"', "in sys.argv"), tmp_path, "run.py")
    with pytest.raises(
        UsageError, match=r"run.py:2: --model sys.argv\[1\] is known only where it runs; .*give MODEL and --tp"
    ):
        options_of(
            "from vllm import LLM\nLLM(sys.argv[1], tensor_parallel_size=torch.cuda.device_count())\n",
            tmp_path,
            "run.py",
            hw="h100",
        )
    with pytest.raises(UsageError, match="samples what it trains on"):
        options_of(TRAINER.replace("SFTConfig", "GRPOConfig"), tmp_path, "run.py", n=4)


def test_a_recipe_says_that_its_own_settings_are_not_read(tmp_path):
    _, said = options_of(NEMO, tmp_path, "run.py")
    assert "recipe of NeMo 2, llm.llama3_8b.pretrain_recipe: what the recipe itself sets is not read" in said
    found, _ = options_of(NEMO.replace("pretrain", "finetune"), tmp_path, "run.py")
    assert found["recipe"] == "lora"


def test_a_helper_of_nemo_sets_the_sizes_of_a_recipe(tmp_path):
    """AI-Hypercomputer/gpu-recipes, training/g4/llama3_70b/nemo-finetuning-gke."""
    found, _ = options_of(
        "finetune = llama31_70b.finetune_recipe(seq_length=4096)\npp = 4\n"
        "finetune = set_primary_perf_configs(finetune, 'lora', num_nodes=1, num_gpus_per_node=8, mbs=1, gbs=32, tp_size=2, pp_size=pp, vp_size=5)\n"
        "finetune.peft = LoRA(dim=16, alpha=32)\n",
        tmp_path,
        "run.py",
    )
    wanted = {"n": 8, "tp": 2, "pp": 4, "virtual-stages": "5", "batch": 32, "micro-batch": 1, "lora-rank": 16}
    assert {key: str(found[key]) for key in wanted} == {key: str(value) for key, value in wanted.items()}


def test_trl_recomputes_where_nothing_is_stated(tmp_path):
    text = TRAINER.replace(', "gradient_checkpointing": True', "")
    found, said = options_of(text, tmp_path, "run.py", n=4)
    assert found["recompute"] == "full"
    assert "the True of TRL since 0.20 is taken" in said


def test_damaged_python_has_its_line(tmp_path):
    path = tmp_path / "run.py"
    path.write_text("a = 1\nLLM(model=\n")
    with pytest.raises(DataError, match=r"run.py:2: not valid Python"):
        read.read(str(path))
    path.write_text("x = " + "[" * 3000 + "]" * 3000)
    with pytest.raises(DataError, match=r"run.py:1: "):
        read.read(str(path))
    path.write_text("import os\nprint(os.environ.get('A', 'b'))\n")
    with pytest.raises(UsageError, match="no launch of a supported tool"):
        read.read(str(path))
