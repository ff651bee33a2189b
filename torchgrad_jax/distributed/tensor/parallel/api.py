"""`parallelize_module`: which layers of a module get which style; and `loss_parallel`."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

from ...._core.errors import warn
from ...._core.signals import contextmanager
from ....nn.modules.module import Module
from ...device_mesh import DeviceMesh, current_mesh
from .style import ParallelStyle


def parallelize_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    parallelize_plan: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Split the layers of a module over a mesh.

    Args:
        module: changed in place.
        device_mesh: a mesh of one dimension, such as a slice of a larger one.
        parallelize_plan: a style, or a dictionary from names of submodules, with `*` where any name will do, to
            styles.
        src_data_rank: where along the mesh the process is whose parameters all take; if None, all
            have the same already.
    """
    mesh = current_mesh(device_mesh)
    if parallelize_plan is None:
        warn.to_user(
            "No parallelize_plan is provided and auto-parallel is not supported "
            "at the moment, so this parallelize_module call will do nothing."
        )
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        if mesh.ndim != 1:
            raise ValueError(f"parallelize_module() needs a mesh of one dimension, such as {mesh}['tp'], not {mesh}")
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for"
            f" parallelize_plan, {type(parallelize_plan)} found!"
        )
    for path, style in parallelize_plan.items():
        for found in _matching(module, path):
            parallelize_module(found, mesh, style, src_data_rank=src_data_rank)
    return module


def _matching(module: Module, path: str) -> list[Module]:
    """The submodules whose names a pattern fits."""
    if path == "":
        return [module]
    token, _, rest = path.partition(".")
    children = [child for name, child in module.named_children() if fnmatch(name, token)]
    if not children:
        warn.to_user(
            f"Parallelize plan key '{path}' could not be resolved: "
            f"no submodule matching token '{token}' in module {module}, "
            f"skipping this plan entry."
        )
    return [found for child in children for found in _matching(child, rest)]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Let `cross_entropy` take logits that are split over their classes.

    XLA does so inside and outside of this block: maxima and sums are reduced over the devices, and the logits are
    not gathered. The block is for programs written for PyTorch, which need it.
    """
    yield
