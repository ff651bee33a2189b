"""Convolutions over meshes of several axes: XLA is told to split no dimension that they slide along.

Where one axis of a mesh splits such a dimension and another axis does not take part, XLA (JAX 0.10) adds up the sums of
all devices instead of those of one group, and the result is too large by a factor. Batches and channels may be split.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from .caches import remember


def unsplit(x: Any, first: int) -> Any:
    """The same array, of which all devices have all of the dimensions from `first` on, if their mesh has several axes.

    Args:
        x: an operand or the result of a convolution.
        first: the number of the first dimension that may not be split.
    """
    return _primitive().bind(x, first=first)


def _batched(args: Any, dims: Any, *, first: int) -> tuple[Any, int]:
    (x,), (d,) = args, dims
    return unsplit(x if d == 0 else jax.numpy.moveaxis(x, d, 0), first + 1), 0


def _lowered(ctx: Any, value: Any, *, first: int) -> Any:
    """A constraint, where the program is over a mesh of several axes."""
    from jaxlib.mlir.dialects import sdy

    for mesh in _meshes(ctx.module_context.module, sdy):
        if sum(sdy.MeshAxisAttr(axis).size > 1 for axis in mesh.axes) > 1:
            dims = [
                sdy.DimensionShardingAttr.get([], is_closed=number >= first) for number in range(ctx.avals_in[0].ndim)
            ]
            return [sdy.ShardingConstraintOp(value, sdy.TensorShardingAttr.get(mesh, dims)).result]
    return [value]


def _meshes(module: Any, sdy: Any) -> Iterator[Any]:
    """The meshes over which the arguments of a program are spread; of one on all devices it may have no axes.

    Kernels are traced without a mesh, so that what they are lowered into is where the mesh is known.
    """
    for part in module.body.operations:
        if "arg_attrs" in part.operation.attributes:
            for of_argument in part.operation.attributes["arg_attrs"]:
                if "sdy.sharding" in of_argument:
                    sharding = sdy.TensorShardingAttr(of_argument["sdy.sharding"])
                    yield sdy.MeshAttr(sharding.mesh_or_ref)


@remember()
def _primitive() -> Any:
    """The primitive. It is made with the first convolution, because its imports are slow."""
    from jax.extend.core import Primitive
    from jax.interpreters import ad, batching, mlir

    p = Primitive("unsplit")
    p.made_by = _primitive  # so another process makes it, which reads a trace with this step
    p.def_abstract_eval(lambda x, first: jax.core.ShapedArray(x.shape, x.dtype))
    p.def_impl(lambda x, first: x)
    ad.deflinear2(p, lambda ct, x, first: [ct if isinstance(ct, ad.Zero) else unsplit(ct, first)])
    batching.primitive_batchers[p] = _batched
    mlir.register_lowering(p, _lowered)
    return p
