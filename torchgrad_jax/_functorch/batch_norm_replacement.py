"""Batch norms without running statistics, under an older name."""

from ..func import replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_

__all__ = ["replace_all_batch_norm_modules_"]
