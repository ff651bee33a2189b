"""MaskedTensor: a tensor of which a mask says which elements count.

It is an ordinary tensor of its own class that remembers a mask; its elements, those that do not count included, are
its data, so that gradients need nothing of their own. Which functions it has, and what they do to the mask, is what
`__torch_function__` decides, by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..._core.arrays import dtypes
from ..._core.errors import warn
from ..._engine.entry.bind import NAMESPACES
from ..._engine.entry.overrides import DisableTorchFunctionSubclass
from ..._engine.memory.tensor import Tensor
from ..._engine.tensor.subclass import retyped
from ...autograd.function import Function

__all__ = ["MaskedTensor", "is_masked_tensor"]

torch, masked = NAMESPACES[""], NAMESPACES["masked"]
_PROTOTYPE = (
    "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open a Github "
    "issue for features requests and see our documentation on the torch.masked module for further information about "
    "the project."
)
_REQUIRES_GRAD = (
    "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can use "
    "data.detach().clone()"
)
_DTYPES = (
    dtypes.float16,
    dtypes.float32,
    dtypes.float64,
    dtypes.bool_,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
)


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether an object is a tensor with a mask.

    Args:
        obj: anything.
    """
    return isinstance(obj, MaskedTensor)


def _same(a: Tensor, b: Tensor) -> bool:
    return a._m.shape == b._m.shape and bool(torch["eq"](a, b).all().item())


def _each(value: Any, take: Callable[[MaskedTensor], Any]) -> Any:
    """`value` with what `take` makes of the masked tensors in it."""
    if isinstance(value, MaskedTensor):
        return take(value)
    if isinstance(value, list | tuple):
        return type(value)(_each(v, take) for v in value)
    return value


def _wrapped(data: Any, mask: Any) -> Any:
    """A result, which nobody else holds, with its mask; lists and tuples element by element."""
    if isinstance(data, list | tuple):
        return type(data)(_wrapped(d, m) for d, m in zip(data, mask, strict=True))
    if not isinstance(data, Tensor):
        return data
    out = retyped(data, MaskedTensor)
    out._masked_mask = mask.clone()
    out._check()
    return out


class MaskedTensor(Tensor):
    """A tensor that carries a mask.

    Args:
        data: the elements.
        mask: which of them count.
        requires_grad: whether gradients are computed for it.
    """

    _masked_mask: Tensor

    @staticmethod
    def __new__(cls: type, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        for name, given in (("data", data), ("mask", mask)):
            if is_masked_tensor(given) or not isinstance(given, Tensor):
                raise TypeError(f"{name} must be a Tensor")
        warn.to_user(_PROTOTYPE)
        if data.requires_grad:
            warn.to_user(_REQUIRES_GRAD)
        return Tensor._make_subclass(cls, data.detach().clone(), requires_grad)

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        if type(data) is not type(mask):
            raise TypeError(f"data and mask must have the same type. Got {type(data)} and {type(mask)}")
        self._masked_mask = mask.clone()
        self._check()

    def _check(self) -> None:
        data, mask = self._m, self._masked_mask._m
        if mask.dtype is not dtypes.bool_:
            raise TypeError("mask must have dtype bool.")
        if data.dtype not in _DTYPES:
            raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
        if data.ndim != mask.ndim:
            raise ValueError("data.dim() must equal mask.dim()")
        if data.shape != mask.shape:
            raise ValueError("data.size() must equal mask.size()")

    @staticmethod
    def _from_values(data: Any, mask: Any) -> Any:
        """`data` with a mask, as a step that gradients pass."""
        return Constructor.apply(data, mask)

    @property
    def _masked_data(self) -> Tensor:
        with DisableTorchFunctionSubclass():
            return self.detach()

    def get_data(self) -> Tensor:
        """The elements, as a plain tensor that gradients pass."""
        return GetData.apply(self)

    def get_mask(self) -> Tensor:
        """Which elements count."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """A plain tensor with a number in place of what does not count.

        Args:
            value: the number.
        """
        return self.get_data().masked_fill(~self._masked_mask, value)

    def is_sparse_coo(self) -> bool:
        """False: there are no sparse layouts."""
        return False

    def is_sparse_csr(self) -> bool:
        """False: there are no sparse layouts."""
        return False

    def __lt__(self, other: Any) -> Any:
        # Unlike torch.lt, the operator does not compare masks.
        other = other.get_data() if is_masked_tensor(other) else other
        return MaskedTensor(self.get_data() < other, self._masked_mask)

    def __repr__(self) -> str:
        data, mask = self._masked_data.tolist(), self._masked_mask.tolist()
        if not isinstance(data, list):
            text = f"{data:8.4f}" if isinstance(data, float) else str(data)
            return f"MaskedTensor({text if mask else '--'}, {mask})"
        return "MaskedTensor(\n" + _indented(_text(data, mask)) + "\n)"

    def __reduce_ex__(self, proto: Any) -> Any:
        return _rebuilt, (self._masked_data, self._masked_mask, self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = _rebuilt(self._masked_data.clone(), self._masked_mask.clone(), self.requires_grad)
        return memo.setdefault(id(self), made)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.__name__
        rule = RULES.get(name.strip("_") if name.startswith("__") else name)
        if func in _VIEWS:
            rule = _through
        if rule is not None:
            return rule(func, args, kwargs)
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        if name in _ANSWERS:
            out = _run(func, args, kwargs)
            return _of_gradient(out, args[0]) if func == _GRAD else out
        warn.to_user(
            f"{name} is not implemented in __torch_dispatch__ for MaskedTensor.\n"
            "If you would like this operator to be supported, please file an issue for a feature request at "
            "https://github.com/pytorch/maskedtensor/issues with a minimal reproducible code snippet.\n"
            "In the case that the semantics for the operator are not trivial, it would be appreciated "
            "to also include a proposal for the semantics."
        )
        raise TypeError(f"{name}() is not implemented for MaskedTensor")


def _of_gradient(grad: Any, of: Any) -> Any:
    """A gradient with the mask of what it is the gradient of."""
    if grad is None or not is_masked_tensor(of):
        return grad
    with DisableTorchFunctionSubclass():
        return _wrapped(grad.view_as(grad), of._masked_mask)


_GRAD, *_VIEWS = [getattr(Tensor, name).__get__ for name in ("grad", "T", "mT", "H", "mH", "real")]


def _rebuilt(data: Tensor, mask: Tensor, requires_grad: bool) -> MaskedTensor:
    out = _wrapped(data, mask)
    return out.requires_grad_() if requires_grad else out


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.split("\n"))


def _text(data: Any, mask: Any) -> str:
    """Nested lists of numbers, with dashes for what does not count."""
    if not data or isinstance(data[0], list):
        rows = [_indented(_text(d, m)) for d, m in zip(data, mask, strict=True)]
        return "[\n" + ",\n".join(rows) + "\n]"
    shown = [f"{d:8.4f}" if isinstance(d, float) else str(d) for d in data]
    width = max(len(s) if m else 8 for s, m in zip(shown, mask, strict=True))
    cells = [s if m else "--".rjust(width) for s, m in zip(shown, mask, strict=True)]
    return "[" + ", ".join(cells) + "]"


class Constructor(Function):
    """Gives a tensor a mask; gradients go through."""

    @staticmethod
    def forward(ctx: Any, data: Any, mask: Any) -> Any:
        return MaskedTensor(data, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _each(grads[0], lambda g: g._masked_data), None


class GetData(Function):
    """Takes the mask away; gradients go through."""

    @staticmethod
    def forward(ctx: Any, masked: Any) -> Any:
        return masked._masked_data

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0]


# --- what functions do to the mask ----------------------------------------------------------------


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _unary(func: Any, args: Any, kwargs: Any) -> Any:
    """The mask stays; no other tensors."""
    if any(isinstance(a, Tensor) for a in (*args[1:], *kwargs.values())):
        raise TypeError("MaskedTensor unary ops do not support additional Tensor arguments")
    return _kept(func, args, kwargs)


def _kept(func: Any, args: Any, kwargs: Any) -> Any:
    first = args[0] if args else next(v for v in kwargs.values() if is_masked_tensor(v))
    out = _run(func, args, kwargs)
    return first if out is first else _wrapped(out, first._masked_mask)


def _binary(func: Any, args: Any, kwargs: Any) -> Any:
    """Both masks, if there are two, have to be the same."""
    extra = {k: v for k, v in kwargs.items() if k not in ("input", "self", "other")}
    if extra:
        raise ValueError("len(kwargs) must equal 0")
    both = [a for a in (*args, *kwargs.values()) if is_masked_tensor(a)]
    if len(both) == 2 and not _same(both[0]._masked_mask, both[1]._masked_mask):
        raise ValueError("Input masks must match. If you need support for this, please open an issue on Github.")
    out = _run(func, args, kwargs)
    if any(out is a for a in both):
        return out
    return _wrapped(out, both[0]._masked_mask.expand(out._m.shape))


def _through(func: Any, args: Any, kwargs: Any) -> Any:
    """Data and mask go through the same function: indexing, reshaping, joining."""
    out = _run(func, args, kwargs)
    if any(is_masked_tensor(a) and out is a for a in args):
        return out
    masks = _each(args, lambda a: a._masked_mask)
    return _wrapped(out, func(*masks, **_each(kwargs, lambda a: a._masked_mask)))


def _reduction(func: Any, args: Any, kwargs: Any, *, name: str) -> Any:
    """The function of torch.masked; a result counts if anything that counts is behind it."""
    x, mask = args[0], args[0]._masked_mask
    if len(args) == 1 and not kwargs:
        if name == "all":
            return _wrapped(x.get_data().masked_fill(~mask, True).all(), mask.any())
        return _wrapped(masked[name](x.get_data(), mask=mask), mask.any())
    dim, keepdim, dtype = _reduction_arguments(*args[1:], **kwargs)
    if dtype is not None and name not in ("sum", "mean", "prod"):
        raise TypeError(f"{name}() got an unexpected keyword argument 'dtype'")
    if name == "all":
        out = torch["all"](x.get_data().masked_fill(~mask, True), dim, keepdim)
    else:
        out = masked[name](x.get_data(), dim=dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return _wrapped(out, _any(mask, dim, keepdim))


def _reduction_arguments(dim: Any, keepdim: bool = False, dtype: Any = None) -> tuple[Any, ...]:
    return dim, keepdim, dtype


def _any(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Where anything counts along some dimensions; None and () are all of them."""
    dims = range(mask.ndim) if dim is None or dim == () else (dim,) if isinstance(dim, int) else dim
    for d in sorted((d % mask.ndim for d in dims), reverse=True):
        mask = mask.any(d, keepdim)
    return mask


def _norm(func: Any, args: Any, kwargs: Any) -> Any:
    """A norm of the elements that count."""
    x, (p, dim, keepdim, dtype) = args[0], _norm_arguments(*args[1:], **kwargs)
    order = 2.0 if p in (None, "fro") else float(p)
    mask = x._masked_mask
    out = masked["norm"](x.get_data(), order, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return _wrapped(out, _any(mask, dim, keepdim))


def _norm_arguments(p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> tuple[Any, ...]:
    return p, dim, keepdim, dtype


def _grad(func: Any, args: Any, kwargs: Any) -> Any:
    """Gradients have the masks of what they are gradients of."""
    out = _run(func, args, kwargs)
    inputs = kwargs["inputs"] if "inputs" in kwargs else args[1]
    inputs = (inputs,) if isinstance(inputs, Tensor) else inputs
    return tuple(_of_gradient(g, x) for g, x in zip(out, inputs, strict=True))


def _where(func: Any, args: Any, kwargs: Any) -> Any:
    """Data and masks are chosen alike; a plain tensor counts everywhere."""
    if len(args) != 3 or kwargs:
        raise ValueError(f"__torch_function__, torch.where: len(args) must be 3 but got {len(args)}")
    condition, x, y = args
    masks = [a._masked_mask if is_masked_tensor(a) else torch["ones_like"](a, dtype=dtypes.bool_) for a in (x, y)]
    return _wrapped(_run(func, args, {}), torch["where"](condition, *masks))


def _softmax(func: Any, args: Any, kwargs: Any) -> Any:
    """Over the elements that count; where none does, the result is not to be used."""
    x, mask = args[0], args[0]._masked_mask
    return _wrapped(masked["softmax"](x.get_data(), *args[1:], mask=mask, **kwargs), mask)


def _cast(func: Any, args: Any, kwargs: Any) -> Any:
    """The mask stays a mask of bools."""
    out = _run(func, args, kwargs)
    return args[0] if out is args[0] else _wrapped(out, args[0]._masked_mask.clone())


def _rows(func: Any, args: Any, kwargs: Any) -> Any:
    return iter([args[0][i] for i in range(len(args[0]))])


def _number(func: Any, args: Any, kwargs: Any) -> Any:
    """A number has to count."""
    if not bool(args[0]._masked_mask.all().item()):
        raise ValueError("__torch_dispatch__, aten._local_scalar_dense: expected a mask tensor")
    return _run(func, args, kwargs)


def _names(text: str, inplace: bool = True) -> list[str]:
    names = text.split()
    return names + [n + "_" for n in names] if inplace else names


_UNARY = _names(
    "abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil "
    "clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10 "
    "log1p log2 logit i0 isnan nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn "
    "signbit sin sinc sinh sqrt square tan tanh trunc invert rpow ipow"
)
_BINARY = _names(
    "add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide "
    "floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge "
    "greater greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal "
    "rdiv rsub radd rmul iadd isub imul itruediv rtruediv and or xor"
)
_THROUGH = _names(
    "select transpose swapaxes swapdims split t getitem narrow expand expand_as view reshape cat concat concatenate "
    "unsqueeze unfold stack chunk flatten tensor_split contiguous",
    inplace=False,
)
_REDUCTIONS = _names("sum mean amin amax argmin argmax prod all var std", inplace=False)
_CASTS = _names("clone detach to float double half int long short char bool cpu ones_like", inplace=False)
_ANSWERS = frozenset(
    _names(
        "get size dim ndimension numel nelement stride len is_floating_point is_complex is_contiguous storage_offset "
        "requires_grad_ retain_grad backward register_hook element_size type is_same_size is_shared get_device hash "
        "data_ptr set delete __get__ __set__ __delete__ __len__ __hash__ _is_view",
        inplace=False,
    )
)
"""What a masked tensor answers as any tensor does."""

RULES: dict[str, Callable[[Any, Any, Any], Any]] = {
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_THROUGH, _through),
    **dict.fromkeys(_CASTS, _cast),
    **{n: functools.partial(_reduction, name=n) for n in _REDUCTIONS},
    "norm": _norm,
    "grad": _grad,
    "where": _where,
    "softmax": _softmax,
    "_softmax": _softmax,
    "item": _number,
    "iter": _rows,
}
"""By the name of a function, what it does to data and mask."""
