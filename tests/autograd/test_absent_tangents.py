"""Forward derivatives by some of the arguments: the others, which have no tangent, add nothing, not ``0 * inf``."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import torchgrad_jax as torch
from tests.programs import Programs

program = Programs()
test_same_as_torch = program.test()

INF, NAN = float("inf"), float("nan")
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.5, INF, -INF, NAN)
FUNCTIONS = {
    "div": lambda m, x, y: x / y,
    "remainder": lambda m, x, y: m.remainder(x, y),
    "fmod": lambda m, x, y: m.fmod(x, y),
    "xlogy": lambda m, x, y: m.xlogy(x, y),
    "addcdiv": lambda m, x, y: m.addcdiv(x, x.detach(), y),
    "addcmul": lambda m, x, y: m.addcmul(x, x.detach(), y),
    "pow": lambda m, x, y: m.pow(x, y),
    "float_power": lambda m, x, y: m.float_power(x, y),
    "atan2": lambda m, x, y: m.atan2(x, y),
    "hypot": lambda m, x, y: m.hypot(x, y),
    "logaddexp": lambda m, x, y: m.logaddexp(x, y),
    "lerp": lambda m, x, y: m.lerp(x, y, 0.25),
    "maximum": lambda m, x, y: m.maximum(x, y),
    "mul": lambda m, x, y: m.mul(x, y),
}


def pairs(m):
    x, y = zip(*itertools.product(SPECIAL, SPECIAL))
    return m.tensor(x, dtype=m.float64), m.tensor(y, dtype=m.float64)


def tangents(m):
    """The tangent of each function at all pairs of special numbers, by either argument."""
    for name, fn in FUNCTIONS.items():
        for which in (0, 1):
            given = list(pairs(m))
            yield name, which, fn, given


@program
def by_one_argument_at_special_numbers(m):
    fw = m.autograd.forward_ad
    seen = {}
    for name, which, fn, given in tangents(m):
        with fw.dual_level():
            given[which] = fw.make_dual(given[which], m.full_like(given[which], 1.5))
            seen[f"{name} {which}"] = fw.unpack_dual(fn(m, *given)).tangent
    return seen


@program
def by_one_argument_of_a_gradient(m):
    fw = m.autograd.forward_ad
    seen = {}
    for name in ("div", "mul", "fmod"):
        for which in (0, 1):
            with fw.dual_level():
                given = [v.requires_grad_() for v in pairs(m)]
                given[which] = fw.make_dual(given[which], m.full_like(given[which], 1.5))
                out = FUNCTIONS[name](m, *given)
                grads = m.autograd.grad(out, given, m.ones_like(out), create_graph=True)
                seen[f"{name} {which}"] = [
                    t if t is None else t.detach() for t in (fw.unpack_dual(g).tangent for g in grads)
                ]
    return seen


@program
def of_complex_quotients(m):
    fw = m.autograd.forward_ad
    x = m.tensor([1 + 1j, 2 - 1j, 0.5j], dtype=m.complex128)
    y = m.tensor([2 + 1j, 1 - 1j, 1 + 0.5j], dtype=m.complex128)
    with fw.dual_level():
        d = fw.make_dual(x, m.ones_like(x))
        return fw.unpack_dual(d / y).tangent, fw.unpack_dual(y / d).tangent


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["div", "fmod", "xlogy", "addcdiv", "pow"])
def test_func_jvp_agrees_with_dual_numbers(name, compiled) -> None:
    fw, fn = torch.autograd.forward_ad, FUNCTIONS[name]
    for which in (0, 1):
        given = list(pairs(torch))
        direction = torch.full_like(given[which], 1.5)

        def along(t, given=given, which=which, direction=direction):
            def of_one(v):
                both = [*given[:which], v, *given[which + 1 :]]
                return fn(torch, *both)

            return torch.func.jvp(of_one, (t,), (direction,))[1]

        got = (torch.compile(along) if compiled else along)(given[which])
        with fw.dual_level():
            duals = list(given)
            duals[which] = fw.make_dual(given[which], direction)
            expected = fw.unpack_dual(fn(torch, *duals)).tangent
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-12)
