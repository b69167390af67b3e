"""First tokens of a closed loop: slots that send a request as soon as the one before it has ended."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import formula, label, solved_value
from rooflinecli.core.num import Number

_FIT = "front end and streams fitted to serving runs, groups of runs held out; docs/accuracy.md"
ENDLESS = 1e200  # of numbers that grow as factorials do
ROUNDS = 16  # of the iteration of wait_for_passes, which contracts by less than the load


@formula(
    "t_mixed",
    "s",
    "a step with prompts and decodes is the pass of both, one after the other: measured runs took 8 % longer between two tokens "
    "than one shared pass would; what no graph replays takes no less than launching it",
)
def mixed_step(decode: Number, prompts: Number, factor: Number, launches: Number, passes: Number) -> Number:
    """max(n_c t_decode + f t_prompts, n_c t_launch)."""
    return num.maximum(passes * decode + factor * prompts, passes * launches)


@formula("p_g", "1", "lengths of a load are uniform around the one given; a captured graph holds the shorter prompts alone, and not two long ones")  # fmt: skip
def share_that_fits(prompt: Number, room: Number, variation: float, others: Number) -> Number:
    """Share of prompts uniform in [(1 - v) S, (1 + v) S] of at most `room` tokens; of those that are more than half of it, alone: e^-a."""
    spread = num.maximum(2 * variation * prompt, 1e-9)
    share = num.minimum(num.maximum((room - prompt) / spread + num.where(variation > 0, 0.5, 1.0), 0), 1)
    return share * num.where(2 * prompt > room, num.E ** (-others), 1.0)


@formula("b_pad", "sequences", "a captured graph has one batch: fewer sequences are padded up to the next one captured")
def padded_batch(batch: Number, size: Number, beyond: Number) -> Number:
    """`size` where it holds the batch, else `beyond`, what the batches captured above it come to."""
    return num.where(batch <= size, size, beyond)


@formula(
    "u_p",
    "1",
    "every sequence brings a prompt for each answer, and as many share a step as its tokens hold; no graph is replayed for such a step",
)
def mixed_step_fraction(batch: Number, prompt: Number, output: Number, budget: Number) -> Number:
    """min(b S_p / (T S_o), 1): fraction of steps with a prompt."""
    return num.minimum(batch * prompt / (budget * num.maximum(output, 1)), 1)


@formula("t_pad", "s", "ranks that exchange tokens replay a step when none of them holds a prompt")
def padding_time(padded: Number, plain: Number, share: Number, ranks: Number) -> Number:
    """(1 - u_p)^r max(t(b_pad) - t(b), 0): what padding adds to a step in the mean."""
    return (1 - share) ** ranks * num.maximum(padded - plain, 0)


@formula(
    "n_held",
    "steps",
    "TensorRT-LLM, batch_wait_timeout_iters and batch_wait_max_tokens_ratio: prompts wait a number of steps, or until they fill a share of the budget",
)
def held_steps(most: Number, share: Number, budget: Number, batch: Number, prompt: Number, arrivals: Number) -> Number:
    """Steps from the first waiting prompt to its prefill: min(n_hold, ((phi T - b) / S_p - 1) / a)."""
    return num.minimum(most, num.maximum((share * budget - batch) / prompt - 1, 0) / arrivals)


@formula("n_wait", "steps", "the first of the waiting prompts waits for all of it, the others, which arrive evenly, for half")  # fmt: skip
def mean_hold(held: Number, arrivals: Number) -> Number:
    """n_held (k + 1) / 2k of the k = 1 + a n_held prompts that come together."""
    together = 1 + arrivals * held
    return held * (together + 1) / (2 * together)


@formula("a", "1", "a slot brings one prompt for every answer that ends")
def arrivals_per_step(batch: Number, output: Number) -> Number:
    """Prompts that come during a step: b / S_o."""
    return batch / num.maximum(output, 1)


@formula("n_with", "prompts", "definition: whoever came since the scheduler last looked is read in the same pass")
def prompts_per_mixed_step(arrivals: Number, held: Number, poll: Number) -> Number:
    """Prompts of others in the pass of one: a max(n_held, n_poll)."""
    return arrivals * num.maximum(held, poll)


@formula(
    "t_burst",
    "s",
    "all slots ask at once when a closed loop begins: pass after pass, the mean first token in the middle; from the second on "
    "the sequences read before decode meanwhile",
)
def burst_ttft(batch: Number, per_pass: Number, first: Number, later: Number) -> Number:
    """t_first + (ceil(b / m) - 1) / 2 t_later."""
    return first + (num.ceil(batch / per_pass) - 1) / 2 * later


@formula(
    "t_turn",
    "s",
    "a request that follows another: steps until the scheduler sees it, then a step that holds its prompt, and half of the "
    "chance that another's is in front; an event-by-event simulation agrees within 4 to 8 %",
)
def turn_ttft(wait: Number, poll: Number, ahead: Number, itl: Number, mixed: Number, load: Number) -> Number:
    """(n_wait + n_poll / 2 + n_ahead) ITL + t_mixed (1 + u / 2)."""
    return (wait + poll / 2 + ahead) * itl + mixed * (1 + load / 2)


@formula("x_q", "1", "definition: an engine runs no more sequences at once, and the other requests in flight wait for one to end")  # fmt: skip
def requests_per_slot(clients: Number, most: Number) -> Number:
    """max(b_c / b_run, 1): requests in flight for each that runs."""
    return num.maximum(clients / most, 1)


@formula(
    "t_ttft",
    "s",
    "Little 1961: of x requests in flight for each that runs, one is answered in t_first + (S_o - 1) ITL; in the burst at the start those at the "
    "end of the queue wait as long as in the steady state, those in front not at all; no shorter than without a queue",
)
def queued_ttft(per_slot: Number, first: Number, written: Number, per_client: Number, alone: Number) -> Number:
    """max(t_ttft, t_first + (x - 1) (1 - 1 / 2 N_w) (t_first + t_written))."""
    return num.maximum(alone, first + (per_slot - 1) * (1 - 0.5 / per_client) * (first + written))


@formula(
    "P_full",
    "1",
    "Erlang 1917, with requests that take longer the more run at once: a birth-death chain whose departures are k / t_k",
)
def all_slots_taken(rate: Number, slots: Number, alone: Number, full: Number) -> Number:
    """1 / (1 + (1 - u) (B - 1)), u = r t_m / m: chance that an arrival finds m slots taken; B = 1 + (k / r t_k) B over k to m, t_k a line from t_1 to t_m."""
    r, m, first, last = map(num.value, (rate, slots, alone, full))
    below: Number = 1.0  # chances of up to k over that of k
    for k in range(1, int(m if num.plain(m) else m.max()) + 1):
        seconds = last - (last - first) * ((m - k) / num.maximum(m - 1, 1))
        below = num.where(k <= m, num.minimum(1 + below * (k / (r * seconds)), ENDLESS), below)
    free = 1 - num.minimum(r * last / m, 1 - 1e-6)
    return solved_value(1 / (1 + free * (below - 1)), rate, "P_full", "1", "1 / (1 + (1 - u) (B - 1))")


@formula(
    "t_slot",
    "s",
    "wait of all arrivals for one of m slots: those of M/M/m and M/D/m, Cosmetatos 1976, An approximation formula for the multiserver queue M/G/r, "
    "weighted by the variance of the times of requests",
)
def wait_for_slot(taken: Number, slots: Number, request: Number, load: Number, variation: Number) -> Number:
    """P_full t_m / (m (1 - u)) (c + (1 - c) (1 + (1 - u) (m - 1) (sqrt(4 + 5 m) - 2) / (16 u m)) / 2), c = v^2 / 3 of times uniform in 1 - v to 1 + v."""
    u = num.minimum(load, 1 - 1e-6)
    constant = (1 + (1 - u) * (slots - 1) * (num.sqrt(4 + 5 * slots) - 2) / (16 * u * slots)) / 2
    spread = variation**2 / 3
    return taken * request / (slots * (1 - u)) * (spread + (1 - spread) * constant)


@formula("t_queue", "s", "wait in an M/D/1 queue: Pollaczek and Khinchine")
def queue_for_prefill(load: Number, service: Number) -> Number:
    """u t / (2 (1 - u))."""
    return load * service / (2 * (1 - load))


@formula("u", "1", "the M/D/1 queue solved for its load")
def load_within(wait: Number, service: Number) -> Number:
    """2 t_wait / (t + 2 t_wait): the load at which the mean wait is that long."""
    return 2 * wait / (service + 2 * wait)


@formula(
    "t_queue",
    "s",
    "no sequence decodes: whoever arrives during a pass of prompts is read in the next one, together with all others who did (gated service)",
)
def wait_for_passes(rate: Number, alone: Number, further: Number) -> Number:
    """U (1/2 + r t_pre) (t + v / t): t = t_pass + (q + r t - 1) t_pre is the mean pass, q = e^(-r t) the chance that no request came during it,
    v = t_pre^2 (q (1 - q) + r t (1 - 2 q)) / (1 - (r t_pre)^2) its variance, U = t / (t + q / r) the fraction of time that passes take."""
    r, first, each = num.value(rate), num.value(alone), num.value(further)
    solved = first
    for _ in range(ROUNDS):
        solved = first + each * (num.E ** (-r * solved) + r * solved - 1)
    mean = solved_value(solved, alone, "t", "s", "t = t_pass + (q + r t - 1) t_pre")
    idle = label(num.E ** (-rate * mean), "q", "1")
    came = rate * mean
    variance = further**2 * (idle * (1 - idle) + came * (1 - 2 * idle)) / (1 - num.minimum(rate * further, 0.99) ** 2)
    return mean / (mean + idle / rate) * (0.5 + rate * further) * (mean + variance / mean)


@formula(
    "t_ttft",
    "s",
    "open loop: an arrival that finds others decoding takes its turn as a client of a closed loop does, behind the queue of prompts, and waits "
    "for messages of more tokens; one that finds none waits for passes of prompts alone; then the front end; one that finds all slots taken is read where another ends",
)
def open_loop_ttft(
    alone: Number, busy: Number, turn: Number, idle: Number, late: Number, front: Number, taken: Number, entered: Number
) -> Number:
    """t_pass + (P_busy - P_full) max(t_turn - t_pass, 0) + P_full (t_first - t_pass) + P_busy t_late + (1 - P_busy) t_queue + o_f."""
    busy = num.maximum(busy, taken)
    turns = (busy - taken) * num.maximum(turn - alone, 0) + taken * (entered - alone)
    return alone + turns + busy * late + (1 - busy) * idle + front


@formula("t_streams", "s", "Little 1961: requests in flight are rate times the time each takes, which this makes longer")  # fmt: skip
def stream_time(per_stream: Number, rate: Number, request: Number) -> Number:
    """o_c (1 + r t_request) / (1 - r o_c): what the front end adds for each stream in flight, and for the request's own."""
    return per_stream * (1 + rate * request) / num.maximum(1 - rate * per_stream, 1e-3)


@formula("o_f", "s", "a server's own work on a request before its scheduler sees it; tokenizing goes with the prompt")
def front_time(front: Number, per_token: Number, prompt: Number) -> Number:
    """o + o_t S_p."""
    return front + per_token * prompt


@formula(
    "t_ttft",
    "s",
    "closed loop: of N_w prompts per slot one is part of the burst at the start, the others take their turn; messages that wait "
    "for more tokens, front end and streams in addition; " + _FIT,
)
def closed_loop_ttft(
    burst: Number, turn: Number, per_slot: Number, late: Number, front: Number, per_stream: Number, batch: Number
) -> Number:
    """t_burst / N_w + (1 - 1 / N_w) t_turn + t_late + o_f + o_c b."""
    return burst / per_slot + (1 - 1 / per_slot) * turn + late + front + per_stream * batch


@formula("t_ttft", "s", "a replica can serve its requests one after the other; whatever waits waits no longer (but for the last digits)")  # fmt: skip
def serial_ttft(batch: Number, request: Number, output: Number, itl: Number) -> Number:
    """b t_request - (S_o - 1) ITL: the first token of a request whose whole time is that of b requests alone."""
    return batch * request * (1 + 1e-12) - num.maximum(output - 1, 0) * itl
