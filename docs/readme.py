"""Fill README.md's transcript blocks with what the commands print today: python docs/readme.py"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path

os.environ.update(COLUMNS="80", NO_COLOR="1")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def printed(command: str) -> str:
    """Standard output of a `roofline ...` line."""
    from rooflinecli.interfaces.cli.main import main

    out, argv = io.StringIO(), sys.argv
    sys.argv = command.split()
    try:
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main()
    finally:
        sys.argv = argv
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


OTHERS = "Inference: published, other releases and machines, throughput at the batch that memory allows"
ERRORS = (
    ("Matmul, bf16, H100 (TensorRT-LLM kernels)", "Kernels: matmul bf16", "h100-sxm trtllm"),
    ("All-reduce inside a node", "Collectives: NCCL all-reduce", "all but PCIe"),
    ("Training step, dense", "Training: both", "dense"),
    ("Training step, experts", "Training: both", "MoE"),
    ("Inter-token latency, dense", "Inference: collected, inter-token latency", "dense"),
    ("Inter-token latency, experts", "Inference: collected, inter-token latency", "MoE"),
    ("Time to first token under load, dense", "Inference: collected, time to first token", "dense"),
    ("Time to first token under load, experts", "Inference: collected, time to first token", "MoE"),
    ("Tokens/s at the largest batch", "Inference: published, throughput at the batch that memory allows", "all"),
    ("... on pages and machines no fit saw", OTHERS, "never seen"),
)
COLUMNS = ("rows", "mean error", "median", "in the 80 % interval", "bare floor")


def errors(page: str) -> str:
    """The lines of docs/accuracy.md that the README shows, as a table."""
    lines = ["| what | " + " | ".join(COLUMNS) + " |", "| --- " * (len(COLUMNS) + 1) + "|"]
    for name, title, group in ERRORS:
        table = page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0].strip().splitlines()
        heads, *rows = ([cell.strip() for cell in line.strip("| ").split(" | ")] for line in table if line[:1] == "|")
        found = next(dict(zip(heads, row, strict=False)) for row in rows if row[0].startswith(group))
        lines.append(f"| {name} | " + " | ".join(found[column] for column in COLUMNS) + " |")
    return "\n".join(lines)


def fill(text: str) -> str:
    """Replace the console block, the block after the explain command (its first lines), and the table of errors."""
    page = (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")
    text = re.sub(
        r"(<!-- errors -->\n).*?(\n<!-- /errors -->)", lambda m: m[1] + errors(page) + m[2], text, flags=re.DOTALL
    )
    text = re.sub(
        r"```console\n\$ (roofline [^\n]*)\n.*?```",
        lambda m: f"```console\n$ {m[1]}\n{printed(m[1])}\n```",
        text,
        flags=re.DOTALL,
    )
    pattern = r"(```sh\n(roofline estimate [^\n]*--explain[^\n]*)\n```\n\n```\n).*?```"
    return re.sub(
        pattern, lambda m: m[1] + "\n".join([*printed(m[2]).splitlines()[:22], "…"]) + "\n```", text, flags=re.DOTALL
    )


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(fill(path.read_text(encoding="utf-8")), encoding="utf-8")
