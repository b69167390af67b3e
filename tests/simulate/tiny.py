"""A second scheduler, written for the tests: one step at a time, one dict a sequence, no tables, no strides.

It shares nothing with rooflinecli/simulate, and takes the price of every step from whoever asks: the engine itself, or a formula.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rooflinecli.engine.forward_step import forward_step


@dataclass
class Engine:
    """Prices of steps as the engine works them out."""

    ctx: object
    plan: object

    def _step(self, batch, queries, keys, decode):
        return forward_step(self.ctx, self.plan, float(batch), float(queries), float(keys), decode=decode)

    def decode(self, batch, keys):
        return self._step(batch, 1, keys, True).seconds

    def bare(self, tokens):
        if not tokens:
            return 0.0
        step = self._step(1, tokens, tokens, False)
        return step.seconds - step.costs.groups["attention"]

    def scores(self, tokens):
        return self._step(1, tokens, tokens, False).costs.groups["attention"] if tokens else 0.0


class Formula:
    """Prices by hand, linear in what decodes: a stride of decode steps is then exactly the sum of its steps."""

    def decode(self, batch, keys):
        return 5e-3 + 1e-5 * batch + 2e-8 * batch * keys

    def bare(self, tokens):
        return 2e-3 + 1e-5 * tokens if tokens else 0.0

    def scores(self, tokens):
        return 1e-9 * tokens**2


@dataclass
class Run:
    """By request when it left the queue, had its first token sent and ended, and how often it was preempted; sums over the steps."""

    queued: list = field(default_factory=list)
    first: list = field(default_factory=list)
    finish: list = field(default_factory=list)
    preempted: list = field(default_factory=list)
    busy: float = 0.0
    area: float = 0.0  # sequences times seconds
    prompt_tokens: int = 0
    steps: int = 0
    most_batch: int = 0
    most_tokens: int = 0


def simulate(price, requests, budget, pool, block, most, policy="vllm", mixed=False, poll=1, ahead=False, stream=1, hold=(0, 0.0), reserve=0.0, factor=1.0, graph=0):  # fmt: skip
    """requests: (arrival, prompt, output), in order of arrival. Arrivals are seen at the start of a step, or of the one before it (`ahead`)."""
    run = Run(*([None] * len(requests) for _ in range(3)), [0] * len(requests))
    now = decided = 0.0
    coming = [
        {"id": i, "at": at, "prompt": prompt, "need": prompt, "left": output, "output": output, "done": 0}
        for i, (at, prompt, output) in enumerate(requests)
    ]
    queue, filling, decoding, held = [], [], [], 0  # decoding: in the order in which they joined

    def used():
        return sum(s["need"] + 1 + s.get("steps", 0) + block - 1 for s in filling + decoding)

    def fits(s):
        later = reserve * sum(x["left"] for x in [*filling, *decoding, s])
        return len(filling + decoding) < most and used() + len(decoding) + s["need"] + block + later <= pool

    while coming or queue or filling or decoding:
        if not (queue or filling or decoding):
            now = decided = max(now, coming[0]["at"])
            seen = now
        else:
            seen = decided if ahead else now
        if run.steps % poll == 0 or not decoding:
            while coming and coming[0]["at"] <= seen:
                queue.append(coming.pop(0))
        while decoding and used() + len(decoding) > pool:
            s = decoding.pop()
            run.preempted[s["id"]] += 1
            s |= {"need": s["prompt"] + s["output"] - s["left"], "done": 0, "steps": 0}
            queue.insert(0, s)
        whole = policy in ("static", "trtllm")
        room = budget - (len(decoding) if policy != "sglang" or mixed else 0)
        if policy == "static":
            room = 0 if decoding else 10**9
        waits = sum(s["need"] for s in queue) + len(decoding) < hold[1] * budget
        if policy == "trtllm" and hold[0] and decoding and queue and waits and held < hold[0]:
            room = 0
        chunks = []
        for s in filling:
            take = min(room, s["need"] - s["done"])
            if take > 0:
                chunks.append((s, take))
                room -= take
        while queue and room > 0 and not (whole and chunks and queue[0]["need"] > room) and fits(queue[0]):
            s = queue.pop(0)
            filling.append(s)
            if run.queued[s["id"]] is None:
                run.queued[s["id"]] = now
            take = s["need"] if whole else min(room, s["need"])
            chunks.append((s, take))
            room -= take
        riding = [] if chunks and (policy == "static" or (policy == "sglang" and not mixed)) else list(decoding)
        tokens, count = sum(t for _, t in chunks), len(riding)
        if not tokens and not count:  # what waits has no room, and nothing runs
            now = decided = max(now, coming[0]["at"])
            queue.append(coming.pop(0))
            continue
        prompts = sum(price.scores(s["done"] + t) - price.scores(s["done"]) for s, t in chunks)
        one_pass = decoding and tokens + count <= graph
        prompts += price.bare(tokens + count) - price.bare(count) if one_pass else price.bare(tokens)
        seconds = prompts * (factor if decoding else 1.0)
        if count:
            seconds += price.decode(count, sum(s["need"] + 1 + s["steps"] for s in riding) / count)
        held = 0 if chunks or not queue else held + 1
        now, decided = now + seconds, now
        run.busy += seconds
        run.area += seconds * len(filling + decoding)
        run.steps += 1
        run.prompt_tokens += tokens
        run.most_batch, run.most_tokens = max(run.most_batch, count), max(run.most_tokens, tokens + count)
        wrote = list(riding)
        for s in riding:
            s["steps"] += 1
        for s, t in chunks:
            s["done"] += t
            if s["done"] == s["need"]:
                filling.remove(s)
                decoding.append(s | {"steps": 0})
                wrote.append(decoding[-1])
        for s in wrote:
            s["left"] -= 1
            if run.first[s["id"]] is None and s["output"] - s["left"] >= min(stream, s["output"]):
                run.first[s["id"]] = now
            if not s["left"]:
                run.finish[s["id"]] = now
                decoding.remove(s)
    return run
