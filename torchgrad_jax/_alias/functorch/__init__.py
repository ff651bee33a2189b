"""The package `functorch`, which is installed along with torch, as programs under the alias find it."""

from typing import Any

from ... import version
from ..._core.errors.messages import no_such_name
from ..._functorch.deprecated import (
    combine_state_for_ensemble as combine_state_for_ensemble,
    functionalize as functionalize,
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
    jvp as jvp,
    make_functional as make_functional,
    make_functional_with_buffers as make_functional_with_buffers,
    vjp as vjp,
    vmap as vmap,
)
from ..._functorch.make_functional import (
    FunctionalModule as FunctionalModule,
    FunctionalModuleWithBuffers as FunctionalModuleWithBuffers,
)

__version__ = version.torch


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(no_such_name(f"functorch.{name}"))
