"""The rule of FSDP: parameters are split over the devices, batches are, and XLA gathers and reduces in between.

A parameter keeps its name and its identity; its array is split along the first dimension that the devices divide, and
one that they divide nowhere is on all of them. The batch is split over the same devices where it enters the outermost
module. From that XLA derives an all-gather of parameters where they are used, and a reduce-scatter of gradients.

Over several processes with one device each no batch is split: a process has its own, and runs the module with gathered
parameters; see `_gathering`.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..._bridge.compile.watch.observer import looks_at_parts
from ..._core.signals import contextmanager
from ..._core.state import MODES
from ..._engine.memory.tensor import Tensor
from ...autograd.function import Function
from ...autograd.grad_mode import enable_grad
from ...nn.modules.module import Module
from ...utils import _pytree
from ...utils.checkpoint import MORE_SURROUNDINGS
from .. import _exchange
from .._groups import is_initialized
from ..device_mesh import DeviceMesh
from ..tensor._api import place_parameter, replicate_rest
from ..tensor._dtensor import DTensor, is_own, named_sharding, spread, to_local
from ..tensor._specs import names_of
from ..tensor.placement_types import Placement, Replicate, Shard
from ._gathering import Gathered, has_own_forward, let_go


@dataclass
class Group:
    """A module whose parameters are split, and how it runs."""

    mesh: DeviceMesh
    sharded: tuple[bool, ...]
    """For each dimension of the mesh whether parameters are split over it."""
    placed: list[tuple[Module, str]]
    """Where the group's parameters are: modules and names."""
    ignored: list[tuple[Module, str]] = field(default_factory=list)
    """Where parameters are that stay whole, on all devices."""
    gathers: bool | None = False
    """Whether parameters are gathered once per forward and kept for the backward, not wherever they are used.

    None: they are kept where this is the outermost module and each process has its own forward.
    """
    param_dtype: Any = None
    output_dtype: Any = None
    casts_inputs: bool = True
    casts_root_inputs: bool = False
    """Whether inputs are cast where this is the outermost module, at least."""
    choose: Callable[[Any], Shard | None] | None = None
    """Gives the dimension to split a parameter along."""
    divide_factor: float | None = None
    """What the sum of the devices' gradients is divided by, if not by their number."""
    number: int = field(default_factory=itertools.count().__next__)
    """Names the group, in all processes alike: each shards its modules in the same order."""
    swapped: list[list[tuple[Module, str, Tensor]]] = field(default_factory=list)
    """What stood where, for each forward that is running."""

    @property
    def own_forward(self) -> bool:
        """Whether each process runs the module on its own batch, with ordinary tensors."""
        return has_own_forward(self.mesh)

    def whole(self) -> tuple[Placement, ...]:
        """The placements of something that the group does not split."""
        return (Replicate(),) * self.mesh.ndim


class _Running(threading.local):
    groups: tuple[Group, ...] = ()
    """The groups whose modules run, from the outermost."""
    batch = 0
    """Rows of the batches of all processes together; each feeds its own."""


_RUNNING = _Running()


def owned(
    module: Module, ignored: Iterable[Any], is_group: Callable[[Module], bool]
) -> tuple[list[tuple[Module, str]], list[tuple[Module, str]]]:
    """The parameters of a module that belong to no group below it: those to split, and those that are ignored."""
    left_out, seen = {id(p) for p in ignored}, set()
    found: list[tuple[Module, str]] = []
    others: list[tuple[Module, str]] = []

    def visit(part: Module) -> None:
        if id(part) in seen or (part is not module and is_group(part)):
            return
        seen.add(id(part))
        for name, p in part._parameters.items():
            if p is not None:
                (others if id(p) in left_out else found).append((part, name))
        for child in part.children():
            visit(child)

    visit(module)
    return found, others


def split_parameters(group: Group, names: dict[int, str]) -> None:
    """Split the parameters of a group, each in place, as `sharded` says."""
    for owner, key in group.placed:
        p: Any = owner._parameters[key]
        name = names.get(id(p), key)
        asked = None if group.choose is None else group.choose(p)
        dim = asked.dim % p.ndim if asked is not None else _dim(p, group)
        split = Replicate() if dim is None else Shard(dim)
        row = [split if sharded else Replicate() for sharded in group.sharded]
        place_parameter(p, group.mesh, row, name, if_it_fits=True)
        if p.grad is not None:
            place_parameter(p.grad, group.mesh, row, name, if_it_fits=True)


def _dim(p: Tensor, group: Group) -> int | None:
    """The first dimension of a parameter; in a process with all devices the first one that they divide."""
    if not is_own(group.mesh):
        return 0 if p.ndim else None
    parts = math.prod(n for n, sharded in zip(group.mesh.shape, group.sharded, strict=True) if sharded)
    held = named_sharding(p)
    own = {a for axes in group.mesh.axes for a in axes}
    spec = [] if held is None else list(held.spec)
    sizes = {} if held is None else held.mesh.shape
    for dim, n in enumerate(p.shape):
        others = names_of(spec[dim]) if dim < len(spec) else ()
        if n and n % (parts * math.prod(sizes[a] for a in others if a not in own)) == 0:
            return dim
    return None


def replicate_others(module: Module, mesh: DeviceMesh) -> None:
    """Put parameters that are in no group on all devices, and buffers, unless each process computes by itself."""
    for part in module.modules():
        replicate_rest(part, mesh, buffers=not has_own_forward(mesh))


# --- a forward ------------------------------------------------------------------------------------


def enter(group: Group, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return what a module gets instead of its inputs, with its parameters made ready."""
    is_root = not _RUNNING.groups
    if is_root and not group.own_forward:
        args, kwargs = _split_batch(group, args, kwargs)
    if group.param_dtype is not None and (group.casts_inputs or (is_root and group.casts_root_inputs)):
        args, kwargs = cast((args, kwargs), group.param_dtype)
    ready = _ready(group)
    _RUNNING.groups += (group,)
    group.swapped.append(ready)
    return args, kwargs


def leave(group: Group, output: Any) -> Any:
    """Return what a module gives instead of its output, with its parameters put back; also after an error."""
    _RUNNING.groups = _RUNNING.groups[:-1]
    used = _put_back(group.swapped.pop())
    is_root = not _RUNNING.groups
    if group.own_forward and not (group.gathers or (group.gathers is None and is_root)):
        let_go(used, output)
    if is_root and not (group.own_forward or is_own(group.mesh)):
        output = _pytree.tree_map(lambda y: _given_back(group, y), output)
    return output if group.output_dtype is None else cast(output, group.output_dtype)


def _ready(group: Group, lazily: bool = False) -> list[tuple[Module, str, Tensor]]:
    """Put copies in the place of parameters, gathered or in another dtype, where the group wants that.

    They are there already where the group runs, as in a forward that calls another method registered to run like one.
    """
    if any(running is group for running in _RUNNING.groups):
        return []
    if not (group.gathers or group.own_forward) and group.param_dtype is None:
        return []
    places = [*group.placed, *(group.ignored if group.own_forward else ())]
    swapped: list[Any] = [(owner, key, owner._parameters[key]) for owner, key in places]
    apart = {id(owner._parameters[key]) for owner, key in group.ignored}
    used = {id(p): (p, p.dtype if id(p) in apart else _dtype(group, p)) for *_, p in swapped}
    if group.own_forward and used:
        _check_split(group, swapped)
        dtypes = [dtype for _, dtype in used.values()]
        out = Gathered.apply(group.mesh, group.number, dtypes, lazily, *(p for p, _ in used.values()))
        made = dict(zip(used, out, strict=True))
    else:
        made = {i: _placed(group, p.to(dtype)) for i, (p, dtype) in used.items()}
    for owner, key, p in swapped:
        owner._parameters[key] = made[id(p)]
    return swapped


def _replaced(given: dict[str, Any]) -> list[tuple[Module, dict[str, Any], str]]:
    group: Group = given["group"]
    return [(owner, owner._parameters, key) for owner, key in (*group.placed, *group.ignored)]


looks_at_parts(_ready, _replaced)


def _check_split(group: Group, parameters: list[Any]) -> None:
    for owner, key, p in parameters:
        if named_sharding(p) is None:
            raise RuntimeError(
                f"{key} of {type(owner).__name__} was replaced after fully_shard by a tensor that does not lie on "
                f"{group.mesh}; distribute_tensor(...) makes one that does"
            )


def _dtype(group: Group, p: Any) -> Any:
    """The dtype that a group computes with a parameter in."""
    return p.dtype if group.param_dtype is None or not p.is_floating_point() else group.param_dtype


def _placed(group: Group, p: Any) -> Any:
    """A parameter on all devices, where the group gathers it once per forward."""
    return spread(p, group.mesh, group.whole()) if group.gathers else p


def _put_back(swapped: list[tuple[Module, str, Any]]) -> list[Any]:
    """Put parameters back to where they were; gives what stood there meanwhile."""
    used = [owner._parameters[key] for owner, key, _ in swapped]
    for owner, key, p in swapped:
        owner._parameters[key] = p
    return used


def _for_recomputation() -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Give a context in which modules have the parameters that they have now.

    A checkpoint calls its function again without the hooks of the modules around it, which put these parameters there.
    """
    groups = _RUNNING.groups

    @contextmanager
    def again() -> Iterator[None]:
        with contextlib.ExitStack() as at_the_end:
            at_the_end.callback(setattr, _RUNNING, "groups", _RUNNING.groups)
            with enable_grad():  # in a backward pass it is off, and the copies need their graph
                for group in groups:
                    at_the_end.callback(_put_back, _ready(group, lazily=True))
                    _RUNNING.groups += (group,)
            yield

    return again if groups else contextlib.nullcontext


MORE_SURROUNDINGS.append(_for_recomputation)


def cast(tree: Any, dtype: Any) -> Any:
    """The floating-point tensors of a tree in another dtype."""
    return _pytree.tree_map(lambda x: x.to(dtype) if isinstance(x, Tensor) and x.is_floating_point() else x, tree)


def _split_batch(group: Group, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Split the inputs of the outermost module that are as long as the first of them, where the devices divide that."""
    if MODES.run.batch is not None:  # one example of a batch
        return args, kwargs
    leaves, spec = _pytree.tree_flatten((args, kwargs))
    n: Any = next((x.shape[0] for x in leaves if isinstance(x, Tensor) and x.ndim), None)
    if n and not is_own(group.mesh):
        _check_rows(group.mesh, n)
        return _pytree.tree_unflatten([_fed(group, x, n) for x in leaves], spec)
    if not n or n % group.mesh.size():
        return args, kwargs
    return _pytree.tree_unflatten([_split(group, x, n) for x in leaves], spec)


def _split(group: Group, x: Any, n: int) -> Any:
    if not isinstance(x, Tensor) or x.ndim == 0 or x.shape[0] != n or named_sharding(x) is not None:
        return x
    return spread(x, group.mesh, (Shard(0),) * group.mesh.ndim)


# --- several processes ----------------------------------------------------------------------------


class _Fed(Function):
    """A batch of this process among those of all. Gradients are averaged over the processes, and here added up."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Group) -> Tensor:
        ctx.group = group
        rows = (Shard(0),) * group.mesh.ndim
        return DTensor.from_local(x.detach(), group.mesh, rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        mesh = ctx.group.mesh
        own = to_local(spread(grad, mesh, (Shard(0),) * mesh.ndim))
        return own * (len(grad) // len(own)), None


class _GivenBack(Function):
    """The rows of a result that belong to this process's batch."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, group: Group) -> Tensor:
        ctx.group = group
        own = to_local(spread(y.detach(), group.mesh, (Shard(0),) * group.mesh.ndim))
        ctx.processes = len(y) // len(own)
        return own

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows = (Shard(0),) * ctx.group.mesh.ndim
        return DTensor.from_local(grad / ctx.processes, ctx.group.mesh, rows), None


def _check_rows(mesh: DeviceMesh, n: int) -> None:
    """Complain, in all processes, where one feeds another number of rows: each would run a program of its own."""
    if not is_initialized():
        return
    for dim in range(mesh.ndim):
        processes = mesh.get_group(dim)
        turn = processes.turn("rows of a batch")
        rows = [int(x) for x in _exchange.all_gather(turn, np.array(n))]
        if len(set(rows)) > 1:
            fed = ", ".join(f"rank {r}: {k}" for r, k in zip(turn.members, rows, strict=True))
            raise ValueError(f"a module over {mesh} needs batches of equally many rows from all processes, not {fed}")


def _fed(group: Group, x: Any, n: int) -> Any:
    """An input of this process, as part of the inputs of all, if it is as long as the batch."""
    if not isinstance(x, Tensor) or x.ndim == 0 or x.shape[0] != n or named_sharding(x) is not None:
        return x
    out = _Fed.apply(x, group)
    _RUNNING.batch = len(out)
    return out


def _given_back(group: Group, y: Any) -> Any:
    """A result for this process: of one that has a row for each of the batch, its own rows."""
    if not isinstance(y, Tensor) or y.ndim == 0 or y.shape[0] != _RUNNING.batch:
        return y
    return _GivenBack.apply(y, group) if named_sharding(y) is not None else y
