"""A training step: duration, utilization, optimizer and communication."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_PALM = "Chowdhery et al. 2022, PaLM, appendix B"


@formula("MFU", "1", _PALM)
def model_flops_utilization(model_flops: Number, seconds: Number, devices: Number, peak: Number) -> Number:
    """Model FLOPs per second over the peak of all devices; recomputation does not count."""
    return model_flops / (seconds * devices * peak)


@formula("HFU", "1", _PALM)
def hardware_flops_utilization(hardware_flops: Number, seconds: Number, devices: Number, peak: Number) -> Number:
    """FLOPs executed per second, recomputation included, over the peak of all devices."""
    return hardware_flops / (seconds * devices * peak)


@formula("MBU", "1", "achieved over peak memory bandwidth; Databricks 2023, LLM Inference Performance Engineering")
def memory_bandwidth_utilization(bytes_moved: Number, seconds: Number, bandwidth: Number) -> Number:
    """Bytes a step must move per second over peak bandwidth."""
    return bytes_moved / (seconds * bandwidth)


@formula("n_step", "steps", "definition")
def training_steps(tokens: Number, batch: Number, seq: Number) -> Number:
    """Optimizer steps to see a number of tokens."""
    return num.ceil(tokens / (batch * seq))


@formula(
    "t_step",
    "s",
    "every microbatch on the slowest stage, the bubble, then what data parallelism and the optimizer leave exposed; "
    "Narayanan et al. 2021; stragglers grow with log2 of the nodes (fitted, docs/accuracy.md)",
)
def training_step(
    microbatches: Number,
    stage_time: Number,
    bubble: Number,
    exposed_dp: Number,
    optimizer: Number,
    straggle: Number,
    floor: Number,
) -> Number:
    """Time of one optimizer step, never below its floor."""
    return num.maximum((microbatches * stage_time + bubble + exposed_dp + optimizer) * straggle, floor)


@formula("b", "sequences", "half a sequence cannot be trained on; at least one is")
def batch_sequences(tokens: Number, seq: Number) -> Number:
    """The number of whole sequences nearest to a batch given in tokens."""
    return num.maximum(num.floor(tokens / seq + 0.5), 1)


@formula("s", "1", "fitted to published multi-node runs; docs/accuracy.md")
def straggler_factor(per_doubling: Number, nodes: Number, per_domain: Number, domains: Number) -> Number:
    """1 + sigma log2(nodes) + sigma_d log2(domains)."""
    return 1 + (per_doubling * num.log(nodes) + per_domain * num.log(domains)) / 0.6931471805599453


@formula("r", "1", "80% of published steps of families left out of the fit, in logarithms; parts independent; docs/accuracy.md")  # fmt: skip
def step_error(base: Number, experts: Number, hidden: Number, exposed: Number, extrapolation: Number = 0.0) -> Number:
    """sqrt(base^2 + experts^2 + hidden^2 + exposed^2 + extrapolation^2)."""
    return num.sqrt(base**2 + experts**2 + hidden**2 + exposed**2 + extrapolation**2)


@formula("x", "1", "how far a size goes beyond what published runs did: none up to their limit, all of the way at the end")  # fmt: skip
def beyond(size: Number, limit: Number, end: Number) -> Number:
    """min(max((size - limit)/(end - limit), 0), 1)."""
    return num.minimum(num.maximum((size - limit) / (end - limit), 0.0), 1.0)


def extrapolation_error(*errors: Number) -> Number:
    """sqrt(sum of r_k^2): kinds of extrapolation taken as independent."""
    total: Number = 0.0
    for error in errors:
        total = total + error**2
    return num.sqrt(total)


@formula("r", "1", "the more of a step is communication, the less is known of it; hidden beyond 1.5 steps tells no more")  # fmt: skip
def communication_error(error: Number, seconds: Number, step: Number) -> Number:
    """error min(t/t_step, 1.5)."""
    return error * num.minimum(seconds / step, 1.5)


@formula(
    "B_loss",
    "B",
    "cross-entropy in fp32: logits widened, log-softmax, its gradient, narrowed again; counted, each step read and written once",
)
def loss_traffic(logits: Number, x_bytes: Number) -> Number:
    """Bytes the loss over a number of logits moves, forward and backward."""
    return logits * (2 * (x_bytes + 4) + 2 * (4 + 4))


@formula("b_opt", "B", "state read and written, gradient read, working copy written, and the framework's own passes")
def optimizer_bytes_per_parameter(state: Number, gradient: Number, weight: Number, passes: Number) -> Number:
    """Bytes an optimizer step moves per parameter."""
    return 2 * state + gradient + weight + passes


@formula("F_NS", "FLOP", "Jordan et al. 2024, Muon: X <- aX + (bA + cA^2) X with A = X X^T, on the shorter side m of an m x n momentum")  # fmt: skip
def newton_schulz_flops(short: Number, long: Number, steps: Number) -> Number:
    """steps (4 n m^2 + 2 m^3): what orthogonalizing one matrix multiplies."""
    return steps * (4 * long * short * short + 2 * short * short * short)


@formula(
    "F_L",
    "FLOP",
    "Gupta et al. 2018, Shampoo, and Vyas et al. 2024, SOAP: statistics, preconditioning and changes of basis are products with a square "
    "factor of the side; roots and bases are renewed every few steps, at the rate of a matmul",
)
def preconditioning_flops(
    side: Number, other: Number, widest: Number, products: Number, roots: Number, blocked: Number
) -> Number:
    """2 products s^2 t + roots s^3 for one side s of an s x t matrix: of a side that is short enough, or of each of its blocks."""
    blocks = num.ceil(side / widest) * num.ceil(other / widest)
    short, across = num.minimum(side, widest), num.minimum(other, widest)
    parts = (2 * products * short**2 * across + roots * short**3) * blocks
    whole = num.where(side > widest, 0.0, 2 * products * side**2 * other + roots * side**3)
    return num.where(blocked > 0, parts, whole)


@formula("t_offload", "s", "gradients go down and new weights come up the host link; Rajbhandari et al. 2021, ZeRO-Infinity")  # fmt: skip
def offload_transfer(params: Number, gradient_bytes: Number, weight_bytes: Number, link: Number) -> Number:
    """Time to move gradients to the host and weights back."""
    return params * (gradient_bytes + weight_bytes) / link


@formula("t_swap", "s", "what a layer keeps goes down the host link forward and comes back up for backward; Rhu et al. 2016, vDNN")  # fmt: skip
def activation_transfer(activations: Number, link: Number) -> Number:
    """Time to send activations to the host and fetch them again."""
    return 2 * activations / link


@formula(
    "W_host",
    "B/s",
    "where a chip file gives no host_memory: as a DGX H100, 76.8 GB/s of DDR5 per device and a link of 63 GB/s; links and memory "
    "double together from one generation of hosts to the next",
)
def default_host_memory_bandwidth(link: Number) -> Number:
    """76.8/63 N: bandwidth of the host's memory that falls to a device whose host link is known alone."""
    return link * (76.8 / 63)
