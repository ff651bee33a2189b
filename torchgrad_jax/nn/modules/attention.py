"""Attention of several heads."""

from __future__ import annotations

from typing import Any

from ..._engine.memory.tensor import Tensor
from ...amp.autocast_mode import is_autocast_enabled
from ...autograd.grad_mode import is_grad_enabled
from .. import functional as F, init
from .._top import torch
from ..parameter import Parameter
from .linear import NonDynamicallyQuantizableLinear
from .module import Module


class MultiheadAttention(Module):
    """Attention of several heads, with projections of queries, keys, values and results.

    Args:
        embed_dim: size of the queries and results.
        num_heads: number of heads, a divisor of it.
        dropout: probability of dropping weights in training.
        bias: whether the projections have biases.
        add_bias_kv: whether a learned key and value are added.
        add_zero_attn: whether a key and value of zeros are added.
        kdim: size of the keys, if it is another.
        vdim: size of the values, if it is another.
        batch_first: whether input and output are (batch, length, features).
        device: where the parameters live.
        dtype: their dtype.
    """

    __constants__ = ["batch_first"]
    bias_k: Any
    bias_v: Any

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def fresh(*shape: int) -> Parameter:
            return Parameter(torch.empty(shape, device=device, dtype=dtype))

        same = self._qkv_same_embed_dim
        if same:
            self.in_proj_weight: Any = fresh(3 * embed_dim, embed_dim)
        for letter, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            weight = None if same else fresh(embed_dim, size)
            self.register_parameter(f"{letter}_proj_weight", weight)
        if not same:
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", fresh(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = fresh(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = fresh(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for letter in "qkv":
                init.xavier_uniform_(getattr(self, f"{letter}_proj_weight"))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend.

        Args:
            query: (length, batch, features), or without the batch.
            key: (source length, batch, features).
            value: the same with the features of values.
            key_padding_mask: (batch, source length), where keys do not count.
            need_weights: whether the weights are returned too.
            attn_mask: where attention is not allowed, or what is added to the scores.
            average_attn_weights: whether the weights are averaged over the heads.
            is_causal: says that the mask is the causal one.
        """
        turned = self.batch_first and query.dim() == 3
        dense = turned and self._is_one_kernel(query, key, value, attn_mask, key_padding_mask)
        if turned:
            # One transposed tensor stays one, so that its projection is computed once.
            seen: dict[int, Any] = {}
            query, key, value = (seen.setdefault(id(t), t.transpose(1, 0)) for t in (query, key, value))
        separate = (
            {}
            if self._qkv_same_embed_dim
            else {
                "use_separate_proj_weight": True,
                "q_proj_weight": self.q_proj_weight,
                "k_proj_weight": self.k_proj_weight,
                "v_proj_weight": self.v_proj_weight,
            }
        )
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k,
            self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias,
            training=self.training, key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            average_attn_weights=average_attn_weights, is_causal=is_causal, **separate,
        )  # fmt: skip
        if turned:
            out = out.transpose(1, 0)
        return (out.contiguous() if dense else out), weights

    def _is_one_kernel(self, query: Any, key: Any, value: Any, *masks: Any) -> bool:
        """Return whether torch has one kernel for this, whose result lies in memory as its shape says."""
        if self.training or query is not key or key is not value or is_autocast_enabled():
            return False
        plain = self._qkv_same_embed_dim and self.bias_k is None and not self.add_zero_attn
        if not plain or self.in_proj_bias is None or self.num_heads % 2:
            return False
        if any(mask is not None and mask.is_floating_point() for mask in masks):
            return False
        held = (query, *self.parameters())
        return not (is_grad_enabled() and any(t.requires_grad for t in held))

    def merge_masks(self, attn_mask: Any, key_padding_mask: Any, query: Any) -> tuple[Tensor | None, int | None]:
        """Both masks as one, and of which kind it is.

        Args:
            attn_mask: a mask of positions, kind 0 or 2.
            key_padding_mask: a mask of keys, kind 1.
            query: the queries.
        """
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length, _ = query.shape
        if attn_mask.dim() == 3:
            merged = attn_mask.view(batch, -1, length, length)
        else:
            merged = attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        if key_padding_mask is not None:
            padding = key_padding_mask.view(batch, 1, 1, length)
            merged = merged + padding.expand(-1, self.num_heads, -1, -1)
        return merged, 2


# Where torch has it, so that pickles of modules go both ways.
MultiheadAttention.__module__ = "torchgrad_jax.nn.modules.activation"
