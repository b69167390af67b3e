"""`roofline rl MODEL --hw HW -n N` as a record: one step of RL post-training, its rollout side and its training side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.questions.question import Question
from rooflinecli.specs import options as o

if TYPE_CHECKING:  # a help page needs none
    from collections.abc import Callable

    from rooflinecli.importers.logs.rl import RlStep
    from rooflinecli.importers.source import Options
    from rooflinecli.questions.rl.answer_types import RlAnswer

ALGORITHMS = ("grpo", "ppo", "dapo", "rloo", "reinforce++")
REFERENCE = ("grpo", "ppo", "rloo", "reinforce++")  # DAPO has no KL term, hence no reference policy
PROMPTS, SAMPLES = 512, 16
SMALLER = "take a larger -n, --tp, --pp or --zero, or --recipe lora"
SERVING_ONLY = frozenset(("kv-dtype", "engine", "gpu_memory_utilization", "gpu-memory-utilization"))


class Rl(
    o.Framework, o.ServingEngine, o.Adapters, o.TrainingRecipe, o.TrainingState, o.Money, o.TrainingMemory, o.TrainingLayout, o.ExpertLayout, o.Layout, o.Formats, o.Subject,
    Question["RlAnswer"],
):  # fmt: skip
    """What a step of RL post-training takes: rollout, log-probabilities, update, weight sync; seconds, memory of the roles, dollars.

    Exit code 1 when the layout does not fit; the answer is printed all the same.
    """

    verb = "rl"
    examples = (
        "roofline rl qwen3-30b-a3b --hw h100 -n 32 --prompts 64 --samples 32 --output lognormal:3k,0.5 --max-output 4k",
        "roofline rl qwen3-32b --hw h100 -n 64 --rollout-devices 32 --staleness 1 --output lognormal:3k,0.5",
        "roofline rl qwen3-32b --hw h100 -n 64 --search",
        "roofline rl qwen3-32b --hw h100 -n 32 --log train.log --changes",
    )
    helps = {
        "n": "Devices in all: of both sides where --rollout-devices splits them.",
        "tp": "Tensor parallel size of the trainer.",
        "pp": "Pipeline stages of the trainer.",
        "dp": "Data parallel replicas of the trainer.",
        "ep": "Expert parallel size of the trainer.",
        "engine": "Engine of the rollout: vllm (default), sglang, trtllm.",
    }
    without = frozenset(
        "max_num_seqs utilization electricity host_factor pue loss_chunks mlp_chunks capacity_factor".split()
    )
    # fmt: off
    model: o.OptText = o.field("name", o.Subject.model.help, default=None, panel=o.LOAD, positional=True, kw_only=False)  # type: ignore[assignment]
    hw: o.OptText = o.field("name", o.Subject.hw.help, default=None, panel=o.LOAD, fills="hardware", also=("hardware",), kw_only=False)  # type: ignore[assignment]
    algorithm: o.Text = o.field("choice", "Algorithm: decides whether there are a reference policy and a critic", default="grpo", choices=ALGORITHMS, panel=o.LOAD)
    prompts: o.OptWhole = o.field("whole", "Prompts of a step (512).", default=None, panel=o.LOAD)
    samples: o.OptWhole = o.field("whole", "Samples of each prompt (16; ppo: 1).", default=None, panel=o.LOAD)
    prompt: o.OptText = o.field("distribution", "Prompt tokens: 1k, uniform:LOW,HIGH, lognormal:MEAN,SIGMA or exponential:MEAN (1k).", default=None, panel=o.LOAD)
    output: o.OptText = o.field("distribution", "Output tokens over all turns, as --prompt (lognormal:2k,0.8).", default=None, panel=o.LOAD)
    max_output: o.OptNumber = o.field("length", "Longest output; longer ones are cut.", default=None, panel=o.LOAD)
    turns: o.Whole = o.field("whole", "Turns of each sample: the output is divided among them, and a tool answers between two.", default=1, most=1000, panel=o.LOAD)
    tool_wait: o.OptText = o.field("free", "Seconds a tool takes, such as 2, uniform:1,10 or lognormal:5,1.0.", default=None, metavar="SECONDS", panel=o.LOAD)
    tool_output: o.OptText = o.field("distribution", "Tokens that a tool adds to the context (256).", default=None, panel=o.LOAD)
    mini_batch: o.OptWhole = o.field("whole", "Sequences of an optimizer step; omitted: all of the step.", default=None, panel=o.LOAD)
    epochs: o.Whole = o.field("whole", "Passes of the update over a step's sequences.", default=1, panel=o.LOAD)
    packing: o.Switch = o.field("switch", "Pack sequences to the longest one in the update; --no-packing pads them.", default=True, panel=o.LOAD)
    max_tokens_per_device: o.OptNumber = o.field("length", "Tokens of a packed micro-batch; omitted: the longest sequence.", default=None, panel=o.LOAD)
    reference: o.OptSwitch = o.field("switch", "A reference policy for the KL term, as the algorithm has it.", default=None, panel=o.LOAD)
    critic: o.OptText = o.field("name", "Critic (ppo); omitted: as large as the policy.", default=None, panel=o.LOAD)
    reward_model: o.OptText = o.field("name", "A model that scores every sequence.", default=None, panel=o.LOAD)
    reward_time: o.Number = o.field("seconds", "Seconds of the reward that follow the rollout: rules, tests, judges.", default=0.0, panel=o.LOAD, least=0)
    rollout_devices: o.OptWhole = o.field("whole", "Devices of the rollout alone, out of -n; omitted: both sides share all of them.", default=None, panel=o.LAYOUT)
    rollout_tp: o.OptWhole = o.field("whole", "Tensor parallel size of a rollout engine; omitted: the fastest.", default=None, panel=o.LAYOUT)
    rollout_ep: o.OptWhole = o.field("whole", "Expert parallel size of a rollout engine.", default=None, panel=o.LAYOUT)
    rollout_batch: o.OptWhole = o.field("whole", "Samples that a rollout engine has at once; omitted: as many as its cache holds.", default=None, panel=o.LAYOUT, former=("max-num-seqs",))
    staleness: o.Whole = o.field("whole", "Steps that samples may lag behind the policy: 0 is synchronous, 1 one step off.", default=0, least=0, most=64, panel=o.LAYOUT)
    partial_rollout: o.OptSwitch = o.field("switch", "Samples cut off at a weight sync go on in the next step; as --staleness above 0 without --rollout-devices has it.", default=None, panel=o.LAYOUT)
    offload_state: o.OptSwitch = o.field("switch", "Trainer's state in host memory during the rollout; omitted: where the roles do not fit together.", default=None, panel=o.LAYOUT)
    weight_sync_bandwidth: o.OptNumber = o.field("bytes_per_s", "Weights per second from trainer to rollout, over all devices.", default=None, panel=o.LAYOUT)
    fixed: o.OptNumber = o.field("seconds", "Seconds of a step that no part accounts for: data, controller, checkpoints.", default=None, panel=o.LAYOUT, least=0)
    rollout_dtype: o.OptText = o.field("dtype", "Number format of the rollout; omitted: --dtype.", default=None, panel=o.NUMBERS)
    steps: o.OptWhole = o.field("whole", "Steps of the run, for its hours and dollars.", default=None, panel=o.LOAD)
    seed: o.Whole = o.field("whole", "Seed of the lengths.", default=0, least=0, panel=o.LOAD)
    search: o.Switch = o.field("switch", "Rank layouts: shared or split devices, sizes of both sides.", default=False, panel=o.LAYOUT)
    changes: o.Switch = o.field("switch", "Options that would shorten the step, each with its gain.", default=False, panel=o.LAYOUT)
    log: o.OptText = o.field("file", "A log of verl, NeMo RL, OpenRLHF, slime or AReaL: its parts next to the expected ones.", default=None, panel=o.ENGINE)
    calibrate: o.OptText = o.field("file", "A log of the same framework and chip; with --calibrate-question, what it measured.", default=None, panel=o.ENGINE, metavar="LOG")
    calibrate_question: o.OptText = o.field("free", "Options in which the run of --calibrate differs from this one, such as '-n 16 --rollout-devices none'.", default=None, panel=o.ENGINE, metavar="OPTIONS")
    source: o.OptText = o.field("free", "Read options from a config or a command of verl, NeMo RL, OpenRLHF or slime.", default=None, metavar="LAUNCH", long="from", panel=o.ENGINE)
    # fmt: on

    @property
    def sequences(self) -> int:
        """Sequences of a step."""
        return (self.prompts or PROMPTS) * self.samples_each

    @property
    def samples_each(self) -> int:
        return self.samples or (1 if self.algorithm == "ppo" else SAMPLES)

    @property
    def has_reference(self) -> bool:
        return self.algorithm in REFERENCE if self.reference is None else bool(self.reference)

    @property
    def carries_over(self) -> bool:
        """Whether samples are cut off at a weight sync, so that no engine waits for the longest."""
        if self.partial_rollout is None:
            return self.staleness > 0 and self.rollout_devices is None
        return bool(self.partial_rollout)

    def trainer_options(self, devices: float, model: str | None = None) -> Options:
        """Options of an estimate of the update on a number of devices."""
        found = {name: value for name, value in self.options().items() if name not in SERVING_ONLY and name != "price"}
        return {**found, **({"model": model} if model else {}), "n": devices, "phase": "train"}

    def rollout_options(self, devices: float, tp: int) -> tuple[tuple[str, str], ...]:
        """Options of an estimate of one rollout engine."""
        given = self.options()
        kept = {
            name: str(value)
            for name, value in given.items()
            if name in SERVING_ONLY or name in ("model", "hw", "dtype", "memory", "host", "price")
        }
        kept.setdefault("engine", "vllm")
        if self.rollout_dtype:
            kept["dtype"] = self.rollout_dtype
        if self.rollout_ep:
            kept["ep"] = str(self.rollout_ep)
        return tuple(sorted({**kept, "n": f"{devices:g}", "tp": str(tp)}.items()))

    def answer(self, done: Callable[[int, int], None] = lambda done, of: None) -> RlAnswer:
        from rooflinecli.engine import build_request, option_conflicts
        from rooflinecli.engine.context import EstimateContext
        from rooflinecli.questions.rl.answer import answered

        asked = self.launched()
        found = answered(asked, done)
        trainer = build_request.request(asked.trainer_options(found.trainer.devices))
        idle = option_conflicts.idle(EstimateContext(trainer), self.options(), {"train": found.trainer.layout})
        option_conflicts.warn_of_idle([idle])
        return found

    def infeasible(self, answer: RlAnswer) -> str:
        memory = answer.memory
        if memory.fits:
            return ""
        return f"the roles need {memory.most_bytes / 1e9:.0f} GB per device of {memory.capacity_bytes / 1e9:.0f} GB; {'' if self.search else 'try --search, or '}{SMALLER}"

    def launched(self) -> Rl:
        """The question with the options of --from, over which its own prevail. Raises UsageError."""
        if self.source is None:
            return self
        from rooflinecli.engine.build_request import warn
        from rooflinecli.importers.launch.rl_configs import options

        own = {name: value for name, value in self.written().items() if name != "source"}
        fields = Rl.fields()
        given = {fields[name].long: value for name, value in own.items()}
        return Rl.read({**options(self.source, Rl.named, warn, given), **given})

    def launch(self, tool: str) -> str:
        """The launch of the question by verl or nemo-rl, with the layout that was chosen where it leaves that open."""
        from rooflinecli.importers.launch.rl_configs import emit

        asked = self.launched()
        found = asked.answer()
        best = found.candidates[0] if found.candidates else None
        layout, apart = found.trainer.layout, asked.rollout_devices if best is None else best.rollout_devices
        chosen: Options = {"n": found.trainer.devices + (apart or 0), "rollout-tp": found.rollout.tp}
        chosen |= {axis: layout[axis] for axis in ("tp", "pp", "cp", "ep")}
        chosen |= {name: found.load[name] for name in ("prompts", "samples")}
        chosen |= {"reference": asked.has_reference, "staleness": found.staleness}
        if apart:
            chosen["rollout-devices"] = apart
        fields = Rl.fields()
        aside = ("search", "changes", "log", "calibrate", "calibrate_question")
        given = {fields[name].long: value for name, value in asked.written().items() if name not in aside}
        return emit(tool, {**given, **{name: value for name, value in chosen.items() if value is not None}})

    def logged(self) -> RlStep | None:
        """The median step of --log."""
        return None if self.log is None else step_of(self.log)


def step_of(path: str) -> RlStep:
    """The median step of a log. Raises DataError for a file without steps."""
    from pathlib import Path

    from rooflinecli.core.errors import DataError
    from rooflinecli.importers.logs.rl import median_step, steps
    from rooflinecli.importers.source import load

    found = steps(load(Path(path)))
    if not found:
        raise DataError(
            f"{path}: no step of RL post-training; expected a log of verl, NeMo RL, OpenRLHF, slime or AReaL"
        )
    return median_step(found)
