"""torch.export: a module as one program that needs no source, over `torchgrad_jax.interop.export`.

batch = Dim("batch", min=2)
program = export(model, (x,), dynamic_shapes={"x": {0: batch}})
program.module()(y)      # a module with the same parameters
save(program, "model.pt2")
"""

from __future__ import annotations

from .._core.errors.absent import refusal as _refusal
from ..utils._pytree import register_dataclass as _register_dataclass
from ._files import load as load, save as save
from .dynamic_shapes import Dim as Dim, ShapesCollection as ShapesCollection, dims as dims
from .exported_program import ExportedProgram as ExportedProgram, export as export

__all__ = ["Dim", "ExportedProgram", "ShapesCollection", "dims", "export", "load", "register_dataclass", "save"]


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let instances of a dataclass be arguments and results of exported programs.

    Args:
        cls: the dataclass; its fields that are not None are the parts.
        serialized_type_name: what `treespec_dumps` calls it.

    Raises:
        ValueError: the class is no dataclass, or was registered before.
    """
    _register_dataclass(cls, serialized_type_name=serialized_type_name)


_GRAPHS = "a program is StableHLO, which XLA compiles, and no graph of ATen's operators"
UnflattenedModule, unflatten, default_decompositions, draft_export = (
    _refusal(f"torch.export.{name}", _GRAPHS, NotImplementedError)
    for name in ("UnflattenedModule", "unflatten", "default_decompositions", "draft_export")
)
