"""What other tools call an option that has another name here: told when it is typed, since the nearest spelling rarely is the nearest meaning."""

from __future__ import annotations

HERE: dict[str, str] = {
    **dict.fromkeys(("--model", "--model-path", "--model-name", "--hf-model"), "the first argument: `roofline estimate org/name`"),
    **dict.fromkeys(("--gpu", "--chip", "--device", "--accelerator", "--gpu-type", "--system"), "--hw"),
    **dict.fromkeys(("--gpus", "--num-gpus", "--n-gpus", "--ngpus", "--chips", "--world-size", "--num-devices"), "-n"),
    **dict.fromkeys(("--tensor-parallel-size", "--tensor-parallel", "--tp-size", "--tp_size"), "--tp"),
    **dict.fromkeys(("--pipeline-parallel-size", "--pipeline-parallel", "--pp-size", "--pp_size"), "--pp"),
    **dict.fromkeys(("--data-parallel-size", "--data-parallel", "--dp-size", "--dp_size"), "--dp"),
    **dict.fromkeys(("--context-parallel-size", "--cp-size"), "--cp"),
    **dict.fromkeys(("--expert-parallel-size", "--ep-size", "--enable-expert-parallel"), "--ep"),
    **dict.fromkeys(("--batch-size", "--bs", "--global-batch-size", "--gbs"), "--batch"),
    **dict.fromkeys(("--micro-batch-size", "--mbs"), "--micro-batch"),
    **dict.fromkeys(("--isl", "--input-len", "--input-length", "--prompt-len", "--context"), "--prompt"),
    **dict.fromkeys(("--osl", "--output-len", "--output-length", "--max-tokens", "--max-new-tokens"), "--output"),
    **dict.fromkeys(("--seq-len", "--seq-length", "--sequence-length", "--max-seq-len"), "--seq"),
    **dict.fromkeys(("--quantization", "--quant", "--quantize", "--precision"), "--dtype, or --weight-dtype for weights alone"),
    **dict.fromkeys(("--kv-cache-dtype", "--kv-cache"), "--kv-dtype"),
    **dict.fromkeys(("--request-rate", "--rate", "--rps"), "--qps"),
    **dict.fromkeys(("--max-concurrency", "--max-num-seqs", "--users"), "--concurrency"),
    **dict.fromkeys(("--json",), "--format json"),
    **dict.fromkeys(("--backend", "--framework"), "--engine in serving, --software in training"),
}  # fmt: skip
