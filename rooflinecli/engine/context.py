"""A request with its numbers lifted and its defaults filled in: what every phase of an estimate works from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import TypeVar, cast

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.identity_cache import IdentityKey
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.engine.host_offload import host_of
from rooflinecli.engine.inputs import bind_inputs
from rooflinecli.formulas import attention, serving
from rooflinecli.layers.build import ledger, split
from rooflinecli.ledger.ledger import Ledger, TensorSplit
from rooflinecli.memory import (
    DeviceParameters,
    FrameworkSavedTensors,
    device_parameters,
    preconditioner_bytes,
    with_mtp_layers,
)
from rooflinecli.phases.forward import ForwardPass, ledger_flops
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.chip import Chip
from rooflinecli.quantization.formats import BITS, FORMATS, Formats, experts_alone, experts_format, formats
from rooflinecli.specs.engine import ServingEngine, load_engine, with_scheduler_overrides
from rooflinecli.specs.grid import Grid, grid
from rooflinecli.specs.layout import SIZES, Layout
from rooflinecli.specs.model import Quantization
from rooflinecli.specs.optimizer import load_optimizer
from rooflinecli.specs.parse_values import document_lengths
from rooflinecli.specs.prices import ChosenPrice
from rooflinecli.specs.prices import choose as choose_price
from rooflinecli.specs.request import MOST, OUTPUT, SEQ, Request

T = TypeVar("T")
UNNAMED = Layout.software  # no training software was named
PUE, HOST_FACTOR = 1.09, 1.6
PUE_SOURCE = "Google's fleet, 2025-05 (arXiv 2508.15734)"
HOST_SOURCE = "1.4 to 2.1: Google's fleet (2025-05) 58% accelerators, 25% host, 10% idle machines; DGX H100 10.2 kW rated for 5.6 kW of GPUs"
BATCH, PROMPT, TRAIN_TOKENS = 32.0, 2048.0, 4194304.0


class EstimateContext:
    """Ledger, chip, formats and workload of a request; numbers are plain or traced."""

    def __init__(self, request: Request, lift: PlainLift = PLAIN, override: dict[str, Number] | None = None):
        self.weight_dtype = request.weight_dtype  # as asked; the model below has its stored weights
        if request.weight_dtype is not None:
            from rooflinecli.engine.stored_weights import with_stored_weights

            request = with_stored_weights(request)
        self.request, self.lift = request, lift
        self.draft: EstimateContext | None = None  # of the draft model, once something needs it
        self._memo: dict[tuple[int, str], tuple[Layout, object]] = {}
        # of engine/microbatch
        self.stage_parts: dict[tuple[object, ...], list[tuple[StepAccumulator, Number, Number]]] = {}
        self.stack_activations: dict[tuple[object, ...], tuple[Number, Number, Number, Number]] = {}  # of memory
        self._with_factors: dict[int, tuple[Mapping[str, Number], EstimateContext]] = {}
        self.spec = request.model
        engine = load_engine(request.engine)
        name = engine.on.get(request.hardware.vendor, request.engine)
        self.engine = (
            load_engine(name) if request.scheduler is None else with_scheduler_overrides(name, request.scheduler)
        )
        self.ledger = split(
            ledger(request.model), TensorSplit(self.engine.ranks, self.engine.copies_heads, self.engine.whole_head)
        )
        self.chip = _chip(request, lift, override, self.engine)
        self.dtype, self.formats = _dtype_and_formats(
            IdentityKey(request.model),
            IdentityKey(request.hardware),
            IdentityKey(self.engine),
            (request.dtype, request.kv_dtype, request.weight_dtype, request.state_dtype),
            "train" in request.phases,
        )
        self.host = host_of(request, lift, self.engine, self.formats, self.spec)
        self._set_workload()

    def _set_workload(self) -> None:
        r, flag = self.request, self.from_flag
        prompt, output, seq = self._lengths(float(self.spec.max_context or 1e12))
        if r.prompt is None and r.phases == ("train",):
            prompt = seq  # what the encoder of an encoder-decoder reads in training
        inputs = bind_inputs(self, self.ledger, flag("S_p", prompt, "tokens", "--prompt", r.prompt is None))
        self.ledger, self.prompt = inputs.ledger, inputs.prompt
        self.request_tokens, self.image_input = inputs.request_tokens, inputs.images
        self.steps: Number = 1.0  # denoising steps of an image
        if self.spec.denoising is not None:
            steps = float(self.spec.denoising.steps) if r.steps is None else r.steps
            self.steps = flag("N_s", steps, "1", "--steps", r.steps is None)
            output, seq = 0.0, num.value(self.prompt) if r.seq is None else seq
        self.output = flag("S_o", output, "tokens", "--output", r.output is None)
        self.seq = flag("S", seq, "tokens", "--seq", r.seq is None)
        closed_loop = r.concurrency is not None
        batch, name = r.batch, "--concurrency" if closed_loop else "--batch"
        if closed_loop and num.value(r.concurrency) is not MOST:
            batch = r.concurrency
        elif batch is None and r.max_sequences is not None:  # as many as the engine runs at once
            batch, name = r.max_sequences, "--max-num-seqs"
        self.batch = flag("b", BATCH if batch is None else batch, "sequences", name, batch is None)
        self.uncached_prompt = self.prompt  # tokens that prefill computes: all but those in the prefix cache
        if r.prefix_hit is not None:
            self.uncached_prompt = serving.uncached_tokens(
                self.prompt, flag("h", r.prefix_hit, "1", "--prefix-hit-rate")
            )
        self.packed_length = None if r.lengths is None else self._packed_length(r.lengths)
        self.requests_per_client = flag(
            "N_w", r.prompts_per_slot, "1", "--requests-per-client", self._is(r.prompts_per_slot, 10.0)
        )
        train = r.batch if r.batch is not None else num.maximum(num.floor(TRAIN_TOKENS / num.maximum(seq, 1)), 1)
        self.train_batch = flag("b", train, "sequences", "--batch", r.batch is None)
        keeps = self.chip.constants("training", "framework", r.software or UNNAMED)
        kept, kept_state = num.value(keeps.kept_gradient) or 4.0, num.value(keeps.kept_state) or 12.0
        gradient = kept if r.gradient_bytes is None else r.gradient_bytes
        self.gradient_bytes = flag("p_g", gradient, "B", "--gradient-bytes", self._is(gradient, kept))
        self.optimizer = None if r.optimizer is None else load_optimizer(r.optimizer)
        if self.optimizer is None:
            state: Number = kept_state if r.optimizer_bytes is None else r.optimizer_bytes
            self.optimizer_bytes = flag("p_o", state, "B", "--optimizer-bytes", self._is(state, kept_state))
        else:
            state = self.optimizer.bytes
            if self.optimizer.factors:
                state = state + preconditioner_bytes(self.ledger, self.optimizer, self.lift)
            self.optimizer_bytes = flag("p_o", state, "B", f"--optimizer; {self.optimizer.source}")
        self.utilization = flag("u", r.utilization, "1", "--utilization", self._is(r.utilization, 1.0))

    def _packed_length(self, written: str) -> Number:
        """Mean length of the document that a training token is in. Raises UsageError for a document longer than a sequence."""
        lengths = document_lengths(written)
        if num.plain(self.seq) and max(lengths) > num.value(self.seq):
            raise UsageError(
                f"--doc-lengths {written}: a document of {max(lengths):g} tokens does not fit into --seq-len {num.value(self.seq):g}; raise it",
                "lengths",
            )
        squares, total = sum(length * length for length in lengths), sum(lengths)
        return attention.packed_length(
            self.from_flag("sum_l2", squares, "tokens^2", "--doc-lengths"),
            self.from_flag("sum_l", total, "tokens", "--doc-lengths"),
        )

    def _lengths(self, limit: float) -> tuple[Number, Number, Number]:
        """Prompt, output and training length: as asked, else defaults within the model's context; an encoder reads all of it, and
        a decoder with a window starts with its prefix."""
        r = self.request
        output = r.output if r.output is not None else min(OUTPUT, limit / 2) if self.is_autoregressive else 0.0
        default = min(limit, PROMPT)
        if self.is_autoregressive:
            room = limit - output if r.output is None else limit
            default = min(PROMPT, room, limit / 2 if limit < PROMPT else PROMPT)
        if any(tower.reads == "window" for tower in self.spec.towers):
            default = float(self.spec.prefix)
        return (r.prompt if r.prompt is not None else default, output, r.seq if r.seq is not None else min(SEQ, limit))

    @property
    def cached_prompt_tokens(self) -> Number | None:
        """Prompt tokens in the prefix cache; None without one."""
        return None if self.request.prefix_hit is None else self.prompt - self.uncached_prompt

    @property
    def is_autoregressive(self) -> bool:
        """Whether the model decodes token by token: causal, with a vocabulary."""
        return bool(self.spec.writes)

    @property
    def is_moe(self) -> bool:
        """Whether any layer has routed experts."""
        return self.ledger.moe_layers > 0

    def without_trace(self, layout: Layout) -> tuple[EstimateContext, Layout]:
        """This context and a layout with plain numbers, for a search whose steps are not to be explained."""
        if not self.lift.traced:
            return self, layout
        return EstimateContext(self.request), Layout(
            **{key: num.value(value) for key, value in layout.__dict__.items()}
        )

    @property
    def requests_per_pass(self) -> Number:
        """Requests in a prefill pass: one, or of an encoder as many as are asked for."""
        return 1.0 if self.is_autoregressive or self.request.batch is None else self.batch

    @property
    def sequences_per_pass(self) -> Number:
        """Sequences in that pass: classifier-free guidance makes two of each (Ho and Salimans 2022, section 3.2)."""
        return 2 * self.requests_per_pass if self.uses_guidance else self.requests_per_pass

    @property
    def uses_guidance(self) -> bool:
        """Whether every denoising step runs with the prompt and without."""
        denoising, asked = self.spec.denoising, self.request.guidance
        return bool(denoising is not None and (denoising.guidance if asked is None else asked))

    @property
    def logit_positions(self) -> Number:
        """Positions of a prompt for which the head computes logits: the last; none of a masked language model, whose head only trains."""
        masked = self.spec.lm_head and self.spec.vocab_size and not self.is_autoregressive
        return 0.0 if masked else 1.0

    def _is(self, value: Number, default: float) -> bool:
        """Whether an explanation calls it a default; sweeps (arrays) are never explained."""
        return self.lift.traced and value == default

    def from_flag(self, symbol: str, value: Number, unit: str, name: str, default: bool = False) -> Number:
        """A lifted number that came from the command line."""
        value = float(value) if isinstance(value, int) else value
        if not self.lift.traced:
            return value
        return self.lift(symbol, value, unit, f"{name}{' (default)' if default else ''}")

    def with_factors(self, factors: Mapping[str, Number]) -> EstimateContext:
        """This context with constants of its chip and engine multiplied; kept, so that equal factors cost once."""
        known = self._with_factors.get(id(factors))
        if known is None or known[0] is not factors:
            known = self._with_factors[id(factors)] = (factors, self.on_chip(self.chip.with_factors(factors)))
        return known[1]

    def on_chip(self, chip: Chip) -> EstimateContext:
        """This context on another chip of the same file."""
        return self._changed(chip=chip)

    def without_prefix_cache(self) -> EstimateContext:
        """This context with prompts that no cache shortens."""
        return self._changed(request=replace(self.request, prefix_hit=None), uncached_prompt=self.prompt)

    def in_closed_loop(self, clients: Number) -> EstimateContext:
        """This context under another load: requests in flight, each followed by the next."""
        request = replace(self.request, qps=None, concurrency=num.value(clients))
        return self._changed(request=request, batch=clients)

    def _changed(self, **changes: object) -> EstimateContext:
        """A copy with other attributes, which knows nothing yet of what follows from them."""
        other = copy(self)
        other.__dict__.update(changes, _memo={}, stage_parts={}, _with_factors={})
        return other

    def lifted(self, layout: Layout) -> Layout:
        """The layout with its sizes lifted."""
        if not self.lift.traced:
            return layout
        sizes = {k: self.lift(k, getattr(layout, k), "1", f"plan: --{k.replace('_', '-')}") for k in SIZES}
        return Layout(**{**layout.__dict__, **sizes})

    def model_flops(
        self,
        batch: Number,
        queries: Number,
        keys: Number,
        logits: Number,
        decode: bool,
        cached: Number | None = None,
        documents: Number | None = None,
    ) -> Number:
        """Forward FLOPs of `batch` sequences; the LM head computes `logits` positions of each."""
        full, work = self.request.attention_flops == "full", (batch, queries, keys, logits)
        whole = cached is None and documents is None and not self.ledger.towers  # inputs of a tower may be arrays
        if whole and not self.lift.traced and all(size.__class__ is float for size in work):
            return _model_flops(self.ledger, self.formats, decode, full, *work)
        forward = ForwardPass(self.formats, decode=decode, full_attention=full, cached=cached, documents=documents)
        return ledger_flops(self.ledger, forward, self.lift, *work)

    def parameters(self, layout: Layout) -> DeviceParameters:
        """Parameters on the fullest device of a replica, counted once per layout."""
        return self.memoized(layout, "parameters", lambda: device_parameters(self.ledger, layout, self.lift))

    @cached_property
    def _default_stack(self) -> str:
        """Where weights are not sharded by ZeRO-3 and no software is named: what runs like this one use.

        Scored on 774 published GPU runs asked without their software (docs/accuracy.md): narrow formats, chips with fp4 units and
        mixtures of experts are trained with NVIDIA's tuned recipes; weights sharded by ZeRO-3 with PyTorch FSDP; everything else
        with a stack between those recipes and eager PyTorch, and a wider interval.
        """
        if self.chip.spec.kind != "gpu" or self.chip.spec.vendor != "nvidia":
            return UNNAMED
        narrow = self.formats.compute in ("fp8", "fp4") or "fp4" in self.chip.spec.peak
        return "megatron-bridge" if narrow or self.ledger.moe_layers else "typical"

    def training_stack(self, layout: Layout) -> str:
        """The training software whose constants a layout reads: a row of the training tables."""
        if layout.software != UNNAMED or self._default_stack == UNNAMED:
            return layout.software
        return "pytorch" if layout.zero >= 3 else self._default_stack

    def training_constants(self, kind: str, layout: Layout) -> SimpleNamespace:
        """Constants of a class as the layout's training software has them."""
        return self.chip.constants("training", kind, self.training_stack(layout))

    def trained_parameters(self, layout: Layout) -> DeviceParameters:
        """Parameters in training: with the MTP layers."""
        depth, params = self.mtp_layers_trained(layout), self.parameters(layout)
        return with_mtp_layers(params, self.ledger, layout, depth, self.lift) if depth else params

    def mtp_layers_trained(self, layout: Layout) -> float:
        """MTP layers, where the training framework trains them."""
        depth = float(self.spec.mtp_layers)
        return depth if depth and num.present(self.training_constants("framework", layout).mtp) else 0.0

    def memoized(self, layout: Layout, key: str, compute: Callable[[], T], arrays: bool = False) -> T:
        """What `compute` gives, kept for this very layout; of layouts of arrays most things are too large to keep."""
        known = self._memo.get((id(layout), key))
        if known is not None and known[0] is layout:
            return cast(T, known[1])
        value = compute()
        if arrays or (num.plain(layout.tp) and num.plain(layout.dp)):
            self._memo[id(layout), key] = (layout, value)
        return value

    def framework_saved_tensors(self, layout: Layout) -> FrameworkSavedTensors:
        """What the training framework saves for the backward pass besides the inputs of operations."""
        c = self.training_constants("framework", layout)
        return FrameworkSavedTensors(c.logit_bytes, c.norm_bytes, c.gate_bytes, c.gate_input)

    def pads_heads(self, layout: Layout, phase: str) -> bool:
        """Whether the engine, or in training the framework, pads attention heads to a multiple of tp."""
        if phase == "train":
            return num.present(self.training_constants("framework", layout).pads_heads)
        return self.engine.pads_heads

    def accumulator(self, regime: str, devices: Number) -> StepAccumulator:
        """A new accumulator for one pass. A listing of operations overrides this to keep the lines."""
        return StepAccumulator(self.chip, regime, devices)

    @property
    def pue(self) -> Number:
        """Watts of the data center over those of its servers."""
        given = self.request.pue
        return self.from_flag("PUE", PUE if given is None else given, "1", f"--pue; {PUE_SOURCE}" if given is None else "--pue", given is None)  # fmt: skip

    @property
    def host_factor(self) -> Number:
        """Watts of a server over those of its chips."""
        given = self.request.host_factor
        source = f"--host-factor; {HOST_SOURCE}" if given is None else "--host-factor"
        return self.from_flag("f_h", HOST_FACTOR if given is None else given, "1", source, given is None)

    @property
    def price(self) -> Number | None:
        """USD per device-hour: as given, of the offer that words mean, else of the chip's file or its middle offer."""
        given = self.request.price
        if given is not None and not isinstance(given, str):
            return self.from_flag("price", given, "USD/h", "--price")
        if given is None and self.chip.price is not None:
            return self.chip.price  # without a look at the offers, which a sweep would pay for at every point
        if self.offer is None:
            return None
        one = self.offer.offer
        words = f"{one.where}; {one.provider} {one.kind} {one.date}, {one.source}"
        return self.lift("price", one.usd, "USD/h", words)

    @cached_property
    def grid(self) -> Grid | None:
        """Electricity of the region; None without one. Raises UsageError."""
        return None if self.request.region is None else grid(self.request.region)

    @cached_property
    def offer(self) -> ChosenPrice | None:
        """The offer behind the price; None for a price in numbers and a chip without offers. Raises UsageError for words no offer fits."""
        given, region = self.request.price, self.request.region or ""
        if given is not None and not isinstance(given, str):
            return None
        return choose_price(self.request.hardware, given or "", region)


def _chip(request: Request, lift: PlainLift, override: dict[str, Number] | None, engine: ServingEngine) -> Chip:
    if request.efficiency not in ("expected", "ideal"):
        raise unknown("efficiency", request.efficiency, ("expected", "ideal"))
    ideal = request.efficiency == "ideal"
    if request.memory is not None:
        override = {"memory.capacity": request.memory, **(override or {})}
    if request.power_cap is not None:
        override = {"power": request.power_cap, **(override or {})}
    if lift is not PLAIN or override:
        return Chip(request.hardware, lift, ideal=ideal, override=override, engine=engine)
    return _plain_chip(IdentityKey(request.hardware), ideal, IdentityKey(engine))


@lru_cache(maxsize=64)
def whole_model(ledger: Ledger) -> DeviceParameters:
    """All parameters of a model on one device."""
    return device_parameters(ledger, Layout(), PLAIN)


@lru_cache(maxsize=64)
def _plain_chip(hardware: IdentityKey, ideal: bool, engine: IdentityKey) -> Chip:
    return Chip(hardware.spec, ideal=ideal, engine=engine.spec)


@lru_cache(maxsize=256)
def _model_flops(ledger: Ledger, formats: Formats, decode: bool, full_attention: bool, *work: float) -> float:
    """FLOPs of plain numbers: phases, candidates and checks need the same ones again."""
    batch, queries, keys, logits = work
    forward = ForwardPass(formats, decode=decode, full_attention=full_attention)
    return float(ledger_flops(ledger, forward, PLAIN, batch, queries, keys, logits))


@lru_cache(maxsize=256)
def _dtype_and_formats(
    model: IdentityKey, hardware: IdentityKey, engine: IdentityKey, dtypes: tuple[str | None, ...], training: bool
) -> tuple[str, Formats]:
    """Dtype and formats in which a chip runs a model; `dtypes` are --dtype and those of KV cache, weights and state."""
    dtype, kv_dtype, weight_dtype, state_dtype = dtypes
    request = Request(
        model.spec,
        hardware.spec,
        dtype=dtype,
        kv_dtype=kv_dtype,
        weight_dtype=weight_dtype,
        state_dtype=state_dtype,
        phases=("train",) if training else ("decode",),
    )
    dtype = dtype or _checkpoint_dtype(request)
    chosen = _formats(request, dtype, engine.spec)
    return dtype, replace(chosen, ignores_sliding_window=True) if engine.spec.whole_cache else chosen


def _formats(request: Request, dtype: str, engine: ServingEngine) -> Formats:
    """How the model runs; where only its experts are quantized, a narrow --dtype is theirs."""
    chip, peaks, stored = request.hardware.name, request.hardware.peak, _checkpoint_format(request)
    if stored is not None and experts_alone(request.dtype, request.weight_dtype, stored, "train" in request.phases):
        return experts_format(peaks, chip, request.kv_dtype, stored, request.state_dtype)
    kv = request.kv_dtype or ("fp8" if engine.kv_dtype_fp8 and dtype == "fp8" else engine.cache_dtype or None)
    computes = engine.compute.get(request.hardware.vendor, "") if engine.backends else None
    return formats(dtype, kv, request.weight_dtype, peaks, chip, _kept_format(request), request.state_dtype, computes)


def _checkpoint_dtype(request: Request) -> str:
    """The checkpoint's own format where the chip computes in it, else bf16 or the widest float it has."""
    peaks, stored = request.hardware.peak, request.model.quantization
    if (
        stored is not None
        and stored.applies_to != "experts"
        and not stored.weight_only
        and request.weight_dtype is None
        and stored.dtype in ("fp8", "int8")
        and stored.dtype in peaks
    ):
        return stored.dtype
    for dtype in ("bf16", "fp16", "fp32"):
        if any(p in peaks for p in FORMATS[dtype][1]):
            return dtype
    raise UsageError(f"{request.hardware.name} lists no 16- or 32-bit rate; give --dtype {' or '.join(sorted(peaks))}")


def _checkpoint_format(request: Request) -> Quantization | None:
    """The format of a quantized checkpoint with the bytes of each part; most models have none, and load nothing for it."""
    if request.model.quantization is None:
        return None
    from rooflinecli.engine.stored_weights import checkpoint_format

    return checkpoint_format(request.model)


def _kept_format(request: Request) -> Quantization | None:
    """The checkpoint's format where neither --dtype nor --weight-dtype replaces it; with a 16-bit --dtype, which is then that of
    activations, weight-only formats and those of a file's own tensors stay."""
    stored = request.model.quantization
    if stored is None:
        return None
    if stored.widths is not None or stored.weight_only:
        replaced = request.weight_dtype or (request.dtype and FORMATS[request.dtype][0] < 2)
    else:
        replaced = request.dtype or request.weight_dtype or stored.dtype not in BITS
    return None if replaced else _checkpoint_format(request)
