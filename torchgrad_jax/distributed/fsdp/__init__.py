"""torch.distributed.fsdp: parameters, gradients and the state of optimizers split over devices."""

from __future__ import annotations

from ..._core.errors.messages import missing as _missing
from ._fully_shard import (
    FSDPModule as FSDPModule,
    UnshardHandle as UnshardHandle,
    fully_shard as fully_shard,
    register_fsdp_forward_method as register_fsdp_forward_method,
    share_comm_ctx as share_comm_ctx,
)
from .api import (
    BackwardPrefetch as BackwardPrefetch,
    CPUOffload as CPUOffload,
    CPUOffloadPolicy as CPUOffloadPolicy,
    DataParallelMeshDims as DataParallelMeshDims,
    FullOptimStateDictConfig as FullOptimStateDictConfig,
    FullStateDictConfig as FullStateDictConfig,
    LocalOptimStateDictConfig as LocalOptimStateDictConfig,
    LocalStateDictConfig as LocalStateDictConfig,
    MixedPrecision as MixedPrecision,
    MixedPrecisionPolicy as MixedPrecisionPolicy,
    OffloadPolicy as OffloadPolicy,
    OptimStateDictConfig as OptimStateDictConfig,
    ShardedOptimStateDictConfig as ShardedOptimStateDictConfig,
    ShardedStateDictConfig as ShardedStateDictConfig,
    ShardingStrategy as ShardingStrategy,
    StateDictConfig as StateDictConfig,
    StateDictSettings as StateDictSettings,
    StateDictType as StateDictType,
)
from .fully_sharded_data_parallel import (
    FullyShardedDataParallel as FullyShardedDataParallel,
    OptimStateKeyType as OptimStateKeyType,
)

__getattr__ = _missing(__name__)
