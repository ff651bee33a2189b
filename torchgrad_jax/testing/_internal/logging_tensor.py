"""Tensors and modes that log torch's dispatcher, which is not there: they are refused when they are made or entered."""

from __future__ import annotations

from typing import Any, NoReturn

from ..._engine.memory.tensor import Tensor
from ...utils._python_dispatch import TorchDispatchMode
from ._missing import missing_in


class LoggingTensor(Tensor):
    """Refused: a tensor that logs what the dispatcher is asked to do."""

    @staticmethod
    def __new__(cls, elem: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{cls.__name__} is not supported: it logs torch's dispatcher, which is not there")


class LoggingTensorReentrant(LoggingTensor):
    """Refused, as its base."""


class LoggingTensorMode(TorchDispatchMode):
    """Refused when it is entered."""


def capture_logs(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: nothing logs."""
    raise NotImplementedError("capture_logs() is not supported: there is no dispatcher to log")


def log_input(name: str, var: object) -> NoReturn:
    """Refused: nothing logs."""
    raise NotImplementedError("log_input() is not supported: there is no dispatcher to log")


__getattr__ = missing_in("logging_tensor")
