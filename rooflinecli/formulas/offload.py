"""Weights that stay in the memory of the host: what of a model does, and what it costs to bring them over for a prompt; caches of idle
sessions by the tier of memory that keeps them.

Source of the forms: ggml-org/llama.cpp (-ngl, --n-cpu-moe); published runs of gpt-oss-120b and a 14B with some layers on the host. Rows of offload.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.formula_table import formula_table

if TYPE_CHECKING:
    from rooflinecli.core.formula_table import __getattr__ as __getattr__

globals().update(formula_table(__file__, __name__))
