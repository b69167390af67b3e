"""`roofline calibrate FILE... --hw H` as a record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.questions.question import Question
from rooflinecli.specs.options import LOAD, EstimateOptions, Number, OptText, Texts, field

if TYPE_CHECKING:  # a help page needs none of it
    from rooflinecli.calibrate.answer import CalibrationAnswer


class Calibrate(EstimateOptions, Question["CalibrationAnswer"]):
    """Fit the engine's constants to your own measurements, validated on held-out rows, and write a hardware file.

    Reads vLLM, SGLang, AIPerf, genai-perf, GuideLLM, InferenceX, trtllm-bench, llama-bench, MLPerf, NCCL, OSU and perftest
    results, tables of results, and logs of Megatron, NeMo, torchtitan, MaxText, DeepSpeed, llm-foundry and the Hugging Face Trainer. Exit code 1
    when nothing is written because the held-out rows got worse.
    """

    verb = "calibrate"
    examples = (
        "roofline calibrate bench.json --hw h100 --tp 8 --out my-cluster.yaml",
        "roofline calibrate train.log --hw h100 --model llama-3-8b -n 64 --batch 512 --seq-len 8k",
        "roofline estimate llama70b --hw my-cluster.yaml --engine vllm --concurrency 64",
    )
    without = frozenset({"phase", "efficiency", "attention_flops", "price", "tokens", "utilization"})
    # fmt: off
    files: Texts = field("free", "Logs and results of benchmarks and training runs.", positional=True, several=True, panel=LOAD, metavar="FILE...", kw_only=False)
    model: OptText = field("name", "The model, where a file does not name it.", default=None, panel=LOAD)  # type: ignore[assignment]
    held_out: Number = field("fraction", "Fraction of your rows that the fit does not see, for validation.", default=0.3, most=0.9, former=("hold-out",))
    target: OptText = field("free", "The estimate you care about, as its flags: picks the next measurement.", default=None, metavar="FLAGS")
    # fmt: on

    def answer(self, progress: Callable[[int, int], None] = lambda done, total: None) -> CalibrationAnswer:
        from rooflinecli.calibrate.answer import calibrate
        from rooflinecli.engine import build_request
        from rooflinecli.specs.flag_text import estimate_options

        given = build_request.named({"model": "-", **self.options()})
        named = {name: value for name, value in given.items() if value != "-"}
        target = None if self.target is None else estimate_options("--target", self.target, self.hw)
        return calibrate([Path(path) for path in self.files], named, self.held_out, target, progress)
