"""Batch normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core.arrays import dtypes
from ..._core.arrays.formats import channels_last, channels_last_3d
from ..._core.errors.checks import fail_if
from ..._engine.graph.deferred import now_or_later
from ..._engine.memory.concrete import is_traced
from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from ...distributed import get_world_size, is_initialized
from ...distributed.nn.functional import _AllGather
from .. import functional as F, init
from .._top import torch
from ..parameter import Parameter, UninitializedBuffer, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def _no_batches(device: Any = None) -> Tensor:
    return torch.tensor(0, dtype=dtypes.int64, device=device)


class _NormBase(Module):
    """Parameters and running statistics of normalisation per channel."""

    _version = 2
    __constants__ = ["track_running_stats", "momentum", "eps", "num_features", "affine"]
    _input_dims: tuple[int, ...] = ()
    """How many dimensions an input may have."""
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        kind = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            self.register_parameter(name, Parameter(torch.empty(num_features, **kind)) if wanted else None)
        if track_running_stats:
            self.register_buffer("running_mean", torch.zeros(num_features, **kind))
            self.register_buffer("running_var", torch.ones(num_features, **kind))
            self.register_buffer("num_batches_tracked", _no_batches(device))
        else:
            for name in _STATISTICS:
                self.register_buffer(name, None)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was seen of the data."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Forget the statistics, and make the affine map the identity."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input: Any) -> None:
        if not self._input_dims:
            raise NotImplementedError
        if input.dim() not in self._input_dims:
            wanted = " or ".join(f"{n}D" for n in self._input_dims)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        """Its arguments."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any) -> None:
        version = local_metadata.get("version", None)
        if (version is None or version < 2) and self.track_running_stats:
            # States of the first version do not count batches.
            counted = self.num_batches_tracked
            state_dict.setdefault(prefix + "num_batches_tracked", _no_batches() if counted is None else counted)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _count(self) -> float | Tensor:
        """Count the batch, if it is one to learn from; the weight of the newest statistics.

        In a compiled function the weight of an average over all batches is a tensor, since the count is not known.
        """
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None and is_traced(self.num_batches_tracked):
                return self.num_batches_tracked.double().reciprocal()
            if self.momentum is None:
                return 1.0 / float(self.num_batches_tracked)
        return 0.0 if self.momentum is None else self.momentum

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, by the statistics of the batch in training and by the running ones otherwise."""
        self._check_input_dim(input)
        newest = self._count()
        mean, var = self.running_mean, self.running_var
        by_batch = self.training or (mean is None and var is None)
        if self.training and not self.track_running_stats:
            mean = var = None
        into: Any = (mean, var)
        weight: Any = newest
        if isinstance(newest, Tensor):  # the statistics of this batch alone, averaged below
            into, weight = [None if t is None else torch.zeros_like(t) for t in into], 1.0
        out = F.batch_norm(input, into[0], into[1], self.weight, self.bias, by_batch, weight, self.eps)
        if isinstance(newest, Tensor) and mean is not None and var is not None:
            for running, new in zip((mean, var), into):
                running.copy_(new * newest.to(new.dtype) + running * (1 - newest).to(new.dtype))
        return out


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Takes the number of channels from the first input."""

    weight: Any
    bias: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        kind = {"device": device, "dtype": dtype}
        # Without parameters and statistics, whose shapes would be wrong until the first call.
        super().__init__(0, eps, momentum, False, False, **kind, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(**kind)
            if bias:
                self.bias = UninitializedParameter(**kind)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**kind)
            self.running_var = UninitializedBuffer(**kind)
            self.num_batches_tracked = _no_batches(device)

    def reset_parameters(self) -> None:
        """Put the initial values back, once the shapes are known."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of channels from the input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        held = [self.weight, self.bias] if self.affine else []
        held += [self.running_mean, self.running_var] if self.track_running_stats else []
        for value in held:
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


_ARGS = """

    Args:
        num_features: number of channels.
        eps: what is added to the variance.
        momentum: weight of the newest batch in the running statistics; None averages all batches.
        affine: whether a factor and an offset per channel are learned.
        track_running_stats: whether statistics are kept for evaluation.
        device: where parameters and statistics live.
        dtype: their dtype.
        bias: whether there is an offset.
    """
_LAZY = " that takes the number of channels from its first input; see there for the arguments."


class BatchNorm1d(_BatchNorm):
    __doc__ = "Batch normalisation of (batch, channels) or (batch, channels, length)." + _ARGS

    _input_dims = (2, 3)


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    __doc__ = "A `BatchNorm1d`" + _LAZY

    cls_to_become = BatchNorm1d
    _input_dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    __doc__ = "Batch normalisation of (batch, channels, height, width)." + _ARGS

    _input_dims = (4,)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    __doc__ = "A `BatchNorm2d`" + _LAZY

    cls_to_become = BatchNorm2d
    _input_dims = (4,)


class BatchNorm3d(_BatchNorm):
    __doc__ = "Batch normalisation of (batch, channels, depth, height, width)." + _ARGS

    _input_dims = (5,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    __doc__ = "A `BatchNorm3d`" + _LAZY

    cls_to_become = BatchNorm3d
    _input_dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation by the statistics of the batches of all processes, as if they were one batch.

    With one process, and in evaluation, it is `BatchNorm1d`, `BatchNorm2d` or `BatchNorm3d`. The gradients of weight
    and bias are those of the process's own batch, for `DistributedDataParallel` to average. Processes may have batches
    of different sizes, even an empty one.

    Differs from torch: torch refuses tensors on CPUs.

    Args:
        num_features: number of channels.
        eps: what is added to the variance.
        momentum: weight of the newest batch in the running statistics; None averages all batches.
        affine: whether a factor and an offset per channel are learned.
        track_running_stats: whether statistics are kept for evaluation.
        process_group: which processes; all of them if it is None.
        device: where parameters and statistics live.
        dtype: their dtype.
        bias: whether there is an offset.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Any) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def _check_non_zero_input_channels(self, input: Any) -> None:
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, by the statistics of all processes in training and by the running ones otherwise."""
        self._check_input_dim(input)
        self._check_non_zero_input_channels(input)
        joining = self.training and is_initialized() and get_world_size(self.process_group) > 1
        return self._normalize_together(input) if joining else super().forward(input)

    def _normalize_together(self, input: Tensor) -> Tensor:
        self._check_parameters(input)
        newest, shape = self._count(), [-1] + [1] * (input.dim() - 2)
        formats = (channels_last, channels_last_3d)
        if not any(input.is_contiguous(memory_format=f) for f in formats):
            input = input.contiguous()  # the result is laid out like that of batch_norm
        wide = input.to(torch.promote_types(input.dtype, dtypes.float32))
        mean, var, count = _statistics_together(wide, self.process_group)
        now_or_later([count], _check_more_than_one)
        if self.track_running_stats and self.running_mean is not None:
            with no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), newest)
                unbiased = var * (count / (count - 1)).to(var.dtype)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), newest)
        out = (wide - mean.view(shape)) * (var + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        if self.bias is not None:
            out = out + self.bias.view(shape)
        return out.to(input.dtype)

    def _check_parameters(self, input: Tensor) -> None:
        if not input.is_floating_point():
            raise NotImplementedError(f"torch.nn.SyncBatchNorm of {input.dtype}")
        if self.eps <= 0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {self.eps}")
        n = input.shape[1]
        for name in ("running_mean", "running_var", "weight", "bias"):
            p = getattr(self, name)
            if p is not None and p.numel() != n:
                raise RuntimeError(f"{name} should contain {n} elements not {p.numel()}")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace all batch normalisations in a module by this one.

        Args:
            module: where to look.
            process_group: which processes share their statistics; all of them if it is None.

        Returns:
            The module, or what replaces it.
        """
        out: Any = module
        if isinstance(module, _BatchNorm):
            out = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                with no_grad():
                    out.weight, out.bias = module.weight, module.bias
            for name in _STATISTICS:
                setattr(out, name, getattr(module, name))
            out.training = module.training
        for name, child in module.named_children():
            out.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return out


def _check_more_than_one(counts: Sequence[Any]) -> None:
    fail_if(
        counts[0] < 2,
        lambda: ValueError(
            f"Expected more than 1 value per channel when training, got {int(counts[0])} in all processes together"
        ),
    )


def _statistics_together(input: Tensor, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of each channel over the batches of all processes, and of how many values they are."""
    channels, dims = input._m.shape[1], [d for d in range(input.dim()) if d != 1]
    count = input.numel() // channels
    mean = input.sum(dims) / max(count, 1)
    deviation = input - mean.view([-1] + [1] * (input.dim() - 2))
    mine = torch.cat([mean, deviation.square().sum(dims), input.new_tensor([count])])
    everyone = torch.stack(_AllGather.apply(group, mine))
    means, squares, counts = everyone.split([channels, channels, 1], 1)
    total = counts.sum()
    mean = (means * counts).sum(0) / total
    # The squares of each process are of deviations from its own mean.
    var = (squares + counts * (means - mean).square()).sum(0) / total
    return mean, var, total.to(dtypes.float64)
