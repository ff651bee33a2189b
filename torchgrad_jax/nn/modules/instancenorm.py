"""Normalisation of each channel of each example."""

from __future__ import annotations

from typing import Any

from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor
from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self) -> int:
        if not self._input_dims:
            raise NotImplementedError
        return self._input_dims[0]

    def _handle_no_batch_input(self, input: Tensor) -> Tensor:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        version = local_metadata.get("version", None)
        if version is None and not self.track_running_stats:
            names = (prefix + name for name in ("running_mean", "running_var"))
            found = [key for key in names if key in state_dict]
            if found:
                names_shown = " and ".join(f'"{key}"' for key in found)
                error_msgs.append(
                    f"Unexpected running stats buffer(s) {names_shown} for {type(self).__name__} with "
                    "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, this may be "
                    f"expected because {type(self).__name__} does not track running stats by default since 0.4.0. "
                    "Please remove these keys from state_dict. If the running stats are actually needed, instead "
                    f"set track_running_stats=True in {type(self).__name__} to enable them. See the documentation of "
                    f"{type(self).__name__} for details."
                )
                for key in found:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input: Tensor) -> Tensor:
        """Normalise, one example without a batch dimension included."""
        self._check_input_dim(input)
        single = input.dim() == self._get_no_batch_dim()
        dim = 0 if single else 1
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: "
                    f"{input.size(dim)}."
                )
            warn.to_user(
                f"input's size at dim={dim} does not match num_features. You can silence this warning by not passing "
                "in num_features, which is not used because affine=False"
            )
        return self._handle_no_batch_input(input) if single else self._apply_instance_norm(input)


_ARGS = """

    Args:
        num_features: number of channels.
        eps: what is added to the variance.
        momentum: weight of the newest batch in the running statistics.
        affine: whether a factor and an offset per channel are learned.
        track_running_stats: whether statistics are kept for evaluation.
        device: where parameters and statistics live.
        dtype: their dtype.
        bias: whether there is an offset.
    """
_LAZY = " that takes the number of channels from its first input; see there for the arguments."


class InstanceNorm1d(_InstanceNorm):
    __doc__ = "Normalisation of each channel of (batch, channels, length)." + _ARGS

    _input_dims = (2, 3)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    __doc__ = "An `InstanceNorm1d`" + _LAZY

    cls_to_become = InstanceNorm1d
    _input_dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    __doc__ = "Normalisation of each channel of (batch, channels, height, width)." + _ARGS

    _input_dims = (3, 4)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    __doc__ = "An `InstanceNorm2d`" + _LAZY

    cls_to_become = InstanceNorm2d
    _input_dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    __doc__ = "Normalisation of each channel of (batch, channels, depth, height, width)." + _ARGS

    _input_dims = (4, 5)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    __doc__ = "An `InstanceNorm3d`" + _LAZY

    cls_to_become = InstanceNorm3d
    _input_dims = (4, 5)
