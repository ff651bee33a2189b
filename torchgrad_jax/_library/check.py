"""Does an operator keep what its schema, its formula and its fake function promise?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .._bridge.compile.compile import compile as compile_
from .._core.arrays import tree
from .._engine.memory.tensor import Tensor
from ..ops import CustomOverload, OpOverload

_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """What `opcheck` raises."""


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Check an operator on some arguments.

    Args:
        op: a `CustomOpDef`, or an operator of ``torch.ops``.
        args: its arguments.
        kwargs: those by name.
        test_utils: which checks: "test_schema" (writes and aliases are those of the schema),
            "test_autograd_registration" (a gradient where tensors require one),
            "test_faketensor" (the fake function tells shapes, strides and dtypes),
            "test_aot_dispatch_dynamic" (the same numbers and gradients inside of torch.compile).
        raise_exception: raise the first failure as `OpCheckError`.
        atol, rtol: how close compiled numbers have to be.

    Returns:
        The name of each check with "SUCCESS" or its error.
    """
    overload = getattr(op, "_opoverload", op)
    if not isinstance(overload, OpOverload):
        raise ValueError(
            "opcheck(op, ...): op must be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got "
            f"{type(op)}"
        )
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if unknown := set(names) - set(_TESTS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={test_utils!r}): no check is called {', '.join(sorted(unknown))}"
        )
    close = {} if atol is None and rtol is None else {"atol": atol, "rtol": rtol}
    results: dict[str, Any] = {}
    for name in names:
        try:
            _CHECKS[name](op, overload, args, dict(kwargs or {}), close)
        except Exception as error:  # an operator may raise anything
            results[name] = error
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
        else:
            results[name] = "SUCCESS"
    return results


def _copies(values: Any) -> Any:
    leaves, spec = tree.flatten(values)
    return tree.unflatten(
        [t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t for t in leaves], spec
    )


def _tensors(values: Any) -> list[Tensor]:
    return [t for t in tree.flatten(values)[0] if isinstance(t, Tensor)]


def _check_schema(op: Any, overload: OpOverload, args: Any, kwargs: Any, close: Any) -> None:
    args, kwargs = _copies((tuple(args), kwargs))
    given = _tensors((args, kwargs))
    before = [(t, t._version, t.detach().clone()) for t in given]
    outputs = op(*args, **kwargs)
    written: set[int] = set()
    if isinstance(overload, CustomOverload):
        schema = overload.operator.schema
        values = dict(zip((a.name for a in schema.positional), args)) | kwargs
        written = {id(t) for a in schema.arguments if a.is_write for t in _tensors(values.get(a.name))}
    for at, (t, _, old) in enumerate(before):
        if id(t) not in written and not _same(t.detach(), old):
            raise RuntimeError(f"Argument {at} is not defined to be mutated but was mutated")
    places = {id(t._st) for t in given if id(t) not in written}
    if isinstance(overload, CustomOverload) and any(id(t._st) in places for t in _tensors(outputs)):
        raise RuntimeError("a result is not defined to alias an argument but was aliasing one")


def _check_autograd(op: Any, overload: OpOverload, args: Any, kwargs: Any, close: Any) -> None:
    args, kwargs = _copies((tuple(args), kwargs))
    if not any(t.requires_grad for t in _tensors((args, kwargs))):
        return
    outputs = [t for t in _tensors(op(*args, **kwargs)) if t.is_floating_point() or t.is_complex()]
    if outputs and not any(t.requires_grad for t in outputs):
        raise RuntimeError(
            f"{op}: arguments require grad and no result does: the operator has no formula; use register_autograd"
        )


def _check_fake(op: Any, overload: OpOverload, args: Any, kwargs: Any, close: Any) -> None:
    if not isinstance(overload, CustomOverload):
        return  # shapes of torch's own operators are found by tracing them
    args, kwargs = _copies((tuple(args), kwargs))
    fake = overload.operator.fake
    if fake is None:
        name = overload.operator.schema.name.split("::")[1]
        raise RuntimeError(
            f"There was no fake impl registered for {op!r}. This is necessary for torch.compile/export/fx tracing to "
            f"work. Please use `{name}.register_fake` to add an fake impl."
        )
    real, faked = _tensors(op(*args, **kwargs)), _tensors(fake(*args, **kwargs))
    if len(real) != len(faked):
        raise RuntimeError(f"the fake impl tells of {len(faked)} tensors, the operator returns {len(real)}")
    for at, (is_, said) in enumerate(zip(real, faked)):
        for what in ("shape", "dtype", "device"):
            if getattr(is_, what) != getattr(said, what):
                raise RuntimeError(
                    f"result {at}: the fake impl tells {what} {getattr(said, what)}, the operator returns "
                    f"{getattr(is_, what)}"
                )
        if is_.numel() > 1 and is_.stride() != said.stride():
            raise RuntimeError(
                f"result {at}: the fake impl tells strides {said.stride()}, the operator returns {is_.stride()}"
            )


def _check_compiled(op: Any, overload: OpOverload, args: Any, kwargs: Any, close: Any) -> None:
    def step(*args: Any, **kwargs: Any) -> tuple[list[Tensor], list[Any]]:
        outputs = _tensors(op(*args, **kwargs))
        leaves = [t for t in _tensors((args, kwargs)) if t.requires_grad]
        ends = [t.sum() for t in outputs if t.requires_grad]
        grads = torch_grad(ends, leaves, allow_unused=True) if ends and leaves else []
        return [t.detach() for t in outputs], [g for g in grads if g is not None]

    from ..autograd import grad as torch_grad

    eager = step(*_copies(tuple(args)), **_copies(kwargs))
    compiled = compile_(step)(*_copies(tuple(args)), **_copies(kwargs))
    for want, got in zip(_tensors(eager), _tensors(compiled), strict=True):
        if not _same(want, got, **close):
            raise RuntimeError(f"compiled, the operator gives {got}; otherwise {want}")


def _same(want: Tensor, got: Tensor, atol: float | None = None, rtol: float | None = None) -> bool:
    if want.shape != got.shape or want.dtype is not got.dtype:
        return False
    exact = not (want.is_floating_point() or want.is_complex())
    return (
        want.equal(got)
        if exact
        else want.allclose(
            got, atol=1e-5 if atol is None else atol, rtol=1e-5 if rtol is None else rtol, equal_nan=True
        )
    )


_CHECKS = {
    "test_schema": _check_schema,
    "test_autograd_registration": _check_autograd,
    "test_faketensor": _check_fake,
    "test_aot_dispatch_dynamic": _check_compiled,
}
