"""Kernel names -> what kind of work they are. The first pattern that matches decides."""

from __future__ import annotations

import re

KINDS = ("gemm", "attention", "elementwise", "collective", "copy", "other")

_PATTERNS = [
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        # NCCL and RCCL kernels, XLA collectives (started, fused or not), PyTorch c10d operators
        (
            "collective",
            r"nccl|rccl|all[-_ ]?reduce|all[-_ ]?gather|reduce[-_ ]?scatter|all[-_ ]?to[-_ ]?all|collective|"
            r"\bpsum\b|c10d::|sendrecv|cross.?device.?reduce|multimem",
        ),
        (
            "attention",
            r"flash|fmha|attention|\bsdpa\b|\bmha\b|paged_?att|softmax_attn|(^|[_\W])(attn|mla)([_\W]|$)(?!.*(proj|norm|gemm|out))",
        ),
        # XLA on a CPU hands matrix products with their neighbors to XNNPACK, YNN or oneDNN as one fusion; some reductions
        # become a ynn_fusion too, which the name does not distinguish, but they take little time compared with the matmuls
        (
            "gemm",
            r"(ynn|xnn|onednn)_fusion|gemm|gemv|cublas|cutlass|xmma|nvjet|wgmma|matmul|\bdot\b|dot[-_.]|_dot|convolution|conv\d?d|\bconv\b|"
            r"\bCijk_|tensile|rocblas|hipblas|wvsplitk|fused_moe|fmoe|grouped_mm|"  # ROCm's libraries, routed experts
            r"aten::(mm|bmm|addmm|baddbmm|linear|_scaled_mm)\b|onednn|mkldnn|linear|(^|[_\W])(qkv|q|k|v|o|up|gate|down|out)_?proj",
        ),
        (
            "copy",
            r"memcpy|memset|\bcopy|copy[-_.\d]*$|transpose|bitcast|infeed|outfeed|d2h|h2d|\bconcatenate|dynamic[-_]update[-_]slice"
            r"|direct_copy|CatArray",
        ),
        (
            "elementwise",
            r"element_?wise|vectorized|norm|gelu|silu|swiglu|relu|sigmoid|tanh|softmax|dropout|rope|rotary|residual|"
            r"(^|[_\W])(add|sub|mul|div|exp|bias|cast|convert|scale|reduce|sum|mean|select|compare|broadcast|gather|"
            r"scatter|embedding|iota|rng|sort|topk|wrapped|multiply|subtract|divide|maximum|tuple)([_.\W\d]|$)|"
            r"cross_?entropy|adam|multi_tensor|optimizer|triton_(poi|red|per)|at::native|aten::|"
            r"fusion",
        ),
    )
]


def classify(name: str) -> str:
    """The kind of a kernel by its name, else 'other'."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), "other")
