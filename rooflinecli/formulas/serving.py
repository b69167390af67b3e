"""Latency and throughput of inference, what shares a batch, how many instances a demand needs, and what a simulated replica holds."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula
from rooflinecli.core.num import Number

_FIT = "fitted to serving runs, groups of runs held out; docs/accuracy.md"
_POPE = "Pope et al. 2022, Efficiently Scaling Transformer Inference"


OPEN_LOOP_ROUNDS = 8  # of the iteration of open_loop_itl, which contracts by the load


@formula("s_mid", "tokens", "the cache grows from prompt to prompt + output; the middle stands for the whole answer")
def mean_context(prompt: Number, output: Number) -> Number:
    """Context length of the decode step in the middle of an answer."""
    return prompt + output / 2


@formula("tok/s", "tokens/s", _POPE)
def decode_throughput(batch: Number, step_time: Number, replicas: Number) -> Number:
    """Output tokens per second of all replicas."""
    return batch * replicas / step_time


@formula(
    "tok/s",
    "tokens/s",
    "Little 1961: each of the sequences in flight takes its first token and an inter-token latency for every further one",
)
def closed_loop_throughput(batch: Number, output: Number, request: Number, replicas: Number) -> Number:
    """b S_o / t_request of all replicas."""
    return batch * output * replicas / request


@formula("tok/s", "tokens/s", "a pipeline works on as many prompts at once as it has stages, and every answer needs one")  # fmt: skip
def prompt_bound_throughput(output: Number, prompt_cost: Number, stages: Number, replicas: Number) -> Number:
    """Output tokens per second if replicas did nothing but prompts."""
    return stages * output * replicas / prompt_cost


@formula("tok/s/user", "tokens/s", "one over the inter-token latency")
def tokens_per_user(step_time: Number) -> Number:
    """Tokens per second one user sees."""
    return 1 / step_time


@formula("t_wait", "s", "the device waits where the host takes longer to start kernels than it to run them; docs/energy.md")  # fmt: skip
def launch_bound_wait(
    matmuls: Number, per_matmul: Number, exchanges: Number, per_exchange: Number, computed: Number
) -> Number:
    """Seconds that a device idles for a host that starts the kernels of a pass: around its matmuls, and steps of ring attention."""
    return num.maximum(matmuls * per_matmul + exchanges * per_exchange - computed, 0.0)


@formula("t_ae", "s", "the autoencoder makes an image of each latent, on one device; docs/energy.md")
def autoencoder_time(images: Number, pixels: Number, pixel_flops: Number, peak: Number) -> Number:
    """Seconds to make pixels of the latents of all images."""
    return images * pixels * pixel_flops / peak


@formula("img/s", "1/s", "definition")
def images_per_second(tokens_per_s: Number, tokens: Number) -> Number:
    """Images made in a second, from the tokens of each."""
    return tokens_per_s / tokens


@formula("tok/s", "tokens/s", _POPE)
def prefill_throughput(sequences: Number, prompt: Number, seconds: Number, replicas: Number) -> Number:
    """Prompt tokens per second of all replicas."""
    return sequences * prompt * replicas / seconds


@formula("t_answer", "s", "time to first token plus an inter-token latency for each further token")
def e2e_latency(ttft: Number, itl: Number, output: Number) -> Number:
    """Latency of a whole answer."""
    return ttft + num.maximum(output - 1, 0) * itl


@formula("t_over", "s", "kernel starts per layer; " + _FIT)
def layer_overhead(layers: Number, per_layer: Number, moe_layers: Number, per_moe_layer: Number) -> Number:
    """Time of starting the kernels of a pass, neither FLOPs nor bytes."""
    return layers * per_layer + moe_layers * per_moe_layer


@formula(
    "t_start",
    "s",
    "no graph is replayed for a step that holds a prompt; read off idle prefills of TensorRT-LLM's C++ runtime, of layers of experts off "
    "first tokens of collected runs",
)
def uncaptured_launch_time(layers: Number, per_layer: Number, moe_layers: Number, per_moe_layer: Number) -> Number:
    """Time to launch the kernels of a prefill one by one, beyond that of a replayed CUDA graph."""
    return layers * per_layer + moe_layers * per_moe_layer


@formula("t_engine", "s", "scheduling and sampling of one engine step; " + _FIT)
def engine_overhead(per_step: Number, batch: Number, per_sequence: Number) -> Number:
    """Time an engine spends between passes."""
    return per_step + batch * per_sequence


@formula(
    "t_wait",
    "s",
    "closed loop: each of the other sequences brings one new prompt every `output` steps, and its pass delays every step's "
    "share; the same for chunked and unchunked prefill; " + _FIT,
)
def prefill_interference(batch: Number, output: Number, prompt_cost: Number) -> Number:
    """(b - 1) / S_o x t_pre: what other sequences' prompts add to an inter-token latency."""
    return num.maximum(batch - 1, 0) / num.maximum(output, 1) * prompt_cost


@formula("S_new", "tokens", "prefix caching: what is in the cache is not read again, but for the last token, whose logits are wanted")  # fmt: skip
def uncached_tokens(prompt: Number, hit: Number) -> Number:
    """Prompt tokens that a pass still computes."""
    return num.maximum(prompt * (1 - hit), 1)


@formula(
    "S_pad",
    "tokens",
    "a compiled graph has the shapes of a power of two: github.com/aws-neuron/transformers-neuronx@0623de2:src/transformers_neuronx/bucket.py, "
    "github.com/AI-Hypercomputer/JetStream@acd4f5a:jetstream/engine/token_utils.py",
)
def padded_prompt(tokens: Number, least: Number) -> Number:
    """least 2^ceil(log2(S / least)), and no less than `least`: tokens that a prompt is padded to."""
    return least * 2 ** num.maximum(num.ceil(num.log(tokens / least) / 0.6931471805599453 - 1e-9), 0)


@formula("S_pad", "tokens", "lengths of a load are uniform around the one given, and within a factor of two there is one power of two at most")  # fmt: skip
def mean_padded_prompt(tokens: Number, variation: Number, shorter: Number, longer: Number) -> Number:
    """p S_1 + (1 - p) S_2, p = (S_1 - (1 - v) S) / 2 v S at most 1: tokens that prompts of (1 - v) S to (1 + v) S, padded to S_1 or to S_2, come to in the mean."""
    share = (shorter - (1 - variation) * tokens) / num.maximum(2 * variation * tokens, 1e-9)
    return longer + num.minimum(share, 1) * (shorter - longer)


@formula("m", "prompts", "what fits into the tokens that one step takes in; at least one")
def prompts_per_pass(budget: Number, prompt: Number) -> Number:
    """Prompts that one pass takes in."""
    return num.maximum(num.floor(budget / prompt), 1)


@formula("n_c", "passes", "chunked prefill: Agrawal et al. 2023, SARATHI; a prompt beyond a step's budget takes several steps")  # fmt: skip
def prompt_passes(budget: Number, prompt: Number) -> Number:
    """Passes that one prompt takes."""
    return num.maximum(num.ceil(prompt / budget), 1)


@formula("n_at", "1", "a pipeline of n stages takes m + n - 1 slots for m pieces; Huang et al. 2019, GPipe")
def pieces_at_once(pieces: Number, stages: Number) -> Number:
    """Pieces of a prompt under way in the mean: m n / (m + n - 1)."""
    return pieces * stages / (pieces + stages - 1)


@formula(
    "t_itl",
    "s",
    "open loop: decode steps get the time that prompts leave; a step that meets an arrival is not replayed as a graph and starts its kernels",
)
def open_loop_itl(step: Number, load: Number, rate: Number = 0.0, starts: Number = 0.0) -> Number:
    """t = (step + (1 - e^(-r t)) o_p) / (1 - u), solved by iteration."""
    itl = step / (1 - load)
    if num.present(starts):
        for _ in range(OPEN_LOOP_ROUNDS):
            itl = (step + (1 - num.E ** (-rate * itl)) * starts) / (1 - load)
    return itl


@formula("P_busy", "1", "sequences that decode are Poisson when arrivals are: one minus the chance of none (M/G/inf)")
def busy_probability(in_flight: Number, output: Number) -> Number:
    """1 - e^(-b (1 - 1 / S_o)): chance that an arrival finds others decoding."""
    return 1 - num.E ** (-in_flight * (1 - 1 / num.maximum(output, 1)))


@formula("b", "sequences", "Little 1961: requests in flight are rate times the time each takes")
def sequences_in_flight(rate: Number, output: Number, itl: Number) -> Number:
    """Sequences decoding at once at a request rate."""
    return rate * output * itl


@formula("M_res", "B", "gathered tokens of an expert group need room of their own, read off runs at the limit of memory")  # fmt: skip
def reserve_with_gathered_tokens(reserve: Number, gathered: Number, ep: Number) -> Number:
    """Reserved memory per device, with that for gathered tokens where experts are on several replicas."""
    return reserve + gathered * num.minimum(ep - 1, 1)


@formula("M_res", "B", "14 GB of the 80 GB devices of the fitted runs, in proportion on smaller ones")
def bounded_reserve(reserve: Number, capacity: Number) -> Number:
    """Reserved memory per device: at most a sixth of it."""
    return num.minimum(reserve, capacity / 6)


@formula("M_kv", "B", "vLLM gpu_memory_utilization, SGLang mem_fraction_static: a share of all memory")
def room_within_share(capacity: Number, share: Number, weights: Number, reserve: Number) -> Number:
    """Bytes for the KV cache where weights, reserve and cache together have a share of memory; negative where there are none."""
    return capacity * share - weights - reserve


@formula("M_kv", "B", "TensorRT-LLM free_gpu_memory_fraction: a share of what weights and activations leave")
def room_of_free(capacity: Number, weights: Number, reserve: Number, share: Number) -> Number:
    """Bytes for the KV cache where it has a share of what is left of memory; negative where nothing is."""
    return (capacity - weights - reserve) * share


@formula("b_max", "sequences", "what an engine turns into cache, over the cache of one whole sequence")
def sequences_in_room(room: Number, kv_per_sequence: Number) -> Number:
    """Most sequences a replica can decode at once."""
    return num.maximum(num.floor(room / kv_per_sequence), 0)


@formula(
    "s_held",
    "tokens",
    "pages are taken as tokens come, and requests are at random places of their answers: Kwon et al. 2023, PagedAttention; an engine sets a share "
    "of what is still to be written aside, all of it where it never evicts",
)
def held_tokens(prompt: Number, output: Number, reserve: Number) -> Number:
    """S_p + (1 + phi) S_o / 2: cache of a running sequence and what is set aside for it, in the mean."""
    return prompt + (1 + reserve) * output / 2


_EVICTED = "shape by hand, constants by simulations of 30 full caches (docs/simulate.md)"


@formula("u_full", "1", "lengths and ages differ, so that a cache fills before the mean says so; what is set aside keeps others out; " + _EVICTED)  # fmt: skip
def eviction_pressure(sequences: Number, fitting: Number, reserve: Number) -> Number:
    """min(max((b / b_held - 0.85) / 0.4, 0), 1) max(1 - 8 phi, 0): 0 where nothing is evicted, 1 where requests always wait for pages."""
    full = num.minimum(num.maximum((sequences / num.maximum(fitting, 1) - 0.85) / 0.4, 0), 1)
    return full * num.maximum(1 - 8 * reserve, 0)


@formula("x_again", "1", "what an answer frees is filled with prompts at once, and the S_o - 1 tokens written until the next one ends push as much out, to be computed again; " + _EVICTED)  # fmt: skip
def prompts_computed(pressure: Number, prompt: Number, output: Number) -> Number:
    """1 + 0.85 u (S_o - 1) / S_p: prompts computed for each request; the last token of an answer is never cached."""
    return 1 + 0.85 * pressure * num.maximum(output - 1, 0) / num.maximum(prompt, 1)


@formula("x_out", "1", "the longer answers are beside prompts, the more sequences wait for their pages again; " + _EVICTED)  # fmt: skip
def evicted_sequences(pressure: Number, prompt: Number, output: Number) -> Number:
    """u (S_o - 1) / (16 S_p + S_o / 2): sequences that were evicted and wait, for each that runs."""
    return pressure * num.maximum(output - 1, 0) / (16 * num.maximum(prompt, 1) + output / 2)


@formula("t_beside", "s", "SGLang, Large-scale expert parallelism (lmsys.org, 2025-05): kernels that send keep some of the chip's units")  # fmt: skip
def slowdown_by_comm_kernels(work: Number, share: Number) -> Number:
    """work / (1 - share): work on the SMs that communication kernels leave."""
    return work / (1 - share)


@formula("t_exposed", "s", "two batches take turns on the chip and on its links, neither perfectly hidden: a norm of the two, p = 2")  # fmt: skip
def exposed_all2all_time(work: Number, sent: Number) -> Number:
    """sqrt(work^2 + sent^2) - work: exposed time of an all-to-all that overlaps work."""
    return num.sqrt(work * work + sent * sent) - work


@formula("n_kv", "tokens", "what an engine turns into cache, over the cache of a token of a sequence of mean length")
def pool_tokens(room: Number, kv_per_sequence: Number, length: Number) -> Number:
    """Tokens in the KV pool of a replica."""
    return num.maximum(room, 0) / num.maximum(kv_per_sequence, 1) * length


@formula("goodput", "1/s", "requests that keep to every limit, over the time they took; Zhong et al. 2024, DistServe")
def goodput(inside: Number, seconds: Number) -> Number:
    """Requests per second inside the SLO."""
    return inside / seconds


_LITTLE = "Little 1961: requests in flight are rate times the time each takes"


@formula("r", "requests/s", _LITTLE)
def request_rate(tokens_per_s: Number, tokens: Number) -> Number:
    """Requests per second of an instance from the tokens per second that it handles."""
    return tokens_per_s / num.maximum(tokens, 1)


@formula("n_i", "instances", "definition; the small slack keeps an exact multiple from rounding up")
def instances_for_rate(rate: Number, per_instance: Number) -> Number:
    """Fewest instances that carry a request rate."""
    return num.maximum(num.ceil(rate / per_instance * (1 - 1e-12)), 1)


@formula("n_i", "instances", "definition")
def whole_instances(devices: Number, per_instance: Number) -> Number:
    """Instances that a number of devices can hold."""
    return num.floor(devices / per_instance)


@formula("r", "requests/s", "every request passes both pools; the slower one sets the rate")
def pooled_rate(
    prefill_instances: Number, prefill_rate: Number, decode_instances: Number, decode_rate: Number
) -> Number:
    """Requests per second of a prefill and a decode pool together."""
    return num.minimum(prefill_instances * prefill_rate, decode_instances * decode_rate)


@formula("b_n", "sequences", "definition")
def total_batch(per_replica: Number, replicas: Number, instances: Number) -> Number:
    """Sequences under way on all instances together."""
    return per_replica * replicas * instances
