"""GGUF files of architectures that no table knows: read off their tensors, to the element, or refused by the tensor that is not known.

The lists of tensors are llama.cpp's (gguf-py constants.py, MODEL_TENSORS); sizes are odd on purpose.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from files import gguf

from rooflinecli.core.errors import DataError
from rooflinecli.core.lift import PLAIN
from rooflinecli.importers.checkpoint.gguf import _local, architectures
from rooflinecli.importers.checkpoint.gguf_header import GgufMetadata
from rooflinecli.importers.checkpoint.tensor_header import Header
from rooflinecli.layers.build import ledger
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.quantization.formats import formats
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model

pytestmark = pytest.mark.sampled(100)  # each set is a case of its own

D, FF, VOCAB, N, K, H = 256, 320, 999, 8, 2, 48
E, XF, SF = 6, 96, 160  # experts, their width, that of the shared one
_W = {"q": N * H, "k": K * H, "v": K * H}


def weights(**shapes):
    return {f"{name}.weight": shape for name, shape in shapes.items()}


def biases(**widths):
    return {f"{name}.bias": (width,) for name, width in widths.items()}


def norms(*names, bias=False, width=D):
    return {f"{n}.{part}": (width,) for n in names for part in (("weight", "bias") if bias else ("weight",))}


SPLIT = weights(attn_q=(N * H, D), attn_k=(K * H, D), attn_v=(K * H, D), attn_output=(D, N * H))
FUSED = weights(attn_qkv=((N + 2 * K) * H, D), attn_output=(D, N * H))
GATED = weights(ffn_gate=(FF, D), ffn_up=(FF, D), ffn_down=(D, FF))
PLAIN_MLP = weights(ffn_up=(FF, D), ffn_down=(D, FF))
EXPERTS = weights(ffn_gate_inp=(E, D), ffn_gate_exps=(E, XF, D), ffn_up_exps=(E, XF, D), ffn_down_exps=(E, D, XF))
SHARED = weights(ffn_gate_shexp=(SF, D), ffn_up_shexp=(SF, D), ffn_down_shexp=(D, SF))
SCORES = {"exp_probs_b.bias": (E,)}
TWO = norms("attn_norm", "ffn_norm")
TWO_B = norms("attn_norm", "ffn_norm", bias=True)
PER_HEAD = norms("attn_q_norm", "attn_k_norm", width=H)
BIASED = biases(attn_qkv=(N + 2 * K) * H, attn_output=D, ffn_up=FF, ffn_down=D)
RMS = {"attention.layer_norm_rms_epsilon": 1e-6}
MIXED = RMS | {"expert_count": E, "expert_used_count": 2}
ANGLES = {"rope_freqs.weight": (H // 2,)}
# architecture: tensors of each layer, those outside, keys
FILES = {
    "baichuan": ([SPLIT | GATED | TWO] * 2, ANGLES, RMS),
    "exaone": ([SPLIT | GATED | TWO] * 2, ANGLES, RMS),
    "orion": ([SPLIT | GATED | TWO_B] * 2, {"output_norm.bias": (D,)}, {}),
    "qwen": ([FUSED | GATED | TWO | biases(attn_qkv=(N + 2 * K) * H)] * 2, {}, RMS),
    "chatglm": ([FUSED | weights(ffn_up=(2 * FF, D), ffn_down=(D, FF)) | TWO | biases(attn_qkv=(N + 2 * K) * H)] * 2, ANGLES, RMS),
    "falcon": ([FUSED | PLAIN_MLP | norms("attn_norm", bias=True)] * 2, {"output_norm.bias": (D,)}, {}),
    "gpt2": ([FUSED | PLAIN_MLP | TWO_B | BIASED] * 2, {"output_norm.bias": (D,), "position_embd.weight": (77, D)}, {}),
    "bloom": (
        [FUSED | PLAIN_MLP | TWO_B | BIASED] * 2,
        {"output_norm.bias": (D,), "token_embd_norm.weight": (D,), "token_embd_norm.bias": (D,)},
        {"attention.max_alibi_bias": 8.0},
    ),
    "phi2": ([FUSED | PLAIN_MLP | norms("attn_norm", bias=True) | BIASED] * 2, {"output_norm.bias": (D,), "output.bias": (VOCAB,)}, {}),
    "bitnet": ([SPLIT | GATED | TWO | weights(attn_sub_norm=(N * H,), ffn_sub_norm=(FF,))] * 2, {}, RMS),
    "bailingmoe2": (
        [FUSED | GATED | TWO | PER_HEAD, *[FUSED | EXPERTS | SHARED | SCORES | TWO | PER_HEAD] * 2], {}, MIXED,
    ),
    "ernie4_5-moe": ([SPLIT | GATED | TWO, *[SPLIT | EXPERTS | SHARED | SCORES | TWO] * 2], {}, MIXED),
    "hunyuan-moe": ([SPLIT | EXPERTS | SHARED | TWO | PER_HEAD] * 2, ANGLES, MIXED),
    "afmoe": (
        [SPLIT | EXPERTS | SHARED | SCORES | TWO | PER_HEAD | norms("post_attention_norm", "post_ffw_norm") | weights(attn_gate=(N * H, D))] * 8,
        {},
        MIXED | {"attention.sliding_window": 64},
    ),
    "smallthinker": ([SPLIT | EXPERTS | TWO] * 8, {}, MIXED | {"attention.sliding_window": 64}),
    "grok": ([SPLIT | EXPERTS | TWO | norms("attn_output_norm", "layer_output_norm")] * 2, {}, MIXED),
    "arctic": ([SPLIT | GATED | EXPERTS | TWO | norms("ffn_norm_exps")] * 2, {}, MIXED),
    "dbrx": ([FUSED | EXPERTS | norms("attn_norm", "attn_output_norm")] * 2, {}, {"expert_count": E, "expert_used_count": 2}),
    "mimo2": (
        [
            weights(attn_q=(N * H, D), attn_k=(k * H, D), attn_v=(k * 32, D), attn_output=(D, N * 32)) | ffn | TWO | more
            for k, ffn, more in ((2, GATED, {}), (4, EXPERTS | SCORES, {"attn_sinks.weight": (N,)}))
        ],
        {},
        MIXED | {"attention.head_count_kv": [2, 4], "attention.sliding_window": 64, "attention.sliding_window_pattern": [0, 1]},
    ),
    "openelm": (
        [
            weights(attn_qkv=((n + 2 * k) * H, D), attn_output=(D, n * H), ffn_gate=(ff, D), ffn_up=(ff, D), ffn_down=(D, ff)) | TWO | PER_HEAD
            for n, k, ff in ((4, 1, 128), (8, 2, 224), (12, 4, 288))
        ],
        {},
        RMS | {"attention.head_count": [4, 8, 12], "attention.head_count_kv": [1, 2, 4], "feed_forward_length": [128, 224, 288]},
    ),
    "minicpm3": (
        [
            weights(
                attn_q_a=(64, D), attn_q_b=(N * 48, 64), attn_kv_a_mqa=(32 + 16, D), attn_kv_b=(N * (32 + 40), 32),
                attn_output=(D, N * 40), attn_q_a_norm=(64,), attn_kv_a_norm=(32,),
            ) | GATED | TWO
        ] * 2,
        {},
        RMS | {"rope.dimension_count": 16},
    ),
    "bert": (
        [SPLIT | biases(attn_q=N * H, attn_k=K * H, attn_v=K * H, attn_output=D, ffn_up=FF, ffn_down=D) | PLAIN_MLP
         | norms("attn_output_norm", "layer_output_norm", bias=True)] * 2,
        {"position_embd.weight": (77, D), "token_types.weight": (2, D), "token_embd_norm.weight": (D,), "token_embd_norm.bias": (D,)},
        {"attention.causal": False},
    ),
}  # fmt: skip


def write(path, name, layers, outer, more, head=False):
    keys = {
        "block_count": len(layers), "context_length": 2048, "embedding_length": D, "feed_forward_length": FF,
        "attention.head_count": N, "attention.head_count_kv": K, **more,
    }  # fmt: skip
    tensors = {"token_embd.weight": (VOCAB, D)} | outer | ({"output.weight": (VOCAB, D)} if head else {})
    tensors |= {} if "attention.causal" in more else {"output_norm.weight": (D,)}
    tensors |= {f"blk.{i}.{n}": shape for i, layer in enumerate(layers) for n, shape in layer.items()}
    listed = [(n, s, "Q8_0" if len(s) > 1 and s[-1] % 32 == 0 else "F32") for n, s in tensors.items()]
    gguf(path, {"general.architecture": name, **{f"{name}.{k}": v for k, v in keys.items()}}, listed)
    return sum(math.prod(s) for n, s in tensors.items() if not n.startswith("rope_"))


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("name", sorted(FILES))
def test_every_tensor_is_counted(tmp_path, name, head):
    layers, outer, more = FILES[name]
    elements = write(tmp_path / "m.gguf", name, layers, outer, more, head)
    spec = load_model(str(tmp_path / "m.gguf"))
    assert name not in architectures()
    assert parameters(spec).total == elements
    assert spec.n_layers == len(layers) and spec.vocab_size == VOCAB
    assert spec.tied_embeddings is (not head and name != "bert")


def cached(path, tokens):
    """Values of keys and values that one sequence leaves in memory."""
    one, work = formats("bf16", None, None, {"bf16": 1}, "any"), pass_axis_sizes(1.0, 1.0, 1.0, 1.0, Layout())
    held = [(layer, layer_sizes(layer, work, Layout(), None, PLAIN)) for layer in ledger(load_model(str(path))).layers]
    return sum(x.repeat * x.mixer.cache_bytes(one, sizes, 1.0, tokens) for x, sizes in held) / 2


def test_active_experts_windows_and_widths(tmp_path):
    path = tmp_path / "m.gguf"
    elements = write(path, "bailingmoe2", *FILES["bailingmoe2"])
    counted = parameters(load_model(str(path)))
    assert elements - counted.active == 2 * (E - 2) * 3 * XF * D
    assert cached(path, 512.0) == 3 * 2 * K * H * 512
    write(path, "afmoe", *FILES["afmoe"])  # three of four see 64 tokens, the last one all
    assert cached(path, 512.0) == 2 * K * H * (6 * 64 + 2 * 512)
    write(path, "smallthinker", *FILES["smallthinker"])
    assert [load_model(str(path)).layers[i].attention.window for i in load_model(str(path)).order] == [
        None,
        64,
        64,
        64,
    ] * 2
    write(path, "mimo2", *FILES["mimo2"])  # values narrower than keys; more key heads in the window
    assert cached(path, 512.0) == (H + 32) * (2 * 512 + 4 * 64)
    write(path, "openelm", *FILES["openelm"])
    assert cached(path, 512.0) == 2 * H * (1 + 2 + 4) * 512
    write(path, "minicpm3", *FILES["minicpm3"])
    assert cached(path, 512.0) == 2 * (32 + 16) * 512
    write(path, "bert", *FILES["bert"])
    assert load_model(str(path)).both_ways and cached(path, 512.0) == 0


@pytest.mark.parametrize(
    ("name", "seen"),
    [("afmoe", "wwwfwwwf"), ("smallthinker", "fwwwfwww"), ("gemma-embedding", "wwwwwfww"), ("modern-bert", "fwwfwwfw"),
     ("olmo3", "wwwfwwwf"), ("exaone-moe", "wwwfwwwf"), ("llama4", "wwwfwwwf"), ("plamo3", "wwwwwwwf"), ("grove", "wwwwwwww")],
)  # fmt: skip
def test_windows_stand_where_llama_cpp_has_them(name, seen):
    """Layer by layer; a period in the keys goes before its own, and a list before both."""

    def windows(**keys):
        return "".join("f" if _local(_keys(name, **keys), i) is None else "w" for i in range(8))

    assert windows() == seen
    assert windows(sliding_window_pattern=2)[:4] == ("fwfw" if seen[0] == "f" else "wfwf")
    assert windows(sliding_window_pattern=[True, False] * 4) == "wfwfwfwf"


def _keys(name, **attention):
    metadata = {f"{name}.attention.{key}": value for key, value in {"sliding_window": 64, **attention}.items()}
    return GgufMetadata(Header(Path("m.gguf"), "gguf", (), metadata), name, "m.gguf")


def test_a_norm_inside_attention_is_as_wide_as_its_heads_or_as_the_stream(tmp_path):
    """Eight heads of 48 over a stream of 256: a norm of 256 is one of the stream, one of 100 is neither."""
    layer = SPLIT | GATED | TWO
    for width, inside in ((N * H, True), (D, False)):
        elements = write(tmp_path / "m.gguf", "grove", [layer | weights(attn_sub_norm=(width,))] * 2, {}, RMS)
        spec = load_model(str(tmp_path / "m.gguf"))
        assert parameters(spec).total == elements and spec.layers[0].attention.out_norm is inside
    write(tmp_path / "m.gguf", "grove", [layer | weights(attn_sub_norm=(100,))], {}, RMS)
    with pytest.raises(DataError, match=r"tensor blk\.0\.attn_sub_norm"):
        load_model(str(tmp_path / "m.gguf"))


@pytest.mark.parametrize(
    ("changes", "outer", "says"),
    [
        ({"ssm_in.weight": (64, D)}, {}, r"tensor blk\.0\.ssm_in\.weight"),
        ({"ffn_gate_chexps.weight": (2, 32, D)}, {}, r"tensor blk\.0\.ffn_gate_chexps"),
        ({}, {"dec.output_norm.weight": (D,)}, r"tensor dec\.output_norm"),
        ({"attn_k.weight": (K * H + 1, D)}, {}, "widths its heads do not divide"),
        ({"attn_q.bias": (N * H,)}, {}, "biases on some of queries"),
        ({"attn_norm.bias": (D,)}, {}, "with and without a bias"),
        ({"attn_gate.weight": (N, D)}, {}, "gate of another width"),
        (norms("attn_q_norm", "attn_k_norm", width=100), {}, "norms of queries and keys of widths"),
        (norms("attn_k_norm", width=H), {}, "norms of queries and keys of widths"),
        (norms("attn_q_norm", width=N * H), {}, "norms of queries and keys of widths"),
    ],
)
def test_a_tensor_that_is_not_known_is_refused(tmp_path, changes, outer, says):
    write(tmp_path / "m.gguf", "grove", [SPLIT | GATED | TWO | changes], outer, RMS)
    with pytest.raises(DataError, match=says):
        load_model(str(tmp_path / "m.gguf"))


def test_small_heads_that_pick_keys_make_latent_attention_sparse(tmp_path):
    """DeepSeek Sparse Attention: the tensors of an indexer are counted, and its keys stand in the cache beside the latents."""
    layers, outer, more = FILES["minicpm3"]
    indexer = weights(**{"indexer.attn_q_b": (4 * 16, 64), "indexer.attn_k": (16, D), "indexer.proj": (4, D)}) | norms("indexer.k_norm", bias=True, width=16)  # fmt: skip
    plain, sparse = tmp_path / "plain.gguf", tmp_path / "sparse.gguf"
    write(plain, "minicpm3", layers, outer, more)
    elements = write(sparse, "minicpm3", [layer | indexer for layer in layers], outer, more)
    assert parameters(load_model(str(sparse))).total == elements
    assert cached(sparse, 512.0) - cached(plain, 512.0) == 2 * 16 * 512
