"""Flags of other tools and the option of the same meaning here, for error messages: the nearest spelling is rarely the nearest meaning."""

from __future__ import annotations

HERE: dict[str, str] = {
    **dict.fromkeys(("--model", "--model-path", "--model-name", "--hf-model"), "the first argument: `roofline estimate org/name`"),
    **dict.fromkeys(("--gpu", "--chip", "--device", "--accelerator", "--gpu-type", "--system"), "--hw"),
    **dict.fromkeys(("--gpus", "--n-gpus", "--ngpus", "--chips"), "-n"),
    **dict.fromkeys(("--tensor-parallel", "--tp-size", "--tp_size"), "--tp"),
    **dict.fromkeys(("--pipeline-parallel", "--pp-size", "--pp_size"), "--pp"),
    **dict.fromkeys(("--data-parallel", "--dp-size", "--dp_size"), "--dp"),
    **dict.fromkeys(("--cp-size",), "--cp"),
    **dict.fromkeys(("--enable-expert-parallel",), "--ep"),
    **dict.fromkeys(("--bs",), "--batch"),
    **dict.fromkeys(("--input-length", "--prompt-len", "--context"), "--prompt"),
    **dict.fromkeys(("--output-length", "--max-tokens", "--max-new-tokens"), "--output"),
    **dict.fromkeys(("--sequence-length", "--max-seq-len"), "--seq-len"),
    **dict.fromkeys(("--quantize",), "--dtype, or --weight-dtype for weights alone"),
    **dict.fromkeys(("--kv-cache",), "--kv-dtype"),
    **dict.fromkeys(("--rate",), "--qps"),
    **dict.fromkeys(("--max-num-seqs",), "--concurrency"),
    **dict.fromkeys(("--json",), "--format json"),
    **dict.fromkeys(("--backend",), "--engine in serving, --framework in training"),
}  # fmt: skip
