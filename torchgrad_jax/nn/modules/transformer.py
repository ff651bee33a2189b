"""Transformers: encoders and decoders made of layers of attention."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from ..._core.arrays import dtypes
from ..._core.errors import warn
from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import is_grad_enabled
from .. import functional as F
from .._top import torch
from ..init import xavier_uniform_
from .activation import GELU, ReLU
from .attention import MultiheadAttention
from .container import ModuleList
from .dropout import Dropout
from .linear import Linear
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

_Activation = str | Callable[[Tensor], Tensor]


def _generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
    """-inf above the diagonal, 0 elsewhere."""
    full = torch.full((sz, sz), float("-inf"), dtype=dtype, device=device)
    return torch.triu(full, diagonal=1)


def _get_seq_len(src: Any, batch_first: bool) -> int:
    return src.shape[0] if src.dim() == 2 else src.shape[1 if batch_first else 0]


def _detect_is_causal_mask(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Return whether a mask is the causal one; what the caller says counts if he says anything."""
    if is_causal is not None or mask is None:
        return is_causal is True
    n = mask.size(-2) if size is None else size
    causal = _generate_square_subsequent_mask(n, device=mask.device, dtype=mask.dtype)
    return mask.size() == causal.size() and bool((mask == causal).all())


def _canonical_mask(mask: Any, name: str, other: Any, other_name: str, dtype: Any) -> Any:
    """A mask as numbers that are added: -inf where a bool mask is set."""
    if mask is None:
        return None
    if mask.dtype is not dtypes.bool_ and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and other.dtype != mask.dtype:
        warn.to_user(f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.")
    if mask.is_floating_point():
        return mask
    zeros = torch.zeros_like(mask, dtype=dtype)
    return zeros.masked_fill_(mask, float("-inf"))


def _get_clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _get_activation_fn(activation: str) -> Callable[[Tensor], Tensor]:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model: size of the features.
        nhead: number of heads of attention.
        num_encoder_layers: number of layers of the encoder.
        num_decoder_layers: number of layers of the decoder.
        dim_feedforward: size of the hidden layer between attentions.
        dropout: probability of dropping elements.
        activation: "relu", "gelu" or a function.
        custom_encoder: an encoder to use instead.
        custom_decoder: a decoder to use instead.
        layer_norm_eps: what normalisations add to the variance.
        batch_first: whether input and output are (batch, length, features).
        norm_first: whether layers normalise before attention rather than after.
        bias: whether layers have biases.
        device: where the parameters live.
        dtype: their dtype.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kind: Any = {"device": device, "dtype": dtype}
        layer: Any = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )
        if custom_encoder is None:
            first = TransformerEncoderLayer(*layer, **kind)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kind)
            custom_encoder = TransformerEncoder(first, num_encoder_layers, norm)
        self.encoder = custom_encoder
        if custom_decoder is None:
            first = TransformerDecoderLayer(*layer, **kind)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **kind)
            custom_decoder = TransformerDecoder(first, num_decoder_layers, norm)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode the target, given the source.

        Args:
            src: the source, (length, batch, features).
            tgt: the target.
            src_mask: mask of the source's attention to itself.
            tgt_mask: mask of the target's attention to itself.
            memory_mask: mask of the target's attention to the source.
            src_key_padding_mask: (batch, length), where the source is padding.
            tgt_key_padding_mask: where the target is padding.
            memory_key_padding_mask: where the encoded source is padding.
            src_is_causal: says that the source's mask is the causal one.
            tgt_is_causal: says that the target's mask is the causal one.
            memory_is_causal: says that the mask between them is the causal one.
        """
        batched = src.dim() == 3
        dim = 0 if self.batch_first else 1
        if batched and src.size(dim) != tgt.size(dim):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask: -inf above the diagonal, 0 elsewhere.

        Args:
            sz: length of the sequence.
            device: where it lives.
            dtype: its dtype.
        """
        return _generate_square_subsequent_mask(sz, dtype=dtype, device=device)

    def _reset_parameters(self) -> None:
        for param in self.parameters():
            if param.dim() > 1:
                xavier_uniform_(param)


class TransformerEncoder(Module):
    """Several encoder layers.

    Args:
        encoder_layer: the layer, which is copied.
        num_layers: number of copies.
        norm: a normalisation at the end.
        enable_nested_tensor: whether padding is cut out in inference, as far as that can be seen: the
            result is zero there.
        mask_check: whether that happens only where the padding is at the end.
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor = self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        why_not = _why_not_nested(encoder_layer)
        if enable_nested_tensor and why_not:
            warn.to_user(f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why_not}")
            self.use_nested_tensor = False

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Tensor:
        """Encode.

        Args:
            src: the source, (length, batch, features).
            mask: mask of its attention to itself.
            src_key_padding_mask: (batch, length), where it is padding.
            is_causal: says that the mask is the causal one; None means to look.
        """
        padding = _canonical_mask(src_key_padding_mask, "src_key_padding_mask", mask, "mask", src.dtype)
        mask = _canonical_mask(mask, "mask", None, "", src.dtype)
        first: Any = self.layers[0]
        cut = mask is None and padding is not None and self._cuts_padding(src, padding)
        length = _get_seq_len(src, first.self_attn.batch_first)
        causal = _detect_is_causal_mask(mask, is_causal, length)
        out = src
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if cut:
            out = out.masked_fill((padding != 0).unsqueeze(-1), 0.0)
        return out if self.norm is None else self.norm(out)

    def _cuts_padding(self, src: Any, padding: Any) -> bool:
        """Return whether torch would run on the rows that are no padding, so that the others come out as 0."""
        first: Any = self.layers[0]
        if not self.use_nested_tensor or first.training or src.dim() != 3:
            return False
        real = padding == 0
        if self.mask_check and bool((real[:, 1:] & ~real[:, :-1]).any()):
            return False
        tensors = (src, *first.parameters())
        return not (is_grad_enabled() and any(t.requires_grad for t in tensors))


def _why_not_nested(layer: Any) -> str:
    """Return what keeps torch from running an encoder without its padding."""
    name = "encoder_layer"
    if not isinstance(layer, TransformerEncoderLayer):
        return f"{name} was not TransformerEncoderLayer"
    if layer.norm_first:
        return f"{name}.norm_first was True"
    attention: Any = layer.self_attn
    if not attention.batch_first:
        return f"{name}.self_attn.batch_first was not True(use batch_first for better inference performance)"
    if not attention._qkv_same_embed_dim:
        return f"{name}.self_attn._qkv_same_embed_dim was not True"
    if attention.in_proj_bias is None:
        return f"{name}.self_attn was passed bias=False"
    if not layer.activation_relu_or_gelu:
        return f"{name}.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return f"{name}.norm1.eps was not equal to {name}.norm2.eps"
    if attention.num_heads % 2 == 1:
        return f"{name}.self_attn.num_heads is odd"
    return ""


class TransformerDecoder(Module):
    """Several decoder layers.

    Args:
        decoder_layer: the layer, which is copied.
        num_layers: number of copies.
        norm: a normalisation at the end.
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode.

        Args:
            tgt: the target, (length, batch, features).
            memory: the encoded source.
            tgt_mask: mask of the target's attention to itself.
            memory_mask: mask of its attention to the source.
            tgt_key_padding_mask: (batch, length), where the target is padding.
            memory_key_padding_mask: where the source is padding.
            tgt_is_causal: says that the target's mask is the causal one; None means to look.
            memory_is_causal: says that the other mask is the causal one.
        """
        first: Any = self.layers[0]
        length = _get_seq_len(tgt, first.self_attn.batch_first)
        causal = _detect_is_causal_mask(tgt_mask, tgt_is_causal, length)
        out = tgt
        for layer in self.layers:
            out = layer(
                out,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return out if self.norm is None else self.norm(out)


class _Layer(Module):
    """What both kinds of layers share."""

    activation: Any
    norm_first: bool
    self_attn: MultiheadAttention
    linear1: Linear
    linear2: Linear
    dropout: Dropout
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    def _make(
        self,
        attentions: tuple[str, ...],
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        kind: dict[str, Any],
    ) -> None:
        """The parts: the attentions, the hidden layer, and a norm and a dropout for each bypass."""
        for name in attentions:
            part = MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=batch_first, **kind)
            setattr(self, name, part)
        self.linear1 = Linear(d_model, dim_feedforward, **kind)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **kind)
        self.norm_first = norm_first
        bypasses = range(1, len(attentions) + 2)
        for i in bypasses:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, **kind))
        for i in bypasses:
            setattr(self, f"dropout{i}", Dropout(dropout))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _attend(self, attention: Any, x: Tensor, source: Tensor, mask: Any, padding: Any, is_causal: bool) -> Tensor:
        return attention(
            x, source, source, attn_mask=mask, key_padding_mask=padding, is_causal=is_causal, need_weights=False
        )[0]

    def _sa_block(self, x: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Tensor:
        return self.dropout1(self._attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _feed(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


_LAYER_ARGS = """

    Args:
        d_model: size of the features.
        nhead: number of heads of attention.
        dim_feedforward: size of the hidden layer.
        dropout: probability of dropping elements.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: what normalisations add to the variance.
        batch_first: whether input and output are (batch, length, features).
        norm_first: whether normalisation comes before attention rather than after.
        bias: whether there are biases.
        device: where the parameters live.
        dtype: their dtype.
    """


class TransformerEncoderLayer(_Layer):
    __doc__ = "Attention to itself, then a hidden layer, both with a bypass." + _LAYER_ARGS

    __constants__ = ["norm_first"]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kind = {"bias": bias, "device": device, "dtype": dtype}
        sizes = d_model, nhead, dim_feedforward
        self._make(("self_attn",), *sizes, dropout, layer_norm_eps, batch_first, norm_first, kind)
        if isinstance(activation, str):
            activation = _get_activation_fn(activation)
        if activation is F.relu or isinstance(activation, ReLU):
            self.activation_relu_or_gelu = 1
        else:
            is_gelu = activation is F.gelu or isinstance(activation, GELU)
            self.activation_relu_or_gelu = 2 if is_gelu else 0
        self.activation = activation

    def forward(
        self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False
    ) -> Tensor:
        """Encode.

        Args:
            src: the source, (length, batch, features).
            src_mask: mask of its attention to itself.
            src_key_padding_mask: (batch, length), where it is padding.
            is_causal: says that the mask is the causal one.
        """
        padding = _canonical_mask(src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src.dtype)
        mask = _canonical_mask(src_mask, "src_mask", None, "", src.dtype)
        if self.norm_first:
            src = src + self._sa_block(self.norm1(src), mask, padding, is_causal)
            return src + self._ff_block(self.norm2(src))
        src = self.norm1(src + self._sa_block(src, mask, padding, is_causal))
        return self.norm2(src + self._ff_block(src))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._feed(x))


class TransformerDecoderLayer(_Layer):
    __doc__ = "Attention to itself, attention to a source, then a hidden layer, all with a bypass." + _LAYER_ARGS

    __constants__ = ["norm_first"]
    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: _Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        kind = {"bias": bias, "device": device, "dtype": dtype}
        sizes = d_model, nhead, dim_feedforward
        self._make(("self_attn", "multihead_attn"), *sizes, dropout, layer_norm_eps, batch_first, norm_first, kind)
        named = isinstance(activation, str)
        self.activation = _get_activation_fn(activation) if named else activation

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Decode.

        Args:
            tgt: the target, (length, batch, features).
            memory: the encoded source.
            tgt_mask: mask of the target's attention to itself.
            memory_mask: mask of its attention to the source.
            tgt_key_padding_mask: (batch, length), where the target is padding.
            memory_key_padding_mask: where the source is padding.
            tgt_is_causal: says that the target's mask is the causal one.
            memory_is_causal: says that the other mask is the causal one.
        """
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Tensor:
        return self.dropout2(self._attend(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._feed(x))
