"""Recurrent networks of several layers and directions, and their cells."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._core.arrays import shapes
from .._core.arrays.dtypes import float64
from .._core.arrays.kernels import scalar_name
from .._engine.entry.bind import NAMESPACES, composite, ops
from .._engine.memory.concrete import concrete
from .._engine.memory.tensor import Tensor
from .arguments import type_name
from .create import from_host

_top = functools.partial(composite, method=False)


# --- packed sequences -----------------------------------------------------------------------------


def places(batch_sizes: np.ndarray) -> np.ndarray:
    """Where each row of packed data is in (time, batch) padded to a rectangle, as a flat index."""
    widest = int(batch_sizes[0])
    return np.concatenate([t * widest + np.arange(n) for t, n in enumerate(batch_sizes)])


def host_sizes(batch_sizes: Tensor) -> np.ndarray:
    """The values of a tensor of batch sizes."""
    return np.asarray(concrete(batch_sizes).tolist(), np.int64)


def _index(values: np.ndarray, like: Tensor) -> Tensor:
    return from_host(np.ascontiguousarray(values.astype(np.int64)), like._m.device)


def spread(data: Tensor, sizes: np.ndarray) -> Tensor:
    """Packed rows as (time, batch, ...). Rows after the end of a sequence hold arbitrary values."""
    rows = np.zeros(len(sizes) * int(sizes[0]), np.int64)
    where = places(sizes)
    rows[where] = np.arange(len(where))
    out = ops.index_select(data, 0, _index(rows, data))
    return out.view(len(sizes), int(sizes[0]), *data._m.shape[1:])


def collect(padded: Tensor, sizes: np.ndarray, named: str) -> Tensor:
    """The rows of (time, batch, ...) that belong to sequences, packed; `named` is the name of the node."""
    return ops._pack_rows(padded, _index(places(sizes), padded), named)


# --- layers ---------------------------------------------------------------------------------------


def _pieces(params: Sequence[Tensor], has_biases: bool, projected: bool) -> list[Any]:
    """The parameters of each layer and direction: two weights, two biases, a projection."""
    n = 2 + 2 * has_biases + projected
    out = []
    for i in range(0, len(params), n):
        part = list(params[i : i + n])
        biases = part[2:4] if has_biases else [None, None]
        out.append((part[0], part[1], *biases, part[-1] if projected else None))
    return out


def _run(
    mode: str,
    x: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    sizes: np.ndarray | None = None,
) -> Any:
    """All layers over (time, batch, features): the last one's states, and all last states."""
    if not x._m.shape[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    drop = NAMESPACES["nn.functional"]["dropout"]
    directions = 2 if bidirectional else 1

    projected = mode == "LSTM" and states[0]._m.shape[2] != states[1]._m.shape[2]
    pieces = _pieces(params, has_biases, projected)
    # torch computes float32 LSTMs by a library, and everything else step by step.
    library = mode == "LSTM" and not projected and sizes is None and x._m.dtype is not float64
    named = "MkldnnRnnLayerBackward0" if library else "StackBackward0"
    lengths = None
    if sizes is not None:
        lengths = _index((np.arange(int(sizes[0])) < sizes[:, None]).sum(0), x)
    lasts: list[list[Tensor]] = [[] for _ in states]
    for layer in range(num_layers):
        outs = []
        for direction in range(directions):
            k = layer * directions + direction
            first = [s.select(0, k) for s in states]
            cell = first[1] if len(first) > 1 else None
            made = ops._rnn_layer(x, first[0], cell, *pieces[k], lengths, mode, direction == 1, named)
            made = made if isinstance(made, tuple) else (made,)
            outs.append(made[0])
            for kept, sequence in zip(lasts, made):
                kept.append(sequence.select(0, 0 if direction else -1))
        x = outs[0] if len(outs) == 1 else ops.cat(outs, 2)
        if dropout and train and layer < num_layers - 1:
            # For packed data, numbers are drawn only for the rows that belong to sequences.
            x = drop(x, dropout) if sizes is None else spread(drop(collect(x, sizes, "CatBackward0"), dropout), sizes)

    return x, tuple(ops.stack(kept, 0) for kept in lasts)


def _whole(
    mode: str,
    input: Tensor,
    states: Sequence[Tensor],
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    x = input.transpose(0, 1) if batch_first else input
    out, lasts = _run(mode, x, states, params, has_biases, num_layers, dropout, train, bidirectional)
    return (out.transpose(0, 1) if batch_first else out, *lasts)


def _packed(
    mode: str,
    data: Tensor,
    batch_sizes: Tensor,
    states: Sequence[Tensor],
    params: Any,
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> Any:
    sizes = host_sizes(batch_sizes)
    out, lasts = _run(
        mode, spread(data, sizes), states, params, has_biases, num_layers, dropout, train, bidirectional, sizes
    )
    return (collect(out, sizes, "CatBackward0"), *lasts)


def _is_packed(args: Sequence[Any]) -> bool:
    """Return whether the second argument is the batch sizes of packed data: states and parameters follow."""
    return len(args) > 3 and isinstance(args[3], list | tuple)


def _declare(name: str, mode: str) -> None:
    def fn(input: Tensor, *args: Any) -> Any:
        if _is_packed((input, *args)):
            batch_sizes, hx, *rest = args
            states = hx if isinstance(hx, list | tuple) else (hx,)
            return _packed(mode, input, batch_sizes, states, *rest)
        hx, *rest = args
        states = hx if isinstance(hx, list | tuple) else (hx,)
        return _whole(mode, input, states, *rest)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = (
        f"All layers of the network that `nn.{'LSTM' if name == 'lstm' else 'GRU' if name == 'gru' else 'RNN'}` is, "
        "with its parameters in one list."
    )
    NAMESPACES[""][name] = fn


for _name, _mode in (("lstm", "LSTM"), ("gru", "GRU"), ("rnn_tanh", "RNN_TANH"), ("rnn_relu", "RNN_RELU")):
    _declare(_name, _mode)


# --- cells ----------------------------------------------------------------------------------------


def _shown(t: Tensor) -> str:
    return scalar_name(np.empty(0, t._m.dtype.np))


def _check_cell(input: Tensor, states: Sequence[Tensor], w_hh: Tensor, w_ih: Tensor, gates: int) -> None:
    if input._m.ndim < 2:
        shapes.wrap_dim(1, input._m.ndim)  # which says so
    hidden = w_hh._m.shape[1]
    for x, w in ((input, w_ih), (states[0], w_hh)):
        if x._m.dtype is not w._m.dtype:
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {_shown(x)} and {_shown(w)}")
    if input._m.shape[1] != w_ih._m.shape[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {input._m.shape[1]} expected {w_ih._m.shape[1]}")
    for name, w in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if w._m.shape[0] != gates * hidden:
            raise RuntimeError(
                f"{name} first dim must be {gates} * hidden_size = {gates * hidden}, but got {w._m.shape[0]}"
            )
    for i, state in enumerate(states):
        if state._m.shape[0] != input._m.shape[0]:
            raise RuntimeError(
                f"Input batch size {input._m.shape[0]} doesn't match hidden{i} batch size {state._m.shape[0]}"
            )
        if state._m.shape[1] != hidden:
            raise RuntimeError(f"hidden{i} has inconsistent hidden_size: got {state._m.shape[1]}, expected {hidden}")


@_top
def lstm_cell(
    input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Any:
    """One step of an LSTM: the new hidden state and the new cell."""
    if not isinstance(hx, list | tuple):
        kind = type_name(hx)
        raise TypeError(f"lstm_cell(): argument 'hx' (position 2) must be tuple of Tensors, not {kind}")
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    _check_cell(input, hx, w_hh, w_ih, 4)
    return ops._rnn_cell(input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh, "LSTM")


@_top
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of a GRU: the new hidden state."""
    _check_cell(input, (hx,), w_hh, w_ih, 3)
    return ops._rnn_cell(input, hx, None, w_ih, w_hh, b_ih, b_hh, "GRU")


@_top
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of an RNN with tanh: the new hidden state."""
    _check_cell(input, (hx,), w_hh, w_ih, 1)
    return ops._rnn_cell(input, hx, None, w_ih, w_hh, b_ih, b_hh, "RNN_TANH")


@_top
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """One step of an RNN with relu: the new hidden state."""
    _check_cell(input, (hx,), w_hh, w_ih, 1)
    return ops._rnn_cell(input, hx, None, w_ih, w_hh, b_ih, b_hh, "RNN_RELU")
