"""What the image processors of transformers make of images of random sizes: golden_images.json, next to the rules of layers/images.py.

    pip install 'rooflinecli[oracle]' && python tests/oracle/images.py

The functions are taken out of their files by name, since the files import torchvision.
"""

from __future__ import annotations

import ast
import json
import math
import sys
from collections import defaultdict
from functools import lru_cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

GOLDEN = Path(__file__).with_name("golden_images.json")
SIZES = 40


class Size(NamedTuple):
    height: int
    width: int


def functions(file: str) -> dict[str, Any]:
    """The plain functions of a file of transformers/models."""
    import torch
    import transformers

    path = Path(transformers.__file__).parent / "models" / file
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    for node in tree.body:
        node.returns = None
        for arg in node.args.args:
            arg.annotation = None
    space: dict[str, Any] = {"math": math, "torch": torch, "lru_cache": lru_cache, "defaultdict": defaultdict}
    space["get_image_size"] = lambda image, *_: image
    space["ChannelDimension"] = SimpleNamespace(FIRST=0)
    exec(compile(tree, str(path), "exec"), space)
    return space


def sizes() -> list[tuple[int, int]]:
    r = Random("20261122")
    drawn = [(r.randrange(20, 3000), r.randrange(20, 3000)) for _ in range(SIZES)]
    return [(1024, 768), (1024, 1024), (336, 336), (4000, 300), *drawn]


def refresh() -> None:
    import torch
    import transformers

    smart = functions("qwen2_vl/image_processing_qwen2_vl.py")["smart_resize"]
    got = functions("got_ocr2/image_processing_got_ocr2.py")["get_optimal_tiled_canvas"]
    gemma = functions("gemma4/image_processing_gemma4.py")["get_aspect_ratio_preserving_size"]
    llama = functions("llama4/image_processing_llama4.py")
    pixtral = functions("pixtral/image_processing_pixtral.py")["get_resize_output_image_size"]
    canvases = torch.tensor(llama["find_supported_resolutions"](16, Size(336, 336)))
    rows = []
    for w, h in sizes():
        image = SimpleNamespace(shape=(3, h, w))
        fit = llama["get_best_fit"]((h, w), canvases)
        rows.append(
            {
                "image": f"{w}x{h}",
                "qwen2": smart(h, w, 28, 3136, 12845056),
                "qwen3": smart(h, w, 32, 65536, 16777216),
                "internvl": got((h, w), (252, 252), 1, 12),
                "gemma4": list(gemma(h, w, 16, 280 * 9, 3)),
                "llama4": [int(side) // 336 for side in fit],
                "mistral3": _pixtral(pixtral, image, (h, w)),
            }
        )
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    GOLDEN.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(rows)} images -> {GOLDEN}", file=sys.stderr)


def _pixtral(resize: Any, image: Any, size: tuple[int, int]) -> list[int]:
    return [int(side) for side in resize(size, (1540, 1540), (28, 28))]


if __name__ == "__main__":
    refresh()
