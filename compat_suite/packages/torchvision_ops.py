"""A pytest plug-in: torchvision can be imported where its compiled operators cannot be loaded.

They are built for one release of torch, and one kind of it; with another, `import torchvision` raises since it describes
operators that nobody has defined. What is defined here cannot be called.
"""

import torch

try:
    import torchvision  # noqa: F401
except RuntimeError:
    _there = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _there.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
