"""Containers as Kubernetes, compose, SkyPilot, dstack and charts write them: words, environment, devices, copies and nodes of each, key by key."""

from __future__ import annotations

from typing import Any

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.importers.launch import containers
from rooflinecli.importers.launch.containers import Container
from rooflinecli.importers.launch.shell_expansion import unknowns


def only(document: Any) -> Container:
    (found,) = containers.containers(document)
    return found


SERVE = ["vllm", "serve", "m", "--tp", "2"]


def test_words_of_a_container() -> None:
    assert only({"command": SERVE}).words == SERVE and only({"command": SERVE[:2], "args": SERVE[2:]}).words == SERVE
    assert only({"image": "vllm/vllm-openai:v1", "args": ["--model", "m"]}).words == ["vllm", "serve", "--model", "m"]
    assert only({"image": "vllm/vllm-openai:v1", "args": ["python", "x.py"]}).words == ["python", "x.py"]
    assert only({"image": "ghcr.io/ggml-org/llama.cpp:server", "args": ["-m", "a.gguf"]}).words == [
        "llama-server",
        "-m",
        "a.gguf",
    ]
    assert only({"image": "vllm/vllm-openai", "args": ["-m", "a"]}).words == ["-m", "a"]  # python's -m
    assert only({"image": "own/vllm", "args": ["serve", "m"]}).words == ["vllm", "serve", "m"]
    assert (
        only({"image": "x/text-generation-inference:3", "args": ["--model-id", "m"]}).words[0]
        == "text-generation-launcher"
    )
    assert only({"image": "other", "args": ["--model", "m"]}).words == ["--model", "m"]
    assert only({"entrypoint": ["run.py"], "command": "--a 1 --b 'c d'"}).words == ["run.py", "--a", "1", "--b", "c d"]
    assert only({"command": ["run"], "serverArgs": ["--a"], "vllm_args": ["--b"]}).words == ["run", "--a", "--b"]
    assert list(containers.containers({"image": "x"})) == [] and list(containers.containers("text")) == []
    assert [one.words for one in containers.containers([{"a": {"command": ["x"]}}, {"b": [{"command": ["y"]}]}])] == [
        ["x"],
        ["y"],
    ]


def test_shells_of_a_container() -> None:
    assert only({"command": ["/bin/bash", "-c"], "args": ["run --n 2"]}).script == "run --n 2"
    assert only({"command": ["sh", "-ec", "a", "b"]}).script == "a\nb"
    bound = only({"command": ["sh", "-c", 'run "$@"', "name", "--tp", "2"]})
    assert (bound.script, bound.arguments, bound.words) == ('run "$@"', ["--tp", "2"], [])
    assert only({"command": "run --n 2"}).script == "run --n 2"
    kept = only({"command": ["bash"], "args": "script.sh"})
    assert (kept.words, kept.script) == (["bash"], "script.sh")
    assert only({"args": "--model m", "image": "vllm/vllm-openai"}).script == "vllm serve --model m"


def test_variables_fill_words() -> None:
    one = only(
        {
            "command": ["run", "$(TP)", "$(GONE)"],
            "env": [{"name": "TP", "value": "4"}, {"name": "N", "valueFrom": {}}, "A=b=c"],
            "MODEL": "m",
        }
    )
    assert (
        one.words[:2] == ["run", "4"]
        and unknowns(one.words[2])
        and one.environment == {"TP": "4", "A": "b=c", "MODEL": "m"}
    )
    assert only({"command": ["x"], "environment": {"P": 1, "Q": None}}).environment == {"P": "1"}
    inner = only({"env": {"OUT": "1"}, "c": {"command": ["x"], "env": {"IN": "2"}}})
    assert inner.environment == {"OUT": "1", "IN": "2"}
    flags = only({"image": "vllm/vllm-openai", "env": {"VLLM_EXTRA_ARGS": "--model m --tp 2"}})
    assert flags.words == ["vllm", "serve", "--model", "m", "--tp", "2"]


@pytest.mark.parametrize(
    "more, gpus",
    [
        ({"resources": {"limits": {"nvidia.com/gpu": "4"}}}, 4), ({"resources": {"requests": {"amd.com/gpu": 2}}}, 2), ({"resources": {"limits": {"cpu": 4}}}, None),
        ({"resources": {"limits": {"nvidia.com/gpu": 0}}}, None), ({"deploy": {"resources": {"reservations": {"devices": [{"count": 3}]}}}}, 3),
        ({"deploy": {"resources": {"reservations": {"devices": [{"device_ids": ["0", "2"]}]}}}}, 2), ({"resources": {"accelerators": "H100:8"}}, 8),
        ({"resources": {"accelerators": {"H100": 4}}}, 4), ({"resources": {"accelerators": "A100"}}, 1), ({"resources": {"gpu": "H100:2"}}, 2),
        ({"deploy": {"resources": {"reservations": {"devices": [{"count": "all"}]}}}}, None),
    ],
)  # fmt: skip
def test_devices_that_a_container_asks_for(more: dict[str, Any], gpus: int | None) -> None:
    assert only({"command": ["x"], **more}).gpus == gpus


def test_copies_nodes_and_slices() -> None:
    two = only(
        {
            "replicas": 2,
            "leaderWorkerTemplate": {"size": 4},
            "c": {"command": ["x"], "resources": {"limits": {"nvidia.com/gpu": 8}}},
        }
    )
    assert (two.copies, two.nodes, two.gpus, two.devices, two.most) == (2, 4, 8, 32, 2)
    scaled = only({"minReplicas": 2, "maxReplicas": 5, "c": {"command": ["x"], "replicas": 3}})
    assert (scaled.copies, scaled.most) == (6, 6) and only({"maxReplicas": 5, "command": ["x"]}).most == 5
    assert (
        only({"command": ["x"], "replicas": True}).copies
        == only({"command": ["x"], "replicas": 0}).copies
        == only({"command": ["x"], "replicas": "2"}).copies
        == 1
    )
    tpu = only(
        {
            "nodeSelector": {
                "cloud.google.com/gke-tpu-topology": "2x4x4",
                "cloud.google.com/gke-tpu-accelerator": "tpu7x",
            },
            "command": ["x"],
        }
    )
    assert (tpu.chips, tpu.cores, tpu.devices, tpu.chip) == (32, 2, 32, "tpu7x")
    gpu = only({"nodeSelector": {"nvidia.com/gpu.product": "H100"}, "command": ["x"]})
    assert (gpu.chip, gpu.devices, gpu.cores) == ("H100", None, 1)
    affinity = {"matchExpressions": [{"key": "nvidia.com/gpu.product", "values": ["A100"]}], "c": {"command": ["x"]}}
    assert only(affinity).chip == "A100"
    affinity["matchExpressions"][0]["values"] = ["A100", "H100"]  # type: ignore[index]
    assert only(affinity).chip == ""
    assert (
        only({"name": "decode", "c": {"command": ["x"]}}).role == "decode"
        and only({"name": "other", "command": ["x"]}).role == ""
    )
    assert only({"resources": {"accelerators": "H100:8"}, "command": ["x"]}).chip == "H100"


def test_tasks_of_skypilot_and_dstack() -> None:
    sky = only(
        {"run": "torchrun x\n", "resources": {"accelerators": "H100:8"}, "num_nodes": 2, "service": {"replicas": 3}}
    )
    assert (sky.script, sky.gpus, sky.nodes, sky.copies, sky.devices) == ("torchrun x\n", 8, 2, 3, 16)
    assert sky.environment == {"SKYPILOT_NUM_GPUS_PER_NODE": "8", "SKYPILOT_NUM_NODES": "2", "DSTACK_GPUS_NUM": "8"}
    listed = only({"commands": ["a", "b"]})
    assert listed.script == "a\nb\n" and listed.environment == {}
    assert (
        only({"start_cmd": "one line"}).script == "one line" and list(containers.containers({"text": "one line"})) == []
    )
    nested = only({"patch": "spec:\n  containers:\n  - command: [x, y]\n"})
    assert nested.words == ["x", "y"]


@pytest.mark.parametrize(
    "text, chips, cores",
    [
        ("--device-type=tpu7x-4x4x4 --num-slices=2", 128, 2), ("--device-type=v5p-128", 64, 1), ("--device-type v5litepod-256", 256, 1), ("--tpu-type=v4-8 --num-slices 3", 12, 1),
        ("--device-type=v5p-2x2x4", 16, 1), ("--device-type=v6e-16 --num-slices=$N", 16, 1),
    ],
)  # fmt: skip
def test_slices_of_xpk(text: str, chips: int, cores: int) -> None:
    found = containers.xpk(["xpk", *text.split()])
    assert found is not None and (found.chips, found.cores) == (chips, cores)
    assert containers.xpk(["xpk", "--device-type=h100"]) is None and containers.xpk(["xpk"]) is None


def test_templates_take_values_defaults_or_stay_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{{- if .x }}\na: {{ .Values.tp }}\nb: {{ .Values.model.name | quote }}\nc: {{ .Values.gone | default "d" }}\ne: "{{ include "x" . }}"\n{{- end }}\n---\nf: !Sub x\n'
    first, second = containers.documents(text, "t.yaml", {"tp": 4, "model": {"name": "org/m"}})
    assert (first["a"], first["b"], first["c"], second) == (4, "org/m", "d", {"f": "x"}) and unknowns(first["e"])
    with pytest.raises(DataError, match=r"t\.yaml:2: not valid YAML"):
        containers.documents("a: 1\n: [\n", "t.yaml")
    monkeypatch.setattr(containers, "LARGEST", 2000)
    with pytest.raises(DataError, match="longer than 2000 characters"):
        containers.documents("x" * 2001, "t.yaml")
    assert containers.documents("#" * 2000, "t.yaml") == []


def test_models_at_mounted_paths() -> None:
    mounts = [["/data/Llama-3-8B", "/model"], ["/cache", "/cache"], ["/x/a.gguf", "/m.gguf/"]]
    assert containers.mounted(["--model=/model", "/model/sub", "/models", "/m.gguf"], mounts) == [
        "--model=/data/Llama-3-8B",
        "/data/Llama-3-8B/sub",
        "/models",
        "/x/a.gguf",
    ]
    assert only({"command": ["x", "/model"], "volumes": ["/data/Llama-3-8B:/model:ro"]}).words == [
        "x",
        "/data/Llama-3-8B",
    ]


def test_keys_as_flags() -> None:
    assert [containers._kebab(key) for key in ("maxModelLen", "max_model_len", "tp")] == [
        "max-model-len",
        "max-model-len",
        "tp",
    ]
    assert containers.as_flags({"a": True, "b": False, "c": None, "d": 2, "e": {"x": 1}, "f": 0}) == [
        "--a",
        "--d=2",
        '--e={"x": 1}',
        "--f=0",
    ]
    assert containers.split_words("a 'b c'") == ["a", "b c"] and containers.split_words("a 'b") == ["a", "'b"]


def test_a_flag_in_a_document_that_no_command_has() -> None:
    document = {
        "tensorParallelSize": 4,
        "env": [{"name": "X", "value": "--max-model-len=8192"}],
        "extra": "--tensor-parallel-size 2",
        "flag": True,
    }
    left = containers.unread(document, [Container(["vllm", "serve", "m"])], {"vllm"})
    assert left == ["tensorParallelSize 4", "X --max-model-len=8192", "extra --tensor-parallel-size 2"]
    assert (
        containers.unread(
            document,
            [Container(["vllm", "serve", "m", "--tensor_parallel_size", "4", "--max-model-len", "8192"])],
            {"vllm"},
        )
        == []
    )


def test_maps_of_variables_and_runtimes_of_services() -> None:
    found = containers.with_maps(
        {"c": [{"envFrom": [{"configMapRef": {"name": "m"}}], "env": [{"name": "B", "value": "2"}]}]}, {"m": {"A": "1"}}
    )
    assert found["c"][0]["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    runtime = {
        "kind": "ServingRuntime",
        "metadata": {"name": "r"},
        "spec": {"containers": [{"command": ["a"], "args": ["b"], "image": "i"}]},
    }
    service = {"kind": "InferenceService", "spec": {"predictor": {"model": {"runtime": "r", "args": ["c"]}}}}
    (one,) = containers.joined([runtime, service])
    assert one["spec"]["predictor"]["model"] == {"command": ["a", "b", "c"], "args": None, "image": "i", "runtime": "r"}
    assert containers.joined([service]) == [service]
