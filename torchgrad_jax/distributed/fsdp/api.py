"""What FSDP may be told: precision, strategies, and kinds of state dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ..._core.errors import warn
from ...nn.modules.batchnorm import _BatchNorm
from ...nn.modules.module import Module
from ..device_mesh import DeviceMesh
from ._gathering import has_own_forward


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a module sharded by `fully_shard` computes.

    Args:
        param_dtype: what the parameters are cast to while the module runs; they stay as they are for the optimizer.
        reduce_dtype: changes nothing: XLA adds up the gradients of the devices in the dtype that they are computed in,
            and those of processes are averaged in the dtype of the parameters. There is a warning where this one is
            wider.
        output_dtype: what floating-point outputs are cast to.
        cast_forward_inputs: whether floating-point inputs are cast to `param_dtype`.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parameters stay on their devices."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Refused by `fully_shard`: parameters stay on their devices."""

    pin_memory: bool = True


@dataclass
class DataParallelMeshDims:
    """Which dimensions of a mesh are for data parallelism, by name.

    Args:
        shard: over these the parameters are split.
        replicate: over these each device has all of them.
    """

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.shard is None and self.replicate is None:
            raise ValueError("At least one of shard or replicate must be set in DataParallelMeshDims")


class ShardingStrategy(Enum):
    """What FullyShardedDataParallel splits."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When parameters are fetched during a backward pass: XLA decides here."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class MixedPrecision:
    """In which dtypes a module in FullyShardedDataParallel computes.

    Args:
        param_dtype: what the parameters are cast to while the module runs; they stay as they are for the optimizer.
        reduce_dtype: as in `MixedPrecisionPolicy`.
        buffer_dtype: what floating-point buffers are cast to, for good.
        keep_low_precision_grads: not supported: gradients have the dtype of their parameters.
        cast_forward_inputs: whether floating-point inputs are cast to `param_dtype`.
        cast_root_forward_inputs: the same for the outermost module alone.
        _module_classes_to_ignore: modules of these classes compute as without this, where an `auto_wrap_policy` wraps
            submodules.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[Module]] = (_BatchNorm,)


def check_reduction(precision: MixedPrecisionPolicy | MixedPrecision, mesh: DeviceMesh) -> None:
    """Warn where gradients are added up in a narrower dtype than was asked for."""
    computed, wanted = precision.param_dtype, precision.reduce_dtype
    if has_own_forward(mesh):
        return
    if computed is not None and wanted is not None and wanted.itemsize > computed.itemsize:
        warn.to_user(
            f"reduce_dtype={wanted} has no effect: gradients are computed and added up in {computed} (param_dtype)"
        )


@dataclass
class CPUOffload:
    """Whether parameters lie on the CPU; refused where they are to."""

    offload_params: bool = False


class StateDictType(Enum):
    """What a state dictionary holds."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class StateDictConfig:
    """How a state dictionary is made.

    Args:
        offload_to_cpu: whether whole tensors lie on the CPU; parts of split ones stay on their devices.
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """The same for whole tensors; `rank0_only` leaves the dictionaries of other processes empty."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """The same for local tensors."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """The same for tensors that stay split."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """How the state dictionary of an optimizer is made, as with `StateDictConfig`."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """The same for whole tensors."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """The same for local tensors."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """The same for tensors that stay split."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """What `FullyShardedDataParallel.get_state_dict_type` answers."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
