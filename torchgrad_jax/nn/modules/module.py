"""The base class of all layers and models."""

from __future__ import annotations

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from ..._bridge.compile.watch.code_that_reads import not_looked_at
from ..._bridge.compile.watch.observer import looks_at, tell_of_calls
from ..._bridge.jax_side import modules as _pytrees
from ..._core.errors.messages import NO_SCRIPT
from ..._core.state import MODES, UNDER_JAX
from ..._engine.memory.escapes import hold_outside, refuse_escape
from ..._engine.memory.kept_traces import made_inside, watch
from ..._engine.memory.tensor import Tensor, born
from ..._functions.misc import typename
from ..parameter import Buffer, Parameter
from . import _hooks
from ._conversion import Conversion
from ._hook_registration import HookRegistration
from ._hooks import (
    _WrappedHook as _WrappedHook,
    backward as _global_backward_hooks,
    backward_pre as _global_backward_pre_hooks,
    buffer_registration as _global_buffer_registration_hooks,  # noqa: F401
    forward as _global_forward_hooks,
    forward_always_called as _global_forward_hooks_always_called,  # noqa: F401
    forward_pre as _global_forward_pre_hooks,
    module_registration as _global_module_registration_hooks,  # noqa: F401
    parameter_registration as _global_parameter_registration_hooks,  # noqa: F401
    register_module_backward_hook as register_module_backward_hook,
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
    register_module_forward_hook as register_module_forward_hook,
    register_module_forward_pre_hook as register_module_forward_pre_hook,
    register_module_full_backward_hook as register_module_full_backward_hook,
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
    register_module_module_registration_hook as register_module_module_registration_hook,
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from ._loading import EXTRA_STATE, _IncompatibleKeys as _IncompatibleKeys
from ._state_dict import StateDict

__all__ = [
    "Module", "register_module_backward_hook", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

T = TypeVar("T", bound="Module")
_EXTRA_STATE_KEY_SUFFIX = EXTRA_STATE  # under torch's name

_HOOK_CONTAINERS = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip


def _addindent(text: str, width: int) -> str:
    """All lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * width)


def _forward_unimplemented(self: Any, *input: Any) -> None:
    """Compute what the module is for; subclasses define it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__torch_function__")


class Module(Conversion, HookRegistration, StateDict):
    """Base class of layers and models: holds parameters, buffers and other modules by name.

    Parameters, buffers and modules assigned to attributes are registered. Subclasses call
    ``super().__init__()`` first and define `forward`.

    Example:
        >>> import torchgrad_jax as torch
        >>> class Double(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = torch.nn.Parameter(torch.tensor(2.0))
        ...     def forward(self, x):
        ...         return x * self.factor
        >>> Double()(torch.ones(2)).tolist()
        [2.0, 2.0]
    """

    dump_patches: bool = False
    _version: int = 1
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _is_full_backward_hook: bool | None
    _forward_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_hooks_with_kwargs: OrderedDict[int, bool]
    _forward_hooks_always_called: OrderedDict[int, bool]
    _forward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _forward_pre_hooks_with_kwargs: OrderedDict[int, bool]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _modules: dict[str, Module | None]
    call_super_init: bool = False
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init:
            name = type(self).__name__
            if kwargs:
                raise TypeError(f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        # Assignments to attributes look into the containers that are only being made here.
        put = super().__setattr__
        # `UNDER_JAX` may be set only later on, when code inside calls a function of JAX's.
        if MODES.open_traces:
            made_inside(self)
        put("training", True)
        put("_parameters", {})
        put("_buffers", {})
        put("_non_persistent_buffers_set", set())
        put("_is_full_backward_hook", None)
        for container in _HOOK_CONTAINERS:
            put(container, OrderedDict())
        put("_modules", {})
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _pytrees.register(cls)

    forward: Callable[..., Any] = _forward_unimplemented

    # --- registration -----------------------------------------------------------------------------

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer: a tensor that belongs to the module and is no parameter.

        Args:
            name: the attribute under which it is found.
            tensor: the buffer, or None to reserve the name.
            persistent: whether it is part of `state_dict`.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not _is_tensor_like(tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        for hook in _hooks.buffer_registration.values():
            new = hook(self, name, tensor)
            tensor = tensor if new is None else new
        if MODES.bits & UNDER_JAX:
            self._refuse_traced(self._buffers.get(name), tensor)
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter.

        Args:
            name: the attribute under which it is found.
            param: the parameter, or None to reserve the name.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                f"express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        for hook in _hooks.parameter_registration.values():
            new = hook(self, name, param)
            param = param if new is None else new
        if MODES.bits & UNDER_JAX:
            self._refuse_traced(self._parameters.get(name), param)
        self._parameters[name] = param

    def _refuse_traced(self, old: Any, new: Any) -> None:
        """Refuse to put a tensor that JAX traces in the place of `old`, where that (or the module) is from outside.

        How old a module is its other tensors tell.
        """
        around = [*self._parameters.values(), *self._buffers.values()] if old is None else [old]
        made = [born(t) for t in around if isinstance(t, Tensor)]
        refuse_escape(made, [new._st.array] if isinstance(new, Tensor) else [], "replace")
        if isinstance(new, Tensor) and made:
            hold_outside(min(made), new)

    def _check_name(self, kind: str, name: Any, mine: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in mine:
            raise KeyError(f"attribute '{name}' already exists")

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule.

        Args:
            name: the attribute under which it is found.
            module: the submodule, or None to reserve the name.
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if not isinstance(name, str):
            raise TypeError(f"module name should be a string. Got {typename(name)}")
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError('module name can\'t be empty string ""')
        self._modules[name] = self._announce(name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a module, as `add_module` does."""
        self.add_module(name, module)

    def _announce(self, name: str, module: Any) -> Any:
        """Return what the global hooks make of a module about to be registered."""
        for hook in _hooks.module_registration.values():
            new = hook(self, name, module)
            module = module if new is None else new
        return module

    # --- attributes -------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for container in ("_parameters", "_buffers", "_modules"):
            held = own.get(container)
            if held is not None and name in held:
                return held[name]
        said = f"'{type(self).__name__}' object has no attribute '{name}'"
        raise AttributeError(said + NO_SCRIPT.get(name, ""))

    def __setattr__(self, name: str, value: Any) -> None:
        if MODES.bits & UNDER_JAX:
            watch(self)
        own = self.__dict__
        params = own.get("_parameters")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            _forget(name, own, self._buffers, self._modules, self._non_persistent_buffers_set)
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
            return
        modules = own.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            _forget(name, own, self._parameters, self._buffers, self._non_persistent_buffers_set)
            modules[name] = self._announce(name, value)
        elif modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = self._announce(name, value)
        else:
            buffers = own.get("_buffers")
            if isinstance(value, Buffer) or (buffers is not None and name in buffers):
                self._assign_buffer(name, value)
            else:
                super().__setattr__(name, value)

    def _assign_buffer(self, name: str, value: Any) -> None:
        if value is not None and not _is_tensor_like(value):
            raise TypeError(
                f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)"
            )
        if isinstance(value, Buffer):
            persistent = value.persistent  # type: ignore[attr-defined]
        else:
            persistent = name not in self._non_persistent_buffers_set
        # A subclass may have a register_buffer of its own that does not know of persistence.
        if "persistent" in inspect.signature(self.register_buffer).parameters:
            self.register_buffer(name, value, persistent)
        elif persistent:
            self.register_buffer(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() without "
                "the persistent argument is not allowed."
            )

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        held = [*self._parameters, *self._modules, *self._buffers]
        names = [*dir(type(self)), *self.__dict__, *held]
        return sorted(n for n in names if not n[0].isdigit())

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # `UNDER_JAX` may be set only later on, when code inside calls a function of JAX's.
        if MODES.open_traces:
            made_inside(self)
        self.__dict__.update(state)
        # Pickles of older versions lack what came later.
        for container in _HOOK_CONTAINERS:
            self.__dict__.setdefault(container, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # --- finding things ---------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """Return the module at a dotted path below this one; this one itself for "".

        Args:
            target: the path, such as ``"encoder.layers.0"``.
        """
        found: Any = self
        for item in target.split(".") if target else ():
            if not hasattr(found, item):
                raise AttributeError(f"{found._get_name()} has no attribute `{item}`")
            found = getattr(found, item)
            if not isinstance(found, Module):
                raise AttributeError(f"`{item}` is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path below this one.

        Args:
            target: the path.
            module: what to put there.
            strict: whether something must be there already.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, last = target.rpartition(".")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, last):
            raise AttributeError(f"{parent._get_name()} has no attribute `{last}`")
        if hasattr(parent, last) and not isinstance(getattr(parent, last), Module):
            raise AttributeError(f"`{last}` is not an nn.Module")
        setattr(parent, last, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted path below this module.

        Args:
            target: the path, such as ``"fc.weight"``.
        """
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        found = getattr(parent, name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted path below this module.

        Args:
            target: the path, such as ``"bn.running_mean"``.
        """
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if name not in parent._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(parent, name)

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        modules: Any = ((prefix, self),)
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters.

        Args:
            recurse: whether those of submodules are included.
        """
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with their dotted names.

        Args:
            prefix: what all names begin with.
            recurse: whether those of submodules are included.
            remove_duplicate: whether one that has several names comes only once.
        """
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers.

        Args:
            recurse: whether those of submodules are included.
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with their dotted names; the arguments are those of `named_parameters`."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        """Yield the modules directly below."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield the modules directly below, with their names."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with their dotted names.

        Args:
            memo: modules that are left out; those that come are added.
            prefix: the name of this module.
            remove_duplicate: whether one that has several names comes only once.
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    # --- applying a function ----------------------------------------------------------------------

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Call a function with every module below, then with this one.

        Args:
            fn: the function.
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # --- calling ----------------------------------------------------------------------------------

    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if MODES.bits & UNDER_JAX:
            watch(self)
        if not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or _global_forward_hooks
            or _global_forward_pre_hooks
            or _global_backward_hooks
            or _global_backward_pre_hooks
        ):
            return self.forward(*args, **kwargs)
        return _hooks.call(self, self.forward, args, kwargs)

    __call__: Callable[..., Any] = _wrapped_call_impl

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's calls in place; the arguments are those of `compile`."""
        package = sys.modules[__name__.partition(".")[0]]
        compile_ = getattr(package, "compile", None)
        if compile_ is None:
            raise NotImplementedError("torchgrad_jax does not implement torch.compile, which Module.compile needs")
        self._compiled_call_impl = compile_(self._call_impl, *args, **kwargs)

    # --- texts ------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what the repr says about this module besides its submodules; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        below = [f"({k}): {_addindent(repr(m), 2)}" for k, m in self._modules.items()]
        if not below and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        inner = "\n  ".join([*lines, *below])
        return f"{self._get_name()}(\n  {inner}\n)"


_pytrees.register_base(
    Module,
    {
        **dict.fromkeys(_HOOK_CONTAINERS, OrderedDict),
        **dict.fromkeys(("_parameters", "_buffers", "_modules"), dict),
        "_non_persistent_buffers_set": set,
    },
)


def _forget(name: str, *containers: Any) -> None:
    """Take a name out of wherever it is."""
    for held in containers:
        if name in held:
            if isinstance(held, dict):
                del held[name]
            else:
                held.discard(name)


tell_of_calls(Module._wrapped_call_impl)
not_looked_at(Module._call_impl, Module.__getattr__, Module.__setattr__, Module.add_module)
looks_at(Module.add_module, "_modules")
