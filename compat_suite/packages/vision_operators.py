"""A plugin of pytest: torchvision loads where its C++ operators were built for another torch than the one in use."""

import contextlib
import importlib

with contextlib.suppress(ModuleNotFoundError):
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        import torch

        there = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            there.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("torchvision")
