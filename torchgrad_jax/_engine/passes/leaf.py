"""What a pass does with a gradient that arrives at a leaf: it becomes the leaf's `.grad`, or is added to it."""

from __future__ import annotations

from typing import Any

from ..._core.arrays import shapes, sums
from ..._core.arrays.meta import Meta, meta
from ..._core.arrays.placement import MANY
from ..._core.errors.warn import once
from ..._core.jax.caches import KERNELS
from ..._core.state import DUAL, GRAD, MODES, UNDER_JAX, WINDOWS
from ..._ops.registry import Layout, TorchKernel
from ..graph.inplace import apply_inplace
from ..graph.node import GRAD_LOCK, AccumulateGrad
from ..graph.record import apply, no_grad
from ..memory.escapes import before_gradients, hold_outside
from ..memory.strided import check_writable, operand, placement_of_tensor, read, write
from ..memory.tensor import Tensor, born, check_counted, keep_placed, make
from ..run import executors, windows
from ..run.kernel import Kernel
from ..run.trace import Call
from ..surface import ops
from .hooks import hook_name, pre_hooks, replaced, same_or_error

_add_call = Call(
    "add",
    lambda leaves: leaves[0] + leaves[1],
    node_name="AddBackward0",
    argnames=("self", "other"),
    layout=Layout.ELEMENTWISE,
    any_size=True,
)


clone_call = Call(
    "clone",
    lambda leaves: leaves[0],
    node_name="CloneBackward0",
    argnames=("self",),
    kernel=TorchKernel(copies=True),
    any_size=True,
)


def add(a: Tensor, b: Tensor, create: bool) -> Tensor:
    """A new tensor; recorded in a recorded pass."""
    if create or MODES.bits & DUAL:
        return apply(_add_call, (a, b))
    m = a._m
    return make(_sum(a, b), meta(m.shape, m.dtype, m.device))


_SUM = Kernel(sums.plus, counted=True)
KERNELS.shared(_SUM.traced)


def _sum(a: Tensor, b: Tensor) -> Any:
    """The elements of `a` plus those of `b`."""
    if not MODES.bits & WINDOWS or a._m.shape != b._m.shape or not windows.defers(MODES.bits):
        return executors.add(read(a), read(b))
    m = a._m
    return windows.call(_SUM, (operand(a), operand(b)), (meta(m.shape, m.dtype, m.device),), True)


def accumulate(node: AccumulateGrad, g: Any, create: bool) -> None:
    """Add a gradient to the leaf: in place unless the pass is recorded."""
    leaf = node.variable
    ex = node.extras
    if ex is not None and ex.pre:
        (g,) = pre_hooks(node, [g])
    if g is not None and leaf._rg:  # `requires_grad` may have been turned off since
        with GRAD_LOCK:
            store_grad(leaf, g, create)
    x = leaf._x
    if x is not None and x.post_acc:  # these hooks run even if no gradient came
        for hook in list(x.post_acc.values()):
            res = hook(leaf)
            if res is not None and res is not leaf:
                same_or_error(res, leaf, hook_name(hook))
                raise RuntimeError("Tensor post accumulate grad hooks should return None.")
    if ex is not None and ex.post:
        for hook in list(ex.post.values()):
            res = hook((), (g,))
            if res is not None:
                replaced(hook, res, ())


def _recorded_copy(g: Tensor, want: Meta) -> Tensor:
    """A copy of a gradient, with its history, in memory that is laid out as wanted."""
    out = apply(clone_call, (g,))
    out._m = out._st.meta = want
    return out


def store_grad(leaf: Tensor, g: Tensor, create: bool) -> None:
    """`leaf.grad` takes a copy of the gradient, or it is added to what is there; as torch decides."""
    if leaf._fn is not None:  # somebody wrote to it while it did not require a gradient
        raise RuntimeError("leaf variable has been moved into the graph interior")
    MODES.run.before_accumulation(leaf)
    old = leaf._g
    if MODES.bits & UNDER_JAX:
        before_gradients((leaf,), (g._st.array,))
    want = grad_layout(leaf._m)
    if want.dtype is not g._m.dtype:  # the leaf's `grad_dtype` is another one
        want = meta(want.shape, g._m.dtype, want.device, want.strides)
    if create:
        if old is None and g._m.shape != want.shape:  # the leaf got another shape since
            g = spread(g, want.shape)
        become_grad(leaf, _recorded_copy(g, want) if old is None else add(old, g, True))
    elif MODES.bits & DUAL:  # tangents are added, too
        if old is None:
            become_grad(leaf, g)
        else:
            apply_inplace(_add_call, (old, g))
    elif old is not None:
        with no_grad():
            if (old._m.dtype, old._m.shape) == (g._m.dtype, g._m.shape):
                put_sum(leaf, _sum(old, g))
                return
            warn_of_layout(old, leaf._m)
            ops.add_(old, g)
    else:
        if g._m.shape != want.shape:  # the leaf got another shape since
            if obeys(g._m, want):
                want = g._m
            else:
                g = spread(g, want.shape)
        become_grad(leaf, beside(leaf, operand(g), want if MODES.grad_layout else g._m))


def become_grad(leaf: Tensor, g: Tensor) -> None:
    """Make a tensor the `.grad` of a leaf. Under JAX's transforms a write to it is then a write to the leaf's."""
    leaf._g = g
    if MODES.bits & UNDER_JAX:
        hold_outside(born(leaf), g)


def spread(g: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A gradient as a leaf of that shape takes it: copied into memory of its shape."""
    both = shapes.broadcast_shapes(shape, g._m.shape)
    if both != shape:
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(both)}")
    return ops.expand(g, shape)


def keep_gradient(leaf: Tensor, array: Any) -> None:
    """Make an array a leaf's first gradient, or, with the one before already added, the next one."""
    if leaf._g is not None:
        put_sum(leaf, array)
    elif MANY or MODES.bits > GRAD:
        become_grad(leaf, beside(leaf, array, grad_layout(leaf._m)))
    else:
        leaf._g = make(array, leaf._m if leaf._m.contiguous else grad_layout(leaf._m))


def beside(leaf: Tensor, array: Any, m: Meta) -> Tensor:
    """A gradient of an array, which is and stays spread over devices as its leaf is."""
    there = placement_of_tensor(leaf) if MANY and array.shape == leaf._m.shape else None
    if there is None:
        return make(array, m)
    out = make(array, m)
    keep_placed(out._st, there)
    return out


def put_sum(leaf: Tensor, array: Any) -> None:
    """Write a leaf's old gradient plus what arrived into its `.grad`."""
    if not leaf._g._m.dense:
        check_writable(leaf._g)
    warn_of_layout(leaf._g, leaf._m)
    write(leaf._g, array)
    check_counted(leaf._g)


def warn_of_layout(grad: Tensor, leaf: Meta) -> None:
    """Once per process: a gradient that is added to is not laid out like its leaf."""
    m = grad._m
    if m is leaf:
        return
    want = grad_layout(leaf)
    if MODES.grad_layout and not obeys(m, want):
        once(
            "grad and param do not obey the gradient layout contract. This is not an error, but may impair performance."
            f"\ngrad.sizes() = {list(m.shape)}, strides() = {list(m.strides)}"
            f"\nparam.sizes() = {list(want.shape)}, strides() = {list(leaf.strides)}"
        )


def obeys(m: Meta, want: Meta) -> bool:
    """Return whether a gradient is laid out as it should be; in dimensions of size 1 only expanded ones are not."""
    if m.strides == want.strides:
        return True
    # torch reads on behind the strides of a leaf that got fewer dimensions since; a 1 stands there.
    strides = want.strides + (1,) * (m.ndim - want.ndim)
    return all(a != 0 if n == 1 else a == b for n, a, b in zip(m.shape, m.strides, strides))


def grad_layout(m: Meta) -> Meta:
    """Meta of a leaf's gradient: the leaf's strides when it is dense."""
    return m if m.contiguous or m.dense else meta(m.shape, m.dtype, m.device)
