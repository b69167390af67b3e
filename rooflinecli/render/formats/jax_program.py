"""A training layout as a jax program: Mesh, PartitionSpec of each tensor, and the step under shard_map with its collectives written out."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.errors import UsageError
from rooflinecli.engine.phase_answer import TrainAnswer
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.render.numbers import layout
from rooflinecli.specs.model import load_model

STEP = Path(__file__).with_name("jax_step.py.txt")


def program(model: str, answer: EstimateAnswer) -> str:
    """The program of a dense decoder's step. Raises UsageError for a layout or a model that it does not write."""
    spec, phase = load_model(model), answer.phases["train"]
    assert isinstance(phase, TrainAnswer)
    sizes, workload, first = phase.layout_of_phase, answer.workload, spec.layers[0]
    attention, feedforward = first.attention, first.feedforward
    if (
        attention is None
        or attention.kind != "gqa"
        or feedforward.kind != "gated"
        or len(spec.layers) > 1
        or spec.tied_embeddings
    ):
        raise UsageError(
            f"--emit jax: writes decoders of equal gqa and gated layers with a head of their own; {spec.name} is none",
            "emit",
        )
    others = {axis: sizes[axis] for axis in ("pp", "cp", "ep") if sizes[axis] > 1}
    if others:
        named = " ".join(f"--{axis} 1" for axis in others)
        raise UsageError(f"--emit jax: writes dp, tp, ZeRO and sequence parallelism; add {named}", "emit")
    if sizes.recompute not in ("none", "full"):
        raise UsageError("--emit jax: writes --recompute none or full; give one of them", "emit")
    constants = {
        "DP": int(sizes.dp), "TP": int(sizes.tp), "ZERO": int(sizes.zero if sizes.dp > 1 else 0), "SEQUENCE_PARALLEL": bool(sizes.sequence_parallel),
        "MICRO_BATCH": int(sizes.micro_batch or 1), "MICROBATCHES": int(phase.microbatches), "SEQUENCE": int(workload.seq or 0),
        "RECOMPUTE": sizes.recompute == "full", "LAYERS": spec.n_layers, "D_MODEL": spec.d_model, "D_FF": feedforward.d_ff,
        "HEADS": attention.n_heads, "KV_HEADS": attention.n_kv_heads, "HEAD_DIM": attention.head_dim, "VOCABULARY": spec.vocab_size,
    }  # fmt: skip
    head = f'"""A training step of {spec.name} on {sizes.devices} devices ({layout(sizes)}); `--collectives` lists those of the compiled step."""\n\n'
    return (
        head + "".join(f"{name} = {value!r}\n" for name, value in constants.items()) + STEP.read_text(encoding="utf-8")
    )
