"""torch with other kernels: each result of a transcendental function moved by a rounding, wherever it is computed."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

from ..libs import Lib

_ROUNDED = re.compile(
    r"^(?:tanh|sigmoid|log_sigmoid|a?cosh?|a?sinh?|a?tan|atan2|atanh|exp2?|expm1|log(?:2|10|1p)?|pow|erfc?|erfinv|"
    r"l?gamma|digamma|polygamma|mvlgamma|softplus|elu|gelu|silu|mish|celu|logit|logaddexp2?|logsumexp|xlogy|_?softmax|"
    r"_?log_softmax|special_\w+|i0|sinc|rsqrt|cumprod|_?logcumsumexp|log_sigmoid_forward)_?$"
)
"""What libraries of functions round as they like; sums and products of two numbers have one right result."""


def moved(lib: Lib, way: int) -> AbstractContextManager[Any]:
    """A context in which torch's own results come one or two last places up or down.

    It lies below everything that a program can see: functions given to transforms, checkpoints, gradients
    and what they save are computed through it, and no version, stride or node changes.
    """
    torch = lib.module
    from torch.utils._python_dispatch import TorchDispatchMode  # the oracle's alone

    class Moved(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            if _ROUNDED.match(func._schema.name.partition("::")[2]):
                for t in out if isinstance(out, tuple | list) else (out,):
                    if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex()):
                        t.mul_(1 + way * torch.finfo(t.dtype).eps)
            return out

    return Moved()
