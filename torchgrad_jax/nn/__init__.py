"""torch.nn."""

from __future__ import annotations

from typing import Any

from .._core.errors.messages import missing as _missing
from . import (
    _reduction as _reduction,
    attention as attention,
    common_types as common_types,
    functional as functional,
    grad as grad,
    init as init,
    modules as modules,
    parallel as parallel,
    parameter as parameter,
    utils as utils,
)
from .modules import *  # noqa: F403

from . import _compiled as _compiled  # isort: skip - needs the modules
from .parallel import DataParallel as DataParallel
from .parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments `device`, `dtype` and `memory_format` among those of a constructor.

    Args:
        kwargs: keyword arguments, perhaps with a dictionary of them under "factory_kwargs".

    Raises:
        TypeError: if there are others, or one is given twice.
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    unexpected = kwargs.keys() - {"factory_kwargs", *simple}
    if unexpected:
        raise TypeError(f"unexpected kwargs {unexpected}")
    out = dict(kwargs.get("factory_kwargs", {}))
    for name in simple & kwargs.keys():
        if name in out:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        out[name] = kwargs[name]
    return out


__getattr__ = _missing(__name__)
