"""Custom Functions that suites run over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torchgrad_jax as torch

from .opinfo.core import OpInfo, SampleInput


class Cube(torch.autograd.Function):
    """x**3 in four methods and a `vmap` of its own."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output * 3 * ctx.saved_tensors[0] ** 2

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent * 3 * ctx.saved_tensors[0] ** 2

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return Cube.apply(x), in_dims[0]


class CubeGenVmap(torch.autograd.Function):
    """x**3 with a derived `vmap`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Cube.setup_context(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return Cube.backward(ctx, grad_output)

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return Cube.jvp(ctx, tangent)


class Mul(torch.autograd.Function):
    """A product that asks which inputs need gradients."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        x, y = ctx.saved_tensors
        need_x, need_y = ctx.needs_input_grad
        return grad_output * y if need_x else None, grad_output * x if need_y else None

    @staticmethod
    def jvp(ctx: Any, x_t: Any, y_t: Any) -> Any:
        x, y = ctx.saved_tensors
        return x_t * y + y_t * x


class Scale(torch.autograd.Function):
    """A product with a Python number."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, k: float) -> Any:
        return x * k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return grad_output * ctx.k, None

    @staticmethod
    def jvp(ctx: Any, x_t: Any, _: Any) -> Any:
        return x_t * ctx.k


def _row(name: str, function: Any, *more: Any) -> OpInfo:
    def samples(op: Any, device: Any, dtype: Any, requires_grad: bool, **kwargs: Any) -> Iterator[SampleInput]:
        def draw() -> Any:
            return torch.testing.make_tensor(
                (3,), device=device, dtype=dtype, requires_grad=requires_grad, low=1, high=3
            )

        yield SampleInput(draw(), args=tuple(draw() if a is None else a for a in more))

    return OpInfo(
        name,
        op=function.apply,
        sample_inputs_func=samples,
        supports_forward_ad=True,
        supports_fwgrad_bwgrad=True,
        supports_out=False,
        method_variant=None,
        inplace_variant=None,
    )


autograd_function_db = [
    _row("NumpyCubeAutogradFunction", Cube),
    _row("CubeGenVmapAutogradFunction", CubeGenVmap),
    _row("MulGenVmapAutogradFunction", Mul, None),
    _row("ScaleGradGenVmapAutogradFunction", Scale, 2.5),
]
