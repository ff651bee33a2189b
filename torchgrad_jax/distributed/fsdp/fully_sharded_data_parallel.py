"""FullyShardedDataParallel: the older form of `fully_shard`, a module around another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import jax

from ..._core.arrays.dtypes import float32
from ..._core.signals import contextmanager, restore
from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...nn.modules.module import Module
from ...nn.utils.clip_grad import clip_grad_norm_
from ...utils import _pytree
from ..device_mesh import DeviceMesh
from ..tensor._sources import values_of
from . import _state_dicts
from ._fully_shard import group_of, whole_world
from ._rules import Group, cast, enter, leave, owned, replicate_others, split_parameters
from .api import (
    BackwardPrefetch as BackwardPrefetch,
    CPUOffload as CPUOffload,
    FullOptimStateDictConfig as FullOptimStateDictConfig,
    FullStateDictConfig as FullStateDictConfig,
    LocalOptimStateDictConfig as LocalOptimStateDictConfig,
    LocalStateDictConfig as LocalStateDictConfig,
    MixedPrecision as MixedPrecision,
    OptimStateDictConfig as OptimStateDictConfig,
    ShardedOptimStateDictConfig as ShardedOptimStateDictConfig,
    ShardedStateDictConfig as ShardedStateDictConfig,
    ShardingStrategy as ShardingStrategy,
    StateDictConfig as StateDictConfig,
    StateDictSettings as StateDictSettings,
    StateDictType as StateDictType,
    check_reduction,
)
from .wrap import wrap_children

_WRAPPED = _state_dicts.WRAPPED
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_KEEPS = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


class OptimStateKeyType(Enum):
    """What the keys of an optimizer's state dictionary are."""

    PARAM_NAME = "PARAM_NAME"
    PARAM_ID = "PARAM_ID"


class FullyShardedDataParallel(Module):
    """A module whose parameters are split over devices, and the batches that it gets.

    Args:
        module: the module.
        process_group: not supported; give `device_mesh`.
        sharding_strategy: FULL_SHARD (if None) splits parameters and gathers them where they are used; SHARD_GRAD_OP
            gathers them once per forward and keeps them for the backward; NO_SHARD leaves them on all devices; the
            hybrid ones split over the second dimension of a mesh and replicate over the first.
        cpu_offload: parameters stay on their devices.
        auto_wrap_policy: which submodules are wrapped, too.
        backward_prefetch: a hint that changes nothing, XLA decides when it gathers.
        mixed_precision: dtypes to compute in.
        ignored_modules: modules whose parameters stay whole.
        param_init_fn: fills modules on the meta device; they are given memory first, split, if None.
        device_id: not looked at: the mesh says which devices.
        sync_module_states: whether all processes take the values of the first one.
        forward_prefetch: a hint that changes nothing.
        limit_all_gathers: a hint that changes nothing.
        use_orig_params: parameters are the module's own in any case.
        ignored_states: parameters or modules that stay whole.
        device_mesh: over which devices, all if None.
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Any = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        if cpu_offload is not None and cpu_offload.offload_params:
            raise NotImplementedError("FullyShardedDataParallel: CPUOffload(offload_params=True)")
        if process_group is not None:
            raise NotImplementedError("FullyShardedDataParallel: process_group; give device_mesh")
        precision = mixed_precision or MixedPrecision()
        if precision.keep_low_precision_grads:
            raise NotImplementedError("FullyShardedDataParallel: MixedPrecision(keep_low_precision_grads=True)")
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        mesh = whole_world() if device_mesh is None else device_mesh
        check_reduction(precision, mesh)
        self.sharding_strategy = strategy
        self._state_dict_settings = _state_dicts.settings(StateDictType.FULL_STATE_DICT)
        modules, ignored = _ignored(ignored_modules, ignored_states)
        if auto_wrap_policy is not None:
            options = {
                "sharding_strategy": strategy,
                "mixed_precision": mixed_precision,
                "device_mesh": mesh,
                "param_init_fn": param_init_fn,
                "sync_module_states": sync_module_states,
                "ignored_states": [*ignored],
            }
            apart = tuple(precision._module_classes_to_ignore or ()) if mixed_precision else ()

            def wrapped(part: Module, **options: Any) -> Module:
                if not isinstance(part, apart):
                    return type(self)(part, **options)
                _computes_in_float32(part)
                return type(self)(part, **{**options, "mixed_precision": None})

            wrap_children(module, auto_wrap_policy, wrapped, modules, options, apart)
        _materialise(module, param_init_fn)
        if sync_module_states:
            _take_values_of_first(module, mesh)
        self.add_module(_WRAPPED, module)
        self._register_state_dict_hook(_state_dicts.names_out)
        self._register_load_state_dict_pre_hook(_state_dicts.names_in)
        self._shard(strategy, mesh, precision, ignored)

    def _shard(self, strategy: Any, mesh: DeviceMesh, precision: MixedPrecision, ignored: Any) -> None:
        module = self.module
        group = Group(
            mesh,
            _sharded(strategy, mesh),
            *owned(module, ignored, _is_group),
            gathers=strategy in _KEEPS,
            param_dtype=precision.param_dtype,
            casts_inputs=precision.cast_forward_inputs,
            casts_root_inputs=precision.cast_root_forward_inputs,
        )
        split_parameters(group, {id(p): name for name, p in module.named_parameters()})
        for b in module.buffers():
            if precision.buffer_dtype is not None and b.is_floating_point():
                b.data = b.to(precision.buffer_dtype)
        replicate_others(module, mesh)
        self.__dict__["_fsdp_group"] = group

    @property
    def module(self) -> Module:
        """The module inside."""
        return getattr(self, _WRAPPED)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _WRAPPED:
                raise
            return getattr(self.module, name)

    def __getitem__(self, key: Any) -> Any:
        inside: Any = self.module
        return inside[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the module gives."""
        group: Any = group_of(self)
        args, kwargs = enter(group, args, kwargs)
        output = None
        try:
            output = self.module(*args, **kwargs)
        finally:
            output = leave(group, output)
        return output

    def check_is_root(self) -> bool:
        """Return whether this is a module that others of its kind are inside of: always asked of the outermost one."""
        return True

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """The modules of this kind in a module.

        Args:
            module: where to look.
            root_only: whether to leave out those inside of others.
        """
        found: list[FullyShardedDataParallel] = []

        def visit(part: Module) -> None:
            if isinstance(part, FullyShardedDataParallel):
                found.append(part)
                if root_only:
                    return
            for child in part.children():
                visit(child)

        visit(module)
        return list(dict.fromkeys(found))

    # --- names and state --------------------------------------------------------------------------

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Names of the module inside, and parameters."""
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(f"{_WRAPPED}.", ""), p

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """Names of the module inside, and buffers."""
        for name, b in super().named_buffers(*args, **kwargs):
            yield name.replace(f"{_WRAPPED}.", ""), b

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Say what `state_dict` of the modules of this kind in a module gives.

        Args:
            module: where to look for them.
            state_dict_type: whole or split tensors.
            state_dict_config: details.
            optim_state_dict_config: details for optimizers.

        Returns:
            What was said before.
        """
        if state_dict_type is StateDictType.LOCAL_STATE_DICT:
            raise NotImplementedError("StateDictType.LOCAL_STATE_DICT: there are no flat parameters")
        wanted = _state_dicts.settings(state_dict_type, state_dict_config, optim_state_dict_config)
        before = _state_dicts.settings_of(module) or wanted
        for part in FullyShardedDataParallel.fsdp_modules(module):
            part._state_dict_settings = wanted
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings | None:
        """Return what `set_state_dict_type` said; None where no module is of this kind."""
        return _state_dicts.settings_of(module)

    @staticmethod
    @contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """`set_state_dict_type` for a block."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            restore(
                FullyShardedDataParallel.set_state_dict_type,
                module,
                before.state_dict_type,
                before.state_dict_config,
                before.optim_state_dict_config,
            )

    optim_state_dict = staticmethod(_state_dicts.optim_state_dict)
    full_optim_state_dict = staticmethod(_state_dicts.full_optim_state_dict)
    optim_state_dict_to_load = staticmethod(_state_dicts.optim_state_dict_to_load)

    # --- training ---------------------------------------------------------------------------------

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale all gradients so that their norm is at most `max_norm`; gives the norm before.

        Args:
            max_norm: the largest norm to leave.
            norm_type: the kind of norm.
        """
        return clip_grad_norm_(self.parameters(), max_norm, norm_type)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A block for backward passes whose gradients add up; each is summed over the devices at once."""
        yield

    @staticmethod
    @contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """A block in which all devices have all of the parameters.

        Args:
            module: where to look for modules of this kind.
            recurse: whether those inside of others are meant, too.
            writeback: whether what is written to parameters stays.
            rank0_only: not looked at: all processes have them.
            offload_to_cpu: not looked at: they stay on their devices.
            with_grads: gradients are whole, too, in any case.
        """
        found = FullyShardedDataParallel.fsdp_modules(module)
        groups = [g for part in (found if recurse else found[:1]) if (g := group_of(part))]
        before = [] if writeback else [(p, p.detach().clone()) for g in groups for p in _parameters(g)]
        for g in groups:
            whole = Group(g.mesh, (False,) * g.mesh.ndim, g.placed)
            split_parameters(whole, {})
        try:
            yield
        finally:
            with no_grad():
                for p, old in before:
                    p.copy_(old)
            for g in groups:
                split_parameters(g, {})

    def register_comm_hook(self, state: object, hook: Any) -> None:
        """Refused: XLA reduces within the programs that it compiles."""
        raise NotImplementedError("FullyShardedDataParallel.register_comm_hook(): XLA reduces gradients")


def _is_group(module: Module) -> bool:
    return group_of(module) is not None


def _parameters(group: Group) -> list[Any]:
    return [owner._parameters[key] for owner, key in group.placed]


def _sharded(strategy: ShardingStrategy, mesh: DeviceMesh) -> tuple[bool, ...]:
    """For each dimension of a mesh whether parameters are split over it."""
    if strategy in _HYBRID:
        if mesh.ndim != 2:
            raise ValueError(f"{strategy.name} needs a mesh of two dimensions, not {mesh}")
        return False, True
    if mesh.ndim != 1:
        raise ValueError(f"{strategy.name} needs a mesh of one dimension, not {mesh}")
    return (strategy is not ShardingStrategy.NO_SHARD,)


def _ignored(modules: Any, states: Any) -> tuple[set[Module], list[Any]]:
    """The modules to leave alone, and the parameters."""
    if modules is not None and states is not None:
        raise ValueError(
            "Cannot pass both ignored_modules and ignored_states at the same time. Please just pass ignored_states."
        )
    found = [*(modules or ()), *(s for s in states or () if isinstance(s, Module))]
    kept = [s for s in states or () if not isinstance(s, Module)]
    return {m for part in found for m in part.modules()}, kept + [p for m in found for p in m.parameters()]


def _computes_in_float32(module: Module) -> None:
    """Let a module among others of lower precision get float32, and give what it would have got the dtype of."""
    dtypes: list[Any] = []

    def before(m: Module, args: Any, kwargs: Any) -> Any:
        leaves = _pytree.tree_leaves((args, kwargs))
        floats = [x for x in leaves if isinstance(x, Tensor) and x.is_floating_point()]
        dtypes.append(floats[0].dtype if floats else float32)
        return cast((args, kwargs), float32)

    def after(m: Module, args: Any, output: Any) -> Any:
        return cast(output, dtypes.pop())

    module.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
    module.register_forward_hook(after, always_call=True)


def _take_values_of_first(module: Module, mesh: DeviceMesh) -> None:
    """Parameters and buffers of the first process, in all processes."""
    with no_grad():
        for t in (*module.parameters(), *module.buffers()):
            t.data = values_of(t.data, mesh, 0)


def _materialise(module: Module, init: Any) -> None:
    """Give memory to the modules that have parameters on the meta device, and fill them."""
    for part in module.modules():
        own = [*part.parameters(recurse=False), *part.buffers(recurse=False)]
        if not any(t.is_meta for t in own):
            continue
        if init is not None:
            init(part)
            continue
        part.to_empty(device="cpu" if jax.default_backend() == "cpu" else "cuda", recurse=False)
        reset: Any = getattr(part, "reset_parameters", None)
        if reset is None:
            raise NotImplementedError(
                f"FullyShardedDataParallel: {type(part).__name__} on the meta device has no reset_parameters; give "
                "param_init_fn"
            )
        with no_grad():
            reset()
