"""Flags of launch tools as their own argument parsers have them, and what the readers of launches make of each.

    python tests/oracle/launch_flags.py collect TOOL VERSION FILE...   # names in these parser sources -> launch_flags.yaml
    python tests/oracle/launch_flags.py [--flags TOOL]                  # the tables of docs/launch.md; every flag of a tool

Parsers are those of the tools' packages and repositories; launch_flags.yaml names them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import yaml

from rooflinecli.importers.launch import locate
from rooflinecli.importers.launch.launch import Launch, flags
from rooflinecli.specs.registry import kinds, load

ROOT = Path(__file__).resolve().parents[2]
STORE = Path(__file__).with_suffix(".yaml")
PAGE = ROOT / "docs" / "launch.md"
BEGIN, END = "<!-- flags: written by tests/oracle/launch_flags.py -->\n", "<!-- end of flags -->\n"
VALUES = ("1", "true", "8", "auto", "1f1b", "bfloat16")  # one of them is a value that a flag takes


def names(path: Path, tables: bool) -> Iterator[str]:
    """Names in a parser's source: argparse and click calls, fields of classes, clap fields, llama.cpp's tables, YAML keys, constants."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".rs":
        yield from re.findall(r"#\[clap\([^\]]*\blong\b[^\]]*\]\s*(?:pub )?(\w+):", text)
    elif path.suffix == ".cpp":
        for block in re.findall(r"add_opt\(common_arg\(\s*\{([^}]*)\}", text):
            yield from re.findall(r'"(-{1,2}[\w-]+)"', block)[-1:]
    elif path.suffix in (".yml", ".yaml"):
        yield from re.findall(r"^\s*([A-Za-z_]\w*):", text, re.MULTILINE)
    elif path.name == "constants.py":
        yield from re.findall(r"^[A-Z_0-9]+ = ['\"]([a-z][a-z_0-9]+)['\"]", text, re.MULTILINE)
    else:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("add_argument", "option"):
                written = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                yield from [word for word in written if word.startswith("--")][:1]
            if isinstance(node, ast.ClassDef) and node.name != "JobConfig":
                table = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).lower() + "." if tables else ""
                fields = [
                    a.target.id for a in node.body if isinstance(a, ast.AnnAssign) and isinstance(a.target, ast.Name)
                ]
                yield from [table + field for field in fields if not field.startswith("_") and field.islower()]


def collect(tool: str, version: str, files: list[str]) -> None:
    """Store the flags of one version of a tool; FILE@PREFIX puts what a file names under a key."""
    store = yaml.safe_load(STORE.read_text()) if STORE.exists() else {}
    found = set()
    for file in files:
        path, _, prefix = file.partition("@")
        found |= {prefix + name.lstrip("-") for name in names(Path(path), tool == "torchtitan")}
        if tool == "accelerate":
            found |= {".".join(pair) for pair in re.findall(r'\b(\w+_config)\["(\w+)"\]', Path(path).read_text())}
    if tool not in CONFIGS:
        found = {name.replace("_", "-") for name in found}
    store.setdefault(tool, {})[version] = " ".join(sorted(found))
    STORE.write_text(yaml.safe_dump(store, sort_keys=True, width=150))


@cache
def outcome(tool: str, flag: str) -> tuple[str, str]:
    """What a reader makes of a flag: read, noted (with what is assumed), ignored (with why), or listed as not understood."""
    known = flags(tool)
    name = (
        flag if tool in CONFIGS else known.short.get(f"--{flag}", known.short.get(f"--{flag.replace('-', '_')}", flag))
    )
    if name in CONTEXT.get(tool, ()):
        return "read", ""
    for kind, patterns in (("noted", known.noted), ("ignored", known.reasons)):
        why = next((why for pattern, why in patterns.items() if fnmatchcase(name, pattern)), None)
        if why is not None:
            return kind, why
    return ("listed" if all(_left(tool, name, value) for value in VALUES) else "read"), ""


def _left(tool: str, name: str, value: str) -> bool:
    """Whether a launch of this flag alone lists it as not understood."""
    own = tool.replace("_cpp", ".cpp")
    module, launch = load(locate.TOOLS, own if own in kinds(locate.TOOLS) else "trainers"), Launch(tool, "")
    if tool == "maxtext":
        module.read([f"{name}={value}"], launch)
    elif tool in CONFIGS:
        tree: dict = {}
        *tables, last = name.split(".")
        inner = tree
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[last] = yaml.safe_load(value)
        module.read(tree, launch)
    else:
        module.read(
            ["model", f"--{name}", value] if tool not in ("megatron", "tgi", "llama_cpp") else [f"--{name}", value],
            launch,
        )
    return any(name in one for one in launch.unmodelled)


CONFIGS = ("torchtitan", "maxtext", "nemo", "deepspeed", "accelerate", "axolotl", "llamafactory")
# flags that are read where another one gives them their meaning
CONTEXT = {
    "vllm": ("num-speculative-tokens", "config", "eplb-config"), "sglang": ("deepep-mode", "speculative-eagle-topk"), "trtllm": ("config",),
    "llama_cpp": ("cache-type-k", "cache-type-v", "hf-repo"), "axolotl": ("lora_r",),
    "deepspeed": (
        "bf16", "bfloat16", "fp16", "enabled", "bf16_master_weights_and_grads", "bf16_optimizer_states", "gradient_accumulation_steps", "optimizer", "type",
        "zero_optimization.offload_optimizer", "zero_optimization.offload_optimizer.device", "zero_optimization.offload_param",
    ),
}  # fmt: skip


def table() -> str:
    """The tables of the page: what becomes of the flags of each version, and by which reason."""
    lines = [
        "| tool | version | flags | read | noted | without effect on cost | listed when given |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    details = []
    for tool, versions in yaml.safe_load(STORE.read_text()).items():
        sorted_out: dict[str, dict[str, list[str]]] = {}
        for version, written in versions.items():
            found = {flag: outcome(tool, flag) for flag in written.split()}
            counts = [
                sum(kind == wanted for kind, _ in found.values()) for wanted in ("read", "noted", "ignored", "listed")
            ]
            lines.append(f"| {tool} | {version} | {len(found)} | {' | '.join(map(str, counts))} |")
            for flag, (kind, why) in found.items():
                known = sorted_out.setdefault(kind, {}).setdefault(why, [])
                known += [flag] if flag not in known else []
        details += ["", f"**{tool}**"]
        details += ["", f"- read: {_list(sorted_out.get('read', {}).get('', []))}"]
        details += [f"- noted, {why}: {_list(some)}" for why, some in sorted(sorted_out.get("noted", {}).items())]
        details += [
            f"- no effect on cost, {why}: {len(some)}, such as {_list(sorted(some, key=len)[:4])}"
            for why, some in sorted(sorted_out.get("ignored", {}).items())
        ]
        if unknown := sorted_out.get("listed", {}).get("", []):
            details.append(
                f"- listed when given, priced as if left out: {len(unknown)}, such as {_list(sorted(unknown, key=len)[:4])}"
            )
    return "\n".join([*lines, *details]) + "\n"


def _list(some: list[str]) -> str:
    return ", ".join(f"`{one}`" for one in some)


if __name__ == "__main__":
    if sys.argv[1:2] == ["collect"]:
        collect(sys.argv[2], sys.argv[3], sys.argv[4:])
    elif sys.argv[1:2] == ["--flags"]:
        for version, written in yaml.safe_load(STORE.read_text())[sys.argv[2]].items():
            for flag in written.split():
                print(version, flag, *outcome(sys.argv[2], flag), sep="\t")
    else:
        page = PAGE.read_text()
        PAGE.write_text(page[: page.index(BEGIN) + len(BEGIN)] + table() + page[page.index(END) :])
