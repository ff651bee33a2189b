"""The base class of all layers and models."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, overload

from ..._engine.tensor import Tensor
from ..._functions.convert import parse_to
from ..._functions.create import empty_like
from ..._functions.misc import typename
from ...autograd.grad_mode import no_grad
from ...utils.hooks import RemovableHandle
from ..parameter import Buffer, Parameter
from . import _hooks, _loading
from ._hooks import (
    _WrappedHook as _WrappedHook,
    backward as _global_backward_hooks,
    backward_pre as _global_backward_pre_hooks,
    buffer_registration as _global_buffer_registration_hooks,  # noqa: F401
    forward as _global_forward_hooks,
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
from ._loading import EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

T = TypeVar("T", bound="Module")

_HOOK_CONTAINERS = (
    "_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
)  # fmt: skip

_REPORT = (
    " that should never be called. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml to report this bug."
)


def _addindent(text: str, width: int) -> str:
    """All lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * width)


def _forward_unimplemented(self: Any, *input: Any) -> None:
    """What the module computes; subclasses define it."""
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


def _is_tensor_like(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "__torch_function__")


class Module:
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
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        # Assignments to attributes look into the containers that are only being made here.
        put = super().__setattr__
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
        self._parameters[name] = param

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
        """The same as `add_module`."""
        self.add_module(name, module)

    def _announce(self, name: str, module: Any) -> Any:
        """What the global hooks make of a module about to be registered."""
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
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
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
        self.__dict__.update(state)
        # Pickles of older versions lack what came later.
        for container in _HOOK_CONTAINERS:
            self.__dict__.setdefault(container, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # --- finding things ---------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The module at a dotted path below this one; this one itself for "".

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
        """The parameter at a dotted path below this module.

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
        """The buffer at a dotted path below this module.

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
        self, get_members_fn: Callable[[Module], Any], prefix: str = "", recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
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
        """The parameters.

        Args:
            recurse: whether those of submodules are included.
        """
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted names.

        Args:
            prefix: what all names begin with.
            recurse: whether those of submodules are included.
            remove_duplicate: whether one that has several names comes only once.
        """
        yield from self._named_members(
            lambda m: m._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers.

        Args:
            recurse: whether those of submodules are included.
        """
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their dotted names; the arguments are those of `named_parameters`."""
        yield from self._named_members(
            lambda m: m._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator[Module]:
        """The modules directly below."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below, with their names."""
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

    # --- changing all of it -----------------------------------------------------------------------

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Call a function with every module below, then with this one.

        Args:
            fn: the function.
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self: T, fn: Callable[[Any], Any], recurse: bool = True) -> T:
        """Replace the data of every parameter, gradient and buffer by what `fn` makes of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            with no_grad():
                param.data = fn(param)
            grad = param.grad
            if grad is not None:
                with no_grad():
                    grad.data = fn(grad)
        for key, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[key] = fn(buffer)
        return self

    def cuda(self: T, device: Any = None) -> T:
        """Move everything to a GPU.

        Args:
            device: which one; by default the current one.
        """
        return self._apply(lambda t: t.cuda(device))

    def cpu(self: T) -> T:
        """Move everything to the CPU."""
        return self._apply(lambda t: t.cpu())

    def xpu(self: T, device: Any = None) -> T:
        """There are no XPU devices here; asks the tensors and lets them complain."""
        return self._apply(lambda t: t.xpu(device))

    def ipu(self: T, device: Any = None) -> T:
        """There are no IPU devices here; asks the tensors and lets them complain."""
        return self._apply(lambda t: t.ipu(device))

    def mtia(self: T, device: Any = None) -> T:
        """There are no MTIA devices here; asks the tensors and lets them complain."""
        return self._apply(lambda t: t.mtia(device))

    def type(self: T, dst_type: Any) -> T:
        """Make everything, integers included, a dtype.

        Args:
            dst_type: the dtype, or the name of a type of tensors.
        """
        return self._apply(lambda t: t.type(dst_type))

    def float(self: T) -> T:
        """Make all floating-point parameters and buffers float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self: T) -> T:
        """Make all floating-point parameters and buffers float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self: T) -> T:
        """Make all floating-point parameters and buffers float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self: T) -> T:
        """Make all floating-point parameters and buffers bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        """Move everything to a device without keeping the values.

        Args:
            device: where to.
            recurse: whether submodules move too.
        """
        return self._apply(lambda t: empty_like(t, device=device), recurse=recurse)

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Change the device, the dtype of floating-point and complex values, or the memory format.

        Call it as ``to(device, dtype)``, ``to(dtype)``, ``to(tensor)`` or ``to(memory_format=...)``.

        Returns:
            This module, changed in place.
        """
        device, dtype, kind = parse_to(args, kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(
                    f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}"
                )
            if dtype.is_complex:
                warnings.warn(
                    "Complex modules are a new feature under active development whose design may change, and some "
                    "modules might not work as expected when using complex tensors as parameters or buffers. Please "
                    "file an issue at https://github.com/pytorch/pytorch/issues/new?template=bug-report.yml if a "
                    "complex module does not work as expected.",
                    stacklevel=2,
                )

        def convert(t: Any) -> Any:
            new = dtype if t.is_floating_point() or t.is_complex() else None
            if kind is not None and t.dim() in (4, 5):
                return t.to(device, new, memory_format=kind)
            return t.to(device, new)

        return self._apply(convert)

    def train(self: T, mode: bool = True) -> T:
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

    def eval(self: T) -> T:
        """Put this module and all below it into evaluation mode."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
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
            warnings.warn(
                "Calling .zero_grad() from a module created with nn.DataParallel() has no effect. The parameters are "
                "copied (in a differentiable manner) from the original module. This means they are not leaf nodes in "
                "autograd and so don't accumulate gradients. If you need gradients in your forward method, consider "
                "using autograd.grad instead.",
                stacklevel=2,
            )
        for param in self.parameters():
            grad = param.grad
            if grad is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if grad.grad_fn is not None:
                grad.detach_()
            else:
                grad.requires_grad_(False)
            grad.zero_()

    def share_memory(self: T) -> T:
        """Tell all tensors that they are shared between processes."""
        return self._apply(lambda t: t.share_memory_())

    # --- calling ----------------------------------------------------------------------------------

    def _wrapped_call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if not (
            self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks
            or _global_forward_hooks or _global_forward_pre_hooks
            or _global_backward_hooks or _global_backward_pre_hooks
        ):  # fmt: skip
            return self.forward(*args, **kwargs)
        return _hooks.call(self, self.forward, args, kwargs)

    __call__: Callable[..., Any] = _wrapped_call_impl

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's calls in place; the arguments are those of `compile`."""
        package = sys.modules[__name__.partition(".")[0]]
        compile_ = getattr(package, "compile", None)
        if compile_ is None:
            raise NotImplementedError(
                "torchgrad_jax does not implement torch.compile, which Module.compile needs"
            )
        self._compiled_call_impl = compile_(self._call_impl, *args, **kwargs)

    # --- hooks ------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before every forward; it may return new arguments.

        Args:
            hook: what to call.
            prepend: whether it comes before the hooks that are there.
            with_kwargs: whether it gets and may return the keyword arguments too.
        """
        handle = _register(
            self._forward_pre_hooks, hook, prepend, self._forward_pre_hooks_with_kwargs
        )
        if with_kwargs:
            self._forward_pre_hooks_with_kwargs[handle.id] = True
        return handle

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:  # fmt: skip
        """Call ``hook(module, args, output)`` after every forward; it may return a new output.

        Args:
            hook: what to call.
            prepend: whether it comes before the hooks that are there.
            with_kwargs: whether it gets the keyword arguments too, before the output.
            always_call: whether it is called even when the forward raises.
        """
        handle = _register(
            self._forward_hooks, hook, prepend,
            [self._forward_hooks_with_kwargs, self._forward_hooks_always_called],
        )  # fmt: skip
        if with_kwargs:
            self._forward_hooks_with_kwargs[handle.id] = True
        if always_call:
            self._forward_hooks_always_called[handle.id] = True
        return handle

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` once the gradients of the outputs are there.

        Args:
            hook: what to call; it may return new gradients.
            prepend: whether it comes before the hooks that are there.
        """
        return _register(self._backward_pre_hooks, hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` once the gradients of the inputs are there.

        Args:
            hook: what to call; it may return new gradients of the inputs.
            prepend: whether it comes before the hooks that are there.
        """
        self._choose_backward_hooks(True)
        return _register(self._backward_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older kind of `register_full_backward_hook`, which sees the last node only.

        Args:
            hook: what to call.
        """
        self._choose_backward_hooks(False)
        return _register(self._backward_hooks, hook)

    def _choose_backward_hooks(self, full: bool) -> None:
        if self._is_full_backward_hook is not None and self._is_full_backward_hook is not full:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self._is_full_backward_hook = full

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        return _hooks.backward_hooks(self)

    def _get_backward_pre_hooks(self) -> list[Any]:
        return _hooks.backward_pre_hooks(self)

    def _maybe_warn_non_full_backward_hook(self, inputs: Any, result: Any, grad_fn: Any) -> None:
        _hooks.warn_about_older(inputs, result, grad_fn)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the state of this module is collected.

        Args:
            hook: what to call.
        """
        return _register(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after the state was collected.

        Args:
            hook: what to call; it changes the dictionary in place and returns None.
        """
        hook._from_public_api = True  # type: ignore[attr-defined]
        return _register(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was previously registered via "
                "register_state_dict_post_hook"
            )
        return _register(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call a hook before a state is loaded into this module.

        Args:
            hook: called with the module, the state, the prefix, the metadata, `strict`, and the lists
                of missing keys, unexpected keys and error messages.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        wrapped = _WrappedHook(hook, self if with_module else None)
        return _register(self._load_state_dict_pre_hooks, wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after a state was loaded.

        Args:
            hook: what to call; it may change the lists in place.
        """
        return _register(self._load_state_dict_post_hooks, hook)

    # --- state ------------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """What else belongs to `state_dict`; subclasses define it together with `set_extra_state`."""
        raise RuntimeError(f"Reached a code path in Module.get_extra_state(){_REPORT}")

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave.

        Args:
            state: what it gave.
        """
        raise RuntimeError(f"Reached a code path in Module.set_extra_state(){_REPORT}")

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, value in _loading.own_state(self).items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if _loading.overrides(self, "get_extra_state", Module.get_extra_state):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    @overload
    def state_dict(
        self, *, destination: dict[str, Any], prefix: str = ..., keep_vars: bool = ...
    ) -> dict[str, Any]: ...
    @overload
    def state_dict(self, *, prefix: str = ..., keep_vars: bool = ...) -> dict[str, Any]: ...
    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The parameters and persistent buffers by their dotted names.

        Args:
            destination: a dictionary to put them into.
            prefix: what all names begin with.
            keep_vars: whether the tensors themselves are given, rather than detached ones.

        Example:
            >>> import torchgrad_jax as torch
            >>> list(torch.nn.Linear(2, 3).state_dict())
            ['weight', 'bias']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            if destination is None:
                destination = args[0]
            if len(args) > 1 and prefix == "":
                prefix = args[1]
            if len(args) > 2 and keep_vars is False:
                keep_vars = args[2]
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            new = hook(self, destination, prefix, metadata)
            if new is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = new
        return destination

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        args = (
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )
        for hook in self._load_state_dict_pre_hooks.values():
            hook(*args)
        extra = _loading.overrides(self, "set_extra_state", Module.set_extra_state)
        _loading.load_own(self, *args, extra)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copy values from a `state_dict` into this module and all below it.

        Args:
            state_dict: tensors by dotted name.
            strict: whether the names must match exactly.
            assign: whether the tensors take the place of those here, instead of being copied.

        Returns:
            The names that were missing and those that were unexpected.

        Raises:
            RuntimeError: if shapes do not match, or names do not and `strict` is set.
        """
        return _loading.load(self, state_dict, strict, assign)

    # --- texts ------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What the repr says about this module besides its submodules; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        below = [f"({k}): {_addindent(repr(m), 2)}" for k, m in self._modules.items()]
        if not below and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        inner = "\n  ".join([*lines, *below])
        return f"{self._get_name()}(\n  {inner}\n)"


def _forget(name: str, *containers: Any) -> None:
    """Take a name out of wherever it is."""
    for held in containers:
        if name in held:
            if isinstance(held, dict):
                del held[name]
            else:
                held.discard(name)


def _register(
    hooks: Any, hook: Callable[..., Any], prepend: bool = False, extra: Any = None
) -> RemovableHandle:
    handle = RemovableHandle(hooks, extra_dict=extra)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle
