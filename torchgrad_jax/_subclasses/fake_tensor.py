"""Fake tensors: shapes, dtypes, strides and devices of a program without its data.

A fake tensor is a tensor on a device of its own (`devices.FakeDevice`), which to the engine is a meta device
and to users the device that it stands for. The running mode decides which device that is for new tensors.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Generator
from typing import Any

from .._core.arrays import devices
from .._core.errors.absent import refusal
from .._core.errors.messages import (
    DataDependentOutputException as DataDependentOutputException,
    DynamicOutputShapeException as DynamicOutputShapeException,
    FakeTensorDeviceMismatchError as FakeTensorDeviceMismatchError,
)
from .._core.jax.abstract import AbstractArray
from .._core.signals import contextmanager, restore, uninterrupted
from .._core.state import FAKE, GRAD, MODES
from .._engine.graph.history import requires_grad_of
from .._engine.graph.record import no_grad
from .._engine.memory.strided import is_direct, storage_offset
from .._engine.memory.tensor import Storage, Tensor
from .._engine.tensor.attributes import AttributeOfSome
from .._engine.tensor.copying import on_storage
from .._engine.tensor.subclass import retyped
from ..utils._python_dispatch import TorchDispatchMode


class _FakeTensorMeta(type):
    """Counts tensors without data of whatever class as fake tensors."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and isinstance(instance._m.device, devices.FakeDevice)


class FakeTensor(metaclass=_FakeTensorMeta):
    """What tensors made in a `FakeTensorMode` are instances of.

    Args:
        fake_mode: the mode that the tensor is to belong to.
        elem: a tensor on the meta device that describes it.
        device: the device that it is to be on.

    Differs from torch: ``type(x)`` of a fake tensor is Tensor, Parameter and so on, as of any other.

    Example:
        >>> import torchgrad_jax as torch
        >>> mode = FakeTensorMode()
        >>> FakeTensor(mode, torch.empty(2, device="meta"), torch.device("cpu"))
        FakeTensor(..., size=(2,))
    """

    def __new__(cls, fake_mode: FakeTensorMode, elem: Tensor, device: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise NotImplementedError(f"FakeTensor(): {sorted(kwargs)} are not supported")
        if elem.device.type != "meta":
            raise AssertionError(f"elem.device.type must be 'meta', got {elem.device}")
        return fake_mode._copy(elem, devices.device(device))

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: FakeTensorMode) -> Tensor:
        """The fake tensor that `fake_mode` has for `t`."""
        return fake_mode.from_tensor(t)


_modes: list[weakref.ref[FakeTensorMode]] = []
"""The modes by number; a number is used again once its mode is gone."""


def _numbered(mode: FakeTensorMode) -> int:
    for number, ref in enumerate(_modes):
        if ref() is None:
            _modes[number] = weakref.ref(mode)
            return number
    _modes.append(weakref.ref(mode))
    return len(_modes) - 1


class FakeTensorMode(TorchDispatchMode):
    """Tensors that are made inside have no data, whatever device they say they are on.

    Args:
        allow_fallback_kernels: accepted: each operator here describes its results by itself.
        allow_non_fake_inputs: whether operators take tensors with data too, and what they are looked at for is shape
            and dtype; otherwise those raise.
        shape_env: not supported: shapes are numbers.
        static_shapes: True or None.
        export: not supported.

    Differs from torch: the values of a ``torch.tensor(3)`` made inside are not known either.

    Example:
        >>> import torchgrad_jax as torch
        >>> with FakeTensorMode():
        ...     y = torch.nn.Linear(10**6, 10**6)(torch.empty(2, 10**6))
        >>> y
        FakeTensor(..., size=(2, 1000000), grad_fn=<AddmmBackward0>)
    """

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        _check_static("FakeTensorMode", shape_env=shape_env, export=export or None)
        if static_shapes is False:
            _check_static("FakeTensorMode", static_shapes=static_shapes)
        _install()
        self.allow_fallback_kernels = allow_fallback_kernels
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.static_shapes, self.shape_env = True, None
        self.number = _numbered(self)
        self.enter_stack: list[Any] = []
        self._storages: weakref.WeakKeyDictionary[Storage, Storage] = weakref.WeakKeyDictionary()
        self._known: dict[int, tuple[weakref.ref[Any], Tensor]] = {}

    def __enter__(self) -> FakeTensorMode:
        outside = len(self.enter_stack)
        self.enter_stack[outside:] = [MODES.fake]
        try:
            _set(self)
        except BaseException:  # a signal's, say
            self.__exit__()
            raise
        return self

    @uninterrupted
    def __exit__(self, *exc: object) -> None:
        restore(_set, self.enter_stack[-1])
        del self.enter_stack[-1]

    def from_tensor(
        self,
        tensor: Tensor,
        *,
        static_shapes: bool | None = None,
        source: Any = None,
        symbolic_context: Any = None,
        trace: bool = True,
    ) -> Any:
        """The fake tensor for a tensor: the same one each time, on a fake storage for each storage.

        Args:
            tensor: any tensor; a fake one of this mode is returned as it is.
            static_shapes: True or None.
            source: accepted, not looked at.
            symbolic_context: not supported.
            trace: accepted, not looked at.
        """
        _check_static("from_tensor", symbolic_context=symbolic_context)
        if static_shapes is False:
            _check_static("from_tensor", static_shapes=static_shapes)
        dev = tensor._m.device
        if isinstance(dev, devices.FakeDevice):
            if dev.number != self.number:
                raise AssertionError(f"Mixing fake modes NYI: {_mode_of(tensor)} vs {self}")
            return tensor
        found = self._known.get(id(tensor))
        if found is not None and found[0]() is tensor:
            return found[1]
        with _set_for_a_while(None), no_grad():
            out = self._described(tensor)
        key = id(tensor)
        self._known[key] = (weakref.ref(tensor, lambda _: self._known.pop(key, None)), out)
        return out

    def _described(self, t: Any) -> Tensor:
        base = t._base
        al = t._al
        if base is None or al.conj or al.neg or base._m.dtype is not t._m.dtype:
            out = self._copy(t, t._m.device)
        else:
            whole = self.from_tensor(base)
            out = whole.as_strided(t._m.shape, t._m.strides, storage_offset(t))
        if not requires_grad_of(t):
            return out.detach() if out._rg else out
        if t.is_leaf:
            out._rg = True
            return out
        out = out.detach().requires_grad_()
        MODES.bits |= GRAD  # what it is computed from is not known, but that it is
        return out.clone()

    def _copy(self, t: Tensor, real: devices.device) -> Any:
        """A tensor as `t`, without data, said to be on `real`."""
        dev = devices.fake(devices.device(real), self.number, self.allow_non_fake_inputs)
        st = self._storages.get(t._st)
        own = False
        if st is None or st.meta.device is not dev:
            own, m = True, t._st.meta.like(device=dev)
            st = self._storages[t._st] = Storage(AbstractArray(m.shape, m.dtype.np), m)
        al = t._al
        flags = {} if al is None else {"conj": al.conj, "neg": al.neg}
        m = t._m.like(device=dev)
        out = on_storage(st, m, storage_offset(t), direct=is_direct(t), own=own, **flags)
        return retyped(out, type(t))


def _check_static(fn: str, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(
                f"{fn}(): {name}={value!r} is not supported: shapes are numbers here, not symbols"
            )


def _set(mode: FakeTensorMode | None) -> None:
    MODES.own |= {"fake": mode, "bits": MODES.bits & ~FAKE | (0 if mode is None else FAKE)}


@contextmanager
def _set_for_a_while(mode: FakeTensorMode | None) -> Generator[FakeTensorMode | None, None, None]:
    before = MODES.fake
    try:
        _set(mode)
        yield before
    finally:
        restore(_set, before)


def unset_fake_temporarily() -> contextlib.AbstractContextManager[FakeTensorMode | None]:
    """Inside, new tensors have data again; gives the mode that was running.

    Example:
        >>> import torchgrad_jax as torch
        >>> with FakeTensorMode(), unset_fake_temporarily():
        ...     torch.ones(2)
        tensor([1., 1.])
    """
    return _set_for_a_while(None)


def is_fake(x: object) -> bool:
    """Return whether `x` is a fake tensor.

    Example:
        >>> is_fake(3)
        False
    """
    return isinstance(x, FakeTensor)


def maybe_get_fake_mode(t: object) -> FakeTensorMode | None:
    """The mode of a fake tensor; None for anything else."""
    return _mode_of(t) if isinstance(t, Tensor) and is_fake(t) else None


def _fake_device(t: Tensor) -> devices.FakeDevice:
    dev = t._m.device
    if not isinstance(dev, devices.FakeDevice):
        raise AttributeError(f"'{type(t).__name__}' object has no attribute 'fake_mode'")
    return dev


def _mode_of(t: Tensor) -> FakeTensorMode:
    """The mode that a fake tensor belongs to."""
    dev = _fake_device(t)
    mode = _modes[dev.number]()
    if mode is None:  # nobody kept it: another one takes its place
        mode = FakeTensorMode(allow_non_fake_inputs=dev.mixes)
        _modes[mode.number] = _gone
        mode.number = dev.number
        _modes[dev.number] = weakref.ref(mode)
    return mode


class _Nobody:
    """Something to have a dead reference to."""


_gone: Any = weakref.ref(_Nobody())


def _install() -> None:
    """Give Tensor the attributes of fake tensors, which others do not have."""
    if "fake_mode" not in Tensor.__dict__:
        facts = {"fake_mode": _mode_of, "fake_device": lambda t: _fake_device(t).real}
        for name, of in facts.items():
            setattr(Tensor, name, AttributeOfSome(name, of))


FakeTensorConverter = refusal(
    "torch._subclasses.fake_tensor.FakeTensorConverter",
    "tensors made in a FakeTensorMode are fake; mode.from_tensor makes one of a tensor",
    NotImplementedError,
)
