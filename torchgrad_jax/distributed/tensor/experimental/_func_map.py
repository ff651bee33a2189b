"""`local_map`: a function of what each device has, by `jax.shard_map`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec

from ...._bridge.jax_side.interop import as_jax, operator_of
from ...._engine.memory.tensor import Tensor
from ....utils import _pytree
from ...device_mesh import DeviceMesh, current_mesh
from .._dtensor import DTensor, said, spread
from .._specs import checked, spec_of
from ..placement_types import Partial

_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": jax.lax.psum,
    "avg": jax.lax.pmean,
    "max": jax.lax.pmax,
    "min": jax.lax.pmin,
}


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: Any = None,
    in_grad_placements: Any = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Any:
    """A function of tensors over a mesh that runs `func` on each device, with what that device has.

    Here *local* means one device, as `func` is traced once for all of them.

    Args:
        func: takes and returns the parts of one device.
        out_placements: how its results make whole tensors: a row of placements, or a tuple of rows; None for a result
            that is no tensor. Results with `Partial` are reduced over the devices.
        in_placements: how each argument has to lie, None for what is no tensor.
        in_grad_placements: not looked at, XLA places gradients.
        device_mesh: the mesh; that of the first argument on one if None.
        redistribute_inputs: whether arguments that lie otherwise are moved; otherwise they raise.
    """
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        flat, spec = _pytree.tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(flat):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input args {len(flat)}!"
            )
        mesh = device_mesh or next((x.device_mesh for x in flat if isinstance(x, DTensor)), None)
        if not any(isinstance(x, DTensor) for x in flat):
            return func(*args, **kwargs)
        mesh = current_mesh(mesh)
        rows = in_placements or [None] * len(flat)
        placed = [_placed(x, row, mesh, redistribute_inputs) for x, row in zip(flat, rows, strict=True)]
        return _Run(func, mesh, spec, placed, kwargs, out_placements).results()

    return mapped


def _placed(x: Any, row: Any, mesh: DeviceMesh, moves: bool) -> Any:
    """An argument as it has to lie."""
    if not isinstance(x, DTensor):
        if row is not None and not isinstance(x, Tensor):
            raise AssertionError(f"Non-Tensor input {x} expects None placements but received {row}!")
        return spread(x, mesh, row) if isinstance(x, Tensor) and row is not None else x
    held: Any = x
    if row is None or held.placements == tuple(row):
        return x
    if not moves:
        raise ValueError(
            f"arg {x} in local_map has a mismatched placements: arg placements is {held.placements} but the input "
            f"placements is {tuple(row)}! If redistribute_inputs is wanted, set redistribute_inputs=True to local_map."
        )
    return held.redistribute(mesh, row)


class _Run:
    """One call of a function on each device."""

    def __init__(self, func: Any, mesh: DeviceMesh, spec: Any, flat: list[Any], kwargs: Any, rows: Any) -> None:
        self.func, self.mesh, self.spec, self.flat, self.kwargs = func, mesh, spec, flat, kwargs
        self.at = [i for i, x in enumerate(flat) if isinstance(x, Tensor)]
        self.rows = rows if isinstance(rows, tuple) else (rows,)
        if all(not isinstance(row, list | tuple) and row is not None for row in self.rows):
            self.rows = (self.rows,)  # one row of placements
        if any(row is None for row in self.rows):
            raise NotImplementedError("local_map: a result that is no tensor")
        self.out_spec: Any = None

    def results(self) -> Any:
        tensors = [self.flat[i] for i in self.at]
        ins = tuple(self._spec_of(t) for t in tensors)
        whole = jax.shard_map(
            self._on_device, mesh=self.mesh.jax_mesh, in_specs=ins, out_specs=tuple(self._outs()), check_vma=False
        )
        out = operator_of(whole)(*tensors)
        return _pytree.tree_unflatten([said(t, self.mesh) for t in out], self.out_spec)

    def _spec_of(self, t: Any) -> PartitionSpec:
        if not isinstance(t, DTensor):
            return PartitionSpec()
        held: Any = t
        return spec_of(self.mesh, checked(self.mesh, held.placements, t.ndim), t.ndim)

    def _outs(self) -> list[PartitionSpec]:
        return [spec_of(self.mesh, row, 1 + max((p.dim for p in row if p.is_shard()), default=0)) for row in self.rows]

    def _on_device(self, *arrays: Any) -> Any:
        def run(*parts: Tensor) -> list[Any]:
            values = list(self.flat)
            for i, t in zip(self.at, parts, strict=True):
                values[i] = t
            out = self.func(*_pytree.tree_unflatten(values, self.spec), **self.kwargs)
            found, self.out_spec = _pytree.tree_flatten(out)
            return found

        found = as_jax(run, None)(*arrays)
        if len(found) != len(self.rows):
            raise AssertionError(
                "local_map requires one PlacementType be provided for each output value,"
                f" received {len(self.rows)} out_placements but {len(found)} is expected!"
            )
        return tuple(self._reduced(x, row) for x, row in zip(found, self.rows, strict=True))

    def _reduced(self, x: Any, row: Any) -> Any:
        for axes, p in zip(self.mesh.axes, row, strict=True):
            if isinstance(p, Partial):
                if p.reduce_op not in _REDUCTIONS:
                    raise NotImplementedError(f"local_map: {p} of a result")
                x = _REDUCTIONS[p.reduce_op](x, axes)
        return x
