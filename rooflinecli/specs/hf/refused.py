"""Model types of transformers 5.23 that are transformers and yet not read, each with the reason that a person is told."""

from __future__ import annotations

_PAIR = "an encoder with a decoder of another form than T5, BART and its relatives, and Whisper have, which are read"
_IMAGE = "an image encoder of another form than ViT, DINOv2, CLIP and SigLIP have, which are read"
REFUSED: dict[str, str] = {
    **dict.fromkeys(
        ("deberta", "deberta-v2"), "its attention scores positions apart from contents, which has no rows here"
    ),
    "albert": "its layers are one layer's weights run again and again, which has no rows here",
    "esm": "its embedding and contact head have no rows here",
    **dict.fromkeys("m2m_100 seamless_m4t speech_to_text".split(), _PAIR),
    **dict.fromkeys("siglip2 dinov3_vit beit deit swin vit_mae".split(), _IMAGE),
    **dict.fromkeys(
        ("gemma3n",),
        "its towers (MobileNet, sound) have no rows here; give its text_config as a config of its own to count the decoder",
    ),
    **dict.fromkeys(
        "gemma4_unified gemma4_unified_text".split(),
        "its one decoder for text, images and sound has no rows here; gemma4 is read",
    ),
    **dict.fromkeys(
        ("laguna",), "its head counts differ from layer to layer in a way that has no rows here"
    ),
    **dict.fromkeys(
        "jetmoe doge longcat_flash".split(),
        "its mixtures (of attention heads, of empty or nested experts) have no rows here",
    ),
    **dict.fromkeys(
        "xlstm reformer xlnet ctrl transfo-xl zaya olmo_hybrid_moe".split(),
        "its mixer or memory is not among those read here",
    ),
    "kimi_k3": "its attention over the outputs of earlier layers and its gated latent attention have no rows here",
    **dict.fromkeys("step3p5 step3p7".split(), "its head counts differ from layer to layer in a way that has no rows here"),
    "zamba": "its shared block beside Mamba-1 in several heads has no rows here; zamba2 is read",
    "diffllama": "its differential attention (two softmaxes subtracted) has no rows here",
    "gpt_neox_japanese": "its last layer alone has a bias, which has no rows here",
    "modernbert-decoder": "its head of a dense layer and a norm has no rows here",
}
