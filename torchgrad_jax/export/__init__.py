"""torch.export: a module as one program that needs no source, over `torchgrad_jax.interop.export`.

batch = Dim("batch", min=2)
program = export(model, (x,), dynamic_shapes={"x": {0: batch}})
program.module()(y)      # a module with the same parameters
save(program, "model.pt2")
"""

from __future__ import annotations

from .._core.errors.absent import refusal as _refusal
from ._files import load as load, save as save
from .dynamic_shapes import Dim as Dim, dims as dims
from .exported_program import ExportedProgram as ExportedProgram, export as export

__all__ = ["Dim", "ExportedProgram", "dims", "export", "load", "save"]

_GRAPHS = "a program is StableHLO, which XLA compiles, and no graph of ATen's operators"
UnflattenedModule, unflatten, default_decompositions, draft_export = (
    _refusal(f"torch.export.{name}", _GRAPHS, NotImplementedError)
    for name in ("UnflattenedModule", "unflatten", "default_decompositions", "draft_export")
)
