"""`roofline mcp` as an agent sees it: the SDK's own client, in memory and over standard input and output."""

from __future__ import annotations

import asyncio
import json
import sys

import jsonschema
import pytest
from calibrate.logs import VLLM
from conftest import ROOT

import rooflinecli
import rooflinecli.core.errors
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.mcp import tools

ASKED = {"model": "llama-3-8b", "hw": "h100", "n": 2, "phase": "decode"}
WORDS = ("llama-3-8b", "--hw", "h100", "-n", "2", "--phase", "decode")


def talk(conversation, to=None):
    mcp = pytest.importorskip("mcp")

    async def main():
        async with mcp.Client(to or tools.server()) as client:
            return await conversation(client)

    return asyncio.run(main())


def call(name, arguments, to=None):
    return talk(lambda client: client.call_tool(name, arguments), to)


@pytest.mark.slow
def test_the_tools_have_schemas():
    listed = talk(lambda client: client.list_tools()).tools
    assert {tool.name for tool in listed} == set(verbs.NAMES) > {"estimate", "explain", "plan", "fit", "shard"}
    for tool in listed:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.description and tool.input_schema["additionalProperties"] is False
    estimate = next(tool for tool in listed if tool.name == "estimate")
    jsonschema.validate(ASKED, estimate.input_schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**ASKED, "recompute": "some"}, estimate.input_schema)


@pytest.mark.slow
def test_an_estimate_is_the_command_lines_digit_for_digit(cli):
    found = call("estimate", ASKED)
    assert found.is_error is False
    assert (
        json.loads(json.dumps(found.structured_content["answer"])) == cli("estimate", *WORDS, "--format", "json").json
    )
    assert json.loads(found.content[0].text) == found.structured_content
    jsonschema.validate(found.structured_content, tools.output_schema("estimate"))
    with pytest.raises(jsonschema.ValidationError):  # typed down to the phases
        wrong = json.loads(found.content[0].text)
        wrong["answer"]["phases"]["decode"]["time_s"] = "fast"
        jsonschema.validate(wrong, tools.output_schema("estimate"))
    decode = found.structured_content["answer"]["phases"]["decode"]
    assert decode["floor_s"] <= decode["interval_s"][0] <= decode["time_s"]
    assert (
        "Llama" in found.structured_content["sources"]["model"]
        and found.structured_content["sources"]["hardware"]["h100"]
    )


def test_numbers_are_those_of_json():
    """Whole ones without a point, as the command line writes them, and none that JSON cannot hold."""
    found, text = tools.call("collective", {"op": "all-reduce", "size": "64MiB", "hw": "h100", "n": 1})
    assert found is not None and found["answer"]["devices"] == 1 and '"devices": 1,' in text and "Infinity" not in text


@pytest.mark.slow
def test_over_standard_input_and_output_it_is_the_same():
    mcp = pytest.importorskip("mcp")
    child = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "rooflinecli.interfaces.cli.main", "mcp"], env={"PYTHONPATH": str(ROOT)}
    )
    assert call("estimate", ASKED, child).structured_content == call("estimate", ASKED).structured_content


@pytest.mark.slow
def test_an_option_may_have_any_of_its_names():
    other = {"model": ASKED["model"], "hardware": ASKED["hw"], "devices": ASKED["n"], "phase": "decode"}
    assert call("estimate", other).structured_content == call("estimate", ASKED).structured_content
    narrow = call("estimate", {**ASKED, "kv_dtype": "fp8"}).structured_content
    assert narrow == call("estimate", {**ASKED, "kv-dtype": "fp8"}).structured_content


@pytest.mark.slow
def test_the_other_questions(cli):
    explained = call("explain", {**ASKED, "quantity": "decode.time_s", "depth": 2}).structured_content["answer"]
    printed = cli("estimate", *WORDS, "--explain", "decode.time_s", "--depth", "2").out
    assert " ".join(explained["text"].split()) == " ".join(printed.split())
    searched = call("search", {"model": "llama-3-8b", "hw": "h100", "n": 4, "top": 2}).structured_content["answer"]
    best = cli("search", "llama-3-8b", "--hw", "h100", "-n", "4", "--top", "2", "--format", "json").json
    assert [row["layout"] for row in searched["results"]] == [row["layout"] for row in best["results"]]
    compared = call("compare", {"model": "llama-3-8b", "hw": "h100,a100", "n": 1}).structured_content["answer"]
    printed = cli("compare", "llama-3-8b", "--hw", "h100,a100", "-n", "1", "--format", "json").json
    assert json.loads(json.dumps(compared["rows"])) == printed["rows"]
    plan = "checks:\n  a:\n    model: llama-3-8b\n    hw: h100\n    require: {decode.time_s: '<= 1 ms'}\n"
    assert call("check", {"plan": plan}).structured_content["answer"]["passed"] is False


@pytest.mark.slow
def test_a_simulation_is_the_command_lines(cli):
    load = {"qps": "4", "requests": 200, "prompt": "512", "output": "64", "slo": "ttft=2s,itl=50ms@99"}
    asked = {"model": "llama-3.1-8b", "hw": "h100", "tp": 1, **load}
    answer = call("simulate", asked).structured_content["answer"]
    flags = [part for name, value in load.items() for part in (f"--{name}", str(value))]
    printed = cli("simulate", "llama-3.1-8b", "--hw", "h100", "--tp", "1", *flags, "--format", "json").json
    assert json.loads(json.dumps(answer)) == printed and printed["interval"]["ttft_p99_s"]
    assert json.loads(json.dumps(rooflinecli.simulate(**asked))) == printed
    frame = rooflinecli.simulate(**asked).to_frame().set_index("quantity")
    assert frame.loc["ttft_p99_s", "value"] == printed["simulate"]["ttft_p99_s"]
    assert [frame.loc["ttft_p99_s", end] for end in ("low", "high")] == printed["interval"]["ttft_p99_s"]


@pytest.mark.slow
def test_a_calibration_is_the_command_lines(cli, tmp_path):
    log = tmp_path / "bench.json"
    runs = [
        {**VLLM, "max_concurrency": batch, "mean_tpot_ms": 8 + 0.1 * batch, "median_tpot_ms": 8 + 0.1 * batch}
        for batch in (1, 2, 4, 8, 16, 32, 64)
    ]
    log.write_text("".join(json.dumps(run) + "\n" for run in runs))
    printed = cli("calibrate", str(log), "--hw", "h100", "-n", "1", "--format", "json").json
    answer = call("calibrate", {"files": [str(log)], "hw": "h100", "n": 1}).structured_content["answer"]
    assert json.loads(json.dumps(answer)) == printed
    found = rooflinecli.calibrate(str(log), "h100", devices=1)
    assert json.loads(json.dumps(found)) == printed
    assert len(found.to_frame()) == len(printed["tables"][0]["rows"]) > 0
    with pytest.raises(rooflinecli.core.errors.UsageError, match="no table is about 'colour'"):
        found.to_frame("colour")
    out = tmp_path / "mine.yaml"
    cli("calibrate", str(log), "--hw", "h100", "-n", "1", "--out", str(out))
    assert found.hardware is None or found.hardware == out.read_text()


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "name, arguments, says",
    [
        ("estimate", {"model": "lama", "hw": "h100"}, "did you mean"),
        ("estimate", {"model": "llama-3-8b"}, "no --hw given"),
        ("estimate", {**ASKED, "tp": "many"}, "--tp many"),
        ("estimate", {**ASKED, "colour": "red"}, "unknown option 'colour'"),
        ("estimate", {**ASKED, "tp": {"a": [1]}}, "expected a number"),
        ("explain", {**ASKED, "quantity": "decode.colour"}, "unknown quantity"),
        ("explain", {**ASKED, "quantity": "decode.time_s", "depth": 99}, "depth"),
        ("estimate", {**ASKED, "n": 1, "devices": 2}, "n is given twice"),
        ("simulate", {"model": "llama-3-8b", "hw": "h100", "optimizer_bytes": 2}, "unknown option 'optimizer_bytes'"),
        ("check", {"plan": "checks: ["}, "not valid YAML"),
        ("check", {"plan": "checks: {}"}, "checks: expected at least 1 item"),
        ("calibrate", {"files": "/nowhere.log", "hw": "h100"}, "/nowhere.log"),
        ("calibrate", {"files": [], "hw": "h100"}, "no files given"),
        ("calibrate", {"files": "x", "hw": "h100", "hold-out": 2}, "--held-out 2: must be at most 0.9"),
        ("calibrate", {"files": "x"}, "no --hw given"),
        ("guess", {}, "unknown tool"),
    ],
)
def test_what_is_wrong_is_an_answer_with_its_remedy(name, arguments, says):
    found, text = tools.call(name, arguments)
    assert found is None and says in text
    if name != "guess":
        reply = call(name, arguments)
        assert reply.is_error is True and says in reply.content[0].text


def test_without_the_sdk_the_command_says_what_to_install(cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    monkeypatch.setitem(sys.modules, "mcp.server.lowlevel", None)
    ran = cli("mcp")
    assert ran.code == 2 and "pip install '" in ran.err and "[mcp]'" in ran.err


def test_the_server_has_a_version_and_its_tools_only_read():
    from importlib.metadata import version

    async def introduction(client):
        return client.server_info if hasattr(client, "server_info") else client.initialize_result.server_info

    assert talk(introduction).version == version("rooflinecli")
    for tool in talk(lambda client: client.list_tools()).tools:
        assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (True, False)


SECRET = "hunter2secret"
FILES = {
    "plan.yaml": f"{SECRET}: {{model: llama-3-8b, hw: h100, tp: {SECRET}}}\n",
    "config.json": json.dumps({"model_type": SECRET, "hidden_size": SECRET}),
    "chip.yaml": f"extends: h100\n{SECRET}: 4\n",
    "trace.csv": f"password: {SECRET}\n",
    "cut.csv": "pw " * 11 + SECRET,  # what a message quotes of it ends within the word
    "rows.csv": f"time,prompt,output\n1,{SECRET},4\n",
    "run.json": json.dumps({"mean_ttft_ms": SECRET, "model_id": SECRET, "duration": SECRET}),
    "launch.sh": f"vllm serve {SECRET} --tensor-parallel-size {SECRET}\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["plan.yaml", *(pytest.param(name, marks=pytest.mark.slow) for name in list(FILES)[1:])]
)
def test_an_error_says_nothing_of_what_a_file_holds(name, tmp_path):
    """A client names paths of the server's machine: what is wrong with a file is said by line and field, not in its words."""
    file = tmp_path / name
    file.write_text(FILES[name])
    seen = []
    for tool in tools.NAMES:
        fields = verbs.question(tool).fields().values()
        basis = {"model": "llama-3-8b", "hw": "h100", "qps": 1, "quantity": "decode.time_s"}
        known = {f.long: basis[f.long] for f in fields if f.long in basis and (f.long != "qps" or tool == "simulate")}
        for field in fields:
            if field.kind in ("file", "name", "free") or field.positional:
                found, text = tools.call(tool, {**known, field.long: [str(file)] if field.several else str(file)})
                seen.append(found is None and str(file) in text)
                assert SECRET[:7] not in text, (tool, field.long)
    assert any(seen)


def test_an_error_keeps_the_words_of_the_client():
    assert "unknown model 'nomodel'" in tools.call("estimate", {"model": "nomodel", "hw": "h100"})[1]
