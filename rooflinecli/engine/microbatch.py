"""One microbatch on the fullest pipeline stage of a training step: kernels forward and backward, and what they wait for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rooflinecli import memory, num
from rooflinecli.derivation import label
from rooflinecli.engine.scene import Scene
from rooflinecli.formulas import collectives as comm
from rooflinecli.formulas import roofline, schedule, training
from rooflinecli.layers.build import towers
from rooflinecli.ledger import Ledger, product
from rooflinecli.num import Number
from rooflinecli.parallel import context, data, expert, pipeline, tensor
from rooflinecli.phases import backward, recompute
from rooflinecli.phases import recipe as adapting
from rooflinecli.phases.forward import Pass
from rooflinecli.phases.sizes import layer_sizes, outer_sizes, work_sizes
from rooflinecli.price.bill import Bill
from rooflinecli.specs.plan import Plan
from rooflinecli.work import Op

REGIME = "training"


@dataclass
class Stage:
    """Bill of a microbatch on the fullest stage; its seconds, the mean over stages, and the weight gradients among them."""

    bill: Bill
    seconds: Number
    mean: Number
    weight_gradients: Number


class Microbatch:
    """Prices a microbatch of the model, or of a further tower of it on the same bill: `share` of all layers, then the ends."""

    def __init__(self, scene: Scene, plan: Plan, tower: tuple[Ledger, float] | None = None, bill: Bill | None = None):
        self.scene, self.plan = scene, plan
        self.book, seq = tower or (scene.book, scene.seq)
        self.bill = bill or scene.bill(REGIME, plan.devices)
        self.forward = Pass(
            scene.formats,
            flash=plan.flash,
            dropout=plan.dropout,
            uneven=context.imbalance(plan, seq),
            imbalance=None if plan.imbalance is Plan.imbalance else plan.imbalance,
            software="" if plan.software == "any" else plan.software,
        )
        self.queries = seq if num.plain(plan.cp) and num.value(plan.cp) == 1 else seq / plan.cp
        self.work = work_sizes(plan.micro_batch, self.queries, seq, self.queries, plan)
        self.tokens = plan.micro_batch * self.queries
        self.framework = self.constants("framework")
        self.recipe = adapting.RECIPE[plan.recipe]
        self.weight_gradients: Number = 0.0
        self.recomputed = recompute.share(plan.recompute_layers, float(scene.book.n_layers))

    def constants(self, kind: str) -> Any:
        return self.scene.chip.constants(REGIME, kind, self.plan.software)

    def layers(self, share: Number) -> Number:
        """Charge `share` of every layer group; the seconds it takes."""
        before = self.bill.total
        for group in self.book.layers:
            sizes = layer_sizes(group, self.work, self.plan, self.book.document, self.scene.lift)
            times = float(group.repeat) * share
            early = recompute.stops_early(self.framework.early_stop, self.book.spec.layers[group.index].norms)
            self._compute(self.forward.ops(group.rows, sizes), times, early)
            if self.recipe.frozen:
                self._adapt(group, sizes, times)
            if num.present(self.framework.bias_passes):
                self.bill.add([self._biases(group, sizes)], times)
            self._communicate(group, sizes, times)
        return self.bill.total - before

    def _compute(self, ops: list[Op], times: Number, early_stop: bool) -> None:
        """Forward, what is computed again, and both halves of the backward pass."""
        plan, bill, recipe = self.plan, self.bill, self.recipe
        inputs = backward.input_gradients(ops, self.scene.formats.activation)
        ops = self._eager(ops)
        bill.add([*ops, *self._eager(inputs)], times)
        bill.add(recompute.again(plan, ops, early_stop), times * self.recomputed)
        if recipe.reference:
            bill.add(ops, times)
        if recipe.frozen:
            return
        before = bill.total
        bill.add(backward.weight_gradients(ops, self.scene.gradient_bytes), times)
        self.weight_gradients = self.weight_gradients + (bill.total - before)

    def _adapt(self, group: Any, sizes: dict[str, Number], times: Number) -> None:
        """Adapters beside frozen weights, and widening the weights where they are stored in four bits."""
        f, full = self.scene.formats, self.plan.recompute == "full"
        ops = adapting.adapter_ops(group.rows, sizes, self.plan.lora_rank, f, self.plan.lora_targets)
        self.bill.add([*ops, *backward.input_gradients(ops), *backward.weight_gradients(ops, 0.0)], times)
        again = times * self.recomputed if full else 0.0
        self.bill.add(ops if full else [], again)
        if self.recipe.quantised:
            self.bill.add(adapting.dequantise(group.rows, sizes, f), times * 2 + again)

    def _biases(self, group: Any, sizes: dict[str, Number]) -> Op:
        """Bias additions and bias gradients as kernels of their own."""
        biased = [
            row.contraction
            for row in group.rows
            if row.contraction and (*row.contraction.g, *row.contraction.n) in row.params
        ]
        moved = sum(product(c.y, sizes) for c in biased) * self.framework.bias_passes * self.scene.formats.activation
        return Op(name="bias", kind="elementwise", dtype=self.scene.formats.compute, flops=0.0, bytes=moved)

    def _eager(self, ops: list[Op]) -> list[Op]:
        """Elementwise kernels without a compiler move more bytes."""
        traffic = self.framework.traffic
        if num.plain(traffic) and num.value(traffic) == 1:
            return ops
        return [op._replace(bytes=op.bytes * traffic) if op.kind == "elementwise" else op for op in ops]

    def _communicate(self, group: Any, sizes: dict[str, Number], times: Number) -> None:
        """Tensor, expert and context parallel collectives of one layer group."""
        plan, size, full = self.plan, self.scene.formats.activation, self.plan.recompute == "full"
        branches = tensor.branches(self.book.spec.layers[group.index])
        for again in (False, True) if full else (False,):
            repeats = times * self.recomputed if again else times
            for c in tensor.collectives(plan, self.tokens, sizes["D"], size, repeats, branches, True, again):
                self.expose("tp", self.bill.collective(c), 0.0 if again else self.constants("tp_collective").overlap)
        if group.moe:
            for c in expert.collectives(plan, self.tokens, sizes["top_k"], sizes["D"], size, times, True):
                self.expose("ep", self.bill.collective(c), self.constants("ep_collective").overlap)
            step = self.constants("step")
            self.bill.spend("overhead", step.per_moe_layer * times, "step", step.error)
        if group.mixer is not None:
            for c in context.collectives(plan, self.tokens, group.mixer.exchange(sizes), size, times, True):
                self.expose("cp", self.bill.collective(c), self.constants("cp_collective").overlap)

    def expose(self, axis: str, seconds: Number, overlap: Number) -> None:
        self.bill.expose(axis, label(comm.exposed(seconds, overlap), f"t_exposed[{axis}]"))

    def transfer(self) -> None:
        """Activations and their gradients between stages."""
        for c in pipeline.collectives(
            self.plan, self.tokens, float(self.scene.spec.d_model), self.scene.formats.activation, True
        ):
            self.expose("pp", self.bill.collective(c), self.constants("pp_collective").overlap)

    def ends(self, stem: bool, head: bool) -> Number:
        """Charge embedding and head; the seconds they take."""
        before = self.bill.total
        book = self.book
        sizes = outer_sizes(book, self.work, self.plan, book.document, self.scene.lift)
        ops = self.forward.ops((*(book.stem if stem else ()), *(book.head if head else ())), sizes, outer=True)
        inputs, ops = backward.input_gradients(ops), self._eager(ops)
        self.bill.add([*ops, *self._eager(inputs)], 1.0)
        if not self.recipe.frozen:
            self.bill.add(backward.weight_gradients(ops, self.scene.gradient_bytes), 1.0)
        if self.recipe.reference:
            self.bill.add(ops, 1.0)
        if head and book.spec.lm_head and book.spec.vocab_size:
            moved = training.loss_traffic(product(("B", "O", "V"), sizes), self.scene.formats.activation)
            self.bill.add(
                [Op(name="loss", kind="elementwise", dtype=self.scene.formats.compute, flops=0.0, bytes=moved)], 1.0
            )
        return self.bill.total - before

    def accumulate(self, params: memory.DeviceParameters) -> None:
        """Add this microbatch's gradients to the running sum, where the framework does so in a pass of its own."""
        c = self.framework
        traffic = training.accumulation_traffic(params.total, c.accumulate)
        seconds = roofline.effective_memory_time(traffic, self.scene.chip.bandwidth, self.constants("optimizer").memory)
        self.bill.spend("optimizer", seconds, "optimizer", c.error)

    def gather_weights(self, params: memory.DeviceParameters, compute: Number, buckets: Number) -> None:
        """ZeRO-3 gathers and scatters of every microbatch, hidden behind the computation they run beside."""
        f, moves = self.scene.formats, []
        gradients = 0.0 if self.recipe.frozen else f.activation
        for held, experts in ((params.inner + params.outer, False), (params.experts, True)):
            if not experts or params.has_experts:
                moves += data.collectives(self.plan, held, f.weight, gradients, buckets, experts)
        t = sum(self.bill.collective(c) for c in moves)
        self.bill.expose("dp", comm.exposed_behind(t, compute * self.constants("fsdp_collective").overlap))


def stage(scene: Scene, plan: Plan, params: memory.DeviceParameters, trained: memory.DeviceParameters) -> Stage:
    """Price one microbatch on the fullest stage of a plan that holds `params` and trains `trained`."""
    layers = float(scene.book.n_layers)
    m = Microbatch(scene, plan)
    per_stage = pipeline.fullest(plan, layers)
    share = schedule.layer_share(per_stage, layers) if plan.stages is None else _uneven(scene, plan, layers)
    inside = m.layers(share)
    m.transfer()
    ends = m.ends(True, True)
    mean = schedule.mean_stage(inside / share, ends, plan.pp)
    for tower in towers(scene.book):
        mean = mean + _tower(m, tower)
    m.accumulate(trained)
    if plan.zero >= 3:
        m.gather_weights(params, m.bill.total, per_stage)
    return Stage(m.bill, m.bill.total, mean, m.weight_gradients)


def _tower(m: Microbatch, tower: tuple[Ledger, float]) -> Number:
    """Charge a further tower, cut over the stages as the layers are; its mean time on a stage."""
    t = Microbatch(m.scene, m.plan, tower, m.bill)
    share = pipeline.share(m.plan, float(t.book.n_layers))
    inside, ends = t.layers(share), t.ends(True, True)
    m.weight_gradients = m.weight_gradients + t.weight_gradients
    return schedule.mean_stage(inside / share, ends, m.plan.pp)


def _uneven(scene: Scene, plan: Plan, layers: Number) -> Number:
    """Share of all layers that makes the slowest of uneven stages, once the ends are charged beside it."""
    whole, ends = Microbatch(scene, plan), Microbatch(scene, plan)
    layers_time = whole.layers(1.0)
    stem = ends.ends(True, False)
    head = ends.ends(False, True)
    slowest = pipeline.slowest(plan, layers, layers_time, stem, head)
    return schedule.effective_share(slowest, stem + head, layers_time)
