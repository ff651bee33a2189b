"""Tell this package's kernels from other programs of JAX, where JAX lowers them to XLA.

    jax.jit(jnp.sin)            # JAX's sine: importing this package changes no bit of it
    torch.sin(x)                # our kernel "torch.sin": on a CPU a polynomial (`host/compiled_curves.py`)
    jax.jit(to_jax(torch.sin))  # another program that calls our kernel "torch.sin": the same polynomial there

A kernel is marked by its name, since JAX keeps the name of a function under `jax.jit` wherever the function goes: as a
program of its own, and as a step of another program, also after `jax.grad`, `jax.vmap` or `jax.checkpoint`. So every
function that the package compiles goes through `jit` below, and never through `jax.jit` itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
from jax.interpreters import mlir

from . import x64
from .private import JIT, KEPT_OF_MODULE, LOWERINGS, rules_of_jit

PREFIX = "torch."
"""What the name of a kernel begins with. No function of Python's own has a name with a dot."""

MODULE = f"jit_{PREFIX}"
"""What the name of a module that JAX makes of a kernel begins with, and so the name of the kernel's file."""
_OWN = object()
"""Stands, as a key, among the functions of a module that JAX has lowered for kernels of ours."""
_KEPT = object()
"""The key under which these functions, and others that JAX keeps for a module, lie among its other functions."""


def jit(fn: Callable[..., Any], **options: Any) -> Any:
    """Compile a function as `jax.jit` does, as a kernel of this package."""
    name = getattr(fn, "__name__", type(fn).__name__)

    @functools.wraps(fn)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    kernel.__name__ = kernel.__qualname__ = name if name.startswith(PREFIX) else PREFIX + name
    made = jax.jit(kernel, **options)
    return x64.Kernel(made) if x64.IS_GUEST else made


def is_own(ctx: Any) -> bool:
    """Return whether a step that JAX lowers belongs to a kernel of this package."""
    module = ctx.module_context
    return _OWN in module.cached_primitive_lowerings or _is_kernel(module)


def _is_kernel(module: Any) -> bool:
    return module.module.operation.attributes["sym_name"].value.startswith(MODULE)


def names_kernel(name: str) -> bool:
    """Return whether a function that JAX reports to compile, as `jit(torch.sin)`, is a kernel of this package."""
    return name.partition("(")[2].startswith(PREFIX) or name.startswith((PREFIX, MODULE))


def mark_kernels() -> None:
    """Have JAX lower a kernel of ours, inside of another program, apart from the other steps of that program.

    JAX lowers a function that several steps call once for a module. A function such as `jnp.sinc`, which both a kernel
    and the program around it call, has to be lowered for each of the two.
    """
    lower = LOWERINGS[JIT].rule
    lower_kernel = x64.with_x64(lower)

    def lower_jit(ctx: Any, *args: Any, **params: Any) -> Any:
        if not params["name"].startswith(PREFIX) or is_own(ctx):
            return lower(ctx, *args, **params)
        kept = ctx.module_context.cached_primitive_lowerings
        if _KEPT not in kept:
            kept[_KEPT] = {name: {} for name in KEPT_OF_MODULE}
            kept[_KEPT]["cached_primitive_lowerings"][_OWN] = None
        inner = ctx.replace(module_context=ctx.module_context.replace(**kept[_KEPT]))
        out = lower_kernel(inner, *args, **params)
        if inner.tokens_out is not None:
            ctx.set_tokens_out(inner.tokens_out)
        return out

    mlir.register_lowering(JIT, lower_jit, cacheable=False)


def keep_64_bits_of_kernels() -> None:
    """Have JAX differentiate, batch and run kernels of ours with 64-bit types, where a program with 32 bits does it.

    `jax.grad(to_jax(f))` transposes the steps of `f` when the call of `f` is over. Steps for float64 would meet zeros
    of float32 then.
    """
    for rules in rules_of_jit():
        rules[JIT] = _of_kernels_with_x64(rules[JIT])
    JIT.def_impl(_of_kernels_with_x64(JIT.impl))


def _of_kernels_with_x64(rule: Callable[..., Any]) -> Callable[..., Any]:
    wide = x64.with_x64(rule)

    def apply_rule(*args: Any, **params: Any) -> Any:
        of_step = params if "name" in params else args[-1].params  # some take the step itself
        return (wide if of_step["name"].startswith(PREFIX) else rule)(*args, **params)

    return apply_rule
