"""Parameters computed from others: what is trained is not what is used."""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from ..._core.signals import contextmanager
from ..._engine.memory.tensor import Tensor
from ...autograd.grad_mode import no_grad
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_enabled = 0
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Inside, each parametrized tensor is computed only once."""
    global _cache, _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _register_parameter_or_buffer(module: Module, name: str, x: Any) -> None:
    if isinstance(x, Parameter):
        module.register_parameter(name, x)
    else:
        module.register_buffer(name, x)


def _set(dest: Any, src: Any) -> None:
    """Make a tensor hold another's data, without changing its identity."""
    dest.set_(src)


def _compare(what: str, old: tuple[str, Any], new: tuple[str, Any], names: tuple[str, ...]) -> None:
    """Complain if two tensors differ in an attribute."""
    for name in names:
        a, b = getattr(old[1], name), getattr(new[1], name)
        if a != b:
            first, second = (label.format(name) for label in (old[0], new[0]))
            raise ValueError(f"{what.format(name)}\n{first}: {a}\n{second}: {b}")


_MAY_NOT = "Registering a parametrization may not change the {} of the tensor, unless"


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and the tensors that it is computed from.

    Args:
        modules: the parametrizations, the first one first.
        original: the tensor as it was.
        unsafe: whether shape and dtype may change.
    """

    original: Any
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before: Any = original.detach()
        new = self._invert(original)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got "
                f"{type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            _compare(
                "When `right_inverse` outputs one tensor, it may not change the {}.",
                ("original.{}", original),
                ("right_inverse(original).{}", new),
                ("dtype", "device"),
            )
            with no_grad():
                _set(original, new)
            _register_parameter_or_buffer(self, "original", original)
        else:
            self._register_several(original, new)
        if not unsafe:
            out = self()
            if not isinstance(out, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(out).__name__}.")
            _compare(
                f"{_MAY_NOT} `unsafe` flag is enabled.",
                ("unparametrized {}", before),
                ("parametrized {}", out),
                ("dtype", "shape"),
            )

    def _invert(self, value: Any) -> Any:
        """Return what the first parametrization is to be given, so that the last one gives `value`."""
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        pass
        return value

    def _register_several(self, original: Any, new: Any) -> None:
        for i, part in enumerate(new):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element "
                    f"{i} of the sequence with type {type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _register_parameter_or_buffer(self, f"original{i}", part)

    def right_inverse(self, value: Any) -> None:
        """Set the tensors that it is computed from so that it becomes a value.

        Args:
            value: what it shall be.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if not self.is_tensor:
                self._assign_several(value)
                return
            if not isinstance(value, Tensor):
                raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
            given: Any = value
            if given.dtype != self.original.dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {given.dtype} while `original` has dtype "
                    f"{self.original.dtype}"
                )
            _set(self.original, given)

    def _assign_several(self, value: Any) -> None:
        if not isinstance(value, Sequence):
            raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
        if len(value) != self.ntensors:
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                f"length {len(value)}."
            )
        for i, part in enumerate(value):
            held = getattr(self, f"original{i}")
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors or reference-type opaques. Got element "
                    f"{i} of type {type(part).__name__}."
                )
            new: Any = part
            if held.dtype != new.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {new.dtype} while `original{i}` has dtype "
                    f"{held.dtype}"
                )
            _set(held, new)

    def forward(self) -> Any:
        """The tensor, computed."""
        first, *rest = self
        if self.is_tensor:
            x = first(self.original)
        else:
            x = first(*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for module in rest:
            x = module(x)
        return x


# --- classes with the tensor as a property --------------------------------------------------------


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    found = memo.get(id(self))
    if found is not None:
        return found
    out = memo[id(self)] = self.__new__(type(self))
    out.__dict__ = deepcopy(self.__dict__, memo)
    for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
        if hasattr(self, slot):
            setattr(out, slot, deepcopy(getattr(self, slot), memo))
    return out


def _getstate(self: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _inject_new_class(module: Module) -> None:
    """Give a module a class of its own, which can have properties."""
    cls = type(module)
    body: dict[str, Any] = {"__module__": ParametrizationList.__module__, "__getstate__": _getstate}
    if not hasattr(cls, "__deepcopy__"):
        body["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), body)


def _inject_property(module: Module, tensor_name: str) -> None:
    """Make an attribute of a module compute its tensor."""
    if hasattr(module, tensor_name):
        raise AssertionError(f"Module already has an attribute named '{tensor_name}'")

    def get(self: Any) -> Any:
        compute = self.parametrizations[tensor_name]
        if not _cache_enabled:
            return compute()
        key = (id(self), tensor_name)
        if key not in _cache:
            _cache[key] = compute()
        return _cache[key]

    def set_(self: Any, value: Any) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, set_))


# --- public ---------------------------------------------------------------------------------------


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer of a module with another module, every time it is used.

    Args:
        module: where the tensor is.
        tensor_name: its name.
        parametrization: gives the tensor from the one that is trained. If it has a method
            `right_inverse`, that says what to train for a given tensor.
        unsafe: whether shape and dtype may change; nothing is checked then.

    Example:
        >>> import torchgrad_jax as torch
        >>> class Positive(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x.abs()
        >>> layer = register_parametrization(torch.nn.Linear(2, 2), "weight", Positive())
        >>> bool((layer.weight >= 0).all())
        True
    """
    parametrization.train(module.training)
    holder: Any = module
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        holder.parametrizations[tensor_name].append(parametrization)
        holder.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        made = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            holder.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        holder.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _check_further(module: Module, name: str, parametrization: Any) -> None:
    """Check that a further parametrization keeps shape and dtype."""
    y = getattr(module, name)
    x = parametrization(y)
    if not isinstance(x, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(x).__name__}.")
    _compare(
        f"{_MAY_NOT} the `unsafe` flag is enabled.",
        (f"module.{name}.{{}}", y),
        (f"parametrization(module.{name}).{{}}", x),
        ("dtype", "shape"),
    )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        z = parametrization.right_inverse(x)
    except NotImplementedError:
        return
    if not isinstance(z, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(z).__name__}")
    _compare(
        "The tensor returned by parametrization.right_inverse must have the same {} as "
        f"module.{name}, unless the `unsafe` flag is enabled.",
        (f"module.{name}.{{}}", y),
        ("returned {}", z),
        ("dtype", "shape"),
    )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module, or one tensor of it, is parametrized.

    Args:
        module: the module.
        tensor_name: the name of the tensor; None for any.
    """
    held = getattr(module, "parametrizations", None)
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary one again.

    Args:
        module: where the tensor is.
        tensor_name: its name.
        leave_parametrized: whether it keeps the computed value rather than the one that was trained.
    """
    holder: Any = module
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = holder.parametrizations[tensor_name]
    if held.is_tensor:
        original = held.original
        if leave_parametrized:
            with no_grad():
                _set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        # Recorded, since whether any of the originals is trained shows in the result.
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del holder.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized.

    Args:
        module: the module.
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Parametrize a module as another is, with the same tensors.

    Args:
        from_module: the parametrized module.
        to_module: the other.
        tensor_name: the name of one tensor; None for all.
    """
    if not is_parametrized(from_module):
        return to_module
    source: Any = from_module
    target: Any = to_module
    names = list(source.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        held = source.parametrizations[name]
        for parametrization in held:
            register_parametrization(to_module, name, parametrization)
        for key in ("original", *(f"original{i}" for i in range(held.ntensors))):
            if hasattr(held, key):
                setattr(target.parametrizations[name], key, getattr(held, key))
    return to_module
