"""timm and torchvision: models of images, narrow or with few layers, on small images."""

from __future__ import annotations

import functools
from typing import Any

from ..vision_operators import load

TIMM: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet18": ("resnet18", {"channels": (8, 16, 24, 32)}),
    "vit_tiny": ("vit_tiny_patch16_224", {"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 48}),
    "convnext": ("convnext_tiny", {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}),
    "efficientnet": ("test_efficientnet", {}),
    "swin": (
        "swin_tiny_patch4_window7_224",
        {"img_size": 32, "window_size": 4, "embed_dim": 16, "depths": (2, 2), "num_heads": (2, 2)},
    ),
    "mobilenetv3": ("mobilenetv3_small_050", {}),
    "deit": ("deit_tiny_patch16_224", {"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 48}),
    "mlp-mixer": ("mixer_s16_224", {"img_size": 32}),
}


ROUGH = ("mobilenet", "efficientnet")
"""Models of many norms over few values each, which make gradients in the millions of what rounding leaves."""


def classification(name: str, model: Any) -> Any:
    """Images and their classes; more of them, and in double precision, where rounding alone would decide."""
    import torch

    from .training import Training

    rough = any(part in name for part in ROUGH)
    kind, size = (torch.float64, 64) if rough else (torch.float32, 32)

    def batch() -> Any:
        return torch.randn(4, 3, size, size, dtype=kind), torch.randint(0, 5, (4,))

    return Training(model.to(kind).train(), batch, lambda m, b: torch.nn.functional.cross_entropy(m(b[0]), b[1]))


def of_timm(name: str, options: dict[str, Any]) -> Any:
    """A model of timm."""
    load()
    import timm

    return classification(name, timm.create_model(name, num_classes=5, **options))


def of_torchvision(name: str, options: dict[str, Any]) -> Any:
    """A model of torchvision."""
    load()
    from torchvision import models

    return classification(name, getattr(models, name)(num_classes=5, **options))


MODELS = {
    **{f"timm {name}": functools.partial(of_timm, *kind) for name, kind in TIMM.items()},
    "torchvision mobilenet_v2": functools.partial(of_torchvision, "mobilenet_v2", {"width_mult": 0.25}),
    "torchvision vit": functools.partial(
        of_torchvision,
        "VisionTransformer",
        {"image_size": 32, "patch_size": 8, "num_layers": 2, "num_heads": 2, "hidden_dim": 32, "mlp_dim": 48},
    ),
}
