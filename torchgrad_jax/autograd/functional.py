"""Derivatives of functions over tensors, as in torch.autograd.functional."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._bridge.basis import basis
from .._bridge.vmap import vmap
from .._core.arrays import dtypes
from .._core.arrays.meta import meta
from .._core.arrays.transfer import filled
from .._core.errors import messages as errors
from .._core.state import GRAD, MODES
from .._engine.entry.bind import ops
from .._engine.graph.history import requires_grad_of
from .._engine.graph.record import zeros_for
from .._engine.memory.tensor import Tensor, alias_of, count_like, make, plain_alias, uncounted
from .._functions.shape import movedim
from .._functions.splitting import split
from . import forward_ad
from ._passes import compiled_rows, make_grads, ones_like, run_backward, run_batched
from .grad_mode import enable_grad

_Tensors = Tensor | tuple[Tensor, ...]


# --- arguments and results ------------------------------------------------------------------------


def _tupled(x: Any, what: str, fn: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether `x` is a tuple, and as one."""
    was = isinstance(x, tuple)
    values = x if was else (x,)
    for i, t in enumerate(values):
        if not isinstance(t, Tensor):
            complaint = f"The {what} given to {fn} must be either a Tensor or a tuple of Tensors but the"
            if was:
                raise TypeError(f"{complaint} value at index {i} has type {type(t)}.")
            raise TypeError(f"{complaint} given {what} has type {type(t)}.")
    return was, tuple(values)


def _variables(inputs: Sequence[Tensor], create: bool, needed: bool = True) -> tuple[Tensor, ...]:
    """Inputs to differentiate with respect to: joined to the given ones if the result is to be."""
    out = []
    for t in inputs:
        if create and requires_grad_of(t):
            out.append(ops.view(t, t._m.shape))
            continue
        if needed and t._m.dtype.category < dtypes.FLOATING:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if MODES.transforming():
            raise RuntimeError(errors.REQUIRES_GRAD_INSIDE)
        fresh = alias_of(t, t._m, plain_alias(t), t._vc)
        if uncounted(t):
            count_like(fresh, t)
            fresh.requires_grad_(needed)  # which is not for inference tensors
        fresh._rg = needed
        out.append(fresh)
    return tuple(out)


def _finished(result: Any, create: bool) -> Any:
    """The result as the caller gets it: outside of the graph unless that was asked for."""
    if isinstance(result, tuple | list):
        return tuple(_finished(r, create) for r in result)
    if create or not requires_grad_of(result):
        return result
    return alias_of(result, result._m, plain_alias(result), result._vc)


def _as_given(values: Sequence[Any], was_tuple: bool) -> Any:
    return tuple(values) if was_tuple else values[0]


def _check_direction(v: Sequence[Tensor], like: Sequence[Tensor], like_is_tuple: bool) -> None:
    if len(v) != len(like):
        if like_is_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(v, like)):
        if a._m.shape != b._m.shape:
            which = f"Entry {i} in v" if like_is_tuple else "v"
            raise RuntimeError(f"{which} has invalid size: should be {b._m.size} but got {a._m.size}.")


def _check_depends(tensors: Sequence[Any], what: str, strict: bool) -> None:
    """In strict mode: complain about what does not depend on the inputs."""
    if not strict:
        return
    for i, t in enumerate(tensors):
        if what == "outputs":
            if not requires_grad_of(t):
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                    "computed in a differentiable manner from the input when running in strict mode."
                )
        elif t is None:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {i}. This is not allowed in strict "
                "mode."
            )
        elif not requires_grad_of(t):
            if what == "hessian":
                raise RuntimeError(
                    f"The hessian of the user-provided function with respect to input {i} is independent of the input. "
                    "This is not allowed in strict mode when create_graph=True."
                )
            if what == "jacobian":
                raise RuntimeError(
                    "While computing the hessian, found that the jacobian of the user-provided function with "
                    f"respect to input {i} is independent of the input. This is not allowed in strict mode. You "
                    "should ensure that your function is twice differentiable and that the jacobian depends on the "
                    "inputs (this would be violated by a linear function for example)."
                )


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], v: Any = None, *, create: bool = False
) -> tuple[Any, ...]:
    """Gradients of the inputs; None where the outputs do not depend on them."""
    at = [i for i, t in enumerate(outputs) if requires_grad_of(t)]
    if v is not None:
        at = [i for i in at if v[i] is not None]
    if not at:
        return (None,) * len(inputs)
    roots = [outputs[i] for i in at]
    given = make_grads(roots, [None if v is None else v[i] for i in at], False)
    return run_backward(roots, given, create, create, inputs, True, False)


def _filled(
    grads: Sequence[Any], like: Sequence[Tensor], strict: bool, create: bool, stage: str = ""
) -> tuple[Tensor, ...]:
    """Zeros for None, or in strict mode an error that says what is independent of what."""
    out = []
    for i, (g, t) in enumerate(zip(grads, like)):
        if g is None:
            if strict:
                raise RuntimeError(_INDEPENDENT[stage].format(i=i))
            g = zeros_for(t._m)
        elif strict and create and not requires_grad_of(g):
            raise RuntimeError(_CONSTANT[stage].format(i=i))
        out.append(g)
    return tuple(out)


_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "back_trick": "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using "
    "the double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "double_back": "The jacobian of the user-provided function is independent of input {i}. This is not allowed in "
    "strict mode.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. "
    "This is not allowed in strict mode as it prevents from using the double backward trick to replace forward mode "
    "AD.",
}
_CONSTANT = {
    "back": "The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict "
    "mode when create_graph=True.",
    "back_trick": "The jacobian of the user-provided function is independent of input {i}. This is not allowed in "
    "strict mode when create_graph=True.",
    "double_back": "The hessian of the user-provided function is independent of input {i}. This is not allowed in "
    "strict mode when create_graph=True.",
    "double_back_trick": "The hessian of the user-provided function is independent of input {i}. This is not "
    "allowed in strict mode when create_graph=True.",
}


def _evaluate(
    func: Callable[..., Any], inputs: Sequence[Tensor], fn: str, strict: bool
) -> tuple[bool, tuple[Tensor, ...]]:
    what = "outputs of the user-provided function"
    was, outputs = _tupled(func(*inputs), what, fn)
    _check_depends(outputs, "outputs", strict)
    return was, outputs


def _scalar(func: Callable[..., Any], inputs: Any, fn: str, strict: bool) -> tuple[Tensor, ...]:
    was, outputs = _evaluate(func, inputs, fn, strict)
    if was:
        raise RuntimeError(f"The function given to {fn} should return a single Tensor")
    if outputs[0]._m.numel != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {fn} should contain a single element")
    return outputs


def _direction(v: Any, like: Sequence[Tensor], like_is_tuple: bool, fn: str, create: bool) -> Any:
    """`v` over the inputs, or ones where that is clear; joined to the given one as `_variables` are."""
    if v is None:
        if len(like) != 1 or like[0]._m.numel != 1:
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
                "single element."
            )
        return (ones_like(like[0]._m),)
    _, given = _tupled(v, "v", fn)
    given = _variables(given, create, False)
    _check_direction(given, like, like_is_tuple)
    return given


# --- products -------------------------------------------------------------------------------------


def vjp(
    func: Callable[..., Any], inputs: _Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What `func` returns, and the product of `v` with its Jacobian.

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
        was, inputs = _tupled(inputs, "inputs", "vjp")
        inputs = _variables(inputs, create_graph)
        out_was, outputs = _evaluate(func, inputs, "vjp", strict)
        if v is not None:
            _, v = _tupled(v, "v", "vjp")
            v = _variables(v, create_graph, False)
            _check_direction(v, outputs, out_was)
        elif len(outputs) != 1 or outputs[0]._m.numel != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
            )
    with _recording(create_graph):
        found = _gradients(outputs, inputs, v, create=create_graph)
        found = _filled(found, inputs, strict, create_graph, "back")
    outputs, found = _finished(outputs, create_graph), _finished(found, create_graph)
    return _as_given(outputs, out_was), _as_given(found, was)


def jvp(
    func: Callable[..., Any], inputs: _Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What `func` returns, and the product of its Jacobian with `v`.

    Computed as the transpose of the transpose, as torch does; `torch.func.jvp` is forward mode.

    Args:
        func: takes and returns tensors.
        inputs: where to evaluate it: a tensor, or a tuple of them.
        v: like the inputs; may be left out for one input of one element.
        create_graph: whether the results can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.jvp(torch.sin, torch.zeros(2), torch.ones(2))
        (tensor([0., 0.]), tensor([1., 1.]))
    """
    with enable_grad():
        was, inputs = _tupled(inputs, "inputs", "jvp")
        inputs = _variables(inputs, create_graph)
        v = _direction(v, inputs, was, "jvp", create_graph)
        out_was, outputs = _evaluate(func, inputs, "jvp", strict)
        dummies = _variables([zeros_for(t._m) for t in outputs], False)
        pulled = _gradients(outputs, inputs, dummies, create=True)
        _check_depends(pulled, "grad_inputs", strict)
    with _recording(create_graph):
        found = _pulled(pulled, dummies, v, create_graph)
        found = _filled(found, outputs, strict, create_graph, "back_trick")
    outputs, found = _finished(outputs, create_graph), _finished(found, create_graph)
    return _as_given(outputs, out_was), _as_given(found, out_was)


def vhp(
    func: Callable[..., Any], inputs: _Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What a function of scalar value returns, and the product of `v` with its Hessian.

    Args:
        func: returns a tensor of one element.
        inputs: where to evaluate it: a tensor, or a tuple of them.
        v: like the inputs; may be left out for one input of one element.
        create_graph: whether the results can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
        (tensor(2.), tensor([6., 6.]))
    """
    with enable_grad():
        was, inputs, v, outputs, slopes = _sloped(func, inputs, v, "vhp", create_graph, strict)
    with _recording(create_graph):
        found = _pulled(slopes, inputs, v, create_graph)
        found = _filled(found, inputs, strict, create_graph, "double_back")
    outputs, found = _finished(outputs, create_graph), _finished(found, create_graph)
    return outputs[0], _as_given(found, was)


def hvp(
    func: Callable[..., Any], inputs: _Tensors, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """What a function of scalar value returns, and the product of its Hessian with `v`.

    Args:
        func: returns a tensor of one element.
        inputs: where to evaluate it: a tensor, or a tuple of them.
        v: like the inputs; may be left out for one input of one element.
        create_graph: whether the results can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.ones(2), torch.ones(2))
        (tensor(2.), tensor([6., 6.]))
    """
    with enable_grad():
        was, inputs, v, outputs, slopes = _sloped(func, inputs, v, "hvp", create_graph, strict)
        dummies = _variables([zeros_for(t._m) for t in inputs], False)
        pulled = _pulled(slopes, inputs, dummies, True)
        _check_depends(pulled, "hessian", strict)
    with _recording(create_graph):
        found = _pulled(pulled, dummies, v, create_graph)
        found = _filled(found, inputs, strict, create_graph, "double_back_trick")
    outputs, found = _finished(outputs, create_graph), _finished(found, create_graph)
    return outputs[0], _as_given(found, was)


def _pulled(outputs: Sequence[Any], inputs: Any, v: Any, create: bool) -> Any:
    """Gradients of those outputs that there are."""
    at = [i for i, t in enumerate(outputs) if t is not None]
    return _gradients([outputs[i] for i in at], inputs, [v[i] for i in at], create=create)


def _sloped(
    func: Any, inputs: Any, v: Any, fn: str, create: bool, strict: bool
) -> tuple[bool, tuple[Tensor, ...], Any, tuple[Tensor, ...], Any]:
    """A function of scalar value and its gradient, ready to be differentiated again: whether the inputs
    came as a tuple, the inputs, the direction, the value, the gradient."""
    was, inputs = _tupled(inputs, "inputs", fn)
    inputs = _variables(inputs, create)
    v = _direction(v, inputs, was, fn, create)
    outputs = _scalar(func, inputs, fn, strict)
    slopes = _gradients(outputs, inputs, create=True)
    _check_depends(slopes, "jacobian", strict)
    return was, inputs, v, outputs, slopes


class _recording:
    """Recording on if the results are to be differentiated, else as it is."""

    def __init__(self, create: bool) -> None:
        self.create = create

    def __enter__(self) -> None:
        self.bits = MODES.bits
        if self.create:
            MODES.bits |= GRAD

    def __exit__(self, *exc: object) -> None:
        MODES.bits = MODES.bits & ~GRAD | self.bits & GRAD


# --- whole matrices -------------------------------------------------------------------------------


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
        func: takes and returns tensors.
        inputs: where to evaluate it: a tensor, or a tuple of them.
        create_graph: whether the result can be differentiated.
        strict: raise where an output does not depend on an input, instead of giving zeros.
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
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not '
                'supported together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
            )
        return _forward_jacobian(func, inputs, strict, vectorize)
    with enable_grad():
        was, inputs = _tupled(inputs, "inputs", "jacobian")
        inputs = _variables(inputs, create_graph)
        out_was, outputs = _evaluate(func, inputs, "jacobian", strict)
        if vectorize:
            if strict:
                raise RuntimeError(
                    "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported "
                    "together. Please either set `strict=False` or `vectorize=False`."
                )
            rows = _all_rows(outputs, inputs, create_graph)
        else:
            rows = [_block(t, i, inputs, strict, create_graph) for i, t in enumerate(outputs)]
    found = _finished(rows, create_graph)
    return _as_given([_as_given(row, was) for row in found], out_was)


_MOST_ROWS = 1024
"""Elements of an output whose rows are computed at once where nobody can tell."""


def _block(out: Tensor, i: int, inputs: Sequence[Tensor], strict: bool, create: bool) -> tuple[Tensor, ...]:
    """One output's block per input: its rows at once where nobody can tell the difference."""
    n = out._m.numel
    told_apart = strict or create or out._m.dtype.is_complex or not requires_grad_of(out)
    found = None
    if not told_apart and 1 < n <= _MOST_ROWS:
        found = compiled_rows([out], basis([out]), [out._m], True, inputs)
    if found is None:
        return _rows(out, i, inputs, strict, create)
    blocks = []
    for array, x in zip(found, inputs):
        m = meta((*out._m.shape, *x._m.shape), x._m.dtype, x._m.device)
        block = filled(m, 0) if array is None else array.reshape(m.shape)
        blocks.append(make(block, m))
    return tuple(blocks)


def _rows(out: Tensor, i: int, inputs: Sequence[Tensor], strict: bool, create: bool) -> tuple[Tensor, ...]:
    """One output's block per input, an element of the output at a time."""
    flat = out
    if out._m.ndim:
        flat = ops.view(out, (-1,)) if out._m.contiguous else out.reshape(-1)
    blocks: list[list[Tensor]] = [[] for _ in inputs]
    for j in range(out._m.numel):
        one = [ops.select(flat, 0, j) if out._m.ndim else out]
        found: tuple[Any, ...] = (None,) * len(inputs)
        if requires_grad_of(out):
            given = make_grads(one, (None,), False)
            found = run_backward(one, given, True, create, inputs, True, False)
        for k, (g, x) in enumerate(zip(found, inputs)):
            if g is not None:
                if strict and create and not requires_grad_of(g):
                    raise RuntimeError(
                        f"The jacobian of the user-provided function is independent of input {k}. This is not "
                        "allowed in strict mode when create_graph=True."
                    )
            elif strict:
                raise RuntimeError(
                    f"Output {i} of the user-provided function is independent of input {k}. This is not allowed in "
                    "strict mode."
                )
            else:
                g = zeros_for(x._m)
            blocks[k].append(g)
    return tuple(ops.view(ops.stack(rows, 0), (*out._m.shape, *x._m.shape)) for rows, x in zip(blocks, inputs))


def _all_rows(outputs: Sequence[Tensor], inputs: Sequence[Tensor], create: bool) -> list[tuple[Tensor, ...]]:
    """All blocks from one batched pass."""
    sizes = [t._m.numel for t in outputs]
    given = basis(outputs)
    at = [i for i, t in enumerate(outputs) if requires_grad_of(t)]
    found: tuple[Any, ...] = (None,) * len(inputs)
    if at:
        roots = [outputs[i] for i in at]
        found = run_batched(roots, [given[i] for i in at], create, create, inputs, True)
    columns = []
    for g, x in zip(found, inputs):
        if g is None:
            shape = (sum(sizes), *x._m.shape)
            g = zeros_for(meta(shape, x._m.dtype, x._m.device))
        parts = split(g, sizes)
        columns.append([ops.view(p, (*t._m.shape, *x._m.shape)) for p, t in zip(parts, outputs)])
    return list(zip(*columns))


def _construct_standard_basis_for(tensors: Sequence[Tensor], tensor_numels: Sequence[int]) -> tuple[Tensor, ...]:
    """Unit vectors of the space of all these tensors together: rows of a matrix for each tensor."""
    if len(tensors) != len(tensor_numels) or not tensors:
        raise AssertionError("expected at least one tensor, and as many sizes as tensors")
    return tuple(t.reshape(t._m.shape[0], n) for t, n in zip(basis(tensors), tensor_numels))


def _forward_jacobian(func: Any, inputs: Any, strict: bool, vectorize: bool) -> Any:
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported '
            'together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
        )
    was, inputs = _tupled(inputs, "inputs", "jacobian")
    returned: list[Any] = []
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."
        )

    def column(*tangents: Tensor) -> tuple[Tensor, ...]:
        with forward_ad.dual_level():
            duals = tuple(forward_ad.make_dual(x, ops.view(t, x._m.shape)) for x, t in zip(inputs, tangents))
            out_was, outputs = _tupled(func(*duals), "outputs", "None")  # in torch's own words
            returned[:] = [out_was]
            parts = [forward_ad.unpack_dual(t) for t in outputs]
            return tuple(zeros_for(p.primal._m) if p.tangent is None else p.tangent for p in parts)

    slopes = vmap(column)(*basis(inputs))
    sizes = [x._m.numel for x in inputs]
    rows = []
    for columns in slopes:
        shape = columns._m.shape[1:]
        parts = split(movedim(columns, 0, -1), sizes, -1)
        rows.append([p.reshape((*shape, *x._m.shape)) for p, x in zip(parts, inputs)])
    if was:  # torch gives lists here, of lists where there are several outputs too
        return rows if returned[0] else rows[0]
    return tuple([row[0] for row in rows]) if returned[0] else rows[0][0]


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
        inputs: where to evaluate it: a tensor, or a tuple of them.
        create_graph: whether the result can be differentiated.
        strict: raise where something does not depend on an input, instead of giving zeros.
        vectorize: compute the outer Jacobian in one vectorised pass.
        outer_jacobian_strategy: "reverse-mode", or "forward-mode" together with `vectorize`.

    Example:
        >>> import torchgrad_jax as torch
        >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.ones(2))
        tensor([[6., 0.],
                [0., 6.]])
    """
    was, inputs = _tupled(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*inp: Tensor) -> Tensor:
        out_was, outputs = _tupled(func(*inp), "outputs of the user-provided function", "hessian")
        _check_depends(outputs, "outputs", strict)
        if out_was:
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if outputs[0]._m.numel != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        return outputs[0].reshape(())

    def slopes(*inp: Tensor) -> tuple[Tensor, ...]:
        if outer_jacobian_strategy == "forward-mode":
            with enable_grad():
                inp = tuple(t if requires_grad_of(t) else _variable_of(t) for t in inp)
        found = jacobian(scalar, inp, create_graph=True)
        _check_depends(found, "jacobian", strict)
        return found

    found = jacobian(
        slopes, inputs, create_graph=create_graph, strict=strict, vectorize=vectorize, strategy=outer_jacobian_strategy
    )
    return found if was else found[0][0]


# --- what packages with Jacobians of their own take from here, next to the basis above ----------------


def _as_tuple_nocheck(x: Any) -> tuple[Any, ...]:
    """A tuple as it is, a list as one, anything else alone in one."""
    return tuple(x) if isinstance(x, tuple | list) else (x,)


def _as_tuple(inp: Any, arg_name: str | None = None, fn_name: str | None = None) -> Any:
    """Whether `inp` is a tuple, and as one; without names only the tuple, whatever it holds."""
    if arg_name is None and fn_name is None:
        return _as_tuple_nocheck(inp)
    return _tupled(inp, str(arg_name), str(fn_name))


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
    return _finished(inputs, create_graph)


def _variable_of(t: Tensor) -> Tensor:
    """A view of a dual tensor that requires a gradient; the tangent comes along."""
    out = ops.alias(t)
    out._rg = True
    return out


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
