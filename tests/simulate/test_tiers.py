"""Caches that wait in tiers: what is found there, when it is back, and what an estimate says of idle sessions."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from conftest import run_cli
from simulate.test_schedulers import scheduler

from rooflinecli.core.errors import UsageError
from rooflinecli.engine.kv_tiers import MOST, tiers
from rooflinecli.interfaces.python import api
from rooflinecli.simulate.cluster import Cluster, run_open_loop
from rooflinecli.simulate.prefix_cache import KvTier, PrefixCache
from rooflinecli.simulate.replica import Replica, ReplicaLimits
from rooflinecli.simulate.request import SimRequest
from rooflinecli.specs.registry import load

SPAN = 16


def job(index, arrival, name, prompt=1024, output=4):
    return SimRequest(
        index, arrival, prompt, output, hashes=tuple(f"{name}/{i}" for i in range(prompt // SPAN)), span=SPAN
    )


def served(prices, jobs, *places, pool=1200):
    store = PrefixCache(places)
    replica = Replica(prices, ReplicaLimits(pool, 64), scheduler(front=0.0, per_stream=0.0, look_ahead=0), store)
    ended = run_open_loop(Cluster([replica], load("simulate/routers", "round-robin")), jobs)
    return sorted(ended, key=lambda j: j.index), store


def test_a_cache_comes_back_in_its_own_time(prices):
    """a, then b, which pushes a out of a pool for one of them, then a again: what is missing of 1,008 tokens comes back at 10 us each, 16 are read."""
    jobs = [job(0, 0.0, "a"), job(1, 10.0, "b"), job(2, 20.0, "a")]
    ended, store = served(prices, jobs, KvTier("host", 10_000, 1e-5))
    loaded = store.tiers[0].loaded  # all but the head, which b left room for
    assert ended[2].hit == 1008 and 800 < loaded < 1008
    alone = prices.mixed(16, prices.attention(1008, 1024), 0, 0)[0]
    assert ended[2].first - ended[2].arrival == pytest.approx(loaded * 1e-5 + alone)
    without, _ = served(prices, [job(0, 0.0, "a"), job(1, 10.0, "b"), job(2, 20.0, "a")])
    assert without[2].hit == 1008 - loaded


def test_least_recently_used_goes_down_and_out(prices):
    """Seven prompts through a pool for one, a host for two and a disk for two: the newest stay nearest, the oldest is nowhere."""
    jobs = [job(i, 10.0 * i, name) for i, name in enumerate("abcdefg")]
    _, store = served(prices, jobs, KvTier("host", 2048, 1e-6), KvTier("disk", 2048, 1e-5))
    where = [{key.partition("/")[0] for key in place} for place in (store.blocks, *(t.blocks for t in store.tiers))]
    assert all(max(below) <= min(above) for above, below in pairwise(where)), where
    assert "g" in where[0] and not any("a" in names for names in where)
    for tier in store.tiers:
        assert tier.stored == sum(tier.blocks.values()) <= tier.room


def test_transfers_take_turns(prices):
    """Two sessions that come back at once share the link: the second waits for the first; one that misses nothing waits for neither."""
    jobs = [job(i, 5.0 * i, name) for i, name in enumerate("abcd")]
    jobs += [job(4, 50.0, "a"), job(5, 50.0, "b"), job(6, 50.0, "new", prompt=16)]
    ended, _ = served(prices, jobs, KvTier("host", 10_000, 1e-3), pool=2500)
    first, second, fresh = (j.first - j.arrival for j in ended[4:])
    assert first == pytest.approx(1.008, rel=0.1) and second == pytest.approx(2.016, rel=0.1) and fresh < 0.1


def test_more_room_finds_more(prices):
    shares = []
    for room in (0, 2000, 4000, 8000, 16000):
        jobs = [job(i, 2.0 * i, "abcdefgh"[i * 5 % 8]) for i in range(40)]
        ended, _ = served(prices, jobs, KvTier("host", room, 1e-6))
        assert len(ended) == 40 and all(j.made == 4 for j in ended)
        shares.append(sum(j.hit for j in ended))
    assert shares == sorted(shares) and shares[0] < shares[-1]


def test_an_estimate_counts_sessions_and_seconds():
    """Llama-3 8B, bf16: 32 layers x 8 heads x 128 x 2 x 2 B = 128 KiB a token; 2,048 + 256 tokens a session."""
    asked = {"engine": "vllm", "n": 1, "tp": 1, "prompt": 2048, "output": 256, "concurrency": 8, "phase": ["prefill"]}
    found = api.estimate(
        "llama-3-8b", "h100", **asked, prefix_hit=0.75, sessions=2000, kv_tier="host=256GB@50GB/s,disk=1TB@5GB/s"
    )
    plain = api.estimate("llama-3-8b", "h100", **asked, prefix_hit=0.75)["phases"]["prefill"]
    sessions = found["phases"]["prefill"]["sessions"]
    token, idle = 131072, 2000 - 8
    kept, disk = 256e9 / (2304 * token), 1e12 / (2304 * token)
    assert sessions["idle_sessions"] == idle
    assert sessions["tiers"]["host"]["sessions"] == pytest.approx(kept)
    assert sessions["tiers"]["host"]["reload_s"] == pytest.approx(1536 * token / 50e9)
    on_host, on_disk = kept / idle, (idle - sessions["device_sessions"] - kept) / idle
    assert disk > idle and sessions["evicted_fraction"] == 0
    lone = {k: v for k, v in asked.items() if k != "concurrency"}
    whole, rest = (
        api.estimate("llama-3-8b", "h100", **lone, prefix_hit=hit)["phases"]["prefill"]["time_s"]
        for hit in (None, 0.75)
    )
    assert 1536 * token / 50e9 < whole - rest < 1536 * token / 5e9  # so that prefixes on the disk are computed again
    reload = on_host * 1536 * token / 50e9 + on_disk * (whole - rest)
    assert sessions["reload_s"] == pytest.approx(reload)
    assert found["phases"]["prefill"]["time_s"] == pytest.approx(plain["time_s"] + reload)
    assert sessions["on_device_fraction"] == pytest.approx(sessions["device_sessions"] / idle)


def test_more_sessions_than_the_tiers_hold_never_shorten_ttft():
    asked = {
        "engine": "vllm",
        "n": 1,
        "prompt": 8000,
        "output": 200,
        "concurrency": 8,
        "phase": ["prefill"],
        "prefix_hit": 0.5,
    }
    for kv_tier in ("host=64GB@25GB/s,disk=100GB@5GB/s", "host=64GB@25GB/s", "disk=50GB@1GB/s"):
        times = [
            api.estimate("llama-3.1-8b", "h100", **asked, kv_tier=kv_tier, sessions=n)["phases"]["prefill"]["time_s"]
            for n in (1, 10, 50, 100, 200, 500, 1000, 5000, 100_000)
        ]
        assert times == sorted(times) and times[-1] > times[0]


def test_without_a_prefix_hit_tiers_add_nothing():
    asked = {"engine": "vllm", "n": 1, "tp": 1, "prompt": 2048, "output": 256, "batch": 8, "phase": ["prefill"]}
    with_tiers = api.estimate("llama-3-8b", "h100", **asked, kv_tier="host=256GB@50GB/s")["phases"]["prefill"]
    assert with_tiers["time_s"] == api.estimate("llama-3-8b", "h100", **asked)["phases"]["prefill"]["time_s"]
    assert with_tiers["sessions"]["reload_s"] == 0 < with_tiers["sessions"]["tiers"]["host"]["reload_s"]
    places = with_tiers["sessions"]
    assert places["on_device_fraction"] + places["tiers"]["host"]["in_tier_fraction"] == pytest.approx(1)


@pytest.mark.parametrize(
    "written",
    ["host", "host=256GB", "host=256GB@fast", "host=1GB@0B/s", "host=1GB@1GB/s,host=1GB@1GB/s", "device=1GB@1GB/s", ""],
)
def test_a_tier_that_is_none_is_refused(written):
    with pytest.raises(UsageError, match="--kv-offload"):
        tiers(written)


def test_the_command_line(tmp_path):
    trace = tmp_path / "turns.csv"
    turns = [f"{i * 1.5:.1f},{3000 + 16 * (i // 24)},20,s{i % 24}" for i in range(72)]
    trace.write_text("time,prompt,output,prefix\n" + "\n".join(turns) + "\n")
    base = (
        "simulate",
        "llama-3-8b",
        "--hw",
        "h100",
        "--engine",
        "vllm",
        "--memory",
        "22GB",
        "--trace",
        str(trace),
        "--no-interval",
    )
    found = {}
    for name, more in (("none", ()), ("host", ("--kv-offload", "host=20GB@50GB/s"))):
        ran = run_cli(*base, "--prefix-cache", *more, "--format", "json")
        assert ran.code == 0, ran.err
        found[name] = json.loads(ran.out)["simulate"]
    assert found["host"]["prefix_cache_hit_rate"] > found["none"]["prefix_cache_hit_rate"]
    assert 0 < found["host"]["reloaded_host_share"] <= found["host"]["prefix_cache_hit_rate"]
    assert found["host"]["ttft_mean_s"] < found["none"]["ttft_mean_s"]
    refused = run_cli(*base, "--kv-offload", "host=20GB@50GB/s")
    assert refused.code == 2 and "--prefix-caching" in refused.err
    assert run_cli("estimate", "llama-3-8b", "--hw", "h100", "--sessions", "5").code == 2


def test_prefixes_that_no_tier_keeps_are_computed_again_and_noted():
    """2,000 sessions, room for some hundred."""
    base = (
        "estimate",
        "llama-3-8b",
        "--hw",
        "h100",
        "--tp",
        "1",
        "-n",
        "1",
        "--phase",
        "prefill",
        "--concurrency",
        "8",
        "--prompt",
        "4k",
    )
    tier = ("--kv-offload", "host=8GB@50GB/s", "--sessions", "2000", "--format", "json")
    found = run_cli(*base, *tier, "--prefix-hit-rate", "0.9").json
    lost = found["phases"]["prefill"]["sessions"]["evicted_fraction"]
    assert 0.9 < lost < 1
    note = next(n for n in found["notes"] if "have no cache left" in n)
    assert note.startswith(f"prefill: {lost:.0%} of the idle sessions")
    roomy = ("--kv-offload", "host=8TB@50GB/s", "--sessions", "2000", "--format", "json", "--prefix-hit-rate", "0.9")
    assert not any("have no cache left" in n for n in run_cli(*base, *roomy).json.get("notes", []))


def test_as_many_tiers_as_are_supported():
    written = [f"t{i}=1GB@1GB/s" for i in range(MOST + 1)]
    assert len(tiers(",".join(written[:MOST]))) == MOST
    with pytest.raises(UsageError, match=f"at most {MOST} tiers"):
        tiers(",".join(written))


def test_tiers_of_a_replaced_replica_go_on_counting():
    store = PrefixCache([KvTier("host", 100, 1e-5)])
    store.tiers[0].take("a", 16)
    store.tiers[0].loaded = 32
    fresh = store.reset_copy().tiers[0]
    assert (fresh.loaded, fresh.stored, fresh.room) == (32, 0, 100)


def test_no_more_comes_back_than_there_is_room_for():
    """Five of six blocks of 16 tokens may come back, the last one is computed anyway: as many as the room takes, the room itself included."""
    for room, blocks in ((16, 1), (31, 2), (32, 2), (33, 3), (80, 5), (1000, 5)):
        tier = KvTier("host", 10**6, 1e-3)
        store, asked = PrefixCache([tier]), job(0, 0.0, "a", prompt=96)
        for key in asked.hashes:
            assert tier.take(key, SPAN) == []
        ready = store.fetch(asked, 2.0, room)
        kept = min(room // SPAN, blocks)  # what came back beyond the room goes down again
        assert (tier.loaded, ready) == (blocks * SPAN, pytest.approx(2.0 + blocks * SPAN * 1e-3))
        assert (store.idle, store.known(asked), tier.stored) == (kept * SPAN, kept * SPAN, (6 - kept) * SPAN)


def test_a_block_that_is_computed_again_leaves_its_tier():
    """The head of a prompt waits on the host and was not reloaded: where the prompt is read again, the host has room for others."""
    store = PrefixCache([KvTier("host", 10_000, 1e-5)])
    first, *others = job(0, 0.0, "a", prompt=64).hashes
    for key in (first, "other"):
        store.tiers[0].take(key, SPAN)
    assert store.enter(job(1, 1.0, "a", prompt=64)) == 0
    assert list(store.tiers[0].blocks) == ["other"] and store.tiers[0].stored == SPAN
    assert all(store.blocks[key] == [1, SPAN] for key in (first, *others))
