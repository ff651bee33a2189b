"""Hooks of saved tensors are called once for each saved value and pass, in torch's order, however a pass is run.

A pass that comes again is run in other ways: node by node at first, then as code of NumPy's, then as a kernel of XLA's.
Large values are unpacked one by one, small ones for several nodes at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.programs import Programs, complaint

program = Programs()
test_same_as_torch = program.test()

PASSES = 40


# --- what is differentiated -----------------------------------------------------------------------


def _w(m: Any, *shape: int) -> Any:
    """A weight."""
    return (m.arange(float(math.prod(shape)), dtype=m.float64).reshape(shape) * 0.37).sin().mul(0.3).requires_grad_()


def _weights(m: Any) -> dict[str, Any]:
    return {"w": _w(m, 32, 32), "g": _w(m, 64, 32), "u": _w(m, 64, 32), "d": _w(m, 32, 64), "s": _w(m, 32)}


def _gated(m: Any, x: Any, w: Any, g: Any, u: Any, d: Any, s: Any) -> Any:
    f = m.nn.functional
    return x + f.linear(f.silu(f.linear(x, g)) * f.linear(x, u), d)


def _normed(m: Any, x: Any, w: Any, g: Any, u: Any, d: Any, s: Any) -> Any:
    f = m.nn.functional
    return x + f.linear(f.silu(f.linear(f.rms_norm(x, (32,), s), g)), d) * f.layer_norm(x, (32,), s)


def _attends(m: Any, x: Any, w: Any, s: Any, **_: Any) -> Any:
    scores = (x @ w) @ x.transpose(-1, -2)
    return x + m.softmax(scores / 6, -1) @ x * s


def _writes_in_place(m: Any, x: Any, s: Any, **_: Any) -> Any:
    y = x * s
    y.mul_(s).tanh_()
    z = y.clone()
    z[..., :16].mul_(s[:16]).sin_()
    return z.exp() * y


def _takes_parts(m: Any, x: Any, s: Any, **_: Any) -> Any:
    i = m.arange(0, 32, 2)
    a, b = (x * s).chunk(2, -1)
    return m.cat([(a * b).sin() * x[..., i], b.exp() * x.index_select(-1, i)], -1)


def _reduces(m: Any, x: Any, **_: Any) -> Any:
    return x * x.std() + x.amax(-1, keepdim=True) * x.mean(-1, keepdim=True) + x.logsumexp(-1, keepdim=True)


def _scans(m: Any, x: Any, s: Any, **_: Any) -> Any:
    return (x * s).cumsum(-1).cumprod(-1).tanh() * m.where(x > 0, x, s).clamp(-1, 1)


def _is_long(m: Any, x: Any, s: Any, **_: Any) -> Any:
    for _i in range(4):
        x = (x * s).sin() * s + x
    return x


BLOCKS = (_gated, _normed, _attends, _writes_in_place, _takes_parts, _reduces, _scans, _is_long)


# --- how it is hooked -----------------------------------------------------------------------------


class _Log:
    """Hooks that number what they pack, and note what they unpack: each value is there once."""

    def __init__(self, m: Any) -> None:
        self.hooks = m.autograd.graph.saved_tensors_hooks
        self.values: dict[int, Any] = {}
        self.order: list[int] = []
        self.packed = self.fails = 0

    def pack(self, t: Any) -> int:
        """Keep a value under the next number."""
        self.packed += 1
        self.values[self.packed] = t.detach()
        return self.packed

    def unpack(self, number: int) -> Any:
        """Hand out a value, for good."""
        self.order.append(number)
        if number == self.fails:
            raise KeyError("this one fails")
        return self.values.pop(number)

    def __call__(self) -> Any:
        return self.hooks(self.pack, self.unpack)


def _counted(m: Any, f: Callable[[Any], Any], x: Any, log: _Log) -> Any:
    with log():
        return f(f(x))


def _failing(m: Any, f: Callable[[Any], Any], x: Any, log: _Log) -> Any:
    out = _counted(m, f, x, log)
    log.fails = x.shape[1] * 7 % log.packed + 1
    return out


def _checkpointed(m: Any, f: Callable[[Any], Any], x: Any, log: _Log) -> Any:
    checkpoint = m.utils.checkpoint.checkpoint
    return checkpoint(f, checkpoint(f, x, use_reentrant=False), use_reentrant=False)


def _nested(m: Any, f: Callable[[Any], Any], x: Any, log: _Log) -> Any:
    """Hooks around a checkpoint, a checkpoint in it, and hooks inside of that."""
    checkpoint = m.utils.checkpoint.checkpoint

    def inner(y: Any) -> Any:
        with log():
            return f(y)

    def outer(y: Any) -> Any:
        return f(checkpoint(inner, y, use_reentrant=False)) * y

    with log():
        return checkpoint(outer, x, use_reentrant=False)


WAYS = (_counted, _failing, _checkpointed, _nested)
EQUAL, CHANGING = (40,), (1, 3, 40, 7, 110, 20, 260)
"""How many rows the passes have, one after the other: two tensors of 110 rows are more than a segment unpacks."""


def _trained(block: Any, way: Any, rows: tuple[int, ...]) -> Any:
    def train(m: Any) -> Any:
        weights, seen = _weights(m), []
        for k in range(PASSES):
            n = rows[k % len(rows)]
            x = (m.arange(4.0 * n * 32, dtype=m.float64).reshape(4, n, 32) * 0.1 + k).sin().requires_grad_()
            log = _Log(m)
            out = way(m, lambda y: block(m, y, **weights), x, log)
            said = complaint(out.pow(2).mean().backward)
            found = [said, log.order, [name for name, w in weights.items() if w.grad is not None]]
            if k % 3 == 2 or said[0] != "nothing":  # gradients are added up in two of three passes
                for w in weights.values():
                    w.grad = None
            if found not in seen:
                seen.append(found)
        return seen, [None if w.grad is None else w.grad.sum() for w in weights.values()]

    train.__name__ = f"{block.__name__}{way.__name__}_{'equal' if rows is EQUAL else 'changing'}".strip("_")
    return train


for _block in BLOCKS:
    for _way in WAYS:
        for _rows in (EQUAL, CHANGING):
            program(_trained(_block, _way, _rows))


@program
def what_is_left_out_of_a_segment_leaves_nothing_in_it(m):
    """A node saves two values, of which one fits into what a segment unpacks; old gradients are added before it."""
    x, w, v = (m.full((40_000,), k, dtype=m.float64, requires_grad=True) for k in (0.5, 2.0, 1.5))
    out = []
    for _ in range(PASSES):
        log = _Log(m)
        with log():
            a = x * w
        (a.sin().cos().tanh().sin() * v).sum().backward()
        if log.order not in out:
            out.append(log.order)
    return out, [t.grad.sum() for t in (x, w, v)]


@program
def a_recorded_pass_unpacks_once(m):
    """Also where a gradient is the same whatever came in, and where nobody waits for one."""
    out = []
    for write in (False, True):
        x, s = _w(m, 4, 32), _w(m, 32)
        for _ in range(3):
            log = _Log(m)
            with log():
                y = x * s
                if write:
                    y[..., :16].mul_(s[:16])
                y = (y.sin() * x).sign() * y.exp() + y.round() * y.norm()
            found = m.autograd.grad(y.sum(), (x, s), create_graph=True)
            out.append((log.order, log.packed, [g.sum() for g in found]))
    return out


@program
def one_buffer_serves_all_unpack_hooks(m):
    """A node reads what its hook gave, also if another hook writes to that later."""
    out = []
    x, s = _w(m, 4, 32), _w(m, 32)
    for k in range(2 * PASSES // 4):
        buffer = m.empty(4, 32, dtype=m.float64)
        grads = []

        def unpack(value, buffer=buffer, grads=grads):
            grads.append(s.grad is not None)
            return buffer.copy_(value)

        with m.autograd.graph.saved_tensors_hooks(lambda value: value.detach().clone(), unpack):
            y = (x * 2).sin().exp().tanh()
            if k % 2:
                y = y.cos()
        x.grad = s.grad = None
        (y * s.detach()).sum().backward()
        out.append((len(grads), x.grad.sum()))
    return out


@program
def a_hook_that_exits_leaves_what_came_before(m):
    """Errors of any class are raised where the pass comes to the node: gradients of leaves before it are there."""
    out = []
    for k in range(12):
        x, s = _w(m, 4, 32), _w(m, 32)
        fails, order = k % 3 + 1, []

        def unpack(packed, order=order, fails=fails):
            order.append(packed[0])
            if packed[0] == fails:
                raise SystemExit(fails)
            return packed[1]

        numbers = iter(range(1, 100))
        with m.autograd.graph.saved_tensors_hooks(lambda t, n=numbers: (next(n), t.detach()), unpack):
            y = ((x * 2).sin().exp().tanh() + s).sum()
        with pytest.raises(SystemExit):
            y.backward()
        out.append((order, x.grad is None, s.grad))
    return out
