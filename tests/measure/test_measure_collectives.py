"""Collectives on eight host devices, and on two processes over loopback, each in a process of its own."""

import json
import os
import socket
import subprocess
import sys
import textwrap

import pytest

from rooflinecli.measure import collectives

EIGHT = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}


def run(code, env=EIGHT):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_every_collective_does_what_its_name_says():
    out = run("""
        import json, jax, numpy as np
        from rooflinecli.measure.kernels import collective as c
        from rooflinecli.measure.collectives import chosen, VOLUME
        from rooflinecli.measure.device import environment
        from rooflinecli.measure.kernels.base import build
        env, result = environment(), {}
        cases = {case.op: case for case in chosen(env, True) if case.sizes["bytes"] == 2**12}
        assert set(cases) == set(VOLUME) == set(c.OPS)
        for op, case in cases.items():
            kernel = build(case)
            (x,) = kernel.rotating(0)
            got, x = np.asarray(kernel.fn(x), np.float64), np.asarray(x, np.float64)
            assert len({row.tobytes() for row in x}) == 8
            blocks = x.reshape(8, 8, -1)
            expected = {"all-reduce": np.tile(x.sum(0), (8, 1)), "all-gather": np.tile(x.reshape(-1), (8, 1)),
                        "reduce-scatter": blocks.sum(0), "all-to-all": blocks.swapaxes(0, 1).reshape(8, -1), "permute": np.roll(x, 1, 0)}[op]
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
            whole = {"all-gather": got[0].nbytes // 2}.get(op, x[0].nbytes // 2)  # as float32
            result[op] = whole
        print(json.dumps(result))
    """)
    assert json.loads(out) == dict.fromkeys(collectives.VOLUME, 2**12)


def test_one_device_has_no_collectives(env):
    assert collectives.chosen(env, True) == []


@pytest.mark.slow
def test_the_command_measures_eight_devices_and_writes_a_network_level(tmp_path):
    import yaml

    code = "import sys; from rooflinecli.interfaces.cli.measure import app; app('measure')(['bandwidth', '--quick', '--budget', '30', '--max-timings', '1', '--force', '--out', sys.argv[1]])"
    path = tmp_path / "chip.yaml"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=EIGHT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    again = [sys.executable, "-c", code.replace("'bandwidth'", "'collectives', '--details'"), str(path)]
    done = subprocess.run(again, env=EIGHT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "bus" in done.stdout
    level = yaml.safe_load(path.read_text())["network"][0]
    assert level["size"] == 8 and "all-reduce" in level["efficiency"]


@pytest.mark.slow
def test_two_processes_over_loopback(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = """
        import sys, json
        from rooflinecli.measure.question import SUITES
        i = int(sys.argv[1])
        answer = SUITES["collectives"](quick=True, out=sys.argv[2], coordinator="127.0.0.1:" + sys.argv[3], processes=2, process_id=i).answer()
        print(json.dumps([answer.leader, len(answer.records), sorted({r["op"] for r in answer.records}), answer.failed]))
    """
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), str(i), str(tmp_path / f"{i}.yaml"), str(port)],
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for i in range(2)
    ]
    outs = [p.communicate(timeout=240) for p in started]
    assert [p.returncode for p in started] == [0, 0], [err[-1500:] for _, err in outs]
    (leader, count, ops, failed), (follower, *_) = (json.loads(out.splitlines()[-1]) for out, _ in outs)
    assert leader and not follower and count == 20 and ops == sorted(collectives.VOLUME) and failed == {}
    assert (tmp_path / "0.jsonl").exists() and not (tmp_path / "1.jsonl").exists()
