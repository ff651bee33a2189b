"""diffusers: networks that remove noise, with what conditions them, and an autoencoder."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

BLOCKS = {"in_channels": 4, "layers_per_block": 1, "block_out_channels": (8, 16), "norm_num_groups": 4}
UNET = {
    **BLOCKS,
    "sample_size": 8,
    "out_channels": 4,
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
    "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    "attention_head_dim": 4,
}
CROSS = {
    **BLOCKS,
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "cross_attention_dim": 8,
    "attention_head_dim": 4,
}
CONDITIONED = {**CROSS, "sample_size": 8, "out_channels": 4, "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D")}
CONTROL = {**CROSS, "conditioning_embedding_out_channels": (4, 8)}
DIT = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 2,
    "num_attention_heads": 2,
    "attention_head_dim": 8,
    "num_embeds_ada_norm": 10,
    "norm_num_groups": 4,
}
SD3 = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 2,
    "num_attention_heads": 2,
    "attention_head_dim": 8,
    "joint_attention_dim": 8,
    "caption_projection_dim": 16,
    "pooled_projection_dim": 8,
    "pos_embed_max_size": 8,
}
AUTOENCODER = {
    "in_channels": 3,
    "out_channels": 3,
    "latent_channels": 2,
    "block_out_channels": (8, 8),
    "norm_num_groups": 4,
    "sample_size": 16,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}


def noise_and_steps(**more: tuple[int, ...]) -> dict[str, Any]:
    """A batch: noisy images, the steps that they are at, and tensors of numbers by name."""
    import torch

    return {
        "x": torch.randn(2, 4, 8, 8),
        "timestep": torch.randint(0, 10, (2,)),
        **{name: torch.randn(shape) for name, shape in more.items()},
    }


def squares(model: Any, batch: dict[str, Any], first: str = "sample") -> Any:
    """The noise is to be found."""
    rest = {name: x for name, x in batch.items() if name != "x"}
    return (model(**{first: batch["x"]}, **rest).sample - batch["x"]).square().mean()


def network(kind: str, options: dict[str, Any], batch: Callable[[], Any], loss: Callable[..., Any]) -> Any:
    """A network of diffusers."""
    import diffusers

    from .training import Training

    return Training(getattr(diffusers, kind)(**options).train(), batch, loss)


def classes() -> dict[str, Any]:
    """A batch with labels for `DiTTransformer2DModel`."""
    import torch

    return {**noise_and_steps(), "class_labels": torch.randint(0, 10, (2,))}


def residuals(model: Any, batch: dict[str, Any]) -> Any:
    """What a ControlNet adds to the layers of another network."""
    rest = {name: x for name, x in batch.items() if name != "x"}
    out = model(batch["x"], **rest)
    return out.mid_block_res_sample.square().mean() + sum((s - 1).square().mean() for s in out.down_block_res_samples)


def pictures() -> Any:
    """A batch for the autoencoder."""
    import torch

    return torch.rand(1, 3, 16, 16)


def reconstruction(model: Any, batch: Any) -> Any:
    """The autoencoder draws a latent image, and gives back the picture."""
    return (model(batch, sample_posterior=True).sample - batch).square().mean()


_text = functools.partial(noise_and_steps, encoder_hidden_states=(2, 3, 8))
MODELS = {
    "diffusers UNet2DModel": functools.partial(network, "UNet2DModel", UNET, noise_and_steps, squares),
    "diffusers UNet2DConditionModel": functools.partial(network, "UNet2DConditionModel", CONDITIONED, _text, squares),
    "diffusers AutoencoderKL": functools.partial(network, "AutoencoderKL", AUTOENCODER, pictures, reconstruction),
    "diffusers DiTTransformer2DModel": functools.partial(
        network, "DiTTransformer2DModel", DIT, classes, functools.partial(squares, first="hidden_states")
    ),
    "diffusers SD3Transformer2DModel": functools.partial(
        network,
        "SD3Transformer2DModel",
        SD3,
        functools.partial(noise_and_steps, encoder_hidden_states=(2, 3, 8), pooled_projections=(2, 8)),
        functools.partial(squares, first="hidden_states"),
    ),
    "diffusers ControlNetModel": functools.partial(
        network,
        "ControlNetModel",
        CONTROL,
        functools.partial(noise_and_steps, encoder_hidden_states=(2, 3, 8), controlnet_cond=(2, 3, 16, 16)),
        residuals,
    ),
}
