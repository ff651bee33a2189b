"""What makes tensors and modules over a mesh: `distribute_tensor`, `distribute_module`, and factories."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor
from ..._functions import create, random, sequences
from ...autograd.grad_mode import no_grad
from ...nn.modules.module import Module
from ..device_mesh import DeviceMesh, current_mesh, mesh_of
from ._dtensor import DTensor, is_own, named_sharding, said, said_mesh, spread
from ._sources import values_of
from ._specs import checked, fitting, refuse_partial, sharding_of
from .placement_types import _StridedShard


def distribute_tensor(
    tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Any = None, *, src_data_rank: int | None = 0
) -> Tensor:
    """A leaf with the values of another, split over a mesh.

    Args:
        tensor: a leaf.
        device_mesh: the mesh; the innermost `with mesh:` if None.
        placements: what each dimension of the mesh does; all devices have all of it if None.
        src_data_rank: where along each dimension of the mesh the process is whose values all take; if None, all
            have the same already.
    """
    mesh = current_mesh(device_mesh)
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    wanted = checked(mesh, placements, tensor.ndim)
    refuse_partial(wanted)
    if isinstance(tensor, DTensor):
        _check_same(tensor, mesh, wanted)
        return tensor
    out = spread(values_of(tensor.detach(), mesh, src_data_rank), mesh, wanted)
    return out.requires_grad_(tensor.requires_grad)


def _check_same(tensor: Any, mesh: DeviceMesh, wanted: Any) -> None:
    if tensor.device_mesh != mesh:
        raise ValueError(
            f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}."
        )
    if tensor.placements != wanted:
        raise ValueError(
            f"Cannot distribute a DTensor with placements {tensor.placements} "
            f"to a different placements {list(wanted)}. do you want to call "
            f"`redistribute` instead?"
        )


def place_parameter(
    t: Tensor, mesh: DeviceMesh, placements: Any, name: str = "", source: int | None = None, if_it_fits: bool = False
) -> None:
    """Split a parameter or a buffer over a mesh, in place: who holds it keeps it. Other axes of the mesh stay.

    Args:
        t: the parameter.
        mesh: the mesh, or a slice of one.
        placements: what each dimension does.
        name: for messages.
        source: whose values all processes take, as of `values_of`.
        if_it_fits: whether a dimension that the devices of this process do not divide stays whole, with a warning.
    """
    held: Any = named_sharding(t)
    if held is not None and held.mesh != mesh.jax_mesh:
        raise ValueError(
            f"{name or 'a parameter'} lies on {mesh_of(held.mesh)} and cannot be placed on another mesh, {mesh}; take "
            "slices of one mesh"
        )
    with no_grad():
        try:
            own = values_of(t.detach(), mesh, source)
            wanted = checked(mesh, placements, t.ndim)
            if if_it_fits and is_own(mesh):
                wanted = _fitting(own, mesh, wanted, name, () if held is None else held.spec)
            out = spread(own, mesh, wanted)
        except ValueError as error:
            raise ValueError(f"{name}: {error}" if name else str(error)) from None
        except AssertionError:  # what JAX raises is a page of numbers
            if is_own(mesh):
                raise
            hint = "begin with one seed in all, or load the same state, before it is split over them"
            if mesh.size() != mesh.jax_mesh.size:
                hint += (
                    f". {mesh} is a slice of a mesh, and all of that has one copy; stages of a pipeline need a mesh "
                    "each, DeviceMesh(device_type, ranks of the stage)"
                )
            raise ValueError(f"{name or 'a parameter'} has other values in other processes; {hint}") from None
        before = said_mesh(t)
        del own  # a tensor that shares the old memory would keep it alive
        t.data = out
    said(t, mesh if before is None or before == mesh else before.joined(mesh))


def _fitting(t: Tensor, mesh: DeviceMesh, wanted: Any, name: str, held: Any) -> Any:
    """The placements of a parameter, as far as the devices divide it."""
    found = fitting(mesh, wanted, tuple(t.shape), held)
    for asked, got in zip(wanted, found, strict=True):
        if asked != got:
            warn.to_user(
                f"{name or 'a parameter'} of shape {list(t.shape)} is on all devices of {mesh}: {asked} would split "
                f"its dimension {asked.dim} into unequal parts"
            )
    return found


def replicate_rest(module: Module, mesh: DeviceMesh, source: int | None = None, buffers: bool = True) -> None:
    """Put the module's own parameters that are on no mesh yet whole on all devices, and its buffers if wanted."""
    for t in (*module.parameters(recurse=False), *(module.buffers(recurse=False) if buffers else ())):
        if not isinstance(t, DTensor):
            place_parameter(t, mesh, None, source=source)


def distribute_module(
    module: Module,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[[str, Module, DeviceMesh], None] | None = None,
    input_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
    output_fn: Callable[[Module, Any, DeviceMesh], Any] | None = None,
) -> Module:
    """Put the parameters of a module on a mesh, and watch over what goes in and comes out.

    Args:
        module: changed in place.
        device_mesh: the mesh; the innermost `with mesh:` if None.
        partition_fn: gets the name of each submodule, the submodule and the mesh, and splits parameters; the rest
            goes to all devices.
        input_fn: gets the module, its inputs and the mesh, and gives the inputs to use.
        output_fn: gets the module, its outputs and the mesh, and gives the outputs to use.
    """
    mesh = current_mesh(device_mesh)
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    change_inputs, change_outputs = _of_three(input_fn, "input"), _of_three(output_fn, "output")
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        replicate_rest(part, mesh, source=0)
    if change_inputs is not None:
        module.register_forward_pre_hook(lambda m, inputs: change_inputs(m, inputs, mesh))
    if change_outputs is not None:
        module.register_forward_hook(lambda m, inputs, outputs: change_outputs(m, outputs, mesh))
    module._distribute_module_applied = True
    return module


def _of_three(given: Any, kind: str) -> Any:
    """A function of a module, its inputs or outputs, and the mesh; torch has deprecated those without a module."""
    if given is None:
        return None
    n = len(inspect.signature(given).parameters)
    if n == 3:
        return given
    if n != 2:
        raise ValueError(f"{kind}_fn should take in 3 arguments, but got {n} arguments!")
    warn.to_user(
        f"Deprecating {kind}_fn that takes two arguments ({kind}s, device_mesh), "
        f"please use {kind}_fn that takes in (module, {kind}s, device_mesh) instead!",
        FutureWarning,
    )
    return lambda module, values, mesh: given(values, mesh)


def _make(make: Any, size: Any, values: Any, mesh: DeviceMesh | None, placements: Any, options: Any) -> Tensor:
    """Return what a factory of tensors makes, given a shape and further arguments, over a mesh."""
    mesh = current_mesh(mesh)
    shape = (size,) if isinstance(size, int) else tuple(size)
    wanted = checked(mesh, placements, len(shape))
    refuse_partial(wanted)
    return said(make(shape, *values, device=sharding_of(mesh, wanted, shape), **options), mesh)


def _factory(make: Any) -> Any:
    def made(*size: Any, device_mesh: DeviceMesh | None = None, placements: Any = None, **options: Any) -> Tensor:
        shape = size[0] if len(size) == 1 else size
        return _make(make, shape, (), device_mesh, placements, options)

    name = make.__name__
    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"`torch.{name}` over a mesh, with the numbers that it has on one device."
    return made


zeros, ones, empty = _factory(create.zeros), _factory(create.ones), _factory(create.empty)
rand, randn = _factory(random.rand), _factory(random.randn)


def full(
    size: Any, fill_value: Any, *, device_mesh: DeviceMesh | None = None, placements: Any = None, **options: Any
) -> Tensor:
    """`torch.full` over a mesh.

    Args:
        size: the shape.
        fill_value: what all elements are.
        device_mesh: the mesh; the innermost `with mesh:` if None.
        placements: what each dimension of the mesh does; all devices have all of it if None.
        options: those of `torch.full`.
    """
    return _make(create.full, size, (fill_value,), device_mesh, placements, options)


def linspace(
    start: Any, end: Any, steps: int, *, device_mesh: DeviceMesh | None = None, placements: Any = None, **options: Any
) -> Tensor:
    """`torch.linspace` over a mesh, with the numbers that it has on one device.

    Args:
        start, end: the first number and the last.
        steps: how many.
        device_mesh: the mesh; the innermost `with mesh:` if None.
        placements: what each dimension of the mesh does; all devices have all of it if None.
        options: those of `torch.linspace`.
    """
    return _spaced(sequences.linspace, (start, end), steps, device_mesh, placements, options)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    device_mesh: DeviceMesh | None = None,
    placements: Any = None,
    **options: Any,
) -> Tensor:
    """`torch.logspace` over a mesh, with the numbers that it has on one device.

    Args:
        start, end: the first exponent and the last.
        steps: how many.
        base: of the powers.
        device_mesh: the mesh; the innermost `with mesh:` if None.
        placements: what each dimension of the mesh does; all devices have all of it if None.
        options: those of `torch.logspace`.
    """
    return _spaced(sequences.logspace, (start, end), steps, device_mesh, placements, {"base": base, **options})


def _spaced(make: Any, ends: Any, steps: int, mesh: DeviceMesh | None, placements: Any, options: Any) -> Tensor:
    """A few numbers in a row, made on one device and then spread: a part of them cannot be made alone."""
    name = make.__name__
    for end in ends:
        if isinstance(end, Tensor) and end.ndim:
            raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors")
    if any(isinstance(p, _StridedShard) for p in placements or ()):
        raise AssertionError(f"{name} does not support _StridedShard placements")
    refuse_partial(checked(current_mesh(mesh), placements, 1))
    first, last = (end.item() if isinstance(end, Tensor) else end for end in ends)
    return distribute_tensor(make(first, last, steps, **options), mesh, placements)
