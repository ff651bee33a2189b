"""torch.optim.lr_scheduler: learning rates that change as training goes on."""

from __future__ import annotations

from ._lr_base import (
    EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING,
    LRScheduler as LRScheduler,
    _LRScheduler as _LRScheduler,
)
from ._lr_composed import (
    ChainedScheduler as ChainedScheduler,
    ReduceLROnPlateau as ReduceLROnPlateau,
    SequentialLR as SequentialLR,
)
from ._lr_cycles import CyclicLR as CyclicLR, OneCycleLR as OneCycleLR
from ._lr_formulas import (
    ConstantLR as ConstantLR,
    CosineAnnealingLR as CosineAnnealingLR,
    CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts,
    ExponentialLR as ExponentialLR,
    LambdaLR as LambdaLR,
    LinearLR as LinearLR,
    MultiplicativeLR as MultiplicativeLR,
    MultiStepLR as MultiStepLR,
    PolynomialLR as PolynomialLR,
    StepLR as StepLR,
)

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

for _name in (*__all__, "_LRScheduler"):  # so that pickles and reprs name them as torch does
    globals()[_name].__module__ = __name__
