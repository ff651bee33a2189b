"""torchvision where its C++ operators were built for another torch than the one in use; also a plugin of pytest."""

import contextlib
import importlib


def load() -> None:
    """Import torchvision, if it is there, with operators that have a signature and no code if it must be so."""
    with contextlib.suppress(ModuleNotFoundError):
        try:
            importlib.import_module("torchvision")
        except RuntimeError:
            import torch

            there = torch.library.Library("torchvision", "DEF")
            for name in ("nms", "qnms"):
                there.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            importlib.import_module("torchvision")


load()
