"""`roofline serving`: questions about the cost of tokens and what batching, beams, caches, pools and formats save."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import PlainLift
from rooflinecli.questions.calculator import Calculator, Values
from rooflinecli.specs.options import Group, Number, OptNumber, OptText, Text, field


# fmt: off
class ServerPrice(Group):
    """Price of a server and the fraction of time it is busy."""

    usd_per_hour: Number = field("usd_per_hour", "Price of all devices of the server.", symbol="price")
    utilization: Number = field("positive", "Fraction of time the server is busy, 0 to 1.", default=1.0, symbol="u", most=1, short="-u", metavar="SHARE", former=("utilisation",))


class TokenCost(ServerPrice, Calculator):
    """Dollars per million input and output tokens."""

    verb = "serving cost"
    version = 2
    tokens_per_s: OptNumber = field("tokens_per_s", "Output tokens per second.", default=None, symbol="R")
    prefill_tokens_per_s: OptNumber = field("tokens_per_s", "Prompt tokens per second.", default=None, symbol="R_p")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.serving.answer import token_cost

        return token_cost(self.usd_per_hour, self.utilization, self.tokens_per_s, self.prefill_tokens_per_s)


class BreakEven(ServerPrice, Calculator):
    """The batch at which a price per token pays for the hardware, and whether memory holds it."""

    verb = "serving break-even"
    price_per_million: Number = field("usd", "What a million output tokens sell for.", symbol="$", former=("usd-per-million",))
    tokens_per_s: Number = field("tokens_per_s", "Tokens per second of one sequence (batch 1).", symbol="r")
    model: OptText = field("name", "Model whose weights and KV cache must fit.", default=None)
    seq_len: OptNumber = field("tokens", "Tokens per sequence (8192).", default=None, symbol="S", former=("seq",))
    kv_per_token: OptNumber = field("bytes", "KV-cache bytes per token ('320 KiB').", default=None, symbol="b")
    dtype: Text = field("free", "Format of weights and cache.", default="bf16", metavar="FORMAT")
    hw: OptText = field("name", "Chip: a name, alias or YAML path. Gives the peak and the price.", default=None)
    devices: Number = field("positive", "Devices of the server.", default=1.0, symbol="n", short="-n", metavar="COUNT")
    device_memory: OptNumber = field("bytes", "Memory per device, instead of --hw ('80 GB').", default=None, symbol="M", former=("memory",))

    def check(self) -> None:
        if self.seq_len is not None and (self.model is None) == (self.kv_per_token is None):
            raise UsageError("--seq-len requires the cache per token; give --model or --kv-per-token")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.serving import answer

        cache = weights = room = None
        if self.seq_len is not None:
            each = self.device_memory if self.hw is None else answer.capacity(self.hw, lift)
            room = None if each is None else answer.size(self.devices, each)
            if self.model is None:
                cache = answer.size(self.seq_len, self.kv_per_token)
            else:
                cache, weights = answer.sequence_and_weights(self.model, float(self.seq_len), self.dtype, lift)
        return answer.break_even(self.usd_per_hour, self.price_per_million, self.utilization, self.tokens_per_s, cache, weights, room)

    def infeasible(self, values: Values) -> str:
        if values.get("feasible") is not False:
            return ""
        return (
            f"break-even takes {float(values['batch']):g} sequences and memory holds "
            f"{float(values['largest_batch']):g}; use more devices, shorter sequences or a narrower cache"
        )


class Batching(Calculator):
    """Static against continuous batching: the fraction of slots that do useful work."""

    verb = "serving batching"
    version = 2
    mean_output: OptNumber = field("tokens", "Mean output length in tokens.", default=None, symbol="o")
    max_output: OptNumber = field("tokens", "Longest output of a batch.", default=None, symbol="o_max")
    lengths: OptText = field("free", "Instead: the output lengths of a batch (100,200,500).", default=None, metavar="COUNTS")
    batch: OptNumber = field("positive", "Concurrent sequences, for the cache freed per step.", default=None, symbol="B", metavar="COUNT")
    prompt: OptNumber = field("tokens", "Prompt tokens, for the cache freed per step.", default=None, symbol="P")

    def check(self) -> None:
        if self.lengths is None and (self.mean_output is None or self.max_output is None):
            raise UsageError("give --mean-output and --max-output, or --lengths")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.serving.answer import static_batching
        from rooflinecli.specs.parse_values import number

        mean, longest = self.mean_output, self.max_output
        if self.lengths is not None:
            sizes = [number("--lengths", part, "amount") for part in self.lengths.split(",")]
            mean, longest = lift("o", sum(sizes) / len(sizes), "tokens", "--lengths"), lift("o_max", max(sizes), "tokens", "--lengths")
        return static_batching(mean, longest, self.batch, self.prompt)


class BeamSearch(Calculator):
    """Beam search: how it multiplies the decode batch and the KV cache."""

    verb = "serving beam"
    beams: Number = field("positive", "Beams per sequence.", symbol="k", short="-k", metavar="COUNT")
    batch: Number = field("positive", "Sequences.", default=1.0, symbol="B", metavar="COUNT")
    prompt: Number = field("tokens", "Prompt tokens.", default=0.0, symbol="P", least=0)
    output: Number = field("tokens", "Output tokens.", symbol="G")
    kv_per_token: OptNumber = field("bytes", "KV-cache bytes per token ('320 KiB').", default=None, symbol="b")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.serving.answer import beam_search

        return beam_search(self.batch, self.beams, self.prompt, self.output, self.kv_per_token)


class PrefixCaching(Calculator):
    """Prefix caching: prompt tokens, FLOPs and TTFT saved."""

    verb = "serving prefix-cache"
    requests: Number = field("positive", "Requests that share the prefix.", symbol="n", metavar="COUNT")
    prompt: Number = field("tokens", "Prompt tokens, prefix included.", symbol="P")
    shared: Number = field("tokens", "Tokens of the shared prefix.", symbol="P_s", least=0)
    hit_rate: Number = field("fraction", "Chance that the prefix is still cached, 0 to 1.", default=1.0, symbol="h")
    prefill_tokens_per_s: OptNumber = field("tokens_per_s", "Prefill rate, for TTFT.", default=None, symbol="R_p")
    params: OptNumber = field("params", "Parameters or a model's name, for the FLOPs.", default=None, symbol="N", short="-p")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.serving.answer import prefix_cache

        return prefix_cache(self.requests, self.prompt, self.shared, self.hit_rate, self.prefill_tokens_per_s, self.params)


class Disaggregation(Calculator):
    """Disaggregated serving: prefill servers per decode server, requests per second."""

    verb = "serving disaggregate"
    prefill: Number = field("seconds", "Prefill time of one prompt ('0.91 s').", symbol="t_p")
    step: Number = field("seconds", "Decode step time ('19 ms').", symbol="t_d")
    output: Number = field("tokens", "Output tokens per request.", symbol="G")
    batch: Number = field("positive", "Concurrent sequences of a decode server.", symbol="B", metavar="COUNT")
    devices: OptNumber = field("positive", "Devices of a decode server, for the rate per device.", default=None, symbol="n", short="-n", metavar="COUNT")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.questions.serving.answer import disaggregation

        return disaggregation(self.prefill, self.step, self.output, self.batch, self.devices)


class QuantizeWeights(Calculator):
    """Quantization: weight bytes, devices, sequences and memory-bound decode speed in two formats."""

    verb = "serving quantize"
    params: Number = field("params", "Parameters (70B), or a model's name.", symbol="N", short="-p")
    before: Text = field("free", "Number format before.", default="bf16", metavar="FORMAT", long="from")
    after: Text = field("free", "Number format after.", metavar="FORMAT", long="to")
    kv_per_sequence: OptNumber = field("bytes", "KV-cache bytes of a sequence ('2.68 GB').", default=None, symbol="b_kv")
    kv_after: OptNumber = field("bytes", "The same after, if the cache is quantized too.", default=None, symbol="b_kv'")
    hw: OptText = field("name", "Chip: a name, alias or YAML path. Gives the peak and the price.", default=None)
    device_memory: OptNumber = field("bytes", "Memory per device, instead of --hw ('16 GB').", default=None, symbol="M", former=("memory",))
    devices: OptNumber = field("positive", "Devices, for the sequences that fit.", default=None, symbol="n", short="-n", metavar="COUNT")

    def check(self) -> None:
        if self.before == self.after:
            raise UsageError(f"--from and --to are both {self.after}; give two formats")

    def compute(self, lift: PlainLift) -> Values:
        from rooflinecli.quantization.formats import size_of
        from rooflinecli.questions.serving import answer

        room = self.device_memory if self.hw is None else answer.capacity(self.hw, lift)
        old, new = ((name, lift("b", size_of(name), "B", f"bytes per element of {name}")) for name in (self.before, self.after))
        return answer.quantize(self.params, old, new, self.kv_per_sequence, self.kv_after, room, self.devices)
# fmt: on


QUESTIONS = (TokenCost, BreakEven, Batching, BeamSearch, PrefixCaching, Disaggregation, QuantizeWeights)
