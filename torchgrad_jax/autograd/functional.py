"""Derivatives of functions over tensors, as in torch.autograd.functional.

The names that begin with an underscore and torch's own are those that packages with Jacobians of their own take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, overload

from .._bridge.basis import basis
from .._bridge.vmap import vmap
from .._core.arrays import dtypes
from .._core.arrays.meta import meta
from .._core.arrays.transfer import filled
from .._core.errors import messages as errors
from .._core.state import MODES
from .._engine.entry.bind import NAMESPACES, ops
from .._engine.graph.history import requires_grad_of
from .._engine.graph.record import zeros_for
from .._engine.memory.tensor import Tensor, alias_of, count_like, make, plain_alias, uncounted
from .._engine.overrides.asking import convert, overridden, overrides
from .._engine.overrides.looking import public as overridable
from .._functions.shape import movedim
from .._functions.splitting import split
from . import forward_ad
from ._passes import compiled_rows, make_grads, run_backward, run_batched
from .grad_mode import enable_grad

_Tensors = Tensor | tuple[Tensor, ...]
_OUTPUTS = "outputs of the user-provided function"


# --- arguments and results ------------------------------------------------------------------------


def _as_tuple_nocheck(x: Any) -> tuple[Any, ...]:
    """A tuple as it is, a list as one, anything else alone in one."""
    return tuple(x) if isinstance(x, tuple | list) else (x,)


@overload
def _as_tuple(inp: Any) -> tuple[Any, ...]: ...
@overload
def _as_tuple(inp: Any, arg_name: str, fn_name: str) -> tuple[bool, tuple[Any, ...]]: ...
def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> Any:
    """Return whether `inp` is a tuple, and as one; without names only the tuple, whatever it holds."""
    if arg_name is None and fn_name is None:
        return _as_tuple_nocheck(inp)
    was = isinstance(inp, tuple)
    values = inp if was else (inp,)
    for i, t in enumerate(values):
        if not isinstance(t, Tensor):
            which = f"value at index {i}" if was else f"given {arg_name}"
            raise TypeError(
                f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors but the {which} has "
                f"type {type(t)}."
            )
    return was, tuple(values)


def _tuple_postprocess(res: Any, to_unpack: bool | tuple[bool, bool]) -> Any:
    """Results as the arguments came: `to_unpack` tells of which levels were tuples, the outer one first."""
    if not isinstance(to_unpack, tuple):
        return res if to_unpack else res[0]
    outer, inner = to_unpack
    if not inner:
        res = tuple([r[0] for r in res])
    return res if outer else res[0]


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Results, outside of the graph unless they are to be differentiated."""
    if isinstance(inputs, tuple | list):
        return tuple(_grad_postprocess(r, create_graph) for r in inputs)
    if create_graph or not requires_grad_of(inputs):
        return inputs
    if overrides(type(inputs)):
        return inputs.detach()
    return alias_of(inputs, inputs._m, plain_alias(inputs), inputs._vc)


def _variables(inputs: Sequence[Tensor], create: bool, needed: bool = True) -> tuple[Tensor, ...]:
    """Inputs to differentiate with respect to: joined to the given ones if the result is to be."""
    out = []
    for t in inputs:
        if create and requires_grad_of(t):
            out.append(t.view_as(t) if overrides(type(t)) else ops.view(t, t._m.shape))
            continue
        if needed and t._m.dtype.category < dtypes.FLOATING:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if MODES.transforming():
            raise RuntimeError(errors.REQUIRES_GRAD_INSIDE)
        if overrides(type(t)):
            out.append(t.detach().requires_grad_(needed))
            continue
        fresh = alias_of(t, t._m, plain_alias(t), t._vc)
        if uncounted(t):
            count_like(fresh, t)
            fresh.requires_grad_(needed)  # which is not for inference tensors
        fresh._rg = needed
        out.append(fresh)
    return tuple(out)


def _direction(v: Any, like: Sequence[Tensor], like_is_tuple: bool, fn: str, create: bool) -> Any:
    """`v`, joined to the given one as `_variables` are; it must be given unless there is one number to be `like`."""
    if v is None:
        if len(like) != 1 or like[0]._m.numel != 1:
            where = "user-provided function returns" if fn == "vjp" else "input to the user-provided function is"
            raise RuntimeError(f"The vector v can only be None if the {where} a single Tensor with a single element.")
        return None
    given = _variables(_as_tuple(v, "v", fn)[1], create, False)
    if len(given) != len(like):
        if like_is_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(given, like)):
        if a._m.shape != b._m.shape:
            which = f"Entry {i} in v" if like_is_tuple else "v"
            raise RuntimeError(f"{which} has invalid size: should be {b._m.size} but got {a._m.size}.")
    return given


def _evaluate(
    func: Callable[..., Any], inputs: Sequence[Tensor], fn: str, strict: bool
) -> tuple[bool, tuple[Tensor, ...]]:
    """Return whether a function gives a tuple, and what it gives."""
    was, outputs = _as_tuple(func(*inputs), _OUTPUTS, fn)
    if strict:
        _check("outputs", outputs)
    return was, outputs


def _scalar(func: Callable[..., Any], inputs: Any, fn: str, strict: bool) -> Tensor:
    """Return what a function of scalar value gives."""
    was, outputs = _evaluate(func, inputs, fn, strict)
    if was:
        raise RuntimeError(f"The function given to {fn} should return a single Tensor")
    if outputs[0]._m.numel != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {fn} should contain a single element")
    return outputs[0]


# --- strict mode ----------------------------------------------------------------------------------

_NOT_ALLOWED = "This is not allowed in strict mode"
_OUTPUT = "{output} of the user-provided function is independent of input {i}. " + _NOT_ALLOWED + "."
_JACOBIAN = "The jacobian of the user-provided function is independent of input {i}. " + _NOT_ALLOWED
_HESSIAN = (
    "The hessian of the user-provided function with respect to input {i} is independent of the input. "
    f"{_NOT_ALLOWED} when create_graph=True."
)
_HESSIAN_OF = "The hessian of the user-provided function is independent of "
_TRICK = (
    "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using the double "
    f"backward trick to compute forward mode gradients. {_NOT_ALLOWED}."
)
_PREVENTS = " as it prevents from using the double backward trick to replace forward mode AD."

# What was computed: torch's words where it is None, and where it does not require grad.
_COMPLAINTS: dict[str, tuple[str, str | None]] = {
    "outputs": (
        "",
        "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
        "differentiable manner from the input when running in strict mode.",
    ),
    "grad_inputs": (_OUTPUT, None),
    "jacobian": (
        _OUTPUT,
        "While computing the hessian, found that the jacobian of the user-provided function with respect to input {i} "
        f"is independent of the input. {_NOT_ALLOWED}. You should ensure that your function is twice differentiable "
        "and that the jacobian depends on the inputs (this would be violated by a linear function for example).",
    ),
    "hessian": (_OUTPUT, _HESSIAN),
    "back": (_OUTPUT, f"{_JACOBIAN} when create_graph=True."),
    "back_trick": (_TRICK, f"{_JACOBIAN} when create_graph=True."),
    "double_back": (f"{_JACOBIAN}.", _HESSIAN_OF + "input {i}. " + f"{_NOT_ALLOWED} when create_graph=True."),
    "double_back_trick": (
        _HESSIAN_OF + "entry {i} in the grad_jacobian. " + _NOT_ALLOWED + _PREVENTS,
        _HESSIAN_OF + "input {i}. " + f"{_NOT_ALLOWED} when create_graph=True.",
    ),
}


def _check(what: str, found: Sequence[Any], create: bool = True, output: str = "The output") -> None:
    """Complain about what does not depend on the inputs, or, if it is to be differentiated, is constant."""
    absent, constant = _COMPLAINTS[what]
    for i, t in enumerate(found):
        if t is None:
            raise RuntimeError(absent.format(i=i, output=output))
        if create and constant is not None and not requires_grad_of(t):
            raise RuntimeError(constant.format(i=i))


# --- products -------------------------------------------------------------------------------------


def _gradients(outputs: Sequence[Any], inputs: Sequence[Tensor], v: Any = None, create: bool = True) -> tuple[Any, ...]:
    """Gradients of the inputs for those outputs that there are; None where they do not depend on them."""
    at = [i for i, t in enumerate(outputs) if t is not None and requires_grad_of(t)]
    if not at:
        return (None,) * len(inputs)
    roots = [outputs[i] for i in at]
    vectors = [None if v is None else v[i] for i in at]
    return _autograd_grad(roots, inputs, vectors, create, create)


@overridable("autograd.functional", ("roots", "inputs"))
def _autograd_grad(roots: Sequence[Tensor], inputs: Sequence[Tensor], vectors: Any, retain: bool, create: bool) -> Any:
    """Gradients of the inputs, None where nothing depends on them: of the class of the tensors, if that overrides."""
    return run_backward(roots, make_grads(roots, vectors, False), retain, create, inputs, True, False)


def _zeros(like: Tensor) -> Tensor:
    """Zeros of the class of a tensor."""
    return NAMESPACES[""]["zeros_like"](like) if overrides(type(like)) else zeros_for(like._m)


def _transposed(outputs: Sequence[Any], inputs: Sequence[Tensor], like: Sequence[Tensor]) -> tuple[Any, Any]:
    """Gradients of the inputs, and the gradients of the outputs that they are linear in."""
    dummies = _variables([_zeros(t) for t in like], False)
    return _gradients(outputs, inputs, dummies), dummies


def _product(outputs: Sequence[Any], inputs: Any, v: Any, what: str, create: bool, strict: bool) -> Any:
    """Gradients of the inputs as results: zeros for None, or in strict mode an error."""
    with enable_grad() if create else nullcontext():
        found = _gradients(outputs, inputs, v, create)
        if strict:
            _check(what, found, create)
        found = [_zeros(t) if g is None else g for g, t in zip(found, inputs)]
    return _grad_postprocess(found, create)


def vjp(
    func: Callable[..., Any], inputs: _Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return what `func` returns, and the product of `v` with its Jacobian.

    Args:
        func: takes and returns tensors.
        inputs: where to evaluate it: a tensor, or a tuple of them.
        v: like the outputs; may be left out for one output of one element.
        create_graph: whether the results can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.vjp(torch.sin, torch.zeros(2), torch.ones(2))
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    with enable_grad():
        was, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _variables(inputs, create_graph)
        out_was, outputs = _evaluate(func, inputs, "vjp", strict)
        v = _direction(v, outputs, out_was, "vjp", create_graph)
    found = _product(outputs, inputs, v, "back", create_graph, strict)
    return _tuple_postprocess(_grad_postprocess(outputs, create_graph), out_was), _tuple_postprocess(found, was)


def jvp(
    func: Callable[..., Any], inputs: _Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return what `func` returns, and the product of its Jacobian with `v`.

    Computed as the transpose of the transpose, as torch does; `torch.func.jvp` is forward mode.

    Args:
        v: like the inputs; may be left out for one input of one element.
        func, inputs, create_graph, strict: as for `vjp`.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.jvp(torch.sin, torch.zeros(2), torch.ones(2))
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    with enable_grad():
        was, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _variables(inputs, create_graph)
        v = _direction(v, inputs, was, "jvp", create_graph)
        out_was, outputs = _evaluate(func, inputs, "jvp", strict)
        pulled, dummies = _transposed(outputs, inputs, outputs)
        if strict:
            _check("grad_inputs", pulled)
    found = _product(pulled, dummies, v, "back_trick", create_graph, strict)
    return _tuple_postprocess(_grad_postprocess(outputs, create_graph), out_was), _tuple_postprocess(found, out_was)


def vhp(
    func: Callable[..., Any], inputs: _Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return what a function of scalar value returns, and the product of `v` with its Hessian.

    Args:
        func: returns a tensor of one element.
        v: like the inputs; may be left out for one input of one element.
        inputs, create_graph, strict: as for `vjp`.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
        (tensor(2.), tensor([6., 6.]))
    """
    with enable_grad():
        was, inputs, v, output, slopes = _sloped(func, inputs, v, "vhp", create_graph, strict)
    found = _product(slopes, inputs, v, "double_back", create_graph, strict)
    return _grad_postprocess(output, create_graph), _tuple_postprocess(found, was)


def hvp(
    func: Callable[..., Any], inputs: _Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """Return what a function of scalar value returns, and the product of its Hessian with `v`.

    Args:
        func, inputs, v, create_graph, strict: as for `vhp`.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
        (tensor(2.), tensor([6., 6.]))
    """
    with enable_grad():
        was, inputs, v, output, slopes = _sloped(func, inputs, v, "hvp", create_graph, strict)
        pulled, dummies = _transposed(slopes, inputs, inputs)
        if strict:
            _check("hessian", pulled)
    found = _product(pulled, dummies, v, "double_back_trick", create_graph, strict)
    return _grad_postprocess(output, create_graph), _tuple_postprocess(found, was)


def _sloped(
    func: Any, inputs: Any, v: Any, fn: str, create: bool, strict: bool
) -> tuple[bool, tuple[Tensor, ...], Any, Tensor, tuple[Any, ...]]:
    """A function of scalar value and its gradient, ready to be differentiated again: whether the inputs
    came as a tuple, the inputs, the direction, the value, the gradient."""
    was, inputs = _as_tuple(inputs, "inputs", fn)
    inputs = _variables(inputs, create)
    v = _direction(v, inputs, was, fn, create)
    output = _scalar(func, inputs, fn, strict)
    slopes = _gradients([output], inputs)
    if strict:
        _check("jacobian", slopes)
    return was, inputs, v, output, slopes


# --- whole matrices -------------------------------------------------------------------------------

_STRATEGIES = ("forward-mode", "reverse-mode")
_TOGETHER = (
    'torch.autograd.functional.jacobian: `{0}=True` and `strategy="forward-mode"` are not supported together (yet). '
    'Please either set `{0}=False` or `strategy="reverse-mode"`.'
)


def jacobian(
    func: Callable[..., Any],
    inputs: _Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function, for each output and input.

    Args:
        func, inputs, create_graph, strict: as for `vjp`.
        vectorize: compute all rows (or columns) in one vectorised pass instead of one by one.
        strategy: "reverse-mode", or "forward-mode" together with `vectorize`.

    Returns:
        A tensor of the output's shape followed by the input's; a tuple of them for several inputs, of
        tuples for several outputs.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.jacobian(torch.sin, torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    if strategy not in _STRATEGIES:
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(_TOGETHER.format("create_graph"))
        if strict:
            raise RuntimeError(_TOGETHER.format("strict"))
        return _forward_jacobian(func, inputs, vectorize)
    with enable_grad():
        was, inputs = _as_tuple(inputs, "inputs", "jacobian")
        inputs = _variables(inputs, create_graph)
        out_was, outputs = _evaluate(func, inputs, "jacobian", strict)
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                "Please either set `strict=False` or `vectorize=False`."
            )
        if vectorize:
            rows = _all_rows(outputs, inputs, create_graph)
        else:
            rows = [_block(t, i, inputs, strict, create_graph) for i, t in enumerate(outputs)]
    return _tuple_postprocess(_grad_postprocess(rows, create_graph), (out_was, was))


_MOST_ROWS = 1024
"""Elements of an output whose rows are computed at once where nobody can tell."""


def _block(out: Tensor, i: int, inputs: Sequence[Tensor], strict: bool, create: bool) -> tuple[Tensor, ...]:
    """One output's block per input: its rows at once where nobody can tell the difference."""
    told_apart = strict or create or out._m.dtype.is_complex or not requires_grad_of(out) or overridden((out, *inputs))
    found = None
    if not told_apart and 1 < out._m.numel <= _MOST_ROWS:
        found = compiled_rows([out], basis([out]), [out._m], True, inputs)
    if found is None:
        return _rows(out, i, inputs, strict, create)
    metas = [meta((*out._m.shape, *x._m.shape), x._m.dtype, x._m.device) for x in inputs]
    return tuple(make(filled(m, 0) if a is None else a.reshape(m.shape), m) for a, m in zip(found, metas))


def _rows(out: Tensor, i: int, inputs: Sequence[Tensor], strict: bool, create: bool) -> tuple[Tensor, ...]:
    """One output's block per input, an element of the output at a time."""
    flat, select = out, Tensor.select if overrides(type(out)) else ops.select
    if out._m.ndim:
        flat = ops.view(out, (-1,)) if out._m.contiguous and select is ops.select else out.reshape(-1)
    rows = []
    for j in range(out._m.numel):
        one = select(flat, 0, j) if out._m.ndim else out
        found: Sequence[Any] = (None,) * len(inputs)
        if requires_grad_of(out):
            found = _autograd_grad([one], inputs, (None,), True, create)
        if strict:
            _check("back", found, create, f"Output {i}")
        rows.append([_zeros(x) if g is None else g for g, x in zip(found, inputs)])
    blocks = zip(*rows) if rows else [[] for _ in inputs]
    stack = NAMESPACES[""]["stack"]
    return tuple(stack(list(b), 0).view((*out._m.shape, *x._m.shape)) for b, x in zip(blocks, inputs))


@overridable("autograd.functional")
def _all_rows(outputs: Sequence[Tensor], inputs: Sequence[Tensor], create: bool) -> list[tuple[Tensor, ...]]:
    """All blocks from one batched pass."""
    sizes = [t._m.numel for t in outputs]
    given = basis(outputs)
    at = [i for i, t in enumerate(outputs) if requires_grad_of(t)]
    found: tuple[Any, ...] = (None,) * len(inputs)
    if at:
        found = run_batched([outputs[i] for i in at], [given[i] for i in at], create, create, inputs, True)
    columns = []
    for g, x in zip(found, inputs):
        if g is None:
            g = zeros_for(meta((sum(sizes), *x._m.shape), x._m.dtype, x._m.device))
        columns.append([ops.view(p, (*t._m.shape, *x._m.shape)) for p, t in zip(split(g, sizes), outputs)])
    return list(zip(*columns))


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> tuple[Tensor, ...]:
    """Unit vectors of the space of all these tensors together: rows of a matrix for each tensor."""
    if len(tensors) != len(tensor_numels) or not tensors:
        raise AssertionError("expected at least one tensor, and as many sizes as tensors")
    return tuple(t.reshape(t._m.shape[0], n) for t, n in zip(basis(tensors), tensor_numels))


def _forward_jacobian(func: Any, inputs: Any, vectorize: bool) -> Any:
    """All columns at once, with dual numbers."""
    was, inputs = _as_tuple(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."
        )
    out_was = False

    def column(*tangents: Tensor) -> tuple[Tensor, ...]:
        nonlocal out_was
        with forward_ad.dual_level():
            duals = tuple(forward_ad.make_dual(x, ops.view(t, x._m.shape)) for x, t in zip(inputs, tangents))
            out_was, outputs = _as_tuple(func(*duals), "outputs", "None")  # in torch's own words
            parts = [forward_ad.unpack_dual(t) for t in outputs]
            return tuple(zeros_for(p.primal._m) if p.tangent is None else p.tangent for p in parts)

    sizes = [x._m.numel for x in inputs]
    rows = []
    for columns in vmap(column)(*basis(inputs)):
        shape = columns._m.shape[1:]
        parts = split(movedim(columns, 0, -1), sizes, -1)
        rows.append([p.reshape((*shape, *x._m.shape)) for p, x in zip(parts, inputs)])
    # torch gives lists for several inputs, and lists of them for several outputs too.
    return _tuple_postprocess(rows, out_was) if was else _tuple_postprocess(rows, (out_was, was))


def hessian(
    func: Callable[..., Any],
    inputs: _Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function of scalar value, for each pair of inputs.

    Args:
        func: returns a tensor of one element.
        vectorize: compute the outer Jacobian in one vectorised pass.
        outer_jacobian_strategy: "reverse-mode", or "forward-mode" together with `vectorize`.
        inputs, create_graph, strict: as for `vjp`.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.ones(2))
        tensor([[6., 0.],
                [0., 6.]])
    """
    was, inputs = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in _STRATEGIES:
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*inp: Tensor) -> Tensor:
        return _scalar(func, inp, "hessian", strict).reshape(())

    def slopes(*inp: Tensor) -> tuple[Tensor, ...]:
        if outer_jacobian_strategy == "forward-mode":
            with enable_grad():
                inp = tuple(t if requires_grad_of(t) else _variable_of(t) for t in inp)
        found = jacobian(scalar, inp, create_graph=True)
        if strict:
            _check("jacobian", found)
        return found

    found = jacobian(slopes, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return _tuple_postprocess(found, (was, was))


def _variable_of(t: Tensor) -> Tensor:
    """A view of a dual tensor that requires a gradient; the tangent comes along."""
    out = ops.alias(t)
    out._rg = True
    return convert(out, type(t)) if overrides(type(t)) else out


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
