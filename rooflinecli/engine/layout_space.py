"""Every legal training layout on a number of devices: splits of the devices first, then what each split leaves open.

A search tries all of them as arrays, the choice of a layout a coarse part, from whose best it goes on (engine/training_layout): on few devices,
and to find a device count, a part so small that its layouts are sooner priced one by one than numpy is imported.

What is legal is engine/legality's to say. Micro-batches are the divisors of a replica's share of the batch and the powers of
two up to it where that is no whole number or no --batch is given, expert groups the divisors of dp, virtual stages those of `virtual_stages`. ZeRO-3 shards over all
replicas, or over those inside one or two fast domains (HSDP).
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import combinations, product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number, divisors
from rooflinecli.core.record import Json
from rooflinecli.engine import extrapolation, legality
from rooflinecli.engine.choose import divides_heads, scale_up_domain
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.legality import LegalityRule
from rooflinecli.formulas.constraints import divides
from rooflinecli.specs.layout import CHOSEN, OPEN, PLACEMENTS, Layout, OpenValues
from rooflinecli.specs.request import Request

if TYPE_CHECKING:
    import numpy as np

ORDER = ("tp", "pp", "cp", "dp", "ep", "micro_batch", "virtual_stages")  # rows of a table of layouts

DOMAINS = (0, 1, 2)  # fast domains that a shard group fills; 0: all replicas are one group
COARSE_TP, COARSE_MICRO_BATCH = 32, 32  # largest sizes of the coarse part
COARSE_TOKENS = 128  # of a context rank at least
SPARSE_TOKENS, SPARSE_CONTEXT = 1024, 8  # of a device at most and of a context rank at least where latencies decide
SHORT_TOKENS = 65536  # of a micro-batch of short sequences at most
# the same of the few that are priced one by one; of short sequences as many as have these tokens, longer ones have one context size
FEW_MICRO_BATCH, FEW_TOKENS = 4, 8192


class LayoutSpace(Protocol):
    """A question about layouts: `open` has what a size may be; any legal one where it is not named."""

    @property
    def request(self) -> Request: ...

    @property
    def open(self) -> OpenValues: ...


@dataclass(frozen=True)
class CoarseSpace:
    """The sizes that a request leaves open, of which the coarse part is tried, or few of it."""

    request: Request
    few: bool = False

    @cached_property
    def open(self) -> OpenValues:
        given = {name: getattr(self.request, name.replace("-", "_")) for name in OPEN}
        given["pp"] = legality.stage_count(self.request)
        return {name: (value,) for name, value in given.items() if value is not None}


class DeviceSplit(NamedTuple):
    """What a layout has in addition to its sizes. domains: how many fast domains a shard group of ZeRO-3 fills, 0 for all replicas."""

    zero: int
    recompute: str
    sequence_parallel: bool
    domains: int = 0
    placement: str | None = None

    @property
    def settings(self) -> Json:
        """The fields of a layout."""
        return {name: value for name, value in self._asdict().items() if name != "domains"}

    def layout(self, request: Request, sizes: Mapping[str, Number] = MappingProxyType({})) -> Layout:
        """A layout of these settings."""
        settings = {name: value for name, value in self.settings.items() if value is not None}
        return Layout(flash=request.flash, **(legality.layout_fields(request, "train") | settings | dict(sizes)))


PLAIN = DeviceSplit(0, "none", False)


@dataclass
class LayoutArrays:
    """Legal layouts of one structure, an array per size; `split` numbers the device splits; `rejected` counts what no rule let in.

    shard: replicas of the shard group of each, None where all replicas are one.
    """

    sizes: dict[str, np.ndarray]
    split: np.ndarray
    rejected: dict[str, int] = field(default_factory=dict)
    shard: np.ndarray | None = None
    structure: DeviceSplit = PLAIN

    def __len__(self) -> int:
        return len(self.split)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """The sizes, and the shard group where there are several."""
        return self.sizes if self.shard is None else self.sizes | {"shard": self.shard}

    def take(self, chosen: np.ndarray) -> LayoutArrays:
        shard = None if self.shard is None else self.shard[chosen]
        sizes = {k: v[chosen] for k, v in self.sizes.items()}
        return LayoutArrays(sizes, self.split[chosen], shard=shard, structure=self.structure)

    def laid(self, ctx: EstimateContext, structure: DeviceSplit) -> LayoutArrays:
        """These with the settings and the shard groups of a structure."""
        shard = groups(ctx, self, structure.domains) if structure.domains else self.shard
        return replace(self, structure=structure, shard=shard)

    def plan(self, request: Request) -> Layout:
        """All of them as one layout of arrays."""
        return self.structure.layout(request, self.columns)

    def rows(self, chosen: np.ndarray) -> Iterator[Json]:
        """The sizes and settings of those at these places, a column at a time: element by element numpy is slow, and a search offers thousands."""
        columns, settings = self.columns, {"shard": None} | self.structure.settings
        for row in zip(*(column[chosen].astype(int).tolist() for column in columns.values()), strict=True):
            yield settings | dict(zip(columns, row, strict=True))


def layouts(ctx: EstimateContext, space: LayoutSpace, devices: int) -> LayoutArrays:
    """All of them, or the coarse part. Sizes the question fixes are taken as given and still have to be legal."""
    import numpy as np

    rows = list[np.ndarray]()
    for number, (split, rest) in enumerate(_sizes(ctx, space, devices)):
        block = np.empty((8, *map(len, rest)))
        for row, value in zip(block, (number, *split, *np.ix_(*rest)), strict=True):
            row[...] = value
        rows.append(block.reshape(8, -1))
    table = np.concatenate(rows, axis=1) if rows else np.zeros((8, 0))
    found = LayoutArrays(dict(zip(ORDER, table[1:], strict=True)), table[0])
    plan = Layout(**{**found.sizes, **legality.layout_fields(ctx.request, "train")})
    alive, rejected = np.ones(len(found), dtype=bool), Counter[str]()  # by the first rule that a layout breaks
    whole = [divides_batch(ctx, plan)] if chooses_whole_batches(ctx, space, devices) else []
    for rule in (*legality.rules(ctx, plan, "train"), *whole):
        holds = np.broadcast_to(rule.holds, alive.shape)
        rejected[rule.name] += int((alive & ~holds).sum())
        alive &= holds
    return replace(found.take(np.flatnonzero(alive)), rejected={why: n for why, n in rejected.items() if n})


def chooses_whole_batches(ctx: EstimateContext, space: LayoutSpace, devices: int) -> bool:
    """Whether replicas of a layout that is chosen take whole micro-batches of the batch, which launchers require: where --batch is given
    and some split of the devices can. Other batches are rounded up when they are launched."""
    if ctx.request.batch is None:
        return False
    replicas = (
        dp
        for tp, pp, cp, dp in _splits(ctx, space, devices)
        if divides_heads(ctx, tp) and pp <= ctx.ledger.n_layers and not ctx.seq % cp
        if cp == 1 or ctx.seq / cp >= COARSE_TOKENS
        if all(
            rule.holds or not {"tp", "pp", "cp"}.issuperset(rule.sizes)
            for rule in legality.launched(ctx, Layout(float(tp), float(pp), float(dp), float(cp)), space.open)
        )
    )
    micro = space.open.get("micro-batch", (1,))
    return any(not ctx.train_batch % (dp * each) for dp in replicas for each in micro)


def divides_batch(ctx: EstimateContext, layout: Layout) -> LegalityRule:
    """The rule of a layout that is chosen."""
    holds = divides(layout.dp * layout.micro_batch, ctx.train_batch)
    return LegalityRule(
        "dp x micro-batch divides the batch",
        ("batch",),
        holds,
        lambda: f"no layout of these sizes takes --batch {ctx.train_batch:g} in whole micro-batches; change it or -n",
    )


def few_layouts(ctx: EstimateContext, devices: int, broken: list[LegalityRule] | None = None) -> Iterator[Layout]:
    """Few of them, one by one; `broken` collects the rules that others break."""
    space, request = CoarseSpace(ctx.request, few=True), ctx.request
    common = PLAIN.layout(request, {"zero": 1 if request.zero is None else request.zero})
    settings, most = list(structures(space)), legality.most_zero(ctx, common)
    whole = chooses_whole_batches(ctx, space, devices)
    for split, rest in _sizes(ctx, space, devices):
        for sizes in product(*rest):
            layout = common.with_changes(**dict(zip(ORDER, (*map(float, split), *sizes), strict=True)))
            rule = legality.first_violation(ctx, layout, "train")
            if rule is None and whole and not (divided := divides_batch(ctx, layout)).holds:
                rule = divided
            highest = 1 if layout.replicas == 1 else max(most, 1)
            for one in settings if rule is None else ():
                if request.zero is not None or one.zero <= highest:
                    changes = {name: value for name, value in one.settings.items() if value is not None}
                    found = without_effect_removed(request, layout.with_changes(**changes))
                    rule = next((rule for rule in legality.launched(ctx, found, space.open) if not rule.holds), None)
                    if rule is None:
                        yield found
            if rule is not None and broken is not None:
                broken.append(rule)


def _sizes(
    ctx: EstimateContext, space: LayoutSpace, devices: int
) -> Iterator[tuple[tuple[int, int, int, int], tuple[list[float], ...]]]:
    """Every split of the devices into tp, pp, cp and dp; with each the expert groups, micro-batches and virtual stages that are tried."""
    experts = ctx.ledger.experts
    coarse = isinstance(space, CoarseSpace)
    for split in _splits(ctx, space, devices):
        tp, pp, _, dp = split
        groups = [e for e in divisors(dp) if all(x % e == 0 for x in experts)] if experts else [1]
        sizes = micro_batch_sizes(ctx, dp)
        chunks = virtual_stages(ctx, pp)
        if isinstance(space, CoarseSpace) and space.few:
            inside = [e for e in groups if e * tp <= scale_up_domain(ctx)]
            groups = sorted({1, max(inside, default=1), groups[-1]})
            # the fewest devices that fit a model fit it with one sequence
            largest = 1 if space.request.devices is None else max(FEW_MICRO_BATCH, int(FEW_TOKENS // ctx.seq))
            sizes, chunks = _one_per_octave(sizes, largest), [1]
        elif coarse:
            groups = sorted({1, *groups[::-2]})
            every = [size for size in sizes if size <= COARSE_MICRO_BATCH] if is_sparse(ctx, devices) else []
            octaves = _one_per_octave(sizes, max(COARSE_MICRO_BATCH, int(SHORT_TOKENS // ctx.seq)))
            sizes = sorted({*octaves, *every})
            even = divisors(max(round(ctx.ledger.n_layers / pp), 1))
            chunks = sorted({1, even[len(even) // 2], chunks[-1]})
        virtual = chunks if pp > 1 else [1]
        named = ("ep", groups), ("micro-batch", sizes), ("virtual-stages", virtual)
        yield split, tuple(_allowed(space, name, values) for name, values in named)


def virtual_stages(ctx: EstimateContext, pp: float) -> Sequence[int]:
    """Interleaved stages that are chosen: those of equal chunks, which every framework starts, where the stages split the layers; else up to all
    that leave each chunk a layer, the embedding or the loss."""
    layers = ctx.ledger.n_layers
    if ctx.request.stages is None and not layers % pp:
        return divisors(int(layers // pp))
    return range(1, max(int((layers + 2) // pp), 1) + 1)


def is_sparse(ctx: EstimateContext, devices: float) -> bool:
    """Whether a device has so few tokens of a step that its latencies decide."""
    return bool(ctx.train_batch * ctx.seq / devices < SPARSE_TOKENS)


def _one_per_octave(sizes: list[int], most: int) -> list[int]:
    """The least of `sizes` (ascending) from each power of two up to `most` on: of a batch that no power of two divides its next divisor."""
    at = (bisect_left(sizes, 2**i) for i in range(most.bit_length()))
    return sorted({sizes[i] for i in at if i < len(sizes)})


def _splits(ctx: EstimateContext, space: LayoutSpace, devices: int) -> Iterator[tuple[int, int, int, int]]:
    sizes = divisors(devices)
    tps: Sequence[int] = sizes
    cps: Sequence[int] = sizes
    if isinstance(space, CoarseSpace) and space.few:
        tps = [tp for tp in sizes if tp <= scale_up_domain(ctx) and divides_heads(ctx, tp)]
        long = space.request.devices is not None and ctx.seq >= 2 * FEW_TOKENS
        cps = [1, 2 ** int(math.log2(ctx.seq / FEW_TOKENS))] if long else [1]
    elif isinstance(space, CoarseSpace):
        tps = [tp for tp in sizes if tp <= COARSE_TP]
        least = SPARSE_CONTEXT if is_sparse(ctx, devices) else COARSE_TOKENS
        cps = [cp for cp in sizes if cp & (cp - 1) == 0 and (cp == 1 or ctx.seq / cp >= least)]
    for tp in _allowed(space, "tp", tps):
        for pp in _allowed(space, "pp", sizes):
            for cp in _allowed(space, "cp", cps):
                dp, rest = divmod(devices, int(tp * pp * cp))
                if not rest and dp >= 1 and _allowed(space, "dp", (dp,)):
                    yield int(tp), int(pp), int(cp), dp


def _allowed(space: LayoutSpace, name: str, values: Sequence[float]) -> list[float]:
    """Those of `values` that the question leaves open; what is given in addition to the split is itself the choice, for the rules to judge."""
    if name not in space.open:
        return [float(v) for v in values]
    given = space.open[name]
    if name in ("ep", "virtual-stages") or (isinstance(space, CoarseSpace) and name != "dp"):
        return [float(v) for v in given]
    if name == "micro-batch":
        return [float(v) for v in given if v <= max(values, default=0)]
    return [float(v) for v in values if v in given]


def micro_batch_sizes(ctx: EstimateContext, dp: Number) -> list[int]:
    """Sequences of a micro-batch that are tried: divisors of a replica's part of the batch; where that is no whole number or the batch is not given,
    powers of two too, whose last micro-batch is smaller."""
    share = max(math.floor(ctx.train_batch / dp), 1)
    partial = ctx.request.batch is None or ctx.train_batch % dp
    return sorted({*divisors(share), *(2**i for i in range(share.bit_length()) if partial)})


def without_effect_removed(request: Request, layout: Layout) -> Layout:
    """Without what has no effect where it is not asked for: sequence parallelism of one tensor rank, ZeRO of one replica."""
    changes = dict[str, object]()
    if request.sequence_parallel is None and layout.tp == 1:
        changes["sequence_parallel"] = False
    if request.zero is None and layout.replicas == 1:
        changes["zero"] = 0
    return layout.with_changes(**changes)


def placements(space: LayoutSpace) -> tuple[Any, ...]:
    """Orders of the axes to try: as given; every one where the network has tiers between hosts; else the usual one."""
    kinds = [level.kind for level in space.request.hardware.network]
    return space.open.get("placement", PLACEMENTS if kinds.count("fabric") > 1 else (None,))


def structures(space: LayoutSpace, sparse: bool = False) -> Iterator[DeviceSplit]:
    """ZeRO stage, recomputation, sequence parallelism, shard groups and order of the axes, plainest first: ties go to the first."""
    coarse = isinstance(space, CoarseSpace)
    few = isinstance(space, CoarseSpace) and space.few
    for recompute in space.open.get("recompute", CHOSEN[::2] if coarse else CHOSEN):
        for zero in space.open.get("zero", (1, 3) if few else (1, 2, 3) if coarse else (0, 1, 2, 3)):
            for parallel in space.open.get("sequence-parallel", (True,) if coarse and not sparse else (False, True)):
                for domains in DOMAINS if int(zero) == 3 and space.request.shard is None and not few else (0,):
                    for placement in placements(space)[: 1 if coarse else None]:
                        yield DeviceSplit(int(zero), str(recompute), bool(parallel), domains, placement)


def affected_axes(
    ctx: EstimateContext,
    found: LayoutArrays,
    space: LayoutSpace,
    structure: DeviceSplit,
    rejected: Counter[str] | None = None,
) -> np.ndarray:
    """Indices of the layouts for which this structure is not the same as a plainer one, and which the framework launches; `rejected` counts what
    it does not."""
    import numpy as np

    if structure.zero > 1 and structure.zero > legality.most_zero(ctx, structure.layout(ctx.request)):
        return np.zeros(0, dtype=int)
    keep = np.ones(len(found), dtype=bool)
    coarse = isinstance(space, CoarseSpace)  # has no plainer ones
    if "zero" not in space.open and structure.zero > coarse:
        keep &= found.sizes["dp"] * found.sizes["cp"] > 1
    if "sequence-parallel" not in space.open and structure.sequence_parallel and not coarse:
        keep &= found.sizes["tp"] > 1
    offered = placements(space)
    if structure.placement is not None and structure.placement != offered[0]:
        for other in offered[: offered.index(structure.placement)]:
            differ = np.zeros(len(found), dtype=bool)  # where they do not only move axes of one device
            for a, b in combinations(("cp", "dp", "pp"), 2):
                if (structure.placement.index(a) < structure.placement.index(b)) != (other.index(a) < other.index(b)):
                    differ |= (found.sizes[a] > 1) & (found.sizes[b] > 1)
            keep &= differ
    # where its groups split the replicas, otherwise than fewer domains do; a group holds every expert
    if structure.domains:
        sizes, group = found.sizes, groups(ctx, found, structure.domains)
        keep &= (group * sizes["cp"] % sizes["ep"] == 0) & (group > 1) & (group < sizes["dp"])
        if structure.domains > 1:
            keep &= group > groups(ctx, found, structure.domains - 1)
    kept = np.flatnonzero(keep)
    for rule in legality.launched(ctx, found.take(kept).laid(ctx, structure).plan(ctx.request), space.open):
        holds = np.broadcast_to(rule.holds, kept.shape)
        if rejected is not None:
            rejected[rule.name] += int((keep[kept] & ~holds).sum())
        keep[kept[~holds]] = False
    return np.flatnonzero(keep)


def groups(ctx: EstimateContext, found: LayoutArrays, domains: int) -> np.ndarray:
    """Replicas of a shard group of each layout."""
    import numpy as np

    _, first, at = np.unique(found.split, return_index=True, return_inverse=True)  # a split has one size of group
    tp, cp, dp = (found.sizes[name][first] for name in ("tp", "cp", "dp"))
    most = [shard_group(ctx, domains, *map(int, ranks)) for ranks in zip(tp * cp, dp, strict=True)]
    return np.array(most, dtype=np.float64)[at.reshape(-1)]


def shard_group(ctx: EstimateContext, domains: int, ranks: int, dp: int) -> int:
    """Replicas of a shard group: the largest divisor of dp that `domains` fast domains hold next to tensor and context ranks, 1 at least."""
    sizes = divisors(dp)
    room = extrapolation.scale_up_domain_sizes(ctx.chip)[0] * domains // ranks
    return sizes[max(bisect_right(sizes, room), 1) - 1]
