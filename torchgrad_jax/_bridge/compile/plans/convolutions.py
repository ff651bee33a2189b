"""The arithmetic of convolutions by cuDNN, which XLA's count of a compiled program leaves out.

For example, a kernel of 3 x 3 between 4 and 16 channels, whose result is 32 images of 10 x 10, takes
2 x (3 x 3 x 4 x 16) x (32 x 10 x 10) operations, forward as well as for the gradient of its input or of its kernel.
"""

from __future__ import annotations

import math
import re

_SHAPE = re.compile(r"^ +(?:ROOT )?%(\S+) = \(?\w+\[([\d,]*)\]", re.MULTILINE)
_CALL = re.compile(
    r"^ +(?:ROOT )?%(?P<result>\S+) = .*? custom-call\(%(?P<first>[^,)]+), %(?P<second>[^,)]+).*?"
    r"dim_labels=\w+_(?P<kernel>\w+)->\w+.*?custom_call_target=\"__cudnn\$conv(?P<kind>\w+)\"",
    re.MULTILINE,
)


def flops_of_convolutions(text: str) -> float:
    """Return how many operations the convolutions by cuDNN take in a program, which is given as XLA writes it."""
    calls = [*_CALL.finditer(text)]
    if not calls:
        return 0.0
    shapes = {name: [int(n) for n in sizes.split(",") if n] for name, sizes in _SHAPE.findall(text)}
    return sum(_flops(call, shapes) for call in calls)


def _flops(call: re.Match[str], shapes: dict[str, list[int]]) -> float:
    """Return 2 for each number of the kernel and each place of the images that the convolution gives."""
    result, first, second = (shapes[call[name]] for name in ("result", "first", "second"))
    kernel, images = {"BackwardFilter": (result, second), "BackwardInput": (second, first)}.get(
        call["kind"], (second, result)
    )
    return 2.0 * math.prod(kernel) * math.prod(images) / kernel[call["kernel"].index("o")]


__all__ = ["flops_of_convolutions"]
