"""The interpreter of decoder rows (families/*.yaml; docs/add-model.md has the keys)."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.blocks import (
    Block,
    Row,
    attention,
    experts,
    feedforward,
    frame,
    latent,
    leave_out_predictions,
    mixture_layers,
    sparse,
)
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.specs.field_reader import ConfigFields


def decoder(row: Row, f: ConfigFields) -> Block:
    """A decoder as its row describes it (docs/add-model.md has the keys).

    In a row a switch is true, false, or the flag of the config that decides; a name of a field may be a list of the names it goes by.
    """
    for name, (allowed, remedy) in row.get("expect", {}).items():
        f.expect(name, tuple(allowed), remedy)
    width = f.integer(*_names(row.get("width", "hidden_size")))
    block = _attention(f, row["attention"], width) if "attention" in row else None
    context = f.integer(*_names(row["max_context"])) if "max_context" in row else None
    if "optional_context" in row:
        context = f.optional(*_names(row["optional_context"]))
    n = f.integer(*_names(row.get("layers", "num_hidden_layers")))
    layers = _windows(f, row["windows"], n) if "windows" in row else None
    if "experts" in row:
        base, mixed = _mixture(f, row, width, n)
        layers = merged(layers, mixed) if layers else mixed
    else:
        base = _feedforward(f, row["feedforward"], width)
    if "predictions" in row:
        leave_out_predictions(f, *_names(row["predictions"]))
    more: Block = {key: row[key] for key in ("embedding_norm", "final_norm") if key in row}
    more |= {key: _switch(f, row[key]) for key in ("parallel", "lm_head_bias") if key in row}
    if "norms" in row:
        more |= {"norms": count} if (count := _choice(f, row["norms"])) != "none" else {}
    if row.get("shared_norm"):  # one norm before both blocks where they are parallel
        more["norms"] = 1 if more["parallel"] else 2
    if "positions" in row:
        more["positions"] = dict(row["positions"])
        if "extra_rows" in row["positions"]:
            extra = more["positions"].pop("extra_rows")
            more["positions"]["length"] = (context or f.integer("max_position_embeddings")) + extra
    norm = row.get("norm", "rmsnorm")
    return frame(f, block, base, layers=layers or n, norm=norm, width=width, context=context, **more)


def _names(given: str | list[str]) -> list[str]:
    return [given] if isinstance(given, str) else given


def _switch(f: ConfigFields, given: bool | str) -> bool:
    return f.flag(given) if isinstance(given, str) else given


def _choice(f: ConfigFields, given: Any) -> Any:
    """A value, or {flag: value}: the value where the flag is on, else none."""
    if not isinstance(given, dict):
        return given
    [(flag, value)] = given.items()
    return value if f.flag(flag) else "none"


def _attention(f: ConfigFields, given: Row, width: int) -> Block:
    if given.get("kind") == "mla":
        return latent(f)
    more = dict(given)
    names = {key: more.pop(key) for key in ("heads", "kv", "head_dim") if key in more}
    window, both = more.pop("window", None), more.pop("bidirectional", None)
    more = {key: _choice(f, value) if key == "qk_norm" else _switch(f, value) for key, value in more.items()}
    if window:
        more["window"] = f.optional(window)
    block = attention(f, width=width, **names, **more)
    return block | {"causal": False} if both and f.flag(both) else block


def _feedforward(f: ConfigFields, given: Row, width: int) -> Block:
    """A dense block; `multiple` times the width where the config has no size."""
    more = dict(given)
    kind, bias = more.pop("kind"), _switch(f, more.pop("bias", False))
    names, multiple = more.pop("size", ["intermediate_size"]), more.pop("multiple", None)
    usual = multiple * width if multiple else None
    size = f.integer(*_names(names), null=usual) if names else usual
    more.pop("optional", None)
    return feedforward(f, kind, bias=bias, d_ff=size) | more


def _windows(f: ConfigFields, given: Row, n: int) -> list[Override]:
    """Which layers see a window where layer_types does not list them: all, all but one of `full_every`, or those from a layer on."""
    window = f.optional(given["size"])
    if "when" in given and not f.flag(given["when"]):
        window = None
    local = [given.get("usual", True)] * n
    if "full_every" in given:
        every = given["full_every"]
        every = every if isinstance(every, int) else f.integer(every["field"], null=every.get("default"))
        full = 0 if given.get("full_first") else every - 1
        local = [i % every != full for i in range(n)]
    if "first" in given:
        usual = given["first"]["default"]
        first = f.integer(given["first"]["field"], null=n if usual is None else usual, least=0)
        local = [i >= first for i in range(n)]
    if "end" in given:
        end = f.integer(given["end"], null=0, least=0)
        local = [here and i < end for i, here in enumerate(local)]
    made = windows(f, local, window)
    if given.get("full_without_positions"):
        return [layer or {"attention": {"rotary": False}} for layer in made]
    return made


def _mixture(f: ConfigFields, row: Row, width: int, n: int) -> tuple[Block, list[Override]]:
    """The mixture of `experts`, on all layers or on those of `mixtures`, the others dense as `feedforward`."""
    more = dict(row["experts"])
    size, count, top_k = more.pop("size"), _names(more.pop("count")), more.pop("top_k", "num_experts_per_tok")
    optional = more.pop("optional_shared_d_ff", None)
    for key, value in more.items():
        if key == "n_shared" and not isinstance(value, int):
            more[key] = f.integer(*_names(value), null=0, least=0)
        elif key == "shared_d_ff":
            more[key] = f.integer(*_names(value))
        elif key != "n_shared":
            more[key] = _switch(f, value)
    if optional and (shared := f.optional(optional)):
        more |= {"n_shared": 1, "shared_d_ff": shared}
    moe = experts(f, size, tuple(count), top_k, **more)
    if "mixtures" not in row:
        return moe, [{} for _ in range(n)]
    given = row["mixtures"]
    if "every" in given:
        every, dense = f.integer(given["every"]), f.items(given["except"], int) or []
        where = [i not in dense and (i + 1) % every == 0 for i in range(n)]
    else:
        first = f.integer(given["first"], null=given["default"], least=0) if "first" in given else 0
        where = mixture_layers(f, [i >= first for i in range(n)])
    if _switch(f, row["feedforward"].get("bias", False)):
        moe |= {"bias": False}  # that of the dense layers is not the experts'
    if row["feedforward"].get("optional"):
        f.optional("intermediate_size")  # of dense layers, which may not be there
        if all(where):
            return moe, [{} for _ in where]
    return sparse(_feedforward(f, row["feedforward"], width), moe, where)
