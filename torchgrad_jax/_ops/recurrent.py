"""Recurrent layers: one direction of one layer over a whole sequence, as one op.

The op returns the states at all times. Its derivative reads these and does not run the recurrence once more: from all
states one large product computes all gates.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .._core.arrays.dtypes import BOOL, COMPLEX, INTEGRAL
from .._core.arrays.kernels import category, refuse, scalar_name
from .._core.jax.custom_jvp import custom_jvp
from .._core.jax.own_kernels import jit
from .._core.jax.products import precision
from .inner import inner_op
from .registry import Array


def _apply(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """A linear layer."""
    out = jnp.matmul(x, weight.T, precision=precision(x.dtype))
    return out if bias is None else out + jnp.broadcast_to(bias, out.shape)


@functools.partial(jit, static_argnums=0)
def _cell(mode: str, xg: Array, hg: Array, h: Array, c: Array | None) -> tuple[Array, Any]:
    """The next state (before projection) from what input and state contribute to the gates.

    It is jitted so that JAX traces and differentiates it once for sequences of all lengths.
    """
    if mode == "RNN_TANH":
        return jnp.tanh(xg + hg), None
    if mode == "RNN_RELU":
        return jax.nn.relu(xg + hg), None
    if mode == "GRU":
        xr, xz, xn = jnp.split(xg, 3, -1)
        hr, hz, hn = jnp.split(hg, 3, -1)
        r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
        n = jnp.tanh(xn + r * hn)
        return (h - n) * z + n, None
    assert mode == "LSTM"
    assert c is not None
    i, f, g, o = jnp.split(xg + hg, 4, -1)
    new = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(new), new


@functools.partial(jit, static_argnums=0)
def _cell_tangent(mode: str, at: Any, moved: Any) -> Any:
    """How the next state moves with what `_cell` is given."""
    return jax.jvp(functools.partial(_cell, mode), at, moved)[1]


def _kept(t: Array, lengths: Array | None, new: Any, old: Any) -> Any:
    """The new state for sequences that go on, and the old one for those that have ended."""
    if lengths is None:
        return new
    going = (t < lengths)[:, None]
    return jax.tree.map(lambda a, b: jnp.where(going, a, b), new, old)


def _times(n: int) -> Array:
    return lax.iota(jnp.int64, n)


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _states(
    mode: str,
    reverse: bool,
    x: Array,
    h0: Array,
    c0: Any,
    w_ih: Array,
    w_hh: Array,
    b_ih: Any,
    b_hh: Any,
    w_hr: Any,
    lengths: Any,
) -> Any:
    def step(state: Any, now: Any) -> Any:
        (h, c), (xg, t) = state, now
        new, cell = _cell(mode, xg, _apply(h, w_hh, b_hh), h, c)
        new = new if w_hr is None else _apply(new, w_hr)
        state = _kept(t, lengths, (new, cell), state)
        return state, state

    xg = _apply(x, w_ih, b_ih)
    return lax.scan(step, (h0, c0), (xg, _times(x.shape[0])), reverse=reverse)[1]


def _before(states: Any, first: Any, reverse: bool) -> Any:
    """The state that each step began with."""
    if states is None:
        return None
    parts = [states[1:], first[None]] if reverse else [first[None], states[:-1]]
    return jnp.concatenate(parts)


@_states.defjvp
def _states_jvp(mode: str, reverse: bool, primals: Any, tangents: Any) -> Any:
    x, h0, c0, w_ih, w_hh, b_ih, b_hh, w_hr, lengths = primals
    tx, th0, tc0, tw_ih, tw_hh, tb_ih, tb_hh, tw_hr, _ = tangents
    hs, cs = _states(mode, reverse, *primals)
    h, c = _before(hs, h0, reverse), _before(cs, c0, reverse)
    xg, hg = _apply(x, w_ih, b_ih), _apply(h, w_hh, b_hh)
    txg = _apply(tx, w_ih) + _apply(x, tw_ih, tb_ih)
    thg = _apply(h, tw_hh, tb_hh)
    tproj = None if w_hr is None else _apply(_cell(mode, xg, hg, h, c)[0], tw_hr)

    def step(state: Any, now: Any) -> Any:
        th, tc = state
        xg, hg, h, c, txg, thg, tproj, t = now
        moved = (txg, thg + _apply(th, w_hh), th, tc)
        tnew, tcell = _cell_tangent(mode, (xg, hg, h, c), moved)
        if w_hr is not None:
            tnew = _apply(tnew, w_hr) + tproj
        state = _kept(t, lengths, (tnew, tcell), state)
        return state, state

    now = (xg, hg, h, c, txg, thg, tproj, _times(x.shape[0]))
    ths, tcs = lax.scan(step, (th0, tc0), now, reverse=reverse)[1]
    return (hs, cs), (ths, tcs)


@inner_op(node=lambda a: a["named"] or "StackBackward0")
def _rnn_layer(
    input: Array,
    hx: Array,
    cx: Array | None,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    w_hr: Array | None,
    lengths: Array | None,
    mode: str,
    reverse: bool,
    named: str,
) -> Any:
    """Hidden states at all times, (length, batch, features), and for an LSTM those of the cells.

    Where torch runs the steps one by one, the node has the name of the last step's. A sequence of the batch that has
    ended keeps its last state.
    """
    hs, cs = _states(mode, reverse, input, hx, cx, w_ih, w_hh, b_ih, b_hh, w_hr, lengths)
    return hs if cs is None else (hs, cs)


_LAST_STEP = {"RNN_TANH": "Tanh", "RNN_RELU": "Relu", "LSTM": "Mul", "GRU": "Add"}


@inner_op(node=lambda a: _LAST_STEP.get(a["mode"], "Add") + "Backward0")
def _rnn_cell(
    input: Array,
    hx: Array,
    cx: Array | None,
    w_ih: Array,
    w_hh: Array,
    b_ih: Array | None,
    b_hh: Array | None,
    mode: str,
) -> Any:
    """One step of a batch: the new hidden state, and for an LSTM that of the cell."""
    refuse(input, "addmm_impl_cpu_", BOOL)
    if category(input) == COMPLEX and mode == "RNN_RELU":
        raise NotImplementedError("clamp is not supported for complex types")
    if category(input) == INTEGRAL and mode in ("GRU", "LSTM"):
        raise RuntimeError(f"result type Float can't be cast to the desired output type {scalar_name(input)}")
    h, c = _cell(mode, _apply(input, w_ih, b_ih), _apply(hx, w_hh, b_hh), hx, cx)
    return h if c is None else (h, c)


@inner_op(node=lambda a: a["named"] or "CatBackward0")
def _pack_rows(input: Array, index: Array, named: str) -> Array:
    """The rows at `index` of an array (time, batch, ...) whose first two dimensions count as one; no row twice."""
    rows = input.reshape(-1, *input.shape[2:])
    return rows.at[index].get(mode="promise_in_bounds", unique_indices=True)
