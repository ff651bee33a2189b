"""DistributedDataParallel: each process trains on a part of the data, and all keep the same parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..._core.arrays.devices import device as Device
from ..._core.errors import warn
from ..._core.errors.messages import missing as _missing
from ..._core.signals import contextmanager
from ..._engine.memory.tensor import Tensor, tensors_in
from ...autograd.grad_mode import is_grad_enabled
from ...compiler import is_compiling
from ...distributed import _exchange, all_gather_object
from ...distributed._bucket_hooks import allreduce_hook, fp16_compress_hook
from ...distributed._buckets import BuiltinCommHookType, GradBucket
from ...distributed._collectives import spread
from ...distributed._groups import ProcessGroup, member_of
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...futures import Future
from ..modules.module import Module
from ..parameter import UninitializedParameter
from ._reducer import Reducer, buckets_of
from .data_parallel import INSTEAD, moved

__all__ = ["DistributedDataParallel"]

_REFUSED = (
    "delay_all_reduce_named_params",
    "param_to_hook_all_reduce",
    "mixed_precision",
    "skip_all_reduce_unused_params",
    "bucket_cap_mb_list",
    "batched_grad_copy",
)
_MEGABYTE = 1 << 20
_DEPRECATED = (
    "`broadcast_buffers` is deprecated. Use `forward_sync_buffers` instead. IMPORTANT: unlike "
    "`broadcast_buffers=False`, `forward_sync_buffers=False` still syncs buffers at init. If you rely on buffers "
    "NOT being synced at init (e.g. rank-local buffers), keep using "
    "`broadcast_buffers=False` until `init_sync_buffers` is available."
)
_BOTH = (
    "Both `broadcast_buffers` and `forward_sync_buffers` were specified. `broadcast_buffers` is deprecated and its "
    "value is ignored when `forward_sync_buffers` is provided."
)


class DistributedDataParallel(Module, Joinable):
    """A module whose gradients are averaged over all processes in each backward.

    At first all processes get the parameters and buffers of rank 0.

    Args:
        module: what is trained.
        device_ids: the GPU of the parameters, where inputs go; None if they are on the CPU.
        output_device: the same one; results stay where the module makes them.
        dim: as in torch.
        broadcast_buffers: whether rank 0's buffers replace the others' at first and before each forward.
        init_sync: whether to compare the shapes of the parameters, and to begin with those of rank 0.
        process_group: which processes; those of the mesh, or all of them, if it is None.
        bucket_cap_mb: how many megabytes of gradients travel together; 25, and 1 at first, if it is None.
        find_unused_parameters: whether some parameters may get no gradient.
        check_reduction: deprecated in torch, where it has no meaning either.
        gradient_as_bucket_view: whether the gradients that travel together are views of one tensor.
        static_graph: whether each backward gives gradients to the same parameters as the first.
        forward_sync_buffers: whether rank 0's buffers replace the others' before each forward.
        options: `device_mesh`, of one dimension, and arguments of torch's that are not implemented.

    Raises:
        ValueError: `torch.distributed.init_process_group` has not been called, or the parameters are on the CPU and
            `device_ids` names a device.
        NotImplementedError: there are several devices, or an option is set that is not implemented.
        RuntimeError: no parameter requires a gradient, or the processes' parameters have different shapes.
    """

    def __init__(
        self,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        forward_sync_buffers: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        group = _group_of(process_group, options.pop("device_mesh", None))
        _refuse(options, device_ids)
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.module, self.dim, self.process_group = module, dim, group
        trained = [p for p in self._named(module.named_parameters()) if p.requires_grad]
        _check_parameters(module, trained)
        self.device = trained[0].device
        self.device_type, self.is_multi_device_module = self.device.type, False
        self.device_ids, self.output_device = _devices(device_ids, output_device, self.device)
        _warn(broadcast_buffers, forward_sync_buffers, check_reduction)
        at_first = broadcast_buffers is not False or forward_sync_buffers is not None
        self.forward_sync_buffers = at_first if forward_sync_buffers is None else forward_sync_buffers
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        first, rest = (1, 25) if bucket_cap_mb is None else (bucket_cap_mb, bucket_cap_mb)
        self._caps, self._trained = (first * _MEGABYTE, rest * _MEGABYTE), trained
        self.bucket_bytes_cap = int(rest * _MEGABYTE)
        self._reducer: Reducer | None = None
        self._divides_by_all = True
        if group.size() > 1:
            if init_sync:
                _same_shapes(group, trained)
                spread(group, self._named(module.named_parameters()), 0, "parameters")
                spread(group, self._named(module.named_buffers()) if at_first else [], 0, "buffers")
            self._reducer = self._new_reducer()

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles take: all but the group, which has to be the default one, and what exchanges."""
        if self.process_group is not member_of(None):
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default process group. That is, "
                "when you have called init_process_group and have not passed process_group argument to DDP constructor"
            )
        return {k: v for k, v in self.__dict__.items() if k not in ("process_group", "_reducer")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = member_of(None)
        self._reducer = self._new_reducer() if self.process_group.size() > 1 else None

    def _named(self, named: Any) -> list[Tensor]:
        return [t for name, t in named if name not in self.parameters_to_ignore]

    def _new_reducer(self) -> Reducer:
        return Reducer(
            self._trained,
            self.process_group,
            buckets_of(self._trained, *self._caps),
            find_unused=self.find_unused_parameters,
            static=self.static_graph,
            views=self.gradient_as_bucket_view,
        )

    @property
    def broadcast_buffers(self) -> bool:
        """Whether rank 0's buffers replace the others' before each forward."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value: bool) -> None:
        self.forward_sync_buffers = value

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The result of the module; the next backward averages the gradients."""
        inputs, kwargs = self._pre_forward(*inputs, **kwargs)
        return self._post_forward(self.module(*inputs, **kwargs))

    def _pre_forward(self, *inputs: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return what a forward begins with: the inputs where the module is, and the buffers of rank 0."""
        reducer = self._reducer
        if self.device_ids:
            inputs, kwargs = moved(inputs, self.device), moved(kwargs, self.device)
        if reducer is None:
            return inputs, kwargs
        if is_compiling() and self.find_unused_parameters:
            raise NotImplementedError(
                "torch.nn.parallel.DistributedDataParallel with find_unused_parameters inside of a compiled function"
            )
        exchanging = self._exchanges()
        if exchanging:
            reducer.check_finished()
        if self._join_config.enable:
            self._joined_forward(exchanging)
        elif self.require_forward_param_sync and self.forward_sync_buffers:
            spread(self.process_group, self._named(self.module.named_buffers()), 0, "buffers")
        return inputs, kwargs

    def _post_forward(self, out: Any) -> Any:
        """Return what a forward ends with: the next backward pass through `out` averages the gradients."""
        reducer = self._reducer
        if reducer is None:
            return out
        self.require_forward_param_sync = exchanging = self._exchanges()
        if exchanging:
            reducer.prepare()
            reducer.averages_after = self._averages if is_compiling() else None
            for x in tensors_in(out) if reducer.waits_for_end else ():
                if x.grad_fn is not None:
                    x.register_hook(lambda _: reducer.begin())
        return out

    def _exchanges(self) -> bool:
        """Return whether gradients of the backward pass after this forward are averaged."""
        return is_grad_enabled() and self.require_backward_grad_sync

    def _averages(self) -> bool:
        return self.require_backward_grad_sync

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block whose forwards are followed by backwards that only add to this process's gradients."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Let a function reduce the gradients instead of an average over all processes.

        Args:
            state: its first argument.
            hook: called with the state and a `torch.distributed.GradBucket`; it returns a future of a tensor with the
                reduced gradients of the bucket.

        Raises:
            TypeError: the hook is not callable.
            RuntimeError: there is a hook already.
        """
        _check_hook(hook)
        if self._reducer is None:
            self._reducer = self._new_reducer()
        if self._reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._reducer.hook = (state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type: BuiltinCommHookType) -> None:
        """Let one of torch's own hooks reduce the gradients.

        Args:
            comm_hook_type: which.
        """
        hooks = {BuiltinCommHookType.ALLREDUCE: allreduce_hook, BuiltinCommHookType.FP16_COMPRESS: fp16_compress_hook}
        self.register_comm_hook(None, hooks[comm_hook_type])

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Return what this was told, by the names of torch's logs."""
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__,
            "backend_name": self.process_group.name(),
            "bucket_cap_bytes": self.bucket_bytes_cap,
            "broadcast_buffers": self.forward_sync_buffers,
            "find_unused_parameters": self.find_unused_parameters,
            "static_graph": self.static_graph,
            "gradient_as_bucket_view": self.gradient_as_bucket_view,
            "can_set_static_graph": False,
        }

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, names: Any) -> None:
        module._ddp_params_and_buffers_to_ignore = names

    def _set_static_graph(self) -> None:
        self.static_graph = True
        if self._reducer is not None:
            self._reducer.static = True

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A context in which processes may have different numbers of batches.

        Args:
            divide_by_initial_world_size: whether gradients are divided by the number of all processes, or by that of
                those which have a batch.
            enable: whether it does anything.
            throw_on_early_termination: whether all raise when one process has no batches left.
        """
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process does for this module when it has no batches left."""
        self._divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _Shadow(self)

    @property
    def join_device(self) -> Any:
        """Where the parameters are."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """Which processes."""
        return self.process_group

    def _agree_on_step(self, active: bool, exchanging: bool, buffers: bool) -> tuple[int, bool, bool]:
        """What the processes of a `join` agree on: whose buffers count, and whether gradients and buffers go around."""
        own = [self.process_group.rank() if active else -1, int(exchanging), int(buffers)]
        turn = self.process_group.turn("join: what this iteration exchanges")
        found = _exchange.all_reduce(turn, np.array(own, np.int64), "MAX")
        return int(found[0]), bool(found[1]), bool(found[2])

    def _joined_forward(self, exchanging: bool) -> None:
        """What a process in a `join` does before its forward."""
        assert self._reducer is not None
        if is_compiling():
            raise NotImplementedError("torch.nn.parallel.DistributedDataParallel.join inside of a compiled function")
        active = Join.notify_join_context(self)
        divides = active is not None and not self._divides_by_all
        self._reducer.divisor = active if divides else self.process_group.size()
        buffers = self.require_forward_param_sync and self.forward_sync_buffers
        root, _, buffers = self._agree_on_step(True, exchanging, buffers)
        if buffers:
            spread(self.process_group, self._named(self.module.named_buffers()), root, "buffers")


class _Shadow(JoinHook):
    """Takes part, without batches, in what a module's other processes exchange.

    Args:
        ddp: the module.
    """

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        """The exchanges of one iteration."""
        ddp = self.ddp
        assert ddp._reducer is not None
        root, exchanging, buffers = ddp._agree_on_step(False, False, False)
        if buffers:
            spread(ddp.process_group, ddp._named(ddp.module.named_buffers()), root, "buffers")
        ddp.require_forward_param_sync = exchanging
        if exchanging:
            ddp._reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Give all processes the parameters and buffers of one that was among the last."""
        ddp = self.ddp
        root = ddp._agree_on_step(is_last_joiner, False, False)[0]
        for named in (ddp.module.named_parameters(), ddp.module.named_buffers()):
            spread(ddp.process_group, ddp._named(named), root, "the joined model")


# --- arguments ------------------------------------------------------------------------------------


def _refuse(options: dict[str, Any], device_ids: Any) -> None:
    unknown = sorted(options.keys() - set(_REFUSED))
    if unknown:
        raise TypeError(f"DistributedDataParallel.__init__() got an unexpected keyword argument '{unknown[0]}'")
    for name, value in options.items():
        if value is not None and value is not False:
            raise NotImplementedError(f"torch.nn.parallel.DistributedDataParallel with {name}")
    if len(device_ids or ()) > 1:
        raise NotImplementedError("torch.nn.parallel.DistributedDataParallel over several devices" + INSTEAD)


def _group_of(process_group: Any, device_mesh: Any) -> ProcessGroup:
    """The processes that share gradients."""
    if device_mesh is None:
        return member_of(process_group)
    if process_group is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if device_mesh.ndim != 1:
        raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
    return member_of(device_mesh.get_group(0))


def _devices(device_ids: Any, output_device: Any, held: Device) -> tuple[list[int] | None, Any]:
    """The numbers of the device of the inputs and of that of the results; None for parameters on the CPU."""
    if device_ids and held.type != "cpu":
        ids = [i if isinstance(i, int) else Device(i).index or 0 for i in device_ids]
        return ids, ids[0] if output_device is None else output_device
    if device_ids or output_device:  # torch lets the number 0 pass
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with single-device GPU modules, "
            f"but got device_ids {device_ids}, output_device {output_device}, and parameters on {held}."
        )
    return None, None


def _check_parameters(module: Module, trained: Sequence[Tensor]) -> None:
    if not trained:
        raise RuntimeError(
            "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a gradient."
        )
    if any(isinstance(p, UninitializedParameter) for p in module.parameters()):
        raise RuntimeError(
            "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy forward "
            "pass to correctly initialize the modules"
        )


def _warn(broadcast_buffers: Any, forward_sync_buffers: Any, check_reduction: bool) -> None:
    if broadcast_buffers is not None:
        text = _DEPRECATED if forward_sync_buffers is None else _BOTH
        warn.to_user(text, FutureWarning)
    if check_reduction:
        warn.to_user(
            "The `check_reduction` argument in `DistributedDataParallel` module is deprecated. Please avoid using it.",
            FutureWarning,
        )


def _check_hook(hook: Any) -> None:
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    signature = inspect.signature(hook, eval_str=True)
    if signature.parameters["bucket"].annotation not in (inspect.Parameter.empty, GradBucket):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    if signature.return_annotation not in (inspect.Signature.empty, Future[Tensor]):
        raise ValueError("Communication hook: return annotation should be torch.futures.Future[torch.Tensor].")


# --- between processes ----------------------------------------------------------------------------


def _same_shapes(group: ProcessGroup, parameters: Sequence[Tensor]) -> None:
    """Raise, in all processes, if the parameters of one differ from those of rank 0."""
    rank = group.rank()
    found: list[Any] = [None] * group.size()
    all_gather_object(found, [list(p.shape) for p in parameters], group=group)
    other = next((r for r in [rank, *range(len(found))] if found[r] != found[0]), 0)
    if not other:
        return
    ours, first = found[other], found[0]
    if len(ours) != len(first):
        raise RuntimeError(
            f"DDP expects same model across all ranks, but Rank 0 has {len(first)} params, while rank {other} has "
            f"inconsistent {len(ours)} params."
        )
    i = next(i for i in range(len(ours)) if ours[i] != first[i])
    where = "this process" if other == rank else f"process {other}"
    raise RuntimeError(
        f"[{rank}]: params[{i}] in {where} with sizes {ours[i]} appears not to match sizes of the same param in "
        f"process 0."
    )


__getattr__ = _missing(__name__)
