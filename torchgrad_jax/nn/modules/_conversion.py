"""What changes all parameters and buffers of a module and of those below it: devices, dtypes, modes, gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from jax.sharding import Sharding

from ..._core.arrays.placement import check_dims
from ..._core.errors import warn
from ..._core.jax.abstract import NO_DATA
from ..._core.state import MODES, UNDER_JAX
from ..._engine.memory.escapes import refuse_escape
from ..._engine.memory.tensor import born
from ..._functions.convert import parse_to
from ..._functions.create import empty_like
from ...autograd.grad_mode import no_grad
from ..parameter import Parameter
from ._parts import part_of_module


@part_of_module
class Conversion:
    """The methods of `Module` that change everything in it."""

    training: bool
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    children: Callable[..., Iterator[Any]]
    parameters: Callable[..., Iterator[Any]]

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replace the data of every parameter, gradient and buffer by what `fn` makes of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            with no_grad():
                new = fn(param)
            grad = param.grad
            if grad is not None:
                with no_grad():
                    new_grad = fn(grad)
            if new.is_meta is param.is_meta:
                param.data = new
            else:  # nothing can share the identity of a tensor without data
                param = self._parameters[name] = Parameter(new, param.requires_grad)
            if grad is None:
                continue
            if new_grad.is_meta is grad.is_meta:
                grad.data = new_grad
            else:
                param.grad = new_grad.requires_grad_(grad.requires_grad)
        for key, buffer in self._buffers.items():
            if buffer is not None:
                new = fn(buffer)
                if MODES.bits & UNDER_JAX and new is not buffer:
                    refuse_escape([born(buffer)], [new._st.array], "replace")
                self._buffers[key] = new
        return self

    def cuda(self, device: Any = None) -> Self:
        """Move everything to a GPU.

        Args:
            device: which one; by default the current one.
        """
        return self._apply(lambda t: t.cuda(device))

    def cpu(self) -> Self:
        """Move everything to the CPU."""
        return self._apply(lambda t: t.cpu())

    def xpu(self, device: Any = None) -> Self:
        """There are no XPU devices here; asks the tensors and lets them complain."""
        return self._apply(lambda t: t.xpu(device))

    def ipu(self, device: Any = None) -> Self:
        """There are no IPU devices here; asks the tensors and lets them complain."""
        return self._apply(lambda t: t.ipu(device))

    def mtia(self, device: Any = None) -> Self:
        """There are no MTIA devices here; asks the tensors and lets them complain."""
        return self._apply(lambda t: t.mtia(device))

    def type(self, dst_type: Any) -> Self:
        """Make everything, integers included, a dtype.

        Args:
            dst_type: the dtype, or the name of a type of tensors.
        """
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Self:
        """Make all floating-point parameters and buffers float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Self:
        """Make all floating-point parameters and buffers float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Self:
        """Make all floating-point parameters and buffers float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Self:
        """Make all floating-point parameters and buffers bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move everything to a device without keeping the values.

        Args:
            device: where to.
            recurse: whether submodules move too.
        """
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Change the device, the dtype of floating-point and complex values, or the memory format.

        Call it as ``to(device, dtype)``, ``to(dtype)``, ``to(tensor)``, ``to(memory_format=...)``, or with a sharding
        of `jax.sharding` in the place of the device: each parameter and buffer is spread as it says.

        Returns:
            This module, changed in place.
        """
        there = args[0] if args else kwargs.get("device")
        if isinstance(there, Sharding):
            self._spread(there)
            args, kwargs = args[1:], {k: v for k, v in kwargs.items() if k != "device"}
            return self.to(*args, **kwargs) if args or kwargs else self
        device, dtype, kind = parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warn.to_user(
                    "Complex modules are a new feature under active development whose design may change, and some "
                    "modules might not work as expected when using complex tensors as parameters or buffers. Please "
                    "file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a "
                    "complex module does not work as expected."
                )

        def convert(t: Any) -> Any:
            if t.is_meta and device is not None and device.type != "meta":
                raise NotImplementedError(
                    f"{NO_DATA} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving "
                    "module from meta to a different device."
                )
            new = dtype if t.is_floating_point() or t.is_complex() else None
            if kind is not None and t.dim() in (4, 5):
                return t.to(device, new, memory_format=kind)
            return t.to(device, new)

        return self._apply(convert)

    def _spread(self, sharding: Sharding) -> None:
        """Spread all parameters and buffers as a sharding says, or none where one of them cannot be."""
        for name, t in (*self.named_parameters(), *self.named_buffers()):
            if t.is_meta:
                raise NotImplementedError(
                    f"{NO_DATA} Please use torch.nn.Module.to_empty(device=sharding), which needs no values to move."
                )
            try:
                check_dims(t.shape, sharding)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        self._apply(lambda t: t.to(sharding))

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below it into training mode, or out of it.

        Args:
            mode: whether training is on.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Put this module and all below it into evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say for all parameters whether gradients are wanted.

        Args:
            requires_grad: whether they are.
        """
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters.

        Args:
            set_to_none: whether they become None rather than zeros.
        """
        if getattr(self, "_is_replica", False):
            warn.to_user(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The parameters are "
                "copied (in a differentiable manner) from the original module. This means they are not leaf nodes in "
                "autograd and so don't accumulate gradients. If you need gradients in your forward method, consider "
                "using autograd.grad instead."
            )
        for param in self.parameters():
            if set_to_none:  # whatever there was: a compiled step need not look
                param.grad = None
                continue
            grad = param.grad
            if grad is None:
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def share_memory(self) -> Self:
        """Tell all tensors that they are shared between processes."""
        return self._apply(lambda t: t.share_memory_())
