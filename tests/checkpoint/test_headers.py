"""GGUF and safetensors headers read exactly, without tensors; damaged ones refused in a sentence."""

from __future__ import annotations

import json
import math
import struct
import sys
from pathlib import Path

import pytest
from conftest import run_cli

sys.path.insert(0, str(Path(__file__).parent))
from files import LLAMA, gguf, llama_tensors, safetensors

from rooflinecli.core.errors import DataError
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.inference import decode
from rooflinecli.importers.checkpoint import gguf_header
from rooflinecli.importers.checkpoint import safetensors as safetensors_header
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

TINY = llama_tensors(4, 512, 1024, 1000, 128, "Q4_K", "Q6_K")
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 1,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 64,
    "tie_word_embeddings": True,
}
WEIGHTS = {
    "model.embed_tokens.weight": ("BF16", (100, 64)),
    "model.norm.weight": ("BF16", (64,)),
    **{f"model.layers.0.self_attn.{n}_proj.weight": ("BF16", (64, 64)) for n in "qkvo"},
    **{f"model.layers.0.mlp.{n}_proj.weight": ("BF16", (96, 64)) for n in ("gate", "up")},
    "model.layers.0.mlp.down_proj.weight": ("BF16", (64, 96)),
    **{f"model.layers.0.{n}_layernorm.weight": ("BF16", (64,)) for n in ("input", "post_attention")},
}


def header(path: Path):
    """The header of a checkpoint, whatever its kind."""
    if path.suffix == ".gguf":
        return gguf_header.read(path)
    is_index = path.name.endswith(safetensors_header.INDEX)
    return safetensors_header.read_index(path) if is_index else safetensors_header.read(path)


def test_a_gguf_header_is_read_tensor_by_tensor(tmp_path):
    total = gguf(tmp_path / "m.gguf", LLAMA, TINY)
    found = header(tmp_path / "m.gguf")
    assert (found.bytes, len(found.tensors)) == (total, len(TINY))
    assert [(t.name, t.shape, t.dtype) for t in found.tensors] == TINY
    assert found.metadata["tokenizer.ggml.tokens"] == ["a", "b"]
    facts = found.facts()
    assert list(facts["dtypes"]) == ["Q4_K", "Q6_K", "F32"]
    assert facts["dtypes"]["Q6_K"] == 512_000 // 256 * 210
    assert (facts["files"], facts["tensors"]) == (1, len(TINY))
    assert facts["elements"] == sum(math.prod(shape) for _, shape, _ in TINY)


def test_a_gguf_file_is_a_model_whose_weights_are_its_bytes(tmp_path):
    total = gguf(tmp_path / "m.gguf", LLAMA, TINY)
    spec = load_model(str(tmp_path / "m.gguf"))
    assert parameters(spec).total == sum(math.prod(shape) for _, shape, _ in TINY)
    ctx = EstimateContext(Request(spec, load_hardware("rtx-4090"), prompt=16.0, output=16.0, batch=1.0))
    assert decode(ctx, Layout()).memory.weights_bytes == pytest.approx(total, rel=1e-12)


def test_a_decoded_token_reads_all_but_the_untied_embedding(tmp_path):
    total = gguf(tmp_path / "m.gguf", LLAMA, TINY)
    ctx = EstimateContext(
        Request(
            load_model(str(tmp_path / "m.gguf")),
            load_hardware("rtx-4090"),
            prompt=1.0,
            output=1.0,
            batch=1.0,
            efficiency="ideal",
        )
    )
    answer = decode(ctx, Layout())
    embedding = 1000 * 512 // 256 * 144
    assert answer.floor_s == pytest.approx((total - embedding) / 1.008e12, rel=0.02)


def test_a_tied_head_reads_the_embedding(tmp_path):
    tied = llama_tensors(4, 512, 1024, 1000, 128, "Q4_K", "Q6_K", tied=True)
    gguf(tmp_path / "m.gguf", LLAMA, tied)
    spec = load_model(str(tmp_path / "m.gguf"))
    assert spec.tied_embeddings and spec.quantization.widths.head == 210 / 256


def test_a_mixture_keeps_its_experts_apart(tmp_path):
    moe = [t for t in TINY if "ffn_" not in t[0] or "norm" in t[0]]
    for i in range(4):
        moe += [
            (f"blk.{i}.ffn_{n}_exps.weight", shape, "Q8_0")
            for n, shape in (("gate", (8, 64, 512)), ("up", (8, 64, 512)), ("down", (8, 512, 64)))
        ]
        moe.append((f"blk.{i}.ffn_gate_inp.weight", (8, 512), "F32"))
    keys = LLAMA | {"llama.expert_count": 8, "llama.expert_used_count": 2, "llama.feed_forward_length": 64}
    total = gguf(tmp_path / "m.gguf", keys, moe)
    spec = load_model(str(tmp_path / "m.gguf"))
    assert spec.quantization.widths.experts == 34 / 32
    assert parameters(spec).total - parameters(spec).active == 4 * 6 * 3 * 64 * 512
    ctx = EstimateContext(Request(spec, load_hardware("h100"), prompt=16.0, output=16.0, batch=1.0))
    assert decode(ctx, Layout()).memory.weights_bytes == pytest.approx(total, rel=1e-12)


def test_split_files_are_read_together(tmp_path):
    names = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    first = gguf(names[0], LLAMA | {"split.count": 2}, TINY[:10])
    second = gguf(names[1], {"split.count": 2}, TINY[10:])
    found = header(names[0])
    assert (found.files, found.bytes) == (2, first + second)
    names[1].unlink()
    with pytest.raises(DataError, match=r"part m-00002-of-00002\.gguf is missing"):
        header(names[0])


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda b: b"GGML" + b[4:], "does not start with 'GGUF'"),
        (lambda b: b[:200], "ends after"),
        (lambda b: b[:4] + struct.pack("<I", 9) + b[8:], "version 9 is not supported"),
        (lambda b: b[:8] + struct.pack("<Q", 1 << 40) + b[16:], "more than any file has"),
        (lambda b: b[:-12] + struct.pack("<IQ", 99, 0), "is of type 99"),
        (lambda b: b[:4], "ends after"),
    ],
)
def test_a_damaged_gguf_file_is_refused(tmp_path, damage, says):
    path = tmp_path / "m.gguf"
    gguf(path, LLAMA, TINY)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=rf"m\.gguf: .*{says}"):
        header(path)


def test_an_unknown_architecture_is_read_off_its_tensors(tmp_path):
    """The tensors of a llama under another name are the same model; without keys, or without a name, a file says nothing."""
    gguf(tmp_path / "m.gguf", LLAMA | {"general.architecture": "hyena"}, TINY)
    with pytest.raises(DataError, match=r"the key hyena.block_count is missing"):
        load_model(str(tmp_path / "m.gguf"))
    gguf(tmp_path / "llama.gguf", LLAMA, TINY)
    renamed = {key.replace("llama.", "hyena."): value for key, value in LLAMA.items()}
    gguf(tmp_path / "hyena.gguf", renamed | {"general.architecture": "hyena"}, TINY)
    declared, found = (load_model(str(tmp_path / f"{name}.gguf")) for name in ("llama", "hyena"))
    assert parameters(found).total == parameters(declared).total and found.n_layers == declared.n_layers
    gguf(tmp_path / "none.gguf", {k: v for k, v in LLAMA.items() if k != "general.architecture"}, TINY)
    with pytest.raises(DataError, match=r"general\.architecture is missing"):
        load_model(str(tmp_path / "none.gguf"))


def test_an_estimate_says_which_file_lacks_tensors(tmp_path):
    """A layer left out: 2 x 512 x 512 of queries and output, 2 x 128 x 512 of keys and values, three matrices and two norms."""
    whole = [t for t in TINY if not t[0].startswith("blk.2.")]
    gguf(tmp_path / "part.gguf", LLAMA, whole)
    gguf(tmp_path / "whole.gguf", LLAMA, TINY)
    said = [
        run_cli("estimate", str(tmp_path / f"{n}.gguf"), "--hw", "rtx-4090", "--format", "json").out
        for n in ("part", "whole")
    ]
    part, full = (json.loads(out).get("notes") or [] for out in said)
    missing = sum(math.prod(shape) for name, shape, _ in TINY if name.startswith("blk.2."))
    assert any(f"part.gguf holds {missing:,} parameters fewer than its model" in note for note in part)
    assert not any("fewer than its model" in note for note in full)


def _notes(path: Path) -> list[str]:
    return json.loads(run_cli("estimate", str(path), "--hw", "rtx-4090", "--format", "json").out).get("notes") or []


def test_an_estimate_says_which_file_holds_more_than_its_model(tmp_path):
    """A wider matrix than the keys say, and one that no llama has; angles of rotary positions are no parameters."""
    wide = [(n, (2048, 512) if n == "blk.1.ffn_up.weight" else shape, kind) for n, shape, kind in TINY]
    for tensors, more in ((wide, 1024 * 512), ([*TINY, ("blk.0.foo.weight", (256, 512), "Q4_K")], 256 * 512)):
        gguf(tmp_path / "m.gguf", LLAMA, tensors)
        assert any(
            f"m.gguf holds {more:,} parameters more than its model" in note for note in _notes(tmp_path / "m.gguf")
        )
    gguf(tmp_path / "rope.gguf", LLAMA, [*TINY, ("rope_freqs.weight", (32,), "F32")])
    assert not any("than its model" in note for note in _notes(tmp_path / "rope.gguf"))
    assert "header and model agree" in run_cli("models", str(tmp_path / "rope.gguf")).out


def test_tensors_named_twice_and_an_embedding_of_another_width_are_refused(tmp_path):
    gguf(tmp_path / "twice.gguf", LLAMA, [*TINY, TINY[5]])
    with pytest.raises(DataError, match=rf"twice\.gguf: tensor '{TINY[5][0]}' is there twice"):
        header(tmp_path / "twice.gguf")
    names = [tmp_path / f"s-0000{i}-of-00002.gguf" for i in (1, 2)]
    gguf(names[0], LLAMA | {"split.count": 2}, TINY)
    gguf(names[1], {"split.count": 2}, TINY[:1])
    with pytest.raises(DataError, match="is there twice"):
        header(names[0])
    wide = [(n, (1000, 768) if n == "token_embd.weight" else shape, kind) for n, shape, kind in TINY]
    gguf(tmp_path / "wide.gguf", LLAMA, wide)
    with pytest.raises(DataError, match=r"llama\.embedding_length says 512, and token_embd\.weight is 768 wide"):
        load_model(str(tmp_path / "wide.gguf"))


def test_the_command_line_estimates_a_gguf_file(tmp_path):
    gguf(tmp_path / "model-Q4_K_M.gguf", LLAMA, TINY)
    ran = run_cli(
        "estimate",
        str(tmp_path / "model-Q4_K_M.gguf"),
        "--hw",
        "rtx-4090",
        "--phase",
        "decode",
        "--batch",
        "1",
        "--format",
        "json",
    )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["phases"]["decode"]["memory"]["weights_bytes"] == pytest.approx(
        header(tmp_path / "model-Q4_K_M.gguf").bytes - 512_000 * 4.5 / 8  # token_embd, which stays on the host
    )
    shown = run_cli("models", str(tmp_path / "model-Q4_K_M.gguf"))
    assert "Q4_K" in shown.out and shown.code == 0


def _folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path / "model.safetensors"


def test_a_safetensors_header_is_held_against_the_config(tmp_path):
    path = _folder(tmp_path)
    total = safetensors(path, WEIGHTS, {"format": "pt"})
    spec = load_model(str(path))
    assert (spec.checkpoint.bytes, spec.checkpoint.elements) == (total, parameters(spec).total)
    assert "agree" in run_cli("models", str(path)).out
    safetensors(path, WEIGHTS | {"extra.weight": ("BF16", (7, 5))})
    assert "35 more" in run_cli("models", str(path)).out


def test_shards_are_read_through_their_index(tmp_path):
    path = _folder(tmp_path)
    names, parts = sorted(WEIGHTS), {}
    for i in (0, 1):
        shard = f"model-0000{i + 1}-of-00002.safetensors"
        chosen = {n: WEIGHTS[n] for n in names[i::2]}
        safetensors(tmp_path / shard, chosen)
        parts |= dict.fromkeys(chosen, shard)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": parts}))
    found = header(index)
    assert (found.files, len(found.tensors)) == (2, len(WEIGHTS))
    assert load_model(str(index)).checkpoint.elements == parameters(load_model(str(index))).total
    index.write_text(json.dumps({"weight_map": parts | {"ghost": "model-00001-of-00002.safetensors"}}))
    with pytest.raises(DataError, match="ghost is in no shard"):
        header(index)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(DataError, match=r"shard model-00002-of-00002\.safetensors is not in the same folder"):
        header(index)
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "cut short"),
        (b"\xff" * 16, "cut short"),
        ((9).to_bytes(8, "little") + b"not json!", "not JSON"),
        ((2).to_bytes(8, "little") + b"[]", "not an object"),
    ],
)
def test_a_damaged_safetensors_file_is_refused(tmp_path, text, says):
    path = _folder(tmp_path)
    path.write_bytes(text)
    with pytest.raises(DataError, match=rf"model\.safetensors: .*{says}"):
        header(path)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"dtype": "BF16", "shape": [2], "data_offsets": [0, 5]}, "disagree"),
        ({"dtype": "X9", "shape": [2], "data_offsets": [0, 4]}, "not known"),
        ({"dtype": "BF16", "shape": [2]}, "lacks its dtype"),
        ({"dtype": {}, "shape": [2], "data_offsets": [0, 4]}, "not known"),
        ({"dtype": ["BF16"], "shape": [2], "data_offsets": [0, 4]}, "not known"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(tmp_path, entry, says):
    text = json.dumps({"w": entry}).encode()
    (tmp_path / "m.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(DataError, match=says):
        header(tmp_path / "m.safetensors")


def test_tensors_without_a_config_say_what_is_missing(tmp_path):
    safetensors(tmp_path / "m.safetensors", WEIGHTS)
    with pytest.raises(DataError, match=r"needs the config\.json next to it"):
        load_model(str(tmp_path / "m.safetensors"))


def test_an_index_of_no_shards_is_named(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text('{"weight_map": {}}')
    with pytest.raises(DataError, match="names no shard"):
        load_model(str(index))
