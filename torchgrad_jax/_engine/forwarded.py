"""What torch's functions that are written in Python do first with their arguments, which decides what they complain of.

A step is an attribute that an argument must have, or a call of a function that is parsed in C++, with
our name of the argument after its own where that differs; arguments of kind `object` are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .parser import Mismatch, Signature, match, parse_signature

_SIZES = ("target.size", "input.size")
STEPS: dict[str, tuple[str, ...]] = {
    "softmax": ("input.softmax", "softmax(int dim)"),
    "log_softmax": ("input.log_softmax", "log_softmax(int dim)"),
    "softmin": ("softmax(int dim)",),
    "cross_entropy": (
        "cross_entropy_loss(Tensor input, Tensor target, Tensor? weight, object reduction, int ignore_index, "
        "float label_smoothing)",
    ),
    "nll_loss": ("nll_loss_nd(Tensor input, Tensor target, Tensor? weight, object reduction, int ignore_index)",),
    **dict.fromkeys(("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"), _SIZES),
    "binary_cross_entropy_with_logits": _SIZES,
    "margin_ranking_loss": ("input1.dim", "input2.dim", "target.dim"),
    "embedding": ("embedding(Tensor weight, Tensor indices=input)",),
    "batch_norm": (
        "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
        "bool training, float momentum, float eps)",
    ),
    "kl_div": ("kl_div(Tensor input, Tensor target, object reduction, *, bool log_target)",),
    "normalize": ("input.norm",), "glu": ("input.dim",), "interpolate": ("input.dim",),
    "softsign": ("input.abs",), "tanhshrink": ("input.tanh",), "tanh": ("input.tanh",), "sigmoid": ("input.sigmoid",),
    "grid_sample": ("grid_sampler(Tensor input, Tensor grid)",),
    "leaky_relu": ("leaky_relu(Tensor input, Number negative_slope)",),
    "elu": ("elu(Tensor input, Number alpha)",),
    "logsigmoid": ("log_sigmoid(Tensor input)",),
    "pad": ("pad(Tensor input, object pad, object mode, float? value)",),
    "multi_head_attention_forward": ("query.dim", "key.dim"),
}  # fmt: skip
"""By the name of the function in `nn.functional`."""


def complaint(function: str, given: Mapping[str, Any]) -> Exception | None:
    """The error of the first step that does not take the arguments, which come by the names of the function's own."""
    for step in STEPS.get(function, ()):
        error = _called(step, given) if "(" in step else _asked(step, given)
        if error is not None:
            return error
    return None


def _asked(step: str, given: Mapping[str, Any]) -> Exception | None:
    name, _, attribute = step.partition(".")
    if name not in given or hasattr(given[name], attribute):
        return None
    kind = type(given[name]).__name__
    return AttributeError(f"'{kind}' object has no attribute '{attribute}'")


def _called(step: str, given: Mapping[str, Any]) -> Exception | None:
    name, _, rest = step.removesuffix(")").partition("(")
    parts, values, named = [], [], {}
    for part in rest.split(", "):
        written, _, ours = part.partition("=")
        ours = ours or written.rpartition(" ")[2]
        optional = " = None" if ours not in given and part != "*" else ""
        parts.append(written + optional)
        if "*" not in parts:
            values.append(given.get(ours))
        elif ours in given:
            named[ours] = given[ours]
    signature: Signature = parse_signature(", ".join(parts))
    try:
        match(name, signature, values, named)
    except Mismatch as e:
        return TypeError(str(e))
    return None


def bound(names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the parameters."""
    return dict(zip(names, args)) | dict(kwargs)
