"""nemotron-nas (DeciLM: Llama-3.1-Nemotron 51B, Super 49B, Ultra 253B): a Llama whose layers were searched one by one.

A layer's attention has a separate number of key/value heads or is left out; its MLP has a separate width or is left out. A missing block
has no norm. Source: modeling_decilm.py and block_config.py of nvidia/Llama-3_3-Nemotron-Super-49B-v1 on the Hub;
Bercovich et al. 2024, Puzzle, arXiv 2411.19146.
"""

from __future__ import annotations

from rooflinecli.core.record import Json
from rooflinecli.importers.hf.blocks import attention, feedforward, frame
from rooflinecli.importers.hf.layer_pattern import Override
from rooflinecli.specs.field_reader import ConfigFields

_MULTIPLE = 256  # an MLP's width is rounded up to it


def nas(f: ConfigFields) -> Json:
    """Each entry of block_configs is a layer."""
    n = f.integer("num_hidden_layers")
    blocks = f.items("block_configs", dict, n)
    if not blocks:
        raise f.fail("block_configs", "required, but missing; add it, one entry a layer")
    return frame(f, None, {"kind": "none"}, layers=[_layer(f, i, block) for i, block in enumerate(blocks)])


def _layer(f: ConfigFields, i: int, block: Json) -> Override:
    mixer, mlp = (_part(f, i, block, name) for name in ("attention", "ffn"))
    layer: Override = {"norms": 0}
    if not mixer.flag("no_op"):
        group = mixer.integer("n_heads_in_group")
        heads = f.integer("num_attention_heads")
        if heads % group:
            raise mixer.fail("n_heads_in_group", f"{group} does not divide {heads} heads; give a divisor")
        bias = f.flag("attention_bias")
        layer["attention"] = attention(f, kv=None, n_kv=heads // group, qkv_bias=bias, out_bias=bias)
        layer["norms"] += 1
    if not mlp.flag("no_op"):
        layer["feedforward"] = feedforward(f, "gated", bias=f.flag("mlp_bias"), d_ff=_width(f, mlp))
        layer["norms"] += 1
    return layer


def _part(f: ConfigFields, i: int, block: Json, name: str) -> ConfigFields:
    """One half of a layer. Raises DataError for a replacement that is not supported."""
    given = block.get(name)
    if not isinstance(given, dict):
        raise f.fail("block_configs", f"entry {i} has no {name}; add it")
    part = ConfigFields(given, {}, f.where, (*f.prefix, "block_configs"))
    for other in ("replace_with_linear", "sparsify", "window_length", "num_sink_tokens", "unshifted_sink"):
        part.expect(other, (False, None), f"entry {i}: only full blocks or none are supported; write the model as YAML")
    return part


def _width(f: ConfigFields, mlp: ConfigFields) -> int:
    """Two thirds of ffn_mult times d_model, in multiples of 256."""
    given = mlp.raw("ffn_mult")
    if isinstance(given, bool) or not isinstance(given, (int, float)) or given <= 0:
        raise mlp.fail("ffn_mult", f"expected a number above zero, got {str(given)[:60]!r}")
    exact = int(2 * given * f.integer("hidden_size") / 3)
    return -(-exact // _MULTIPLE) * _MULTIPLE
