"""Weights whose gradients are kept example by example."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...._bridge.vmap import vmap
from ...._engine.tensor import Tensor
from ....autograd import enable_grad, grad
from ....autograd.function import Function
from ....autograd.grad_mode import is_grad_enabled
from ... import functional as F


class ExpandedWeight(Tensor):
    """A stand-in for a weight in the calls that know how: a backward pass gives the weight a `grad_sample`.

    Args:
        orig_weight: the weight; requires a gradient.
        batch_size: of the inputs that it meets.
        loss_reduction: "mean" if the loss is a mean over the examples, "sum" if it is their sum.
    """

    def __new__(cls, orig_weight: Tensor, batch_size: int, loss_reduction: str) -> ExpandedWeight:
        if not isinstance(orig_weight, Tensor):
            raise RuntimeError(
                f"Can only make Expanded Weights of Tensors, got {type(orig_weight).__name__}"
            )
        if not orig_weight.requires_grad:
            raise RuntimeError(
                "Can only build ExpandedWeights objects of tensors that requires_grad"
            )
        return Tensor._make_subclass(cls, orig_weight, True)

    def __init__(self, orig_weight: Tensor, batch_size: int, loss_reduction: str) -> None:
        self.orig_weight = orig_weight
        self.batch_size = batch_size
        self.loss_reduction = loss_reduction

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        rule = RULES.get(func)
        if rule is None:
            raise RuntimeError(
                f"Expanded Weights encountered but cannot handle function {func.__name__}"
            )
        given = {**dict(zip(rule.names, args)), **(kwargs or {})}
        return rule.function.apply(rule, func, tuple(given), *given.values())

    @property
    def dtype(self) -> Any:
        return self.orig_weight.dtype

    @property
    def data(self) -> Any:
        return self.orig_weight.data

    @property
    def shape(self) -> Any:
        return self.orig_weight.shape

    @property
    def device(self) -> Any:
        return self.orig_weight.device

    @property
    def is_cuda(self) -> bool:
        return self.orig_weight.is_cuda

    def data_ptr(self) -> int:
        return self.orig_weight.data_ptr()

    def get_device(self) -> int:
        return self.orig_weight.get_device()


class PerSampleGrad(Function):
    """A layer's function; backward, the input gets its gradient and each weight one per example."""

    @staticmethod
    def forward(ctx: Any, rule: Rule, func: Any, names: tuple[str, ...], *values: Any) -> Any:
        given = dict(zip(names, values))
        rule.check(func, given)
        _check(func, given)
        ctx.rule, ctx.func, ctx.given = rule, func, given
        return func(**{name: _plain(value) for name, value in given.items()})

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        given: dict[str, Any] = {**ctx.given, **ctx.rule.instead}
        x: Tensor = given.pop("input")
        weights = {n: given.pop(n) for n in ("weight", "bias") if given.get(n) is not None}
        for weight in weights.values():
            if not isinstance(weight, ExpandedWeight) and weight.requires_grad:
                raise RuntimeError(
                    "ExpandedWeights currently does not support a mixture of ExpandedWeight parameters and normal "
                    "Parameters. Please file and issue with pytorch/pytorch"
                )

        def one(x: Tensor, *weights_of_one: Tensor) -> Tensor:
            named = dict(zip(weights, weights_of_one))
            return ctx.func(input=x.unsqueeze(0), **named, **given).squeeze(0)

        create_graph = is_grad_enabled()
        plain = {name: _plain(weight) for name, weight in weights.items()}
        of_x = None
        with enable_grad():
            if x.requires_grad:
                out = ctx.func(input=x, **plain, **given)
                (of_x,) = grad(out, (x,), grads[0], create_graph=create_graph)
            own = [weight.expand(x.shape[0], *weight.shape) for weight in plain.values()]
            out = vmap(one)(x, *own)
        found = iter(
            grad(out, [w for w in own if w.requires_grad], grads[0], create_graph=create_graph)
        )
        for weight in weights.values():
            if isinstance(weight, ExpandedWeight):
                _add(weight, next(found))
        return (None, None, None, *(of_x if name == "input" else None for name in ctx.given))


def _plain(value: Any) -> Any:
    return value.orig_weight if isinstance(value, ExpandedWeight) else value


def _add(weight: ExpandedWeight, found: Tensor) -> None:
    """Put gradients into a weight's `grad_sample`, on top of those that are there."""
    if weight.loss_reduction == "mean":
        found = found * weight.batch_size
    before = getattr(weight.orig_weight, "grad_sample", None)
    weight.orig_weight.grad_sample = found if before is None else before + found


def _check(func: Any, given: Mapping[str, Any]) -> None:
    """That the input has the batch that its weights were made for."""
    x, name = given["input"], func.__name__
    if isinstance(x, ExpandedWeight):
        raise RuntimeError(
            "Expanded Weights do not support inputs that are also ExpandedWeights. "
            f"Input must be a Tensor, got {type(x).__name__} in function {name}"
        )
    if not isinstance(x, Tensor):
        raise RuntimeError(
            "Expanded Weights requires a Tensor as the first input to get the batch dimension, "
            f"got {type(x).__name__} in function {name}"
        )
    if not x.dim():
        raise RuntimeError(
            f"Expanded Weights requires a batch dimension but got an input of size 0 in function {name}"
        )
    size = x.shape[0]
    if not size:
        raise RuntimeError(
            f"0 is not a valid batch size for Expanded Weights but got input tensor of {x} in function {name}"
        )
    weights = [w for w in given.values() if isinstance(w, ExpandedWeight)]
    for weight in weights:
        if weight.batch_size != size:
            raise RuntimeError(
                "Expected ExpandedWeights to have batch size matching input but got input batch size of "
                f"{size} with ExpandedWeight of batch size {weight.batch_size}"
            )
    for weight in weights[1:]:
        if weight.loss_reduction != weights[0].loss_reduction:
            raise RuntimeError(
                "Expected ExpandedWeights to all have the same loss_reduction argument but got one"
                f"with {weights[0].loss_reduction} and one with {weight.loss_reduction}"
            )


def _linear(func: Any, given: Mapping[str, Any]) -> None:
    if given["input"].dim() <= 1:
        raise RuntimeError(
            "Input does not have a batch dimension. Expanded Weights expected input "
            f"of at least rank 2, got of rank {given['input'].dim()}"
        )


def _embedding(func: Any, given: Mapping[str, Any]) -> None:
    if given["input"].dim() == 1:
        raise RuntimeError(
            f"Expanded Weights needs an input with a batch size, got a 1D tensor, {given['input']}"
        )


def _layer_norm(func: Any, given: Mapping[str, Any]) -> None:
    if given["input"].dim() <= len(given["normalized_shape"]):
        raise RuntimeError(
            "Expanded Weights: Layer norm should not normalize over batch dimension for per sample gradient"
            f"computations but got that normalized shape, {given['normalized_shape']}, matched input shape."
        )


def _conv(func: Any, given: Mapping[str, Any]) -> None:
    dims, want = given["input"].dim(), {F.conv1d: 3, F.conv2d: 4, F.conv3d: 5}[func]
    if dims != want:
        raise RuntimeError(
            f"Expanded Weights only support convolution with batched input, got {func} with an"
            f"unbatched input of dim {dims}, expected input of dim {want}"
        )


def _anything(func: Any, given: Mapping[str, Any]) -> None:
    """Nothing more to check."""


@dataclass(frozen=True)
class Rule:
    """What a function has to say: its arguments by name, and which of them a backward pass sets otherwise."""

    function: type[Function]
    names: tuple[str, ...]
    check: Callable[[Any, Mapping[str, Any]], None] = _anything
    instead: Mapping[str, Any] = field(default_factory=dict)


def _rule(name: str, names: str, check: Any = _anything, **instead: Any) -> Rule:
    return Rule(
        type(f"{name}PerSampleGrad", (PerSampleGrad,), {}), tuple(names.split()), check, instead
    )


_CONV = _rule("Conv", "input weight bias stride padding dilation groups", _conv)
RULES: Mapping[Any, Rule] = {
    F.linear: _rule("Linear", "input weight bias", _linear),
    F.conv1d: _CONV,
    F.conv2d: _CONV,
    F.conv3d: _CONV,
    # torch's gradient by example counts the padding index too, and each index as often as it comes.
    F.embedding: _rule(
        "Embedding", "input weight padding_idx max_norm norm_type scale_grad_by_freq sparse", _embedding,
        padding_idx=None, max_norm=None, scale_grad_by_freq=False, sparse=False,
    ),
    F.layer_norm: _rule("LayerNorm", "input normalized_shape weight bias eps", _layer_norm),
    F.group_norm: _rule("GroupNorm", "input num_groups weight bias eps"),
    # torch's gradient normalises by the input also where the layer does not.
    F.instance_norm: _rule(
        "InstanceNorm", "input running_mean running_var weight bias use_input_stats momentum eps",
        running_mean=None, running_var=None, use_input_stats=True,
    ),
}  # fmt: skip
