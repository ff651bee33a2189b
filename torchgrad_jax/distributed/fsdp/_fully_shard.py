"""`fully_shard`: parameters, gradients and the state of optimizers split over devices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, cast

import jax

from ..._core.arrays.devices import explain_missing_cpu_devices, give_threads_to_many_cpu_devices, of_jax
from ..._core.state import MODES
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module
from .._groups import get_world_size, is_initialized
from .._jax_processes import check_mesh
from ..device_mesh import DeviceMesh, init_device_mesh
from ._rules import Group, enter, leave, owned, replicate_others, split_parameters
from .api import CPUOffloadPolicy, DataParallelMeshDims, MixedPrecisionPolicy, OffloadPolicy, check_reduction

_GROUP = "_fsdp_group"


def group_of(module: Any) -> Group | None:
    """How a module was sharded; None for any other."""
    return module.__dict__.get(_GROUP)


def whole_world() -> DeviceMesh:
    """A mesh of all devices of the default type.

    Raises:
        RuntimeError: these are fewer than the environment asks for, and the parameters would not be split.
    """
    if MODES.target is not None:
        return init_device_mesh(MODES.target.platform, (len(MODES.target.devices),))
    check_mesh(get_world_size() if is_initialized() else 1)
    give_threads_to_many_cpu_devices()
    devices = jax.devices()
    kind = of_jax(devices[0]).type
    why = explain_missing_cpu_devices() if kind == "cpu" else None
    if why is not None:
        raise RuntimeError(f"a mesh of all devices was asked for. {why}; or give mesh=")
    return init_device_mesh(kind, (len(devices),))


def check_forward(module: Module, by: str) -> None:
    """Complain about a container that is never called itself."""
    if isinstance(module, ModuleList | ModuleDict) and type(module).forward is Module.forward:
        raise ValueError(f"{by} does not support containers that do not implement forward: {module}")


def fully_shard(
    module: Any,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None,
    ignored_params: Iterable[Any] | None = None,
    dp_mesh_dims: DataParallelMeshDims | None = None,
) -> Any:
    """Split the parameters of a module over devices, and the batches that it gets.

    Over several processes with one device each, a module runs on the batch of its process alone.

    Args:
        module: changed in place, and its class becomes one that is a `FSDPModule`, too; or several. Call it for
            submodules first.
        mesh: over which devices, all if None. Of two dimensions, the second splits and the first replicates.
        reshard_after_forward: False gathers parameters once per forward and keeps them for the backward. Otherwise
            they are gathered where they are used. Processes that each run their own forward free them in between;
            the outermost module does so only if this is True.
        shard_placement_fn: gives the dimension to split a parameter along, as `Shard`; the first that the devices
            divide if it is None or gives None. What they divide nowhere is on all of them.
        mp_policy: dtypes to compute in.
        offload_policy: parameters stay on their devices.
        ignored_params: parameters that stay whole, on all devices. Processes that each feed a batch give them the
            average of their gradients, too; torch leaves each process its own.
        dp_mesh_dims: not supported; give the slice of the mesh as `mesh`.
    """
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard(): dp_mesh_dims; give mesh[names] as mesh")
    if isinstance(offload_policy, CPUOffloadPolicy):
        raise NotImplementedError("fully_shard(): CPUOffloadPolicy; parameters stay on their devices")
    if reshard_after_forward is not None and not isinstance(reshard_after_forward, bool):
        raise NotImplementedError(
            f"fully_shard(): reshard_after_forward={reshard_after_forward!r}; only True and False are supported"
        )
    mesh = whole_world() if mesh is None else mesh
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    parts = module if isinstance(module, list | tuple) else [module]
    for part in parts:
        check_forward(part, "fully_shard")
        if group_of(part) is not None:
            raise AssertionError(
                "Each distinct composable distributed API can only be applied to a module once. fully_shard has "
                f"already been applied to the following module:\n{part}"
            )
    policy = mp_policy or MixedPrecisionPolicy()
    check_reduction(policy, mesh)
    left_out = list(ignored_params or ())
    for part in parts:
        group = Group(
            mesh,
            (True,) if mesh.ndim == 1 else (False, True),
            *owned(part, left_out, lambda m: group_of(m) is not None),
            gathers=None if reshard_after_forward is None else not reshard_after_forward,
            param_dtype=policy.param_dtype,
            output_dtype=policy.output_dtype,
            casts_inputs=policy.cast_forward_inputs,
            choose=shard_placement_fn,
        )
        _shard(part, group)
    return module


def _shard(module: Any, group: Group) -> None:
    split_parameters(group, {id(p): name for name, p in module.named_parameters()})
    replicate_others(module, group.mesh)
    module.__dict__[_GROUP] = group
    module.register_forward_pre_hook(_before, prepend=True, with_kwargs=True)
    module.register_forward_hook(_after, with_kwargs=True, always_call=True)
    module.__class__ = _class_of(type(module))


def _before(module: Module, args: Any, kwargs: Any) -> Any:
    return enter(cast(Group, group_of(module)), args, kwargs)


def _after(module: Module, args: Any, kwargs: Any, output: Any) -> Any:
    group = cast(Group, group_of(module))
    return leave(group, output) if group.swapped else output


@functools.cache
def _class_of(kind: type) -> type:
    return type(f"FSDP{kind.__name__}", (FSDPModule, kind), {"__module__": kind.__module__})


class UnshardHandle:
    """What `FSDPModule.unshard` gives where it is not waited for."""

    def wait(self) -> None:
        """Nothing is left to wait for."""


def made_as_before(cls: type, args: Any, kwargs: Any) -> Any:
    """Return an instance of the class that a wrapped module had before, which is the second base of its own."""
    original: Any = cls.__mro__[2]
    made = original.__new__(original, *args, **kwargs)
    made.__init__(*args, **kwargs)
    return made


class FSDPModule:
    """What a module is, besides its own class, after `fully_shard`.

    Hints about when to communicate are taken and change nothing: XLA decides when it moves data.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance of the class that the module had before: `model[:2]` calls this."""
        return made_as_before(cls, args, kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _rebuild, (type(self).__mro__[2],), self.__dict__

    def __setstate__(self, state: Any) -> None:
        cast(Any, super()).__setstate__(state)
        _scale_gradients(cast(Group, group_of(self)))  # copies of parameters have no hooks

    def _groups(self, recurse: bool = True) -> list[Group]:
        parts = cast(Module, self).modules() if recurse else [self]
        return [group for part in parts if (group := group_of(part)) is not None]

    def reshard(self) -> None:
        """Split the parameters again after `unshard`."""
        for group in self._groups(recurse=False):
            split_parameters(group, {})

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Put all of this module's own parameters on all devices, until `reshard`.

        Args:
            async_op: whether to give something to wait for.
        """
        for group in self._groups(recurse=False):
            split_parameters(dataclasses.replace(group, sharded=(False,) * group.mesh.ndim), {})
        return UnshardHandle() if async_op else None

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Say whether parameters are gathered once per forward and kept for the backward.

        Args:
            reshard_after_forward: False keeps them.
            recurse: whether modules below are meant, too.
        """
        for group in self._groups(recurse):
            group.gathers = not reshard_after_forward

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide the sum of the devices' gradients by this, instead of by the number of devices.

        Args:
            factor: the divisor.
        """
        for group in self._groups():
            group.divide_factor = factor
            _scale_gradients(group)

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Nothing to say: gradients of several backward passes add up, each already summed over the devices."""

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Nothing to say: see `set_requires_gradient_sync`."""

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Nothing to say: see `set_requires_gradient_sync`."""

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Nothing to say: parameters are split whenever nobody computes with them."""

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Nothing to say: XLA gathers what it needs."""

    def set_modules_to_forward_prefetch(self, modules: list[Any]) -> None:
        """Nothing to say: XLA decides when it gathers."""

    def set_modules_to_backward_prefetch(self, modules: list[Any]) -> None:
        """Nothing to say: XLA decides when it gathers."""

    def set_post_optim_event(self, event: Any) -> None:
        """Nothing to say: XLA orders what depends on each other."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Nothing to say: XLA chooses the reduction."""

    def reset_iter_state(self) -> None:
        """Nothing to do: a forward that failed has left nothing behind."""

    def set_all_reduce_hook(self, hook: Any, *, stream: Any = None) -> None:
        """Refused: XLA reduces within the programs that it compiles."""
        raise NotImplementedError("FSDPModule.set_all_reduce_hook(): XLA reduces gradients")

    def set_custom_all_gather(self, comm: Any) -> None:
        """Refused: XLA gathers within the programs that it compiles."""
        raise NotImplementedError("FSDPModule.set_custom_all_gather(): XLA gathers parameters")

    def set_custom_reduce_scatter(self, comm: Any) -> None:
        """Refused: XLA reduces within the programs that it compiles."""
        raise NotImplementedError("FSDPModule.set_custom_reduce_scatter(): XLA reduces gradients")


def _scale_gradients(group: Group) -> None:
    """Hook the parameters of a group, so that their gradients are divided as was asked for."""
    if group.divide_factor is None:
        return
    scale = group.mesh.size() / group.divide_factor
    for owner, key in group.placed:
        p: Any = owner._parameters[key]
        held = p.__dict__.pop("_fsdp_factor", None)
        if held is not None:
            held.remove()
        if p.requires_grad:
            p.__dict__["_fsdp_factor"] = p.register_hook(functools.partial(_scaled, scale))


def _scaled(scale: float, g: Any) -> Any:
    return g * scale


def _rebuild(kind: type) -> Any:
    """An empty module of a sharded class, for copies and pickles."""
    made: Any = object.__new__(_class_of(kind))
    return made


def register_fsdp_forward_method(module: Module, method_name: str) -> None:
    """Let another method of a sharded module run as its forward does.

    Args:
        module: nothing happens to one that is not sharded.
        method_name: the method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    plain = getattr(type(module), method_name)

    @functools.wraps(plain)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = _before(self, args, kwargs)
        output = None
        try:
            output = plain(self, *args, **kwargs)
        finally:
            output = _after(self, args, kwargs, output)
        return output

    setattr(module, method_name, wrapped.__get__(module))


def share_comm_ctx(modules: list[FSDPModule]) -> None:
    """Nothing to share: XLA decides when it moves data."""
