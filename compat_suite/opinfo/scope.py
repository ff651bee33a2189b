"""Rows of torch's table that are out of scope, each with its reason."""

from __future__ import annotations

from typing import Any

SPARSE = "sparse layouts are out of scope (docs/non_goals.md)"
GPU = "torch has it on GPUs only"
CUDA_SOURCE = "compiles CUDA source given as text"
SCALED = "a private name for scaled 8-bit products of one kind of GPU"

OUT_OF_SCOPE: dict[str, str] = {
    "to_sparse": SPARSE,
    "sparse.mm": SPARSE,
    "sparse.sampled_addmm": SPARSE,
    "jiterator_unary": CUDA_SOURCE,
    "jiterator_binary": CUDA_SOURCE,
    "jiterator_4inputs_with_extra_args": CUDA_SOURCE,
    "jiterator_binary_return_by_ref": CUDA_SOURCE,
    "jiterator_2inputs_2outputs": CUDA_SOURCE,
    "torch._scaled_mm": SCALED,
    "torch._scaled_mm_v2": SCALED,
    "torch.ops.aten._flash_attention_forward": GPU,
    "torch.ops.aten._efficient_attention_forward": GPU,
}


def out_of_scope(info: Any) -> str | None:
    """Why a row is not judged, or None."""
    return OUT_OF_SCOPE.get(info.name)
