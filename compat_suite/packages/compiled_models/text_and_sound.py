"""transformers: models of images, of sound, and of images with words."""

from __future__ import annotations

import functools
from typing import Any

from .words import SMALL, build

LAYERS = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
IMAGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "vit": ("ViTForImageClassification", "ViTConfig", {**LAYERS, "image_size": 32, "patch_size": 8, "num_labels": 5}),
    "deit": (
        "DeiTForImageClassification",
        "DeiTConfig",
        {**LAYERS, "image_size": 32, "patch_size": 8, "num_labels": 5},
    ),
    "dinov2": (
        "Dinov2ForImageClassification",
        "Dinov2Config",
        {**LAYERS, "image_size": 32, "patch_size": 8, "num_labels": 5},
    ),
    "swin": (
        "SwinForImageClassification",
        "SwinConfig",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 16,
            "depths": [2, 2],
            "num_heads": [2, 2],
            "window_size": 4,
            "num_labels": 5,
        },
    ),
    "convnext": (
        "ConvNextForImageClassification",
        "ConvNextConfig",
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "num_labels": 5},
    ),
    "resnet": (
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 5, "layer_type": "basic"},
    ),
}


def images(kind: tuple[str, str, dict[str, Any]]) -> Any:
    """A classification of images."""
    import torch

    from .training import Training

    def batch() -> dict[str, Any]:
        return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 5, (2,))}

    return Training(build(*kind), batch)


def clip() -> Any:
    """Images and words drawn towards each other."""
    import torch

    from .training import Training, small_words

    text = {**SMALL, "eos_token_id": 1, "bos_token_id": 2, "pad_token_id": 0}
    vision = {**LAYERS, "image_size": 32, "patch_size": 8}
    options = {"text_config": text, "vision_config": vision, "projection_dim": 16}

    def batch() -> dict[str, Any]:
        words = small_words()
        words[:, -1] = 1
        return {"input_ids": words, "pixel_values": torch.randn(2, 3, 32, 32), "return_loss": True}

    return Training(build("CLIPModel", "CLIPConfig", options), batch)


def whisper() -> Any:
    """Words from a spectrum."""
    import torch

    from .training import Training, small_words

    options = {
        "vocab_size": 64,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "num_mel_bins": 8,
        "max_source_positions": 16,
        "max_target_positions": 32,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 3,
        "begin_suppress_tokens": None,
        "suppress_tokens": None,
    }
    model = build("WhisperForConditionalGeneration", "WhisperConfig", options)
    return Training(model, lambda: {"input_features": torch.randn(2, 8, 32), "labels": small_words()})


def wav2vec2() -> Any:
    """Letters from a waveform."""
    import torch

    from .training import Training, small_words

    options = {
        **LAYERS,
        "vocab_size": 32,
        "conv_dim": [16, 16],
        "conv_kernel": [10, 3],
        "conv_stride": [5, 2],
        "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 8,
        "num_conv_pos_embedding_groups": 2,
        "mask_time_prob": 0.0,
        "layerdrop": 0.0,
        "ctc_loss_reduction": "mean",
    }
    model = build("Wav2Vec2ForCTC", "Wav2Vec2Config", options)
    return Training(model, lambda: {"input_values": torch.randn(2, 400), "labels": small_words(32, (2, 6))})


MODELS = {
    **{f"transformers {name}": functools.partial(images, kind) for name, kind in IMAGES.items()},
    "transformers clip": clip,
    "transformers whisper": whisper,
    "transformers wav2vec2": wav2vec2,
}
