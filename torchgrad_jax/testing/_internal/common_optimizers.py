"""The optimizers as a table that `@optims(optim_db)` runs tests over."""

# ruff: noqa: PT009 - the checks are of unittest's TestCase
from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torchgrad_jax as torch
from torchgrad_jax.optim import lr_scheduler as _lr

from ._missing import missing_in
from ._op_tests import table_variants
from ._parametrize import Variant, _TestParametrizer
from .opinfo._samples import active_decorators
from .opinfo.core import DecorateInfo as DecorateInfo


class OptimizerInput:
    """Arguments of an optimizer.

    Args:
        params: parameters, or None for the test's own.
        kwargs: keyword arguments.
        desc: what is special about them.
    """

    __slots__ = ("desc", "kwargs", "params")

    def __init__(self, params: Any, kwargs: dict[str, Any], desc: str = "") -> None:
        self.params, self.kwargs, self.desc = params, kwargs, desc

    def __repr__(self) -> str:
        return f"params={self.params}, kwargs={self.kwargs}, desc={self.desc}"


class OptimizerErrorEnum(enum.Enum):
    """When an optimizer raises."""

    CONSTRUCTION_ERROR = 0
    STEP_ERROR = 1


class ErrorOptimizerInput:
    """Arguments that an optimizer raises for.

    Args:
        optimizer_error_input: the arguments.
        error_on: when.
        error_type: what.
        error_regex: a part of the message.
    """

    __slots__ = ("error_on", "error_regex", "error_type", "optimizer_error_input")

    def __init__(
        self,
        optimizer_error_input: OptimizerInput,
        *,
        error_on: OptimizerErrorEnum = OptimizerErrorEnum.CONSTRUCTION_ERROR,
        error_type: type[BaseException] = RuntimeError,
        error_regex: str = "",
    ) -> None:
        self.optimizer_error_input, self.error_on = optimizer_error_input, error_on
        self.error_type, self.error_regex = error_type, error_regex


_SCHEDULERS: tuple[list[Callable[..., Any]], ...] = (
    [lambda opt: _lr.StepLR(opt, gamma=0.9, step_size=10)],
    [lambda opt: _lr.StepLR(opt, gamma=0.9, step_size=10), lambda opt: _lr.ReduceLROnPlateau(opt)],
)


class OptimizerInfo:
    """An optimizer for tests that run over several.

    Args:
        optim_cls: the class.
        optim_inputs_func: from a device to `OptimizerInput`s.
        scheduler_inputs: lists of functions that make schedulers.
        supported_impls: which of "foreach", "fused", "differentiable" it takes.
        step_requires_closure: whether `step` needs one.
        supports_complex: whether it takes complex parameters.
        supports_param_groups: whether it takes several groups.
        skips: `DecorateInfo`s.
        decorators: `DecorateInfo`s, or decorators for all tests.
        optim_error_inputs_func: from device and dtype to `ErrorOptimizerInput`s.
    """

    def __init__(
        self,
        optim_cls: Any,
        *,
        optim_inputs_func: Callable[..., list[OptimizerInput]],
        scheduler_inputs: Any = _SCHEDULERS,
        supported_impls: tuple[str, ...] = ("foreach", "differentiable"),
        step_requires_closure: bool = False,
        supports_complex: bool = True,
        supports_param_groups: bool = True,
        skips: Any = (),
        decorators: Any = None,
        optim_error_inputs_func: Any = None,
    ) -> None:
        self.optim_cls, self.optim_inputs_func = optim_cls, optim_inputs_func
        self.scheduler_inputs, self.supported_impls = scheduler_inputs, supported_impls
        self.not_og_supported_flags = (*supported_impls, "maximize", "capturable")
        self.step_requires_closure, self.supports_complex = step_requires_closure, supports_complex
        self.supports_param_groups, self.supports_multiple_devices = supports_param_groups, True
        self.supports_sparse = self.only_supports_sparse_grads = self.has_capturable_arg = False
        self.metadata_for_sparse: Any = ({}, [])
        self.decorators = (*(decorators or ()), *(skips or ()))
        self.optim_error_inputs_func = optim_error_inputs_func
        self.supports_fused_on: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the class."""
        return self.optim_cls.__name__

    formatted_name = name

    def get_decorators(self, test_class: str, test_name: str, device: str, dtype: Any, kwargs: Any) -> list[Any]:
        """The decorators of one test with these arguments."""
        return active_decorators(self.decorators, test_class, test_name, device, dtype, kwargs)


class optims(_TestParametrizer):
    """Run a test once for each optimizer of a table, and each dtype; it gets `optim_info` and `dtype`."""

    def __init__(self, optim_info_iterable: Iterable[OptimizerInfo], dtypes: Any = None) -> None:
        self.optim_info_list = list(optim_info_iterable)
        self.dtypes = list(dtypes) if dtypes is not None else [torch.float32]

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        if device_cls is None:
            raise RuntimeError(
                "The @optims decorator is only intended to be used in a device-specific context; use it with "
                "instantiate_device_type_tests() instead of instantiate_parametrized_tests()"
            )
        for info in self.optim_info_list:
            given = {"optim_info": info}
            yield from table_variants(info, test, generic_cls, device_cls, self.dtypes, given, suffix=info.name)


class TensorTracker:
    """Copies of tensors that later ones are compared with, in order."""

    def __init__(self, assert_eq_kwargs: dict[str, Any] | None = None) -> None:
        self.assert_eq_kwargs = assert_eq_kwargs or {}
        self.tensors: list[Any] = []

    def add(self, tensor: Any) -> None:
        """Keep a copy of a tensor."""
        self.tensors.append(tensor.detach().clone())

    def pop_check_set(self, tensor_to_set: Any, testcase: Any) -> None:
        """Compare the oldest copy with a tensor, and put its values there."""
        testcase.assertGreater(len(self.tensors), 0, "no tensors to pop")
        ref = self.tensors.pop(0)
        testcase.assertEqual(tensor_to_set.detach(), ref, **self.assert_eq_kwargs)
        with torch.no_grad():
            tensor_to_set.copy_(ref)

    def all_popped(self) -> bool:
        """Whether none is left."""
        return not self.tensors


def _get_device_type(device: Any) -> str:
    return torch.device(device).type


def _get_optim_inputs_including_global_cliquey_kwargs(
    device: Any, dtype: Any, optim_info: OptimizerInfo, skip: tuple[str, ...] = ()
) -> list[OptimizerInput]:
    """The inputs of a row, also with each of the implementations that it takes."""
    flags = [f for f in optim_info.supported_impls if f not in skip]
    found = []
    for given in optim_info.optim_inputs_func(device=device):
        settings = [dict.fromkeys(flags, False), *({g: g == f for g in flags} for f in flags)]
        for setting in settings if flags else [{}]:
            if setting.get("differentiable") and given.kwargs.get("foreach"):
                continue
            on = "".join(f" & {k}" for k, v in setting.items() if v)
            found.append(OptimizerInput(given.params, {**given.kwargs, **setting}, given.desc + on))
    return found


def _inputs(*more: tuple[str, dict[str, Any]]) -> Callable[..., list[OptimizerInput]]:
    usual: tuple[tuple[str, dict[str, Any]], ...] = (
        ("default", {}),
        ("non-default lr", {"lr": 0.01}),
        ("nonzero weight_decay", {"weight_decay": 0.1}),
        ("maximize", {"weight_decay": 0.1, "maximize": True}),
    )
    return lambda device, dtype=None: [OptimizerInput(None, dict(kwargs), desc) for desc, kwargs in (*usual, *more)]


def _only(*given: tuple[str, dict[str, Any]]) -> Callable[..., list[OptimizerInput]]:
    return lambda device, dtype=None: [OptimizerInput(None, dict(k), d) for d, k in given]


def _errors(**wrong: tuple[Any, str]) -> Callable[..., list[ErrorOptimizerInput]]:
    def made(device: Any, dtype: Any) -> list[ErrorOptimizerInput]:
        p = torch.nn.Parameter(torch.randn(2, 3, device=device, dtype=dtype))
        found = [
            ErrorOptimizerInput(
                OptimizerInput(p, {}, "param argument should not be a tensor"),
                error_type=TypeError,
                error_regex="params argument given to the optimizer",
            ),
            ErrorOptimizerInput(
                OptimizerInput([p, p], {}, "a param group cannot have duplicate parameters"),
                error_type=UserWarning,
                error_regex=".*a parameter group with duplicate parameters.*",
            ),
        ]
        for name, (value, text) in wrong.items():
            given = OptimizerInput(None, {name: value}, f"{name} should be valid")
            found.append(ErrorOptimizerInput(given, error_type=ValueError, error_regex=text))
        return found

    return made


_BETAS = ((1.0, 0.0), "Invalid beta parameter at index 0: 1.0")
_AMSGRAD = ("amsgrad", {"weight_decay": 0.9, "amsgrad": True})
_ADAM_ERRORS = _errors(betas=_BETAS, weight_decay=(-1, "Invalid weight_decay value: -1"))
_o = torch.optim
optim_db = [
    OptimizerInfo(
        _o.Adadelta,
        optim_inputs_func=_inputs(("rho", {"rho": 0.95, "weight_decay": 0.9})),
        optim_error_inputs_func=_errors(rho=(1.1, "Invalid rho value: 1.1")),
    ),
    OptimizerInfo(
        _o.Adafactor,
        optim_inputs_func=_inputs(("clip_threshold", {"d": 1.5})),
        supports_complex=False,
        supported_impls=("foreach",),
        optim_error_inputs_func=_errors(beta2_decay=(1.0, "beta2_decay should be")),
    ),
    OptimizerInfo(
        _o.Adagrad,
        optim_inputs_func=_inputs(("lr_decay", {"lr": 0.1, "lr_decay": 0.5})),
        optim_error_inputs_func=_errors(lr_decay=(-0.5, "Invalid lr_decay value: -0.5")),
    ),
    OptimizerInfo(
        _o.Adam,
        optim_inputs_func=_inputs(_AMSGRAD),
        optim_error_inputs_func=_ADAM_ERRORS,
        supported_impls=("foreach", "differentiable", "fused"),
    ),
    OptimizerInfo(
        _o.Adamax,
        optim_inputs_func=_inputs(),
        optim_error_inputs_func=_errors(betas=((0.0, 1.0), "Invalid beta parameter at index 1: 1.0")),
    ),
    OptimizerInfo(
        _o.AdamW,
        optim_inputs_func=_inputs(_AMSGRAD),
        optim_error_inputs_func=_ADAM_ERRORS,
        supported_impls=("foreach", "differentiable", "fused"),
    ),
    OptimizerInfo(
        _o.ASGD,
        optim_inputs_func=_inputs(("t0", {"t0": 100}), ("lambd", {"lambd": 0.1})),
        optim_error_inputs_func=_errors(weight_decay=(-0.5, "Invalid weight_decay value: -0.5")),
    ),
    OptimizerInfo(
        _o.LBFGS,
        optim_inputs_func=_only(
            ("default", {}), ("non-default lr", {"lr": 0.01}), ("strong_wolfe", {"line_search_fn": "strong_wolfe"})
        ),
        step_requires_closure=True,
        supported_impls=(),
        supports_param_groups=False,
        optim_error_inputs_func=_errors(),
    ),
    OptimizerInfo(
        _o.NAdam,
        optim_inputs_func=_inputs(("momentum_decay", {"momentum_decay": 6e-3})),
        optim_error_inputs_func=_errors(betas=_BETAS, momentum_decay=(-0.2, "Invalid momentum_decay value: -0.2")),
    ),
    OptimizerInfo(
        _o.RAdam,
        optim_inputs_func=_inputs(("decoupled", {"weight_decay": 0.1, "decoupled_weight_decay": True})),
        optim_error_inputs_func=_ADAM_ERRORS,
    ),
    OptimizerInfo(
        _o.RMSprop,
        optim_inputs_func=_inputs(("centered", {"centered": True, "momentum": 0.1})),
        optim_error_inputs_func=_errors(momentum=(-1.0, "Invalid momentum value: -1.0")),
    ),
    OptimizerInfo(
        _o.Rprop,
        optim_inputs_func=_only(("default", {}), ("etas", {"etas": (0.5, 1.5)}), ("maximize", {"maximize": True})),
        optim_error_inputs_func=_errors(etas=((1.0, 0.5), "Invalid eta values: 1.0, 0.5")),
    ),
    OptimizerInfo(
        _o.SGD,
        optim_inputs_func=_inputs(
            ("momentum", {"momentum": 0.9}), ("nesterov", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1})
        ),
        supported_impls=("foreach", "differentiable", "fused"),
        optim_error_inputs_func=_errors(momentum=(-0.5, "Invalid momentum value: -0.5")),
    ),
]

__getattr__ = missing_in("common_optimizers")
