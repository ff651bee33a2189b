"""Tensor code beside the same in JAX, and beside itself under torch."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import importlib.util
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._engine.memory.tensor import Tensor
from ..interop import to_jax
from ..nn import Module
from ._described import array_of
from ._differential import Comparison, Difference, Differs, Report
from ._jax_side import JaxSide, dtype_of, state_of
from ._jaxprs import side_by_side
from ._paths import Container, walk
from ._shrink import shrunk
from ._sides import KINDS, STEPS, Given, TensorSide
from ._snippets import snippet

_PACKAGE = __name__.partition(".")[0]


def _is_numbers(x: Any) -> bool:
    if isinstance(x, list):
        return bool(x) and all(_is_numbers(v) for v in x)
    return isinstance(x, int | float | complex) and not isinstance(x, bool)


def _prepared(x: Any) -> Any:
    """An input with arrays of NumPy in place of tensors, arrays and lists of numbers."""
    if isinstance(x, dict):
        return {k: _prepared(v) for k, v in x.items()}
    if isinstance(x, Tensor):
        plain = array_of(x)
        return plain.astype(jnp.bfloat16) if "bfloat16" in str(x.dtype) else plain
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return np.asarray(x)
    if _is_numbers(x):
        return np.asarray(x, np.float32 if isinstance(x, list) else None)
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return type(x)(*map(_prepared, x))
    return type(x)(map(_prepared, x)) if isinstance(x, list | tuple) else x


def prepare(inputs: Sequence[Any], dtype: str | None = None) -> Given:
    """Inputs with their arrays by name, the floating ones in `dtype` where that is given."""
    tree = tuple(_prepared(x) for x in inputs)
    arrays = {}
    for i, x in enumerate(tree):
        for name, leaf in walk(x, f"input {i}"):
            if isinstance(leaf, np.ndarray | np.generic) and not isinstance(leaf, Container):
                real = jnp.issubdtype(leaf.dtype, jnp.floating)
                arrays[name] = np.asarray(leaf).astype(dtype) if dtype and real else leaf
    return Given(tree, arrays)


def _kinds(order: int) -> tuple[str, ...]:
    """What is compared up to an order of derivatives."""
    return KINDS[:1] if order < 1 else tuple(k for k in KINDS if order > 1 or k != "second")


def _with_snippet(e: Differs, program: str) -> Differs:
    text = f"{e}\n\nto see it again:\n{textwrap.indent(program, '    ')}\n"
    return Differs(text, e.difference)


def assert_matches_torch(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    gradients: bool = True,
    factor: float = 1.0,
    oracle: str = "torch",
    module: Callable[[Any], Any] | None = None,
    raises: Any = None,
    order: int = 2,
    draws: int = 3,
    seed: int = 0,
) -> Report:
    """Raise unless the same source does the same under torch.

    Compared are results with dtypes, shapes and strides, the inputs and modules after the call, and, for
    several random cotangents, gradients, forward derivatives and second derivatives, those two where both
    sides have them. Modules that `fn` makes are compared by the names of their parameters and buffers.

    Args:
        fn: called as ``fn(torch, *inputs)``, once with this package and once with torch for `torch`.
        inputs: arrays or tensors, in containers if need be; floating ones require gradients.
        gradients: whether derivatives are compared.
        factor: a factor on the tolerances.
        oracle: the module to compare with.
        module: called as ``module(torch)``, makes a module that `fn` takes before the inputs:
            ``fn(torch, module, *inputs)``. Both sides begin with torch's parameters and buffers.
        raises: the exception, or a tuple of them, that both sides are expected to raise. Otherwise an exception is
            a failure, on both sides too.
        order: 1 leaves out second derivatives.
        draws: how many random cotangents and tangents are tried.
        seed: the seed of those, and of random numbers inside `fn`.

    Returns:
        What was compared, and what was skipped and why.

    Raises:
        AssertionError: where the two differ: which result, which derivative, where, both values, and a program that
            shows it again.
        RuntimeError: when torch is not installed.

    Example:
        >>> import torchgrad_jax
        >>> f = lambda torch, x: torch.relu(x) * 2
        >>> torchgrad_jax.testing.assert_matches_torch(f, [[1.0, -1.0]])  # doctest: +SKIP
    """
    if importlib.util.find_spec(oracle) is None:
        raise RuntimeError(f"assert_matches_torch needs {oracle}, which is not installed")
    ours, theirs = (importlib.import_module(name) for name in (_PACKAGE, oracle))
    if theirs is ours:
        raise RuntimeError("assert_matches_torch needs torch itself, not its alias")
    left, right = (
        TensorSide(name, lib, fn, seed=seed, with_lib=True, module=module, gradients=gradients)
        for name, lib in ((_PACKAGE, ours), (oracle, theirs))
    )
    options = {"gradients": gradients, "factor": factor, "oracle": oracle, "order": order, "draws": draws, "seed": seed}
    functions = [("fn", fn)]
    if module is not None:
        options["module"], functions = module, [*functions, ("module", module)]
    given = prepare(inputs)
    try:
        state = _same_state(left, right)
        kinds = _kinds(order) if gradients else KINDS[:2]
        return Comparison(left, right, given, {**given.arrays, **state}, kinds, draws, factor, raises).check()
    except Differs as e:
        raise _with_snippet(e, snippet("assert_matches_torch", functions, list(given.tree), options)) from e.__cause__


def _same_state(left: TensorSide, right: TensorSide) -> dict[str, Any]:
    """The reference's parameters and buffers; the other side must have the same names and shapes."""
    ours, theirs = left.module_state(), right.module_state()
    kinds = [{k: (v.dtype.name, v.shape) for k, v in s.items()} for s in (ours, theirs)]
    if kinds[0] != kinds[1]:
        text = f"module: {left.name} has {kinds[0]}, {right.name} has {kinds[1]}"
        raise Differs(text, Difference("state", "module", None, kinds[0], kinds[1], text))
    return theirs


def assert_matches_jax(
    tensor_fn: Callable[..., Any],
    jax_fn: Callable[..., Any],
    inputs: Sequence[Any],
    order: int = 2,
    dtypes: Sequence[str] | None = None,
    *,
    params: Callable[[dict[str, Any]], Any] | None = None,
    raises: Any = None,
    factor: float = 1.0,
    draws: int = 3,
    seed: int = 0,
    optimizers: tuple[Callable[[Any], Any], Any] | None = None,
    steps: int = 3,
    shrink: bool = False,
) -> Report:
    """Raise unless a function over tensors agrees with one over arrays: values and derivatives.

    Derivatives are taken along random cotangents and tangents: gradients, then forward and second ones
    where both sides have them, so a `jax.custom_vjp` or an `autograd.Function` without a forward rule will do.

    Args:
        tensor_fn: takes tensors and returns tensors, in containers if need be; or a module.
        jax_fn: the same for arrays.
        inputs: tensors or arrays, in containers if need be; floating ones are tried in each of the dtypes.
        order: 0 compares values, 1 also gradients and Jacobian-vector products, 2 also second derivatives.
        dtypes: the dtypes to try. By default float32 and float64; where code is made for one dtype and
            raises in the other, the report says so.
        params: for a module: makes the first argument of `jax_fn` of the dict of the module's parameters and
            buffers. The module's gradients are compared by name.
        raises: the exception that both sides are expected to raise.
        factor: a factor on the tolerances.
        draws: how many random cotangents and tangents are tried.
        seed: their seed.
        optimizers: two optimizers that are to do the same: a function that makes one of `optim` of a list of
            parameters, and one of optax's. Compared are the parameters (of a function, its inputs) after `steps`.
        steps: how many steps.
        shrink: whether a failing input is made small before it is shown; takes longer, and needs hypothesis.

    Returns:
        What was compared, and what was skipped and why.

    Raises:
        AssertionError: naming the dtype, the derivative, the output and the element that differ, with a program that
            shows it again and what both functions compute, as jaxprs side by side.

    Example:
        >>> import jax.numpy as jnp
        >>> import torchgrad_jax as torch
        >>> print(torch.testing.assert_matches_jax(torch.sin, jnp.sin, [torch.ones(3)], dtypes=["float32"]))
        compared: float32: value, float32: gradient, float32: forward, float32: second (3 draws)
        skipped: float32: state: jax: a function of arrays has no state
    """
    report = Report(draws=draws)
    own = {v.dtype.name for v in prepare(inputs).arrays.values() if jnp.issubdtype(v.dtype, jnp.floating)}
    kinds = _kinds(order) + ((STEPS,) if optimizers is not None else ())
    for name in dtypes or ("float32", "float64"):
        with _types_of(name):
            given = prepare(inputs, name)
            left, right, state = _sides(tensor_fn, jax_fn, params, name, seed)
            if optimizers is not None:
                (left.optimizer, right.optimizer), left.count, right.count = optimizers, steps, steps
            arrays = {**given.arrays, **state}
            comparison = Comparison(
                left, right, given, arrays, kinds, draws, factor, raises, facts=False, dtype_there=dtype_of
            )
            try:
                found = comparison.check()
            except Differs as e:
                if dtypes is None and own and name not in own and e.difference.name == "exception":
                    report.skipped[name] = str(e).partition(";")[0]
                    continue
                if shrink and e.difference.name != "exception":
                    comparison, e = _smaller(comparison, e)
                both = _jaxprs(comparison, tensor_fn, jax_fn, params)
                named = Differs(f"{name}: {e}\n\nwhat they compute:\n{both}", e.difference)
                functions = {"tensor_fn": tensor_fn, "jax_fn": jax_fn, "params": params, "optimizers": optimizers}
                options = {
                    "order": order,
                    "dtypes": [name],
                    "factor": factor,
                    "draws": draws,
                    "seed": seed,
                    "steps": steps,
                }
                raise _with_program(named, comparison, functions, options) from e.__cause__
            report.compared += [f"{name}: {k}" for k in found.compared]
            report.skipped |= {f"{name}: {k}": v for k, v in found.skipped.items()}
    return report


def _types_of(dtype: str) -> Any:
    """A block in which JAX has a dtype, also where the program has switched its 64-bit types off."""
    return jax.enable_x64(True) if dtype in ("float64", "complex128") else contextlib.nullcontext()


def _with_program(
    error: Differs, comparison: Comparison, functions: dict[str, Any], options: dict[str, Any]
) -> AssertionError:
    """The error with a program that calls `assert_matches_jax` and shows it again."""
    functions = {name: fn for name, fn in functions.items() if fn is not None}
    options |= {name: functions[name] for name in ("params", "optimizers") if name in functions}
    if "optimizers" not in functions:
        del options["steps"]
    inputs = comparison.given.fill(comparison.arrays.__getitem__)
    return _with_snippet(error, snippet("assert_matches_jax", list(functions.items()), inputs, options))


def _smaller(comparison: Comparison, error: Differs) -> tuple[Comparison, Differs]:
    """The same failure with smaller inputs, if there is one."""
    given, found = comparison.given, {}

    def with_inputs(arrays: dict[str, Any]) -> Comparison:
        return dataclasses.replace(comparison, arrays={**comparison.arrays, **arrays})

    def fails(arrays: dict[str, Any]) -> bool:
        try:
            with_inputs(arrays).check()
        except Differs as e:
            found[_key(arrays)] = e
            same = e.difference.kind == error.difference.kind
            return same and e.difference.name != "exception" and e.__cause__ is None
        except Exception:
            return False  # these sizes do not fit together
        return False

    arrays = shrunk({k: comparison.arrays[k] for k in given.arrays}, fails)
    return with_inputs(arrays), found.get(_key(arrays), error)


def _key(arrays: dict[str, Any]) -> tuple[Any, ...]:
    return tuple((k, np.shape(v), np.asarray(v).tobytes()) for k, v in arrays.items())


def _jaxprs(comparison: Comparison, tensor_fn: Any, jax_fn: Any, params: Any) -> str:
    """What both functions compute."""
    inputs = comparison.given.fill(comparison.arrays.__getitem__)
    state = state_of(comparison.given, comparison.arrays)

    def ours() -> Any:
        given = (state, *inputs) if isinstance(tensor_fn, Module) else inputs
        return jax.make_jaxpr(to_jax(tensor_fn))(*given)

    def theirs() -> Any:
        given = inputs if params is None else (params(state), *inputs)
        leaves, spec = jax.tree.flatten(given)
        # Modules of equinox have functions, too.
        at = [i for i, x in enumerate(leaves) if hasattr(x, "dtype")]

        def of_arrays(*arrays: Any) -> Any:
            values = dict(enumerate(leaves)) | dict(zip(at, arrays))
            return jax_fn(*jax.tree.unflatten(spec, values.values()))

        return jax.make_jaxpr(of_arrays)(*[leaves[i] for i in at])

    return side_by_side(ours, theirs, (_PACKAGE, "jax"))


def _sides(
    tensor_fn: Any, jax_fn: Any, params: Any, dtype: str, seed: int
) -> tuple[TensorSide, JaxSide, dict[str, Any]]:
    ours = importlib.import_module(_PACKAGE)
    right = JaxSide(jax_fn, seed=seed, params=params)
    if not isinstance(tensor_fn, Module):
        return TensorSide(_PACKAGE, ours, tensor_fn, seed=seed), right, {}

    def made(lib: Any) -> Any:
        return copy.deepcopy(tensor_fn).to(getattr(lib, dtype))

    def call(module: Any, *inputs: Any) -> Any:
        return module(*inputs)

    left = TensorSide(_PACKAGE, ours, call, seed=seed, module=made)
    return left, right, left.module_state()
