"""The modules as a table that `@modules(module_db)` runs tests over."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torchgrad_jax as torch
from torchgrad_jax import nn

from ._missing import missing_in
from ._op_tests import table_variants
from ._parametrize import Variant, _TestParametrizer
from .opinfo._samples import active_decorators
from .opinfo.core import DecorateInfo as DecorateInfo


class TrainEvalMode(enum.Enum):
    """Which modes of a module a test runs in."""

    train_only = 1
    eval_only = 2
    train_and_eval = 3


class FunctionInput:
    """Arguments of a call."""

    __slots__ = ("args", "kwargs")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


class ModuleInput:
    """Arguments of a module's constructor and of its call.

    Args:
        constructor_input: those of the constructor.
        forward_input: those of the call.
        desc: what is special about them.
        reference_fn: from module, parameters and arguments to the result.
    """

    __slots__ = ("constructor_input", "desc", "forward_input", "reference_fn")

    def __init__(
        self,
        constructor_input: FunctionInput,
        forward_input: FunctionInput | None = None,
        desc: str = "",
        reference_fn: Any = None,
    ) -> None:
        self.constructor_input, self.forward_input = constructor_input, forward_input
        self.desc, self.reference_fn = desc, reference_fn


class ModuleErrorEnum(enum.Enum):
    """When a module raises."""

    CONSTRUCTION_ERROR = 0
    FORWARD_ERROR = 1


class ErrorModuleInput:
    """Arguments that a module raises for.

    Args:
        module_error_input: the arguments.
        error_on: when.
        error_type: what.
        error_regex: a part of the message.
    """

    __slots__ = ("error_on", "error_regex", "error_type", "module_error_input")

    def __init__(
        self,
        module_error_input: ModuleInput,
        *,
        error_on: ModuleErrorEnum = ModuleErrorEnum.CONSTRUCTION_ERROR,
        error_type: type[BaseException] = RuntimeError,
        error_regex: str,
    ) -> None:
        self.module_error_input, self.error_on = module_error_input, error_on
        self.error_type, self.error_regex = error_type, error_regex


class ModuleInfo:
    """A module for tests that run over several.

    Args:
        module_cls: the class.
        module_inputs_func: `(info, device, dtype, requires_grad, training)` to `ModuleInput`s.
        skips: `DecorateInfo`s.
        decorators: `DecorateInfo`s, or decorators for all tests.
        dtypes: those that it takes.
        supports_gradgrad: whether it can be differentiated twice.
        gradcheck_nondet_tol: how far apart two runs may be.
        module_memformat_affects_out: whether the memory format of the module is that of the result.
        train_and_eval_differ: whether it does something else in evaluation.
        module_error_inputs_func: the same as `module_inputs_func`, to `ErrorModuleInput`s.
        gradcheck_fast_mode: whether gradients are checked along one direction only.
    """

    def __init__(
        self,
        module_cls: Any,
        *,
        module_inputs_func: Callable[..., list[ModuleInput]],
        skips: Any = (),
        decorators: Any = None,
        dtypes: Any = (torch.float32, torch.float64),
        supports_gradgrad: bool = True,
        gradcheck_nondet_tol: float = 0.0,
        module_memformat_affects_out: bool = False,
        train_and_eval_differ: bool = False,
        module_error_inputs_func: Any = None,
        gradcheck_fast_mode: bool | None = None,
    ) -> None:
        self.module_cls, self.module_inputs_func = module_cls, module_inputs_func
        self.decorators = (*(decorators or ()), *(skips or ()))
        self.dtypes, self.supports_gradgrad = dtypes, supports_gradgrad
        self.gradcheck_nondet_tol, self.gradcheck_fast_mode = (gradcheck_nondet_tol, gradcheck_fast_mode)
        self.module_memformat_affects_out = module_memformat_affects_out
        self.train_and_eval_differ = train_and_eval_differ
        self.module_error_inputs_func = module_error_inputs_func
        self.is_lazy = issubclass(module_cls, nn.modules.lazy.LazyModuleMixin)

    @property
    def name(self) -> str:
        """The class as it is written: nn.Linear."""
        return f"nn.{self.module_cls.__name__}"

    @property
    def formatted_name(self) -> str:
        """The name as it stands in names of tests."""
        return self.name.replace(".", "_")

    def supported_dtypes(self, device_type: str) -> Any:
        """The dtypes that it takes."""
        return self.dtypes

    def get_decorators(self, test_class: str, test_name: str, device: str, dtype: Any, kwargs: Any) -> list[Any]:
        """The decorators of one test with these arguments."""
        return active_decorators(self.decorators, test_class, test_name, device, dtype, kwargs)


class modules(_TestParametrizer):
    """Run a test once for each module of a table, dtype and mode; it gets `module_info`, `dtype`, `training`.

    Args:
        module_info_iterable: the rows.
        allowed_dtypes: no others than these.
        train_eval_mode: the modes; a module that does the same in both runs in one.
        skip_if_dynamo: accepted; tests are never compiled here.
    """

    def __init__(
        self,
        module_info_iterable: Iterable[ModuleInfo],
        allowed_dtypes: Any = None,
        train_eval_mode: TrainEvalMode = TrainEvalMode.train_and_eval,
        skip_if_dynamo: bool = True,
    ) -> None:
        self.module_info_list = list(module_info_iterable)
        self.allowed_dtypes = set(allowed_dtypes) if allowed_dtypes is not None else None
        self.train_eval_mode, self.skip_if_dynamo = train_eval_mode, skip_if_dynamo

    def _get_training_flags(self, module_info: ModuleInfo) -> list[bool]:
        if not module_info.train_and_eval_differ:
            return [True]
        only = self.train_eval_mode
        return [
            t for t, other in ((True, TrainEvalMode.eval_only), (False, TrainEvalMode.train_only)) if only is not other
        ]

    def _parametrize_test(self, test: Any, generic_cls: Any, device_cls: Any) -> Iterator[Variant]:
        if device_cls is None:
            raise RuntimeError(
                "The @modules decorator is only intended to be used in a device-specific context; use it with "
                "instantiate_device_type_tests() instead of instantiate_parametrized_tests()"
            )
        for info in self.module_info_list:
            kinds = set(info.supported_dtypes(device_cls.device_type))
            kinds &= self.allowed_dtypes if self.allowed_dtypes is not None else kinds
            flags = self._get_training_flags(info)
            for training in flags:
                mode = ("_train_mode" if training else "_eval_mode") if len(flags) > 1 else ""
                yield from table_variants(
                    info,
                    test,
                    generic_cls,
                    device_cls,
                    kinds,
                    {"module_info": info, "training": training},
                    suffix=info.formatted_name + mode,
                )


def _row(cls: Any, *calls: tuple[tuple[Any, ...], dict[str, Any], Any], **more: Any) -> ModuleInfo:
    """A row whose calls are constructor arguments and shapes of the inputs, or a function that draws them."""

    def inputs(
        info: Any, device: Any, dtype: Any, requires_grad: bool, training: bool, **kwargs: Any
    ) -> list[ModuleInput]:
        def draw(shape: Any) -> Any:
            if callable(shape):
                return shape(device)
            return torch.testing.make_tensor(shape, device=device, dtype=dtype, requires_grad=requires_grad)

        return [
            ModuleInput(FunctionInput(*args, **options), FunctionInput(*map(draw, shapes)), desc=str(i or ""))
            for i, (args, options, shapes) in enumerate(calls)
        ]

    return ModuleInfo(cls, module_inputs_func=inputs, **more)


def _indices(*shape: int, high: int) -> Any:
    return lambda device: torch.testing.make_tensor(shape, device=device, dtype=torch.int64, low=0, high=high)


def _plain(*classes: Any) -> list[ModuleInfo]:
    return [_row(c, ((), {}, [(3, 4)]), ((), {}, [()])) for c in classes]


def _losses(*classes: Any) -> list[ModuleInfo]:
    return [_row(c, ((), {}, [(3, 4), (3, 4)]), ((), {"reduction": "sum"}, [(3, 4), (3, 4)])) for c in classes]


_differ: dict[str, Any] = {"train_and_eval_differ": True}
module_db: list[ModuleInfo] = sorted(
    [
        *_plain(
            nn.CELU,
            nn.ELU,
            nn.GELU,
            nn.Hardshrink,
            nn.Hardsigmoid,
            nn.Hardswish,
            nn.Hardtanh,
            nn.Identity,
            nn.LeakyReLU,
            nn.LogSigmoid,
            nn.Mish,
            nn.PReLU,
            nn.ReLU,
            nn.ReLU6,
            nn.SELU,
            nn.SiLU,
            nn.Sigmoid,
            nn.Softplus,
            nn.Softshrink,
            nn.Softsign,
            nn.Tanh,
            nn.Tanhshrink,
        ),
        *_losses(nn.L1Loss, nn.MSELoss, nn.SmoothL1Loss, nn.HuberLoss),
        _row(nn.Linear, ((3, 5), {}, [(2, 3)]), ((3, 5), {"bias": False}, [(4, 3)]), ((3, 5), {}, [(3,)])),
        _row(nn.Bilinear, ((2, 3, 4), {}, [(5, 2), (5, 3)])),
        _row(nn.Conv1d, ((2, 3, 3), {}, [(2, 2, 6)]), ((2, 3, 2), {"stride": 2, "padding": 1}, [(2, 2, 6)])),
        _row(nn.Conv2d, ((2, 3, 3), {}, [(1, 2, 5, 5)]), ((2, 4, 2), {"groups": 2, "bias": False}, [(1, 2, 4, 4)])),
        _row(nn.ConvTranspose1d, ((2, 3, 3), {}, [(1, 2, 4)])),
        _row(nn.ConvTranspose2d, ((2, 3, 2), {"stride": 2}, [(1, 2, 3, 3)])),
        _row(nn.AvgPool1d, ((2,), {}, [(1, 2, 6)])),
        _row(nn.AvgPool2d, ((2,), {}, [(1, 2, 4, 4)])),
        _row(nn.MaxPool1d, ((2,), {}, [(1, 2, 6)])),
        _row(nn.MaxPool2d, ((2,), {}, [(1, 2, 4, 4)])),
        _row(nn.AdaptiveAvgPool1d, ((3,), {}, [(1, 2, 6)])),
        _row(nn.AdaptiveAvgPool2d, ((2,), {}, [(1, 2, 5, 4)])),
        _row(nn.AdaptiveMaxPool1d, ((3,), {}, [(1, 2, 6)])),
        _row(nn.LPPool1d, ((2, 2), {}, [(1, 2, 6)])),
        _row(nn.BatchNorm1d, ((3,), {}, [(4, 3)]), ((3,), {"affine": False}, [(4, 3, 2)]), **_differ),
        _row(nn.BatchNorm2d, ((2,), {}, [(2, 2, 3, 3)]), **_differ),
        _row(nn.GroupNorm, ((2, 4), {}, [(2, 4, 3)])),
        _row(nn.InstanceNorm1d, ((2,), {"track_running_stats": True}, [(2, 2, 4)]), **_differ),
        _row(nn.LayerNorm, (([4],), {}, [(3, 4)]), (([4],), {"elementwise_affine": False}, [(3, 4)])),
        _row(nn.RMSNorm, (([4],), {}, [(3, 4)])),
        _row(nn.LocalResponseNorm, ((2,), {}, [(1, 3, 4)])),
        _row(nn.Embedding, ((5, 3), {}, [_indices(4, high=5)])),
        _row(nn.EmbeddingBag, ((5, 3), {}, [_indices(2, 3, high=5)])),
        _row(nn.CrossEntropyLoss, ((), {}, [(4, 3), _indices(4, high=3)])),
        _row(nn.NLLLoss, ((), {}, [(4, 3), _indices(4, high=3)])),
        _row(nn.Softmax, ((1,), {}, [(3, 4)])),
        _row(nn.LogSoftmax, ((1,), {}, [(3, 4)])),
        _row(nn.Softmin, ((1,), {}, [(3, 4)])),
        _row(nn.GLU, ((1,), {}, [(3, 4)])),
        _row(nn.Threshold, ((0.1, 2.0), {}, [(3, 4)])),
        _row(nn.PixelShuffle, ((2,), {}, [(1, 4, 2, 2)])),
        _row(nn.ReflectionPad1d, ((1,), {}, [(1, 2, 4)])),
        _row(nn.ZeroPad2d, ((1,), {}, [(1, 2, 3, 3)])),
        _row(nn.RNN, ((3, 4), {}, [(5, 2, 3)]), **_differ),
        _row(nn.LSTM, ((3, 4), {"batch_first": True}, [(2, 5, 3)]), **_differ),
        _row(nn.GRU, ((3, 4), {"num_layers": 2}, [(5, 2, 3)]), **_differ),
        _row(nn.RNNCell, ((3, 4), {}, [(2, 3)])),
        _row(nn.LSTMCell, ((3, 4), {}, [(2, 3)])),
        _row(nn.GRUCell, ((3, 4), {}, [(2, 3)])),
        _row(nn.MultiheadAttention, ((4, 2), {}, [(3, 1, 4), (3, 1, 4), (3, 1, 4)]), **_differ),
        _row(nn.TransformerEncoderLayer, ((4, 2, 8, 0.0), {}, [(3, 1, 4)]), **_differ),
        _row(nn.CosineSimilarity, ((), {}, [(3, 4), (3, 4)])),
        _row(nn.PairwiseDistance, ((), {}, [(3, 4), (3, 4)])),
    ],
    key=lambda info: info.name,
)

__getattr__ = missing_in("common_modules")
