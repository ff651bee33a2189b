"""The package `functorch`, which is installed along with torch: transforms that say where they are found now."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ... import func as _func, version
from ..._core.errors import warn as _warn
from ..._core.errors.messages import no_such_name as _no_such_name
from ..._functorch import make_functional as _old
from ..._functorch.make_functional import (
    FunctionalModule as FunctionalModule,
    FunctionalModuleWithBuffers as FunctionalModuleWithBuffers,
)

__version__ = version.torch


def _moved(fn: Callable[..., Any], new: str) -> Any:
    name = fn.__name__
    text = (
        f"We've integrated functorch into PyTorch. As the final step of the integration, `functorch.{name}` is "
        "deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. Please use "
        f"`{new}` instead; see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more details "
        "https://pytorch.org/docs/main/func.migrating.html"
    )

    @functools.wraps(fn)
    def moved(*args: Any, **kwargs: Any) -> Any:
        _warn.to_user(text, FutureWarning)
        return fn(*args, **kwargs)

    moved.__module__ = __name__
    moved.__doc__ = f"`{new}`, or what stood in its place."
    return moved


vmap = _moved(_func.vmap, "torch.vmap")
grad = _moved(_func.grad, "torch.func.grad")
grad_and_value = _moved(_func.grad_and_value, "torch.func.grad_and_value")
vjp = _moved(_func.vjp, "torch.func.vjp")
jvp = _moved(_func.jvp, "torch.func.jvp")
jacrev = _moved(_func.jacrev, "torch.func.jacrev")
jacfwd = _moved(_func.jacfwd, "torch.func.jacfwd")
hessian = _moved(_func.hessian, "torch.func.hessian")
functionalize = _moved(_func.functionalize, "torch.func.functionalize")
make_functional = _moved(_old.make_functional, "torch.func.functional_call")
make_functional_with_buffers = _moved(_old.make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _moved(_old.combine_state_for_ensemble, "torch.func.stack_module_state")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(_no_such_name(f"functorch.{name}"))
