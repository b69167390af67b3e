"""A second scheduler, written for the tests: vLLM's order, one step at a time, one dict a sequence, no tables, no strides.

It shares nothing with rooflinecli/simulate: each step is priced by the engine itself.
"""

from __future__ import annotations

from rooflinecli.engine.forward_step import forward_step


def simulate(ctx, plan, requests, budget, pool, block, most):
    """requests: (arrival, prompt, output). Returns (first token, end) by request. Arrivals are seen at the start of a step."""

    def price(batch, queries, keys, decode):
        return forward_step(ctx, plan, float(batch), float(queries), float(keys), decode=decode)

    def bare(tokens):
        if not tokens:
            return 0.0
        step = price(1, tokens, tokens, False)
        return step.seconds - step.costs.groups["attention"]

    def scores(tokens):
        return price(1, tokens, tokens, False).costs.groups["attention"] if tokens else 0.0

    now, queue, running, result = 0.0, [], [], {}
    coming = sorted(range(len(requests)), key=lambda i: (requests[i][0], i))
    while coming or queue or running:
        if not queue and not running:
            now = max(now, requests[coming[0]][0])
        while coming and requests[coming[0]][0] <= now:
            i = coming.pop(0)
            queue.append({"id": i, "prompt": requests[i][1], "left": requests[i][2], "seen": 0})
        decoding = [s for s in running if s["seen"] >= s["prompt"]]
        room = budget - len(decoding)
        chunks = []
        for s in running:
            if s["seen"] < s["prompt"] and room > 0:
                take = min(room, s["prompt"] - s["seen"])
                chunks.append((s, take))
                room -= take
        while queue and room > 0 and len(running) < most:
            s = queue[0]
            # a sequence in decode holds a token more than it has attended to, and every last block counts as almost empty
            held = sum(max(r["seen"], r["prompt"]) + 1 + block - 1 for r in running) + len(decoding)
            if held + s["prompt"] + 1 + block - 1 > pool:
                break
            running.append(queue.pop(0))
            take = min(room, s["prompt"])
            chunks.append((s, take))
            room -= take
        tokens, count = sum(t for _, t in chunks), len(decoding)
        seconds = sum(scores(s["seen"] + t) - scores(s["seen"]) for s, t in chunks)
        if tokens:
            seconds += bare(tokens)
        if count:
            seconds += price(count, 1, sum(s["seen"] + 1 for s in decoding) / count, True).seconds
        now += seconds
        for s in decoding:
            s["seen"] += 1
            s["left"] -= 1
        for s, t in chunks:
            s["seen"] += t
            if s["seen"] == s["prompt"]:
                s["left"] -= 1
                result[s["id"]] = [now, None]
        for s in [s for s in running if s["seen"] >= s["prompt"] and s["left"] == 0]:
            result[s["id"]][1] = now
            running.remove(s)
    return [tuple(result[i]) for i in range(len(requests))]
