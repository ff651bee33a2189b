"""Samples of operators, and decorators of single tests of single operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ...._core.arrays.devices import device as device_type_
from ...._core.arrays.dtypes import dtype
from ...._engine.memory.tensor import Tensor
from .._helpers import noncontiguous_like

XS, S, M, L, XL = 3, 5, 10, 20, 50
"""Sizes that samples and tests are made of."""


class DecorateInfo:
    """Decorators for those tests of an operator, module or optimizer that the conditions hold for.

    Args:
        decorators: one decorator, or several.
        cls_name: name of the generic test class, or None for all.
        test_name: name of the test before it is instantiated, or None for all.
        device_type: kind of device, or None for all.
        dtypes: dtypes of the test, or None for all.
        active_if: False for never, or a predicate on the test's arguments.
    """

    __slots__ = ("active_if", "cls_name", "decorators", "device_type", "dtypes", "test_name")

    def __init__(
        self,
        decorators: Any,
        cls_name: str | None = None,
        test_name: str | None = None,
        *,
        device_type: str | None = None,
        dtypes: Any = None,
        active_if: Any = True,
    ) -> None:
        self.decorators = list(decorators) if isinstance(decorators, Sequence) else [decorators]
        self.cls_name, self.test_name, self.device_type = cls_name, test_name, device_type
        self.dtypes, self.active_if = dtypes, active_if
        wrong = [d for d in dtypes or () if not isinstance(d, dtype)]
        if wrong:
            raise AssertionError(f"dtypes must be dtypes, got {wrong[0]!r}")

    def is_active(self, cls_name: str, test_name: str, device_type: str, dtype: Any, param_kwargs: Any) -> bool:
        """Whether the decorators apply to this test."""
        asked = ((self.cls_name, cls_name), (self.test_name, test_name), (self.device_type, device_type))
        if any(want is not None and want != got for want, got in asked):
            return False
        if self.dtypes is not None and dtype not in self.dtypes:
            return False
        return bool(self.active_if(param_kwargs) if callable(self.active_if) else self.active_if)


def active_decorators(decorators: Iterable[Any], *test: Any) -> list[Any]:
    """The decorators that apply to a test; `test` has the arguments of `DecorateInfo.is_active`."""
    found: list[Any] = []
    for d in decorators:
        if not isinstance(d, DecorateInfo):
            found.append(d)
        elif d.is_active(*test):
            found.extend(d.decorators)
    return found


def _mapped(value: Any, f: Callable[[Any], Any]) -> Any:
    """A sample's value with a function applied to its tensors, dtypes and devices."""
    if isinstance(value, Tensor | dtype | device_type_):
        return f(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(v, f) for v in value))
    if isinstance(value, list | tuple):
        return type(value)(_mapped(v, f) for v in value)
    if isinstance(value, dict):
        return {k: _mapped(v, f) for k, v in value.items()}
    return value


class SampleInput:
    """One call of an operator: `input`, further arguments, and what tests should know about it.

    Args:
        input: the first argument, a tensor or a list of tensors.
        *var_args: further arguments, unless `args` gives them as a tuple.
        args: the further arguments as a tuple.
        kwargs: the keyword arguments as a dictionary, unless they are given as such.
        output_process_fn_grad: what makes of the result something to differentiate.
        broadcasts_input: whether the result is larger than the input, so that nothing can be done in place.
        name: what the sample is called in messages.
        **var_kwargs: keyword arguments.
    """

    __slots__ = ("args", "broadcasts_input", "input", "kwargs", "name", "output_process_fn_grad")

    def __init__(
        self,
        input: Any,
        *var_args: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
        output_process_fn_grad: Any = None,
        broadcasts_input: bool | None = None,
        name: str | None = None,
        **var_kwargs: Any,
    ) -> None:
        if (var_args or var_kwargs) and (args is not None or kwargs is not None):
            raise AssertionError("arguments of a sample are given one by one, or as `args` and `kwargs`, not both ways")
        self.input = input
        self.args = tuple(args) if args is not None else var_args
        self.kwargs = dict(kwargs) if kwargs is not None else var_kwargs
        self.output_process_fn_grad = output_process_fn_grad or (lambda x: x)
        self.broadcasts_input = bool(broadcasts_input)
        self.name = name or ""

    def with_metadata(
        self, *, output_process_fn_grad: Any = None, broadcasts_input: bool | None = None, name: str | None = None
    ) -> SampleInput:
        """This sample, told more about."""
        if output_process_fn_grad is not None:
            self.output_process_fn_grad = output_process_fn_grad
        if broadcasts_input is not None:
            self.broadcasts_input = broadcasts_input
        if name is not None:
            self.name = name
        return self

    def _shown(self, f: Callable[[Any], Any]) -> str:
        parts = {"input": f(self.input), "args": f(self.args), "kwargs": f(self.kwargs)}
        parts |= {"broadcasts_input": self.broadcasts_input, "name": repr(self.name)}
        return f"SampleInput({', '.join(f'{k}={v}' for k, v in parts.items())})"

    def __repr__(self) -> str:
        return self._shown(lambda x: x)

    def summary(self) -> str:
        """The sample, with shapes, devices and dtypes in the place of elements."""

        def short(v: Any) -> Any:
            if isinstance(v, Tensor):
                inner = ", ".join(map(str, v.shape)) + ("," if v.ndim == 1 else "")
                return f'Tensor[size=({inner}), device="{v.device}", dtype={v.dtype}]'
            if isinstance(v, dict):
                return {k: str(short(x)) for k, x in v.items()}
            if isinstance(v, tuple):
                return f"({', '.join(str(short(x)) for x in v)})"
            if isinstance(v, list):
                return f"TensorList[{', '.join(str(short(x)) for x in v)}]"
            return v

        return self._shown(short)

    def transform(self, f: Callable[[Any], Any]) -> SampleInput:
        """The sample with a function applied to its tensors, dtypes and devices."""
        return SampleInput(
            _mapped(self.input, f),
            args=_mapped(self.args, f),
            kwargs=_mapped(self.kwargs, f),
            output_process_fn_grad=self.output_process_fn_grad,
            broadcasts_input=self.broadcasts_input,
            name=f"{self.name}_transformed",
        )

    def numpy(self) -> SampleInput:
        """The sample with arrays in the place of tensors."""

        def as_array(v: Any) -> Any:
            if isinstance(v, Tensor):
                v = v.detach().cpu().resolve_conj().resolve_neg()
                return (v.float() if str(v.dtype) == "torch.bfloat16" else v).numpy()
            return v.np if isinstance(v, dtype) else v

        return self.transform(as_array)

    def noncontiguous(self) -> SampleInput:
        """The sample with tensors of the same elements whose memory has gaps."""

        def with_gaps(v: Any) -> Any:
            return noncontiguous_like(v) if isinstance(v, Tensor) else v

        return self.transform(with_gaps)


class ErrorInput:
    """A sample that makes an operator raise.

    Args:
        sample_input: the call.
        error_type: what it raises.
        error_regex: a part of the message, as a regular expression.
    """

    __slots__ = ("error_regex", "error_type", "sample_input")

    def __init__(
        self, sample_input: SampleInput, *, error_type: type[BaseException] = RuntimeError, error_regex: str
    ) -> None:
        self.sample_input, self.error_type, self.error_regex = sample_input, error_type, error_regex


def clone_sample(sample: SampleInput, **kwargs: Any) -> SampleInput:
    """A sample with copies of its tensors; keyword arguments replace its own."""

    def copied(v: Any) -> Any:
        return v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v

    return SampleInput(
        copied(sample.input),
        args=tuple(map(copied, sample.args)),
        kwargs=kwargs or {k: copied(v) for k, v in sample.kwargs.items()},
    )
