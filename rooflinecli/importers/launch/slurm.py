"""The header of a batch job (#SBATCH lines): how many nodes and devices, and the variables that Slurm sets from them.

Options as in Slurm 24.05 (slurm.schedmd.com/sbatch.html, "Output environment variables").
"""

from __future__ import annotations

import re
import shlex
from itertools import pairwise

_LINE = re.compile(r"^#SBATCH[ \t]+(-.+)$", re.MULTILINE)
_SHORT = {"N": "nodes", "n": "ntasks", "G": "gpus", "c": "cpus-per-task"}
_COUNT = re.compile(r"(?:.*:)?(\d+)(?:\(.*)?$")


def header(text: str) -> dict[str, str]:
    """Options of the #SBATCH lines by their long names; a line commented out (##SBATCH) is ignored."""
    found: dict[str, str] = {}
    for match in _LINE.finditer(text):
        try:
            words = shlex.split(match[1], comments=True)
        except ValueError:
            continue
        for word, after in pairwise([*words, ""]):
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                found[name] = value if equals else after
            elif word.startswith("-") and word[1:2] in _SHORT:
                found[_SHORT[word[1]]] = word[2:].lstrip("=") or after
    return found


def _count(written: str | None) -> int | None:
    """The number in `4`, `a100:4` or `gpu:h100:8`; None for a range, a list or nothing."""
    match = _COUNT.match(written or "")
    return int(match[1]) if match else None


def _per_node(job: dict[str, str]) -> int | None:
    gres = job.get("gres", "")
    return _count(job.get("gpus-per-node")) or (_count(gres) if gres.startswith("gpu") else None)


def devices(job: dict[str, str]) -> int | None:
    """Accelerators of the job: its total, or nodes times those of a node; None where neither is given."""
    nodes, each = _count(job.get("nodes")), _per_node(job)
    tasks, of_task = _count(job.get("ntasks")), _count(job.get("gpus-per-task"))
    return (
        _count(job.get("gpus"))
        or (nodes * each if nodes and each else None)
        or (tasks * of_task if tasks and of_task else None)
    )


def variables(job: dict[str, str]) -> dict[str, str | list[str]]:
    """Variables that Slurm sets for the script."""
    nodes, each = _count(job.get("nodes")), _per_node(job)
    of_node = _count(job.get("ntasks-per-node"))
    tasks = _count(job.get("ntasks")) or (nodes * of_node if nodes and of_node else None)
    found = {
        "SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS": tasks, "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": of_node, "SLURM_GPUS_PER_NODE": each, "SLURM_GPUS_ON_NODE": each,
        "SLURM_GPUS": devices(job),
    }  # fmt: skip
    return {name: str(count) for name, count in found.items() if count}
