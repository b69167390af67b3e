"""`roofline estimate MODEL --hw HW`: the main job."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.cli.main import QUIET
from rooflinecli.cli.output import Format

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command()
def estimate(
    model: str = typer.Argument(
        ..., help="A name or alias (`roofline models`), a YAML path, or a Hugging Face config.json."
    ),
    hw: str = _Opt(..., "--hw", help="A name or alias (`roofline hardware`), or a YAML path."),
    n: str = _Opt(None, "-n", "--devices", help="Devices; omitted: the fewest that hold it."),
    tp: str = _Opt(None, help="Tensor parallel size."),
    pp: str = _Opt(None, help="Pipeline stages."),
    dp: str = _Opt(None, help="Data parallel replicas."),
    cp: str = _Opt(None, help="Context parallel size."),
    ep: str = _Opt(None, help="Expert parallel size (inside dp)."),
    zero: str = _Opt(None, help="ZeRO stage 0..3."),
    micro_batch: str = _Opt(None, "--micro-batch", help="Sequences per replica and pipeline slot."),
    virtual_stages: str = _Opt(None, "--virtual-stages", help="Interleaved stages per device."),
    sequence_parallel: bool = _Opt(
        None, "--sequence-parallel/--no-sequence-parallel", help="Split activations outside TP too."
    ),
    recompute: str = _Opt(None, help="Activation recomputation: none, selective, full or op."),
    recompute_modules: str = _Opt(
        None, "--recompute-modules", help="With selective: core_attn (default), mla_up_proj, mlp, moe, moe_act, ..."
    ),
    recompute_layers: str = _Opt(None, "--recompute-layers", help="Layers of the model that compute again; all."),
    flash: bool = _Opt(None, "--flash/--no-flash", help="Fused attention, or scores written to memory."),
    schedule: str = _Opt(None, help="Pipeline schedule: 1f1b, gpipe or zero-bubble."),
    stages: str = _Opt(None, help="Layers of each pipeline stage when uneven, such as 11,12,12,11."),
    ring: str = _Opt(None, help="How --cp splits the sequence: zigzag, striped, naive or ulysses."),
    shard: str = _Opt(None, help="Replicas that ZeRO shards over (HSDP); all by default."),
    imbalance: str = _Opt(None, help="Tokens of the busiest expert device over an even share."),
    dropout: bool = _Opt(None, "--dropout/--no-dropout", help="Dropout masks in memory and traffic."),
    offload: str = _Opt(None, help="What lives on the host: none or optimizer."),
    software: str = _Opt(
        None, help="Training framework: megatron-2022, nemo-2024, deepspeed, llm-foundry, pytorch, torchtitan, ..."
    ),
    recipe: str = _Opt(None, help="What is trained: full, lora, qlora or dpo."),
    lora_rank: str = _Opt(None, "--lora-rank", help="Rank of LoRA adapters (16)."),
    lora_targets: str = _Opt(
        None, "--lora-targets", help="What carries adapters: all linear layers, attention or qkv."
    ),
    phase: list[str] = _Opt(None, "--phase", help="train, prefill, decode; repeat or omit for all."),
    batch: str = _Opt(
        None, help="Sequences: global batch in training, concurrent per replica in serving; 4M-tokens works too."
    ),
    prompt: str = _Opt(None, help="Prompt tokens."),
    output: str = _Opt(None, help="Output tokens."),
    seq: str = _Opt(None, help="Training sequence length."),
    dtype: str = _Opt(None, help="Number format of matmuls: bf16, fp16, fp8, int8, fp4, ..."),
    kv_dtype: str = _Opt(None, "--kv-dtype", help="Number format of the KV cache."),
    weight_dtype: str = _Opt(None, "--weight-dtype", help="Narrower storage of weights alone (int8, int4, fp8, ...)."),
    tokens: str = _Opt(None, help="Tokens of the whole training run, for its time and bill."),
    price: str = _Opt(None, help="USD per device-hour, instead of the file's."),
    utilisation: str = _Opt(None, help="Share of paid time that is busy, for the cost per token."),
    efficiency: str = _Opt(None, help="expected, or ideal: every kernel at the roofline."),
    attention_flops: str = _Opt(None, "--attention-flops", help="causal (half of S^2) or full."),
    gradient_bytes: str = _Opt(None, "--gradient-bytes", help="Bytes per parameter of gradients (4)."),
    optimizer_bytes: str = _Opt(None, "--optimizer-bytes", help="Bytes per parameter of optimizer state (12)."),
    engine: str = _Opt(None, help="Engine: python-server (default), cuda-graph, vllm, sglang, trtllm."),
    concurrency: str = _Opt(
        None, help="Closed loop: requests in flight per replica, each followed by the next; or max."
    ),
    qps: str = _Opt(None, help="Open loop: requests per second over all replicas."),
    mfu: str = _Opt(None, help="A measured training MFU to hold against the estimate."),
    measured: str = _Opt(None, help="A measured time of the one --phase, such as '35 ms', to hold against the floor."),
    explain: str = _Opt(None, help="Show how a quantity follows, e.g. decode.time_s; `plan`: why this layout."),
    depth: int = _Opt(3, help="How many levels of an explanation."),
    format: Format = _Opt(Format.table, help="table, json, csv or markdown."),
    out: Path = _Opt(None, help="Write to a file instead."),
) -> None:
    """What training, prefill and decode cost: time, throughput, memory and dollars, as floor, expected and interval.

    Exit code 1 when the plan does not fit; the answer is printed all the same, with what is missing.
    """
    given = locals()
    aside = ("mfu", "measured", "explain", "depth", "format", "out")
    options = {name: value for name, value in given.items() if name not in aside and value not in (None, [])}
    from rooflinecli.answers import ask
    from rooflinecli.answers.estimate import estimate as answer
    from rooflinecli.answers.measured import note
    from rooflinecli.cli.output import write
    from rooflinecli.record import plain

    request = ask.request(options)
    if explain == "plan":
        from rooflinecli.answers.why import why
        from rooflinecli.render.why import why as page

        write(page(why(request)), out)
        return
    if explain is not None:
        from rooflinecli.answers.explain import derivation
        from rooflinecli.render.explain import explain as text

        write(text(derivation(request, explain), depth), out)
        return
    result = answer(request)
    note(request, result, mfu, measured)
    from importlib import import_module

    write(import_module(f"rooflinecli.render.{format.value}").estimate(plain(result)), out)
    if not result.feasible:
        raise typer.Exit(1)
