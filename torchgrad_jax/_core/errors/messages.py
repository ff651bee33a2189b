"""Exception types and the messages users match on, in torch's wording."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jax


def class_name(value: Any) -> str:
    """How messages name the class of an argument. For JAX's arrays the name says how to make a tensor of one."""
    if isinstance(value, jax.Array):
        return "jax.Array (torch.as_tensor makes it a Tensor)"
    return type(value).__name__


def immutable(kind: str) -> tuple[Callable[..., NoReturn], Callable[..., NoReturn]]:
    """`__setattr__` and `__delattr__` of objects that stay as they are, with torch's words."""

    def refuse(self: Any, name: str, *value: object) -> NoReturn:
        if hasattr(self, name):
            raise AttributeError(f"attribute '{name}' of '{kind}' objects is not writable")
        raise AttributeError(f"'{kind}' object has no attribute '{name}'")

    return refuse, refuse


class NoDerivative(NotImplementedError):
    """A rule has no derivative. The op is recorded all the same, and a backward pass through it raises this text."""

    def __init__(self, text: str, kind: type[Exception] = NotImplementedError) -> None:
        super().__init__(text)
        self.kind = kind  # the class that torch raises


class TorchDynamoException(RuntimeError):
    """Something about `torch.compile`."""


class Unsupported(TorchDynamoException):
    """What a compiled function does cannot be one XLA program."""


class AsWritten(BaseException):
    """Ends the tracing of a compiled function that can only run eagerly; `lasting` if each time.

    It is no `Exception`, so that the traced function does not catch it.
    """

    def __init__(self, reason: str, lasting: bool, imports: str | None = None) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.was_seen = False
        """Whether the function was seen to do something, or to read something, for which it cannot be compiled."""
        self.imports = imports
        """The module that it imports for the first time; once it is there, the function can be traced."""


class NeedsPlainNumbers(BaseException):
    """The function has to be traced with plain numbers as arguments: what it does with them cannot be followed.

    It is no `Exception`, so that the traced function does not catch it.
    """


class InvalidBackend(TorchDynamoException):
    """There is no backend of `torch.compile` of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends.")


class DataDependentOutputException(RuntimeError):
    """Values of a fake tensor are asked for; `func` is the operator that would need them."""

    def __init__(self, func: object) -> None:
        super().__init__(func)
        self.func = func


class DynamicOutputShapeException(RuntimeError):
    """A shape depends on values of a fake tensor; `func` is the operator."""

    def __init__(self, func: object) -> None:
        super().__init__(func)
        self.func = func


class FakeTensorDeviceMismatchError(RuntimeError):
    """Fake tensors that pretend to be on several devices meet."""


class UnsupportedLayoutError(NotImplementedError):
    """Raised by entry points of layouts that are out of scope (sparse, quantized, nested)."""


CAPTURED = (
    "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
    "(aten::{}) that would mutate a captured Tensor. This is not supported; please rewrite the function being "
    "transformed to explicitly accept the mutated Tensor(s) as inputs."
)
REQUIRES_GRAD_INSIDE = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) inside of "
    "a function being transformed by a functorch transform. This is unsupported, please attempt to use the functorch "
    "transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
    "transformed instead."
)
BACKWARD_INSIDE = (
    "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp "
    "instead or call backward() outside of functorch transforms."
)
MIXED_FAKE = (
    "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'. "
    "Found in aten.{}"
)
LEAF_IN_PLACE = "a leaf Variable that requires grad is being used in an in-place operation."
LEAF_VIEW_IN_PLACE = "a view of a leaf Variable that requires grad is being used in an in-place operation."
SECOND_BACKWARD = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Saved intermediate values of the graph are freed when you call "
    ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
    "graph a second time or if you need to access saved tensors after calling backward."
)
FREED_HOOKS = (
    "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
    "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
    "the graph a second time or if you need to access saved variables after calling backward."
)
SCALAR_ONLY = "grad can be implicitly created only for scalar outputs"
NO_GRAPH = "element {index} of tensors does not require grad and does not have a grad_fn"
UNUSED = (
    "The differentiated Tensor at index {index} appears to not have been used in the graph. "
    "Set allow_unused=True if this is the desired behavior."
)
DETACHED_IN_PLACE = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
    "This is not supported, please use out-of-place `.detach()` instead"
)
PARTIAL_OVERLAP = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
    "single memory location. Please clone() the tensor before performing the operation."
)
OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single "
    "memory location. Please clone() the tensor before performing the operation."
)


NO_INDEX = (
    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim "
    "tensor to a number"
)
SCALAR_OF_GRAD = (
    "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
    "Consider using tensor.detach() first."
)
EMPTY_INDEX = "index 0 is out of bounds for dimension 0 with size 0"


def legacy_type(type_name: str) -> str:
    """A tensor type as torch prints it; bool, bfloat16 and complex ones have no legacy name."""
    if type_name.startswith(("torch.Complex", "torch.Bool", "torch.BFloat16")):
        return f"CPU{type_name.removeprefix('torch.').removesuffix('Tensor')}Type"
    return type_name


def modified_in_place(
    type_name: str,
    shape: Sequence[int],
    producer: str | None,
    output_nr: int,
    now: int,
    then: int,
    watched: bool = False,
) -> str:
    """The backward-time complaint about a saved tensor that was overwritten."""
    type_name = legacy_type(type_name)
    origin = f", which is output {output_nr} of {operation_name(producer)}," if producer else ""
    hint = (
        "the backtrace further above shows the operation that failed to compute its gradient. The variable in "
        "question was changed in there or anywhere later. Good luck!"
        if watched
        else "enable anomaly detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{type_name} {list(shape)}]{origin} is at version {now}; "
        f"expected version {then} instead. Hint: {hint}"
    )


def operation_name(node: str) -> str:
    """How torch's messages shorten a node's name: ``ExpBackward0`` -> ``Exp``, ``PowBackward1`` -> ``Pow1``."""
    return re.sub(r"Backward(0$|(?=\d*$))", "", node)


def window_out_of_bounds(
    sizes: Sequence[int], strides: Sequence[int], offset: int, item: int, need: int, have: int
) -> str:
    """A window on memory that is too small for it: `need` elements of `item` bytes, of which it has `have`."""
    if need * item >= 2**63:
        return f"Storage size calculation overflowed with sizes={list(sizes)} and strides={list(strides)}"
    return (
        f"setStorage: sizes {list(sizes)}, strides {list(strides)}, storage offset {offset}, and itemsize {item} "
        f"requiring a storage size of {need * item} are out of bounds for storage of size {have * item}"
    )


def forbidden_view_write(producer: str | None, output_nr: int, creation: str, indirect: bool) -> str:
    """Why a view made in no_grad mode, or one of several, must not be written to."""
    how = "its base or another view of its base has been modified inplace" if indirect else "is being modified inplace"
    made = producer and f"Output {output_nr} of {operation_name(producer)} is a view"
    if made and creation not in ("no_grad", "inference"):
        head = f"{made} and {how}."
    else:
        modes = ("inference", "normal mode") if creation == "inference" else ("no_grad", "grad mode enabled")
        start = f"{made} of a view which was created" if made else "A view was created"
        head = f"{start} in {modes[0]} mode and {how} {'in' if creation == 'inference' else 'with'} {modes[1]}."
    if creation == "multi":
        return (
            f"{head} This view is the output of a function that returns multiple views. Such "
            "functions do not allow the output views to be modified inplace. You should replace "
            "the inplace operation by an out-of-place one."
        )
    if creation == "no_grad":
        return (
            f"{head} Given that this use case is ambiguous and error-prone, it is forbidden. You "
            "can clarify your code by moving both the view and the inplace either both inside the "
            "no_grad block (if you don't want the inplace to be tracked) or both outside (if you "
            "want the inplace to be tracked)."
        )
    if creation == "inference":
        return (
            f"{head} Given that this use case is ambiguous and error-prone, it is forbidden. You "
            "can clarify your code by moving both the view and the inplace either both inside the "
            "inference_mode block (if you don't want the inplace to be tracked) or both outside "
            "(if you want the inplace to be tracked)."
        )
    return (
        f"{head} This view was created inside a custom Function (or because an input was returned "
        "as-is) and the autograd logic to handle view+inplace would override the custom backward "
        "associated with the custom Function, leading to incorrect gradients. This behavior is "
        "forbidden. You can fix this by cloning the output of the custom Function."
    )


def not_broadcastable(a: Sequence[int], b: Sequence[int]) -> str:
    """Why two shapes do not broadcast, naming the last dimension that clashes."""
    n = max(len(a), len(b))
    pa = [1] * (n - len(a)) + list(a)
    pb = [1] * (n - len(b)) + list(b)
    clashes = [i for i in range(n) if pa[i] != pb[i] and 1 not in (pa[i], pb[i])]
    if not clashes:
        return f"a value of shape {list(b)} does not expand to the shape {list(a)} that it was saved with"
    dim = clashes[-1]
    return (
        f"The size of tensor a ({pa[dim]}) must match the size of tensor b ({pb[dim]}) at non-singleton dimension {dim}"
    )


def undifferentiable(function: str, argument: str) -> str:
    """The message about a gradient that torch has no formula for."""
    return (
        f"The function '{function}' is not differentiable with respect to argument '{argument}'. "
        "This input cannot have requires_grad True."
    )


def no_forward(function: str, why: str = "") -> str:
    """Return what forward mode says of a function that it cannot follow."""
    if why:
        return f"Trying to use forward AD with {function} that does not support it because {why}"
    return no_forward(function, "it has not been implemented yet.") + (
        "\nPlease file an issue to PyTorch at https://github.com/pytorch/pytorch/issues/new?template="
        "feature-request.yml so that we can prioritize its implementation."
    )


def untracked_out(function: str) -> str:
    """The message about ``out=`` where something requires grad."""
    return (
        f"{function}(): functions with out=... arguments don't support automatic differentiation, but one of the "
        "arguments requires grad."
    )


def no_complex_gradient(function: str) -> str:
    """The message about a complex result whose gradient torch does not compute."""
    return f"{function} does not support automatic differentiation for outputs with complex dtype."


def dim_out_of_range(dim: int, ndim: int) -> str:
    """torch's text for a dimension outside ``[-ndim, ndim - 1]``."""
    n = max(ndim, 1)
    return f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive-definite, or an algorithm did not converge."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"  # the name that torch shows
_LinAlgError = LinAlgError  # the name by which pickles refer to it


_ARITHMETIC = frozenset(
    ["clamp_max", "clamp_min", "copy", "div", "logical_and", "logical_or", "logical_xor", "masked_fill", "mul", "sub"]
)
_OWN_RULE = frozenset(["bernoulli", "fill", "index_add", "index_fill", "index_put", "scatter_add", "scatter_reduce"])

_BROADCAST = frozenset([
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "copysign",
    "gcd", "lcm",
])  # fmt: skip


def write_outside(row: str, level: int, shape: Sequence[int], broadcast: Sequence[int]) -> str:
    """The message about a batched value that is written to a tensor without a row per example.

    Args:
        row: the operator, without the underscore.
        level: how deep in transforms the `vmap` is.
        shape: what is written to.
        broadcast: the shape of the result, of all examples.
    """
    name = re.sub("_(tensor|src)$", "", row)
    if name in _BROADCAST:
        return f"output with shape {list(shape)} doesn't match the broadcast shape {list(broadcast)}"
    how, where = f"aten::{name}_", f"at level {level}"
    if name in _ARITHMETIC:
        how, where = "inplace arithmetic", "in a vmap"
    elif name in _OWN_RULE:
        how, where = "inplace bernoulli" if name == "bernoulli" else f"{name}_", "in a vmap"
    return (
        f"vmap: {how}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has "
        "more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over "
        f"{where}. Please try to use out-of-place operators instead of {how}. If said operator is being called inside "
        "the PyTorch framework, please file a bug report instead."
    )


BATCHED_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, "
    "please try to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch "
    "internals, please file a bug report."
)
AMBIGUOUS = "Boolean value of Tensor with more than one value is ambiguous"
ESCAPED = (
    "Either your tensor may have escaped from inside a function being vmapped and this is a user error "
    "(see https://pytorch.org/functorch/stable/ux_limitations.html), or there is an internal functorch error in "
    "`gen_vmap_plumbing` Please file an issue if it looks like the latter"
)
NO_STORAGE = "Cannot access data pointer of Tensor that doesn't have storage"
"""About tensors that stand for one example of a batch."""
ELSEWHERE = (
    "this process has only a part of the tensor, which lies on devices of several processes: use full_tensor() in all "
    "of them for its values, to_local() for the part, or torch.distributed.checkpoint.save to save it"
)
MESHES = (
    "Cannot run {name} on inputs with different meshes: got {one} and {other}. redistribute() onto one of the meshes, "
    "or full_tensor(), makes one of a tensor that fits the other"
)
BATCHED_TRUTH = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that "
    "yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
)
BATCHED_SHAPE = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{name}. "
    "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
)
BATCHED_CLOSE = (
    "vmap over torch.allclose isn't supported yet. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues if you need this feature."
)
BATCHED_EQUAL = "Batching rule not implemented for aten::equal. We could not generate a fallback."
BATCHED_CLASSES = "When vmap-ing torch.nn.functional.one_hot, please provide an explicit positive num_classes argument."
BATCHED_DATA = "accessing `data` under vmap transform is not allowed"
SET_DATA = "mutating directly with `.data` {where} transform is not allowed."
BATCHED_MASK = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing "
    "with a boolean mask."
)
FROZEN_RANDOM = (
    "a random operation in tensor code that JAX traces would give the same numbers each time the traced function "
    "runs; draw them outside and pass them as arguments, or compile the code with torch.compile"
)
TRACED_IS_KEPT = (
    "code that a transform of JAX's (jax.jit, jax.grad, jax.vmap, ...) traces left a traced value in an object that "
    "was made outside of it: {of}. What is traced cannot be kept there; the object holds again what it held before. "
    "Return the value instead, or use torch.compile, which keeps such writes. The value was computed, or the "
    "transform called, here:"
)
TRACED_ESCAPES = (
    "code that a transform of JAX's (jax.jit, jax.grad, jax.vmap, ...) traces may not {what} a tensor that was made "
    "outside of it: what is traced cannot be kept there, and a compiled function would not do it again. Return the "
    "new state instead, and pass the tensor as an argument: torch.func.functional_call(module, state, args) for "
    "modules, torchgrad_jax.to_jax(module, buffers=True) for running statistics, torch.autograd.grad or jax.grad in "
    "place of backward(). torch.compile in place of jax.jit keeps such writes, and many(batches) of a compiled "
    "step in place of jax.lax.scan."
)

HOOK_UNDER_JAX = (
    "{}, which a transform of JAX's does not run: make its function by torchgrad_jax.to_jax, or remove the hooks"
)

FROZEN_IN_RULE = (
    "from_jax: a rule of jax.custom_vjp or jax.custom_jvp reads a tensor from outside of it, which would be a constant "
    "of the compiled rule; pass the tensor to the function as an argument"
)
BATCHED_RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)
BATCHED_SAME = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch"
)
BATCHED_FILL = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. "
    "If this is necessary for your usage, please file an issue with functorch."
)
BATCHED_OUT = (
    "vmap: We do not support calling out variants of random operations inside of vmap. Please use non-out variants as "
    "a workaround"
)
BATCHED_SELECT = (
    "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because for each "
    "batch this would return a differently shaped Tensor. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues if you need this feature."
)


_PACKAGE = str(Path(__file__).resolve().parents[2])
_LIBRARIES = (sys.stdlib_module_names - {"__main__"}) | {"torch", "jax", "jaxlib"}


def _outside(frame: Any) -> Any:
    """The frame, or the first of its callers, that runs no code of this package."""
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


NO_VALUES = (
    "a tensor on {device} has no values here: that device belongs to the hardware of torch.interop.target, for which "
    "programs are made and do not run"
)


def user_line() -> str:
    """The line of the user's code that is running now, as tracebacks show it; empty where there is none."""
    frame = _outside(sys._getframe(1))
    if frame is None:
        return ""
    entry = traceback.extract_stack(frame, limit=1)[0]
    return f'\n  File "{entry.filename}", line {entry.lineno}, in {entry.name}\n    {entry.line}'


def users_frame() -> Any:
    """The frame of the user's code that is running now, also if a library called it back; None if there is none."""
    frame = _outside(sys._getframe(1))
    while frame is not None and _library(frame):
        frame = _outside(frame.f_back)
    return frame


def users_place() -> str:
    """The file and line of the user's code that is running now."""
    frame = users_frame()
    return "an unknown line" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _library(frame: Any) -> bool:
    return (frame.f_globals.get("__name__") or "").partition(".")[0] in _LIBRARIES


def untraceable() -> str:
    """Why there are no values while a function is compiled, and where the user asked for them."""
    return (
        "torch.compile: the values of a tensor are needed here, but inside of a compiled function they are not known "
        "yet. Use torch.where or masks instead of `if` on tensors, keep .item(), .tolist(), .numpy() and print outside "
        "of the function, or leave this part uncompiled; with torch._dynamo.config.suppress_errors = True such "
        f"functions run eagerly.{user_line()}"
    )


NO_SCRIPT: dict[str, str] = dict.fromkeys(
    ("graph", "code", "code_with_constants", "graph_for", "inlined_graph", "save_to_buffer"),
    "\ntorchgrad_jax has no TorchScript: what torch.jit.script and torch.jit.trace return runs in Python, and has "
    "neither a graph nor code of its own. torch.fx.symbolic_trace makes a graph, torch.interop.export a program.",
)
"""By attribute of what TorchScript compiled: why there is none."""


def extra_missing(module: str, extra: str) -> ImportError:
    """A module needs a package that is installed only where the user asks for it."""
    return ImportError(
        f"{module} needs a package that is not installed: pip install 'torchgrad-jax[{extra}]'", name=module
    )


def no_such_name(name: str) -> str:
    """The message about a name of torch, given in full, that this package does not have."""
    return (
        f"torchgrad_jax does not implement {name}: see docs/coverage.md for what there is, and "
        "`python -m torchgrad_jax check FILE` for all the names that a program would miss"
    )


def imported(name: str) -> Any:
    """Import a module of the package, unseen by a trace of `compile`: one that ends in the midst leaves half of it."""
    hook = sys.getprofile()
    sys.setprofile(None)
    try:
        return importlib.import_module(name)
    finally:
        sys.setprofile(hook)


def missing(module: str, **homes: str) -> Callable[[str], Any]:
    """The `__getattr__` of a public module: it imports modules below it, and names what the module does not have.

    Importing torch imports nearly all of its modules, so that programs use `torch.nn.utils.rnn` without an import.

    Args:
        module: the module's `__name__`.
        homes: which submodule of this package has a name that is imported when it is first asked for.
    """

    def find(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(f".{homes[name]}", module), name)
        here, full = sys.modules[module], f"{module}.{name}"
        if not name.startswith("__") and hasattr(here, "__path__") and importlib.util.find_spec(full) is not None:
            return imported(full)
        full = f"torch{full.removeprefix('torchgrad_jax')}"
        raise AttributeError(no_such_name(full), name=name, obj=here)  # Python says what is meant

    return find


BATCHED_STATISTICS = (
    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, "
    "were not batched.\nIf you are using a module and do not need eval mode, please set `track_running_stats` to be "
    "False.If you are using a prebuilt module and do not need eval mode, please see the functorch website for "
    "resources on how to patch your module to work with vmap"
)
