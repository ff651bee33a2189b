"""Operators as suites see them: names, variants, dtypes, what can be differentiated, samples."""

from __future__ import annotations

import enum
import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torchgrad_jax as torch

from .._running import TrackedInputIter
from ..common_dtype import floating_and_complex_types, floating_types
from . import _generators as _g
from ._generators import (
    generate_elementwise_binary_broadcasting_tensors as generate_elementwise_binary_broadcasting_tensors,
    generate_elementwise_binary_extremal_value_tensors as generate_elementwise_binary_extremal_value_tensors,
    generate_elementwise_binary_large_value_tensors as generate_elementwise_binary_large_value_tensors,
    generate_elementwise_binary_noncontiguous_tensors as generate_elementwise_binary_noncontiguous_tensors,
    generate_elementwise_binary_small_value_tensors as generate_elementwise_binary_small_value_tensors,
    generate_elementwise_binary_tensors as generate_elementwise_binary_tensors,
    generate_elementwise_binary_with_scalar_samples as generate_elementwise_binary_with_scalar_samples,
    generate_elementwise_unary_extremal_value_tensors as generate_elementwise_unary_extremal_value_tensors,
    generate_elementwise_unary_large_value_tensors as generate_elementwise_unary_large_value_tensors,
    generate_elementwise_unary_noncontiguous_tensors as generate_elementwise_unary_noncontiguous_tensors,
    generate_elementwise_unary_small_value_tensors as generate_elementwise_unary_small_value_tensors,
    generate_elementwise_unary_tensors as generate_elementwise_unary_tensors,
    sample_inputs_elementwise_binary as sample_inputs_elementwise_binary,
    sample_inputs_elementwise_unary as sample_inputs_elementwise_unary,
    sample_inputs_reduction as sample_inputs_reduction,
    sample_inputs_spectral_ops as sample_inputs_spectral_ops,
)
from ._samples import (
    XL as XL,
    XS as XS,
    DecorateInfo as DecorateInfo,
    ErrorInput as ErrorInput,
    L as L,
    M as M,
    S as S,
    SampleInput as SampleInput,
    active_decorators,
    clone_sample as clone_sample,
)

_NOTHING = object()
"""An argument that was not given, where None says that there is no such variant."""


def _found(name: str) -> Any:
    return functools.reduce(getattr, name.split("."), torch)


class NumericsFilter(NamedTuple):
    """Where a function cannot be compared with its reference, and which value stands in."""

    condition: Callable[[Any], Any]
    safe_val: Any


class AliasInfo:
    """Another name of an operator."""

    def __init__(self, alias_name: str) -> None:
        self.name = alias_name
        self.op = _found(alias_name)
        self.method_variant = getattr(torch.Tensor, alias_name, None)
        self.inplace_variant = getattr(torch.Tensor, alias_name + "_", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)


_FLAGS: dict[str, Any] = {
    "supports_out": True, "supports_autograd": True, "supports_gradgrad": None,
    "supports_forward_ad": False, "supports_inplace_autograd": None, "supports_varargs": False,
    "supports_fwgrad_bwgrad": False, "gradcheck_wrapper": None, "check_batched_grad": None,
    "check_batched_gradgrad": None, "check_batched_forward_grad": None,
    "check_inplace_batched_forward_grad": None, "gradcheck_nondet_tol": 0.0, "gradcheck_fast_mode": None,
    "supports_cow_input_no_materialize_forward": True, "supports_cow_input_no_materialize_backward": True,
    "skip_cow_input_backward": False, "allow_cow_input_materialize_forward": None,
    "allow_cow_input_materialize_backward": None, "aten_name": None, "decomp_aten_name": None,
    "aten_backward_name": None, "assert_autodiffed": False, "autodiff_nonfusible_nodes": None,
    "autodiff_fusible_nodes": None, "supports_sparse": False, "supports_scripting": True,
    "supports_tracing": True, "supports_sparse_csr": False, "supports_sparse_csc": False,
    "supports_sparse_bsr": False, "supports_sparse_bsc": False, "supports_njt": False,
    "promotes_int_to_float": False, "test_conjugated_samples": True, "test_neg_view": True,
    "assert_jit_shape_analysis": False, "supports_expanded_weight": False, "is_factory_function": False,
    "skip_correctness_check_compile_vs_eager": False, "has_nondeterministic_output": False,
    "dtypesIfROCM": None, "dtypesIfHpu": None, "dtypesIfMPS": None, "dtypesIfXPU": None,
    "backward_dtypesIfROCM": None, "backward_dtypesIfHpu": None, "backward_dtypesIfMPS": None,
    "error_inputs_sparse_func": None, "sample_inputs_sparse_coo_func": None,
    "sample_inputs_sparse_csr_func": None, "sample_inputs_sparse_csc_func": None,
    "sample_inputs_sparse_bsr_func": None, "sample_inputs_sparse_bsc_func": None,
}  # fmt: skip
"""What else torch's tables say about an operator, and what holds unless they do."""


class OpInfo:
    """An operator for tests that run over many of them.

    Args:
        name: its name below `torch`, such as "linalg.qr".
        ref: the same function on arrays.
        aliases: other names.
        variant_test_name: tells rows of one operator apart.
        op: the function; found by name unless given.
        method_variant: the method of Tensor, found by name; None if there is none.
        inplace_variant: the method that works in place, found by name; None if there is none.
        operator_variant: the function of Python's module `operator`, found by name.
        inplace_operator_variant: the same for `+=` and its kin.
        skips: `DecorateInfo` of tests that it is left out of.
        decorators: `DecorateInfo`s, or decorators for all of its tests.
        sample_inputs_func: `(op, device, dtype, requires_grad, **kwargs)` to `SampleInput`s.
        reference_inputs_func: the same, more of them.
        error_inputs_func: `(op, device, **kwargs)` to `ErrorInput`s.
        dtypes: those that it takes.
        dtypesIf: those by kind of device.
        dtypesIfCUDA: those on GPUs.
        backward_dtypes: those that it is differentiated for.
        backward_dtypesIfCUDA: the same on GPUs.
        **flags: what else is known; a name that no table uses raises.
    """

    def __init__(
        self,
        name: str,
        ref: Any = None,
        aliases: Iterable[str] | None = None,
        variant_test_name: str = "",
        op: Any = None,
        method_variant: Any = _NOTHING,
        inplace_variant: Any = _NOTHING,
        operator_variant: Any = _NOTHING,
        inplace_operator_variant: Any = _NOTHING,
        skips: Any = (),
        decorators: Any = (),
        sample_inputs_func: Any = None,
        reference_inputs_func: Any = None,
        error_inputs_func: Any = None,
        dtypes: Any = None,
        dtypesIf: Any = None,
        dtypesIfCUDA: Any = None,
        backward_dtypes: Any = None,
        backward_dtypesIfCUDA: Any = None,
        **flags: Any,
    ) -> None:
        unknown = [k for k in flags if k not in _FLAGS]
        if unknown:
            raise TypeError(f"OpInfo.__init__() got an unexpected keyword argument '{unknown[0]}'")
        self.name, self.ref, self.variant_test_name = name, ref, variant_test_name
        self.aliases = tuple(AliasInfo(a) for a in aliases or ())
        self.op = op if op is not None else _found(name)
        self._find_variants(method_variant, inplace_variant, operator_variant, inplace_operator_variant)
        self.skips = tuple(skips or ())
        self.decorators = (*(decorators or ()), *self.skips)
        self.sample_inputs_func = sample_inputs_func
        self.reference_inputs_func = reference_inputs_func
        self.error_inputs_func = error_inputs_func
        self.__dict__.update({**_FLAGS, **flags})
        self._settle_dtypes(dtypes, dtypesIf, dtypesIfCUDA, backward_dtypes, backward_dtypesIfCUDA)
        self._settle_flags()

    def _find_variants(self, method: Any, inplace: Any, sign: Any, inplace_sign: Any) -> None:
        def of(given: Any, holder: Any, name: str) -> Any:
            return getattr(holder, name, None) if given is _NOTHING else given

        self.method_variant = of(method, torch.Tensor, self.name)
        self.inplace_variant = of(inplace, torch.Tensor, f"{self.name}_")
        self.operator_variant = of(sign, operator, self.name)
        self.inplace_operator_variant = of(inplace_sign, operator, f"i{self.name}")

    def _settle_dtypes(self, kinds: Any, by_device: Any, cuda: Any, back: Any, back_cuda: Any) -> None:
        self.dtypes = set(kinds if kinds is not None else floating_types())
        self.dtypesIf = {**(by_device or {})}
        self.dtypesIfCUDA = set(cuda) if cuda is not None else set(self.dtypesIf.get("cuda", self.dtypes))
        self.dtypesIf["cuda"] = self.dtypesIfCUDA
        self.backward_dtypes = set(back) if back is not None else self.dtypes
        if back_cuda is not None:
            self.backward_dtypesIfCUDA = set(back_cuda)
        else:
            self.backward_dtypesIfCUDA = set(back) if back is not None else self.dtypesIfCUDA

    def _settle_flags(self) -> None:
        for batched in ("check_batched_grad", "check_batched_gradgrad"):
            if getattr(self, batched) is None:
                setattr(self, batched, self.supports_autograd or self.supports_forward_ad)
        for batched in ("check_batched_forward_grad", "check_inplace_batched_forward_grad"):
            if getattr(self, batched) is None:
                setattr(self, batched, self.supports_forward_ad)
        if self.supports_gradgrad is None:
            self.supports_gradgrad = self.supports_autograd
        if self.supports_inplace_autograd is None:
            self.supports_inplace_autograd = self.supports_autograd or self.supports_forward_ad
        if self.gradcheck_wrapper is None:
            self.gradcheck_wrapper = lambda op, *args, **kwargs: op(*args, **kwargs)
        if self.aten_name is None:
            self.aten_name = self.name

    def __getattr__(self, name: str) -> Any:
        # Only for what is nowhere: pyright learns from it that the flags are attributes.
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, variant_test_name={self.variant_test_name!r})"

    __str__ = __repr__

    @property
    def full_name(self) -> str:
        """The name, with that of the variant behind a dot."""
        return f"{self.name}{'.' + self.variant_test_name if self.variant_test_name else ''}"

    @property
    def formatted_name(self) -> str:
        """The name as it stands in names of tests."""
        return self.full_name.replace(".", "_")

    def get_op(self) -> Any:
        """The function."""
        return self.op

    def get_method(self) -> Any:
        """The method of Tensor."""
        return self.method_variant

    def get_inplace(self) -> Any:
        """The method that works in place."""
        return self.inplace_variant

    def get_operator(self) -> Any:
        """The function of the module `operator`."""
        return self.operator_variant

    def get_inplace_operator(self) -> Any:
        """The in-place function of the module `operator`."""
        return self.inplace_operator_variant

    # --- samples ----------------------------------------------------------------------------------

    def _tracked(self, samples: Iterable[Any], kind: str, **options: Any) -> Iterator[Any]:
        return TrackedInputIter(iter(samples), kind, **options)

    def sample_inputs(self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        """Samples that the operator works for."""
        if kwargs.pop("include_conjugated_inputs", False):
            samples = [*self._samples(device, dtype, requires_grad, kwargs)]
            samples += self.conjugate_sample_inputs(device, dtype, requires_grad, **kwargs)
        else:
            samples = self._samples(device, dtype, requires_grad, kwargs)
        set_seed = kwargs.get("set_seed", True)
        return self._tracked(samples, "sample input", set_seed=set_seed)

    def _samples(self, device: Any, dtype: Any, requires_grad: bool, kwargs: dict[str, Any]) -> Any:
        options = {k: v for k, v in kwargs.items() if k != "set_seed"}
        if self.sample_inputs_func is None:
            raise NotImplementedError(f"{self.name}: this row has no samples")
        return self.sample_inputs_func(self, device, dtype, requires_grad, **options)

    def conjugate_sample_inputs(
        self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Samples whose first tensor is a lazily conjugated view."""
        samples = list(self._samples(device, dtype, requires_grad, kwargs))

        def conjugated(x: Any) -> Any:
            return torch.empty_like(x).copy_(x.conj()).conj().detach().requires_grad_(requires_grad)

        for sample in samples:
            if isinstance(sample.input, torch.Tensor):
                sample.input = conjugated(sample.input)
            elif isinstance(sample.input, list | tuple):
                sample.input = [conjugated(x) for x in sample.input]
        return tuple(samples)

    def reference_inputs(self, device: Any, dtype: Any, requires_grad: bool = False, **kwargs: Any) -> Any:
        """Samples to compare with the reference."""
        if self.reference_inputs_func is None:
            return self._tracked(self._samples(device, dtype, requires_grad, kwargs), "reference input")
        made = self.reference_inputs_func(self, device, dtype, requires_grad, **kwargs)
        return self._tracked(made, "reference input")

    def error_inputs(self, device: Any, **kwargs: Any) -> Any:
        """Samples that make the operator raise."""
        if self.error_inputs_func is None:
            raise AssertionError(f"{self.name}: this row has no samples that raise")
        made = self.error_inputs_func(self, device, **kwargs)
        return self._tracked(made, "error input", track_callback=lambda e: e.sample_input)

    def get_decorators(self, test_class: str, test_name: str, device: str, dtype: Any, param_kwargs: Any) -> list[Any]:
        """The decorators of one test with these arguments."""
        return active_decorators(self.decorators, test_class, test_name, device, dtype, param_kwargs)

    # --- dtypes -----------------------------------------------------------------------------------

    def supported_dtypes(self, device_type: Any) -> set[Any]:
        """The dtypes that it takes on a kind of device."""
        kind = torch.device(device_type).type if device_type != "privateuse1" else device_type
        return set(self.dtypesIf.get(kind, self.dtypes))

    def supported_backward_dtypes(self, device_type: Any) -> set[Any]:
        """The dtypes that it is differentiated for on a kind of device."""
        if not self.supports_autograd:
            return set()
        kind = torch.device(device_type).type
        found = self.backward_dtypesIfCUDA if kind == "cuda" else self.backward_dtypes
        allowed = (*floating_and_complex_types(), torch.bfloat16, torch.float16)
        return {d for d in allowed if d in found}

    def supports_dtype(self, dtype: Any, device_type: Any) -> bool:
        """Whether it takes a dtype."""
        return dtype in self.supported_dtypes(device_type)

    def supports_complex_autograd(self, device_type: Any) -> bool:
        """Whether it is differentiated for complex numbers."""
        return any(d.is_complex for d in self.supported_backward_dtypes(device_type))


class UnaryUfuncInfo(OpInfo):
    """A function of each element.

    Args:
        name: as for `OpInfo`.
        dtypes: as for `OpInfo`.
        domain: least and greatest argument that it is smooth for; None for no bound.
        handles_complex_extremal_values: whether infinities and NaNs among complex numbers agree with NumPy's.
        handles_large_floats: whether large numbers do.
        supports_complex_to_float: whether a real result comes of complex numbers.
        sample_inputs_func: as for `OpInfo`.
        reference_inputs_func: as for `OpInfo`.
        sample_kwargs: from device, dtype and tensor to keyword arguments, for the function and its reference.
        reference_numerics_filter: where it cannot be compared.
        **kwargs: as for `OpInfo`.
    """

    def __init__(
        self,
        name: str,
        *,
        dtypes: Any = None,
        domain: tuple[Any, Any] = (None, None),
        handles_complex_extremal_values: bool = True,
        handles_large_floats: bool = True,
        supports_complex_to_float: bool = False,
        sample_inputs_func: Any = None,
        reference_inputs_func: Any = None,
        sample_kwargs: Any = None,
        reference_numerics_filter: NumericsFilter | None = None,
        **kwargs: Any,
    ) -> None:
        self.domain = domain
        self.handles_complex_extremal_values = handles_complex_extremal_values
        self.handles_large_floats = handles_large_floats
        self.supports_complex_to_float = supports_complex_to_float
        self.reference_numerics_filter = reference_numerics_filter
        self.sample_kwargs = sample_kwargs or (lambda device, dtype, input: ({}, {}))
        super().__init__(
            name,
            dtypes=dtypes,
            sample_inputs_func=sample_inputs_func or sample_inputs_elementwise_unary,
            reference_inputs_func=reference_inputs_func or _g.reference_inputs_elementwise_unary,
            **kwargs,
        )


class BinaryUfuncInfo(OpInfo):
    """A function of pairs of elements.

    Args:
        name: as for `OpInfo`.
        sample_inputs_func: as for `OpInfo`.
        reference_inputs_func: as for `OpInfo`.
        sample_kwargs: from device, dtype and tensor to keyword arguments, for the function and its reference.
        error_inputs_func: as for `OpInfo`.
        lhs_make_tensor_kwargs: how left operands are drawn.
        rhs_make_tensor_kwargs: how right operands are drawn.
        always_returns_bool: whether the result is a bool.
        supports_rhs_python_scalar: whether the right operand may be a number.
        supports_one_python_scalar: whether either may be.
        supports_two_python_scalars: whether both may be.
        **kwargs: as for `OpInfo`.
    """

    def __init__(
        self,
        name: str,
        *,
        sample_inputs_func: Any = None,
        reference_inputs_func: Any = None,
        sample_kwargs: Any = None,
        error_inputs_func: Any = None,
        lhs_make_tensor_kwargs: Any = None,
        rhs_make_tensor_kwargs: Any = None,
        always_returns_bool: bool = False,
        supports_rhs_python_scalar: bool = True,
        supports_one_python_scalar: bool = False,
        supports_two_python_scalars: bool = False,
        **kwargs: Any,
    ) -> None:
        self.sample_kwargs = sample_kwargs or (lambda device, dtype, input: ({}, {}))
        self.lhs_make_tensor_kwargs = lhs_make_tensor_kwargs or {}
        self.rhs_make_tensor_kwargs = rhs_make_tensor_kwargs or {}
        self.always_returns_bool = always_returns_bool
        self.supports_rhs_python_scalar = supports_rhs_python_scalar or supports_one_python_scalar
        self.supports_one_python_scalar = supports_one_python_scalar or supports_two_python_scalars
        self.supports_two_python_scalars = supports_two_python_scalars
        super().__init__(
            name,
            sample_inputs_func=sample_inputs_func or sample_inputs_elementwise_binary,
            reference_inputs_func=reference_inputs_func or _g.reference_inputs_elementwise_binary,
            error_inputs_func=error_inputs_func or _g.error_inputs_elementwise_binary,
            **kwargs,
        )


class ReductionOpInfo(OpInfo):
    """A function that reduces dimensions.

    Args:
        name: as for `OpInfo`.
        identity: what it makes of no elements.
        nan_policy: "propagate" or "omit".
        supports_multiple_dims: whether `dim` may be a tuple.
        promotes_int_to_float: whether integers become floats.
        promotes_int_to_int64: whether integers become int64.
        result_dtype: the dtype of the result, where it is always the same.
        complex_to_real: whether complex numbers become real ones.
        generate_args_kwargs: from a tensor and keyword arguments to further arguments to try.
        **kwargs: as for `OpInfo`.
    """

    def __init__(
        self,
        name: str,
        *,
        identity: Any = None,
        nan_policy: str | None = None,
        supports_multiple_dims: bool = True,
        promotes_int_to_float: bool = False,
        promotes_int_to_int64: bool = False,
        result_dtype: Any = None,
        complex_to_real: bool = False,
        generate_args_kwargs: Any = None,
        **kwargs: Any,
    ) -> None:
        if nan_policy not in (None, "propagate", "omit"):
            raise AssertionError(f"nan_policy must be 'propagate' or 'omit', got {nan_policy!r}")
        if promotes_int_to_float and promotes_int_to_int64:
            raise AssertionError("integers cannot become both floats and int64")
        self.identity, self.nan_policy = identity, nan_policy
        self.supports_multiple_dims = supports_multiple_dims
        self.promotes_int_to_int64 = promotes_int_to_int64
        self.result_dtype, self.complex_to_real = result_dtype, complex_to_real
        self.generate_args_kwargs = generate_args_kwargs or (lambda *a, **k: [((), {})])
        kwargs.setdefault("inplace_variant", None)
        kwargs.setdefault("sample_inputs_func", sample_inputs_reduction)
        super().__init__(name, promotes_int_to_float=promotes_int_to_float, **kwargs)


class ShapeFuncInfo(OpInfo):
    """`tile` and its kin.

    Args:
        name: as for `OpInfo`.
        ref: the function on arrays.
        **kwargs: as for `OpInfo`.
    """

    def __init__(self, name: str, *, ref: Any, **kwargs: Any) -> None:
        super().__init__(name, ref=ref, **kwargs)


class SpectralFuncType(enum.Enum):
    """How many dimensions a Fourier transform is about."""

    OneD = 1
    TwoD = 2
    ND = 3


class SpectralFuncInfo(OpInfo):
    """A Fourier transform.

    Args:
        name: as for `OpInfo`.
        ndimensional: how many dimensions it is about.
        dtypes: as for `OpInfo`.
        **kwargs: as for `OpInfo`.
    """

    def __init__(self, name: str, *, ndimensional: SpectralFuncType, dtypes: Any = None, **kwargs: Any) -> None:
        self.ndimensional = ndimensional
        kwargs.setdefault("sample_inputs_func", sample_inputs_spectral_ops)
        kwargs.setdefault("check_batched_gradgrad", False)
        super().__init__(name, dtypes=floating_and_complex_types() if dtypes is None else dtypes, **kwargs)


class ForeachFuncInfo(OpInfo):
    """A function of lists of tensors.

    Args:
        name: its name behind `torch._foreach_`.
        sample_inputs_func: as for `OpInfo`.
        **kwargs: as for `OpInfo`.
    """

    def __init__(self, name: str, sample_inputs_func: Any = None, **kwargs: Any) -> None:
        self.ref_inplace = getattr(torch.Tensor, f"{name}_", None)
        inplace = getattr(torch, f"_foreach_{name}_", None)
        kwargs.setdefault("op", getattr(torch, f"_foreach_{name}", inplace))
        kwargs.setdefault("ref", getattr(torch, name, getattr(torch.Tensor, name, None)))
        super().__init__(
            f"_foreach_{name}",
            method_variant=None,
            inplace_variant=inplace,
            operator_variant=None,
            inplace_operator_variant=None,
            sample_inputs_func=sample_inputs_func,
            **kwargs,
        )


def gradcheck_wrapper_hermitian_input(op: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    """The operator of a matrix made Hermitian, which it stays when its elements move."""
    return op(input + input.mH, *args, **kwargs)


def gradcheck_wrapper_triangular_input(op: Any, *args: Any, upper: bool = False, idx: int = 0, **kwargs: Any) -> Any:
    """The operator with one argument made triangular."""
    arg = args[idx].triu() if upper else args[idx].tril()
    return op(*args[:idx], arg, *args[idx + 1 :], upper, **kwargs)


def gradcheck_wrapper_triangular_input_real_positive_diagonal(
    op: Any, *args: Any, upper: bool = False, idx: int = 0, **kwargs: Any
) -> Any:
    """The operator with one argument made triangular, with positive numbers on its diagonal."""
    arg = args[idx].triu() if upper else args[idx].tril()
    diagonal = torch.diagonal(arg, dim1=-2, dim2=-1)
    arg = arg - torch.diag_embed(diagonal) + torch.diag_embed(diagonal.abs() + 1)
    return op(*args[:idx], arg, *args[idx + 1 :], upper, **kwargs)
