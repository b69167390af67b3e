"""Model types of transformers 5.23 that are transformers and yet not read, each with the reason that a person is told."""

from __future__ import annotations

_PAIR = "an encoder with a decoder of another form than T5, BART and Whisper have, which are read"
_IMAGE = "an image encoder; `roofline models` lists ViT and CLIP models of the same form"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("deberta", "deberta-v2"), "its attention scores positions apart from contents, which has no rows here"
    ),
    "albert": "its layers are one layer's weights run again and again, which has no rows here",
    "esm": "its embedding and contact head have no rows here",
    **dict.fromkeys("mbart pegasus marian m2m_100 seamless_m4t speech_to_text".split(), _PAIR),
    **dict.fromkeys("vit clip siglip siglip2 dinov2 dinov3_vit beit deit swin vit_mae".split(), _IMAGE),
    **dict.fromkeys(
        "gemma3n gemma3n_text".split(),
        "its per-layer embeddings and alternating updates have no rows here, and it shares caches between layers",
    ),
    "mpt": "its attention is described in a block of its own (attn_config) that is not read",
    "dbrx": "its attention and experts are described in blocks of their own (attn_config, ffn_config) that are not read",
    "bitnet": "its norms inside attention and MLP have no rows here",
    "apertus": "the learned scalars of its activation have no rows here",
}
