"""GGUF files whose layers differ in kind, their tensors listed here as llama.cpp names them: parameters, state and the bytes of parts."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from conftest import run_cli

sys.path.insert(0, str(Path(__file__).parent))
from files import gguf

from rooflinecli.core.errors import DataError
from rooflinecli.core.lift import PLAIN
from rooflinecli.layers.build import ledger
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model

D, FF, VOCAB, HEADS, KV, H = 512, 1024, 1000, 8, 2, 64
E, XF, SHARED = 6, 256, 320
INNER, STATE, TAPS, GROUPS, SCANS = 1024, 64, 4, 2, 16  # of a scan of Mamba-2
RANK, SMALL = 32, 16  # of one of Mamba-1
TWO = {"attn_norm.weight": (D,), "ffn_norm.weight": (D,)}
POST = {"attn_norm.weight": (D,), "post_attention_norm.weight": (D,)}
ATTENTION = {
    "attn_q.weight": (HEADS * H, D),
    "attn_k.weight": (KV * H, D),
    "attn_v.weight": (KV * H, D),
    "attn_output.weight": (D, HEADS * H),
}
QK = {"attn_q_norm.weight": (H,), "attn_k_norm.weight": (H,)}
MLP = {"ffn_gate.weight": (FF, D), "ffn_up.weight": (FF, D), "ffn_down.weight": (D, FF)}
MIXED = {
    "ffn_gate_inp.weight": (E, D),
    "ffn_gate_exps.weight": (E, XF, D),
    "ffn_up_exps.weight": (E, XF, D),
    "ffn_down_exps.weight": (E, D, XF),
}
SHEXP = {"ffn_gate_shexp.weight": (SHARED, D), "ffn_up_shexp.weight": (SHARED, D), "ffn_down_shexp.weight": (D, SHARED)}
COUNTS = {"expert_count": E, "expert_used_count": 2}
CONV = INNER + 2 * GROUPS * STATE
SSD = {
    "ssm_in.weight": (INNER + CONV + SCANS, D), "ssm_conv1d.weight": (CONV, TAPS), "ssm_conv1d.bias": (CONV,), "ssm_dt.bias": (SCANS,),
    "ssm_a": (SCANS, 1), "ssm_d": (SCANS, 1), "ssm_norm.weight": (GROUPS, INNER // GROUPS), "ssm_out.weight": (D, INNER),
}  # fmt: skip
SSD_KEYS = {
    "ssm.conv_kernel": TAPS,
    "ssm.inner_size": INNER,
    "ssm.state_size": STATE,
    "ssm.group_count": GROUPS,
    "ssm.time_step_rank": SCANS,
}
MAMBA = {
    "ssm_in.weight": (2 * INNER, D), "ssm_conv1d.weight": (INNER, TAPS), "ssm_conv1d.bias": (INNER,), "ssm_x.weight": (RANK + 2 * SMALL, INNER),
    "ssm_dt.weight": (INNER, RANK), "ssm_dt.bias": (INNER,), "ssm_a": (INNER, SMALL), "ssm_d": (INNER,), "ssm_out.weight": (D, INNER),
    "ssm_dt_norm.weight": (RANK,), "ssm_b_norm.weight": (SMALL,), "ssm_c_norm.weight": (SMALL,),
}  # fmt: skip
MAMBA_KEYS = {"ssm.conv_kernel": TAPS, "ssm.inner_size": INNER, "ssm.state_size": SMALL, "ssm.time_step_rank": RANK}
VALUES, KEYS, WIDE = 8, 4, 32  # heads of the delta rule and their width
LINES = (2 * KEYS + VALUES) * WIDE
DELTA = {
    "attn_qkv.weight": (LINES, D), "attn_gate.weight": (VALUES * WIDE, D), "ssm_ba.weight": (2 * VALUES, D), "ssm_conv1d.weight": (LINES, TAPS),
    "ssm_dt.bias": (VALUES,), "ssm_a": (VALUES,), "ssm_norm.weight": (WIDE,), "ssm_out.weight": (D, VALUES * WIDE),
}  # fmt: skip
DELTA_KEYS = {
    "ssm.conv_kernel": TAPS,
    "ssm.inner_size": VALUES * WIDE,
    "ssm.state_size": WIDE,
    "ssm.group_count": KEYS,
    "ssm.time_step_rank": VALUES,
}
GATED = ATTENTION | {"attn_q.weight": (2 * HEADS * H, D)} | QK
QWEN_MOE = MIXED | SHEXP | {"ffn_gate_inp_shexp.weight": (D,)}
CONVS = {"shortconv.in_proj.weight": (3 * D, D), "shortconv.out_proj.weight": (D, D), "shortconv.conv.weight": (D, 3)}
PLAIN_MLP = {"ffn_up.weight": (FF, D), "ffn_down.weight": (D, FF)}
ONE = {"attn_norm.weight": (D,)}
PLAIN_EXPERTS = {name: shape for name, shape in MIXED.items() if "gate_exps" not in name}
PLAIN_SHARED = {name: shape for name, shape in SHEXP.items() if "gate" not in name}
WIDE_EXPERTS = {
    n: tuple(FF if a == XF else a for a in shape) for n, shape in MIXED.items()
}  # Jamba: as wide as its MLPs
SSD_STATE = CONV * TAPS + INNER * STATE
# architecture -> layers, keys in addition to the usual, tied, values of state of one sequence in addition to keys and values, layers that attend
FILES = {
    "jamba": (
        [MAMBA | TWO | MLP, MAMBA | TWO | WIDE_EXPERTS, ATTENTION | TWO | MLP, MAMBA | TWO | WIDE_EXPERTS],
        MAMBA_KEYS | COUNTS | {"attention.head_count_kv": [0, 0, KV, 0]},
        False, 3 * INNER * (TAPS + SMALL), 1,
    ),
    "granitehybrid": (
        [SSD | TWO | MIXED | SHEXP, ATTENTION | TWO | MIXED | SHEXP],
        SSD_KEYS | COUNTS | {"attention.head_count_kv": [0, KV], "expert_shared_feed_forward_length": SHARED},
        True, SSD_STATE, 1,
    ),
    "falcon-h1": ([SSD | ATTENTION | TWO | MLP] * 2, SSD_KEYS | {"attention.key_length": H}, False, 2 * SSD_STATE, 2),
    "nemotron_h": (
        [SSD | ONE, PLAIN_MLP | ONE, ATTENTION | ONE, PLAIN_MLP | ONE],
        SSD_KEYS | {"attention.head_count_kv": [0, 0, KV, 0], "feed_forward_length": [0, FF, 0, FF], "attention.key_length": H},
        False, SSD_STATE, 1,
    ),
    "nemotron_h_moe": (
        [SSD | ONE, PLAIN_EXPERTS | PLAIN_SHARED | ONE, ATTENTION | ONE],
        SSD_KEYS | COUNTS | {"attention.head_count_kv": [0, 0, KV], "attention.key_length": H},
        False, SSD_STATE, 1,
    ),
    "qwen3next": (
        [DELTA | POST | QWEN_MOE, DELTA | POST | QWEN_MOE, GATED | POST | QWEN_MOE],
        DELTA_KEYS | COUNTS | {"attention.key_length": H},
        False, 2 * (LINES * TAPS + VALUES * WIDE * WIDE), 1,
    ),
    "qwen35": (
        [DELTA | POST | MLP, GATED | POST | MLP], DELTA_KEYS | {"attention.key_length": H}, True, LINES * TAPS + VALUES * WIDE * WIDE, 1
    ),
    "lfm2moe": (
        [CONVS | TWO | MLP, ATTENTION | QK | TWO | MIXED],
        COUNTS | {"attention.head_count_kv": [0, KV], "leading_dense_block_count": 1, "shortconv.l_cache": 3, "expert_feed_forward_length": XF},
        True, 3 * D, 1,
    ),
    "mamba": ([{n: s for n, s in MAMBA.items() if "_norm" not in n} | ONE] * 2, MAMBA_KEYS, True, 2 * INNER * (TAPS + SMALL), 0),
    "mamba2": ([SSD | ONE] * 2, SSD_KEYS, False, 2 * SSD_STATE, 0),
}  # fmt: skip


def write(path, name, layers, more, tied, stem=None):
    keys = {
        "block_count": len(layers), "context_length": 2048, "embedding_length": D, "feed_forward_length": FF,
        "attention.head_count": HEADS, "attention.head_count_kv": KV, **more,
    }  # fmt: skip
    tensors = {"token_embd.weight": (VOCAB, D), "output_norm.weight": (D,)} | (
        {} if tied else {"output.weight": (VOCAB, D)}
    )
    if name == "lfm2moe":
        tensors["token_embd_norm.weight"] = tensors.pop("output_norm.weight")
    tensors |= stem or {}
    tensors |= {f"blk.{i}.{n}": shape for i, layer in enumerate(layers) for n, shape in layer.items()}
    listed = [(n, s, "Q8_0" if len(s) > 1 and s[-1] % 32 == 0 else "F32") for n, s in tensors.items()]
    size = gguf(path, {"general.architecture": name, **{f"{name}.{k}": v for k, v in keys.items()}}, listed)
    return sum(math.prod(s) for s in tensors.values()), size


def kept(spec, tokens):
    """Values that one sequence leaves in memory."""
    one, work = (
        formats("bf16", None, None, {"bf16": 1}, "any", None, "bf16"),
        pass_axis_sizes(1.0, 1.0, 1.0, 1.0, Layout()),
    )
    held = [
        (layer, layer_sizes(layer, work, Layout(), None, PLAIN))
        for layer in ledger(spec).layers
        if layer.mixer is not None
    ]
    return sum(layer.repeat * layer.mixer.cache_bytes(one, sizes, 1.0, tokens) for layer, sizes in held) / 2


@pytest.mark.parametrize("name", sorted(FILES))
def test_parameters_and_state_are_those_of_the_file(tmp_path, name):
    layers, more, tied, state, attending = FILES[name]
    elements, _ = write(tmp_path / "m.gguf", name, layers, more, tied)
    spec = load_model(str(tmp_path / "m.gguf"))
    assert parameters(spec).total == elements
    assert spec.n_layers == len(layers) and spec.tied_embeddings is tied
    assert kept(spec, 512.0) == state + attending * 2 * KV * H * 512


@pytest.mark.parametrize("name", sorted(FILES))
def test_layers_stand_where_the_file_has_them(tmp_path, name):
    """One of each kind come to the same in any order, but not to the same bytes of each stage."""
    layers, more, tied, *_ = FILES[name]
    write(tmp_path / "m.gguf", name, layers, more, tied)
    spec = load_model(str(tmp_path / "m.gguf"))
    read = [spec.layers[at] for at in spec.order]
    kinds = ["" if group.attention is None else group.attention.kind for group in read]
    assert [kind in ("gqa", "mha", "attention-ssm") for kind in kinds] == ["attn_k.weight" in layer for layer in layers]
    assert [group.feedforward.kind == "moe" for group in read] == ["ffn_up_exps.weight" in layer for layer in layers]


def test_layers_that_read_an_earlier_cache_keep_none(tmp_path):
    """Gemma 3n: files hold keys and values of every layer, the last of which are not read."""
    n, small, rank, streams = 4, 32, 16, 4
    layer = ATTENTION | QK | MLP | {
        "attn_norm.weight": (D,), "post_attention_norm.weight": (D,), "ffn_norm.weight": (D,), "post_ffw_norm.weight": (D,),
        "inp_gate.weight": (small, D), "proj.weight": (D, small), "post_norm.weight": (D,), "altup_correct_coef.weight": (streams, streams),
        "altup_correct_scale.weight": (D,), "altup_predict_coef.weight": (streams**2, streams), "altup_router.weight": (streams, D),
        "altup_router_norm.weight": (D,), "laurel_l.weight": (rank, D), "laurel_r.weight": (D, rank), "laurel_post_norm.weight": (D,),
    }  # fmt: skip
    stem = {
        "per_layer_token_embd.weight": (900, n * small), "per_layer_model_proj.weight": (n * small, D), "per_layer_proj_norm.weight": (small,),
        "altup_proj.weight": (streams - 1, D, D), "altup_unembd_proj.weight": (streams - 1, D, D),
    }  # fmt: skip
    more = {
        "attention.key_length": H,
        "attention.shared_kv_layers": 2,
        "attention.sliding_window": 128,
        "altup.num_inputs": streams,
    }
    more |= {"attention.sliding_window_pattern": [1, 0, 1, 0]}
    elements, _ = write(tmp_path / "m.gguf", "gemma3n", [layer] * n, more, True, stem)
    spec = load_model(str(tmp_path / "m.gguf"))
    unread = 2 * (2 * KV * H * D + H)  # keys, values and a norm of two layers
    assert parameters(spec).total == elements - unread
    assert kept(spec, 512.0) == 2 * KV * H * (128 + 512)


def test_gemma_4_with_heads_of_two_widths(tmp_path):
    """A window on layers with two heads of keys; one head of twice the width, whose keys are its values, on the others; the last two reuse."""
    n, small, wide, vocab = 4, 32, 2 * H, 800
    both = {
        "attn_norm.weight": (D,),
        "post_attention_norm.weight": (D,),
        "ffn_norm.weight": (D,),
        "post_ffw_norm.weight": (D,),
    }
    own = {"inp_gate.weight": (small, D), "proj.weight": (D, small), "post_norm.weight": (D,)}

    def layer(h, keys, values, ff):
        heads = {"attn_q.weight": (HEADS * h, D), "attn_output.weight": (D, HEADS * h), "attn_q_norm.weight": (h,)}
        heads |= {"attn_k.weight": (keys * h, D), "attn_k_norm.weight": (h,)} if keys else {}
        heads |= {"attn_v.weight": (keys * h, D)} if values else {}
        return heads | both | own | {"ffn_gate.weight": (ff, D), "ffn_up.weight": (ff, D), "ffn_down.weight": (D, ff)}

    layers = [
        layer(H, KV, True, FF),
        layer(wide, 1, False, FF),
        layer(H, 0, False, 2 * FF),
        layer(wide, 0, False, 2 * FF),
    ]
    more = {
        "attention.head_count_kv": [KV, 1, KV, 1], "attention.sliding_window_pattern": [1, 0, 1, 0], "attention.sliding_window": 128,
        "attention.shared_kv_layers": 2, "embedding_length_per_layer_input": small,
    }  # fmt: skip
    stem = {
        "per_layer_token_embd.weight": (vocab, n * small),
        "per_layer_model_proj.weight": (n * small, D),
        "per_layer_proj_norm.weight": (small,),
    }
    elements, _ = write(tmp_path / "m.gguf", "gemma4", layers, more, True, stem)
    spec = load_model(str(tmp_path / "m.gguf"))
    assert parameters(spec).total == elements
    assert kept(spec, 512.0) == 2 * KV * H * 128 + 2 * wide * 512
    write(tmp_path / "m.gguf", "gemma4", layers, more | {"attention.sliding_window_pattern": [0, 0, 0, 0]}, True, stem)
    with pytest.raises(DataError, match="sliding_window_pattern should say"):
        load_model(str(tmp_path / "m.gguf"))


@pytest.mark.parametrize(
    ("name", "drop", "says"),
    [
        ("nemotron_h", "ffn_up.weight", "layer 1 has no tensor of a block"),
        ("qwen3next", "ffn_down_shexp.weight", "so shared_expert_intermediate_size is not known"),
        ("granitehybrid", "ffn_up_exps.weight", "the width of an expert is not known"),
    ],
)
def test_a_file_without_what_says_its_kind_is_refused(tmp_path, name, drop, says):
    layers, more, tied, *_ = FILES[name]
    write(tmp_path / "m.gguf", name, [{n: s for n, s in layer.items() if n != drop} for layer in layers], more, tied)
    done = run_cli("models", str(tmp_path / "m.gguf"))
    assert done.code == 3 and says in done.err and done.err.count("\n") == 1


def test_experts_at_no_period_are_refused(tmp_path):
    layers, more, tied, *_ = FILES["jamba"]
    write(tmp_path / "m.gguf", "jamba", [layers[1], layers[1], layers[2], layers[3]], more, tied)
    done = run_cli("models", str(tmp_path / "m.gguf"))
    assert done.code == 3 and "at no period" in done.err


@pytest.mark.parametrize("count", [0, 8_388_608])
def test_more_layers_than_tensors_are_refused_at_once(tmp_path, count):
    layers, more, tied, *_ = FILES["qwen35"]
    write(tmp_path / "m.gguf", "qwen35", layers, more | {"block_count": count}, tied)
    done = run_cli("models", str(tmp_path / "m.gguf"))
    assert done.code == 3 and f"block_count says {count} layers" in done.err and done.err.count("\n") == 1
